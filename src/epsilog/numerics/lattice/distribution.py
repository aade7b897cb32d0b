"""PLDs on a lattice: an upper one connects the dots, a lower one merges outcomes; windows of their sums.

Both hold with floating point: each rounding error is bounded and put on the safe side
(docs/accounting/certified-bounds.md, sections 2 and 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from epsilog.numerics.distributions.base import Array, CellMasses
from epsilog.numerics.pairs import AdjacencyType, DominatingPair
from epsilog.numerics.rounding import BOUND, ELEMENTARY, LEAST, TINY, gamma, round_down, round_up

Integers = npt.NDArray[np.int64]

_WIDE = 700.0  # a gap with an exponential in double range
_ADDED = gamma(2.0)  # of what was summed, for a product and its addition
_SLICES = 5  # outcomes are cut this many times finer than the lattice before they are merged

_WALKS, _FREE_WALK, _COARSER = 6, 400_000, 4.0  # cells that merging may look at in vain, and what follows

_RATES = np.geomspace(0.02, 40, 18).tolist()  # exponents of Chernoff's bound, in standard deviations
_START = 13  # of these: about the best for a normal distribution and the usual nats
_MOST = 500.0  # an exponent with an exponential in double range
_OWN = 6  # roundings of a mean of two masses under P or under Q: a difference, products, sums
_POINT = ELEMENTARY + 10  # of the mass of a lattice point: expm1 of a gap, a quotient, and up to eight others
_LEFT = 64  # of 1 less two masses, absolute: fewer than 16


class LatticeTooLargeError(Exception):
    """More points would be needed than memory should hold: a lattice coarser by ``factor`` is called for."""

    def __init__(self, what: object, factor: float) -> None:
        super().__init__(what, factor)
        self.what, self.factor = what, factor


class LatticeDistribution(NamedTuple):
    """A PLD on ``offset + step * points``: masses under P, and the infinity mass."""

    points: Integers
    weight: Array
    infinite: float
    offset: float


def merge_sorted_indices(*indices: Integers) -> Integers:
    """Return all of several ascending lists of lattice indices, each once: merging runs is faster than hashing."""
    index = np.sort(np.concatenate(indices), kind="stable")
    return index[np.append(True, np.diff(index) > 0)] if len(index) else index


class _Spread(NamedTuple):
    """What connecting the dots puts on each lattice point, and the masses outside the lattice's range."""

    inner: Array
    below: float
    top: float
    infinite: float
    ratio_error: float


def bound_pair_delta(pair: DominatingPair, epsilon: float) -> tuple[float, float]:
    """Bound delta of one pair from below and above: the surplus P - e^epsilon Q of the losses above ``epsilon``.

    Atoms have more accurate bounds: ``DominatingPair.outcomes``.
    """
    if pair.direction is AdjacencyType.BOTH:  # at losses from 0 on it is the profile of REMOVE
        pair = DominatingPair(pair.base, pair.sampling_probability, AdjacencyType.REMOVE)
    g = np.array([epsilon])
    masses = pair.base.masses(pair.to_base(g))
    surplus, error = _surplus(pair, g, CellMasses(*(m[-1:] for m in masses)), 0.0)
    value, off = float(surplus[0]), float(error[0])
    misplacement = pair.ratio_error(
        g, epsilon
    )  # an outcome that rounding has put below epsilon has at most so much surplus
    above = pair.base.masses(pair.to_base(g - 2 * misplacement))
    near = float(pair.own(above.p, above.q)[0][-1]) * misplacement + LEAST
    return min(1.0, max(value - off, 0.0)), min(1.0, max(value + off, 0.0) + near)


def connect_dots(pair: DominatingPair, index: Integers, *, step: float, offset: float) -> LatticeDistribution:
    """Spread each outcome over its two neighboring lattice points so that P's and Q's masses both stay.

    The result dominates ``pair``: its delta is at least the pair's at every epsilon. The mass below the lattice moves
    up to its first point; the mass above is split between its last point and infinity. Cells are cut one misplacement
    too high, so that rounding leaves no outcome below its cell, and the losses of the result are three misplacements
    above the lattice.

    Args:
        pair: what to discretize.
        index: ascending lattice indices, shape (n,), n >= 2; they may skip. With ``AdjacencyType.BOTH`` they contain 0.
        step: lattice step, in nats.
        offset: loss of index 0, in nats; 0 with ``AdjacencyType.BOTH``.

    Source:
        Doroshenko et al. 2022, Section 4 (arXiv:2207.04380), from cell masses instead of differences of delta.
    """
    if pair.direction is AdjacencyType.BOTH:
        return _connect_both(pair, index, step=step, offset=offset)
    spread = _spread(pair, index, step=step, offset=offset)
    weight = spread.inner
    weight[0] += spread.below
    weight[-1] += spread.top
    return LatticeDistribution(index, weight, spread.infinite, offset + 3 * spread.ratio_error)


