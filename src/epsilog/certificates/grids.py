"""Cells for the checker: where to cut the outcomes of each mechanism, found in doubles.

The checker moves the mass of a cell to its two extreme losses, w apart. On average this adds w^2 / 6 to the variance of
a tilted loss. Each release then adds theta (theta + 1) / 12 times the mean of w^2 to the logarithm of the bound. For a
given sum the number of cells is least if w^2 times the density of the cost times w is the same in all cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from epsilog.certificates.lines import Array, LossDistribution, logsumexp

BITS, FINE_BITS = 10, 30  # of the edges of grids with many cells, and with one
Grid = list[int]

_POINTS = {1: 3001, 2: 121}  # of a continuous outcome, alone on a sample or with another
_FEW = 61  # of a continuous outcome with several others
_MOST_JOINT = 20_000  # outcomes of three or more mechanisms on a sample, about
_FAR = 9.0  # standard deviations beyond which a likely loss has no weight
_WIDEST, _NARROWEST = 0.6, 2.0 ** (1 - BITS)
_MOST_CELLS, _MOST_LAPLACE = 20_000, 4_000
_GROWTH = 0.3  # of the width of a cell, at most, over its length
_FAINT = 1e-3  # the share of the allowed cost for all outcomes beyond the cells


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of one mechanism as the checker reads it: a line of points with log densities of both data sets.

    Attributes:
        kind: the family of grids: "normal", "zcdp", "range", "discrete", or "atoms" for those without a grid.
        points: the outcomes, shape (n,), in an order in which the loss rises.
        log_p, log_q: logarithms of the masses near the points, with the unit and without.
        reach: of discrete noise: beyond it everything counts as lost.
    """

    kind: str
    points: Array
    log_p: Array
    log_q: Array
    reach: int = 0


def read_outcomes(part: Any, one: int, negligible: float, parts: int) -> Outcomes:
    """Model a part of the checker's reading of a claim.

    Args:
        part: a partial application of the checker's ``gaussian`` or ``profile``.
        one: the checker's unit.
        negligible: a probability that may be lost.
        parts: mechanisms on the same sample.
    """
    count = _POINTS.get(parts, _FEW)
    if part.func.__name__ == "gaussian":
        mu, q, group, replaced = part.args
        return _model_normals(mu / one, q, group, replaced=replaced, negligible=negligible, count=count)
    mechanism, distance = part.args
    if mechanism["type"] == "zcdp":
        return _model_zcdp(mechanism, one, negligible)
    return _MODELS[mechanism["type"]](mechanism, distance, negligible, count)


def _model_normals(
    mu: float, share: Fraction, group: int, *, replaced: bool, negligible: float, count: int
) -> Outcomes:
    """Unit normals: one, moved; in a sample, a binomial mixture against one; or one unit replaced."""
    far = math.sqrt(-2 * math.log(negligible))
    q = float(share)
    low = -far - (mu if replaced and q < 1 else 0)
    x = np.linspace(low, group * mu + far, count)
    centers = np.arange(group + 1) * mu
    normals = -((x[:, None] - centers) ** 2) / 2
    if q == 1:
        return Outcomes("normal", x, normals[:, -1], normals[:, 0])
    if replaced:
        away = np.log1p(-q) - x * x / 2
        return Outcomes(
            "normal",
            x,
            np.logaddexp(away, math.log(q) - (x - mu) ** 2 / 2),
            np.logaddexp(away, math.log(q) - (x + mu) ** 2 / 2),
        )
    shares = [math.log(math.comb(group, j)) + j * math.log(q) + (group - j) * math.log1p(-q) for j in range(group + 1)]
    return Outcomes("normal", x, logsumexp(normals + np.array(shares), axis=1), normals[:, 0])


def _connect(losses: Array, log_deltas: Array) -> tuple[Array, Array]:
    """Logarithms of the masses of both data sets at each loss, from delta at each loss."""
    steps = np.append(np.diff(losses), 1.0)
    falls = log_deltas + np.log1p(-np.exp(np.append(np.diff(log_deltas), -np.inf)))
    slopes = falls - losses - np.log(np.expm1(steps))
    first = math.log1p(-math.exp(log_deltas[0])) - losses[0]
    before = np.concatenate([[max(first, slopes[0] + 1e-9)], slopes[:-1]])
    log_q = before + np.log(np.maximum(-np.expm1(slopes - before), 1e-300))
    return log_q + losses, log_q


