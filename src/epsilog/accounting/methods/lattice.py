"""Certified intervals from privacy loss distributions: plans, bounds and refines a lattice.

What is certified comes from ``connect``, ``merge`` and ``LatticeComposition``; the plan (tilt, step, points) only
decides how tight it is. If memory would not hold a fine enough lattice the interval is wider than asked, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from epsilog.mechanisms.composition import Composition
from epsilog.numerics.distributions.base import GaussianPair
from epsilog.numerics.lattice.composition import LatticeComposition
from epsilog.numerics.lattice.discretize import (
    WIDEST,
    DiscretizationPlan,
    Sketches,
    WorkCounter,
    discretize_and_compose,
    sketch_pair,
    tilt_for_delta,
    tilt_for_epsilon,
)
from epsilog.numerics.lattice.distribution import LatticeTooLargeError, bound_pair_delta
from epsilog.numerics.pairs import AdjacencyType, DominatingPair, PairComposition, Parts, bound_infinity_mass
from epsilog.numerics.questions import (
    Bounds,
    DeltaAt,
    EpsilonAt,
    Question,
    bound_from_infinity_mass,
    bound_from_max_loss,
    relevant_delta,
    solve_on_curve,
)
from epsilog.numerics.rounding import TINY

_ATTEMPTS = 6
_TINY = 1e-250  # no effort is spent on the lower side of less
_COARSENINGS = 12
_FINER = 0.5  # of the planned step: what is claimed is the upper side
_ROUGH = 0.05  # the relative width to aim for from below where the upper side will not be met
_SHARPEST = 25.0  # nats that a composition may be sharpened by, after its first answer
_LARGE = 1e-3  # a delta from which on epsilon may well be 0
_LOST = 1e-6  # of delta: what truncating the tails of all rounds together may add


def bound(composition: Composition, question: Question, relative_width: float) -> Bounds | None:
    """Bound the answer; None if a part has no pair."""
    if not composition.has_pairs:
        return None
    return bound_on_lattice(composition.orderings(relevant_delta(question)), question, relative_width=relative_width)


def bound_above(composition: Composition, question: Question, relative_width: float) -> Bounds | None:
    """Bound from above only, by what ``bound`` computes first: never better than it, and several times as fast."""
    if not composition.has_pairs:
        return None
    orderings = composition.orderings(relevant_delta(question))
    if all(d.rounds == 1 for d in orderings):
        return Bounds(0.0, _single(orderings, question).upper)
    worst = 0.0
    work = WorkCounter()
    searches = [_search_direction(d, question, relative_width, work) for d in orderings]
    for search in sorted(searches, key=lambda search: -search.plan.near):
        if search.upper > worst:
            search.refine_upper()
        worst = max(worst, search.upper)
    return Bounds(0.0, worst)


def bound_on_lattice(
    orderings: tuple[PairComposition, ...],
    question: Question,
    *,
    relative_width: float,
    work: WorkCounter | None = None,
) -> Bounds:
    """Bound the answer over all orderings.

    Refines to ``relative_width`` if memory allows, within the ``work`` that several questions share.
    """
    if all(d.rounds == 1 for d in orderings):
        return _single(orderings, question)
    if isinstance(question, EpsilonAt) and question.delta >= _LARGE:
        at_zero = bound_on_lattice(orderings, DeltaAt(0.0), relative_width=0.05).upper
        if at_zero <= question.delta:
            return Bounds(0.0, 0.0)
    work = work or WorkCounter()
    searches = [_search_direction(d, question, relative_width, work) for d in orderings]
    searches.sort(key=lambda search: -search.plan.near)
    lower = max(bound_from_infinity_mass(question, bound_infinity_mass(parts)) for d in orderings for parts in d.lowers)
    before = 0.0
    for attempt in range(_ATTEMPTS):
        largest = lower / (1 - relative_width) if attempt > 0 else 0.0
        for search in searches:  # the likely worst first: often it already settles the others
            if search.upper > largest:
                search.refine_upper()
                largest = max(largest, search.upper)
                if search is searches[0] and search.upper >= _TINY:
                    lower = max(lower, search.lower_bound())
        worst = max(searches, key=lambda search: search.upper)
        if worst is not searches[0]:
            lower = max(lower, worst.lower_bound())
        upper = worst.upper
        if (
            upper - lower <= relative_width * upper
            or not math.isfinite(upper)
            or upper < _TINY
            or worst.settled
            or work.done
        ):
            break
        achieved = (upper - lower) / upper
        if attempt > 0 and achieved > 0.75 * before:
            break  # refining cannot narrow it further
        before = achieved
        for search in searches:
            search.fine *= min(0.6, max(0.1, 0.85 * math.sqrt(relative_width / achieved)))
    return Bounds(lower, max(search.upper for search in searches))


def _search_direction(
    ordering: PairComposition, question: Question, relative_width: float, work: WorkCounter
) -> _Search:
    """Plans a direction by its upper side, or by a lower one if a part above gives everything away."""
    settled = any(pair.direction is AdjacencyType.PLAIN and pair.base.infinity_mass >= 1 for pair, _ in ordering.upper)
    plan = (
        _plan(question, ordering.lowers[0], max(relative_width, _ROUGH))
        if settled
        else _plan(question, ordering.upper, relative_width)
    )
    glued = any(
        pair.direction is AdjacencyType.BOTH for pair, _ in ordering.upper
    )  # loose by itself: no tighter on a finer lattice
    return _Search(ordering, plan, question, settled, work, finer=1.0 if glued else _FINER)


@dataclass
class _Search:
    """What is known about one direction so far; ``settled`` if its upper side follows from the largest loss alone."""

    ordering: PairComposition
    plan: DiscretizationPlan
    question: Question
    settled: bool
    work: WorkCounter
    finer: float
    fine: float = 1.0
    upper: float = math.inf
    instances: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.instances = tuple(range(len(self.ordering.lowers)))
        self.upper = bound_from_max_loss(self.question, self.ordering.largest_loss)

    def refine_upper(self) -> None:
        """Compute the upper bound at the present step, or at the finest that memory holds."""
        for _ in range(0 if self.settled else _COARSENINGS):
            try:
                composed = discretize_and_compose(
                    self.ordering.upper,
                    self.plan.sketches,
                    self.plan,
                    self.finer * self.fine,
                    upper=True,
                    work=self.work,
                )
            except LatticeTooLargeError as problem:
                if isinstance(problem.what, LatticeComposition):
                    self.upper = min(self.upper, _roughly(self.question, problem.what))
                if self.upper < _TINY:
                    return
                if self.finer == 1:
                    self.fine *= max(1.2, 1.1 * problem.factor)
                self.finer = 1.0
            else:
                found = _answer(self.question, composed, self.plan.near)
                self.work.add(composed.work)
                self.upper, self.settled = min(self.upper, found), math.isinf(found)  # no finer step finds less
                if isinstance(self.question, EpsilonAt) and 0 < found < 0.5 * self.plan.near:
                    self.fine *= math.sqrt(found / self.plan.near)  # the plan looked too far up
                    self.plan = self.plan._replace(near=found)
                self._sharpen(composed)
                return

    def lower_bound(self) -> float:
        """Compute the best lower bound at the present step, or at the finest that memory holds.

        The first call tries every instance, later calls the previous best and its neighbors.
        """
        best, winner = 0.0, self.instances[0]
        for which in self.instances:
            if math.isinf(best) or (best > 0 and self.work.done):
                break
            parts = self.ordering.lowers[which]
            fine, sketches = self.fine, self._sketches(parts)
            for _ in range(_COARSENINGS):
                try:
                    composed = discretize_and_compose(parts, sketches, self.plan, fine, upper=False, work=self.work)
                except LatticeTooLargeError as problem:
                    fine *= max(1.2, 1.1 * problem.factor)
                else:
                    if best == 0 or not _below(self.question, composed, best):
                        found = _answer(self.question, composed, self.plan.near)
                        best, winner = (found, which) if found > best else (best, winner)
                    self.work.add(composed.work)
                    self._sharpen(composed)
                    break
        self.instances = tuple(range(len(self.ordering.lowers))[max(winner - 1, 0) : winner + 2])
        return best

    def _sketches(self, parts: Parts) -> Sketches:
        """Sketches a composition for the lower side; what differs from the upper side by rounding is known already."""
        known = list(zip(self.ordering.upper, self.plan.sketches, strict=not self.settled))
        if len(known) != len(parts) or self.settled:
            return [(sketch_pair(pair, self.plan.tail), count) for pair, count in parts]
        return [
            (cut if _is_same_pair(pair, above) else sketch_pair(pair, self.plan.tail), count)
            for (pair, count), ((above, _), (cut, _)) in zip(parts, known, strict=True)
        ]

    def _sharpen(self, composed: LatticeComposition) -> None:
        """Ask for smaller errors next time if those of the composition were too large a part of its delta."""
        excess = math.log(max(composed.relative_error, TINY) / (0.1 * math.exp(8.0 - self.plan.start)))
        if excess > 0:
            self.plan = self.plan._replace(nats=min(self.plan.nats + excess + 1, self.plan.start + _SHARPEST))


def _plan(question: Question, parts: Parts, relative_width: float) -> DiscretizationPlan:
    """Choose the tilt and the step: about where epsilon is expected, or about the epsilon that is given."""
    match question:
        case EpsilonAt(delta):
            tail = _tail(parts, delta)
            sketches = [(sketch_pair(pair, tail), count) for pair, count in parts]
            theta, guess = tilt_for_delta(sketches, delta)
            width = relative_width * max(guess, 1e-7 * min(_scale(sketches), 1.0))
            return DiscretizationPlan(sketches, theta, _step(parts, theta, width), tail, guess, *_nats(relative_width))
        case DeltaAt(epsilon):
            tail, theta, sketches = _tail(parts, 1e-12), 1.0, []
            for _ in range(20):  # delta's size, which sets the tails, is found on the way
                sketches = [(sketch_pair(pair, tail), count) for pair, count in parts]
                theta, log_delta = tilt_for_epsilon(sketches, epsilon)
                before, tail = tail, _tail(parts, 0.1 * math.exp(max(min(log_delta, 0.0), -600.0)))
                if tail >= before / 2:
                    break
            return DiscretizationPlan(
                sketches, theta, _step(parts, theta, relative_width / theta), tail, epsilon, *_nats(relative_width)
            )


def _answer(question: Question, composition: LatticeComposition, guess: float) -> float:
    """Read the answer off, on the composition's side."""
    match question:
        case EpsilonAt(delta):
            return composition.epsilon(delta, guess)
        case DeltaAt():
            return composition.delta(guess)


