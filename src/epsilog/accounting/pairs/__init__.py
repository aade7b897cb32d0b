"""From releases to dominating pairs: mechanism by mechanism, and for groups.

Where to look: ``dominating`` reads a release part by part and asks ``noise``, ``responses`` (and statements),
``selection``, ``products`` (several on one sample), ``sampling`` and ``replace_one``. What they share is ``reach``:
what stands for laws that doubles cannot hold. ``groups`` has pairs of its own.
"""
