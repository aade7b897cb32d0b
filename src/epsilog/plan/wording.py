"""What plans and reports say about their numbers: one sentence for one thing, wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from epsilog.terms import Finding, Interval, Verdict, check
from epsilog.terms.digits import lower_text, upper_text

__all__ = [
    "BETTER",
    "OF_COPIES",
    "OF_ONE_RUN",
    "OF_RELEASES",
    "PRIORS",
    "attack_label",
    "claim_sentence",
    "copies_rows",
    "delta_sentence",
    "factor_text",
    "formula_sentence",
    "limits",
    "odds_sentence",
    "of_attacks",
    "of_copies",
    "posterior",
    "prior_text",
    "query_limits",
    "reading_rows",
    "share_text",
]


# a claim in one sentence, and how it stands to the policy

OF_RELEASES = (
    "Several such releases, each with randomness of its own, cost more than one, whoever makes them; what each of them "
    "was told may depend on those before."
)
OF_ONE_RUN = "This is of one run alone; the best of several costs more, and its price is told by itself."
MOST_LOG = 700.0  # of a factor that is told


def claim_sentence(
    epsilon: float,
    delta: float,
    *,
    relation: str | None,
    privacy_unit: str,
    population: int | None,
    subject: str = "released models",
    simulation: bool = False,
) -> str:
    """The claim in one sentence, with everything that gives it meaning; of a simulation, what it would be.

    Args:
        epsilon: the certified upper bound, in nats; infinite where nothing is promised.
        delta: the failure probability, in [0, 1); 0 is left unsaid.
        relation: which data sets are neighbours; None for those that a sensitivity is stated for.
        privacy_unit: what one neighbour differs in.
        population: how many such units there are; None where that is not stated.
        subject: what keeps the claim, in the plural.
        simulation: whether randomness was seeded.

    >>> claim_sentence(1.0, 0.0, relation=None, privacy_unit="person", population=None, subject="answers")[:46]
    'The answers are 1-differentially private: data'
    """
    counted = "" if population is None else f" (N = {population:,})"
    if not math.isfinite(epsilon):
        return f"No differential-privacy guarantee is claimed for one {privacy_unit}{counted}."
    bound, at = upper_text(epsilon), upper_text(delta)
    neighbours = {
        "add-or-remove-one": f"adding or removing one {privacy_unit}",
        "replace-one": f"replacing one {privacy_unit} by another",
        "zero-out": f"zeroing out one {privacy_unit}",
        None: f"data that differ in one {privacy_unit}",
    }[relation]
    if simulation:
        start, are, makes = (
            "Simulated, so the noise protects nobody. With fresh randomness the",
            "would be",
            "would make",
        )
    else:
        start, are, makes = "The", "are", "make" if relation is None else "makes"
    pair, plus = (f"({bound}, {at})", f", plus {at}") if delta > 0 else (bound, "")
    return (
        f"{start} {subject} {are} {pair}-differentially private: "
        f"{neighbours}{counted} {makes} any set of outcomes at most "
        f"e^{bound} = {factor_text(epsilon)} times as likely{plus}."
    )


def factor_text(log: float) -> str:
    """A factor of e^log, as an upper bound.

    >>> factor_text(1.0), factor_text(800.0)
    ('2.72', 'more than 1e300')
    """
    return upper_text(math.exp(log), 3) if log < MOST_LOG else "more than 1e300"


def share_text(value: float) -> str:
    """A share that may be stated as an upper bound, in percent.

    >>> share_text(0.001), share_text(0.27004), share_text(1.0)
    ('0.1%', '27.1%', '100%')
    """
    return f"{upper_text(100 * value, 3)}%"


# what somebody can conclude from a release: odds that move, and outcomes that the odds leave out

PRIORS = (0.5, 0.001)
"""What somebody believed before: even odds, and a rare suspicion."""


def posterior(prior: float, log: float) -> float:
    """What a chance becomes whose odds grow by a factor of e^log.

    >>> posterior(0.5, 0.0), round(posterior(0.5, math.log(3)), 12), posterior(0.001, math.inf)
    (0.5, 0.75, 1.0)
    """
    if math.isinf(log):
        return 1.0
    against = (1 - prior) / prior * math.exp(-log)
    return 1 / (1 + against)


def prior_text(prior: float) -> str:
    """A chance as people say it.

    >>> prior_text(0.5), prior_text(0.001)
    ('even odds', '1 in 1,000')
    """
    return "even odds" if prior == 0.5 else f"1 in {round(1 / prior):,}"


def odds_sentence(
    moved: float, delta: float, privacy_unit: str, relation: str | None = None, *, simulation: bool = False
) -> str:
    """What whoever sees the release can conclude about one unit, whatever else is known.

    Args:
        moved: the logarithm of the factor by which odds grow, as ``verdict`` bounds it; infinite where nothing does.
        delta: the chance of the outcomes that it does not cover.
        privacy_unit: what is asked about.
        relation: which data sets are neighbours.
        simulation: whether randomness was seeded: then it says what would hold.

    >>> odds_sentence(math.log(2), 0.0, "client").partition(":")[0]
    "No outcome raises the odds that one client's data was used, or was not, by more than a factor of 2"
    """
    asked = (
        f"the odds between any two values of one {privacy_unit}'s data"
        if relation == "replace-one"
        else f"the odds that one {privacy_unit}'s data was used, or was not,"
    )
    if moved >= MOST_LOG:  # true whatever the randomness
        return f"No factor worth telling bounds {asked} once this is released: it may settle them."
    but = f", but for outcomes that come up with a chance of at most {upper_text(delta)}" if delta > 0 else ""
    even, rare = (share_text(posterior(prior, moved)) for prior in PRIORS)
    start, become, becomes, holds = ("No outcome raises", "become", "becomes", "That holds")
    if simulation:
        start, become, becomes = "With fresh randomness, no outcome would raise", "would become", "would become"
        holds = "That would hold"
    return (
        f"{start} {asked} by more than a factor of {factor_text(moved)}{but}: "
        f"{prior_text(PRIORS[0])} {become} at most {even}, and {prior_text(PRIORS[1])} {becomes} at most {rare}. "
        f"{holds} for somebody who knows all the other data."
    )


# what a claim means for attackers and for copies: labels, figures, and the sentences beside them

OF_COPIES = (
    "A record that occurs several times, or somebody who holds several units, is protected less. Copies are there "
    "together, or not at all. Multiplying the first row by their number promises too much: epsilon at one delta grows "
    "faster."
)
_OF_PURE_COPIES = (
    "A record that occurs several times, or somebody who holds several units, is protected less. Copies are there "
    "together, or not at all. Without a delta each of them counts once more, and the first row is to be multiplied."
)


def of_attacks(privacy_unit: str) -> str:
    """What an attack is, where its rates are told."""
    return (
        f"An attack is told two data sets that differ in one {privacy_unit}, and says which of them was used. "
        "No attack does better; what a real one finds may be less."
    )


def attack_label(fpr: float) -> str:
    """The true positive rate at a false positive rate, in words."""
    return f"share that the best attack finds at {share_text(fpr)} false alarms"


def named_label(fpr: float, prior: float) -> str:
    """What a suspicion becomes once the best attack confirms it, in words."""
    return f"what {prior_text(prior)} become, once the best attack at {share_text(fpr)} false alarms says so"


def reading_rows(reading: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What a claim means (``risk_reading``), as label and figure; nothing where none stands."""
    if reading is None:
        return []
    rows = [(attack_label(point["fpr"]), share_text(point["tpr"])) for point in reading["attack"]]
    rows += [
        (named_label(point["fpr"], prior), share_text(_named(prior, point["fpr"], point["tpr"])))
        for prior in PRIORS
        for point in reading["attack"]
    ]
    rows += [(f"epsilon at delta {_upper(point['delta'])}", _upper(point["epsilon"])) for point in reading["profile"]]
    means = (("mu of Gaussian DP", "mu"), ("mu of Gaussian DP, participation known", "unamplified_mu"))
    rows += [(label, _upper(reading[name])) for label, name in means if reading[name] is not None]
    return rows + _fitted(reading["fit"], exact=reading["mu"] is not None)


