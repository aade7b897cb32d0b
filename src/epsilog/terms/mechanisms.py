"""Single releases: what noise was added, to what sensitivity.

A release says everything an accountant needs and nothing about how it was run. Sensitivities and noise multipliers
refer to *one unit's contribution*: the most that adding or removing a unit (or zeroing it out) moves the sum. Replacing
one unit by another moves it up to twice as far; accountants apply that factor, callers never do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from epsilog.terms import check, codec
from epsilog.terms.errors import CheckError

MOST_COMPONENTS = 4096  # of a mixture: as many as anybody writes down
_ROUNDED = Fraction(1, 10**12)  # far above what rounding moves a sum of probabilities by


class Release:
    """Something that was, or will be, computed from private data and shown. Abstract; every subclass is final."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values with a version; ``epsilog.from_json`` reads them."""
        return codec.to_json(self)


@codec.term("gaussian")
@dataclass(frozen=True, slots=True)
class Gaussian(Release):
    """Adds Gaussian noise to every coordinate of a sum.

    Attributes:
        noise_multiplier: noise standard deviation over sensitivity, no unit; 0 gives no privacy.
        sensitivity: the most one privacy unit can move the sum, in L2 norm and the sum's own unit.
    """

    noise_multiplier: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        check.fields(self, noise_multiplier=check.at_least(0, check.DOWN), sensitivity=check.positive(check.UP))


@codec.term("mixture-of-gaussians")
@dataclass(frozen=True, slots=True)
class MixtureOfGaussians(Release):
    """Adds Gaussian noise to a sum to which a unit contributes as much as is drawn at random; the draw stays hidden.

    The unit's contribution is a vector whose L2 norm is at most the sensitivity that was drawn, independently of all
    data and of all other draws; without the unit, or with it zeroed out, it is 0. A Poisson-sampled Gaussian has the
    sensitivities 0 and 1.

    What rounding makes the probabilities lack of 1 counts above as the largest sensitivity and below as the smallest;
    what they exceed 1 by is taken above from the smallest and below from the largest.

    Attributes:
        noise_stddev: standard deviation of the noise, in the sensitivities' unit; 0 gives no privacy.
        sensitivities: the most that the unit moves the sum in each case, in L2 norm and the sum's own unit.
        sampling_probabilities: the probability of each case, in [0, 1]; their sum is 1, but for rounding.

    Source:
        Ganesh 2024 (arXiv:2401.10294); Choquette-Choo, Ganesh, Steinke & Thakurta 2024 (arXiv:2310.15526).
    """

    noise_stddev: float
    sensitivities: tuple[float, ...]
    sampling_probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        check.fields(
            self,
            noise_stddev=check.at_least(0, check.DOWN),
            sensitivities=check.each(check.at_least(0, check.UP)),
            sampling_probabilities=check.each(check.within(0, 1, check.UP)),
        )
        count = len(self.sensitivities)
        if not 1 <= count <= MOST_COMPONENTS:
            raise CheckError("sensitivities", f"1 to {MOST_COMPONENTS} numbers", f"{count}", verb="be")
        if len(self.sampling_probabilities) != count:
            got = f"{len(self.sampling_probabilities)}"
            raise CheckError("sampling_probabilities", f"as many as sensitivities, {count}", got)
        total = sum(map(Fraction, self.sampling_probabilities), Fraction(0))
        if abs(total - 1) > _ROUNDED:
            raise CheckError("sampling_probabilities", "1", f"{float(total)!r}", verb="add up to")


@codec.term("laplace")
@dataclass(frozen=True, slots=True)
class Laplace(Release):
    """Adds Laplace noise to every coordinate of a sum.

    Attributes:
        noise_multiplier: noise scale b over sensitivity, no unit; 0 gives no privacy.
        sensitivity: the most one privacy unit can move the sum, in L1 norm and the sum's own unit.
    """

    noise_multiplier: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        check.fields(self, noise_multiplier=check.at_least(0, check.DOWN), sensitivity=check.positive(check.UP))


@codec.term("discrete-gaussian")
@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Release):
    """Adds discrete Gaussian noise to one integer count (Canonne, Kamath & Steinke 2020, arXiv:2004.00010).

    Attributes:
        noise_stddev: the parameter sigma of the law exp(-k^2 / (2 sigma^2)) on the integers, in counts; 0: no privacy.
        sensitivity: the most one privacy unit can move the count, a whole number.
    """

    noise_stddev: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        check.fields(self, noise_stddev=check.at_least(0, check.DOWN), sensitivity=check.integer(1))


@codec.term("discrete-laplace")
@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Release):
    """Adds discrete Laplace (two-sided geometric) noise to one integer count.

    Attributes:
        noise_scale: the parameter b of the law exp(-abs(k) / b) on the integers, in counts; 0 gives no privacy.
        sensitivity: the most one privacy unit can move the count, a whole number.
    """

    noise_scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        check.fields(self, noise_scale=check.at_least(0, check.DOWN), sensitivity=check.integer(1))


