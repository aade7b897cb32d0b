"""Importance sampling with a hard bound: estimators V in [0, M] of delta at a cost nearly independent of delta.

Remove: draw lambda + 1 modes, each after the first with probability proportional to its likelihood ratio with those
before, and center the noise at their sum. With S_j the mean likelihood ratio at step j, V = payoff(L) e^(-lambda L)
prod_j S_j is unbiased for E_P[payoff(L)]; Hoelder bounds it. Where the noise is independent all modes are drawn at once
(``partitions``), and the product is a constant: the Renyi moment. Add: shift the noise against the mean mode; the
weight is bounded by Jensen. Proofs: ``docs/montecarlo/bounds.md``.
A coin of chance V / M makes every draw a Bernoulli trial of chance delta / M: all that follows is exact binomial.

A payoff is what a loss costs: its mean under the first distribution is delta. Alone, a loss L costs
(1 - e^(epsilon - L))^+. Composed independently with another event with privacy profile delta_other, it costs
delta_other(epsilon - L). Both are in [0, 1] and nondecreasing in L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from epsilog.accounting.montecarlo.mixtures import LARGEST_TILT, METHOD, SimulatedPair
from epsilog.accounting.montecarlo.normals import limit_to_one_thread
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.numerics.pairs import AdjacencyType
from epsilog.numerics.rounding import ELEMENTARY, round_down, round_up
from epsilog.terms import CheckError, UnsupportedMechanismError, check

Array = NDArray[np.float64]

ROUND_OFF = 1e-9  # added to the log of every bound M
LARGEST_LOG = 600.0  # of a bound M, either way: M times a chance must not underflow


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


@dataclass(frozen=True, slots=True)
class Tilt:
    """How one direction is sampled.

    Attributes:
        direction: remove or add.
        strength: 0 for plain draws; the Renyi order lambda (a whole number) for remove; the shift c for add.
    """

    direction: Annotated[AdjacencyType, check.one_of(DIRECTIONS)]
    strength: Annotated[float, check.at_least(0)] = 0.0

    def __post_init__(self) -> None:
        check.check_fields(self)
        if self.direction == AdjacencyType.REMOVE and not (
            self.strength == int(self.strength) and self.strength <= LARGEST_TILT
        ):
            raise CheckError("strength", f"a whole number up to {LARGEST_TILT} for remove", repr(self.strength))


def draw_weighted_losses(
    pair: SimulatedPair, tilt: Tilt, rng: np.random.Generator, count: int, *, floor: float
) -> tuple[Array, Array]:
    """Draw losses and the logs of their weights; losses at most ``floor`` may be ``-inf``; shapes (count,)."""
    if tilt.direction == AdjacencyType.ADD:
        return pair.draw(rng, count, AdjacencyType.ADD, floor=floor, shift=tilt.strength)
    if tilt.strength == 0:
        return pair.draw(rng, count, AdjacencyType.REMOVE, floor=floor, shift=0.0)
    if tilt.strength > pair.largest_tilt:
        raise UnsupportedMechanismError(
            pair, method=f"{METHOD} with a Renyi tilt", reason="its weights have no useful bound"
        )
    return pair.draw_tilted(rng, int(tilt.strength), count)


def bound_log_value(pair: SimulatedPair, tilt: Tilt, payoff: Payoff) -> float:
    """Log of M, above every value of the estimator; with plain draws 0.

    Raises:
        UnsupportedMechanismError: no bound is proven for this pair and tilt.
    """
    if tilt.strength == 0:
        return 0.0
    largest = payoff.log_largest(tilt.strength)
    if tilt.direction == AdjacencyType.ADD:
        c = tilt.strength
        result = largest + c * pair.mean_energy / 2 + c**2 * pair.mean_field_energy / 2
    elif tilt.strength <= pair.largest_tilt:
        result = largest + pair.log_moment(int(tilt.strength))
    else:
        result = math.inf
    if not result < LARGEST_LOG:
        raise UnsupportedMechanismError(tilt, method=METHOD, reason="its weights have no useful bound")
    return max(result, -LARGEST_LOG / 2) + ROUND_OFF


def draw_log_values(
    pair: SimulatedPair, tilt: Tilt, payoff: Payoff, rng: np.random.Generator, count: int, *, log_m: float
) -> Array:
    """Draw logs of V; shape (count,). Their exponentials average to delta.

    Raises:
        ArithmeticError: a loss or weight that is not a number, or a value above M = e^log_m.
    """
    loss, log_weight = draw_weighted_losses(pair, tilt, rng, count, floor=payoff.floor)
    value = payoff.log_value(loss) + log_weight
    if np.isnan(value).any() or np.isnan(loss).any() or (value > log_m).any():
        raise ArithmeticError(f"simulation left its bounds: {tilt} produced {value.max()!r}, M is {log_m!r}")
    return value


def draw_hits(
    pair: SimulatedPair, tilt: Tilt, payoff: Payoff, rng: np.random.Generator, count: int, *, log_m: float
) -> NDArray[np.bool_]:
    """Draw Bernoulli trials of chance delta / M, M = e^log_m at least the bound of the values; shape (count,)."""
    coin = rng.standard_exponential(count)
    return np.asarray(draw_log_values(pair, tilt, payoff, rng, count, log_m=log_m) - log_m > -coin)


@limit_to_one_thread()
def choose_tilt(pair: SimulatedPair, payoff: Payoff, direction: AdjacencyType) -> Tilt:
    """Return the tilt with the smallest bound M: no draws are needed, and a Bernoulli trial's cost is M / delta.

    The smallest M is itself a proven upper bound on delta (a Renyi bound).
    """
    plain = Tilt(direction)
    if direction == AdjacencyType.REMOVE:
        candidates = [Tilt(AdjacencyType.REMOVE, float(order)) for order in range(1, pair.largest_tilt + 1)]
    else:
        candidates = [Tilt(AdjacencyType.ADD, float(shift)) for shift in np.geomspace(0.1, 200, 60)]
    best, smallest = plain, 0.0
    for tilt in candidates:
        try:
            log_m = bound_log_value(pair, tilt, payoff)
        except UnsupportedMechanismError:
            break
        if log_m < smallest:
            best, smallest = tilt, log_m
        elif log_m > smallest + 30:
            break
    return best
