"""Importance sampling with a hard bound: estimators V in [0, M] of delta at a cost nearly independent of delta.

Remove: draw lambda + 1 modes, each after the first with probability proportional to its likelihood ratio with those
before, and center the noise at their sum. With S_j the mean likelihood ratio at step j, V = payoff(L) e^(-lambda L)
prod_j S_j is unbiased for E_P[payoff(L)]; Hoelder bounds it. Where the noise is independent all modes are drawn at once
(``partitions``), and the product is a constant: the Renyi moment. Add: shift the noise against the mean mode; the
weight is bounded by Jensen. Proofs: ``docs/montecarlo/bounds.md``.
A coin of chance V / M makes every draw a Bernoulli trial of chance delta / M: all that follows is exact binomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from epsilog.accounting.montecarlo.mixtures import LARGEST_TILT, METHOD, SimulatedPair
from epsilog.accounting.montecarlo.normals import limit_to_one_thread
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.payoff import Payoff
from epsilog.numerics.pairs import AdjacencyType
from epsilog.terms import CheckError, UnsupportedMechanismError, check

Array = NDArray[np.float64]

ROUND_OFF = 1e-9  # added to the log of every bound M
LARGEST_LOG = 600.0  # of a bound M, either way: M times a chance must not underflow


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
