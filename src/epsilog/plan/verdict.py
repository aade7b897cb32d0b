"""A verdict card: what one claim means out of 1,000 people, in sentences of the catalogue and as one hashed text.

docs/accounting/interpretation.md lists each sentence with its formula and function.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from typing import Any

from epsilog.accounting import PrivacyProfile, profile
from epsilog.mechanisms import ApproximateDP, PureDP, Release
from epsilog.numerics.rounding import ELEMENTARY, round_up
from epsilog.plan import sentences
from epsilog.plan.deployments import DEPLOYMENTS
from epsilog.plan.interpretation import RISK_RELATIVE_WIDTH, bound_attack, bound_log_odds_factor
from epsilog.terms import CheckError, NeighboringRelation, UnsupportedMechanismError, check
from epsilog.terms.formatting import count_of_thousand
from epsilog.terms.messages import Message

__all__ = [
    "FPR",
    "GUESSED",
    "NEARLY_ALL",
    "OF",
    "count_units",
    "pluralize",
    "write_banner",
    "write_found",
    "write_guessing",
]

OF = 1000
"""Units in the picture of a risk."""
FPR = 0.01
"""The share of others that the attack of the picture wrongly accuses."""
GUESSED = round(OF * FPR)
"""Units that guessing finds, of ``OF``."""
NEARLY_ALL, HARDLY_ANY = 990, GUESSED + 1
"""From the first count on, the attack finds nearly everybody; up to the second, hardly more than guessing."""
OPEN = 0.999
"""From this probability on, a card does not print a posterior: it never says 100%."""
_ROUNDINGS = 2 * ELEMENTARY + 8  # of two elementary functions, two sums, two products and a quotient
_IRREGULAR = {"person": "people", "child": "children", "individual": "people"}


def count_units(rate: float) -> int:
    """Return a bound on a true positive rate as a number of 1,000 units, rounded up.

    >>> count_units(0.0721), count_units(0.0), count_units(1.0)
    (73, 10, 1000)
    """
    return max(GUESSED, count_of_thousand(rate))


def write_found(found: int, privacy_unit: str, relation: NeighboringRelation | str | None) -> Message:
    """Return the headline: how many of 1,000 units the best attack finds."""
    kind = "participation" if relation == NeighboringRelation.ADD_OR_REMOVE_ONE else "value"
    if found >= NEARLY_ALL:
        return Message.of("page/nearly-all", unit=privacy_unit)
    name = "hardly" if found <= HARDLY_ANY else "found"
    return Message.of(f"page/{name}-{kind}", found=found, units=pluralize(privacy_unit))


def write_guessing(privacy_unit: str) -> Message:
    """Return what a blind guess finds, and whom it accuses."""
    return Message.of("page/guessing", guessed=GUESSED, units=pluralize(privacy_unit))


def write_banner(*, simulation: bool) -> tuple[Message, ...]:
    """Return what must be read before the figures of a simulation; nothing for a run with fresh randomness."""
    return (Message("page/rehearsal"), Message("page/rehearsal-note")) if simulation else ()


def pluralize(unit: str) -> str:
    """Return the plural of a privacy unit; of what is no plain English noun, a phrase.

    >>> pluralize("school"), pluralize("person"), pluralize("user-day"), pluralize("family"), pluralize("box")
    ('schools', 'people', 'user-days', 'families', 'boxes')
    """
    match = re.fullmatch(r"(|[a-z -]*[ -])([a-z]+)", unit)
    if match is None:
        return f"units ({unit})"
    before, noun = match.groups()
    if noun in _IRREGULAR:
        return before + _IRREGULAR[noun]
    if re.search(r"[^aeiou]y$", noun):
        return f"{before}{noun[:-1]}ies"
    return f"{before}{noun}{'es' if re.search(r'(s|x|z|ch|sh)$', noun) else 's'}"


def bound_posterior(prior: float, *, tpr: float, fpr: float = FPR) -> float:
    """Bound the probability that an accusation is right, from above.

    Args:
        prior: the probability beforehand, in (0, 1).
        tpr: upper bound on the attack's true positive rate.
        fpr: its false positive rate.

    Source:
        Bayes' theorem; docs/accounting/interpretation.md.

    >>> round(bound_posterior(0.5, tpr=0.03), 6)
    0.75
    """
    prior, fpr = check.in_open_interval(0, 1)(prior=prior), check.in_open_interval(0, 1)(fpr=fpr)
    tpr = check.in_closed_interval(0, 1, check.UP)(tpr=tpr)
    return min(1.0, round_up(prior * tpr / (prior * tpr + (1 - prior) * fpr), _ROUNDINGS))


def bound_log_odds_growth(curve: PrivacyProfile, delta: float) -> float:
    """Bound the log of the factor by which an outcome raises odds, except with a chance of ``2 * delta``, from above.

    One way only: outcomes that lower the odds further are not counted.

    Args:
        curve: of what is released.
        delta: half the chance of the outcomes that are left out, in [0, 0.5); 0 leaves out none.

    Source:
        P(loss > epsilon + ln 2) <= delta / (1 - 1/2); docs/accounting/interpretation.md.

    >>> from epsilog.mechanisms import ApproximateDP
    >>> round(bound_log_odds_growth(profile(ApproximateDP(4.0, 1e-5)), 1e-5), 4)  # 4 + ln 2
    4.6931
    """
    delta = check.in_half_open_interval(0, 0.5, check.DOWN)(delta=delta)
    both_ways = bound_log_odds_factor(curve, 2 * delta)
    if delta == 0:
        return both_ways
    return min(both_ways, round_up(curve.epsilon(delta).upper + math.log(2), ELEMENTARY + 1))


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """What one claim means; every figure is an upper bound.

    Attributes:
        epsilon: the claim, in nats.
        delta: its failure probability.
        relation: which data sets are neighbors.
        privacy_unit: what one neighbor differs in.
        prior: the suspicion beforehand.
        has_curve: whether figures come from a mechanism's curve, not from epsilon and delta alone.
        tpr: of the best attack with a false positive rate of 1%.
        known_tpr: the same if the participation list leaks; None where nothing is sampled.
        growth: the log of the factor by which an outcome raises the odds, except with a chance of ``2 * delta``.
        simulation: whether randomness was seeded.
        name: what the figures belong to; "" for nothing.
        report: SHA-256 of the report that they come from; "" for none.
        verdict: on the report, as the maker of the card states it; "" for none.
        date: of the card, as YYYY-MM-DD; "" for none.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    privacy_unit: str
    prior: float
    has_curve: bool
    tpr: float
    known_tpr: float | None
    growth: float
    simulation: bool = False
    name: str = ""
    report: str = ""
    verdict: str = ""
    date: str = ""

    @property
    def found(self) -> int:
        """Of 1,000 units, those that the best attack finds."""
        return count_units(self.tpr)

    @property
    def leaked(self) -> int:
        """Further ones that it finds if the participation list leaks."""
        return 0 if self.known_tpr is None else max(0, count_units(self.known_tpr) - self.found)

    @property
    def posterior(self) -> float:
        """The probability that an accusation is right."""
        return bound_posterior(self.prior, tpr=self.tpr)

    @property
    def headline(self) -> Message:
        """How many of 1,000 units could be picked out."""
        return write_found(self.found, self.privacy_unit, self.relation)

    @property
    def notes(self) -> tuple[Message, ...]:
        """What guessing finds, where the figures come from, and what a leaked participation list adds."""
        basis = "verdict/curve" if self.has_curve else "verdict/pair" if self.delta > 0 else "verdict/pair-pure"
        leak = (Message.of("verdict/leaked", leaked=self.leaked),) if self.leaked else ()
        return write_guessing(self.privacy_unit), Message(basis), *leak

    @property
    def suspicion(self) -> Message:
        """What a suspicion becomes once the best attack accuses somebody."""
        if self.posterior > OPEN:
            return Message.of("verdict/suspicion-open", prior=self._percent)
        return Message.of("verdict/suspicion", prior=self._percent, posterior=self.posterior)

    @property
    def highest(self) -> Message:
        """What a suspicion becomes after the most telling outcome."""
        if self.growth == 0:
            return Message("verdict/highest-none")
        odds = sentences.posterior_probability(self.prior, self.growth)
        highest = min(1.0, round_up(odds, _ROUNDINGS))
        if highest > OPEN:
            return Message("verdict/highest-open")
        if self.delta == 0:
            return Message.of("verdict/highest-pure", highest=highest, factor=self.growth)
        return Message.of("verdict/highest", chance=2 * self.delta, highest=highest, factor=self.growth)

    @property
    def _percent(self) -> float:
        return float(Decimal(repr(self.prior)) * 100)

    @property
    def claim(self) -> Message:
        """The claim itself."""
        return Message.of("page/epsilon-each", epsilon=self.epsilon, delta=self.delta, unit=self.privacy_unit)

    @property
    def origin(self) -> tuple[Message, ...]:
        """The report that the figures come from, and its verdict."""
        name = (Message.of("verdict/name", name=self.name),) if self.name else ()
        report = (Message.of("verdict/report", sha256=self.report),) if self.report else ()
        return *name, *report, *((Message.of("verdict/verdict", verdict=self.verdict),) if self.verdict else ())

    @property
    def unprotected(self) -> tuple[Message, ...]:
        """What the claim does not protect."""
        units = pluralize(self.privacy_unit)
        of_units = ("page/in-general", "page/several", "verdict/other-releases")
        return Message("verdict/holders"), *(Message.of(one, units=units) for one in of_units)

    @property
    def banner(self) -> tuple[Message, ...]:
        """What must be read before a rehearsal's figures."""
        return write_banner(simulation=self.simulation)

    @property
    def text(self) -> str:
        """Return the card as text, a sentence a line: what its hash covers."""
        lines = [
            *([" ".join(map(str, self.banner))] if self.banner else []),
            *map(str, (self.headline, *self.notes, self.suspicion, self.highest, self.claim, *self.origin)),
            "Not protected:",
            *(f"- {one}" for one in self.unprotected),
            str(Message("verdict/published")),
            *(f"- {one.name}: {one.epsilon:g}" for one in DEPLOYMENTS),
            ", ".join(filter(None, (self.date, f"epsilog {version('epsilog')}"))),
        ]
        return "".join(f"{line}\n" for line in lines)

    @property
    def sha256(self) -> str:
        """Return SHA-256 of ``text`` in UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values with the messages."""
        return {
            "found": self.found,
            "guessed": GUESSED,
            "leaked": self.leaked,
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "prior": self.prior,
            "posterior": min(self.posterior, OPEN),
            "banner": [one.to_json() for one in self.banner],
            "headline": self.headline.to_json(),
            "notes": [one.to_json() for one in self.notes],
            "suspicion": self.suspicion.to_json(),
            "highest": self.highest.to_json(),
            "claim": self.claim.to_json(),
            "origin": [one.to_json() for one in self.origin],
            "unprotected": [one.to_json() for one in self.unprotected],
            "published_note": Message("verdict/published").to_json(),
            "published": [one._asdict() for one in DEPLOYMENTS],
            "units": pluralize(self.privacy_unit),
            "date": self.date,
            "engine": f"epsilog {version('epsilog')}",
            "text": self.text,
            "sha256": self.sha256,
        }


