"""Control charts over a whole run: did what was set at the start hold to the end?

A chart of single rounds (Shewhart's) sees one round that is far off. A chart of sums (as Page's CUSUM) sees rounds
that are each a little off, one after another. Here each is a bet against the plan: for every round in which a change
may have begun and for many sizes of it, the likelihood of what followed over its likelihood under the plan. The mean
of these bets is a martingale that starts at 1, whenever one looks (Shiryaev & Roberts' statistic, each start weighed
alike). So over a whole run, of any length that was not chosen by what was seen, it passes 1/x at most with chance x
(Ville 1939): no table, and no approximation. The sampler's own variance is within the plan, and no drift.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr, bdtrc

from epsilog.terms import check
from epsilog.verification.sampler_tests import TILTS, Ids, Numbers

MOST_STARTS = 4096  # rounds in which a change may have begun; in longer runs blocks of rounds
SHARES = np.array([0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98])  # of the planned noise, that bets are on


def bound_cohort_drift(sizes: Ids, clients: int, probability: float) -> tuple[float, int]:
    """Bounds the chance that Binomial(clients, probability) sizes look so much like a change, up or down, for a while.

    Args:
        sizes: of each round's cohort, in order.
        clients: N.
        probability: with which each joins each round, below 1.

    Returns:
        The bound, and the round (from 1) after which the evidence was the strongest.
    """
    drawn, rounds = _in_blocks(sizes), _in_blocks(np.ones(sizes.size))
    steps = TILTS * drawn[:, None] - clients * rounds[:, None] * np.log1p(probability * np.expm1(TILTS))
    return _strongest(steps, sizes.size)


def bound_noise_drift(values: Sequence[int], squares: Sequence[float]) -> tuple[float, int]:
    """Bounds the chance that Gaussian noise looks so much like a fall below its standard deviation, for a while.

    Args:
        values: how many values each round has, in order.
        squares: the sum of their squares, in units of the variance.

    Returns:
        As above.
    """
    counts = _in_blocks(np.array(values, dtype=np.float64))[:, None]
    sums = _in_blocks(np.minimum(np.array(squares, dtype=np.float64), 1e290))[:, None]
    return _strongest(-counts * np.log(SHARES) - sums * (SHARES**-2 - 1) / 2, len(values))


def _in_blocks(column: Ids | Numbers) -> Numbers:
    """Sums over neighboring rounds, so that a change may have begun at the start of any of at most ``MOST_STARTS``."""
    if not column.size:
        return np.zeros(0)
    return np.asarray(np.add.reduceat(column.astype(np.float64), np.arange(0, column.size, _width(column.size))))


def _width(rounds: int) -> int:
    return -(-rounds // MOST_STARTS)


def _strongest(steps: Numbers, rounds: int) -> tuple[float, int]:
    """The chance by Ville's inequality, and the round after which the evidence was the strongest."""
    if not steps.size:
        return 1.0, 0
    path = compute_log_e_values(steps)
    at = int(path.argmax())
    return math.exp(-max(0.0, float(path[at]))), min((at + 1) * _width(rounds), rounds)


def compute_log_e_values(steps: Numbers) -> Numbers:
    """The logarithm of the mean of all bets, after each round.

    Args:
        steps: logarithm of the likelihood ratio of each round, or block of them, for each bet; shape (rounds, bets).

    Returns:
        Shape (rounds,). Its exponential is a martingale under the plan, and starts at 1.
    """
    rounds, bets = steps.shape
    running, path = np.full(bets, -np.inf), np.empty(rounds)  # of bets that have begun, each start weighing 1/rounds
    for number, step in enumerate(np.maximum(steps, -1e300), start=1):
        running = np.logaddexp(running, -math.log(rounds)) + step
        waiting = math.log1p(-number / rounds) if number < rounds else -math.inf
        path[number - 1] = np.logaddexp(np.logaddexp.reduce(running) - math.log(bets), waiting)
    return path


def compute_control_limits(clients: int, probability: float, rounds: int, false_alarm_rate: float) -> tuple[int, int]:
    """Return the limits that all cohorts of a sound run meet, except with probability ``false_alarm_rate``."""
    clients, rounds = check.integer(1)(clients=clients), check.integer(1)(rounds=rounds)
    probability = check.in_closed_interval(0, 1)(probability=probability)
    false_alarm_rate = check.in_open_interval(0, 1)(false_alarm_rate=false_alarm_rate)
    tail, every = false_alarm_rate / (2 * rounds), range(clients + 1)
    low = bisect.bisect_right(every, tail, key=lambda size: float(bdtr(size, clients, probability)))
    high = bisect.bisect_left(every, -tail, key=lambda size: -float(bdtrc(size, clients, probability)))
    return low, high