def _spread(pair: DominatingPair, index: Integers, *, step: float, offset: float) -> _Spread:
    g: Array = np.asarray(offset + step * index, dtype=np.float64)
    gaps = step * np.diff(index)
    misplacement = pair.ratio_error(g, offset)
    base = pair.base.masses(pair.to_base(g + misplacement))
    lifted, lifted_error = _surplus(pair, g[:-1], CellMasses(*(m[1:-1] for m in base)), offset)
    lowered, lowered_error = _surplus(pair, g[1:], CellMasses(*(m[1:-1] for m in base)), offset)
    over, over_error = _surplus(pair, g[-1:], CellMasses(*(m[-1:] for m in base)), offset)
    inner = np.zeros(len(g))
    inner[1:] += (np.maximum(lifted, 0.0) + lifted_error) / -np.expm1(-gaps)
    inner[:-1] += (np.maximum(-lowered, 0.0) + lowered_error) / np.expm1(
        np.minimum(gaps, _WIDE)
    )  # less than that of a wider gap
    own = round_up(pair.own(base.p, base.q)[0], _OWN) + pair.own(base.p_error, base.q_error)[0]
    infinite = min(max(float(over[0]), 0.0) + float(over_error[0]), float(own[-1]))
    top = min(float(own[-1]) - max(float(over[0]), 0.0) + float(over_error[0]), float(own[-1]))
    below, top, infinite = (round_up(float(mass), _POINT) for mass in (own[0], max(top, 0.0), infinite))
    return _Spread(round_up(inner, _POINT), below, top, infinite, misplacement)


def _surplus(pair: DominatingPair, g: Array, cells: CellMasses, offset: float) -> tuple[Array, Array]:
    """P - e^g Q of each cell, and how far it may be off; ``offset`` is the largest number that g was made from."""
    of_p, of_q = pair.coefficients(g)
    most_p, most_q = pair.magnitudes(g)
    rounding = gamma(16 + 4 * np.abs(g) + 4 * abs(offset))
    error = most_p * (cells.p_error + rounding * cells.p) + most_q * (cells.q_error + rounding * cells.q)
    return of_p * cells.p - of_q * cells.q, error


def _connect_both(pair: DominatingPair, index: Integers, *, step: float, offset: float) -> LatticeDistribution:
    """Glues the profile of REMOVE above loss 0 to that of ADD below; what mass is left sits at 0."""
    zero = int(np.searchsorted(index, 0))
    if offset != 0 or not 0 < zero < len(index) - 1 or index[zero] != 0:
        raise AssertionError("the two sides meet at loss 0, which must be an inner lattice point")
    removed, added = (
        DominatingPair(pair.base, pair.sampling_probability, direction)
        for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD)
    )
    above = _spread(removed, index[zero:], step=step, offset=0.0)
    below = _spread(added, index[: zero + 1], step=step, offset=0.0)
    high, low = (
        p.base.masses(p.to_base(np.array([side.ratio_error]))) for p, side in ((removed, above), (added, below))
    )
    left = 1.0 - float(removed.own(high.p, high.q)[0][1]) - float(added.own(low.p, low.q)[0][0])
    error = float(sum(m.p_error.sum() + m.q_error.sum() for m in (high, low)))
    weight = np.zeros(len(index))
    weight[zero:] += above.inner
    weight[: zero + 1] += below.inner
    weight[0] += below.below
    weight[-1] += above.top
    weight[zero] += max(left, 0.0) + gamma(_LEFT) + error
    return LatticeDistribution(index, weight, above.infinite, offset + 3 * max(above.ratio_error, below.ratio_error))