def _model_range(mechanism: Any, distance: int, _negligible: float, count: int) -> Outcomes:
    """Losses of Laplace noise, or the worst losses of a mechanism of bounded range."""
    laplace = mechanism["type"] == "laplace"
    size = float(Fraction(mechanism["noise_multiplier" if laplace else "range"]))
    most = distance / size if laplace else distance * size
    losses = np.linspace(-most, most, max(9, count // 10))
    log_deltas = np.log(np.maximum(-np.expm1((losses - most) / 2), 1e-300))
    if not laplace:
        log_deltas = 2 * log_deltas - math.log(-math.expm1(-most))
    return Outcomes("range", losses, *_connect(losses, log_deltas))


def _model_zcdp(mechanism: Any, one: int, negligible: float) -> Outcomes:
    """Losses of a zCDP statement, by the best Renyi order; the negative losses mirror the positive ones."""
    rho = mechanism["rho"] / one
    losses = np.linspace(0, rho + 2.5 * math.sqrt(rho * -math.log(negligible)), 1501)
    orders = np.maximum((losses + np.sqrt(losses**2 + 8 * rho)) / (4 * rho) + 0.5, 1 + 1e-9)  # at 1 delta is 1
    log_deltas = (orders - 1) * (orders * rho - losses + np.log(orders - 1)) - orders * np.log(orders)
    fall = -1e-12 * np.arange(1, len(losses) + 1)  # where delta is 1, two losses have two deltas all the same
    log_p, log_q = _connect(losses, np.minimum.accumulate(np.minimum(log_deltas, fall)))
    return Outcomes(
        "zcdp",
        np.concatenate([-losses[:0:-1], losses]),
        np.concatenate([log_q[:0:-1], log_p]),
        np.concatenate([log_p[:0:-1], log_q]),
    )


def _model_integers(mechanism: Any, distance: int, negligible: float, _count: int) -> Outcomes:
    """Integer noise, as far as it matters."""
    scale, shift = float(Fraction(mechanism["noise_scale"])), distance * mechanism["sensitivity"]
    normal = mechanism["type"] == "discrete-gaussian"
    fall = -math.log(negligible)
    reach = math.ceil(scale * (math.sqrt(2 * fall) if normal else fall) + 1) + shift + 1
    k = np.arange(shift - reach, reach + 1)

    def log_weights(at: Array) -> Array:
        return -(at * at) / (2 * scale * scale) if normal else -np.abs(at) / scale

    total = float(logsumexp(log_weights(np.arange(-reach, reach + 1))))
    return Outcomes(
        "discrete", k.astype(float), log_weights((k - shift).astype(float)) - total, log_weights(k * 1.0) - total, reach
    )


def _model_statement(mechanism: Any, distance: int, *_: Any) -> Outcomes:
    """The two finite losses of a statement."""
    epsilon = distance * float(Fraction(mechanism["epsilon"]))
    log_p = np.array([-math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))])
    return Outcomes("atoms", np.arange(2.0), log_p, log_p[::-1])


def _model_responses(mechanism: Any, *_: Any) -> Outcomes:
    """The truth, neither, and the other answer."""
    flip, k = float(Fraction(mechanism["flip_probability"])), mechanism["categories"]
    chances = np.array([1 - flip + flip / k, max(flip - 2 * flip / k, 1e-300), flip / k])
    return Outcomes("atoms", np.arange(3.0), np.log(chances), np.log(chances[::-1]))


_MODELS = {
    "laplace": _model_range,
    "bounded-range": _model_range,
    "discrete-gaussian": _model_integers,
    "discrete-laplace": _model_integers,
    "approximate": _model_statement,
    "randomized-response": _model_responses,
}


