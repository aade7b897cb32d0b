"""What a cost means: odds, attacks, copies and repeated releases, delta at worst, and the available amount."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from epsilog.accounting import GaussianDPFit, PrivacyProfile, epsilon as bound_epsilon, fit_gaussian_dp, mu, profile
from epsilog.mechanisms import Release, Repeated
from epsilog.numerics.rounding import ELEMENTARY, round_down, round_up
from epsilog.plan import sentences
from epsilog.plan.pricing import RELATIVE_WIDTH
from epsilog.terms import CalibrationError, Interval, NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.terms.messages import Message

REPORTED_FPRS = (0.001, 0.01)  # at which attacks on training data are usually judged (Carlini et al. 2022)
DELTAS = (1e-3, 1e-6, 1e-9)
RELEASE_COUNTS = GROUP_SIZES = (1, 2, 8, 64)  # releases together; units that one person holds, or copies of a record
RISK_RELATIVE_WIDTH = 0.005  # relative width to aim for
_TOGETHER, _COPIES = 0.02, 0.05  # the same for several releases together, and for more than so many copies
_MANY = 8
SLACK, _PLACES = 5e-3, 24  # what the mu of a fit may leave out, and the number of points of the curve
_DEEPER = 1000  # times smaller: where it is looked whether epsilon stays finite
_LEAST_STEP, _MOST_STEP = 0.02, 3.0  # between which the step of ``bound_log_odds_factor`` is taken
_ONE_WAY = 2 * ELEMENTARY + 8  # roundings of two exponentials, two sums, a product and a quotient
_STEPPED = 8  # of a sum with a step


@dataclass(frozen=True, slots=True)
class Interpretation:
    """What a claim means for one person, every figure an upper bound but ``fits``, which is a lower one.

    Attributes:
        epsilon: the claim, in nats.
        delta: the claim's failure probability; 0 for pure DP.
        relation: which data sets are neighbors; None for those that a sensitivity is stated for.
        privacy_unit: what one neighbor differs in.
        population: how many there are; None where that is not stated.
        subject: what keeps the claim, in the plural.
        log_odds_factor: the logarithm of the factor by which odds grow, except with probability ``delta``.
        releases: numbers of such releases, each with their epsilon together at ``delta``; None where none is proven.
        deeper: a smaller delta, and epsilon there.
        cap: the policy's cap on epsilon at ``delta``; None where none is stated.
        max_releases_under_cap: the number of such releases that fit the cap together, ``RELEASES[-1]`` for that many
            or more; None without a cap.
        assumptions: the assumptions of the cost.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation | None
    privacy_unit: str
    population: int | None
    subject: str
    log_odds_factor: float
    releases: tuple[tuple[int, float | None], ...]
    deeper: tuple[float, float]
    cap: float | None
    max_releases_under_cap: int | None
    assumptions: tuple[Message, ...]

    @property
    def statement(self) -> Message:
        """Return the claim, as a report states it."""
        return sentences.write_claim(
            self.epsilon,
            self.delta,
            relation=self.relation,
            privacy_unit=self.privacy_unit,
            population=self.population,
            subject=self.subject,
        )

    @property
    def odds(self) -> Message:
        """Return what an attacker who knows all other data can conclude."""
        return sentences.write_odds(self.log_odds_factor, self.delta, self.privacy_unit, self.relation)

    @property
    def delta_notes(self) -> tuple[Message, ...]:
        """Return what delta alone would permit, and what is proven of this release at a smaller delta."""
        if math.isinf(self.epsilon):
            return (Message("delta/none"),)
        if self.delta == 0:
            return (Message("delta/pure"),)
        permits = Message.of("delta/permits", unit=self.privacy_unit, delta=self.delta)
        if self.population is not None:
            records = self.population * self.delta
            permits = Message.of("delta/permits-of", unit=self.privacy_unit, delta=self.delta, records=records)
        smaller, there = self.deeper
        if math.isinf(there):
            return permits, Message.of("delta/smaller-unbounded", delta=smaller)
        return permits, Message.of("delta/smaller", delta=smaller, epsilon=there)

    @property
    def headroom_note(self) -> Message:
        """Return the number of such releases that fit within the cap together; epsilons do not subtract."""
        if self.cap is None or self.max_releases_under_cap is None:
            return Message("headroom/no-cap")
        if self.max_releases_under_cap == 0:
            return Message.of("headroom/none", cap=self.cap, epsilon=self.epsilon)
        if self.max_releases_under_cap == 1:
            return Message.of("headroom/one", cap=self.cap)
        kind = "many" if self.max_releases_under_cap >= RELEASE_COUNTS[-1] else "some"
        return Message.of(f"headroom/{kind}", cap=self.cap, fits=self.max_releases_under_cap)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values with the messages; infinite numbers are the text "inf"."""
        document = codec.plain_fields(self)
        return {
            name: document[name]
            for name in ("epsilon", "delta", "log_odds_factor", "cap", "max_releases_under_cap", "assumptions")
        } | {
            "statement": self.statement.to_json(),
            "odds": self.odds.to_json(),
            "posteriors": [
                {"prior": prior, "posterior": sentences.posterior_probability(prior, self.log_odds_factor)}
                for prior in sentences.PRIORS
            ],
            "delta_notes": [line.to_json() for line in self.delta_notes],
            "releases": [{"count": count, "epsilon": codec.encode(found)} for count, found in self.releases],
            "composition_note": Message("releases/together").to_json(),
            "headroom_note": self.headroom_note.to_json(),
        }


def bound_log_odds_factor(curve: PrivacyProfile, delta: float) -> float:
    """Bound the logarithm of the factor by which an outcome moves the odds between neighbors, from above.

    Outcomes that move them further, either way, come up with a chance of at most ``delta`` whichever of both neighbors
    is true. That is more than epsilon at ``delta``, which bounds sets of outcomes and not each.

    Args:
        curve: of what is released.
        delta: the chance of the outcomes that are left out, in [0, 1); 0 leaves out none.

    Source:
        docs/accounting/interpretation.md.

    >>> from epsilog.mechanisms import Laplace
    >>> from epsilog.accounting import profile
    >>> round(bound_log_odds_factor(profile(Laplace(2.0)), 1e-6), 6)
    0.5
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    everywhere = curve.epsilon(0.0).upper
    if delta == 0:
        return everywhere
    near, far = curve.epsilon(delta), curve.epsilon(delta / 10).upper
    slope = max(0.0, far - near.upper) / math.log(10) if math.isfinite(far) else math.inf
    step = min(max(math.log1p(slope), _LEAST_STEP), _MOST_STEP)  # about the best
    found = _bound_per_step(curve, delta, step, near.lower)
    if math.isinf(found):  # a small step asks at a delta that is too small for what may fail outright
        found = _bound_per_step(curve, delta, _MOST_STEP, near.lower)
    return min(everywhere, found)


