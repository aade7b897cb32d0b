"""Statements of rho-zCDP: one alone, from both sides; in a mix, from below, as a Gaussian satisfies them."""

from __future__ import annotations

import math
from functools import partial
from operator import mul

import numpy as np

from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.accounting.renyi import WIDE, bound as renyi_bounds
from epsilog.mechanisms import ZeroConcentratedDP
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.gaussian import bound_gaussian
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question, trivial_bounds
from epsilog.numerics.rdp_conversion import rdp_to_delta_with_order, symmetric_pair_loss
from epsilog.numerics.rounding import ELEMENTARY, LEAST, ONCE, gamma, round_down, round_up

_SHRUNK = (1e-5, 1e-4, 1e-3, 1e-2)  # parts by which rho is made less, until the mechanism provably keeps to it
_LEAST, _LARGEST = 1e-12, 1e6  # the rho for which such a mechanism is looked for
_MOST = 700.0  # nats that an exponential can hold
_HALVINGS = 100
_FEW = 16  # roundings: up to eight in a function, a root, two products and a sum
_MANY = gamma(64.0)  # relative: up to four functions of products, each off by fewer than 16
_DIFFERENCE = 0  # roundings of a difference that ``round_down`` covers by its own two, next to ``_FEW`` of its terms


def bound(composition: Composition, question: Question, relative_width: float) -> Bounds | None:
    """Bound the answer from below; None without such a statement."""
    least = composition.attained
    if least is composition:
        return None
    if least.mu is not None:
        found = bound_gaussian(least.mu, question)
    else:
        found = bound_on_lattice(least.orderings(), question, relative_width=relative_width)
    return Bounds(max(found.lower, _largest(composition, question, relative_width)), trivial_bounds(question).upper)


def _largest(composition: Composition, question: Question, relative_width: float) -> float:
    """Bound the answer from below by the largest statement alone; the other parts only add to it."""
    largest = ZeroConcentratedDP(max(rho for rho, _ in composition.rho))
    found = bound_lone_zcdp(Composition({largest: 1}, composition.relation), question, relative_width)
    return 0.0 if found is None else found.lower


def bound_lone_zcdp(composition: Composition, question: Question, relative_width: float) -> Bounds | None:
    """Bound the answer about a single statement; None for anything else, or out of reach.

    Above, the best bound from its divergences; below, a mechanism with two outcomes that satisfies it.
    """
    if not composition.rho or len(composition.rho) < len(composition.counts):
        return None
    if composition.rounds > 1:
        return _simply(round_up(sum(rho * n for rho, n in composition.rho), 2 + len(composition.rho)), question)
    ((rho, _),) = composition.rho
    above = _simply(rho, question)
    if not _LEAST <= rho <= _LARGEST:
        return above
    above = above.intersect(renyi_bounds(composition, question, relative_width) or above)
    epsilon = question.epsilon if isinstance(question, DeltaAt) else above.upper
    found = _two_outcomes(rho, epsilon) if epsilon < _MOST else None
    if found is None:
        return above
    p, q = found
    match question:
        case DeltaAt():
            lower = round_down(p - math.exp(epsilon) * q, _DIFFERENCE) - gamma(_FEW) * p * (1 + epsilon)
        case EpsilonAt(delta):
            left = round_down(p - delta, ONCE)
            lower = round_down(math.log(left / q), _FEW + ELEMENTARY) - gamma(_FEW) if left > q else 0.0
    return Bounds(min(max(lower, 0.0), above.upper), above.upper)


def _simply(rho: float, question: Question) -> Bounds:
    """Bun & Steinke 2016, Proposition 1.3, which needs no order: within reach of any double."""
    match question:
        case EpsilonAt(delta):
            far = 2 * math.sqrt(rho) * math.sqrt(-math.log(delta))
            return Bounds(0.0, round_up(rho + far, _FEW) + LEAST)
        case DeltaAt(epsilon) if epsilon > rho:
            away = (epsilon - rho) / 2 / math.sqrt(rho)
            return Bounds(0.0, min(round_up(math.exp(-min(away * away, 800.0) * (1 - _MANY)), ELEMENTARY) + LEAST, 1.0))
        case _:
            return trivial_bounds(question)


