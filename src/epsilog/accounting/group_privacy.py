"""What a group of units loses: exactly where every distance grows with it, by mixtures, or by the general bound.

Proofs: docs/accounting/groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

from epsilog.accounting.methods.lattice import bound_on_lattice
from epsilog.mechanisms import Grouped, PureDP, Release
from epsilog.mechanisms.composition import Composition, ReleaseCounts, flatten
from epsilog.mechanisms.grouped import GROUPED, group_factor
from epsilog.numerics.counts import compute_upper_quantile
from epsilog.numerics.distributions.base import LARGEST_LOSS
from epsilog.numerics.gaussian import bound_gaussian
from epsilog.numerics.pairs import PairComposition
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt, Question, no_privacy_answer, relevant_delta, spend
from epsilog.numerics.roots import find_safe_root
from epsilog.numerics.rounding import LEAST, MU, round_outward, round_up
from epsilog.terms import UnsupportedMechanismError

Ask = Callable[[Composition, Question, bool], Bounds]  # bounds an answer about one unit; with True from above only

EXACT, MIXTURES, GENERAL = (f"method/group-{how}@1" for how in ("exact", "mixtures", "general"))

_LOOSE = 0.05  # a relative width from which on mixtures of many members are not all that is asked
_FAINT = 1e-12  # an epsilon to begin with where one unit's is 0
_KNOWN = -1.0  # what stands for a curve below its goal at an epsilon that is known to be enough
_NUDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2)  # by which an epsilon is moved until delta there is seen to be low


def bound_group(
    one: Composition, question: Question, *, units: int, relative_width: float, above: bool, ask: Ask
) -> tuple[Bounds, str]:
    """Bound the answer for neighbors that differ in up to ``units`` units, and say how.

    Args:
        one: what one unit meets.
        question: about the group.
        units: how many, at most.
        relative_width: the target relative width.
        above: whether the upper bound alone is wanted.
        ask: bounds an answer about one unit.

    Raises:
        UnsupportedMechanismError: no bound for one unit under this relation.

    Source:
        Exact for a Gaussian (mu grows ``units``-fold) and for other single noises. For Poisson-sampled Gaussians and a
        group that joins or leaves together, the mixture of Ganesh 2024 (arXiv:2401.10294). Otherwise Dwork & Roth 2014,
        Theorem 2.2, for delta: delta_k(epsilon) <= delta(epsilon / k) (e^epsilon - 1) / (e^(epsilon / k) - 1).
    """
    alone = ask(one, question, False) if not above else Bounds(0.0, ask(one, question, True).upper)
    if units == 1:
        return alone, ""
    if one.mu is not None:
        return bound_gaussian(units * one.mu, question, roundings=MU + 1), EXACT
    if (grouped := one.for_group(units)) is not None:
        with suppress(UnsupportedMechanismError):
            return _bound_by_distance(grouped, question, alone, above=above, ask=ask), EXACT
    mixtures, found, how = _pairs(one, question, units), alone, GENERAL
    if mixtures is not None and question != EpsilonAt(0):
        found, how = bound_on_lattice(mixtures, question, relative_width=relative_width), MIXTURES
        if isinstance(question, EpsilonAt) and math.isfinite(found.upper):
            found = _raise_upper_end(
                found,
                question.delta,
                lambda at: bound_on_lattice(mixtures, DeltaAt(at), relative_width=relative_width).upper,
            )
        if found.within(_LOOSE):
            return found, how
    upper = _unhidden(one, question, units, ask)
    upper = min(upper, _general(one, question, units, relative_width, ask, known=upper))
    if how == MIXTURES and found.upper <= upper:
        return found, how
    return Bounds(min(found.lower, upper), upper), GENERAL


def _pairs(one: Composition, question: Question, units: int) -> tuple[PairComposition, ...] | None:
    """Return pairs of each release for the group, composed; None if one has none."""
    parts: dict[Release, int] = {Grouped(part, units): count for part, count in one.counts.items()}
    with suppress(UnsupportedMechanismError):
        return Composition(parts, one.relation).orderings(relevant_delta(question))
    return None


def _unhidden(one: Composition, question: Question, units: int, ask: Ask) -> float:
    """Bound the answer from above as if sampling hid nothing, where the rest has distances that simply grow.

    All of the group may be in every sample, or as many as in each, except for a probability taken from delta.
    """
    found = no_privacy_answer(question)
    if not (hiding := one.sampled + one.truncated):
        return found
    with suppress(UnsupportedMechanismError):
        grouped = one.without_sampling(hiding).for_group(units)
        if grouped is not None:
            found = ask(grouped[0], question, True).upper
    if question == EpsilonAt(0):
        return found

    def fewer(chance: float, left: Question) -> float | None:
        if (most := _seen_together(one, units, chance)) is None:
            return None
        with suppress(UnsupportedMechanismError):
            return ask(Composition(most, one.relation), left, True).upper
        return math.inf

    return spend(question, found, fewer)


def _seen_together(one: Composition, units: int, chance: float) -> ReleaseCounts | None:
    """A mix that bounds the group's, unless more of it are in a sample: that has at most this chance."""
    revealed: dict[Release, int] = {}
    sampled = sum(count for part, count in one.counts.items() if part in one.sampled)
    for part, count in one.counts.items():
        counts = part.compute_sampled_count(units)
        if part in one.sampled and counts is None:
            return None
        seen = units if counts is None else compute_upper_quantile(counts, chance / sampled)
        seen = units if seen is None else min(seen, units)
        for plain, times in flatten(part if counts is None else part.inner[0]).items():
            grouped = plain.for_group(one.relation, seen, above=True) if seen > 0 else PureDP(0.0)
            if grouped is None:
                return None
            revealed[grouped] = revealed.get(grouped, 0) + times * count
    return revealed


