"""What plans, reports and pages say of a guarantee: messages of the catalogue, and the figures in them.

Decisions look at identifiers and numbers alone. The words stand in ``terms/en.json``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from epsilog.terms import Finding, Interval, NeighboringRelation, Status, check, delta_finding
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import KINDS, Message

__all__ = [
    "format_tpr_label",
    "grade_delta",
    "list_group_rows",
    "list_risk_rows",
    "write_attacks",
    "write_claim",
    "write_copies",
    "write_odds",
]

PRIORS = (0.5, 0.001)
"""Prior probabilities of the shown posteriors."""

_MAX_LOG = 700.0  # of a factor that is shown


def write_claim(
    epsilon: float,
    delta: float,
    *,
    relation: NeighboringRelation | str | None,
    privacy_unit: str,
    population: int | None,
    subject: str = "released models",
    simulation: bool = False,
) -> Message:
    """Return the claim with everything that gives it meaning; for a simulation, the claim under fresh randomness.

    Args:
        epsilon: the certified upper bound, in nats; ``inf`` for no guarantee.
        delta: the failure probability, in [0, 1).
        relation: the neighboring relation; None for the one that a sensitivity is stated for.
        privacy_unit: what one neighbor differs in.
        population: the number of privacy units; None if it is not stated.
        subject: what has the guarantee, in the plural.
        simulation: whether randomness was seeded.

    >>> str(write_claim(1.0, 0.0, relation=None, privacy_unit="person", population=None, subject="answers"))[:57]
    'The answers are 1-differentially private for one person. '
    """
    unit = Message.of("unit/one", unit=privacy_unit)
    if population is not None:
        unit = Message.of("unit/one-of", unit=privacy_unit, population=population)
    if not math.isfinite(epsilon):
        return Message.of("claim/none", unit=unit)
    change = Message.of(f"change/{relation or 'stated'}", unit=privacy_unit)
    if delta > 0:
        bound: dict[str, float] = {"epsilon": epsilon, "delta": delta}
        kind = "approximate"
    else:
        bound, kind = {"epsilon": epsilon}, "pure"
    claim = Message.of(f"claim/{kind}", subject=subject, unit=unit, change=change, **bound)
    return Message.of("claim/simulated", claim=claim) if simulation else claim


def posterior_probability(prior: float, log: float) -> float:
    """Return the probability with odds e^log times those of ``prior``.

    >>> [round(posterior_probability(0.5, log_odds), 12) for log_odds in (0.0, math.log(3), math.inf)]
    [0.5, 0.75, 1.0]
    """
    if math.isinf(log):
        return 1.0
    against = (1 - prior) / prior * math.exp(-log)
    return 1 / (1 + against)


def write_odds(
    moved: float, delta: float, privacy_unit: str, relation: str | None = None, *, simulation: bool = False
) -> Message:
    """Return what an observer of the release can conclude about one unit.

    Args:
        moved: log of the factor by which odds change, as ``odds`` bounds it; ``inf`` for no bound.
        delta: the probability of the results that the bound leaves out.
        privacy_unit: what is asked about.
        relation: the neighboring relation.
        simulation: whether randomness was seeded.
    """
    what = Message.of("odds-of/value" if relation == "replace-one" else "odds-of/participation", unit=privacy_unit)
    if moved >= _MAX_LOG:  # whatever the randomness
        return Message.of("odds/unbounded", odds=what)
    even, rare = (posterior_probability(prior, moved) for prior in PRIORS)
    bound: dict[str, float] = {"factor": moved, "even": even, "rare": rare} | ({"delta": delta} if delta > 0 else {})
    found = Message.of("odds/approximate" if delta > 0 else "odds/pure", odds=what, **bound)
    return Message.of("odds/simulated", odds=found) if simulation else found


def write_attacks(privacy_unit: str) -> Message:
    """Return what the rates of an attack mean."""
    return Message.of("attack/meaning", unit=privacy_unit)


def format_tpr_label(fpr: float) -> Message:
    """Return the label of the largest TPR at a false-positive rate."""
    return Message.of("attack/tpr", fpr=fpr)


def list_risk_rows(reading: Mapping[str, Any] | None) -> list[tuple[Message, str]]:
    """Return label and figure for each metric of ``risk_reading``; nothing without one."""
    if reading is None:
        return []
    percent = KINDS["percent"]
    rows = [(format_tpr_label(point["fpr"]), percent(point["tpr"])) for point in reading["attack"]]
    rows += [
        (
            Message.of("attack/posterior", prior=prior, fpr=point["fpr"]),
            percent(_positive_predictive_value(prior, **point)),
        )
        for prior in PRIORS
        for point in reading["attack"]
    ]
    rows += [
        (Message.of("profile/epsilon", delta=point["delta"]), _upper(point["epsilon"])) for point in reading["profile"]
    ]
    means = (("gdp/mu", "mu"), ("gdp/unamplified-mu", "unamplified_mu"))
    rows += [(Message(label), _upper(reading[name])) for label, name in means if reading[name] is not None]
    if reading["fit"] is None or reading["mu"] is not None:
        return rows
    fit = Message.of("gdp/fit-errors", **reading["fit"])
    return [*rows, (Message("gdp/fit"), str(fit))]


def _positive_predictive_value(prior: float, fpr: float, tpr: float) -> float:
    """Return the probability that an accusation is right."""
    return prior * tpr / (prior * tpr + (1 - prior) * fpr)


def write_copies(delta: float) -> Message:
    """Return what several units of one holder cost, at a delta."""
    return Message("copies/approximate" if delta > 0 else "copies/pure")


def list_group_rows(reading: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Return number of units, upper and lower bound of epsilon for each group size of ``risk_reading``."""
    groups = [] if reading is None else reading["groups"]
    return [(f"{point['units']:,}", *_sides(point)) for point in sorted(groups, key=lambda point: point["units"])]


