"""What a price means for one person: how far odds move, what more such releases cost, delta at worst, room left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from epsilog.accounting import Profile, epsilon, profile
from epsilog.mechanisms import Release, Repeated
from epsilog.numerics.rounding import down, up
from epsilog.plan import wording
from epsilog.terms import CalibrationError, Interval, NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.terms.digits import lower_text, upper_text
from epsilog.terms.messages import Message

__all__ = ["Verdict", "odds", "verdict"]

RELEASES = (1, 2, 8, 64)
_GAP, _ROUGH = 0.005, 0.02  # relative widths to aim for; the second for several releases together
_DEEPER = 1000  # times smaller: where it is looked whether epsilon stays finite
_LEAST_STEP, _MOST_STEP = 0.02, 3.0  # between which the step of ``odds`` is taken


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a claim means for one person, every figure an upper bound but ``fits``, which is a lower one.

    Attributes:
        epsilon: the claim, in nats.
        delta: the claim's failure probability; 0 for pure DP.
        relation: which data sets are neighbours; None for those that a sensitivity is stated for.
        privacy_unit: what one neighbour differs in.
        population: how many there are; None where that is not stated.
        subject: what keeps the claim, in the plural.
        moved: the logarithm of the factor by which odds grow, but for outcomes of chance ``delta``.
        releases: numbers of such releases, each with their epsilon together at ``delta``; None where none is proven.
        deeper: a smaller delta, and epsilon there.
        cap: the policy's cap on epsilon at ``delta``; None where none is stated.
        fits: how many such releases the cap bears together, ``RELEASES[-1]`` for that many or more; None without a cap.
        assumptions: what must hold of the release for its price to hold.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation | None
    privacy_unit: str
    population: int | None
    subject: str
    moved: float
    releases: tuple[tuple[int, float | None], ...]
    deeper: tuple[float, float]
    cap: float | None
    fits: int | None
    assumptions: tuple[Message, ...]

    @property
    def statement(self) -> str:
        """The claim in one sentence: a report's."""
        return wording.claim_sentence(
            self.epsilon,
            self.delta,
            relation=self.relation,
            privacy_unit=self.privacy_unit,
            population=self.population,
            subject=self.subject,
        )

    @property
    def odds(self) -> str:
        """What somebody can conclude who knows all the other data."""
        return wording.odds_sentence(self.moved, self.delta, self.privacy_unit, self.relation)

    @property
    def worst(self) -> list[str]:
        """What delta is the chance of, what it would permit at worst, and whether this release can be of that kind."""
        if math.isinf(self.epsilon):
            return ["Where nothing is promised, delta says nothing."]
        if self.delta == 0:
            return ["There is no delta: the bound holds for every outcome."]
        at, unit = upper_text(self.delta), self.privacy_unit
        everybody = ""
        if self.population is not None:
            of_them = upper_text(self.population * self.delta, 3)
            everybody = f"; done to each of the {self.population:,}, that is {of_them} of them on average"
        smaller, there = self.deeper
        kind = (
            f"Nothing here says that this release is of another kind: at delta {upper_text(smaller)} no epsilon is "
            "proven."
            if math.isinf(there)
            else f"This release does not end there: at delta {upper_text(smaller)}, epsilon is still at most "
            f"{upper_text(there)}."
        )
        return [
            f"Delta, {at}, bounds the chance of an outcome that tells more about one {unit} than the odds above say.",
            f"At worst, a promise with this delta permits publishing one {unit}'s data with that chance{everybody}.",
            kind,
        ]

    @property
    def headroom(self) -> str:
        """How the claim stands to the policy's cap: room is counted in such releases, as epsilons do not subtract."""
        if self.cap is None or self.fits is None:
            return "No cap on epsilon is stated, so nothing is said of room under one."
        limit = lower_text(self.cap)
        if self.fits == 0:
            return f"It does not fit the cap of {limit}: its epsilon is {upper_text(self.epsilon)}."
        if self.fits == 1:
            return f"It fits the cap of {limit}; a second such release does not fit beside it."
        if self.fits >= RELEASES[-1]:
            return (
                f"The cap of {limit} has room: {self.fits} such releases fit it together, this one among them, or more."
            )
        return (
            f"The cap of {limit} has room: {self.fits} such releases fit it together, this one among them, and "
            f"{_ordinal(self.fits + 1)} does not."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, with the sentences; infinite numbers are the text "inf"."""
        return {
            "epsilon": codec.encode(self.epsilon),
            "delta": self.delta,
            "statement": self.statement,
            "moved": codec.encode(self.moved),
            "odds": self.odds,
            "posteriors": [
                {
                    "prior": prior,
                    "before": wording.prior_text(prior),
                    "posterior": wording.posterior(prior, self.moved),
                    "after": wording.share_text(wording.posterior(prior, self.moved)),
                }
                for prior in wording.PRIORS
            ],
            "worst": self.worst,
            "releases": [
                {"count": count, "epsilon": None if found is None else codec.encode(found)}
                for count, found in self.releases
            ],
            "of_releases": wording.OF_RELEASES,
            "cap": self.cap,
            "fits": self.fits,
            "headroom": self.headroom,
            "assumptions": list(map(str, self.assumptions)),
        }


def _ordinal(number: int) -> str:
    """One more, with its article.

    >>> [_ordinal(number) for number in (3, 8, 13, 18, 22, 64)]
    ['a third', 'an eighth', 'a 13th', 'an 18th', 'a 22nd', 'a 64th']
    """
    words = "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"
    if number - 3 < len(words):
        return f"{'an' if number in (8, 11) else 'a'} {words[number - 3]}"
    last = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{'an' if str(number)[0] == '8' or number == 18 else 'a'} {number}{last}"


def odds(curve: Profile, delta: float) -> float:
    """Bounds the logarithm of the factor by which an outcome moves the odds between neighbours, from above.

    Outcomes that move them further, either way, come up with a chance of at most ``delta`` whichever of both neighbours
    is true. That is more than epsilon at ``delta``, which bounds sets of outcomes and not each.

    Args:
        curve: of what is released.
        delta: the chance of the outcomes that are left out, in [0, 1); 0 leaves out none.

    Source:
        docs/accounting/odds.md.

    >>> from epsilog.mechanisms import Laplace
    >>> from epsilog.accounting import profile
    >>> round(odds(profile(Laplace(2.0)), 1e-6), 6)
    0.5
    """
    delta = check.half_open(0, 1, check.DOWN)(delta=delta)
    everywhere = curve.epsilon(0.0).upper
    if delta == 0:
        return everywhere
    near, far = curve.epsilon(delta), curve.epsilon(delta / 10).upper
    slope = max(0.0, far - near.upper) / math.log(10) if math.isfinite(far) else math.inf
    step = min(max(math.log1p(slope), _LEAST_STEP), _MOST_STEP)  # about the best
    found = _stepped(curve, delta, step, near.lower)
    if math.isinf(found):  # a small step asks at a delta that is too small for what may fail outright
        found = _stepped(curve, delta, _MOST_STEP, near.lower)
    return min(everywhere, found)


def _stepped(curve: Profile, delta: float, step: float, least: float) -> float:
    """A bound for any step above 0; ``least`` is at most epsilon at ``delta`` (docs/accounting/odds.md)."""
    one_way = down(-math.expm1(-step) * delta / (1 + math.exp(-(least + step))), 16)
    return up(curve.epsilon(one_way).upper + step, 8)


def verdict(
    release: Release,
    price: Interval,
    *,
    delta: float,
    relation: NeighboringRelation | None,
    privacy_unit: str,
    population: int | None = None,
    subject: str = "released models",
    cap: float | None = None,
    epsilon: float | None = None,
) -> Verdict:
    """Says what a price means for one person, and works out what that takes.

    Args:
        release: what is released.
        price: its certified interval for epsilon at ``delta``.
        delta: failure probability, in [0, 1); 0 for pure DP.
        relation: which data sets are neighbours; None for those that the release's sensitivity is stated for.
        privacy_unit: what one neighbour differs in.
        population: how many there are, where that is stated.
        subject: what keeps the claim, in the plural.
        cap: the policy's cap on epsilon at ``delta``; room under it is counted in releases of this kind.
        epsilon: what is claimed, where that is less than the price: another proof's bound.

    >>> from epsilog.accounting import epsilon
    >>> from epsilog.mechanisms import Gaussian
    >>> noise = Gaussian(4.0)
    >>> found = verdict(noise, epsilon(noise, delta=1e-6), delta=1e-6, relation=None, privacy_unit="person", cap=2.5)
    >>> found.headroom
    'The cap of 2.5 has room: 4 such releases fit it together, this one among them, and a fifth does not.'
    """
    delta = check.half_open(0, 1, check.DOWN)(delta=delta)
    cap = check.optional(check.positive(check.DOWN))(cap=cap)
    epsilon = check.optional(check.upper_side())(epsilon=epsilon)
    under = relation or NeighboringRelation.ADD_OR_REMOVE_ONE
    curve = profile(release, relation=under, gap=_GAP)
    claimed = price.upper if epsilon is None else min(price.upper, epsilon)
    together = {1: claimed} | {count: _together(release, count, delta, under) for count in RELEASES[1:]}
    smaller = delta / _DEEPER
    return Verdict(
        epsilon=claimed,
        delta=delta,
        relation=relation,
        privacy_unit=check.text()(privacy_unit=privacy_unit),
        population=check.optional(check.integer(1))(population=population),
        subject=subject,
        moved=odds(curve, delta),
        releases=tuple(together.items()),
        deeper=(smaller, curve.epsilon(smaller).upper if delta > 0 else claimed),
        cap=cap,
        fits=None if cap is None else _fits(release, cap, delta, under, together),
        assumptions=price.assumptions,
    )


def _together(release: Release, count: int, delta: float, relation: NeighboringRelation) -> float | None:
    try:
        return epsilon(Repeated(release, count), delta=delta, relation=relation, gap=_ROUGH).upper
    except (UnsupportedMechanismError, CalibrationError):
        return None


def _fits(
    release: Release, cap: float, delta: float, relation: NeighboringRelation, known: dict[int, float | None]
) -> int:
    """The most releases whose price was found to be within the cap, looked for between those that are known."""

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
