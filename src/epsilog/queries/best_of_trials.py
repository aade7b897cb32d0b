"""Run the best of a secret number of trials, as ``BestOfTrials`` describes it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import TypeVar

from epsilog.mechanisms import TrialDistribution
from epsilog.mechanisms.sampling import RandBelow

__all__ = ["run_best_of_trials"]

T = TypeVar("T")


def run_best_of_trials(
    trial: Callable[[], tuple[float, T]], trials: TrialDistribution, *, below: RandBelow = secrets.randbelow
) -> T | None:
    """Run a random number of trials and return the result of the best one; the number stays secret.

    Charge the ``BestOfTrials`` release first. Release nothing else of the trials: no score, no log and no count. The
    duration reveals the number, so it must stay secret, too.

    Args:
        trial: runs one trial from the start: draws its hyperparameters, computes, and returns a score and a result.
            Every call must be the same mechanism with fresh randomness. A trial that fails should return minus
            infinity: an error that ends the run depends on the data, and no charge covers it.
        trials: the distribution of the number of trials.
        below: source of randomness; anything but the default makes this a simulation.

    Returns:
        The result of the highest score, the first of equals; NaN is the lowest score. None if no trial was drawn.

    Source:
        docs/accounting/tuning.md.

    >>> import itertools
    >>> from epsilog.mechanisms import BinomialTrialCount
    >>> found = itertools.count(1)
    >>> run_best_of_trials(lambda: (-abs(next(found) - 3), "found"), BinomialTrialCount(most=5, probability=1.0))
    'found'
    """
    best: T | None = None
    highest: float | None = None
    for _ in range(trials.draw(below)):
        score, found = trial()
        rank = -math.inf if math.isnan(score) else score
        if highest is None or rank > highest:
            highest, best = rank, found
    return best
