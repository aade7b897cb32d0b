"""What is asked of a release, bounds on the answer, and what any bound on the curve of deltas says about it.

How a method answers lives with the method. Those that tilt a law by e^(theta loss) read delta from it through a kernel:
delta(e) = e^(K(theta) - theta e) E k(S - e) with k(y) = e^(-theta y) (1 - e^-y) for y > 0. k rises to its peak, at y =
ln(1 + 1 / theta), and falls again; what is not known of S counts at most by that peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from epsilog.numerics.laws.base import LARGEST_LOSS
from epsilog.numerics.roots import bracket
from epsilog.numerics.rounding import ELEMENTARY, LEAST, Number, up


@dataclass(frozen=True, slots=True)
class Bounds:
    """A lower and an upper bound on the same number; ``inf`` is a number here, NaN is none.

    If the lower one is above the upper one a program or a proof is wrong, and no interval at all is the answer.

    Raises:
        ArithmeticError: the two contradict each other.

    >>> Bounds(1.0, 2.0).meet(Bounds(1.5, 3.0))
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
        """Unpacks as ``lower, upper``."""
        return iter((self.lower, self.upper))

    def meet(self, other: Bounds) -> Bounds:
        """What both say together.

        Raises:
            ArithmeticError: they have no number in common.
        """
        return Bounds(max(self.lower, other.lower), min(self.upper, other.upper))

    def within(self, gap: float, *, least: float = 0.0) -> bool:
        """Whether the width is at most ``gap`` of the upper bound, or ``least``; what is exact always is."""
        if self.lower == self.upper or math.isinf(self.upper):
            return self.lower == self.upper
        return self.upper - self.lower <= max(gap * self.upper, least)


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


def size(question: Question) -> float:
    """A delta that matters to the answer, about."""
    return question.delta if isinstance(question, EpsilonAt) else 1e-10


def anything(question: Question) -> Bounds:
    """What is known before anything is computed.

    >>> anything(DeltaAt(1.0))
    Bounds(lower=0.0, upper=1.0)
    """
    match question:
        case EpsilonAt():
            return Bounds(0.0, math.inf)
        case DeltaAt():
            return Bounds(0.0, 1.0)


def everything(question: Question) -> float:
    """The answer where nothing is hidden.

    >>> everything(EpsilonAt(1e-6)), everything(DeltaAt(1.0))
    (inf, 1.0)
    """
    return anything(question).upper


def at_most(question: Question, largest: float) -> float:
    """Bounds the answer from above when no loss exceeds ``largest``.

    An outcome of loss L adds its mass times 1 - e^(epsilon - L) to delta, if that is above 0.

    >>> at_most(EpsilonAt(1e-6), 2.0), at_most(DeltaAt(2.0), 2.0)
    (2.0, 0.0)
    """
    match question:
        case EpsilonAt():
            return largest
        case DeltaAt(epsilon) if epsilon < largest:
            return min(up(-math.expm1(epsilon - largest), 1 + ELEMENTARY) + LEAST, 1.0)
        case DeltaAt():
            return 0.0


def at_least(question: Question, certain: float) -> float:
    """Bounds the answer from below when a mass of at least ``certain`` gives everything away: delta counts it whole.

    >>> at_least(EpsilonAt(1e-6), 1e-3), at_least(DeltaAt(2.0), 1e-3)
    (inf, 0.001)
    """
    match question:
        case EpsilonAt(delta):
            return math.inf if certain > delta else 0.0
        case DeltaAt():
            return certain


def read(question: Question, curve: Callable[[float], float], *, upper: bool) -> float:
    """Reads the answer off a falling curve that bounds delta at each epsilon from one side.

    An epsilon is checked: the curve was evaluated there, and is at most delta above, more than delta below. Beyond the
    largest loss that a double can carry the curve there still bounds delta from above.

    >>> read(EpsilonAt(0.25), lambda epsilon: 2.0**-epsilon, upper=True)
    2.0
    """
    match question:
        case EpsilonAt(delta):
            if curve(0.0) <= delta:
                return 0.0
            if curve(LARGEST_LOSS) > delta:
                return math.inf if upper else LARGEST_LOSS
            below, first = bracket(lambda at: curve(at) <= delta, 0.0, LARGEST_LOSS)
            return first if upper else below
        case DeltaAt(epsilon):
            return curve(min(epsilon, LARGEST_LOSS)) if upper or epsilon <= LARGEST_LOSS else 0.0


def peak(theta: float) -> float:
    """The kernel's largest value, theta^theta / (theta + 1)^(theta + 1), to a few roundings: nothing cancels.

    >>> peak(1.0)
    0.25
    """
    return math.exp(-theta * math.log1p(1 / theta)) / (1 + theta)


def log_peak(theta: Number) -> Number:
    """Its logarithm; shape (k,) to (k,), too.

    >>> math.isclose(log_peak(1.0), math.log(0.25))
    True
    """
    if isinstance(theta, np.ndarray):
        return np.asarray(-theta * np.log1p(1 / theta) - np.log1p(theta))
    return -theta * math.log1p(1 / theta) - math.log1p(theta)
