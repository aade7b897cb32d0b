"""Releases known only by the guarantee that is stated for them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar

from epsilog import numerics
from epsilog.mechanisms.base import Release, sensitivity_factor, times
from epsilog.mechanisms.gaussian import MOST_NOISE
from epsilog.mechanisms.grouped import GROUPED, group_factor
from epsilog.mechanisms.laplace import Laplace
from epsilog.numerics.rounding import MU, round_down, round_outward, round_up
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.fields import UP, Field, term
from epsilog.terms.formatting import format_decimal

STATED_EPSILON = Field("stated epsilon", "ε", unit="in nats", ge=0, rounding=UP)


@term("pure")
class PureDP(Release):
    """A release known only by its statement: epsilon-DP for the relation it is accounted under."""

    epsilon: Annotated[float, STATED_EPSILON]

    states_absence: ClassVar[bool] = False
    is_stated: ClassVar[bool] = True
    attains_rdp: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/stated-guarantee",)

    def pure_loss(self, relation: NeighboringRelation) -> Fraction:  # noqa: ARG002
        """What is stated, which randomized response attains."""
        return Fraction(self.epsilon)

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Release:
        """Return a weaker statement for the group; below, Laplace noise that satisfies the statement."""
        if above:
            return PureDP(times(self.epsilon, units, above=True))
        return _build_attained_release(self.epsilon, relation, units)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:  # noqa: ARG002
        """Randomized response."""
        return numerics.selection.build_approximate_dp_pair(self.epsilon, 0.0)

    def shuffle_reports(self, units: int, largest: float) -> numerics.shuffling.Reports:  # noqa: ARG002
        """A randomizer of three answers, or two, that satisfies what is stated."""
        return numerics.shuffling.of_statement(self.epsilon, units)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:  # noqa: ARG002
        """Of randomized response, which dominates all that satisfies the statement."""
        return numerics.renyi.pure_rdp(self.epsilon, orders)


@term("approximate")
class ApproximateDP(Release):
    """A release known only by its statement: (epsilon, delta)-DP for the relation it is accounted under."""

    epsilon: Annotated[float, STATED_EPSILON]
    delta: Annotated[float, Field("failure probability, in [0, 1]", "δ", ge=0, le=1, rounding=UP)]

    states_absence: ClassVar[bool] = False
    is_stated: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/stated-guarantee",)

    def failing(self) -> tuple[Release, float]:
        """The statement of epsilon alone, and ``delta``."""
        return PureDP(self.epsilon), self.delta

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """Both numbers."""
        return {"type": "approximate", "epsilon": format_decimal(self.epsilon), "delta": format_decimal(self.delta)}

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Release:
        """As of ``PureDP``, with delta (1 + e^epsilon + ... + e^((units - 1) epsilon)) above."""
        if not above:
            return _build_attained_release(self.epsilon, relation, units)
        delta = min(1.0, round_up(self.delta * group_factor(self.epsilon, units), GROUPED)) if self.delta > 0 else 0.0
        return ApproximateDP(times(self.epsilon, units, above=True), delta)

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:  # noqa: ARG002
        """Randomized response that gives everything away with the chance delta."""
        return numerics.selection.build_approximate_dp_pair(self.epsilon, self.delta)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:  # noqa: ARG002
        """Infinite, unless delta is 0."""
        return numerics.renyi.pure_rdp(self.epsilon if self.delta == 0 else math.inf, orders)


@term("zcdp")
class ZeroConcentratedDP(Release):
    """A release known only by its statement: rho-zCDP.

    Source:
        Bun & Steinke 2016 (arXiv:1605.02065).
    """

    rho: Annotated[float, Field("stated rho", "ρ", unit="in nats", ge=0, rounding=UP)]

    has_pairs: ClassVar[bool] = False
    states_absence: ClassVar[bool] = False
    is_stated: ClassVar[bool] = True
    attains_rdp: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/stated-guarantee",)

    def parts(self) -> tuple[tuple[Release, int], ...] | None:
        """Nothing, where it states that nothing is lost."""
        return () if self.rho == 0 else None

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> Release:  # noqa: ARG002
        """units^2 rho; below a Gaussian, which satisfies what is stated: what else does need not grow as fast."""
        if above:
            return ZeroConcentratedDP(times(self.rho, units**2, above=True))
        mu = units * math.sqrt(2.0) * math.sqrt(self.rho)
        return GaussianDP(min(round_down(mu, MU), MOST_NOISE))

    def claim(self, relation: NeighboringRelation) -> dict[str, str | int]:  # noqa: ARG002
        """What is stated."""
        return {"type": "zcdp", "rho": format_decimal(self.rho)}

    def zcdp(self, relation: NeighboringRelation) -> float:  # noqa: ARG002
        """What is stated."""
        return self.rho

    def base_pairs(self, relation: NeighboringRelation) -> numerics.pairs.BasePairs:
        """Where something is lost, none dominates all that satisfies the statement."""
        if self.rho > 0:
            reason = "rho-zCDP has no dominating pair"
            raise UnsupportedMechanismError(self, method=numerics.pairs.METHOD, reason=reason)
        return Release.base_pairs(self, relation)

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:  # noqa: ARG002
        """What is stated."""
        return numerics.renyi.zcdp_rdp(self.rho, orders)


@term("gdp")
class GaussianDP(Release):
    """A release known only by its statement: mu-GDP.

    Source:
        Dong, Roth & Su 2019 (arXiv:1905.02383).
    """

    mu: Annotated[
        float, Field("distance between the means of the two dominating unit Gaussians", "μ", ge=0, rounding=UP)
    ]

    states_absence: ClassVar[bool] = False
    is_stated: ClassVar[bool] = True
    attains_rdp: ClassVar[bool] = True
    assumes: ClassVar[tuple[str, ...]] = ("assumes/stated-guarantee",)

    def gaussian_mu(self, relation: NeighboringRelation) -> float:  # noqa: ARG002
        """What is stated, under the relation that it is stated for."""
        return self.mu

    def for_group(self, relation: NeighboringRelation, units: int, *, above: bool) -> GaussianDP:  # noqa: ARG002
        """Scale the distance."""
        return GaussianDP(times(self.mu, units, above=above))

    def rdp(self, orders: numerics.renyi.Array, relation: NeighboringRelation) -> numerics.renyi.Array:  # noqa: ARG002
        """Of two Gaussians at the distance that is stated."""
        return numerics.renyi.gaussian_rdp(self.mu, orders)


def _build_attained_release(epsilon: float, relation: NeighboringRelation, units: int) -> Release:
    """Laplace noise that satisfies a statement, as a group meets it."""
    if epsilon == 0:
        return PureDP(0.0)
    noise = round_outward(sensitivity_factor(relation) / (Fraction(epsilon) * units), up=True)
    return Laplace(noise) if math.isfinite(noise) else PureDP(0.0)
