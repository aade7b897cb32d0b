"""What is asked of a release, bounds on the answer, and what any bound on the curve of deltas says about it.

Each method answers in its own module. Tilting a PLD by e^(theta loss) gives delta by a kernel. It is delta(e) =
e^(K(theta) - theta e) E k(S - e). The kernel k(y) = e^(-theta y) (1 - e^-y), y > 0, rises to its peak at y = ln(1 + 1 /
theta), and falls again. Unknown parts of S count at most by that peak.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from epsilog.numerics.distributions.base import LARGEST_LOSS
from epsilog.numerics.roots import bisect_doubles, estimate_root
from epsilog.numerics.rounding import ELEMENTARY, LEAST, TWICE, Number, gamma, round_down, round_up

_NUDGE = 4  # units that an answer is moved by at first; it is checked where it comes to lie


@dataclass(frozen=True, slots=True)
class Bounds:
    """A lower and an upper bound on the same number; ``inf`` is allowed, NaN is not.

    If the lower one is above the upper one a program or a proof is wrong, and no interval at all is the answer.

    Raises:
        ArithmeticError: the two contradict each other.

    >>> Bounds(1.0, 2.0).intersect(Bounds(1.5, 3.0))
    Bounds(lower=1.5, upper=2.0)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ArithmeticError(
                f"two proven bounds contradict each other: {self.lower!r} from below and {self.upper!r} from above; "
                "please report this"
            )

    def __iter__(self) -> Iterator[float]:
        """Unpack as ``lower, upper``."""
        return iter((self.lower, self.upper))

    def intersect(self, other: Bounds) -> Bounds:
        """Return what both say together.

        Raises:
            ArithmeticError: they have no number in common.
        """
        return Bounds(max(self.lower, other.lower), min(self.upper, other.upper))

    def within(self, relative_width: float, *, least: float = 0.0) -> bool:
        """Whether the width is at most ``relative_width`` of the upper bound, or ``least``; what is exact always is."""
        if self.lower == self.upper or math.isinf(self.upper):
            return self.lower == self.upper
        return self.upper - self.lower <= max(relative_width * self.upper, least)


@dataclass(frozen=True, slots=True)
class EpsilonAt:
    """Epsilon at a given delta."""

    delta: float


@dataclass(frozen=True, slots=True)
class DeltaAt:
    """Delta at a given epsilon."""

    epsilon: float


Question = EpsilonAt | DeltaAt

FAINT = 1e-315
"""An answer below which only its upper side is of interest."""

SPENT = 16
"""Roundings of what is left of a delta: a difference, and a chance that is a power of 1/16, exactly."""

_POWER = 1 / 16  # from one chance that may be spent to the next
_LITTLE = 1e-3  # of a bound on delta: a chance that is not worth spending


def relevant_delta(question: Question) -> float:
    """A delta that matters to the answer, about."""
    return question.delta if isinstance(question, EpsilonAt) else 1e-10


def trivial_bounds(question: Question) -> Bounds:
    """Return what is known before anything is computed.

    >>> trivial_bounds(DeltaAt(1.0))
    Bounds(lower=0.0, upper=1.0)
    """
    match question:
        case EpsilonAt():
            return Bounds(0.0, math.inf)
        case DeltaAt():
            return Bounds(0.0, 1.0)


def no_privacy_answer(question: Question) -> float:
    """Return the answer without privacy.

    >>> no_privacy_answer(EpsilonAt(1e-6)), no_privacy_answer(DeltaAt(1.0))
    (inf, 1.0)
    """
    return trivial_bounds(question).upper


def bound_from_max_loss(question: Question, largest: float) -> float:
    """Bound the answer from above when no loss exceeds ``largest``.

    An outcome of loss L adds its mass times 1 - e^(epsilon - L) to delta, if that is above 0.

    >>> bound_from_max_loss(EpsilonAt(1e-6), 2.0), bound_from_max_loss(DeltaAt(2.0), 2.0)
    (2.0, 0.0)
    """
    match question:
        case EpsilonAt():
            return largest
        case DeltaAt(epsilon) if epsilon < largest:
            return min(round_up(-math.expm1(epsilon - largest), 1 + ELEMENTARY) + LEAST, 1.0)
        case DeltaAt():
            return 0.0


def bound_from_infinity_mass(question: Question, certain: float) -> float:
    """Bound the answer from below when a mass of at least ``certain`` gives everything away: delta counts it whole.

    >>> bound_from_infinity_mass(EpsilonAt(1e-6), 1e-3), bound_from_infinity_mass(DeltaAt(2.0), 1e-3)
    (inf, 0.001)
    """
    match question:
        case EpsilonAt(delta):
            return math.inf if certain > delta else 0.0
        case DeltaAt():
            return certain


