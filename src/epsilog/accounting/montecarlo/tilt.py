"""Importance sampling with a hard bound: estimators V in [0, M] of delta whose cost hardly depends on delta.

Remove: draw lambda + 1 modes, each after the first with probability proportional to its likelihood ratio with those
before, and centre the noise at their sum. With S_j the mean likelihood ratio at step j, V = payoff(L) e^(-lambda L)
prod_j S_j is unbiased for E_P[payoff(L)]; Hoelder bounds it. Where the noise is independent all modes are drawn at once
(``partitions``), and the product is a constant: the Renyi moment. Add: shift the noise against the mean mode; the
weight is bounded by Jensen. Proofs: ``docs/montecarlo/importance.md``.
A coin of chance V / M makes every draw a Bernoulli trial of chance delta / M: all that follows is exact binomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epsilog.accounting.montecarlo.mixtures import LARGEST_ORDER, METHOD, Mixture, log_mean_exp
from epsilog.accounting.montecarlo.normals import one_thread
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.pairs import Pair
from epsilog.accounting.montecarlo.payoff import Payoff
from epsilog.numerics.pairs import Direction
from epsilog.terms import CheckError, UnsupportedMechanismError, check

Array = NDArray[np.float64]


LARGEST_TILT = 64
ROUND_OFF = 1e-9  # added to the log of every bound M
LARGEST_LOG = 600.0  # of a bound M, either way: M times a chance must not underflow


@dataclass(frozen=True, slots=True)
class Tilt:
    """How one direction is sampled.

    Attributes:
        direction: remove or add.
        strength: 0 for plain draws; the Renyi order lambda (a whole number) for remove; the shift c for add.
    """

    direction: Direction
    strength: float = 0.0

    def __post_init__(self) -> None:
        check.fields(self, direction=check.one_of(DIRECTIONS), strength=check.at_least(0))
        if self.direction == Direction.REMOVE and not (
            self.strength == int(self.strength) and self.strength <= LARGEST_TILT
        ):
            raise CheckError("strength", f"a whole number up to {LARGEST_TILT} for remove", repr(self.strength))


def draw(pair: Pair, tilt: Tilt, rng: np.random.Generator, count: int, *, floor: float) -> tuple[Array, Array]:
    """Draws losses and the logs of their weights; losses at most ``floor`` may be ``-inf``; shapes (count,)."""
    if tilt.direction == Direction.ADD:
        return pair.draw(rng, count, Direction.ADD, floor=floor, shift=tilt.strength)
    if tilt.strength == 0:
        return pair.draw(rng, count, Direction.REMOVE, floor=floor, shift=0.0)
    order = int(tilt.strength)
    if pair.exact:
        loss = pair.draw_tilted(rng, order, count)
        return loss, pair.log_moment(order) - order * loss
    if not isinstance(pair, Mixture):
        raise UnsupportedMechanismError(
            pair, method=f"{METHOD} with a Renyi tilt", reason="its weights have no useful bound"
        )
    return _renyi(pair, order, rng, count)


def _renyi(pair: Mixture, order: int, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Modes one after the other; each is found in two steps, its group of about sqrt(b) and its place there."""
    width = math.isqrt(pair.bins - 1) + 1
    groups = -(-pair.bins // width)
    tops = pair.gram.max(axis=1)
    growth = np.zeros((pair.bins, groups * width))  # each row of likelihood ratios, its largest scaled to 1
    growth[:, : pair.bins] = np.exp(pair.gram - tops[:, None])
    member = np.repeat(np.eye(groups), width, axis=0)
    rows = np.arange(count)
    index = rng.integers(pair.bins, size=count)
    centre = pair.gram[index]
    share = growth[index]  # proportional to the chance of each mode, given those drawn so far
    scale = tops[index]
    log_weight = np.full(count, -order * math.log(pair.bins))
    for step in range(order):
        mass = share @ member
        sums = np.cumsum(mass, axis=1)
        total = sums[:, -1]
        log_weight += scale + np.log(total)
        aim = rng.random(count) * total
        group = _first_above(sums, aim)
        rest = aim - (sums[rows, group] - mass[rows, group])
        place = _first_above(np.cumsum(share.reshape(count, groups, width)[rows, group], axis=1), rest)
        chosen = group * width + place
        centre += pair.gram[chosen]
        if step + 1 < order:
            share *= growth[chosen]
            share *= (1 / total)[:, None]  # keeps the shares within range; any factor would do
            scale += tops[chosen] + np.log(total)
    fields = pair.noise(rng, count)
    fields += centre
    fields -= pair.half
    loss = log_mean_exp(fields)
    return loss, log_weight - order * loss


def _first_above(sums: Array, aim: Array) -> NDArray[np.int64]:
    """The first place in each row of running sums that is above the aim, which round-off may have put out of range."""
    inside = np.clip(aim, 0, np.nextafter(sums[:, -1], 0))
    return np.asarray((sums > inside[:, None]).argmax(axis=1))


def log_bound(pair: Pair, tilt: Tilt, payoff: Payoff) -> float:
    """Log of M, above every value of the estimator; with plain draws 0.

    Raises:
        UnsupportedMechanismError: no bound is proven for this pair and tilt.
    """
    if tilt.strength == 0:
        return 0.0
    largest = payoff.log_largest(tilt.strength)
    if tilt.direction == Direction.ADD:
        c = tilt.strength
        result = largest + c * pair.mean_energy / 2 + c**2 * pair.mean_field_energy / 2
    elif pair.exact and tilt.strength <= LARGEST_ORDER:
        result = largest + pair.log_moment(int(tilt.strength))
    elif isinstance(pair, Mixture) and not pair.exact:
        result = largest + sum(float(log_mean_exp(step * pair.gram).max()) for step in range(1, int(tilt.strength) + 1))
    else:
        result = math.inf
    if not result < LARGEST_LOG:
        raise UnsupportedMechanismError(tilt, method=METHOD, reason="its weights have no useful bound")
    return max(result, -LARGEST_LOG / 2) + ROUND_OFF


def log_values(pair: Pair, tilt: Tilt, payoff: Payoff, rng: np.random.Generator, count: int, *, log_m: float) -> Array:
    """Draws logs of V; shape (count,). Their exponentials average to delta.

    Raises:
        ArithmeticError: a loss or weight that is not a number, or a value above M = e^log_m.
    """
    loss, log_weight = draw(pair, tilt, rng, count, floor=payoff.floor)
    value = payoff.log_value(loss) + log_weight
    if np.isnan(value).any() or np.isnan(loss).any() or (value > log_m).any():
        raise ArithmeticError(f"simulation left its bounds: {tilt} produced {value.max()!r}, M is {log_m!r}")
    return value


def hits(
    pair: Pair, tilt: Tilt, payoff: Payoff, rng: np.random.Generator, count: int, *, log_m: float
) -> NDArray[np.bool_]:
    """Draws Bernoulli trials of chance delta / M, M = e^log_m at least the bound of the values; shape (count,)."""
    coin = rng.standard_exponential(count)
    return np.asarray(log_values(pair, tilt, payoff, rng, count, log_m=log_m) - log_m > -coin)


@one_thread()
def choose_tilt(pair: Pair, payoff: Payoff, direction: Direction) -> Tilt:
    """Finds the tilt with the smallest bound M: no draws are needed, and a Bernoulli trial's cost is M / delta.

    The smallest M is itself a proven upper bound on delta (a Renyi bound).
    """
    plain = Tilt(direction)
    if direction == Direction.REMOVE:
        most = LARGEST_ORDER if pair.exact else LARGEST_TILT if isinstance(pair, Mixture) else 0
        candidates = [Tilt(Direction.REMOVE, float(order)) for order in range(1, most + 1)]
    else:
        candidates = [Tilt(Direction.ADD, float(shift)) for shift in np.geomspace(0.1, 200, 60)]
    best, smallest = plain, 0.0
    for tilt in candidates:
        try:
            log_m = log_bound(pair, tilt, payoff)
        except UnsupportedMechanismError:
            break
        if log_m < smallest:
            best, smallest = tilt, log_m
        elif log_m > smallest + 30:
            break
    return best