def _bound_by_distance(
    grouped: tuple[Composition, Composition], question: Question, alone: Bounds, *, above: bool, ask: Ask
) -> Bounds:
    """Bound the answer by compositions with distances multiplied by the group size, rounded up and down."""
    most, least = grouped
    upper = ask(most, question, True).upper
    if above:
        return Bounds(0.0, upper)
    found = ask(least, question, False) if least.counts != most.counts else ask(most, question, False)
    found = Bounds(min(max(found.lower, alone.lower), upper), upper)
    if not isinstance(question, EpsilonAt) or question.delta == 0 or math.isinf(upper):
        return found
    return _raise_upper_end(found, question.delta, lambda at: ask(most, DeltaAt(at), True).upper)


def _general(
    one: Composition, question: Question, units: int, relative_width: float, ask: Ask, *, known: float
) -> float:
    """Bound the answer from above by what any curve of one unit says of a group, or by no less than ``known``.

    Far beyond a known epsilon the curve of one unit costs seconds, and is not asked.
    """
    match question:
        case DeltaAt(epsilon):
            return _general_delta(one, epsilon, units, ask)
        case EpsilonAt(delta):
            single = ask(one, question, True).upper
            if delta == 0 or math.isinf(single):
                return round_outward(Fraction(single) * units, up=True) if math.isfinite(single) else math.inf

            def excess(epsilon: float) -> float:
                if epsilon >= known:
                    return _KNOWN
                return math.log(max(_general_delta(one, epsilon, units, ask), LEAST) / delta)

            guess = max(units * single, _FAINT)
            return (
                0.0
                if excess(0.0) <= 0
                else find_safe_root(excess, guess, relative_width=relative_width, most=LARGEST_LOSS)
            )


def _general_delta(one: Composition, epsilon: float, units: int, ask: Ask) -> float:
    share = epsilon / units
    if Fraction(share) * units > Fraction(epsilon):  # at a largest loss a hair more hides all that is left
        share = math.nextafter(share, 0.0)
    factor = math.expm1(epsilon) / math.expm1(share) if 0 < epsilon < 700 and share > 0 else float(units)
    if epsilon >= 700:
        factor = group_factor(share, units)
    single = ask(one, DeltaAt(share), True).upper
    return min(1.0, round_up(single * factor, GROUPED)) if single > 0 else 0.0


def _raise_upper_end(found: Bounds, delta: float, curve: Callable[[float], float]) -> Bounds:
    """Return the same with an upper end at which delta itself, asked there, is seen to be low enough."""
    at = found.upper
    for nudge in _NUDGES:
        if curve(at) <= delta:
            return Bounds(found.lower, at)
        at = found.upper * (1 + nudge)
    return found
