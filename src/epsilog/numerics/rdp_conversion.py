"""From Renyi divergences to epsilon and delta: the best that an order proves, with every rounding towards more.

For the likelihood ratio y = dP/dQ, delta at epsilon is the mean of (y - x)^+ under Q, x = e^epsilon. Take a convex
function a y^order + b y + c that touches 0 at some v and y - x at some u >= v: it is above (y - x)^+. Its mean under Q
is a e^((order - 1) divergence) + b + c, since y has mean 1. So each u and v prove a bound. The best of them is the
largest delta that this order allows. Asoodeh, Liao, Calmon, Kosut & Sankar 2021 (arXiv:2008.06529) find it with two
outcomes. v = 0 gives the form of Canonne, Kamath & Steinke 2020, Prop. 12 (arXiv:2004.00010v4):
docs/accounting/moments.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from epsilog.numerics.roots import bisect_doubles, estimate_root
from epsilog.numerics.rounding import ELEMENTARY, LEAST, gamma, round_up

Array = npt.NDArray[np.float64]
Curve = Callable[[Array], Array]

_DEPTHS = np.geomspace(1e-3, 64.0, 24)  # of v below 1, in nats, in terms of what the order allows
_STEPS = 4  # of Newton's method
_ZOOMS = 4  # about the best order and depth found so far
_NEAR, _NEARER = 5, 2  # orders, and depths, on either side of those, between which better ones are looked for
_NEIGHBORING_ORDERS = 8  # orders on either side of the best, without any between
_BETWEEN = 40  # orders that are looked at between those
_LARGE = 30.0  # nats from which on 1 is negligible against the exponential
_GAIN = 9.0  # nats of the moment from which on v = 0 is less than 2e-4 of delta away from the best v
_LARGE_DELTA = 1e-3  # a delta from which on both orders of the neighbors may bind at once
_SURE = 100.0  # nats of a loss: the other answer is nowhere to be seen
_ENOUGH = 1e-7  # of a delta: how near to it an epsilon is looked for
_TERMS = 16  # roundings of a sum of four terms, by their sizes: docs/accounting/rounding.md, 4, Renyi divergences
_WIDTH, _TOUCHING = 32, 64  # of logarithms of differences of exponentials, by the sizes of all terms: the same
_LOSS = 8  # of a divergence that is read at one order, and of a hyperbolic tangent


def rdp_to_epsilon_by_order(divergence: Array, orders: Array, *, delta: float) -> Array:
    """Bound epsilon from above by the Renyi divergence at each order alone, in nats; a bound below 0 means 0.

    Args:
        divergence: an upper bound at each order, in nats; shape (k,).
        orders: Renyi orders, finite and above 1; shape (k,).
        delta: failure probability, in (0, 1).

    Raises:
        ValueError: the arrays do not go with one another.

    Source:
        Canonne et al. 2020, Prop. 12 (arXiv:2004.00010v4).

    >>> rdp_to_epsilon_by_order(np.array([0.5, 1.0]), np.array([8.0, 16.0]), delta=1e-5).round(3)
    array([1.714, 1.518])
    """
    logs, less = np.log(orders), np.log(orders - 1)
    with np.errstate(over="ignore"):
        sizes = divergence + np.abs(less) + logs + (logs - math.log(delta)) / (orders - 1)
        return np.asarray(divergence + less - logs - (math.log(delta) + logs) / (orders - 1) + gamma(_TERMS) * sizes)


def rdp_to_epsilon(curve: Curve, orders: Array, delta: float, *, between: bool = False) -> float:
    """Bound epsilon at ``delta`` by a curve of divergences at orders; with ``between``, at orders between them, too.

    >>> orders, curve = np.array([1.5, 2.0, 4.0, 8.0]), lambda orders: 0.02 * orders
    >>> round(rdp_to_epsilon(curve, orders, 1e-6), 3), round(rdp_to_epsilon(curve, orders, 0.05), 3)
    (1.647, 0.132)
    """
    divergence = curve(orders)
    by_order = rdp_to_epsilon_by_order(divergence, orders, delta=delta)
    upper, best = by_order.min(), int(by_order.argmin())
    nearer = orders
    for _ in range(_ZOOMS if between and math.isfinite(upper) else 0):
        nearer = _about(nearer, best)
        divergence = curve(nearer)
        by_order = rdp_to_epsilon_by_order(divergence, nearer, delta=delta)
        upper, best = min(upper, by_order.min()), int(by_order.argmin())
    upper = float(np.maximum(upper, 0.0))  # keeps a NaN, as max(0.0, nan) would not
    if not 0 < upper < math.inf or (nearer[best] - 1) * divergence[best] > _GAIN:
        return upper

    bound = curve if between else lambda _: divergence  # known already

    def excess(epsilon: float) -> float:
        return math.log(rdp_to_delta(bound, orders, epsilon, between=between) / delta)

    if excess(0.0) <= 0:
        return 0.0
    found = estimate_root(excess, upper, -float(nearer[best]), enough=_ENOUGH) * (1 + _ENOUGH)
    return found if found < upper and excess(found) <= 0 else upper


def rdp_to_delta(curve: Curve, orders: Array, epsilon: float, *, between: bool = False) -> float:
    """Bound delta at ``epsilon`` by a curve of divergences at orders; with ``between``, at orders between them, too.

    >>> orders = np.array([1.5, 2.0, 4.0, 8.0])
    >>> round(rdp_to_delta(lambda orders: 0.02 * orders, orders, 0.132), 3)
    0.05
    """
    by_order = rdp_to_delta_with_order(curve, orders, epsilon, between=between)[0]
    if not by_order > _LARGE_DELTA:
        return by_order
    both = math.tanh(
        symmetric_pair_loss(round_up(float(curve(orders[:1])[0]), _LOSS)) / 2
    )  # the divergence at order 1 is at most that
    return min(by_order, round_up(both, _LOSS) + LEAST)


def symmetric_pair_loss(divergence: float) -> float:
    """Return the loss of a mechanism with two answers, fair between neighbors, of so much Kullback-Leibler divergence.

    It is x with x tanh(x / 2) = divergence, to 8 roundings. Other pairs with that divergence in either direction have a
    total variation of at most its tanh(x / 2), delta at 0.

    >>> round(symmetric_pair_loss(0.5), 4), symmetric_pair_loss(0.0)
    (1.0436, 0.0)
    """
    if not 0 < divergence < _SURE:
        return divergence and _SURE
    far = divergence + 2 * math.sqrt(divergence)
    return bisect_doubles(lambda loss: loss * math.tanh(loss / 2) >= divergence, 0.0, far)[1]


def rdp_to_delta_with_order(
    curve: Curve, orders: Array, epsilon: float, *, between: bool = False
) -> tuple[float, float]:
    """Bound delta in the same way, and return its order."""
    divergence, depths = curve(orders), _DEPTHS
    least, at = math.inf, 0.0
    for zoom in range(1 + _ZOOMS):
        found, best, depth = _least(divergence, orders, epsilon, depths)
        if found < least or not zoom:
            least, at = found, float(orders[best])
        if not math.isfinite(least):
            break
        if between:
            orders = _about(orders, best)
            divergence = curve(orders)
        elif not zoom:
            here = slice(max(best - _NEIGHBORING_ORDERS, 0), best + _NEIGHBORING_ORDERS + 1)
            orders, divergence = orders[here], divergence[here]
        if depth is not None:
            ends = depths[max(depth - _NEARER, 0)], depths[min(depth + _NEARER, len(depths) - 1)]
            depths = np.geomspace(*ends, len(depths))
    return float(round_up(math.exp(min(least, 0.0)), ELEMENTARY) + LEAST), at


def _about(orders: Array, best: int) -> Array:
    """Return orders between those next to the best one, denser as they near 1."""
    low, high = orders[max(best - _NEAR, 0)], orders[min(best + _NEAR, len(orders) - 1)]
    return np.unique(np.append(1 + np.geomspace(low - 1, high - 1, _BETWEEN), orders[best]))


def _least(divergence: Array, orders: Array, epsilon: float, depths: Array) -> tuple[float, int, int | None]:
    """The least bound on the logarithm of delta, which of the orders has it, and with which depth of v below 1."""
    logs = _touching_zero(divergence, orders, epsilon)
    least, best = float(logs.min()), int(logs.argmin())
    with np.errstate(over="ignore"):
        moments = (orders - 1) * divergence
        spread = np.sqrt(2 * divergence / orders)
    if not math.isfinite(least) or moments[best] > _GAIN:
        return least, best, None
    found = _touching(moments, orders, epsilon, _widths(orders, epsilon, depths[:, None] * spread))
    depth, place = divmod(int(found.argmin()), len(orders))
    if found[depth, place] < least:
        least, best = float(found[depth, place]), place
    return least, best, depth


def _touching_zero(divergence: Array, orders: Array, epsilon: float) -> Array:
    """Bound the logarithm of delta at each order, with v = 0; nothing is promised by infinite divergences.

    Where the divergence is above epsilon by more than the logarithm of order / (order - 1), the best function touches 0
    at 0 from the right only, and proves 1 - e^(epsilon - divergence).
    """
    high, less = np.log(orders), np.log(orders - 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        logs = (orders - 1) * (divergence - epsilon + less - high) - high
        logs = logs + gamma(_TERMS) * ((orders - 1) * (divergence + epsilon + np.abs(less) + high) + high)
        far = epsilon - divergence + gamma(_TERMS) * (1 + epsilon + divergence)
        sure = np.log1p(-np.exp(np.minimum(epsilon - divergence - gamma(_TERMS) * (1 + epsilon + divergence), 0.0)))
        logs = np.where(far + high - less + gamma(_TERMS) * (high + np.abs(less)) < 0, sure * (1 - gamma(_TERMS)), logs)
    return np.asarray(np.where(np.isnan(logs), np.inf, logs))


def _widths(orders: Array, epsilon: float, depths: Array) -> Array:
    """About how far u is above v where v is e^-depth, in nats: the root of a convex function, from above."""
    less = orders - 1
    with np.errstate(all="ignore"):
        found = depths + epsilon + np.log(orders / less)
        for _ in range(_STEPS):
            narrow, wide = np.expm1(-less * found), np.expm1(-orders * found)
            u = epsilon + np.log(orders * narrow / (less * wide))
            slope = 1 + less * (1 + 1 / narrow) - orders * (1 + 1 / wide)
            found = np.maximum(found - (found - u - depths) / slope, depths)
    return np.asarray(found)


def _touching(moments: Array, orders: Array, epsilon: float, widths: Array) -> Array:
    """Bound the logarithm of delta at each order by u and v that are ``widths`` apart; infinite where v exceeds 1.

    Args:
        moments: (order - 1) times the divergence; shape (k,).
        orders: shape (k,).
        epsilon: in nats.
        widths: of u over v, in nats; shape (w, k), as what comes back.
    """
    less = orders - 1
    with np.errstate(all="ignore"):
        narrow, wide = np.log(-np.expm1(-less * widths)), np.log(-np.expm1(-orders * widths))
        base, rest = np.log(orders), np.log(less)
        u = epsilon + base - rest + narrow - wide
        u -= gamma(_WIDTH) * (epsilon + base + np.abs(rest) + np.abs(narrow) + np.abs(wide) + widths)
        v = widths - u  # l, the distance of v below 1
        k = less * v
        near = np.exp(-k) * (expm1_minus_x(np.minimum(k, 1.0)) + less * expm1_minus_x(-v))
        far = -np.expm1(-k) - k * np.exp(-k) + less * np.exp(-k) * expm1_minus_x(-v)
        missed = np.where(k < 1, near, far)  # 1 - order v^(order - 1) + (order - 1) v^order, in [0, 1]
        few = np.log(np.expm1(np.minimum(moments, _LARGE)) + missed)
        many = moments + np.log1p((missed - 1) * np.exp(-moments))
        logs = np.where(moments < _LARGE, few, many) - base - less * u - narrow
        logs += gamma(_TOUCHING) * (1 + moments + np.abs(few) + base + less * np.abs(u) + np.abs(narrow))
    return np.asarray(np.where((v >= 0) & ~np.isnan(logs), logs, np.inf))


def expm1_minus_x(x: Array) -> Array:
    """Return the exponential less the first two terms of its series, e^x - 1 - x: at least 0."""
    small = np.clip(x, -1.0, 1.0)
    term = np.ones_like(x)
    for k in range(20, 1, -1):
        term = 1 + small / (k + 1) * term
    return np.where(np.abs(x) < 1, small * small / 2 * term, np.expm1(x) - x)
