"""Best of trials: run a secret random number of trials from a stated distribution, release only the best."""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar

from epsilog.mechanisms import sampling
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.sampling import RandBelow
from epsilog.numerics.rounding import LEAST, ONCE, round_down, round_up
from epsilog.terms import CheckError, check
from epsilog.terms.fields import UP, Field, term
from epsilog.terms.numerals import read_number

FEWEST_STOPS = 1e-9  # a stopping probability; beyond a billion trials nothing is tuned
MOST_TRIALS = 10**9
_MOST_DRAWN = 1e6  # on average: more are not run, and take long to draw
_LOGARITHMIC = 1e-100  # a shape that is 0 to far more than any digit
TRIALS_ROUNDINGS = 64
"""Roundings: fewer than 16 in up to four quotients, products and differences and two functions."""
_ROUNDINGS = 1e4  # far above those of a few functions, by 1 and the size of their arguments


class TrialDistribution(ABC):
    """The distribution of the number of trials: public, fixed beforehand; the drawn number stays secret. Abstract.

    G is its generating function, G(x) the mean of x to the number of trials.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        check.check_fields(self)

    @abstractmethod
    def draw(self, below: RandBelow = secrets.randbelow) -> int:
        """Draw the number of trials exactly from the stated distribution. The number is as secret as the data.

        Args:
            below: where randomness comes from; anything but the default is a simulation.

        Raises:
            CheckError: more than a million trials are to be expected.

        >>> import random
        >>> NegativeBinomialTrialCount(shape=1.0, stopping_probability=0.1).draw(random.Random(1).randrange)
        5
        """

    @property
    def most_trials(self) -> int | None:
        """Return the largest number of trials; None where any number may be drawn."""
        return None

    @property
    @abstractmethod
    def expected_trials(self) -> float:
        """Return the mean number of trials, G'(1), rounded up."""

    @abstractmethod
    def _any_trial(self, chance: float) -> tuple[float, float]:
        """Return 1 - G(1 - chance) as it is computed, and the size of its exponentials' arguments: digits they cost."""

    def any_trial_probability(self, chance: float) -> tuple[float, float]:
        """Bound 1 - G(1 - chance): how likely at least one trial hits what each hits with that chance.

        >>> low, high = PoissonTrialCount(2.0).any_trial_probability(0.5)
        >>> low < 1 - math.exp(-1) < high < low + 1e-10
        True
        """
        found, spread = self._any_trial(min(chance, 1.0))
        off = _ROUNDINGS * (1 + spread)
        return max(round_down(found, off) - LEAST, 0.0), min(round_up(found, off) + LEAST, 1.0)

    @abstractmethod
    def tail_correction(self, top: float) -> float:
        """Return about ln G'(1) - ln G'(1 - top): what an outcome with so much above it loses by that."""

    @property
    def rank_odds(self) -> tuple[float, float] | None:
        """The power and the odds by which ln G' changes with the rank of an outcome; None where G' is G times a factor.

        docs/accounting/tuning.md.
        """
        return None