def _bound_per_step(curve: PrivacyProfile, delta: float, step: float, least: float) -> float:
    """A bound for any step above 0; ``least`` is at most epsilon at ``delta`` (docs/accounting/interpretation.md)."""
    one_way = round_down(-math.expm1(-step) * delta / (1 + math.exp(-(least + step))), _ONE_WAY)
    return round_up(curve.epsilon(one_way).upper + step, _STEPPED)


def interpret_guarantee(
    release: Release,
    interval: Interval | None = None,
    *,
    delta: float,
    relation: NeighboringRelation | None,
    privacy_unit: str,
    population: int | None = None,
    subject: str = "released models",
    cap: float | None = None,
    epsilon: float | None = None,
) -> Interpretation:
    """Interpret a cost for one person, and compute the parts of the interpretation.

    Args:
        release: what is released.
        interval: its certified interval for epsilon at ``delta``; None computes it.
        delta: failure probability, in [0, 1); 0 for pure DP.
        relation: which data sets are neighbors; None for those that the release's sensitivity is stated for.
        privacy_unit: what one neighbor differs in.
        population: how many there are, where that is stated.
        subject: what keeps the claim, in the plural.
        cap: the policy's cap on epsilon at ``delta``; the available amount is counted in such releases.
        epsilon: the claimed value, if another proof's bound is less than the cost.

    >>> from epsilog.accounting import epsilon
    >>> from epsilog.mechanisms import Gaussian
    >>> noise = Gaussian(4.0)
    >>> found = interpret_guarantee(noise, epsilon(noise, delta=1e-6), delta=1e-6, relation=None,
    ... privacy_unit="person", cap=2.5)
    >>> str(found.headroom_note)
    '4 such releases, including this one, fit within the cap of 2.5; one more does not.'
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    cap = check.optional(check.positive(check.DOWN))(cap=cap)
    epsilon = check.optional(check.bound(check.UP))(epsilon=epsilon)
    under = relation or NeighboringRelation.ADD_OR_REMOVE_ONE
    if interval is None:
        interval = bound_epsilon(release, delta=delta, relation=under, relative_width=RELATIVE_WIDTH)
    curve = profile(release, relation=under, relative_width=RISK_RELATIVE_WIDTH)
    claimed = interval.upper if epsilon is None else min(interval.upper, epsilon)
    together = {1: claimed} | {count: _together(release, count, delta, under) for count in RELEASE_COUNTS[1:]}
    smaller = delta / _DEEPER
    return Interpretation(
        epsilon=claimed,
        delta=delta,
        relation=relation,
        privacy_unit=check.text()(privacy_unit=privacy_unit),
        population=check.optional(check.integer(1))(population=population),
        subject=subject,
        log_odds_factor=bound_log_odds_factor(curve, delta),
        releases=tuple(together.items()),
        deeper=(smaller, curve.epsilon(smaller).upper if delta > 0 else claimed),
        cap=cap,
        max_releases_under_cap=None if cap is None else _fits(release, cap, delta, under, together),
        assumptions=interval.assumptions,
    )


def _together(release: Release, count: int, delta: float, relation: NeighboringRelation) -> float | None:
    try:
        return bound_epsilon(Repeated(release, count), delta=delta, relation=relation, relative_width=_TOGETHER).upper
    except (UnsupportedMechanismError, CalibrationError):
        return None


def _fits(
    release: Release, cap: float, delta: float, relation: NeighboringRelation, known: dict[int, float | None]
) -> int:
    """Return the most releases within the cap, searched between known numbers."""

    def within(found: float | None) -> bool:
        return found is not None and found <= cap

    if not within(known[1]):
        return 0
    fits = max(count for count, found in known.items() if within(found))
    beyond = min((count for count, found in known.items() if count > fits), default=fits)
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if within(_together(release, middle, delta, relation)):
            fits = middle
        else:
            beyond = middle
    return fits


def compute_risk_metrics(
    release: Release,
    *,
    delta: float,
    relation: NeighboringRelation,
    known: Release,
    held: int | None = None,
    fit: bool = True,
) -> dict[str, Any]:
    """Return the risk metrics of a claim as plain JSON values; all figures are upper bounds except ``lower``.

    ``mu`` is the GDP parameter of a Gaussian release, and ``unamplified_mu`` the one with known participation; null if
    sampling leaves none. ``fit`` is a close mu, with what it leaves out (``beyond``) and what it overstates
    (``regret``); null if none is close. ``attack`` is the highest true positive rate of any test between two neighbors;
    empty if none is proven. ``groups`` bounds epsilon at the claim's delta from both sides, for a holder of several
    units or for a record with several copies; null if no bound is proven.

    Args:
        release: what is claimed of.
        delta: the claim's.
        relation: which data sets are neighbors.
        known: the same release with known participation.
        held: the most units that one person holds, where that is stated: the first of ``groups`` then.
        fit: whether to look for the mu that comes close, which takes a fraction of a second.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383) for mu and rates; docs/accounting/groups.md and interpretation.md.
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    held = check.optional(check.integer(1))(held=held)
    return {
        "mu": _mean(release, relation),
        "unamplified_mu": _mean(known, relation),
        "fit": _fit(release, relation) if fit else None,
        **_readings(release, relation, delta),
        "groups": [
            {"units": units} | _of_copies(release, known, relation, units, delta)
            for units in dict.fromkeys((held or 1, *GROUP_SIZES))
        ],
    }


