"""Bound p-values of participation lists under the planned sampler, and detect small persistent changes over a run.

A Shewhart chart detects one round that is far off; a cumulative chart such as Page's CUSUM detects many rounds that are
each slightly off. This one averages likelihood ratios against the plan, over every start of a change and many sizes of
it (the Shiryaev-Roberts statistic with uniform weights). Under the plan, the average is a martingale that starts at 1.
By Ville's inequality (1939) it exceeds 1/x in a run with probability at most x, if the run's length does not depend on
the data. The sampler's own variance is part of the plan.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, chdtri, rel_entr

from epsilog.terms import check

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

MOST_PAIRS = 2_000  # covers all pairs of up to 63 cohorts; more cohorts add a few pairs each
TILTS = np.concatenate([-(2.0 ** np.arange(-8, 4)), 2.0 ** np.arange(-8, 4)])


def choose_pairs(count: int) -> Sequence[tuple[int, int]]:
    """Return pairs one < other below ``count``: all of them, or consecutive ones, those with 0, and random ones.

    A public seed draws the random pairs, so that the tests are reproducible.

    >>> choose_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    if count * (count - 1) // 2 <= MOST_PAIRS:
        return [(one, other) for one in range(count) for other in range(one + 1, count)]
    drawn = np.sort(np.random.default_rng(count).integers(0, count, (MOST_PAIRS, 2)), axis=1).tolist()
    neighbors, from_first = ((one, one + 1) for one in range(count - 1)), ((0, other) for other in range(1, count))
    return sorted({*neighbors, *from_first, *((one, other) for one, other in drawn if one < other)})


def list_public_classes(clients: int, classes: int) -> Iterator[Ids]:
    """Yield public classes of clients, by index modulo and by blocks of indices, for 2 and for ``classes`` classes."""
    every = np.arange(clients)
    for many in sorted({2, classes}):
        yield every % many
        yield every * many // clients


def bound_excess(seen: Ids, trials: Ids | int, probability: float) -> Numbers:
    """Bound the probability of counts at least this large, separately (Hoeffding 1963, Theorem 1).

    It holds for binomial and hypergeometric counts (Theorem 4).
    """
    share = seen / np.maximum(trials, 1)
    apart = rel_entr(share, probability) + rel_entr(1 - share, 1 - probability)
    return np.asarray(np.where(share > probability, np.exp(-trials * apart), 1.0))


def bound_misfit(seen: Ids, trials: Ids | int, probability: float) -> Numbers:
    """Return two-sided p-values: twice the bound for the count's own side."""
    one, other = bound_excess(seen, trials, probability), bound_excess(trials - seen, trials, 1 - probability)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(one, other)))


def compute_two_sided_p_value(count: Ids, trials: Ids | int, probability: Numbers | float) -> Numbers:
    """Return twice the smaller tail of Binomial(trials, probability) at ``count``, at most 1."""
    possible = np.minimum(count, trials)  # the tails are undefined for counts above the trials
    above = np.where(count > 0, bdtrc(np.maximum(possible, 1) - 1, trials, probability), 1.0)
    both = np.minimum(1.0, 2 * np.minimum(bdtr(possible, trials, probability), above))
    return np.asarray(np.where(count > trials, 0.0, both))


def bound_dispersion(counts: Ids, trials: Ids, probability: Numbers) -> float:
    """Return a two-sided p-value for the dispersion of binomial counts, each conditional on those before it.

    For each count, take the probability of a deviation no larger than the observed one. Under the plan it is
    stochastically at least uniform, so the chi-square quantile at it is stochastically at least chi-square with one
    degree of freedom. The sum of quantiles is compared with as many degrees; the other side likewise. Counts with
    likely extreme values are omitted, since they could only raise the p-value.
    """
    used = (probability > 0) & (probability < 1)
    used &= np.minimum(probability, 1 - probability) ** trials < 0.01
    if not used.any():
        return 1.0
    n, m, p = counts[used], trials[used], probability[used]
    low, high = np.minimum(n, 2 * m * p - n), np.maximum(n, 2 * m * p - n)
    below = np.maximum(np.ceil(low - 1e-9), 0)  # the extreme counts with no larger deviation
    above = np.minimum(np.floor(high + 1e-9), m)
    outside = np.where(below > 0, bdtr(np.maximum(below, 1) - 1, m, p), 0) + np.where(above < m, bdtrc(above, m, p), 0)
    even = chdtr(n.size, chdtri(1, np.minimum(outside, 1.0)).sum())
    uneven = chdtrc(n.size, chdtri(1, compute_two_sided_p_value(n, m, p)).sum())
    return min(1.0, 2 * float(min(even, uneven)))


def bound_total_shift(seen: Ids, trials: Ids | int, probability: Numbers | float) -> float:
    """Return a two-sided p-value for the sum of counts that are binomial or hypergeometric given those before.

    For every t, exp(t sum(seen) - sum(trials log(1 + p (e^t - 1)))) has mean at most 1. By Markov's inequality it
    exceeds 1/x with probability at most x. A union bound covers 24 values of t.
    """
    logs = [t * seen.sum() - (trials * np.log1p(probability * np.expm1(t)) + 0 * seen).sum() for t in TILTS]
    return min(1.0, TILTS.size * math.exp(-max(logs)))


def count_remaining_in_cycle(sizes: Ids, clients: int, length: int) -> tuple[Ids, Ids]:
    """Return the numbers of remaining clients and of remaining rounds before each round of a cycle."""
    return clients - np.concatenate([[0], np.cumsum(sizes)[:-1]]), length - np.arange(sizes.size)


def count_early_returns(cohorts: Sequence[Ids], clients: int, probability: float) -> tuple[Ids, Ids]:
    """Count clients with more participations than expected so far: in each cohort, and among all clients.

    A round-robin sampler would give no such clients in any cohort.
    """
    times, usual, above = np.zeros(clients, dtype=np.int64), 0, 0
    seen, of = np.zeros(len(cohorts), dtype=np.int64), np.zeros(len(cohorts), dtype=np.int64)
    for number, ids in enumerate(cohorts):
        if (now := math.floor(number * probability + 1e-9)) > usual:
            usual, above = now, int((times > now).sum())
        seen[number], of[number] = (times[ids] > usual).sum(), above
        times[ids] += 1
        above += int((times[ids] == usual + 1).sum())
    return seen, of


def count_shared_clients(cohorts: Sequence[Ids], clients: int) -> dict[tuple[int, int], int]:
    """Count the clients that two cohorts share, for the pairs of ``choose_pairs``."""
    found, here, last = {}, np.zeros(clients, dtype=bool), -1
    for one, other in choose_pairs(len(cohorts)):
        if one != last:
            here[:], last = False, one
            here[cohorts[one]] = True
        found[one, other] = int(here[cohorts[other]].sum())
    return found


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