@term("negative-binomial-trials")
class NegativeBinomialTrialCount(TrialDistribution):
    """At least one trial: the negative binomial distribution, truncated to whole numbers from 1 on.

    The chance of k trials is proportional to (1 - stopping_probability)^k (shape + k - 1 over k). Shape 1 is the
    geometric distribution (stop after each trial by a coin), shape 0 the logarithmic one. A smaller shape costs less
    epsilon.

    Source:
        Papernot & Steinke 2022, Definition 1 (arXiv:2110.03620): shape is its eta, stopping_probability its gamma.
    """

    shape: Annotated[float, Field("shape of the distribution, above -1", "η", gt=-1, lt=1e6)]
    stopping_probability: Annotated[
        float,
        Field(
            "probability to stop after a trial, in [1e-9, 1); the smaller, the more trials", "γ", ge=FEWEST_STOPS, lt=1
        ),
    ]

    def draw(self, below: RandBelow = secrets.randbelow) -> int:
        """At least one."""
        if (1 + max(self.shape, 0)) / self.stopping_probability > _MOST_DRAWN:
            bound = "such that at most a million trials are expected"
            raise CheckError("stopping_probability", bound, repr(self.stopping_probability))
        return sampling.negative_binomial(Fraction(self.shape), Fraction(self.stopping_probability), below)

    @property
    def expected_trials(self) -> float:
        """By its closed form.

        >>> round(NegativeBinomialTrialCount(1.0, 0.125).expected_trials, 9)
        8.0
        """
        shape, stops, log = self.shape, self.stopping_probability, math.log(self.stopping_probability)
        if abs(shape) < _LOGARITHMIC:
            return round_up((1 - stops) / stops / -log, TRIALS_ROUNDINGS)
        part = -math.expm1(shape * log)  # 1 - stops^shape: its condition is at most 1 + |shape log|
        return round_up(shape * (1 - stops) / stops / part, TRIALS_ROUNDINGS + 16 * abs(shape * log))

    def _any_trial(self, chance: float) -> tuple[float, float]:
        shape, stops = self.shape, self.stopping_probability
        log, grown = -math.log(stops), math.log1p((1 - stops) / stops * chance)
        if abs(shape) < _LOGARITHMIC:
            found = grown / log
        elif shape > 0:
            found = math.expm1(-shape * grown) / math.expm1(-shape * log)
        else:  # the larger exponential is divided by, and not met
            found = math.exp(-shape * (grown - log)) * math.expm1(shape * grown) / math.expm1(shape * log)
        return found, abs(shape) * log + 1 / stops

    def tail_correction(self, top: float) -> float:
        """By a power."""
        return (1 + self.shape) * math.log1p((1 - self.stopping_probability) / self.stopping_probability * top)

    @property
    def rank_odds(self) -> tuple[float, float]:
        """One more than its shape, and the odds to stop."""
        return round_up(1 + self.shape, ONCE), self.stopping_probability / (1 - self.stopping_probability)


@term("poisson-trials")
class PoissonTrialCount(TrialDistribution):
    """A Poisson number of trials; perhaps none, and then nothing is released but that."""

    mean: Annotated[float, Field("mean number of trials", gt=0, lt=MOST_TRIALS, rounding=UP)]

    def draw(self, below: RandBelow = secrets.randbelow) -> int:
        """Perhaps none."""
        if self.mean > _MOST_DRAWN:
            raise CheckError("mean", "at most a million trials", repr(self.mean))
        return sampling.poisson(self.mean, below)

    @property
    def expected_trials(self) -> float:
        """Return its parameter."""
        return self.mean

    def _any_trial(self, chance: float) -> tuple[float, float]:
        return -math.expm1(-self.mean * chance), self.mean

    def tail_correction(self, top: float) -> float:
        """By an exponential."""
        return self.mean * top


@term("binomial-trials")
class BinomialTrialCount(TrialDistribution):
    """Each of ``most`` trials takes place by an independent coin; with probability 1 their number is fixed."""

    most: Annotated[int, Field("largest number of trials", ge=1, le=10**6)]
    probability: Annotated[float, Field("probability that each takes place, in (0, 1]", gt=0, le=1, rounding=UP)]

    def draw(self, below: RandBelow = secrets.randbelow) -> int:
        """A coin for each."""
        return sum(sampling.coin(Fraction(self.probability), below) for _ in range(self.most))

    @property
    def most_trials(self) -> int:
        """Return its parameter."""
        return self.most

    @property
    def expected_trials(self) -> float:
        """Return the expected number of trials."""
        return round_up(self.most * self.probability, ONCE)

    def _any_trial(self, chance: float) -> tuple[float, float]:
        part = self.probability * chance
        found = 1.0 if part >= 1 else -math.expm1(self.most * math.log1p(-part))
        return found, self.most / (1 - self.probability) if self.probability < 1 else float(self.most)

    def tail_correction(self, top: float) -> float:
        """Return the correction for a tail probability, at most the largest loss.

        >>> BinomialTrialCount(3, 1.0).tail_correction(1.0)
        600.0
        """
        from epsilog.numerics.distributions.base import LARGEST_LOSS  # loads NumPy

        part = self.probability * top
        return (1 - self.most) * math.log1p(-part) if part < 1 else LARGEST_LOSS

    @property
    def rank_odds(self) -> tuple[float, float]:
        """Return the maximum less one, and the odds that a trial does not take place."""
        return float(self.most - 1), (1 - self.probability) / self.probability


