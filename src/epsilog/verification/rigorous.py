"""A claim recomputed in ball arithmetic, where no constant of a library is assumed."""

from __future__ import annotations

import math

from epsilog.mechanisms import Release
from epsilog.terms import Finding, Guarantee, Status, UnsupportedMechanismError
from epsilog.terms.formatting import format_lower, format_upper

CELLS = 1 << 17


def check_rigorous(guarantee: Guarantee, release: Release, *, cells: int = CELLS) -> Finding:
    """Proves a claim again, from what is released alone: special functions, transforms and rounding are the library's.

    Args:
        guarantee: what is claimed.
        release: what is said to give it.
        cells: the most cells of a lattice, where one is needed.

    Raises:
        EpsilogError: the extra ``rigorous`` is not installed.
    """
    from epsilog.accounting.rigorous import prove_guarantee

    if not math.isfinite(guarantee.epsilon):
        return Finding("ball-arithmetic/not-applicable", Status.NOT_CHECKED, "No finite epsilon is claimed.")
    try:
        proof = prove_guarantee(
            release,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            relation=guarantee.relation,
            cells=cells,
        )
    except UnsupportedMechanismError as error:
        return Finding("ball-arithmetic/not-applicable", Status.NOT_CHECKED, f"Not proven in ball arithmetic: {error}.")
    claimed = (("claimed", guarantee.epsilon), ("delta", guarantee.delta), ("bits", float(proof.bits)))
    least = (("epsilon_upper", proof.epsilon_upper),) if math.isfinite(proof.epsilon_upper) else ()
    numbers = (*claimed, ("delta_upper", proof.delta_upper), *least)
    how = f"ball arithmetic ({'; '.join(proof.methods)})"
    if proof.holds:
        says = f"Proven in {how}: at epsilon {format_upper(guarantee.epsilon, 9)} delta is at most "
        says += (
            f"{format_upper(proof.delta_upper, 9)}, and {format_upper(guarantee.delta, 9)} is claimed. Assumed remain "
        )
        says += "the parameters of the claim, the pairs that dominate it, and Arb."
        return Finding("ball-arithmetic/proven", Status.PASSED, says, numbers)
    found = f"epsilon {format_upper(proof.epsilon_upper, 9)} is" if least else "no epsilon is"
    says = f"The claim of {format_lower(guarantee.epsilon, 9)} is not proven in {how}; {found}. "
    says += "More cells may prove more; the claim may hold all the same."
    return Finding("ball-arithmetic/not-proven", Status.WARNED, says, numbers)
