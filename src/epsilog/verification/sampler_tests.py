"""Bound p-values of participation lists under the planned sampler, for any number of clients and rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, chdtri, rel_entr

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