def merge_outcomes(
    pair: DominatingPair, index: Integers, *, step: float, offset: float, coarse: float = math.inf
) -> LatticeDistribution:
    """Merge outcomes, and split one between two lattice points at random, until each loss reaches a lattice point.

    Merging, splitting or a smaller loss cannot help a distinguisher, so the result's delta is at most the pair's at
    every epsilon. Arguments as for ``connect_dots``; ``AdjacencyType.BOTH`` has no separate lower PLD. The lattice is
    moved down by a misplacement, so that mass on a lattice point (an atom, or mass concentrated by sampling) provably
    reaches it. No outcome moves by more than ``coarse``, or one gap. Gaps of at least ``coarse`` are where the outcomes
    hardly matter: their lower halves are rounded down.

    Source:
        The data processing inequality; docs/accounting/certified-bounds.md, section 3.
    """
    atom = pair.atom_misplacement
    offset = offset - (
        atom or 2 * pair.ratio_error(np.asarray(offset + step * index[[0, -1]], dtype=np.float64), offset)
    )
    g: Array = np.asarray(offset + step * index, dtype=np.float64)
    gaps = np.diff(g)[:, None]
    cuts = gaps * (np.arange(_SLICES) / _SLICES)
    if atom > 0:  # an atom on a lattice point gets a separate slice
        cuts = np.insert(cuts, 1, np.minimum(2 * atom, gaps[:, 0] / 8), axis=1)
    fine = (g[:-1, None] + cuts).ravel()
    u = pair.to_base(np.append(fine, g[-1]))
    p, q, p_error, q_error = pair.base.masses(u)
    only_p = pair.base.infinity_mass
    p[int(np.searchsorted(u, np.inf, side="left"))] -= only_p
    certain = 0.0 if pair.direction is AdjacencyType.ADD else pair.sampling_probability * only_p
    own = round_down(pair.own(p, q)[0], _POINT) - pair.own(p_error, q_error)[0]
    rounding = gamma(24 + 4 * float(np.abs(g).max()))
    cells = _MassCells(
        *(np.maximum(m, 0.0).tolist() for m in (p, q, p_error + rounding * p, q_error + rounding * q, own))
    )
    floor = np.arange(len(g) - 1) * cuts.shape[1] + 1 + cuts.shape[1] // 2
    floor = np.insert(np.where(gaps[:, 0] >= coarse, floor, 0), 0, 0)
    gap = np.minimum((np.arange(len(g)) + 1) * cuts.shape[1] + 1, len(p))
    ceiling = np.maximum(np.searchsorted(fine, g + coarse, side="right"), gap)
    columns = (*pair.coefficients(g), *pair.magnitudes(g), floor, gap, ceiling)
    points = _Points(*(column.tolist() for column in columns))
    weight = _merge(cells, points, atom)
    return LatticeDistribution(index, np.array(weight), round_down(certain, _POINT), offset)


class _MassCells(NamedTuple):
    """Base masses, how far each may be off (later roundings included), and the pair's own P-mass rounded down."""

    p: list[float]
    q: list[float]
    p_error: list[float]
    q_error: list[float]
    own: list[float]


class _Points(NamedTuple):
    """Coefficients of the surplus at each lattice point, their magnitudes, and which cells a point may take.

    ``floor`` is the first, ``ceiling`` is one more than the last; the gap above the point ends before cell ``gap``.
    """

    of_p: list[float]
    of_q: list[float]
    most_p: list[float]
    most_q: list[float]
    floor: list[int]
    gap: list[int]
    ceiling: list[int]


