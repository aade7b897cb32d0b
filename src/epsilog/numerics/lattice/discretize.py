"""From pairs to a composition on one lattice: its range and step, ``connect_dots`` above, ``merge_outcomes`` below.

Any step is valid: no bound relies on the plan. Atoms decide how good a step is. Losses that share a lattice by nature
keep it; one pair's atoms are put on the lattice; atoms of several pairs are rounded to a finer one.

A planning sketch is the pair cut into a few hundred cells. Its cumulant function K gives the saddle point theta, which
minimizes K(theta) - theta epsilon + theta log theta - (theta + 1) log(theta + 1) (the best exponential bound on delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from epsilog.numerics.distributions.base import LARGEST_LOSS, Array, DiscretePair, GaussianPair, LaplacePair
from epsilog.numerics.distributions.replace_one import ReplaceOneLaplacePair
from epsilog.numerics.lattice.composition import LatticeComposition, compose_on_lattice
from epsilog.numerics.lattice.distribution import (
    Integers,
    LatticeDistribution,
    LatticeTooLargeError,
    connect_dots,
    merge_outcomes,
    merge_sorted_indices,
)
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, OutcomeTable, Parts
from epsilog.numerics.questions import log_kernel_max
from epsilog.numerics.rounding import TINY, TWICE, round_down, round_up

WIDEST = 25.0  # a step: e^loss stays finite on the lattice
_REFINED = 16  # factor of refinement below, for rounding the atoms of several pairs
_LONGEST_NATURAL = 2**19
_SHORTEST = 1e-150  # a step with a square in double range

_PER_CELL = 20  # of composed frequencies: what walking over the cells above a lattice point costs
_MOST_WORK = 6_000_000  # after so much nothing is refined any more

_SCALES = np.linspace(0, 1, 10)
_FEWEST_POINTS = 12
_STRONGEST = 4000.0  # nats by which a tilt may raise one round's largest loss
_FEW_ATOMS = 64  # of one pair: it needs lattice points next to them only
_ATOM = 1e-9  # the width of a cell that holds an atom, in nats
_MOST_POINTS = 2**16  # of one PLD; plain Python walks a merged one


class Sketch(NamedTuple):
    """A pair cut into cells for planning: edges (k + 1,), losses (k,) and P-masses (k,)."""

    edges: Array
    loss: Array
    mass: Array


Sketches = list[tuple[Sketch, int]]
Distributions = list[tuple[LatticeDistribution, int]]


class DiscretizationPlan(NamedTuple):
    """How to discretize one composition."""

    sketches: Sketches  # each pair cut coarsely, with its count
    theta: float  # the tilt
    step: float  # the lattice step that should meet the relative width, in nats
    tail: float  # the mass that each round may lose at either end
    near: float  # about the epsilon in question
    nats: float  # how small, as -log, the errors of the composition should be
    start: float  # the nats that were planned at first


class WorkCounter:
    """The work done for one question, and merged PLDs that it may need again.

    It is counted, in frequencies of one part that were looked at, and never timed: answers depend on no machine.
    """

    def __init__(self) -> None:
        self._spent, self._merged = 0, dict[Hashable, tuple[DominatingPair, LatticeDistribution]]()

    @property
    def done(self) -> bool:
        """Return whether no more should be spent."""
        return self._spent > _MOST_WORK

    def add(self, cost: int) -> None:
        """Count what was spent."""
        self._spent += cost

    def merge_outcomes(
        self, pair: DominatingPair, points: Integers, *, step: float, offset: float, coarse: float
    ) -> LatticeDistribution:
        """Merge outcomes, or find that they were merged on this lattice before."""
        base: object = id(pair.base) if isinstance(pair.base, DiscretePair) else pair.base
        key = (base, pair.sampling_probability, pair.direction, points.tobytes(), step, offset, coarse)
        if key not in self._merged:
            self.add(_PER_CELL * len(points))
            self._merged[key] = pair, merge_outcomes(pair, points, step=step, offset=offset, coarse=coarse)
        return self._merged[key][1]


def discretize_and_compose(
    parts: Parts, sketches: Sketches, plan: DiscretizationPlan, fine: float, *, upper: bool, work: WorkCounter
) -> LatticeComposition:
    """Compose pairs at ``fine`` times the planned step (for the lower side less); ``sketches`` are those of the pairs.

    Raises:
        LatticeTooLargeError: too many points for memory; it carries the results so far.
    """
    wanted = min(plan.step * (fine if upper else 0.75 * fine), WIDEST)  # merging as done here errs about twice as far
    natural = _natural(parts, wanted)
    if natural is not None:
        step, exact = _exact(parts, natural[1], natural[0], upper=upper)
        return compose_on_lattice(exact, step=step, theta=plan.theta, near=plan.near, upper=upper, nats=plan.nats)
    refined = _REFINED if not upper and len(_spans(parts)) > 1 else 1
    step = _align_step(parts, 0.8 * wanted) / refined
    plds: Distributions = []
    for (given, count), (part, _) in zip(parts, sketches, strict=True):
        if not upper and given.base.has_atoms and _span(given) < step and plds:
            continue  # too little to see on this lattice; leaving a release out can only lose
        pair = given if upper else _fit_atoms(given, step)
        offset, every, tail = 0.0 if pair.direction is AdjacencyType.BOTH else pair.anchor(), 0, plan.tail
        if len(parts) > 1 and pair.direction is AdjacencyType.PLAIN and isinstance(pair.base, GaussianPair):
            # cut where even the tilted PLD is negligible: edges ring through all frequencies
            tail = max(math.exp(-0.5 * (plan.theta * pair.base.mu + math.sqrt(2 * plan.nats + 30)) ** 2), 1e-290)
            every = refined
        points = lattice_points(
            pair, part, theta=plan.theta, step=step, spacing=wanted, offset=offset, tail=tail, every=every
        )
        if upper:
            pld = connect_dots(pair, points, step=step, offset=offset)
        else:
            pld = work.merge_outcomes(pair, points, step=step, offset=offset, coarse=0.99 / (plan.theta + 1))
        plds.append((pld, count))
    return compose_on_lattice(plds, step=step, theta=plan.theta, near=plan.near, upper=upper, nats=plan.nats)


def _align_step(parts: Parts, step: float) -> float:
    """Fit the step to the only pair with atoms, so that its lowest and highest atoms are on the lattice."""
    spans = _spans(parts)
    span = spans.pop() if len(spans) == 1 else 0.0
    halves = (
        2 if any(isinstance(pair.base, ReplaceOneLaplacePair) for pair, _ in parts) else 1
    )  # most of it may sit at 0
    return span / (halves * math.ceil(span / halves / step)) if span >= step else step


def _spans(parts: Parts) -> set[float]:
    """Return the distances between the lowest and the highest atoms, for pairs with atoms."""
    return {_span(pair) for pair, _ in parts if pair.base.has_atoms and pair.base.infinity_mass == 0}


def _span(pair: DominatingPair) -> float:
    low, high = pair.from_base(np.array(pair.base.finite_range()))
    return float(high - low)


def _fit_atoms(pair: DominatingPair, step: float) -> DominatingPair:
    """A Laplace pair a little closer together, so that both atoms lie on the lattice: it can only lose less."""
    if not (isinstance(pair.base, LaplacePair) and pair.direction is AdjacencyType.PLAIN and pair.base.top > 0):
        return pair
    cells = math.floor(2 * pair.base.epsilon / step * (1 + 1e-12))
    epsilon = min(pair.base.epsilon, cells * step / 2)
    return pair if cells == 0 else DominatingPair(LaplacePair(epsilon, 0.25 * math.exp(-epsilon / 2), 0.5))


def _natural(parts: Parts, wanted: float) -> tuple[float, list[OutcomeTable]] | None:
    """Return the step that all losses share by nature, if they do and a transform can hold it; two losses always do."""
    seen = [outcomes for pair, _ in parts if (outcomes := pair.outcomes()) is not None]
    if len(seen) < len(parts):
        return None
    if len(parts) == 1 and len(seen[0].low) == 2:
        step = float(seen[0].low[1] - seen[0].low[0])
    else:
        steps = {getattr(pair.base, "step", 0.0) if pair.direction is AdjacencyType.PLAIN else 0.0 for pair, _ in parts}
        step = steps.pop() if len(steps) == 1 else 0.0
    if step < _SHORTEST:
        return None
    spread = math.sqrt(sum(count * _variance(one) for one, (_, count) in zip(seen, parts, strict=True)))
    return (step, seen) if step >= wanted or 20 * spread / step < _LONGEST_NATURAL else None


def _variance(outcomes: OutcomeTable) -> float:
    mean = float(np.sum(outcomes.mass * outcomes.low))
    return float(np.sum(outcomes.mass * (outcomes.low - mean) ** 2))


def _exact(parts: Parts, tables: list[OutcomeTable], step: float, *, upper: bool) -> tuple[float, Distributions]:
    """Return atoms that lie on a lattice already, and the step that it needs for each loss to be on the safe side.

    The first loss of each PLD is on the lattice. The step is the least (below, the largest) at which no other loss is
    above (below) its point. Rounding then moves each loss by a part of itself, and of the first.
    """
    exact: Distributions = []
    steps = []
    for table, (_, count) in zip(tables, parts, strict=True):
        losses = table.high if upper else table.low
        factor = 1 + table.relative_error if upper else 1 - table.relative_error
        first = float(losses[0]) if len(losses) else 0.0
        index = np.rint((losses - first) / step).astype(np.int64)
        steps += ((losses - first)[index > 0] / index[index > 0]).tolist()
        exact.append((LatticeDistribution(index, table.mass * factor, table.infinite[upper], first), count))
    safe = (round_up(max(steps), TWICE) if upper else round_down(min(steps), TWICE)) if steps else step
    return safe, exact


# ---- planning: no bound rests on what follows ------------------------------------------------------------------------


def sketch_pair(pair: DominatingPair, tail: float) -> Sketch:
    """Cut ``pair`` at its landmarks; cells of P or Q alone are left out."""
    u = pair.base.breakpoints(tail)
    if pair.direction is not AdjacencyType.BOTH:
        return _cut(pair, u)
    u = np.union1d(u, 0.0)
    below, above = (
        _cut(DominatingPair(pair.base, pair.sampling_probability, direction), u)
        for direction in (AdjacencyType.ADD, AdjacencyType.REMOVE)
    )
    middle = int(np.searchsorted(u, 0.0)) + 1  # cells of losses below 0; the others are above
    low, high = below.mass[:middle], above.mass[middle:]
    rest = max(1.0 - float(low.sum() + high.sum()), 0.0)  # sits at 0, which is the narrowest cell
    return Sketch(
        np.concatenate((below.edges[:middle], [0.0, _ATOM], np.maximum(above.edges[middle + 1 :], 2 * _ATOM))),
        np.concatenate((below.loss[:middle], [0.0], above.loss[middle:])),
        np.concatenate((low, [rest], high)),
    )


def _cut(pair: DominatingPair, u: Array) -> Sketch:
    masses = pair.base.masses(u)
    p, q = pair.own(masses.p, masses.q)
    ends = np.array([-np.inf, np.inf]) if pair.base.infinity_mass > 0 else np.array([u[0] - 1e-9, u[-1] + 1e-9])
    edges = pair.from_base(np.concatenate((ends[:1], u, ends[1:])))
    edges = np.clip(edges, edges[1] - 1e-6, edges[-2] + 1e-6) if pair.direction is AdjacencyType.PLAIN else edges
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = pair.from_base(np.log(masses.p) - np.log(masses.q))
    loss = np.minimum(loss, np.minimum(edges[1:], LARGEST_LOSS))  # Q's mass may underflow; as far as a lattice reaches
    seen = (p > 0) & ((q > 0) | (pair.base.infinity_mass == 0))
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
    """Return the tilt that bounds epsilon at ``delta`` best, and that epsilon."""

    def bound(theta: Array) -> Array:
        return (log_moment(sketches, theta) - math.log(delta) + log_kernel_max(theta)) / theta

    theta = _least(bound, sketches)
    return theta, max(float(bound(np.array([theta]))[0]), 0.0)


def tilt_for_epsilon(sketches: Sequence[tuple[Sketch, int]], epsilon: float) -> tuple[float, float]:
    """Return the tilt that bounds delta at ``epsilon`` best, and the logarithm of that delta."""

    def bound(theta: Array) -> Array:
        return log_moment(sketches, theta) - theta * epsilon + log_kernel_max(theta)

    theta = _least(bound, sketches)
    return theta, float(bound(np.array([theta]))[0])


def _least(bound: Callable[[Array], Array], sketches: Sequence[tuple[Sketch, int]]) -> float:
    """Search tilts up to where the largest loss gets a factor that dwarfs all others."""
    largest = max(float(np.abs(part.edges[np.isfinite(part.edges)]).max()) for part, _ in sketches)
    grid = np.geomspace(1e-3, min(max(_STRONGEST / max(largest, TINY), 1.0), 1e120), 41)
    for _ in range(3):
        values = bound(grid)
        k = int(np.nanargmin(values))
        grid = np.geomspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
    return float(grid[int(np.nanargmin(bound(grid)))])


def lattice_points(
    pair: DominatingPair,
    part: Sketch,
    *,
    theta: float,
    step: float,
    spacing: float,
    offset: float,
    tail: float,
    every: int,
) -> Integers:
    """Choose lattice points: spacing about the cube root of the tilted density, ``spacing`` in the mean square.

    If ``every`` is positive they are all multiples of it, unless that makes too many: a smooth PLD on evenly spaced
    points needs few frequencies of a transform.
    """
    low, high = pair.tail_bounds(tail)
    if pair.direction is AdjacencyType.BOTH:
        low = -high
    first, last = math.floor((low - offset) / step) - 1, math.ceil((high - offset) / step) + 1
    outcomes = pair.outcomes()
    if outcomes is not None and len(outcomes.low) <= _FEW_ATOMS:  # all mass is there
        at = np.floor((outcomes.low[np.isfinite(outcomes.low)] - offset) / step).clip(first, last).astype(np.int64)
        return merge_sorted_indices(*(at + i for i in (-1, 0, 1, 2)), np.arange(-1, 2))
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
        raise LatticeTooLargeError(pair, float(position[-1]) / _MOST_POINTS)
    losses = np.interp(np.arange(0, math.ceil(position[-1]) + 1), position, edges)
    index = np.rint((losses - offset) / step).astype(np.int64)
    index = merge_sorted_indices(index, first + np.arange(3), last - np.arange(3), np.arange(-1, 2))  # atoms lie here
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