def _two_outcomes(rho: float, epsilon: float) -> tuple[float, float] | None:
    """A mechanism that says yes with chance p about one of two neighbors and q about the other, and is rho-zCDP.

    It has nearly the largest delta at ``epsilon`` of all that are. None where none was proven to be.
    """
    found = []
    for part in _SHRUNK:
        less = rho * (1 - part)
        order = rdp_to_delta_with_order(partial(mul, less), WIDE, epsilon, between=True)[1]
        p, q = _extreme(less, order, epsilon)
        if _keeps_both(rho, p, q, part):
            found.append((p, q))
            break
    q = 1 / (1 + math.exp(symmetric_pair_loss(rho * (1 - _SHRUNK[0]))))
    if epsilon <= rho and _keeps_both(rho, 1 - q, q, _SHRUNK[0]):  # both orders of the neighbors bind
        found.append((1 - q, q))
    return max(found, key=lambda pair: pair[0] - math.exp(epsilon) * pair[1], default=None)


def _keeps_both(rho: float, p: float, q: float, part: float) -> bool:
    if not 0 < q < p < 1:
        return False
    u, v = math.log(p / q), math.log1p(-q) - math.log1p(-p)
    return _keeps(rho, (p, 1 - p), (u, v), part) and _keeps(rho, (1 - q, q), (v, u), part)


def _extreme(rho: float, order: float, epsilon: float) -> tuple[float, float]:
    """Return about the probabilities with the largest p - e^epsilon q at a Renyi divergence of order times rho.

    The likelihood ratio is e^u with one answer and e^-v with the other, where the convex function of ``rdp_conversion``
    touches: a longer v has more divergence.
    """
    less = order - 1
    low, high = math.log(1e-300), math.log(_MOST)
    p = q = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        v = math.exp(middle)
        u = max(epsilon, v)
        for _ in range(_HALVINGS):  # a contraction: its slope is below 1/2
            wide, before = u + v, u
            u = epsilon + math.log(order / less)
            u = max(u + math.log(-math.expm1(-less * wide)) - math.log(-math.expm1(-order * wide)), 0.0)
            if abs(u - before) <= 1e-16 * u:
                break
        if u > _MOST:
            return 0.0, 0.0
        q = -math.expm1(-v) / (math.exp(-v) * math.expm1(u + v))
        p = math.exp(u) * q
        if not 0 < q < p < 1:
            low, high = (middle, high) if p <= q else (low, middle)
            continue
        grown = p * math.expm1(min(less * u, _MOST)) + (1 - p) * math.expm1(-less * (math.log1p(-q) - math.log1p(-p)))
        moment = math.log1p(grown)
        low, high = (middle, high) if moment < order * less * rho else (low, middle)
    return p, q


def _keeps(rho: float, chances: tuple[float, float], losses: tuple[float, float], part: float) -> bool:
    """Whether a loss of u with chance p, else of -v, provably has a divergence of at most rho times any order above 1.

    K(t), the logarithm of the mean of e^(t loss), t = order - 1, must be at most rho t (1 + t). It is convex with K(0)
    = 0, so K(t) / t rises. Up to the first point of a grid its value there suffices, beyond the last its limit, u.
    Between two points h apart the chord does; rho t (1 + t) is at most rho h^2 / 4 away from it.
    """
    (p, rest), (u, v) = chances, losses
    last = u / rho
    step = math.sqrt(part) / 2  # for chords that are within part / 4 of rho t (1 + t)
    t = np.sinh(step * np.arange(1, 2 + math.ceil(math.asinh(math.sqrt(last)) / step))) ** 2
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        grown, fallen = p * np.expm1(t * u), rest * np.expm1(-t * v)
        few = np.log1p(grown + fallen) + _MANY * ((grown - fallen) * (1 + t * (u + v)) + t * (1 + u + v))
        many = np.logaddexp(math.log(p) + t * u, math.log(rest) - t * v)
        many += _MANY * (1 + t * (1 + u + v) + abs(math.log(p)) + abs(math.log(rest)))
    found = np.where(t * u < 1, few, many)
    allowed = rho * t * (1 + t)
    gaps = np.diff(t, prepend=0.0, append=t[-1])
    chords = rho / 4 * np.maximum(gaps[:-1], gaps[1:]) ** 2
    chords[0] = rho / 4 * gaps[1] ** 2
    enough = (1 - _MANY) * allowed
    return bool(np.all(found + chords <= enough) and found[0] <= (1 - _MANY) * rho * t[0] and t[-1] >= last)