def _merge(cells: _MassCells, points: _Points, atom: float) -> list[float]:
    """Walk up the cells; each lattice point takes cells until their common loss has reached it, the last one in part.

    A weight is the P-mass of what a point took. The error is what cells may be off by, and what adding them up rounds;
    ``atom`` is how far an atom may be misplaced.
    """
    p, q, p_error, q_error, own = cells
    size, weight, share, cell, walked = len(p), [0.0] * len(points.of_p), 1.0, 0, 0
    for point, (a, b, most_a, most_b, floor, gap, ceiling) in enumerate(zip(*points, strict=True)):
        while cell < floor:
            more, off = _cell_surplus(cells, cell, points, point - 1)
            weight[point - 1] += share * own[cell] if more >= off else 0.0
            cell, share = cell + 1, 1.0
        first, first_share, reached = cell, share, False
        surplus = error = mass = gross = 0.0
        while cell < ceiling:
            plus, less = share * a * p[cell], share * b * q[cell]
            gross += plus + (less if less >= 0 else -less)
            off = share * (most_a * p_error[cell] + most_b * q_error[cell]) + _ADDED * gross
            gain, took = plus - less, share * own[cell]
            over = surplus + gain - error - off
            reached = over > 0 and (point > 0 or cell > _SLICES // 2)
            if reached and over > 4 * atom * (mass + took):  # but an atom on its point goes there whole
                part = min(1.0, max(0.0, error - surplus) / max(gain - off, TINY))
                mass, share = mass + part * took, share * (1 - part)
            else:
                surplus, error, mass, share = surplus + gain, error + off, mass + took, 0.0
            if share <= 0:
                cell, share = cell + 1, 1.0
            if reached:
                break
        if reached or surplus >= error:
            weight[point] = mass * (1 - _ADDED * (cell - first + 1))
        else:
            walked += cell - first
            if walked > _WALKS * size + _FREE_WALK:  # nothing reaches its point: round-off, or far too fine
                raise LatticeTooLargeError(points, _COARSER)
            cell, share = max(first, gap), first_share if first >= gap else 1.0
            _settle(cells, points, weight, point, (first, cell, first_share))
    _settle(cells, points, weight, len(weight) - 1, (cell, size, share))
    return weight


def _settle(cells: _MassCells, points: _Points, weight: list[float], point: int, which: tuple[int, int, float]) -> None:
    """Give ``point`` as many of the highest cells as reach it together, and the point below it the others.

    ``which`` is the first cell, one more than the last, and the share of the first that is left.
    """
    low, top, share = which
    surplus = error = mass = gross = 0.0
    kept = top
    while kept > low + 1:
        more, off = _cell_surplus(cells, kept - 1, points, point)
        gross += cells.own[kept - 1] + abs(more)
        off += _ADDED * gross
        if surplus + more < error + off:
            break
        surplus, error, mass, kept = surplus + more, error + off, mass + cells.own[kept - 1], kept - 1
    weight[point] += mass * (1 - _ADDED * (top - kept))
    below = max(point - 1, 0)
    for cell in range(low, kept):
        more, off = _cell_surplus(cells, cell, points, below)
        if more >= off:
            weight[below] += share * cells.own[cell]
        share = 1.0


def _cell_surplus(cells: _MassCells, cell: int, points: _Points, point: int) -> tuple[float, float]:
    error = points.most_p[point] * cells.p_error[cell] + points.most_q[point] * cells.q_error[cell]
    return points.of_p[point] * cells.p[cell] - points.of_q[point] * cells.q[cell], error


def find_support_window(plds: Sequence[tuple[Integers, Array, int]], nats: float) -> tuple[float, float, float]:
    """Return the lattice indices that bound a sum except with probability e^-nats per side, and its mean.

    ``plds`` are the independent summands' points, their probabilities, and how often each is summed.
    """
    means = [float(weight @ points) for points, weight, _ in plds]
    centered: list[tuple[Array, Array, int]] = [
        (np.asarray(points - mean), weight, count) for (points, weight, count), mean in zip(plds, means, strict=True)
    ]
    mean = math.fsum(count * mean for (_, _, count), mean in zip(plds, means, strict=True))
    spread = math.sqrt(math.fsum(count * float(weight @ (away * away)) for away, weight, count in centered))
    sides = []
    for sign in (-1.0, 1.0):
        farthest = math.fsum(count * float((sign * away).max()) for away, _, count in centered)
        reach = _reach(centered, sign / max(spread, 1e-6), nats + 1)
        sides.append(min(farthest, reach) + 2 + BOUND * abs(mean))
    return mean - sides[0], mean, mean + sides[1]


def _reach(centered: Sequence[tuple[Array, Array, int]], unit: float, nats: float) -> float:
    """The distance beyond which Chernoff's bound leaves e^-nats on one side; ``unit`` is one over a deviation, signed.

    The bound falls and then rises with the rate, so a search from the optimum of a normal distribution finds the least.
    """
    at = _START
    best = _at_rate(centered, _RATES[at] * unit, nats)
    for step in (-1, 1):
        following = at + step
        while 0 <= following < len(_RATES):
            other = _at_rate(centered, _RATES[following] * unit, nats)
            if not (other < best or math.isinf(best)):
                break
            best, following = other, following + step
        if following != at + step:
            break
    return best


def _at_rate(centered: Sequence[tuple[Array, Array, int]], rate: float, nats: float) -> float:
    log_moment = 0.0
    for away, weight, count in centered:
        exponent = rate * away
        if not exponent.max() < _MOST:
            return math.inf
        log_moment += count * math.log1p(float((np.expm1(exponent) - exponent) @ weight))  # the exponent's mean is 0
    return (log_moment + nats) / abs(rate)
