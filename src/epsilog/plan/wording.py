"""What plans and reports say about their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epsilog.terms import Finding, Interval, Verdict, check
from epsilog.terms.digits import lower_text, upper_text

_SEVERAL = "One unit may give several updates a round: this price does NOT cover that. Clip their sum as one update."
_LEARNT = "The clip norm is learnt from the data: its noisy count is one more release and is NOT in this price."
_FIXED = "The clip norm is fixed beforehand, or learnt from public data only."
_LATE = {
    "zero": (
        "limits/late-replies",
        "A late or missing reply counts as a zero update. m counts all who are invited, those who will not reply too: "
        "q is m/N, and a lower share that was observed may never be claimed, since who replies may depend on the data. "
        "Who opts out, or is away, is in fewer rounds and loses no more.",
    ),
    "first": (
        "limits/round-closes-early",
        "The round closes once enough have replied, so that one unit's reply keeps another's out: the sum then moves "
        "by up to two clip norms, and NOT by the one that is priced. Wait, and count those who stay away as zero.",
    ),
    "again": (
        "limits/invited-again",
        "Others are invited in the place of those who do not reply: the chance to be in a round is then above m/N, and "
        "one unit's reply keeps another's out. This price does NOT cover that. Invite more from the start, count them "
        "all in m, and those who stay away as zero.",
    ),
}
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


def average_sentence(said: tuple[float, float] | None, certified: Interval) -> str:
    """Says that nothing is averaged, and where averages would have led: (the closed form there, the price there).

    Args:
        said: the closed form at the averages, and the price of a constant run at them; None where there are none.
        certified: the interval of the schedule as it changes.
    """
    if math.isinf(certified.upper):
        return "Without noise in every stretch there is no privacy."
    undefined = "The closed form is for one q and one sigma, and these change: it says nothing here."
    if said is None:
        return undefined
    formula, price = said
    off = f"At their averages it would say {formula:.4g}, and a constant run would cost {price:.4g}"
    if price < certified.lower:
        factor = certified.lower / price if price > 0 else math.inf
        least = f"the loss is at least {lower_text(certified.lower)} ({factor:.3g} times the latter)"
        return f"{undefined} {off}, where {least}. Averages are never charged."
    return f"{undefined} {off}: the price of another run than this one. Averages are never charged."


def neighbors_sentence(privacy_unit: str, populations: Sequence[int], enrolled: int) -> str:
    """Says what neighbours differ in where the population changes between stretches, and what delta is held against.

    >>> neighbors_sentence("client", [900, 900], 900)
    'Neighbours differ in one client, in all stretches at once.'
    """
    says = f"Neighbours differ in one {privacy_unit}, in all stretches at once"
    low, high = min(populations), max(populations)
    if low == high == enrolled:
        return f"{says}."
    stays = "one that joins late or leaves early is in fewer of them and loses no more"
    against = f"{says}; {stays}. Delta is held against 1/{enrolled}"
    if enrolled > high:
        return f"{against}, the units enrolled over all stretches."
    return (
        f"{against}, the largest N, and so is below 1/N in every stretch. That counts all who took part where units "
        "only joined, or only left; where some left and others came, state how many there were in all (enrolled)."
    )


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
    *,
    sampling: str,
    without_replacement: bool,
    rounds_per_release: int,
    adaptive_clip: bool,
    privacy_unit: str,
    late_replies: str = "zero",
) -> tuple[Finding, ...]:
    """What a federated calculation covers (passed) and what it does not (warned), for the record.

    Args:
        sampling: "poisson", "fixed-size" or "balls-in-bins".
        without_replacement: whether one unit gives at most one update a round.
        rounds_per_release: rounds between two models that leave the server.
        adaptive_clip: whether the clip norm is learnt from the same data.
        privacy_unit: what one neighbour differs in.
        late_replies: "zero", "first" or "again": what becomes of late or missing replies.
    """
    code, late = _LATE[check.one_of(tuple(_LATE))(late_replies=late_replies)]
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
        Finding(code, Verdict.PASSED if late_replies == "zero" else Verdict.WARNED, late),
        Finding("limits/server-trusted", Verdict.PASSED, _TRUSTED),
    )


def _published(rounds_per_release: int) -> str:
    if rounds_per_release == 1:
        return "Every round's model may be published; that is what is priced."
    return f"A model leaves the server every {rounds_per_release} rounds; all rounds are priced all the same."