def _named(prior: float, fpr: float, tpr: float) -> float:
    """The chance that an alarm is right."""
    return prior * tpr / (prior * tpr + (1 - prior) * fpr)


def _fitted(fit: Mapping[str, Any] | None, *, exact: bool) -> list[tuple[str, str]]:
    """The mu that comes close, with both its errors; nothing where an exact one is told, or none comes close."""
    if fit is None or exact:
        return []
    beyond, regret = (upper_text(float(fit[name]), 2) for name in ("beyond", "regret"))
    return [
        (
            "mu of Gaussian DP that comes close: no guarantee by itself",
            f"{_upper(fit['mu'])}; an attack finds up to {beyond} more, at false alarms up to {beyond} higher; it "
            f"overstates by up to {regret}",
        )
    ]


def of_copies(delta: float) -> str:
    """What copies are, and how their epsilon grows at a delta.

    >>> of_copies(1e-6) == OF_COPIES, "once more" in of_copies(0.0)
    (True, True)
    """
    return OF_COPIES if delta > 0 else _OF_PURE_COPIES


def copies_rows(reading: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """What is left for somebody who holds several units, or for a record of several copies: units, and both bounds."""
    groups = [] if reading is None else reading["groups"]
    return [(f"{point['units']:,}", *_of_copies(point)) for point in sorted(groups, key=lambda point: point["units"])]


def _of_copies(point: Mapping[str, Any]) -> tuple[str, str]:
    """Both bounds, in words where they are no numbers."""
    upper, lower = point["epsilon"], point["lower"]
    if upper is None:
        return "not worked out: assume nothing", "-"
    return ("no bound: nothing is promised" if upper == "inf" else _upper(upper)), (
        "no bound" if lower == "inf" else lower_text(float(lower))
    )


def _upper(value: float | str) -> str:
    return upper_text(float(value))


# who is counted: neighbours, and a delta beside the population


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


# closed forms beside certified intervals


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


# which of two releases protects better

BETTER = {
    "first": "the first",
    "second": "the second",
    "neither": "neither: each is better somewhere",
    "alike": "they are alike, but for the tolerance",
    "open": "not decided by these bounds",
}


# what a calculation covers, and what it does not

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
    rounds_per_release = check.integer(1)(rounds_per_release=rounds_per_release)
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


def query_limits(mechanism: str) -> tuple[str, ...]:
    """What must hold of queries and answers for their price to hold.

    Args:
        mechanism: "laplace" or "gaussian".
    """
    norm = "L1" if mechanism == "laplace" else "L2"
    return (
        f"The sensitivity bounds, in {norm} norm, what one unit moves an answer by on any data; it was not measured.",
        "Every answer that leaves is one of the queries planned, repeated, failed and discarded ones too.",
        "Each answer has noise of its own from a secret source, and nothing else is told that depends on the data.",
    )
