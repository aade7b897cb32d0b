"""From a goal to a claim that anybody can draw again.

``planning`` and ``candidates`` settle a sweep, ``certificates`` one mechanism; ``run`` draws, ``sweeps`` goes from a
goal to a claim, ``documents`` writes it down, ``recompute`` trusts none of it.
"""
