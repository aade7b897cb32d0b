"""Releases known only by the guarantee that is stated for them."""

from __future__ import annotations

from typing import Annotated

from epsilog.mechanisms.base import Release
from epsilog.terms.fields import UP, Field, term

STATED_EPSILON = Field("privacy loss that is stated", "ε", unit="in nats", ge=0, rounding=UP)


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
