"""A claim recomputed in ball arithmetic, where no constant of a library is assumed."""

from __future__ import annotations

import math

from epsilog.mechanisms import Release
from epsilog.terms import Finding, Guarantee, UnsupportedMechanismError, Verdict
from epsilog.terms.digits import lower_text, upper_text

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
    from epsilog.accounting.rigorous import prove

    if not math.isfinite(guarantee.epsilon):
        return Finding("rigorous/refused", Verdict.NOT_CHECKED, "No finite epsilon is claimed.")
    try:
        proof = prove(
            release,
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            relation=guarantee.relation,
            cells=cells,
        )
    except UnsupportedMechanismError as error:
        return Finding("rigorous/refused", Verdict.NOT_CHECKED, f"Not proven in ball arithmetic: {error}.")
    claimed = (("claimed", guarantee.epsilon), ("delta", guarantee.delta), ("bits", float(proof.bits)))
    least = (("epsilon_upper", proof.epsilon_upper),) if math.isfinite(proof.epsilon_upper) else ()
    numbers = (*claimed, ("delta_upper", proof.delta_upper), *least)
    how = f"ball arithmetic ({'; '.join(proof.methods)})"
    if proof.holds:
        says = f"Proven in {how}: at epsilon {upper_text(guarantee.epsilon, 9)} delta is at most "
        says += f"{upper_text(proof.delta_upper, 9)}, and {upper_text(guarantee.delta, 9)} is claimed. Assumed remain "
        says += "the parameters of the claim, the pairs that dominate it, and Arb."
        return Finding("rigorous/proven", Verdict.PASSED, says, numbers)
    found = f"epsilon {upper_text(proof.epsilon_upper, 9)} is" if least else "no epsilon is"
    says = f"The claim of {lower_text(guarantee.epsilon, 9)} is not proven in {how}; {found}. "
    says += "More cells may prove more; the claim may hold all the same."
    return Finding("rigorous/not-proven", Verdict.WARNED, says, numbers)
