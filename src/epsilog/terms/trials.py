"""Repeat and select: of a random number of trials, drawn in secret from a stated law, the best alone is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from epsilog.terms import check, codec
from epsilog.terms.errors import CheckError
from epsilog.terms.mechanisms import Release
from epsilog.terms.numerals import read_number

FEWEST_STOPS = 1e-9  # a stopping probability; beyond a billion trials nothing is tuned
MOST_TRIALS = 10**9


class Trials:
    """The law of the number of trials: public, fixed beforehand, drawn once, and never told. Abstract."""

    __slots__ = ()


@codec.term("negative-binomial-trials")
@dataclass(frozen=True, slots=True)
class NegativeBinomialTrials(Trials):
    """At least one trial: the negative binomial law, truncated to whole numbers from 1 on.

    The chance of k trials is proportional to (1 - stopping_probability)^k (shape + k - 1 over k). Shape 1 is the
    geometric law (stop after each trial by a coin), shape 0 the logarithmic one. A smaller shape costs less epsilon.

    Attributes:
        shape: the law's eta, above -1 (Papernot & Steinke 2022, Definition 1, arXiv:2110.03620).
        stopping_probability: its gamma, in [1e-9, 1); the smaller, the more trials.
    """

    shape: float
    stopping_probability: float

    def __post_init__(self) -> None:
        check.fields(
            self, shape=check.between(-1, 1e6), stopping_probability=check.half_open(FEWEST_STOPS, 1)
        )  # fmt: skip


@codec.term("poisson-trials")
@dataclass(frozen=True, slots=True)
class PoissonTrials(Trials):
    """A Poisson number of trials; perhaps none, and then nothing is released but that.

    Attributes:
        mean: trials on average, above 0.
    """

    mean: float

    def __post_init__(self) -> None:
        check.fields(self, mean=check.between(0, MOST_TRIALS, check.UP))


@codec.term("binomial-trials")
@dataclass(frozen=True, slots=True)
class BinomialTrials(Trials):
    """Each of so many trials takes place by its own coin; with probability 1 their number is fixed.

    Attributes:
        most: trials at most, from 1 to a million.
        probability: the chance of each, in (0, 1].
    """

    most: int
    probability: float

    def __post_init__(self) -> None:
        check.fields(self, most=check.integer(1, 10**6), probability=check.share(check.UP))


@codec.term("tuned")
@dataclass(frozen=True, slots=True)
class Tuned(Release):
    """The best of a random number of trials of one release, by any order that was stated beforehand.

    A trial draws its hyperparameters, computes on private data, and scores what it found. Its output with its score is
    what ``release`` prices: if scores are computed on private data, their price is part of it.

    Attributes:
        release: one trial; where hyperparameters are drawn anew for each, the dearest of them.
        trials: the law of the number of trials.
    """

    release: Release
    trials: Trials

    def __post_init__(self) -> None:
        check.fields(self, release=check.instance(Release), trials=check.instance(Trials))


def _whole(number: float) -> int:
    if not number.is_integer():
        raise CheckError("trials", "a whole number of trials", repr(number))
    return int(number)


LAWS: dict[str, tuple[int, Callable[..., Trials]]] = {
    "geometric:STOP": (1, partial(NegativeBinomialTrials, 1.0)),
    "logarithmic:STOP": (1, partial(NegativeBinomialTrials, 0.0)),
    "negative-binomial:SHAPE,STOP": (2, NegativeBinomialTrials),
    "poisson:MEAN": (1, PoissonTrials),
    "binomial:MOST,CHANCE": (2, lambda most, chance: BinomialTrials(_whole(most), chance)),
    "fixed:COUNT": (1, lambda count: BinomialTrials(_whole(count), 1.0)),
}
"""Laws of trials by how they are written, each with how many numbers it takes."""


def read_trials(text: str) -> Trials:
    """A law of trials as programme files, the command line and the API write it.

    Raises:
        CheckError: a law that is none of ``LAWS``, or numbers that are none of its own.

    >>> read_trials("geometric:0.1")
    NegativeBinomialTrials(shape=1.0, stopping_probability=0.1)
    """
    name, _, numbers = check.text()(trials=text).partition(":")
    for written, (count, law) in LAWS.items():
        if written.partition(":")[0] == name:
            try:
                given = [float(read_number("trials", number)) for number in numbers.split(",")]
            except ValueError:
                given = []
            if len(given) == count:
                return law(*given)
            raise CheckError("trials", f"written as {written}", repr(text))
    raise CheckError("trials", f"one of {', '.join(LAWS)}", repr(text))


def write_trials(trials: Trials) -> str:
    """The same the other way round.

    >>> write_trials(BinomialTrials(8, 0.5)), write_trials(BinomialTrials(8, 1.0))
    ('binomial:8,0.5', 'fixed:8')
    """
    match trials:
        case NegativeBinomialTrials(shape=1.0, stopping_probability=stops):
            return f"geometric:{stops!r}"
        case NegativeBinomialTrials(shape=0.0, stopping_probability=stops):
            return f"logarithmic:{stops!r}"
        case NegativeBinomialTrials(shape=shape, stopping_probability=stops):
            return f"negative-binomial:{shape!r},{stops!r}"
        case PoissonTrials(mean=mean):
            return f"poisson:{mean!r}"
        case BinomialTrials(most=most, probability=1.0):
            return f"fixed:{most}"
        case BinomialTrials(most=most, probability=chance):
            return f"binomial:{most},{chance!r}"
    raise CheckError("trials", "a law of trials", repr(trials))
