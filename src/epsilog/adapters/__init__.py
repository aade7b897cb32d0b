"""Other libraries' words into ours and back, each imported when first used: ``import epsilog.adapters`` needs none.

``dp_accounting`` reads and writes events, ``opacus`` histories, ``flower`` the state of its accountants; each also has
a ``CertifiedAccountant`` that stands in for the library's own, answers with certified upper bounds, and says more on
request (``interval``). What has no counterpart is refused by name, never replaced by something near.
``flower_app`` is no accountant: it carries the rounds of a run to Flower's nodes. ``notebook`` brings sliders to
Jupyter.
"""