@term("best-of-trials")
class BestOfTrials(Release):
    """The best of a random number of trials of one release, by any order that was stated beforehand.

    A trial draws its hyperparameters, computes on private data and scores its result. ``release`` covers the result
    with its score: if scores use private data, it includes their cost.
    """

    release: Annotated[Release, Field("release of one trial; with random hyperparameters, the costliest")]
    trials: Annotated[TrialDistribution, Field("distribution of the number of trials")]

    assumes: ClassVar[tuple[str, ...]] = (
        "assumes/hidden-trial-count",
        "assumes/identical-trials",
        "assumes/worst-score",
    )

    @property
    def one_trial(self) -> tuple[Release, TrialDistribution]:
        """Return both of its fields."""
        return self.release, self.trials


def _parse_integer(number: float) -> int:
    if not number.is_integer():
        raise CheckError("trials", "a whole number of trials", repr(number))
    return int(number)


TRIAL_FORMATS: dict[str, tuple[int, Callable[..., TrialDistribution]]] = {
    "geometric:STOP": (1, partial(NegativeBinomialTrialCount, 1.0)),
    "logarithmic:STOP": (1, partial(NegativeBinomialTrialCount, 0.0)),
    "negative-binomial:SHAPE,STOP": (2, NegativeBinomialTrialCount),
    "poisson:MEAN": (1, PoissonTrialCount),
    "binomial:MOST,CHANCE": (2, lambda most, chance: BinomialTrialCount(_parse_integer(most), chance)),
    "fixed:COUNT": (1, lambda count: BinomialTrialCount(_parse_integer(count), 1.0)),
}
"""Trial-count distributions by their written form, each with its number of parameters."""


def parse_trials(text: str) -> TrialDistribution:
    """Parse a trial-count distribution in the form of run configs, the command line and the API.

    Raises:
        CheckError: a form that is not in ``TRIAL_FORMATS``, or wrong parameters.

    >>> parse_trials("geometric:0.1")
    NegativeBinomialTrialCount(shape=1.0, stopping_probability=0.1)
    """
    name, _, numbers = check.text()(trials=text).partition(":")
    for written, (count, build) in TRIAL_FORMATS.items():
        if written.partition(":")[0] == name:
            try:
                given = [float(read_number("trials", number)) for number in numbers.split(",")]
            except ValueError:
                given = []
            if len(given) == count:
                return build(*given)
            raise CheckError("trials", f"written as {written}", repr(text))
    raise CheckError("trials", f"one of {', '.join(TRIAL_FORMATS)}", repr(text))


def format_trials(trials: TrialDistribution) -> str:
    """Return the same the other way round.

    >>> format_trials(BinomialTrialCount(8, 0.5)), format_trials(BinomialTrialCount(8, 1.0))
    ('binomial:8,0.5', 'fixed:8')
    """
    match trials:
        case NegativeBinomialTrialCount(shape=1.0, stopping_probability=stops):
            return f"geometric:{stops!r}"
        case NegativeBinomialTrialCount(shape=0.0, stopping_probability=stops):
            return f"logarithmic:{stops!r}"
        case NegativeBinomialTrialCount(shape=shape, stopping_probability=stops):
            return f"negative-binomial:{shape!r},{stops!r}"
        case PoissonTrialCount(mean=mean):
            return f"poisson:{mean!r}"
        case BinomialTrialCount(most=most, probability=1.0):
            return f"fixed:{most}"
        case BinomialTrialCount(most=most, probability=chance):
            return f"binomial:{most},{chance!r}"
    raise CheckError("trials", "a trial-count distribution", repr(trials))
