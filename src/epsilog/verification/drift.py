"""Control charts over a whole run: detect small persistent changes of sampling or noise.

A Shewhart chart detects one round that is far off; a cumulative chart such as Page's CUSUM detects many rounds that are
each slightly off. This one averages likelihood ratios against the plan, over every start of a change and many sizes of
it (the Shiryaev-Roberts statistic with uniform weights). Under the plan, the average is a martingale that starts at 1.
By Ville's inequality (1939) it exceeds 1/x in a run with probability at most x, if the run's length does not depend on
the data. The sampler's own variance is part of the plan.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr, bdtrc

from epsilog.terms import check
from epsilog.verification.sampler_tests import TILTS, Ids, Numbers

MOST_STARTS = 4096  # possible starts of a change; longer runs group rounds into blocks
SHARES = np.array([0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98])  # alternatives, as fractions of the planned noise


def bound_cohort_drift(sizes: Ids, clients: int, probability: float) -> tuple[float, int]:
    """Return a p-value for a persistent change of Binomial(clients, probability) cohort sizes, up or down.

    Args:
        sizes: the size of each round's cohort, in order.
        clients: N.
        probability: the sampling probability, below 1.

    Returns:
        The p-value, and the round (from 1) after which the evidence is strongest.
    """
    drawn, rounds = _in_blocks(sizes), _in_blocks(np.ones(sizes.size))
    steps = TILTS * drawn[:, None] - clients * rounds[:, None] * np.log1p(probability * np.expm1(TILTS))
    return _strongest(steps, sizes.size)


def bound_noise_drift(values: Sequence[int], squares: Sequence[float]) -> tuple[float, int]:
    """Return a p-value for a persistent drop of Gaussian noise below its planned standard deviation.

    Args:
        values: the number of values in each round, in order.
        squares: the sum of their squares, in units of the variance.

    Returns:
        The p-value, and the index (from 1) of the round after which the evidence is strongest.
    """
    counts = _in_blocks(np.array(values, dtype=np.float64))[:, None]
    sums = _in_blocks(np.minimum(np.array(squares, dtype=np.float64), 1e290))[:, None]
    return _strongest(-counts * np.log(SHARES) - sums * (SHARES**-2 - 1) / 2, len(values))


def _in_blocks(column: Ids | Numbers) -> Numbers:
    """Return sums over at most ``MOST_STARTS`` blocks of consecutive rounds."""
    if not column.size:
        return np.zeros(0)
    return np.asarray(np.add.reduceat(column.astype(np.float64), np.arange(0, column.size, _width(column.size))))


def _width(rounds: int) -> int:
    return -(-rounds // MOST_STARTS)


def _strongest(steps: Numbers, rounds: int) -> tuple[float, int]:
    """Return the p-value by Ville's inequality, and the round after which the evidence is strongest."""
    if not steps.size:
        return 1.0, 0
    path = compute_log_e_values(steps)
    at = int(path.argmax())
    return math.exp(-max(0.0, float(path[at]))), min((at + 1) * _width(rounds), rounds)


def compute_log_e_values(steps: Numbers) -> Numbers:
    """Return the logarithm of the mean likelihood ratio after each round.

    Args:
        steps: log likelihood ratio of each round or block, for each alternative; shape (rounds, alternatives).

    Returns:
        Shape (rounds,). Its exponential is a martingale under the plan, and starts at 1.
    """
    rounds, alternatives = steps.shape
    running, path = np.full(alternatives, -np.inf), np.empty(rounds)  # sums over past starts, each of weight 1/rounds
    for number, step in enumerate(np.maximum(steps, -1e300), start=1):
        running = np.logaddexp(running, -math.log(rounds)) + step
        waiting = math.log1p(-number / rounds) if number < rounds else -math.inf
        path[number - 1] = np.logaddexp(np.logaddexp.reduce(running) - math.log(alternatives), waiting)
    return path


def compute_control_limits(clients: int, probability: float, rounds: int, false_alarm_rate: float) -> tuple[int, int]:
    """Return limits that contain all cohort sizes of a sound run, except with probability ``false_alarm_rate``."""
    clients, rounds = check.integer(1)(clients=clients), check.integer(1)(rounds=rounds)
    probability = check.in_closed_interval(0, 1)(probability=probability)
    false_alarm_rate = check.in_open_interval(0, 1)(false_alarm_rate=false_alarm_rate)
    tail, every = false_alarm_rate / (2 * rounds), range(clients + 1)
    low = bisect.bisect_right(every, tail, key=lambda size: float(bdtr(size, clients, probability)))
    high = bisect.bisect_left(every, -tail, key=lambda size: -float(bdtrc(size, clients, probability)))
    return low, high