def thin(parts: Sequence[Outcomes]) -> list[Outcomes]:
    """The same outcomes, merged with their neighbors where three or more mechanisms would have too many together."""
    if len(parts) < 3:
        return list(parts)
    fine = [part for part in parts if part.kind in ("normal", "zcdp")]
    most = max(2, int((_MOST_JOINT / _FEW ** len(fine)) ** (1 / max(1, len(parts) - len(fine)))))
    return [part if part in fine else _merge(part, most) for part in parts]


def _merge(part: Outcomes, most: int) -> Outcomes:
    """At most so many outcomes: each is a run of outcomes."""
    if len(part.points) <= most:
        return part
    starts = np.linspace(0, len(part.points), most + 1).astype(int)[:-1]
    log_p, log_q = (np.logaddexp.reduceat(masses, starts) for masses in (part.log_p, part.log_q))
    return replace(part, points=part.points[starts], log_p=log_p, log_q=log_q)


def join(parts: Sequence[Outcomes], share: float, way: str | None) -> tuple[Array, Array]:
    """Losses and log masses of all parts on one sample: an array with an axis for each."""
    parts = thin(parts)
    ratios = np.zeros([1] * len(parts))
    log_q = np.zeros([1] * len(parts))
    for axis, part in enumerate(parts):
        shape = [-1 if i == axis else 1 for i in range(len(parts))]
        ratios = ratios + (part.log_p - part.log_q).reshape(shape)
        mass = part.log_q - (logsumexp(part.log_q) if part.kind == "normal" else 0.0)
        log_q = log_q + mass.reshape(shape)
    fixed = share < 1 and way is None
    sampled = np.abs(ratios) if fixed else ratios
    if share < 1:
        sampled = np.logaddexp(math.log1p(-share), math.log(share) + sampled)
    if fixed:  # of a fixed size: neighbors may change places, and the rest of the mass has no loss
        masses = np.exp(np.where(ratios >= 0, log_q + sampled, log_q + ratios))
        masses.flat[np.argmin(sampled)] += max(0.0, 1 - float(masses.sum()))
        return np.copysign(sampled, ratios), np.log(np.maximum(masses, 1e-300))
    return (-sampled, log_q) if way == "add" else (sampled, log_q + sampled)


def model_losses(parts: Sequence[Outcomes], share: float, way: str | None, count: int) -> LossDistribution:
    """The distribution of the loss of one release."""
    losses, log_masses = join(parts, share, way)
    return LossDistribution(losses.ravel(), log_masses.ravel(), count)


@dataclass(frozen=True)
class Aim:
    """What the cells of one release may cost."""

    theta: float  # the tilt
    curvature: float  # of ``Weights``
    rounds: int  # how often the release is composed
    allowed: float  # by how much its cells may raise the logarithm of the bound

    @property
    def cost_rate(self) -> float:
        """By how much the logarithm of the bound grows with the mean of squared widths."""
        return self.curvature * self.rounds / 12


def choose_grids(parts: Sequence[Outcomes], share: float, way: str | None, *, weights: Array, aim: Aim) -> list[Grid]:
    """Cut the outcomes of each part.

    Args:
        parts: the mechanisms on one sample.
        share: the chance of a unit to be in it.
        way: "remove" or "add", or None if both are the same.
        weights: how much each outcome matters, in the order of ``model_losses``.
        aim: what the cells may cost.
    """
    losses, log_masses = join(parts, share, way)
    parts = thin(parts)
    weights = weights.reshape(losses.shape)
    continuous = sum(one.kind in ("normal", "zcdp", "range") for one in parts)
    aim = replace(aim, allowed=aim.allowed / max(1, continuous))
    grids = []
    for axis, part in enumerate(parts):
        if part.kind == "discrete":
            grids.append([min(part.reach, _MOST_CELLS)])
        elif part.kind == "atoms":
            grids.append([])
        else:
            others = tuple(i for i in range(len(parts)) if i != axis)
            steps = np.abs(np.gradient(losses, axis=axis))
            squares = (weights * steps * steps).sum(axis=others)
            if part.kind == "range":
                grids.append(_cut_interval(part.points, squares, aim))
            else:
                kept = _keep(losses, log_masses, axis, way, aim)
                if part.kind == "zcdp" or (share < 1 and way is None):  # the lower half mirrors the upper one
                    kept = slice(max(kept.start, int(np.searchsorted(part.log_p - part.log_q, 0.0))), kept.stop)
                grids.append(_cut_line(part.points[kept], steps.max(axis=others)[kept], squares[kept], aim))
    return grids


