"""What schedules and the best of several runs cost: one function for calculators, registered plans and runs alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from epsilog.accounting import FederatedClosedForm, epsilon, expected_trials
from epsilog.mechanisms import BestOfTrials, Composed, Release, Repeated, TrialDistribution, format_trials
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check, codec
from epsilog.terms.messages import Message

RELATIVE_WIDTH = 0.002  # relative width of an interval to aim for


class Scheduled(Protocol):
    """Rounds that are fixed beforehand: a ``Schedule``, or a scheme of training."""

    @property
    def rounds(self) -> int:
        """Return how many."""

    @property
    def noise_multiplier(self) -> float:
        """Noise over clip norm."""

    def after(self, rounds: int) -> Release:
        """Return what the first rounds release."""


def bound_schedule_epsilon(
    schedule: Scheduled | Sequence[Scheduled],
    delta: float,
    relation: NeighboringRelation,
    *,
    rounds: int | None = None,
    count: int = 1,
    relative_width: float = RELATIVE_WIDTH,
    group_size: int = 1,
) -> Interval:
    """Bound epsilon of a schedule, whole or up to a round; several are parts that run one after another.

    Without noise every sampled unit is exposed, so epsilon is infinite.

    Args:
        schedule: the rounds; a list of schedules changes between them.
        delta: failure probability, in [0, 1).
        relation: which data sets are neighbors.
        rounds: how many of the first rounds to include; None for all.
        count: how often the schedule is run.
        relative_width: the target relative width of the interval.
        group_size: units that differ.

    Raises:
        UnsupportedMechanismError: no proof covers a part under this relation.
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    parts = list(schedule) if isinstance(schedule, Sequence) else [schedule]
    left = sum(part.rounds for part in parts) if rounds is None else check.integer(1)(rounds=rounds)
    releases = []
    for part in parts:
        taken = min(part.rounds, left)
        if taken and part.noise_multiplier == 0:
            return Interval(0.0, math.inf, Message("method/no-noise@1"), relation, given=(("delta", delta),))
        left -= taken
        releases += [part.after(taken)] if taken else []
    return epsilon(
        Repeated(Composed(releases), count),
        delta=delta,
        relation=relation,
        relative_width=relative_width,
        group_size=group_size,
    )


def formula_json(formula: FederatedClosedForm) -> dict[str, Any]:
    """Return the popular closed form as plain JSON values."""
    return {
        "root_term": codec.encode(formula.root_term),
        "linear_term": codec.encode(formula.linear_term),
        "total": codec.encode(formula.total),
        "dominant_term": formula.dominant_term,
        "side": "estimate",
    }


_HAIR = 1e-9  # by which a mean that is rounded up may be above a whole number


@dataclass(frozen=True, slots=True)
class TuningCost:
    """The cost of the best of several runs.

    Attributes:
        trials: the distribution of the number of runs.
        expected: how many there are on average, rounded up.
        best: epsilon of the best, alone released: what is charged, before the first trial.
        single_run: epsilon of a single run.
        count: runs that ``all_released`` is for: those expected, or one more where that is no whole number.
        all_released: epsilon of releasing all of them; None if no bound is proven.
    """

    trials: TrialDistribution
    expected: float
    best: Interval
    single_run: Interval
    count: int
    all_released: Interval | None

    def covering(self, other: TuningCost) -> TuningCost:
        """Return these costs with upper bounds at least as large as the other's."""
        all_released = self.all_released
        if all_released is not None and other.all_released is not None:
            all_released = _covering(all_released, other.all_released)
        return replace(
            self,
            best=_covering(self.best, other.best),
            single_run=_covering(self.single_run, other.single_run),
            all_released=all_released,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return codec.plain_fields(self) | {"trial_distribution": format_trials(self.trials)}


def _covering(one: Interval, other: Interval) -> Interval:
    return replace(one, upper=max(one.upper, other.upper))


def plan_tuning(
    release: Release,
    trials: TrialDistribution,
    *,
    delta: float,
    relation: NeighboringRelation,
    relative_width: float = RELATIVE_WIDTH,
) -> TuningCost:
    """Compute the cost of the best of several runs of one release.

    Args:
        release: one run, with whatever its score sees of private data.
        trials: the distribution of the number of runs.
        delta: of all figures.
        relation: which data sets are neighbors.
        relative_width: the target relative width.

    Raises:
        UnsupportedMechanismError: no proof covers one run under this relation.

    >>> from epsilog.mechanisms import BinomialTrialCount, Gaussian
    >>> relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    >>> found = plan_tuning(Gaussian(8.0), BinomialTrialCount(8, 0.5), delta=1e-6, relation=relation)
    >>> found.single_run.upper < found.best.upper < 3 * found.single_run.upper, found.count
    (True, 4)
    """
    delta = check.in_half_open_interval(0, 1, check.DOWN)(delta=delta)
    expected = expected_trials(trials)
    count = max(math.ceil(expected * (1 - _HAIR)), 1)

    def bound_cost(one: Release) -> Interval:
        return epsilon(one, delta=delta, relation=relation, relative_width=relative_width)

    try:
        all_released = bound_cost(Repeated(release, count))
    except UnsupportedMechanismError:  # the repeated release may have no bound
        all_released = None
    return TuningCost(
        trials, expected, bound_cost(BestOfTrials(release, trials)), bound_cost(release), count, all_released
    )
