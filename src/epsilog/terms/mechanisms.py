"""Single releases: what noise was added, to what sensitivity.

A release says everything an accountant needs and nothing about how it was run. Sensitivities and noise multipliers
refer to *one unit's contribution*: the most that adding or removing a unit (or zeroing it out) moves the sum. Replacing
one unit by another moves it up to twice as far; accountants apply that factor, callers never do.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any

from epsilog.terms import codec
from epsilog.terms.errors import CheckError
from epsilog.terms.fields import DOWN, UP, Field, check_fields, term

MOST_COMPONENTS = 4096  # of a mixture: as many as anybody writes down
_ROUNDED = Fraction(1, 10**12)  # far above what rounding moves a sum of probabilities by

NOISE_MULTIPLIER = "noise standard deviation divided by the sensitivity; 0 gives no privacy"
SENSITIVITY = "largest change of the sum by one privacy unit, in {} norm"
COUNT_SENSITIVITY = Field("largest change of the count by one privacy unit, a whole number", "Δ", ge=1)
STATED_EPSILON = Field("privacy loss that is stated", "ε", unit="in nats", ge=0, rounding=UP)
MONOTONE = Field("whether no neighbor changes two scores in opposite directions; the loss is then at most epsilon / 2")


class Release:
    """Something that was, or will be, computed from private data and shown. Abstract; every subclass is final."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values with a version; ``epsilog.from_json`` reads them."""
        return codec.to_json(self)


@term("gaussian")
class Gaussian(Release):
    """Adds Gaussian noise to every coordinate of a sum."""

    noise_multiplier: Annotated[float, Field(NOISE_MULTIPLIER, "σ", ge=0, rounding=DOWN)]
    sensitivity: Annotated[
        float, Field(SENSITIVITY.format("L2"), "Δ", unit="in the unit of the sum", gt=0, rounding=UP)
    ] = 1.0


