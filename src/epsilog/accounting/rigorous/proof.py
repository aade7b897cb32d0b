"""A claim (epsilon, delta) about a release, proven or not: which order was bounded how, and what is still assumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from epsilog.accounting.account import list_assumptions
from epsilog.accounting.rigorous.balls import arb, ctx, is_at_most, probability_of_none, upper_double
from epsilog.accounting.rigorous.connect_dots import BallComposition, NoProofError, PrecisionLossError
from epsilog.accounting.rigorous.inversion import BallInversion
from epsilog.accounting.rigorous.orders import Parts, list_profiles
from epsilog.accounting.rigorous.plan import (
    TiltPlan,
    TiltPlanner,
    estimate_profile_cumulants,
    estimate_truncated_cumulants,
)
from epsilog.accounting.rigorous.profiles import GaussianProfile, PoissonAddProfile, PoissonRemoveProfile
from epsilog.mechanisms import Release
from epsilog.terms import NeighboringRelation, check
from epsilog.terms.formatting import format_upper

GIVEN_AWAY = "what gives everything away is more than delta"
CLOSED = "the closed form of one release"
LARGEST = "the sum of the largest losses"
DOTS = "dots connected on a lattice of {cells:,} cells (Doroshenko et al. 2022)"
INVERSION = "Laplace inversion, {frequencies:,} frequencies"
PAIRS = (
    "each part is dominated by its pair, and domination composes (Zhu, Dong & Wang 2022; docs: accounting/rigorous, "
    "section 1)"
)
LIBRARY = "Arb encloses what it computes (python-flint)"

_FEWEST, _MOST = 1 << 11, 1 << 17
_BITS = (128, 320, 1024, 4096)
_SHARP = 2.0**-40  # relative size of a ball that is good enough
_SAMPLED_ROUNDS = 25  # with fewer rounds the moments fall too slowly
_CUT = 1e-10  # of delta, over all rounds: what a lattice may cut off
_SEARCHES = 12
_NEAR = 1e-9  # how far from the claim, relatively, the least epsilon is looked for first
_WIDENINGS = 9
_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE

Curve = Callable[[float], arb]


@dataclass(frozen=True, slots=True)
class Proof:
    """What ball arithmetic has proven about a claim.

    Attributes:
        epsilon: what is claimed, taken as the double that it is.
        delta: at which delta; likewise.
        relation: which data sets are neighbors.
        delta_upper: delta is proven to be at most this at the claimed epsilon.
        epsilon_upper: the least epsilon that was proven at the claimed delta; ``inf`` if none was.
        methods: how each order of neighbors was bounded.
        bits: of the balls' centers, the most that was needed.
        assumptions: what must be true of the run, and of the proof's own ground.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    delta_upper: float
    epsilon_upper: float
    methods: tuple[str, ...]
    bits: int
    assumptions: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the claim is proven."""
        return self.delta_upper <= self.delta

    def __str__(self) -> str:
        at = f"at delta {self.delta:.6g} ({self.relation})"
        how = f"ball arithmetic of {self.bits} bits: {'; '.join(self.methods)}"
        if self.holds:
            return (
                f"epsilon {format_upper(self.epsilon, 9)} is proven {at}: delta is at most {self.delta_upper:.9g}; "
                f"{how}"
            )
        found = f"{format_upper(self.epsilon_upper, 9)} is" if math.isfinite(self.epsilon_upper) else "none is"
        return f"epsilon {self.epsilon:.9g} is not proven {at}, {found}; {how}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "relation": self.relation.value,
            "holds": self.holds,
            "delta_upper": self.delta_upper,
            "epsilon_upper": self.epsilon_upper if math.isfinite(self.epsilon_upper) else "inf",
            "methods": list(self.methods),
            "bits": self.bits,
            "assumptions": list(self.assumptions),
        }


@dataclass(frozen=True)
class _Found:
    """One order of neighbors: delta at the claimed epsilon, the least epsilon, and how."""

    delta: float
    epsilon: float
    method: str
    bits: int


_UNPROVEN = _Found(1.0, math.inf, "nothing was found", _BITS[0])


def prove_guarantee(
    release: Release,
    *,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    cells: int = _MOST,
) -> Proof:
    """Tries to prove in ball arithmetic that ``release`` is (epsilon, delta)-DP.

    Args:
        release: what is released; outputs may steer later queries, parameters are fixed in advance.
        epsilon: what is claimed, in nats.
        delta: failure probability, in [0, 1).
        relation: which data sets are neighbors.
        cells: the most cells of a lattice, where one is needed: a power of two. More prove more, and take longer.

    Returns:
        What is proven: ``holds`` says whether the claim is; if not, it may still be true.

    Raises:
        UnsupportedMechanismError: a part has no profile here under this relation.

    Source:
        docs/accounting/rigorous.md.

    >>> from epsilog.mechanisms import Gaussian, Repeated
    >>> prove_guarantee(Repeated(Gaussian(10.0), 100), epsilon=4.378, delta=1e-5).holds
    True
    >>> prove_guarantee(Repeated(Gaussian(10.0), 100), epsilon=4.377, delta=1e-5).holds
    False
    """
    epsilon, delta = (
        check.at_least(0, check.DOWN)(epsilon=epsilon),
        check.in_half_open_interval(0, 1, check.DOWN)(delta=delta),
    )
    cells = check.integer(_FEWEST)(cells=cells)
    cells = 1 << (cells.bit_length() - 1)
    found = {order: _order(parts, epsilon, delta, cells) for order, parts in list_profiles(release, relation).items()}
    return Proof(
        epsilon,
        delta,
        relation,
        max((one.delta for one in found.values()), default=0.0),
        max(one.epsilon for one in found.values()),
        tuple(f"{order}: {one.method}" for order, one in found.items()),
        max(one.bits for one in found.values()),
        (*map(str, list_assumptions(release)), PAIRS, LIBRARY),
    )


def _order(parts: Parts, epsilon: float, delta: float, cells: int) -> _Found:
    """Bounds one order: by what is exact if anything is, else by ever finer means until the claim is proven."""
    simple = _simple(parts, epsilon, delta)
    if simple is not None:
        return simple
    if len(parts) == 1 and parts[0][1] == 1:
        return _sharp(lambda: (lambda at: parts[0][0].delta(arb(at)), CLOSED), epsilon, delta)
    plan, precise = _plans(parts, epsilon, delta)
    best = _UNPROVEN
    if precise is not None:
        with suppress(NoProofError):
            best = _better(best, _sharp(lambda: _prove_by_inversion(parts, precise), epsilon, delta))
    size = _FEWEST
    while plan is not None and not best.delta <= delta and size <= cells:
        with suppress(NoProofError):
            best = _better(best, _sharp(lambda: _prove_by_dots(parts, plan, delta, size), epsilon, delta))  # noqa: B023
        size *= 8
    return best


def _plans(parts: Parts, epsilon: float, delta: float) -> tuple[TiltPlan | None, TiltPlan | None]:
    """For a lattice, and for the inversion where it may do; None where doubles do not reach."""
    plan = precise = None
    share = _CUT * delta / sum(count for _, count in parts)
    with ctx.workprec(_BITS[0]), np.errstate(all="ignore"), suppress(ArithmeticError, ValueError):
        plan = TiltPlanner(
            [(estimate_truncated_cumulants(profile, share), count) for profile, count in parts], delta
        ).plan(16.0)
        if _smooth(parts):
            near = epsilon if plan.near / 4 < epsilon < 4 * plan.near else plan.near
            precise = TiltPlanner(
                [(estimate_profile_cumulants(profile), count) for profile, count in parts], delta
            ).plan(36.0, near)
    return plan, precise


def _simple(parts: Parts, epsilon: float, delta: float) -> _Found | None:
    """What needs no composition: largest losses that add up, or more that gives everything away than delta allows."""
    bits = _BITS[1]
    with ctx.workprec(bits):
        total, left = arb(0), arb(1)
        for profile, count in parts:
            total += count * profile.max_loss()
            left *= probability_of_none(profile.infinite(), count)
        infinite = 1 - left if parts and any(not profile.infinite().is_zero() for profile, _ in parts) else arb(0)
        if not is_at_most(infinite, delta):
            return _Found(1.0, math.inf, GIVEN_AWAY, bits)
        if is_at_most(total, epsilon):
            return _Found(min(upper_double(infinite), 1.0), min(upper_double(total), epsilon), LARGEST, bits)
        return _Found(1.0, upper_double(total), LARGEST, bits) if delta == 0 else None


def _smooth(parts: Parts) -> bool:
    """Whether the moments of the composition fall, as far as can be seen beforehand."""
    plain_ones = any(isinstance(profile, GaussianProfile) for profile, _ in parts)
    rounds = sum(count for profile, count in parts if isinstance(profile, PoissonRemoveProfile | PoissonAddProfile))
    return plain_ones or rounds >= _SAMPLED_ROUNDS


def _prove_by_inversion(parts: Parts, plan: TiltPlan) -> tuple[Curve, str]:
    found = BallInversion(parts, plan)
    return found.delta, INVERSION.format(frequencies=found.frequencies)


def _prove_by_dots(parts: Parts, plan: TiltPlan, delta: float, cells: int) -> tuple[Curve, str]:
    found = BallComposition(parts, plan, delta, cells=cells)
    return found.delta, DOTS.format(cells=found.cells)


def _better(one: _Found, other: _Found) -> _Found:
    return min(one, other, key=lambda found: (found.delta, found.epsilon))


def _sharp(make: Callable[[], tuple[Curve, str]], epsilon: float, delta: float) -> _Found:
    """What a method finds, with as many bits as leave its balls small, or the most there are.

    Raises:
        NoProofError: the method has no bound.
    """
    before = math.inf
    for bits in _BITS:
        with ctx.workprec(bits):
            try:
                curve, method = make()
                value = curve(epsilon)
            except PrecisionLossError:
                continue
            radius, before = upper_double(arb(value.rad())), before / 2
            sharp = radius <= _SHARP * (upper_double(value) + delta) or radius > before  # or it is not for want of bits
            before = radius
            if sharp or bits == _BITS[-1]:
                there = upper_double(value)
                return _Found(min(there, 1.0), _least(curve, epsilon, delta, there), method, bits)
    return _UNPROVEN


def _least(curve: Curve, epsilon: float, delta: float, there: float) -> float:
    """About the least epsilon at which delta is proven; ``inf`` if none is found.

    A bracket that grows from the claim, and secants within it. Only ends at which delta was proven are kept.
    """
    if is_at_most(curve(0.0), delta):
        return 0.0

    def excess(at: float) -> float:
        return math.log(max(upper_double(curve(at)), 1e-300) / delta)

    low = high = epsilon
    below = above = math.log(max(there, 1e-300) / delta)
    width = _NEAR * max(epsilon, 1e-6)
    for _ in range(_WIDENINGS):
        if below > 0 >= above:
            break
        if below <= 0:
            low, high, above = max(high - width, 0.0), low, below
            below = excess(low)
        else:
            low, below, high = high, above, high + width
            above = excess(high)
        width *= 30
    if not below > 0 >= above:
        return high if above <= 0 else math.inf
    known = [(low, below), (high, above)]
    for _ in range(_SEARCHES):
        (x, f), (y, g) = known[-2:]
        root = y - g * (y - x) / (g - f) if g != f else math.nan
        here = root + 0.03 * abs(root - y)  # to the safe side, less and less
        if not low < here < high:
            here = low + (high - low) / 2
        if high - here <= 1e-13 * high:
            break
        known.append((here, excess(here)))
        low, high = (low, here) if known[-1][1] <= 0 else (here, high)
    return high
