"""How likely lists of clients are under the sampler that was planned: bounds that hold for every size, from above."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtr, chdtrc, chdtri, rel_entr

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

MOST_PAIRS = 2_000  # all pairs of up to 63 cohorts; of more, so many and a few for each cohort
TILTS = np.concatenate([-(2.0 ** np.arange(-8, 4)), 2.0 ** np.arange(-8, 4)])


def choose_pairs(count: int) -> Sequence[tuple[int, int]]:
    """Pairs one < other below ``count``: all of them, or of many every neighbor, every lag from the first, and others.

    The others are drawn under a public seed, so that everybody tests the same.

    >>> choose_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    if count * (count - 1) // 2 <= MOST_PAIRS:
        return [(one, other) for one in range(count) for other in range(one + 1, count)]
    drawn = np.sort(np.random.default_rng(count).integers(0, count, (MOST_PAIRS, 2)), axis=1).tolist()
    neighbors, from_first = ((one, one + 1) for one in range(count - 1)), ((0, other) for other in range(1, count))
    return sorted({*neighbors, *from_first, *((one, other) for one, other in drawn if one < other)})


def list_public_classes(clients: int, classes: int) -> Iterator[Ids]:
    """Classes that everybody knows without any draw: clients in turn, and in blocks by their order; or two."""
    every = np.arange(clients)
    for many in sorted({2, classes}):
        yield every % many
        yield every * many // clients


def bound_excess(seen: Ids, trials: Ids | int, probability: float) -> Numbers:
    """Bounds the chance of so many, each count by itself (Hoeffding 1963, Theorem 1).

    It holds for hypergeometric counts as for binomial ones (his Theorem 4).
    """
    share = seen / np.maximum(trials, 1)
    apart = rel_entr(share, probability) + rel_entr(1 - share, 1 - probability)
    return np.asarray(np.where(share > probability, np.exp(-trials * apart), 1.0))


def bound_misfit(seen: Ids, trials: Ids | int, probability: float) -> Numbers:
    """Bounds the chance of a count so far off on its side, twice."""
    one, other = bound_excess(seen, trials, probability), bound_excess(trials - seen, trials, 1 - probability)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(one, other)))


def compute_two_sided_p_value(count: Ids, trials: Ids | int, probability: Numbers | float) -> Numbers:
    """Twice the smaller tail of Binomial(trials, probability) at ``count``, at most 1."""
    possible = np.minimum(count, trials)  # more than all have no chance at all, and the tails no answer
    above = np.where(count > 0, bdtrc(np.maximum(possible, 1) - 1, trials, probability), 1.0)
    both = np.minimum(1.0, 2 * np.minimum(bdtr(possible, trials, probability), above))
    return np.asarray(np.where(count > trials, 0.0, both))


def bound_dispersion(counts: Ids, trials: Ids, probability: Numbers) -> float:
    """Bounds the chance that binomial counts, each given those before it, lie so near their means or so far off, twice.

    Each chance of lying no farther off than seen is at least uniform, so the chi-square value with that chance is at
    least chi-square with one degree of freedom, and their sum with as many as there are; from the other side likewise.
    A count is left out where its farthest values are likely: they would say that all is well.
    """
    told = (probability > 0) & (probability < 1)
    told &= np.minimum(probability, 1 - probability) ** trials < 0.01
    if not told.any():
        return 1.0
    n, m, p = counts[told], trials[told], probability[told]
    low, high = np.minimum(n, 2 * m * p - n), np.maximum(n, 2 * m * p - n)
    below = np.maximum(np.ceil(low - 1e-9), 0)  # the first and the last that lie no farther off
    above = np.minimum(np.floor(high + 1e-9), m)
    outside = np.where(below > 0, bdtr(np.maximum(below, 1) - 1, m, p), 0) + np.where(above < m, bdtrc(above, m, p), 0)
    even = chdtr(n.size, chdtri(1, np.minimum(outside, 1.0)).sum())
    uneven = chdtrc(n.size, chdtri(1, compute_two_sided_p_value(n, m, p)).sum())
    return min(1.0, 2 * float(min(even, uneven)))


def bound_total_shift(seen: Ids, trials: Ids | int, probability: Numbers | float) -> float:
    """Bounds the chance that counts, binomial or hypergeometric given those before, add up to so much or little.

    exp(t sum(seen) - sum(trials log(1 + p (e^t - 1)))) has a mean of at most 1 for every t, so by Markov it passes 1/x
    at most with chance x; over 24 values of t together.
    """
    logs = [t * seen.sum() - (trials * np.log1p(probability * np.expm1(t)) + 0 * seen).sum() for t in TILTS]
    return min(1.0, TILTS.size * math.exp(-max(logs)))


def count_remaining_in_cycle(sizes: Ids, clients: int, length: int) -> tuple[Ids, Ids]:
    """Who is left to be drawn before each round of a cycle, of ``clients``; and how many rounds are left."""
    return clients - np.concatenate([[0], np.cumsum(sizes)[:-1]]), length - np.arange(sizes.size)


def count_early_returns(cohorts: Sequence[Ids], clients: int, probability: float) -> tuple[Ids, Ids]:
    """How many of each cohort had come oftener than is usual by then, and how many clients had.

    Where everybody comes once before anybody comes again, nobody of them ever does.
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
    """How many clients two cohorts have in common, for ``choose_pairs`` of them."""
    found, here, last = {}, np.zeros(clients, dtype=bool), -1
    for one, other in choose_pairs(len(cohorts)):
        if one != last:
            here[:], last = False, one
            here[cohorts[one]] = True
        found[one, other] = int(here[cohorts[other]].sum())
    return found
