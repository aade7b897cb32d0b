"""The best of a secret number of trials: what a ``Tuned`` release describes, run."""

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
    """Runs a random number of trials and returns what the best one found; how many there were is told to nobody.

    Charge the ``Tuned`` release first. Let nothing else of the trials out: no score, no log, no count; how long it took
    tells the number, so who must not know it must not see that either.

    Args:
        trial: one trial from its start: draws its hyperparameters, computes, and returns a score and what it found.
            Every call must be the same mechanism with fresh randomness. A trial that fails should return a score of
            minus infinity: an error that ends the run tells of the data, and nobody priced it.
        trials: the law of their number.
        below: where randomness comes from; anything but the default is a simulation.

    Returns:
        What the trial of the highest score found, of equals the first; a score that is NaN is the lowest. None if the
        law drew no trial at all.

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