@term("mixture-of-gaussians")
class MixtureOfGaussians(Release):
    """Adds Gaussian noise to a sum to which a unit contributes as much as is drawn at random; the draw stays hidden.

    The unit's contribution is a vector whose L2 norm is at most the sensitivity that was drawn, independently of all
    data and of all other draws; without the unit, or with it zeroed out, it is 0. A Poisson-sampled Gaussian has the
    sensitivities 0 and 1.

    What rounding makes the probabilities lack of 1 counts above as the largest sensitivity and below as the smallest;
    what they exceed 1 by is taken above from the smallest and below from the largest.

    Source:
        Ganesh 2024 (arXiv:2401.10294); Choquette-Choo, Ganesh, Steinke & Thakurta 2024 (arXiv:2310.15526).
    """

    noise_stddev: Annotated[
        float,
        Field(
            "standard deviation of the noise; 0 gives no privacy",
            "σ",
            unit="in the unit of the sensitivities",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivities: Annotated[
        tuple[float, ...],
        Field(
            "largest change of the sum by one privacy unit in each case, in L2 norm",
            unit="in the unit of the sum",
            ge=0,
            rounding=UP,
        ),
    ]
    sampling_probabilities: Annotated[
        tuple[float, ...],
        Field("probability of each case, in [0, 1]; their sum is 1, but for rounding", ge=0, le=1, rounding=UP),
    ]

    def __post_init__(self) -> None:
        check_fields(self)
        count = len(self.sensitivities)
        if not 1 <= count <= MOST_COMPONENTS:
            raise CheckError("sensitivities", f"1 to {MOST_COMPONENTS} numbers", f"{count}", verb="be")
        if len(self.sampling_probabilities) != count:
            got = f"{len(self.sampling_probabilities)}"
            raise CheckError("sampling_probabilities", f"as many as sensitivities, {count}", got)
        total = sum(map(Fraction, self.sampling_probabilities), Fraction(0))
        if abs(total - 1) > _ROUNDED:
            raise CheckError("sampling_probabilities", "1", f"{float(total)!r}", verb="add up to")


@term("laplace")
class Laplace(Release):
    """Adds Laplace noise to every coordinate of a sum."""

    noise_multiplier: Annotated[
        float, Field("noise scale b divided by the sensitivity; 0 gives no privacy", "b", ge=0, rounding=DOWN)
    ]
    sensitivity: Annotated[
        float, Field(SENSITIVITY.format("L1"), "Δ", unit="in the unit of the sum", gt=0, rounding=UP)
    ] = 1.0


@term("discrete-gaussian")
class DiscreteGaussian(Release):
    """Adds discrete Gaussian noise to one integer count.

    Source:
        Canonne, Kamath & Steinke 2020 (arXiv:2004.00010).
    """

    noise_stddev: Annotated[
        float,
        Field(
            "sigma of the distribution exp(-k^2 / (2 sigma^2)) on the integers; 0 gives no privacy",
            "σ",
            unit="in counts",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivity: Annotated[int, COUNT_SENSITIVITY] = 1


@term("discrete-laplace")
class DiscreteLaplace(Release):
    """Adds discrete Laplace (two-sided geometric) noise to one integer count."""

    noise_scale: Annotated[
        float,
        Field(
            "b of the distribution exp(-abs(k) / b) on the integers; 0 gives no privacy",
            "b",
            unit="in counts",
            ge=0,
            rounding=DOWN,
        ),
    ]
    sensitivity: Annotated[int, COUNT_SENSITIVITY] = 1


@term("staircase")
class Staircase(Release):
    """Adds staircase noise to one number.

    The noise's density is constant on abs(x) < gamma s and on each step of the width s from there on, where it is
    smaller by a factor of exp(epsilon) each time; s is the sensitivity.

    Source:
        Geng, Kairouz, Oh & Viswanath 2015 (IEEE JSTSP 9(7)).
    """

    epsilon: Annotated[float, Field("privacy loss per sensitivity", "ε", unit="in nats", gt=0, rounding=UP)]
    gamma: Annotated[
        float | None,
        Field(
            "share of the sensitivity that the first step takes, in [0, 1]",
            "γ",
            ge=0,
            le=1,
            none_means="1 / (1 + exp(epsilon / 2)), which has the least mean absolute error",
        ),
    ] = None
    sensitivity: Annotated[
        float,
        Field(
            "largest change of the number by one privacy unit: the width of a step",
            "Δ",
            unit="in the unit of the number",
            gt=0,
            rounding=UP,
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gamma is None:
            object.__setattr__(self, "gamma", math.exp(-self.epsilon / 2) / (1 + math.exp(-self.epsilon / 2)))

    @property
    def first_step(self) -> float:
        """``gamma``, which was blank or not."""
        assert self.gamma is not None
        return self.gamma


@term("randomized-response")
class RandomizedResponse(Release):
    """One unit reports its category, sometimes at random; neighbors differ in the category (replace-one)."""

    flip_probability: Annotated[
        float,
        Field(
            "probability that the answer is uniform over all categories, else it is the truth; 0 gives no privacy",
            ge=0,
            le=1,
            rounding=DOWN,
        ),
    ]
    categories: Annotated[int, Field("number of possible answers", "k", ge=2)] = 2


@term("exponential")
class ExponentialMechanism(Release):
    """Picks one candidate with probability proportional to exp(epsilon * score / (2 * sensitivity))."""

    epsilon: Annotated[
        float,
        Field(
            "the mechanism's own parameter, for the relation under which the score's sensitivity was measured",
            "ε",
            unit="in nats",
            ge=0,
            rounding=UP,
        ),
    ]
    monotone: Annotated[bool, MONOTONE] = False


NOISES = {
    "gumbel": "Gumbel noise: the exponential mechanism",
    "exponential": "exponential noise: permute-and-flip",
    "laplace": "Laplace noise",
}


@term("report-noisy-max")
class ReportNoisyMax(Release):
    """Adds noise to the score of every candidate and says which of them is the highest, and nothing else."""

    epsilon: Annotated[
        float,
        Field(
            "2 * sensitivity / noise scale, for the relation under which the scores' sensitivity was measured",
            "ε",
            unit="in nats",
            ge=0,
            rounding=UP,
        ),
    ]
    noise: Annotated[
        str,
        Field('"gumbel" (the exponential mechanism), "exponential" (permute-and-flip) or "laplace"', choices=NOISES),
    ]
    monotone: Annotated[bool, MONOTONE] = False


@term("sparse-vector")
class SparseVector(Release):
    """Says of one query after another whether it reaches a threshold, up to noise, until so many have (AboveThreshold).

    One draw of Laplace noise is added to the threshold and stays as it is until the end; each query gets a draw of its
    own. Nothing but the comparisons is shown: a query's answer is another release, with noise of its own. A threshold
    with fresh noise after each query that reaches it is ``Repeated(SparseVector(..., positives=1), count)``.
    """

    threshold_noise_multiplier: Annotated[
        float,
        Field(
            "noise scale of the threshold divided by the queries' sensitivity; 0 gives no privacy",
            ge=0,
            rounding=DOWN,
        ),
    ]
    query_noise_multiplier: Annotated[
        float,
        Field(
            "noise scale of each query divided by the queries' sensitivity; 0 gives no privacy",
            ge=0,
            rounding=DOWN,
        ),
    ]
    positives: Annotated[
        int, Field("number of queries that reach the threshold before it ends; those that do not are free", "c", ge=1)
    ] = 1
    monotone: Annotated[bool, Field("whether no neighbor changes two queries in opposite directions")] = False


@term("pure")
class PureDP(Release):
    """A release known only by its statement: epsilon-DP for the relation it is accounted under."""

    epsilon: Annotated[float, STATED_EPSILON]


@term("approximate")
class ApproximateDP(Release):
    """A release known only by its statement: (epsilon, delta)-DP for the relation it is accounted under."""

    epsilon: Annotated[float, STATED_EPSILON]
    delta: Annotated[float, Field("failure probability, in [0, 1]", "δ", ge=0, le=1, rounding=UP)]


@term("zcdp")
class ZeroConcentratedDP(Release):
    """A release known only by its statement: rho-zCDP.

    Source:
        Bun & Steinke 2016 (arXiv:1605.02065).
    """

    rho: Annotated[float, Field("concentrated privacy loss that is stated", "ρ", unit="in nats", ge=0, rounding=UP)]


@term("gdp")
class GaussianDP(Release):
    """A release known only by its statement: mu-GDP.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383).
    """

    mu: Annotated[
        float,
        Field("distance of the two unit Gaussians that are as hard to tell apart", "μ", ge=0, rounding=UP),
    ]