@codec.term("staircase")
@dataclass(frozen=True, slots=True)
class Staircase(Release):
    """Adds staircase noise to one number (Geng, Kairouz, Oh & Viswanath 2015, IEEE JSTSP 9(7)).

    The noise's density is constant on abs(x) < gamma s and on each step of the width s from there on, where it is
    smaller by a factor of exp(epsilon) each time; s is the sensitivity.

    Attributes:
        epsilon: of one sensitivity, in nats.
        gamma: the first step's share of the sensitivity, in [0, 1]; when blank 1 / (1 + exp(epsilon / 2)), which has
            the least mean absolute error.
        sensitivity: the most one privacy unit can move the number, in its own unit: the width of a step.
    """

    epsilon: float
    gamma: float | None = None
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        check.fields(
            self,
            epsilon=check.positive(check.UP),
            gamma=check.optional(check.within(0, 1)),
            sensitivity=check.positive(check.UP),
        )
        if self.gamma is None:
            object.__setattr__(self, "gamma", math.exp(-self.epsilon / 2) / (1 + math.exp(-self.epsilon / 2)))

    @property
    def first_step(self) -> float:
        """``gamma``, which was blank or not."""
        assert self.gamma is not None
        return self.gamma


@codec.term("randomized-response")
@dataclass(frozen=True, slots=True)
class RandomizedResponse(Release):
    """One unit reports its category, sometimes at random; neighbours differ in the category (replace-one).

    Attributes:
        flip_probability: with this probability the answer is uniform over all categories, else it is the truth; 0 gives
            no privacy.
        categories: how many answers there are.
    """

    flip_probability: float
    categories: int = 2

    def __post_init__(self) -> None:
        check.fields(self, flip_probability=check.within(0, 1, check.DOWN), categories=check.integer(2))


@codec.term("exponential")
@dataclass(frozen=True, slots=True)
class ExponentialMechanism(Release):
    """Picks one candidate with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    Attributes:
        epsilon: the mechanism's own parameter, in nats, for the relation under which the score's sensitivity was
            measured.
        monotone: whether no neighbour moves two scores in opposite ways; the loss is then at most epsilon / 2.
    """

    epsilon: float
    monotone: bool = False

    def __post_init__(self) -> None:
        check.fields(self, epsilon=check.at_least(0, check.UP), monotone=check.flag())


@codec.term("report-noisy-max")
@dataclass(frozen=True, slots=True)
class ReportNoisyMax(Release):
    """Adds noise to the score of every candidate and says which of them is the highest, and nothing else.

    Attributes:
        epsilon: 2 * sensitivity / scale of the noise, in nats, for the relation under which the scores' sensitivity was
            measured: the most that a neighbour moves a score.
        noise: "gumbel" (this is the exponential mechanism), "exponential" (permute-and-flip) or "laplace".
        monotone: whether no neighbour moves two scores in opposite ways; the loss is then at most epsilon / 2.
    """

    epsilon: float
    noise: str
    monotone: bool = False

    def __post_init__(self) -> None:
        check.fields(
            self,
            epsilon=check.at_least(0, check.UP),
            noise=check.one_of(("gumbel", "exponential", "laplace")),
            monotone=check.flag(),
        )


@codec.term("sparse-vector")
@dataclass(frozen=True, slots=True)
class SparseVector(Release):
    """Says of one query after another whether it reaches a threshold, up to noise, until so many have (AboveThreshold).

    One draw of Laplace noise is added to the threshold and stays as it is until the end; each query gets a draw of its
    own. Nothing but the comparisons is shown: a query's answer is another release, with noise of its own. A threshold
    with fresh noise after each query that reaches it is ``Repeated(SparseVector(..., positives=1), count)``.

    Attributes:
        threshold_noise_multiplier: noise scale of the threshold over the queries' sensitivity; 0 gives no privacy.
        query_noise_multiplier: noise scale of each query over the queries' sensitivity; 0 gives no privacy.
        positives: it ends with the query that is the so-manieth to reach the threshold; how many do not is free.
        monotone: whether no neighbour moves two queries in opposite ways.
    """

    threshold_noise_multiplier: float
    query_noise_multiplier: float
    positives: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        check.fields(
            self,
            threshold_noise_multiplier=check.at_least(0, check.DOWN),
            query_noise_multiplier=check.at_least(0, check.DOWN),
            positives=check.integer(1),
            monotone=check.flag(),
        )


@codec.term("pure")
@dataclass(frozen=True, slots=True)
class PureDP(Release):
    """A release known only by its statement: epsilon-DP for the relation it is accounted under.

    Attributes:
        epsilon: in nats.
    """

    epsilon: float

    def __post_init__(self) -> None:
        check.fields(self, epsilon=check.at_least(0, check.UP))


@codec.term("approximate")
@dataclass(frozen=True, slots=True)
class ApproximateDP(Release):
    """A release known only by its statement: (epsilon, delta)-DP for the relation it is accounted under.

    Attributes:
        epsilon: in nats.
        delta: failure probability, in [0, 1].
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check.fields(self, epsilon=check.at_least(0, check.UP), delta=check.within(0, 1, check.UP))


@codec.term("zcdp")
@dataclass(frozen=True, slots=True)
class ZeroConcentratedDP(Release):
    """A release known only by its statement: rho-zCDP (Bun & Steinke 2016, arXiv:1605.02065).

    Attributes:
        rho: in nats.
    """

    rho: float

    def __post_init__(self) -> None:
        check.fields(self, rho=check.at_least(0, check.UP))


@codec.term("gdp")
@dataclass(frozen=True, slots=True)
class GaussianDP(Release):
    """A release known only by its statement: mu-GDP (Dong, Roth & Su 2019, arXiv:1905.02383).

    Attributes:
        mu: the distance of the two unit Gaussians that are as hard to tell apart, no unit.
    """

    mu: float

    def __post_init__(self) -> None:
        check.fields(self, mu=check.at_least(0, check.UP))
