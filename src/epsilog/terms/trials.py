"""Repeat and select: of a random number of trials, drawn in secret from a stated law, the best alone is released."""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.terms import check, codec
from epsilog.terms.mechanisms import Release

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
        check.fields(self, mean=check.between(0, MOST_TRIALS))


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
        check.fields(self, most=check.integer(1, 10**6), probability=check.share())


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
