"""Best of trials: run a secret random number of trials from a stated distribution, release only the best."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar

from epsilog.mechanisms import sampling
from epsilog.mechanisms.base import Release
from epsilog.mechanisms.sampling import RandBelow
from epsilog.terms import CheckError, check
from epsilog.terms.check import check_fields
from epsilog.terms.fields import UP, Field, term
from epsilog.terms.numerals import read_number

FEWEST_STOPS = 1e-9  # a stopping probability; beyond a billion trials nothing is tuned
MOST_TRIALS = 10**9
_MOST_DRAWN = 1e6  # on average: more are not run, and take long to draw


class TrialDistribution(ABC):
    """The distribution of the number of trials: public, fixed beforehand; the drawn number stays secret. Abstract."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)

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


@term("poisson-trials")
class PoissonTrialCount(TrialDistribution):
    """A Poisson number of trials; perhaps none, and then nothing is released but that."""

    mean: Annotated[float, Field("mean number of trials", gt=0, lt=MOST_TRIALS, rounding=UP)]

    def draw(self, below: RandBelow = secrets.randbelow) -> int:
        """Perhaps none."""
        if self.mean > _MOST_DRAWN:
            raise CheckError("mean", "at most a million trials", repr(self.mean))
        return sampling.poisson(self.mean, below)


@term("binomial-trials")
class BinomialTrialCount(TrialDistribution):
    """Each of ``most`` trials takes place by an independent coin; with probability 1 their number is fixed."""

    most: Annotated[int, Field("largest number of trials", ge=1, le=10**6)]
    probability: Annotated[float, Field("probability that each takes place, in (0, 1]", gt=0, le=1, rounding=UP)]

    def draw(self, below: RandBelow = secrets.randbelow) -> int:
        """A coin for each."""
        return sum(sampling.coin(Fraction(self.probability), below) for _ in range(self.most))


@term("tuned")
class BestOfTrials(Release):
    """The best of a random number of trials of one release, by any order that was stated beforehand.

    A trial draws its hyperparameters, computes on private data and scores its result. ``release`` covers the result
    with its score: if scores use private data, it includes their cost.
    """

    release: Annotated[
        Release, Field("one trial; where hyperparameters are drawn anew for each, the one that costs most")
    ]
    trials: Annotated[TrialDistribution, Field("distribution of the number of trials")]

    assumes: ClassVar[tuple[str, ...]] = (
        "assumes/hidden-trial-count",
        "assumes/identical-trials",
        "assumes/worst-score",
    )

    @property
    def one_trial(self) -> tuple[Release, TrialDistribution]:
        """Both of its fields."""
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
    """The same the other way round.

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
    raise CheckError("trials", "a law of trials", repr(trials))
