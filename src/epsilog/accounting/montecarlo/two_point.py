"""The reference's release bound and its inverses, computed exactly: the four drop-in functions.

Candidates are tried in order and the last one before the first failure is released; a candidate passes if its
estimated delta over ``samples`` draws is at most ``base_delta``. The released mechanism is then (epsilon, delta)-DP
with, for q(y) = exp(-samples KL(base_delta || y)),

    delta = min over y in [base_delta, 1] of  y + q(y) (1 - y).

Doubles find the minimizer, where errors are of second order; ``decimal`` evaluates there, so that the answer is the
exact one rounded up by at most one unit in the last place. ``bounds`` has tighter promises for the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epsilog.numerics.roots import bisect_doubles
from epsilog.numerics.rounding import round_outward
from epsilog.terms import CheckError, arrays, check

SMALLEST_DELTA = 1e-300
_DIGITS = 50


def require_samples(samples: object) -> int:
    """Require a whole number of samples, at least 1, of any size."""
    count = check.parse_integer("samples", samples)
    if count < 1:
        raise CheckError("samples", "a whole number, at least 1", check.format_value(samples))
    return count


def overall_delta(*, samples: int, base_delta: float) -> float:
    """Bound the delta of what a sweep releases, by the reference's two-point argument, from above.

    Args:
        samples: independent draws per candidate.
        base_delta: a candidate passes if its estimate is at most this; in (0, 1].

    Returns:
        The least double that is not below the exact bound.

    Raises:
        ValueError: an argument out of range.

    Source:
        Dong & Ganesh 2026, App. A (arXiv:2602.09338v2); Chernoff bound in its KL form.

    >>> overall_delta(samples=10_745_967, base_delta=5e-6) <= 1e-5 < overall_delta(samples=10_745_966, base_delta=5e-6)
    True
    """
    count = require_samples(samples)
    base = max(check.in_unit_interval()(base_delta=base_delta), SMALLEST_DELTA)
    if base == 1:
        return 1.0
    share = _minimizer(min(float(min(count, 10**306)), 1e306), base)
    with localcontext(Context(prec=_DIGITS)):
        b, u = Decimal(base), Decimal(share)
        chance = (-count * _divergence(b, u)).exp()
        value = b + (1 - b) * u + (1 - b) * (1 - u) * chance
        return min(1.0, round_outward(Fraction(value), up=True))


def base_delta(*, samples: int, target_delta: float) -> float:
    """Return the largest threshold with an ``overall_delta`` of at most ``target_delta``.

    Args:
        samples: independent draws per candidate.
        target_delta: what the released mechanism should promise; in (0, 1].

    Returns:
        A threshold that meets the target exactly; the next double does not.

    Raises:
        ValueError: an argument out of range, or too few samples for any threshold.

    >>> base_delta(samples=10_745_967, target_delta=1e-5) >= 5e-6
    True
    """
    count = require_samples(samples)
    target = check.in_unit_interval()(target_delta=target_delta)
    if target == 1:
        return 1.0

    def passes(base: float) -> bool:
        return overall_delta(samples=count, base_delta=base) <= target

    low, high = SMALLEST_DELTA, target
    if target <= low or not passes(low):
        raise CheckError("samples", f"larger for target_delta {target_delta!r}: no base_delta works", repr(samples))
    return bisect_doubles(lambda base: not passes(base), low, high)[0]


def minimum_samples(*, base_delta: float, target_delta: float) -> int:
    """Return the least number of samples for which ``overall_delta`` is at most ``target_delta``; one fewer fails.

    Args:
        base_delta: the threshold of a candidate's estimate; in (0, 1), below ``target_delta``.
        target_delta: what the released mechanism should promise; in (0, 1].

    Raises:
        ValueError: an argument out of range, or ``base_delta`` not below ``target_delta``.

    >>> minimum_samples(base_delta=5e-6, target_delta=1e-5)
    10745967
    """
    target, base = check.in_unit_interval()(target_delta=target_delta), check.in_unit_interval()(base_delta=base_delta)
    base = check.at_least(SMALLEST_DELTA)(base_delta=base)
    if target == 1:
        return 1
    if not base < target:
        raise CheckError("base_delta", f"below target_delta = {target!r}", repr(base))
    b, t, w = Decimal(base), Decimal(target), Decimal(_cheapest(base, target))
    with localcontext(Context(prec=40)):
        size = _samples_at(b, t, w).adjusted()
    w = _polish_root(b, t, w, wanted=size // 2 + 8)
    with localcontext(Context(prec=max(40, size + 24))):
        needed = _samples_at(b, t, w) + Decimal(10) ** -8  # round-off is less, and never takes one too few
        return max(1, int(needed.to_integral_value(rounding="ROUND_CEILING")))


def delta_from_samples(*, epsilon: float, losses: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Estimate delta(epsilon) from privacy losses drawn under the first of the two distributions.

    Args:
        epsilon: in nats, at least 0.
        losses: privacy losses, one per draw; ``inf`` counts 1; shape (n,).
        weights: how often each loss was seen, at least 0 and not all 0; shape (n,). Default: once each.

    Returns:
        The weighted mean of (1 - e^(epsilon - loss))^+: an estimate, not a bound.

    Raises:
        ValueError: empty or not one-dimensional input, NaN or ``-inf`` losses, bad weights.

    >>> delta_from_samples(epsilon=0.0, losses=[float("inf"), -3.0])
    0.5
    """
    epsilon = check.at_least(0)(epsilon=epsilon)
    loss: NDArray[np.float64] = arrays.doubles("losses", losses)
    if loss.ndim != 1 or loss.size == 0:
        raise CheckError("losses", "one-dimensional and not empty", f"shape {loss.shape}")
    if np.isnan(loss).any() or (loss == -np.inf).any():
        raise ValueError("losses must not be nan or -inf, got " + str(loss[np.isnan(loss) | (loss == -np.inf)][0]))
    excess = -np.expm1(np.minimum(epsilon - loss, 0.0))
    if weights is None:
        return float(excess.mean())
    weight: NDArray[np.float64] = arrays.doubles("weights", weights)
    if weight.shape != loss.shape:
        raise CheckError("weights", f"shape {loss.shape}", f"{weight.shape}", verb="have")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.max() > 0):
        raise CheckError("weights", "finite, at least 0 and not all 0", repr(weight))
    weight = weight / weight.max()
    return float(min(1.0, (weight * excess).sum() / weight.sum()))


