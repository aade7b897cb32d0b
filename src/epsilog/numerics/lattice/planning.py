"""Where to look and how finely: the tilt, the lattice step and the lattice points. Plans only; no bound rests on them.

A planning law is the pair cut into a few hundred cells. Its cumulant function K gives the saddle point theta, which
minimises K(theta) - theta epsilon + theta log theta - (theta + 1) log(theta + 1) (the best exponential bound on delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from epsilog.numerics.lattice.law import Integers, TooFineError, ascending
from epsilog.numerics.laws.base import LARGEST_LOSS, Array
from epsilog.numerics.pairs import Direction, Pair
from epsilog.numerics.questions import log_peak
from epsilog.numerics.rounding import TINY

_SCALES = np.linspace(0, 1, 10)
_FEWEST_POINTS = 12
_STRONGEST = 4000.0  # nats by which a tilt may raise one round's largest loss
_FEW_ATOMS = 64  # of one law: it needs lattice points beside them only
_ATOM = 1e-9  # the width of a cell that holds an atom, in nats
_MOST_POINTS = 2**16  # of one law; a merged one is walked in plain Python


class Sketch(NamedTuple):
    """A pair cut into cells for planning: edges (k + 1,), losses (k,) and P-masses (k,)."""

    edges: Array
    loss: Array
    mass: Array


def sketch(pair: Pair, tail: float) -> Sketch:
    """Cuts ``pair`` at its landmarks; cells that one law alone can produce are left out."""
    u = pair.law.landmarks(tail)
    if pair.direction is not Direction.BOTH:
        return _cut(pair, u)
    u = np.union1d(u, 0.0)
    below, above = (
        _cut(Pair(pair.law, pair.sampling_probability, direction), u) for direction in (Direction.ADD, Direction.REMOVE)
    )
    middle = int(np.searchsorted(u, 0.0)) + 1  # cells of losses below 0; the others are above
    low, high = below.mass[:middle], above.mass[middle:]
    rest = max(1.0 - float(low.sum() + high.sum()), 0.0)  # sits at 0, which is the narrowest cell
    return Sketch(
        np.concatenate((below.edges[:middle], [0.0, _ATOM], np.maximum(above.edges[middle + 1 :], 2 * _ATOM))),
        np.concatenate((below.loss[:middle], [0.0], above.loss[middle:])),
        np.concatenate((low, [rest], high)),
    )


def _cut(pair: Pair, u: Array) -> Sketch:
    masses = pair.law.masses(u)
    p, q = pair.own(masses.p, masses.q)
    ends = np.array([-np.inf, np.inf]) if pair.law.only_p > 0 else np.array([u[0] - 1e-9, u[-1] + 1e-9])
    edges = pair.from_base(np.concatenate((ends[:1], u, ends[1:])))
    edges = np.clip(edges, edges[1] - 1e-6, edges[-2] + 1e-6) if pair.direction is Direction.PLAIN else edges
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = pair.from_base(np.log(masses.p) - np.log(masses.q))
    loss = np.minimum(loss, np.minimum(edges[1:], LARGEST_LOSS))  # Q's mass may underflow; as far as a lattice reaches
    seen = (p > 0) & ((q > 0) | (pair.law.only_p == 0))
    least = float(loss[seen].min()) if seen.any() else 0.0
    return Sketch(edges, np.where(seen, loss, least), np.where(seen, p, 0.0))


def log_moment(sketches: Sequence[tuple[Sketch, int]], theta: Array) -> Array:
    """K(theta) = sum of counts times log E_P e^(theta loss); shape (k,) to (k,)."""
    total = np.zeros(len(theta))
    for part, count in sketches:
        exponent = theta[:, None] * part.loss
        top = exponent.max(axis=1, keepdims=True)
        total += count * (top[:, 0] + np.log(np.maximum(np.exp(exponent - top) @ part.mass, TINY)))
    return total


def tilt_for_delta(sketches: Sequence[tuple[Sketch, int]], delta: float) -> tuple[float, float]:
    """Returns the tilt that bounds epsilon at ``delta`` best, and that epsilon."""

    def bound(theta: Array) -> Array:
        return (log_moment(sketches, theta) - math.log(delta) + log_peak(theta)) / theta

    theta = _least(bound, sketches)
    return theta, max(float(bound(np.array([theta]))[0]), 0.0)


def tilt_for_epsilon(sketches: Sequence[tuple[Sketch, int]], epsilon: float) -> tuple[float, float]:
    """Returns the tilt that bounds delta at ``epsilon`` best, and the logarithm of that delta."""

    def bound(theta: Array) -> Array:
        return log_moment(sketches, theta) - theta * epsilon + log_peak(theta)

    theta = _least(bound, sketches)
    return theta, float(bound(np.array([theta]))[0])


def _least(bound: Callable[[Array], Array], sketches: Sequence[tuple[Sketch, int]]) -> float:
    """Searches tilts up to where the largest loss gets a factor that dwarfs all others."""
    largest = max(float(np.abs(part.edges[np.isfinite(part.edges)]).max()) for part, _ in sketches)
    grid = np.geomspace(1e-3, min(max(_STRONGEST / max(largest, TINY), 1.0), 1e120), 41)
    for _ in range(3):
        values = bound(grid)
        k = int(np.nanargmin(values))
        grid = np.geomspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
    return float(grid[int(np.nanargmin(bound(grid)))])


def lattice_points(
    pair: Pair, part: Sketch, *, theta: float, step: float, spacing: float, offset: float, tail: float, every: int
) -> Integers:
    """Chooses lattice points: spacing about the cube root of the tilted density, ``spacing`` in the mean square.

    If ``every`` is positive they are all multiples of it, unless that makes too many: a smooth law whose points are
    evenly spaced leaves few frequencies of a transform.
    """
    low, high = pair.reach(tail)
    if pair.direction is Direction.BOTH:
        low = -high
    first, last = math.floor((low - offset) / step) - 1, math.ceil((high - offset) / step) + 1
    outcomes = pair.outcomes()
    if outcomes is not None and len(outcomes.low) <= _FEW_ATOMS:  # nothing lies elsewhere
        at = np.floor((outcomes.low[np.isfinite(outcomes.low)] - offset) / step).clip(first, last).astype(np.int64)
        return ascending(*(at + i for i in (-1, 0, 1, 2)), np.arange(-1, 2))
    if every > 0 and last - first <= every * _MOST_POINTS / 4:
        return every * np.arange(min(first // every, -1), max(-(-last // every), 1) + 1)
    edges = np.clip(part.edges, low, high)
    width = np.diff(edges)
    weight = part.mass * np.exp(theta * (part.loss - part.loss.max()))
    weight = weight / max(float(weight.sum()), TINY)
    density = weight / np.maximum(width, TINY)
    # wide gaps are for losses below the bulk: above it, connecting the dots would lift mass to where the tilt is large
    below = (weight < 1e-12) & (np.arange(len(weight)) < int(np.argmax(weight)))
    widest = np.where(below, math.inf, max(min(1 / (theta + 1), (high - low) / _FEWEST_POINTS), step))
    gaps = _spacings(density, weight, step, spacing, widest)
    position = np.concatenate(([0.0], np.cumsum(width / gaps)))
    if not position[-1] <= _MOST_POINTS:  # written so that NaN is refused, too
        raise TooFineError(pair, float(position[-1]) / _MOST_POINTS)
    losses = np.interp(np.arange(0, math.ceil(position[-1]) + 1), position, edges)
    index = np.rint((losses - offset) / step).astype(np.int64)
    index = ascending(index, first + np.arange(3), last - np.arange(3), np.arange(-1, 2))  # atoms lie here
    return index[(index >= min(first, -1)) & (index <= max(last, 1))]


def _spacings(density: Array, weight: Array, step: float, spacing: float, widest: Array) -> Array:
    cube = np.cbrt(1 / np.maximum(density, 1e-280))
    low, high, widest = step / float(cube.max()), spacing / float(cube.min()), np.minimum(widest, 1e100)
    for _ in range(3):
        scales = low * (high / low) ** _SCALES
        gaps = np.minimum(np.maximum(scales[:, None] * cube, step), widest)
        fits = max(int(np.sum((gaps * gaps) @ weight <= spacing**2)), 1)
        low, high = scales[fits - 1], scales[min(fits, len(scales) - 1)]
    return np.asarray(np.minimum(np.maximum(low * cube, step), widest))
