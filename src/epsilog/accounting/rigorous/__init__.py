"""Claims proven in ball arithmetic: special functions, transforms and rounding by Arb, and not assumed.

The accountant bounds its round-off by hand and assumes constants of libraries. This package assumes neither, shares
none of its numbers, and is slower. Needs the extra ``rigorous`` (python-flint), which nothing else imports.
"""

from epsilog.accounting.rigorous.proof import Proof, prove_guarantee

__all__ = ["Proof", "prove_guarantee"]