# ---- KL(b || y) in doubles: y = b + (1 - b) u ------------------------------------------------------------------------


def _excess_log(x: float) -> float:
    """X - log(1 + x) for x > -1, without cancellation for small x."""
    if abs(x) > 0.1:
        return x - math.log1p(x)
    total, power, k = 0.0, x, 2
    while True:
        power *= -x
        step = -power / k
        total += step
        if abs(step) <= 1e-18 * abs(total) or step == 0:
            return total
        k += 1


def scaled_kl_divergence(samples: float, base: float, share: float) -> float:
    """``samples`` times KL(b || b + (1 - b) u), u = ``share`` in [0, 1); both terms are positive, nothing cancels."""
    ratio = share * ((1 - base) / base)
    return samples * base * _excess_log(ratio) + samples * (1 - base) * _excess_log(-share)


def bisect_transition(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the point, of any sign (unlike ``roots.bracket``), above which a test holds; no bound uses it."""
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _logistic(s: float) -> float:
    return 1 / (1 + math.exp(-s)) if s > -700 else math.exp(s)


def _minimizer(samples: float, base: float) -> float:
    """Return the share u that minimizes y + q(y) (1 - y), the root of samples KL = log(1 + samples (y - b) / y)."""

    def slope(s: float) -> float:
        share = _logistic(s)
        ratio = share * ((1 - base) / base)
        return scaled_kl_divergence(samples, base, share) - math.log1p(samples * (ratio / (1 + ratio)))

    return _logistic(bisect_transition(lambda s: slope(s) > 0, -740.0, 36.0))


def _cheapest(base: float, target: float) -> float:
    """Return the w at which y = b + (t - b) w minimizes the quasi-convex log((1 - y) / (t - y)) / KL(b || y)."""
    margin = target - base

    def slope(s: float) -> float:
        w = _logistic(s)
        left = margin / (1 + math.exp(s)) if s < 700 else 0.0
        y = base + margin * w
        log_ratio = math.log1p(-y) - math.log(left)
        kl = scaled_kl_divergence(1.0, base, margin * w / (1 - base))
        return kl * (1 / left - 1 / (1 - y)) - log_ratio * margin * w / (y * (1 - y))

    return _logistic(bisect_transition(lambda s: slope(s) > 0, -80.0, 36.0))


# ---- the same in decimals --------------------------------------------------------------------------------------------


def _series(x: Decimal) -> Decimal:
    """X - log(1 + x) for any x > -1, to full precision."""
    if abs(x) > Decimal("1e-3"):
        return x - (1 + x).ln()
    total, power, k = Decimal(0), x, 2
    while True:
        power *= -x
        before = total
        total -= power / k
        if total == before:
            return total
        k += 1


def _divergence(b: Decimal, u: Decimal) -> Decimal:
    return b * _series(u * (1 - b) / b) + (1 - b) * _series(-u)


def _samples_at(b: Decimal, t: Decimal, w: Decimal) -> Decimal:
    y = b + (t - b) * w
    return ((1 - y) / ((t - b) * (1 - w))).ln() / _divergence(b, (t - b) * w / (1 - b))


def _polish_root(b: Decimal, t: Decimal, w: Decimal, *, wanted: int) -> Decimal:
    """Newton on the optimality condition until ``wanted`` digits of w are right; the value errs twice as little."""
    known = 12
    while known < wanted:
        known = min(2 * known - 2, wanted)
        with localcontext(Context(prec=2 * known + 12)):
            y, gap, margin = b + (t - b) * w, (t - b) * w, (t - b) * (1 - w)
            log_ratio = ((1 - y) / margin).ln()
            kl = _divergence(b, gap / (1 - b))
            spread = y * (1 - y)
            first, second = 1 / margin - 1 / (1 - y), 1 / margin**2 - 1 / (1 - y) ** 2
            pull, turn = gap / spread, (spread - gap * (1 - 2 * y)) / spread**2
            w -= (first * kl - log_ratio * pull) / (second * kl - log_ratio * turn) / (t - b)
    return w
