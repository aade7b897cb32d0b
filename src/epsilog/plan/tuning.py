"""The cost of tuning: the best of a random number of runs, one run, and all runs released."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from epsilog.accounting import epsilon, expected_trials
from epsilog.mechanisms import BestOfTrials, Release, Repeated, TrialDistribution, format_trials
from epsilog.plan.pricing import RELATIVE_WIDTH
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check, codec

__all__ = ["TuningCost", "plan_tuning"]

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
