"""Questions turned round: the least noise that meets a goal, the most rounds that fit, epsilon round by round.

A search looks at upper bounds alone; what it returns was checked by the same question that a claim answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from epsilog.accounting.account import RELATIVE_WIDTH, apply_group_size, build_interval, compute_interval
from epsilog.accounting.intervals import ArrayLike, Intervals, parse_points
from epsilog.accounting.privacy_profile import profile
from epsilog.mechanisms import Composed, Release, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import DeltaAt, EpsilonAt, Question
from epsilog.numerics.roots import find_last_integer
from epsilog.numerics.rounding import TINY
from epsilog.terms import CalibrationError, CheckError, NeighboringRelation, check

_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_EVALUATIONS = 80
_PATIENCE = 2  # tries that have to halve the bracket, or the next one does
_START, _GROWTH, _GROWTHS = (0.3, 30.0), 30.0, 12
_NEGLIGIBLE = -50.0  # the excess of what costs next to nothing
_ELSEWHERE = tuple(10.0**k for k in (*range(0, -19, -1), *range(1, 19)))  # to look for values that have a meaning
_MOST_ROUNDS = 10**12


def calibrate(
    make: Callable[[float], Release],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    low: float | None = None,
    high: float | None = None,
    tolerance: float = 1e-5,
    integer: bool = False,
    digits: int | None = None,
    relative_width: float = RELATIVE_WIDTH,
) -> float:
    """Find the cheapest value of one parameter that meets a goal.

    The goal is (epsilon, delta), or an advantage, or a true positive rate at a false positive rate.

    Args:
        make: builds the release from the parameter; the cost must be monotone in it, either way. Where it raises
            ``ValueError`` the parameter has no meaning (a probability above 1), and the search stays inside.
        epsilon: the goal, in nats, with ``delta``.
        delta: the goal's failure probability, in (0, 1), with ``epsilon``.
        advantage: the goal for TPR - FPR of the best attack, in (0, 1).
        tpr: the goal for the true positive rate of the best attack, with ``fpr``.
        fpr: its false positive rate, with ``tpr``.
        relation: which data sets are neighbors.
        low: the least value to try; found by search when blank.
        high: the largest value to try; found by search when blank.
        tolerance: how close, relatively, to the exact answer to stop; whole numbers are exact.
        integer: whether the parameter counts something: ``make`` then gets an ``int``, and so does the caller.
        digits: how many significant digits the value may have; any number when blank.
        relative_width: the relative width of the claims that the value is to meet, as in ``epsilon``.

    Returns:
        A value with a claim, ``epsilon`` at the same ``relative_width``, that meets the goal: the least such one if the
        cost falls with the parameter (noise), the largest if it grows (sampling probability). If even the costliest
        valid value meets the goal (a probability of 1), that one.

    Raises:
        ValueError: the parameter has no meaning at ``low`` or ``high``, or wherever it was tried.
        CalibrationError: no value in the bracket meets the goal, every value does, or the search did not converge.
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        The claims of ``epsilon`` and ``profile``, which the value was checked by.

    >>> from epsilog.mechanisms import Gaussian, PoissonSampled
    >>> round(calibrate(Gaussian, epsilon=1.0, delta=1e-6), 1)
    4.2
    >>> calibrate(lambda q: PoissonSampled(Gaussian(5.0), q), epsilon=1.0, delta=1e-6)
    1.0
    >>> calibrate(lambda count: Repeated(Gaussian(10.0), count), epsilon=1.0, delta=1e-6, integer=True)
    5
    """
    tolerance, relative_width = (
        check.in_open_interval(0, 1)(tolerance=tolerance),
        check.in_open_interval(0, 1)(relative_width=relative_width),
    )
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    digits = check.optional(check.integer(2, 15))(digits=digits)
    made: Callable[[float], Release] = (lambda at: make(int(at))) if integer else make
    goal = _goal(epsilon=epsilon, delta=delta, advantage=advantage, tpr=tpr, fpr=fpr)
    meaning = _Meaning(made, _Grid(integer, digits, tolerance))

    def excess(at: float, *, above: bool = True) -> float:
        return goal(made(at), relation, relative_width, above)

    value, claimed = _search(meaning, excess, low, high), partial(excess, above=False)
    if claimed(value) > 0:  # a claim is no more than its upper bound alone; were it more, all would be claims
        value = _search(meaning, claimed, low, high)
    return int(value) if integer else value


def _search(meaning: _Meaning, excess: Callable[[float], float], low: float | None, high: float | None) -> float:
    """Return the value next to where the cost crosses the goal, on the side that meets it."""
    good, bad, at_bad, at_good = _bracket(meaning, excess, low, high)
    tried, widths = [(good, at_good), (bad, at_bad)], [math.inf] * _PATIENCE
    for _ in range(_EVALUATIONS):
        if meaning.grid.next_to_each_other(good, bad):
            return good
        widths.append(abs(math.log(good) - math.log(bad)))
        slow = widths[-1] > widths[-1 - _PATIENCE] / 2
        proposed = math.sqrt(good * bad) if slow else _between(tried, good, bad, meaning.grid.tolerance)
        value = meaning.grid.inside(proposed, good, bad)
        tried.append((value, excess(value)))
        if tried[-1][1] <= 0:
            good = value
        else:
            bad = value
    raise CalibrationError("the search did not converge", bracket=(min(good, bad), max(good, bad)))


Excess = Callable[[Release, NeighboringRelation, float, bool], float]


def _goal(
    *, epsilon: float | None, delta: float | None, advantage: float | None, tpr: float | None, fpr: float | None
) -> Excess:
    """Return how far a release overshoots the goal, as a logarithm; at most 0 where the goal is met."""
    goals = [epsilon is not None, advantage is not None, tpr is not None]
    if sum(goals) != 1 or (epsilon is None) != (delta is None) or (tpr is None) != (fpr is None):
        raise ValueError("goal must be epsilon with delta, or advantage, or tpr with fpr")
    if epsilon is not None and delta is not None:
        return _answer_at_most(
            EpsilonAt(check.in_open_interval(0, 1, check.DOWN)(delta=delta)),
            check.positive(check.DOWN)(epsilon=epsilon),
        )
    if advantage is not None:
        return _answer_at_most(DeltaAt(0.0), check.in_open_interval(0, 1, check.DOWN)(advantage=advantage))
    assert tpr is not None
    assert fpr is not None
    rate, most = check.in_open_interval(0, 1, check.UP)(fpr=fpr), check.in_open_interval(0, 1, check.DOWN)(tpr=tpr)
    if most <= rate:
        raise CheckError("tpr", f"above fpr = {rate!r}", repr(most))

    def excess(release: Release, relation: NeighboringRelation, relative_width: float, above: bool) -> float:  # noqa: ARG001
        return _log_ratio(
            profile(release, relation=relation, relative_width=relative_width).tpr(rate).upper - rate, most - rate
        )

    return excess


def _answer_at_most(question: Question, most: float) -> Excess:
    def excess(release: Release, relation: NeighboringRelation, relative_width: float, above: bool) -> float:
        return _log_ratio(
            compute_interval(Composition.of(release, relation), question, relative_width, above=above)[0].upper, most
        )

    return excess


def _log_ratio(value: float, goal: float) -> float:
    if math.isnan(value):
        raise CalibrationError("a bound was not a number")
    return max(math.log(value) - math.log(goal), _NEGLIGIBLE) if value > 0 else _NEGLIGIBLE


@dataclass(frozen=True)
class _Grid:
    """The values of a parameter: integers, decimals with a number of digits, or all up to a tolerance."""

    integer: bool
    digits: int | None
    tolerance: float

    def at(self, value: float) -> float:
        """Return the nearest value there is, or for counts the one below."""
        if self.integer:
            return max(math.floor(value), 1)
        return value if self.digits is None else float(f"{value:.{self.digits}g}")

    def next_to_each_other(self, one: float, other: float) -> bool:
        """Return whether there is nothing between two values, or next to nothing."""
        least = min(one, other)
        if self.integer:
            return abs(one - other) <= 1
        return abs(one - other) <= max(self.tolerance * least, 1.001 * self._step(least))

    def inside(self, value: float, one: float, other: float) -> float:
        """Return a value near the proposed one and between two others."""
        if not self.integer and self.digits is None:
            return value
        step = self._step(min(one, other))
        return self.at(
            min(max(round(value) if self.integer else value, min(one, other) + step), max(one, other) - step)
        )

    def _step(self, value: float) -> float:
        if self.integer:
            return 1
        return 0.0 if self.digits is None else 10.0 ** (math.floor(math.log10(value)) - self.digits + 1)


class _Meaning:
    """The range of a parameter in which ``make`` does not raise ``ValueError``; no cost is computed for it."""

    def __init__(self, make: Callable[[float], Release], grid: _Grid) -> None:
        self.grid, self._make = grid, make
        self._refusal = ""

    def holds(self, at: float) -> bool:
        """Return whether the parameter may be ``at``."""
        try:
            self._make(at)
        except ValueError as error:
            self._refusal = str(error)
            return False
        return True

    def start(self, low: float | None, high: float | None) -> tuple[float, float]:
        """Two values to begin with: the ends that were given, or such as have a meaning."""
        low, high = check.optional(check.positive())(low=low), check.optional(check.positive())(high=high)
        given = {name: end for name, end in (("low", low), ("high", high)) if end is not None}
        for name, end in given.items():  # an end that was given says itself what is wrong with it
            if self.grid.integer and end != int(end):
                raise CheckError(name, "a whole number", repr(end))
            self._make(end)
        if low is not None and high is not None and not low < high:
            raise CheckError("low", f"below high = {high!r}", repr(low))
        first, last = (self.grid.at(at) for at in _START)
        first, last = min(first, *given.values(), last), max(first, *given.values(), last)
        inside = next((at for at in (*given.values(), first, last, *_ELSEWHERE) if self.holds(at)), None)
        if inside is None:
            raise ValueError(f"no value that was tried has a meaning, so low and high are needed: {self._refusal}")
        first = low if low is not None else self.towards(first, inside)
        return first, high if high is not None else self.towards(last, inside)

    def towards(self, goal: float, inside: float) -> float:
        """Return the value nearest to ``goal`` that has a meaning, to the last digit; ``inside`` has one."""
        outside = self.grid.at(goal)
        if outside == inside or self.holds(outside):
            return outside
        while True:
            near, far = sorted((inside, outside))
            middle = self.grid.at(math.sqrt(near) * math.sqrt(far) if far > 2 * near else (near + far) / 2)
            if middle in (near, far):
                return inside
            inside, outside = (middle, outside) if self.holds(middle) else (inside, middle)


def _bracket(
    meaning: _Meaning, excess: Callable[[float], float], low: float | None, high: float | None
) -> tuple[float, float, float, float]:
    """Find a value that meets the goal and one that does not, by growing the open ends towards what is missing."""
    first, last = meaning.start(low, high)
    at_first, at_last = excess(first), excess(last)
    for _ in range(_GROWTHS):
        if (at_first <= 0) != (at_last <= 0):
            break
        lacking = 1 if at_first <= 0 else -1  # a costlier value, or a cheaper one
        lower = first if low is not None else meaning.towards(first / _GROWTH, first)
        upper = last if high is not None else meaning.towards(last * _GROWTH, last)
        left, right = lacking * at_first >= lacking * at_last, lacking * at_last >= lacking * at_first
        if (
            lacking > 0
            and left != right
            and (lower == first and low is None if left else upper == last and high is None)
        ):
            costliest, at = (first, at_first) if left else (last, at_last)
            return costliest, costliest, at, at
        if not ((left and lower < first) or (right and upper > last)):
            break
        if left and lower < first:
            first, at_first = lower, excess(lower)
        if right and upper > last and (at_first <= 0) == (at_last <= 0):
            last, at_last = upper, excess(upper)
    if at_first <= 0 and at_last <= 0:
        raise CalibrationError("every value tried meets the goal", bracket=(first, last))
    if at_first > 0 and at_last > 0:
        raise CalibrationError("no value tried meets the goal", bracket=(first, last))
    return (first, last, at_last, at_first) if at_first <= 0 else (last, first, at_first, at_last)


def _between(tried: Sequence[tuple[float, float]], good: float, bad: float, tolerance: float) -> float:
    """Return the next value to try: where a parabola through the last three meets the goal, or the geometric middle.

    The parabola gives the logarithm of the value over the excess. It soon hits the goal from one side only; so what it
    says is moved a hair towards the end of the bracket that is further away, and replaces that end.
    """
    last = {excess: math.log(value) for value, excess in tried[-3:] if _NEGLIGIBLE < excess < math.inf}
    middle = math.sqrt(good * bad)
    if len(last) < 2:
        return middle
    guess = math.exp(min(max(_at_zero(list(last.items())), math.log(TINY)), -math.log(TINY)))
    further = max(good, bad, key=lambda end: abs(math.log(end) - math.log(guess)))
    guess *= 1 + math.copysign(0.4 * tolerance, further - guess)
    return guess if min(good, bad) < guess < max(good, bad) else middle


def _at_zero(points: Sequence[tuple[float, float]]) -> float:
    """Return the value at 0 of the polynomial through some points (Lagrange)."""
    return math.fsum(y * math.prod(x / (x - at) for x, _ in points if x != at) for at, y in points)


def max_rounds(
    step: Release,
    *,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    spent: Release | None = None,
    relative_width: float = RELATIVE_WIDTH,
) -> int:
    """Count how many more times ``step`` fits a goal, after ``spent``.

    Args:
        step: one round.
        epsilon: the goal, in nats, with ``delta``.
        delta: the goal's failure probability, in (0, 1).
        relation: which data sets are neighbors.
        spent: what was released before; nothing when blank.
        relative_width: the relative width of the claims that the count is to meet, as in ``epsilon``.

    Returns:
        The largest count that meets (epsilon, delta)-DP by the claim that is made of it, ``epsilon`` at the same
        ``relative_width``; 0 if none does.

    Raises:
        CalibrationError: the step costs nothing, so any number fits.
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        The claim of ``epsilon``, which the count was checked by.

    >>> from epsilog.mechanisms import Gaussian
    >>> max_rounds(Gaussian(noise_multiplier=10.0), epsilon=1.0, delta=1e-6)
    5
    """
    epsilon = check.positive(check.DOWN)(epsilon=epsilon)
    delta = check.in_open_interval(0, 1, check.DOWN)(delta=delta)
    relative_width = check.in_open_interval(0, 1)(relative_width=relative_width)
    relation = check.enum_member(NeighboringRelation)(relation=relation)
    before = Composed([]) if spent is None else spent

    def fits(count: int, *, above: bool = True) -> bool:
        total = Composition.of(Composed([before, Repeated(step, count)]), relation)
        return compute_interval(total, EpsilonAt(delta), relative_width, above=above)[0].upper <= epsilon

    most = _most(fits)
    if most > 0 and not fits(most, above=False):  # a claim is not above; if it is, all are claims
        most = _most(partial(fits, above=False))
    return most


def _most(fits: Callable[[int], bool]) -> int:
    """Return the largest count that fits; 0 if none does."""
    most = find_last_integer(fits, limit=_MOST_ROUNDS)
    if most == _MOST_ROUNDS:
        raise CalibrationError(f"any number of rounds fits: {most} do")
    return most


def epsilon_curve(
    step: Release,
    rounds: ArrayLike,
    *,
    delta: float | ArrayLike,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
) -> Intervals:
    """Bound epsilon after each of several numbers of rounds, at one delta or at several.

    Args:
        step: one round.
        rounds: how often it is repeated: a list, a range, an array.
        delta: failure probability, in [0, 1); a series goes with ``rounds`` as two arrays of NumPy's do.
        relation: which data sets are neighbors.
        relative_width: the target relative width.
        group_size: the most units that one person holds, as in ``epsilon``.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        docs/accounting/certified-bounds.md, as of ``epsilon`` after each number of rounds.

    >>> from epsilog.mechanisms import Gaussian
    >>> epsilon_curve(Gaussian(noise_multiplier=10.0), [1, 10, 100], delta=1e-6).upper.round(2).tolist()
    [0.4, 1.37, 4.89]
    """
    numbers = parse_points(check.in_half_open_interval(0, 1, check.DOWN), delta=delta)
    return _over_rounds(
        step, rounds, (EpsilonAt, numbers), relation=relation, relative_width=relative_width, group_size=group_size
    )


def delta_curve(
    step: Release,
    rounds: ArrayLike,
    *,
    epsilon: float | ArrayLike,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
) -> Intervals:
    """Bound delta after each of several numbers of rounds, at one epsilon or at several.

    Args:
        step: one round.
        rounds: how often it is repeated: a list, a range, an array.
        epsilon: in nats, at least 0; a series goes with ``rounds`` as two arrays of NumPy's do.
        relation: which data sets are neighbors.
        relative_width: the target relative width.
        group_size: the most units that one person holds, as in ``delta``.

    Raises:
        UnsupportedMechanismError: no method has a proof for a part under this relation.

    Source:
        docs/accounting/certified-bounds.md, as of ``delta`` after each number of rounds.

    >>> from epsilog.mechanisms import Gaussian
    >>> delta_curve(Gaussian(noise_multiplier=4.0), [[1], [4]], epsilon=[0.0, 1.0]).shape
    (2, 2)
    """
    numbers = parse_points(check.at_least(0, check.DOWN), epsilon=epsilon)
    return _over_rounds(
        step, rounds, (DeltaAt, numbers), relation=relation, relative_width=relative_width, group_size=group_size
    )


def _over_rounds(
    step: Release,
    rounds: ArrayLike,
    asked: tuple[type[Question], tuple[tuple[float, ...], tuple[int, ...] | None]],
    *,
    relation: NeighboringRelation,
    relative_width: float,
    group_size: int,
) -> Intervals:
    """Each number of rounds is read once, however many questions are asked about it."""
    if not check.is_series(rounds):
        raise CheckError("rounds", "a series", repr(rounds))
    counts, shape = parse_points(check.integer(1), rounds=rounds)
    assert shape is not None
    kind, (numbers, other) = asked
    try:
        both = np.broadcast_shapes(shape, other or ())
    except ValueError:
        raise CheckError("rounds", f"of a shape that goes with {other}, that of the question", f"{shape}") from None
    read_once = {
        count: Composition.of(apply_group_size(Repeated(step, count), group_size), relation)
        for count in dict.fromkeys(counts)
    }
    places = np.broadcast_to(np.arange(len(counts)).reshape(shape), both).ravel()
    others = np.broadcast_to(np.arange(len(numbers)).reshape(other or ()), both).ravel()
    points = []
    for place, at in zip(places, others, strict=True):
        found = build_interval(read_once[counts[place]], kind(numbers[at]), relative_width)
        points.append(replace(found, given=(("rounds", float(counts[place])), *found.given)))
    return Intervals(tuple(points), both)
