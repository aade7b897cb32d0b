"""Payoffs of a privacy loss: their mean under the first distribution is delta.

Alone, a loss L costs (1 - e^(epsilon - L))^+. Composed independently with another event with privacy profile
delta_other, it costs delta_other(epsilon - L). Both are in [0, 1] and nondecreasing in L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from epsilog.numerics.rounding import ELEMENTARY, round_down, round_up
from epsilog.terms import CheckError, check

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HockeyStick:
    """The payoff (1 - e^(epsilon - loss))^+.

    Attributes:
        epsilon: in nats, at least 0.
    """

    epsilon: Annotated[float, check.at_least(0)]

    def __post_init__(self) -> None:
        check.check_fields(self)

    @property
    def floor(self) -> float:
        """Return the largest loss that costs nothing."""
        return self.epsilon

    def log_value(self, loss: Array) -> Array:
        """Log of the payoff, ``-inf`` where it is 0; shape (n,) to (n,)."""
        result = np.full(loss.shape, -np.inf)
        positive = loss > self.epsilon
        result[positive] = np.log(-np.expm1(self.epsilon - loss[positive]))
        return result

    def log_largest(self, tilt: float) -> float:
        """Log of the largest payoff(l) e^(-tilt l) over all losses l, tilt >= 0."""
        if tilt == 0:
            return 0.0
        return -tilt * self.epsilon + tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)


@dataclass(frozen=True)
class ProfilePayoff:
    """The payoff delta_other(epsilon - loss), for a certified profile of the other events in the *same* direction.

    Between two table points the profile is read off the chord in e^epsilon, in which every profile is convex: an upper
    bound. Below the table it counts as 1, above it as its last value.

    Attributes:
        epsilon: of the composition, in nats, at least 0.
        epsilons: where the other profile is tabulated, rising; negative ones are welcome.
        deltas: upper bounds of its delta there, in [0, 1], falling.
    """

    epsilon: Annotated[float, check.at_least(0)]
    epsilons: Annotated[tuple[float, ...], check.sequence_of(check.finite())]
    deltas: Annotated[tuple[float, ...], check.sequence_of(check.in_closed_interval(0, 1))]

    def __post_init__(self) -> None:
        check.check_fields(self)
        if len(self.epsilons) < 2 or len(self.epsilons) != len(self.deltas):
            raise CheckError(
                "deltas", "at least two epsilons", f"{len(self.epsilons)}, {len(self.deltas)}", verb="match"
            )
        if not (np.diff(self.epsilons) > 0).all() or not (np.diff(self.deltas) <= 0).all():
            raise ValueError("epsilons must rise and deltas must not rise, got a table that does not")
        if (np.array(self.deltas) < self._least * (1 - 1e-12)).any():
            raise CheckError("deltas", "at least 1 - e^epsilon, as every profile is", repr(self.deltas))

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        return np.array(self.epsilons), np.maximum(self.deltas, self._least)

    @property
    def _least(self) -> Array:
        """Return what no profile is below: P(everything) - e^epsilon Q(everything), rounded up."""
        return np.asarray(np.clip(round_up(-np.expm1(np.array(self.epsilons)), ELEMENTARY), 0.0, 1.0))

    @property
    def floor(self) -> float:
        """Return ``-inf``: every loss costs something."""
        return -math.inf

    def log_value(self, loss: Array) -> Array:
        """Log of the payoff; shape (n,) to (n,)."""
        epsilons, deltas = self._table
        at = self.epsilon - loss
        right = np.searchsorted(epsilons, at, side="right")
        left = np.clip(right - 1, 0, len(epsilons) - 2)
        width = np.expm1(epsilons[left + 1] - epsilons[left])
        share = np.clip(np.expm1(np.minimum(at - epsilons[left], 700.0)) / width, 0.0, 1.0)
        value = deltas[left] + (deltas[left + 1] - deltas[left]) * round_down(share, 2 + 2 * ELEMENTARY)
        value = np.where(right == 0, 1.0, np.where(right == len(epsilons), deltas[-1], value))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(value))

    def log_largest(self, tilt: float) -> float:
        """Log of an upper bound on payoff(l) e^(-tilt l) over all losses l; ``inf`` if low losses may cost."""
        epsilons, deltas = self._table
        # the payoff at losses in (epsilon - e_(i+1), epsilon - e_i] is at most deltas[i]; above epsilon - e_0 at most 1
        losses = self.epsilon - epsilons
        worst = [-tilt * losses[0]]
        with np.errstate(divide="ignore"):
            worst += list(np.log(deltas[:-1]) - tilt * losses[1:])
        if deltas[-1] > 0 and tilt > 0:
            return math.inf
        return 0.0 if tilt == 0 else float(max(worst))


Payoff = HockeyStick | ProfilePayoff