def _mean(release: Release, relation: NeighboringRelation) -> float | str | None:
    found = mu(release, relation)
    return "inf" if found is not None and math.isinf(found) else found


@lru_cache(maxsize=64)
def _readings(release: Release, relation: NeighboringRelation, delta: float) -> dict[str, Any]:
    curve = profile(release, relation=relation, relative_width=RISK_RELATIVE_WIDTH)
    return {
        "attack": _attack(curve, bound_epsilon(release, delta=delta, relation=relation).upper, delta),
        "profile": [{"delta": at, "epsilon": _number(curve.epsilon(at).upper)} for at in DELTAS],
    }


def bound_attack(release: Release, *, delta: float, relation: NeighboringRelation) -> list[dict[str, float]]:
    """Bound the true positive rate of every test between two neighbors, at the reported false positive rates.

    Args:
        release: what is tested.
        delta: the claim's, in [0, 1).
        relation: which data sets are neighbors.

    Returns:
        Rates by name, ``fpr`` and ``tpr``; empty if no bound is proven.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383), Proposition 2.5.
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    try:
        curve = profile(release, relation=relation, relative_width=RISK_RELATIVE_WIDTH)
        return _attack(curve, bound_epsilon(release, delta=delta, relation=relation).upper, delta)
    except (UnsupportedMechanismError, CalibrationError):
        return []


def _attack(curve: PrivacyProfile, claimed: float, delta: float) -> list[dict[str, float]]:
    """No rate above what the claim itself leaves, where other bounds on the curve are wider."""
    most = [min(1.0, math.exp(min(claimed, 700.0)) * fpr * (1 + 1e-12) + delta) for fpr in REPORTED_FPRS]
    try:
        return [
            {"fpr": fpr, "tpr": min(curve.tpr(fpr).upper, rate)} for fpr, rate in zip(REPORTED_FPRS, most, strict=True)
        ]
    except UnsupportedMechanismError:
        return []


@lru_cache(maxsize=256)
def _of_copies(
    release: Release, known: Release, relation: NeighboringRelation, units: int, delta: float
) -> dict[str, Any]:
    """Return both bounds; for many copies of trials as if participation were known, since each point is expensive."""
    try:
        if units == 1:  # the claim itself
            found = bound_epsilon(release, delta=delta, relation=relation)
        elif release.one_trial and units > _MANY:
            found = bound_epsilon(known, delta=delta, relation=relation, relative_width=_COPIES, group_size=units)
            found = replace(found, lower=min(bound_epsilon(release, delta=delta, relation=relation).lower, found.upper))
        else:
            found = bound_epsilon(
                release,
                delta=delta,
                relation=relation,
                relative_width=RISK_RELATIVE_WIDTH if units <= _MANY else _COPIES,
                group_size=units,
            )
    except (UnsupportedMechanismError, CalibrationError):
        return {"lower": None, "epsilon": None}
    return {"lower": _number(found.lower), "epsilon": _number(found.upper)}


@lru_cache(maxsize=64)
def _fit(release: Release, relation: NeighboringRelation) -> dict[str, Any] | None:
    if release.one_trial:  # each place of its curve is an answer about many trials
        return None
    found = fit_gaussian_dp_quickly(release, relation)
    return None if found is None else fit_json(found)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def fit_gaussian_dp_quickly(release: Release, relation: NeighboringRelation) -> GaussianDPFit | None:
    """Fit mu to the release, with both errors; None if no mu is close or the curve has no bound.

    >>> from epsilog.mechanisms import Gaussian
    >>> fit_gaussian_dp_quickly(Gaussian(2.0), NeighboringRelation.ADD_OR_REMOVE_ONE).mu
    0.5
    """
    try:
        found = fit_gaussian_dp(
            release, slack=SLACK, relation=relation, relative_width=RISK_RELATIVE_WIDTH, places=_PLACES
        )
    except (CalibrationError, UnsupportedMechanismError):
        return None
    return found if math.isfinite(found.mu) else None


def fit_json(fit: GaussianDPFit) -> dict[str, Any]:
    """A fit as plain JSON values."""
    return {"mu": codec.encode(fit.mu), "slack": fit.slack, "regret": fit.regret}
