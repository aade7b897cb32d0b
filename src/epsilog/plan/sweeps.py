"""What a sweep costs: the best of a random number of runs, beside one run, and beside all of them shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from epsilog.accounting import epsilon, mean_trials
from epsilog.mechanisms import Release, Repeated, Trials, Tuned, write_trials
from epsilog.plan.pricing import GAP
from epsilog.terms import Interval, NeighboringRelation, UnsupportedMechanismError, check, codec

__all__ = ["Sweep", "sweep"]

_HAIR = 1e-9  # by which a mean that is rounded up may be above a whole number


@dataclass(frozen=True, slots=True)
class Sweep:
    """The price of a run that is chosen as the best of several.

    Attributes:
        trials: the law of their number.
        expected: how many there are on average, rounded up.
        best: epsilon of the best, alone released: what is charged, before the first trial.
        one: epsilon of a single run.
        count: runs that ``shown`` is for: those expected, or one more where that is no whole number.
        shown: epsilon of all of them shown, None where that has no price.
    """

    trials: Trials
    expected: float
    best: Interval
    one: Interval
    count: int
    shown: Interval | None

    def covering(self, other: Sweep) -> Sweep:
        """The same prices with upper bounds that are no lower than another's."""
        shown = self.shown
        if shown is not None and other.shown is not None:
            shown = _covering(shown, other.shown)
        return replace(self, best=_covering(self.best, other.best), one=_covering(self.one, other.one), shown=shown)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return codec.plain_fields(self) | {"law": write_trials(self.trials)}


def _covering(one: Interval, other: Interval) -> Interval:
    return replace(one, upper=max(one.upper, other.upper))


def sweep(release: Release, trials: Trials, *, delta: float, relation: NeighboringRelation, gap: float = GAP) -> Sweep:
    """Prices the best of several runs of one release.

    Args:
        release: one run, with whatever its score sees of private data.
        trials: the law of their number.
        delta: of all figures.
        relation: which data sets are neighbours.
        gap: the relative width to aim for.

    Raises:
        UnsupportedMechanismError: one run has no price under this relation.

    >>> from epsilog.mechanisms import BinomialTrials, Gaussian
    >>> relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    >>> found = sweep(Gaussian(8.0), BinomialTrials(8, 0.5), delta=1e-6, relation=relation)
    >>> found.one.upper < found.best.upper < 3 * found.one.upper, found.count
    (True, 4)
    """
    delta = check.half_open(0, 1, check.DOWN)(delta=delta)
    expected = mean_trials(trials)
    count = max(math.ceil(expected * (1 - _HAIR)), 1)

    def priced(one: Release) -> Interval:
        return epsilon(one, delta=delta, relation=relation, gap=gap)

    try:
        shown = priced(Repeated(release, count))
    except UnsupportedMechanismError:  # what is repeated may have no price of its own
        shown = None
    return Sweep(trials, expected, priced(Tuned(release, trials)), priced(release), count, shown)