def spend(question: Question, known: float, ask: Callable[[float, Question], float | None]) -> float:
    """Bound the answer from above by ``ask``, except for an event with a probability that delta covers.

    Chances are powers of 1/16: the largest below half of a delta, or each in turn. So what is seen of a delta at an
    epsilon is at most what the epsilon was found for.

    Args:
        question: about all that may happen.
        known: a bound on the answer.
        ask: bounds the answer to the rest of the question, except for an event; None if it is unknown for this and all
            smaller probabilities.

    >>> round(spend(DeltaAt(1.0), 1.0, lambda chance, left: 0.25 if chance > 0.001 else None), 4)
    0.2539
    """
    match question:
        case EpsilonAt(delta):
            spent = next((chance for chance in _chances() if chance <= delta / 2), None)
            found = None if spent is None else ask(spent, EpsilonAt(round_down(delta - spent, SPENT)))
            return known if found is None else min(known, found)
        case DeltaAt():
            for spent in _chances():
                if spent < _LITTLE * known or (found := ask(spent, question)) is None:
                    break
                known = min(known, round_up(found + spent, TWICE))  # a sum
            return known


def _chances() -> Iterator[float]:
    chance = _POWER
    while chance > LEAST / _POWER:
        yield chance
        chance *= _POWER


def solve_on_curve(question: Question, curve: Callable[[float], float], *, upper: bool) -> float:
    """Read the answer off a falling curve that bounds delta at each epsilon from one side.

    An epsilon is checked: the curve was evaluated there, and is at most delta above, more than delta below. Beyond the
    largest loss that a double can carry the curve there still bounds delta from above.

    >>> solve_on_curve(EpsilonAt(0.25), lambda epsilon: 2.0**-epsilon, upper=True)
    2.0
    """
    match question:
        case EpsilonAt(delta):
            if curve(0.0) <= delta:
                return 0.0
            if curve(LARGEST_LOSS) > delta:
                return math.inf if upper else LARGEST_LOSS
            below, first = bisect_doubles(lambda at: curve(at) <= delta, 0.0, LARGEST_LOSS)
            return first if upper else below
        case DeltaAt(epsilon):
            return curve(min(epsilon, LARGEST_LOSS)) if upper or epsilon <= LARGEST_LOSS else 0.0


class Readable(ABC):
    """A curve of deltas of one composition, bounded at any epsilon; both ends of an epsilon are checked on it."""

    theta: float  # the tilt that it was made at
    width: float  # the tilted deviation of the loss, about
    infinite: tuple[float, float]  # the least and the most mass that gives everything away

    @abstractmethod
    def delta(self, epsilon: float) -> Bounds:
        """Bound delta at ``epsilon``."""

    def epsilon(self, delta: float, near: float) -> Bounds:
        """Bound epsilon at ``delta``; either end was checked by computing its delta."""
        if self.infinite[0] > delta:
            return Bounds(math.inf, math.inf)
        if self.delta(0.0).upper <= delta:
            return Bounds(0.0, 0.0)
        here = max(near, 1e-9 * self.width)
        if self.infinite[1] < delta:
            here = _root(lambda at: self.delta(at).upper / delta, here, self.theta)
            upper = self._move_until(here, 1.0, lambda at: self.delta(at).upper <= delta)
        else:
            upper = math.inf
        here = _root(lambda at: self.delta(at).lower / delta, here, self.theta)
        lower = self._move_until(here, -1.0, lambda at: at == 0 or self.delta(at).lower >= delta)
        return Bounds(lower if math.isfinite(lower) else 0.0, upper)

    def _move_until(self, here: float, side: float, holds: Callable[[float], bool]) -> float:
        """Move ``here`` to one side until the test holds; ``inf`` if it never does."""
        nudge = max(1e-12 / self.theta, gamma(_NUDGE) * here)
        for _ in range(60):
            candidate = max(here + side * nudge, 0.0)
            if holds(candidate):
                return candidate
            nudge *= 3
        return math.inf


def _root(ratio: Callable[[float], float], guess: float, theta: float) -> float:
    """About where ``ratio`` is 1, searched in its logarithm; it falls, from above 1 at 0."""

    def excess(here: float) -> float:
        return math.log(value) if (value := ratio(here)) > 0 else -50.0

    return estimate_root(excess, guess, -theta, enough=1e-13)


def kernel_max(theta: float) -> float:
    """Return the kernel's largest value, theta^theta / (theta + 1)^(theta + 1), to a few roundings: nothing cancels.

    >>> kernel_max(1.0)
    0.25
    """
    return math.exp(-theta * math.log1p(1 / theta)) / (1 + theta)


def log_kernel_max(theta: Number) -> Number:
    """Return its logarithm; shape (k,) to (k,), too.

    >>> math.isclose(log_kernel_max(1.0), math.log(0.25))
    True
    """
    if isinstance(theta, np.ndarray):
        return np.asarray(-theta * np.log1p(1 / theta) - np.log1p(theta))
    return -theta * math.log1p(1 / theta) - math.log1p(theta)
