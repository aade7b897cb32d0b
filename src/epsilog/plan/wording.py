"""What plans and reports say about their numbers."""

from __future__ import annotations

import math

from epsilog.terms import Finding, Interval, Verdict
from epsilog.terms.digits import lower_text, upper_text

_SEVERAL = "One unit may give several updates a round: this price does NOT cover that. Clip their sum as one update."
_LEARNT = "The clip norm is learnt from the data: its noisy count is one more release and is NOT in this price."
_FIXED = "The clip norm is fixed beforehand, or learnt from public data only."
_TRUSTED = (
    "The server adds the noise and is trusted; it has no guarantee against itself. Client losses, counts and private "
    "evaluations that are shown are further releases."
)


def formula_sentence(total: float, certified: Interval) -> str:
    """Says whether the popular closed form under- or over-reports, against the certified interval.

    Args:
        total: what the formula says, in nats.
        certified: the interval for the same schedule.
    """
    if math.isinf(total) and math.isinf(certified.upper):
        return "Without noise there is no privacy: both are infinite."
    if total < certified.lower:
        factor = certified.lower / total if total > 0 else math.inf
        least = lower_text(certified.lower)
        return (
            f"The closed form under-reports: it says {total:.4g} where the loss is at least {least} "
            f"({factor:.3g} times as much). It is no bound and is never charged."
        )
    most = upper_text(certified.upper)
    if total < certified.upper:
        return (
            f"The closed form says {total:.4g}, below the certified bound of {most}: "
            "it may not be claimed, and is never charged."
        )
    return f"The closed form says {total:.4g}, above the certified bound of {most}: it over-reports here."


def delta_sentence(delta: float, population: int) -> tuple[str, str]:
    """Grades a delta against the population: ("void" | "weak" | "good", one sentence).

    A mechanism that publishes the record of one unit picked at random meets delta = 1/N.

    >>> delta_sentence(1e-6, 50_000)[0]
    'good'
    """
    share = 1 / population
    if delta >= share:
        meets = "publishing the record of a unit picked at random meets it"
        return "void", f"delta {delta:g} is not below 1/N = {share:g}: {meets}."
    if delta > share / 10:
        return "weak", f"delta {delta:g} is below 1/N = {share:g}, but by less than a factor of ten."
    return "good", f"delta {delta:g} is well below 1/N = {share:g}."


def limits(
    *, sampling: str, without_replacement: bool, rounds_per_release: int, adaptive_clip: bool, privacy_unit: str
) -> tuple[Finding, ...]:
    """What a federated calculation covers (passed) and what it does not (warned), for the record.

    Args:
        sampling: "poisson", "fixed-size" or "balls-in-bins".
        without_replacement: whether one unit gives at most one update a round.
        rounds_per_release: rounds between two models that leave the server.
        adaptive_clip: whether the clip norm is learnt from the same data.
        privacy_unit: what one neighbour differs in.
    """
    scheme = {
        "poisson": "every unit joins each round by its own coin; nobody is drawn again to fill a round",
        "fixed-size": "every round draws exactly m units, each set equally likely",
        "balls-in-bins": "every unit is put into one round of each epoch, the same one throughout",
    }[sampling]
    covers = (
        f"Covers what anyone learns from the models about one {privacy_unit}, as long as {scheme} and who took part "
        "stays hidden. Against whoever knows who took part, only the unamplified number holds."
    )
    return (
        Finding("limits/participation-hidden", Verdict.PASSED, covers),
        Finding("limits/one-update", Verdict.PASSED, "One unit gives at most one clipped update a round.")
        if without_replacement
        else Finding("limits/several-updates", Verdict.WARNED, _SEVERAL),
        Finding("limits/models-published", Verdict.PASSED, _published(rounds_per_release)),
        Finding("limits/clip-learnt", Verdict.WARNED, _LEARNT)
        if adaptive_clip
        else Finding("limits/clip-fixed", Verdict.PASSED, _FIXED),
        Finding("limits/server-trusted", Verdict.PASSED, _TRUSTED),
    )


def _published(rounds_per_release: int) -> str:
    if rounds_per_release == 1:
        return "Every round's model may be published; that is what is priced."
    return f"A model leaves the server every {rounds_per_release} rounds; all rounds are priced all the same."