def _keep(losses: Array, log_masses: Array, axis: int, way: str | None, aim: Aim) -> slice:
    """The points between which cells matter: one cell covers the outcomes beyond them, at a negligible cost."""
    others = tuple(i for i in range(losses.ndim) if i != axis)
    loss, mass = losses.max(axis=others), logsumexp(np.moveaxis(log_masses, axis, 0).reshape(losses.shape[axis], -1), 1)
    whole = float(logsumexp(aim.theta * losses + log_masses))
    goal = math.log(_FAINT * aim.allowed / aim.rounds) + whole

    def count_faint(loss: Array, mass: Array) -> int:
        costs = np.logaddexp.accumulate(mass) + aim.theta * np.maximum.accumulate(loss)
        return max(0, int(np.searchsorted(costs, goal)) - 1)

    first = count_faint(loss, mass)
    last = count_faint(loss[::-1], mass[::-1]) if way == "add" else 0  # else the outcomes above count as lost
    return slice(first, len(loss) - last)


def _cut_interval(points: Array, squares: Array, aim: Aim) -> Grid:
    """Equal cells between the two ends of the loss."""
    cells = (len(points) - 1) * math.sqrt(aim.cost_rate * float(squares.sum()) / aim.allowed)
    return [max(4, min(_MOST_LAPLACE, math.ceil(cells)))]


def _cut_line(points: Array, slopes: Array, squares: Array, aim: Aim) -> Grid:
    """Cells of normal outcomes; their widths follow the cube root of the cost density."""
    step = points[1] - points[0]
    cost = squares / step**2
    floor = max(float(cost.max()) * 1e-18, 1e-300)
    shape = np.maximum(cost, floor) ** (-1 / 3)
    limit = 2.0 * step / np.maximum(slopes, 1e-9 * step) / max(1.0, aim.theta)
    low, high = 1e-12, 1e12
    for _ in range(60):
        scale = math.sqrt(low * high)
        widths = np.clip(np.minimum(scale * shape, np.maximum(limit, _NARROWEST)), _NARROWEST, _WIDEST)
        excess = aim.cost_rate * float((cost * widths**2).sum())
        low, high = (scale, high) if excess < aim.allowed else (low, scale)
    return _list_runs(points, widths)


def _list_runs(points: Array, widths: Array) -> Grid:
    """Edges in units of 2^-BITS as runs of equal widths; widths keep three binary digits, so that runs are long."""
    growth = _GROWTH * (points - points[0])
    widths = np.minimum.accumulate(widths - growth) + growth
    widths = np.minimum.accumulate((widths + growth)[::-1])[::-1] - growth
    runs: list[list[int]] = []
    start = round(float(points[0]) * 2**BITS)
    end, edges = float(points[-1]), start
    while edges < end * 2**BITS:
        at = edges / 2**BITS
        units = max(1, int(float(np.interp(at, points, widths)) * 2**BITS))
        keep = max(0, units.bit_length() - 3)
        units = units >> keep << keep
        if runs and runs[-1][0] == units:
            runs[-1][1] += 1
        else:
            runs.append([units, 1])
        edges += units
    return [BITS, start, *(number for run in runs for number in run)]


def cut_at(place: float) -> Grid:
    """Two edges, the upper one where the loss is epsilon: a single release then loses nothing by its cells."""
    unit = 1 << FINE_BITS
    upper = round(place * unit)
    return [FINE_BITS, upper - unit, unit, 1]


def find_crossing(part: Outcomes, share: float, way: str | None, epsilon: float) -> float:
    """The point of a normal outcome at which the loss is epsilon."""
    losses, _ = join([part], share, way)
    return float(
        np.interp(epsilon, *((losses, part.points) if losses[-1] > losses[0] else (losses[::-1], part.points[::-1])))
    )