def build_card(
    release: Release | None = None,
    *,
    epsilon: float | None = None,
    delta: float,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: str = "person",
    prior: float = 0.1,
    simulation: bool = False,
    name: str = "",
    report: str = "",
    verdict: str = "",
    date: str = "",
) -> VerdictCard:
    """Build the verdict card of a mechanism, or of epsilon and delta alone.

    Args:
        release: what is released; None for a claim without its mechanism.
        epsilon: the claim at ``delta``, in nats; None takes the bound of ``release``.
        delta: failure probability, in [0, 1); 0 for pure DP.
        relation: which data sets are neighbors.
        privacy_unit: what one neighbor differs in.
        prior: the suspicion beforehand, in (0, 1).
        simulation: whether randomness was seeded.
        name: what the figures belong to; "" for nothing.
        report: SHA-256 of the report that they come from; "" for none.
        verdict: on the report, as the maker of the card states it; "" for none.
        date: of the card, as YYYY-MM-DD; "" for none.

    Raises:
        CheckError: neither or both of ``release`` and ``epsilon`` are given.

    >>> card = build_card(epsilon=4.0, delta=1e-5)
    >>> str(card.headline)
    'The best attack could pick out at most 546 of 1,000 people.'
    """
    delta = check.in_half_open_interval(0, 1, check.UP)(delta=delta)
    prior = check.in_open_interval(0, 1)(prior=prior)
    if (release is None) == (epsilon is None):
        raise CheckError("epsilon", "given, or else a release", "neither" if release is None else "both")
    epsilon = check.optional(check.at_least(0, check.UP))(epsilon=epsilon)
    claimed = _state_pair(epsilon or 0.0, delta) if release is None else release
    curve = profile(claimed, relation=relation, relative_width=RISK_RELATIVE_WIDTH)
    return VerdictCard(
        epsilon=curve.epsilon(delta).upper if epsilon is None else epsilon,
        delta=delta,
        relation=relation,
        privacy_unit=check.text()(privacy_unit=privacy_unit),
        prior=prior,
        has_curve=release is not None,
        tpr=_bound_tpr(claimed, delta, relation),
        known_tpr=_bound_known_tpr(curve, delta),
        growth=bound_log_odds_growth(curve, delta) if delta < 0.5 else math.inf,
        simulation=simulation,
        name=name,
        report=report,
        verdict=verdict,
        date=date,
    )


def _state_pair(epsilon: float, delta: float) -> Release:
    return ApproximateDP(epsilon, delta) if delta > 0 else PureDP(epsilon)


def _bound_tpr(release: Release, delta: float, relation: NeighboringRelation) -> float:
    """Bound the best attack's rate; 1 where nothing is proven of attacks."""
    rates = [point["tpr"] for point in bound_attack(release, delta=delta, relation=relation) if point["fpr"] == FPR]
    return rates[0] if rates else 1.0


def _bound_known_tpr(curve: PrivacyProfile, delta: float) -> float | None:
    """Bound the rate if who is in each sample is known; None where nothing is sampled."""
    try:
        known = curve.without_sampling()
    except UnsupportedMechanismError:
        return 1.0
    return None if known is curve else _bound_tpr(known.release, delta, curve.relation)