def _sides(point: Mapping[str, Any]) -> tuple[str, str]:
    upper, lower = point["epsilon"], point["lower"]
    if upper is None:
        return str(Message("copies/unknown")), "-"
    unbounded = str(Message("copies/unbounded"))
    return (unbounded if upper == "inf" else _upper(upper), unbounded if lower == "inf" else format_lower(float(lower)))


def _upper(value: float | str) -> str:
    return format_upper(float(value))


def grade_delta(delta: float, population: int) -> tuple[str, str]:
    """Return the grade of a delta against the population ("void", "weak" or "good"), and why.

    A mechanism that publishes the record of one unit drawn at random satisfies delta = 1/N.

    >>> grade_delta(1e-6, 50_000)
    ('good', 'Delta 1e-6 is below 1/N = 2e-5.')
    """
    found, share = delta_finding(delta, population=population), 1 / population
    return "void" if delta >= share else "weak" if delta > share / 10 else "good", found.message


def write_formula(total: float, certified: Interval) -> Message:
    """Return whether the closed form under- or over-reports.

    Args:
        total: the value of the closed form, in nats.
        certified: the interval for the same schedule.
    """
    if math.isinf(total) and math.isinf(certified.upper):
        return Message("formula/no-noise")
    if total < certified.lower:
        factor = certified.lower / total if total > 0 else math.inf
        return Message.of("formula/under-reports", total=total, lower=certified.lower, factor=factor)
    side = "below" if total < certified.upper else "above"
    return Message.of(f"formula/{side}", total=total, upper=certified.upper)


_LATE = {
    "count-as-zero": "coverage/late-replies",
    "close-early": "coverage/round-closes-early",
    "replace": "coverage/non-responders-replaced",
}


def list_limits(
    *,
    sampling: str,
    without_replacement: bool,
    rounds_per_release: int,
    adaptive_clip: bool,
    privacy_unit: str,
    late_replies: str = "count-as-zero",
) -> tuple[Finding, ...]:
    """Return what the cost of a federated plan covers (passed) and what it does not (warned).

    Args:
        sampling: "poisson", "fixed-size" or "balls-in-bins".
        without_replacement: whether one unit gives at most one update per round.
        rounds_per_release: rounds between two models that leave the server.
        adaptive_clip: whether the clip norm is learned from the same data.
        privacy_unit: what one neighbor differs in.
        late_replies: "count-as-zero", "close-early" or "replace": how late or missing replies count.
    """
    late = _LATE[check.one_of(tuple(_LATE))(late_replies=late_replies)]
    rounds = check.integer(1)(rounds_per_release=rounds_per_release)
    scheme = Message(f"sampling/{sampling}")
    return (
        Finding.of(Message.of("coverage/participation-hidden", unit=privacy_unit, sampling=scheme)),
        Finding.of(Message("coverage/one-update"))
        if without_replacement
        else Finding.of(Message("coverage/several-updates"), Status.WARNED),
        Finding.of(Message.of("coverage/models-published", rounds=rounds)),
        Finding.of(Message("coverage/adaptive-clip"), Status.WARNED)
        if adaptive_clip
        else Finding.of(Message("coverage/clip-fixed")),
        Finding.of(Message(late), Status.PASSED if late_replies == "count-as-zero" else Status.WARNED),
        Finding.of(Message("coverage/server-trusted")),
    )


def list_query_limits(mechanism: str) -> tuple[Message, ...]:
    """Return what must hold of queries and answers.

    Args:
        mechanism: "laplace" or "gaussian".
    """
    return (
        Message.of("assumes/query-sensitivity", norm="L1" if mechanism == "laplace" else "L2"),
        Message("assumes/planned-queries"),
        Message("assumes/independent-noise"),
    )
