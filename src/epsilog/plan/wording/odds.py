"""What somebody can conclude from a release: odds that move, and outcomes that the odds leave out."""

from __future__ import annotations

import math

from epsilog.plan.wording.claims import MOST_LOG, factor_text, share_text
from epsilog.terms.digits import upper_text

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


def worst_sentences(
    epsilon: float, delta: float, *, privacy_unit: str, population: int | None, deeper: tuple[float, float]
) -> list[str]:
    """What delta is the chance of, what it would permit at worst, and whether this release can be of that kind.

    Args:
        epsilon: the claim's.
        delta: the claim's.
        privacy_unit: what it is about.
        population: how many there are, if that is stated.
        deeper: a smaller delta, and the certified epsilon there.
    """
    if math.isinf(epsilon):
        return ["Where nothing is promised, delta says nothing."]
    if delta == 0:
        return ["There is no delta: the bound holds for every outcome."]
    at, unit = upper_text(delta), privacy_unit
    everybody = (
        ""
        if population is None
        else (f"; done to each of the {population:,}, that is {upper_text(population * delta, 3)} of them on average")
    )
    smaller, there = deeper
    kind = (
        f"Nothing here says that this release is of another kind: at delta {upper_text(smaller)} no epsilon is proven."
        if math.isinf(there)
        else f"This release does not end there: at delta {upper_text(smaller)}, epsilon is still at most "
        f"{upper_text(there)}."
    )
    return [
        f"Delta, {at}, bounds the chance of an outcome that tells more about one {unit} than the odds above say.",
        f"At worst, a promise with this delta permits publishing one {unit}'s data with that chance{everybody}.",
        kind,
    ]