def _below(question: Question, composition: LatticeComposition, answer: float) -> bool:
    """Return whether the composition's answer is below a known one, if that is faster than the answer."""
    return isinstance(question, EpsilonAt) and composition.delta(answer) < question.delta


def _roughly(question: Question, composition: LatticeComposition) -> float:
    """Bound the answer from above where a transform would be too long."""
    match question:
        case EpsilonAt(delta):
            return composition.chernoff_epsilon(delta)
        case DeltaAt(epsilon):
            return composition.chernoff(epsilon)


def _single(orderings: tuple[PairComposition, ...], question: Question) -> Bounds:
    """Bound the answer for one release, exact up to rounding."""
    lower = upper = 0.0
    for ordering in orderings:
        for parts, side in ((ordering.upper, 1), *((low, 0) for low in ordering.lowers)):
            for pair, _ in parts:  # one, or none where turning the question round leaves none
                value = solve_on_curve(question, _curve(pair, upper=bool(side)), upper=bool(side))
                lower, upper = (lower, max(upper, value)) if side else (max(lower, value), upper)
    return Bounds(lower, upper)


def _curve(pair: DominatingPair, *, upper: bool) -> Callable[[float], float]:
    """Delta of one pair at each epsilon from 0 on, bounded from one side."""
    if pair.direction is AdjacencyType.BOTH:  # at losses from 0 on it is the profile of REMOVE
        pair = DominatingPair(pair.base, pair.sampling_probability, AdjacencyType.REMOVE)
    outcomes = pair.outcomes()
    if outcomes is None:
        return lambda epsilon: bound_pair_delta(pair, epsilon)[upper]
    return lambda epsilon: outcomes.delta(epsilon, upper=upper)


def _tail(parts: Parts, delta: float) -> float:
    return max(_LOST * delta / sum(count for _, count in parts), 1e-290)


def _scale(sketches: Sketches) -> float:
    """Return the largest finite loss that a plan looks at."""
    return max(float(np.abs(part.edges[np.isfinite(part.edges)]).max()) for part, _ in sketches)


def _nats(relative_width: float) -> tuple[float, float]:
    nats = 8 - math.log(relative_width)
    return nats, nats


def _step(parts: Parts, theta: float, width: float) -> float:
    """Connecting the dots adds T (theta + 1) step^2 / 12 to epsilon: a third of the width that is asked for."""
    rounds = sum(count for _, count in parts)
    return min(math.sqrt(4 * width / (rounds * (theta + 1))), WIDEST)


def _is_same_pair(one: DominatingPair, other: DominatingPair) -> bool:
    if isinstance(one.base, GaussianPair) and isinstance(other.base, GaussianPair):
        return one.direction is other.direction and math.isclose(one.base.mu, other.base.mu, rel_tol=1e-12)
    return one.direction is other.direction and one.base is other.base
