"""What the queries answered so far cost together, certified for each way to set their noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from epsilog.accounting import epsilon as bound_epsilon
from epsilog.mechanisms import Composed, Gaussian, Laplace, Repeated
from epsilog.terms import Interval

_MOST_SHARES = 48  # shares with an exact cost; beyond it each group of near-equal shares costs as its largest


@dataclass(frozen=True, slots=True)
class ConsumedBudget:
    """The joint cost of the answered queries, by their noise.

    Attributes:
        split: the bookkeeping of the classic split, the sum of their epsilons; no statement about any other noise, and
            for Gaussian noise at a delta of as many times the plan's.
        classic: certified, at the plan's delta, if they had the classic noise.
        exact: the same if they had the exact noise.
        optimal: the same if they had the optimal noise, which is what the plan recommends.
    """

    split: float
    classic: Interval
    exact: Interval
    optimal: Interval


def count_used_queries(counts: Sequence[int], used: int) -> list[int]:
    """How many of each group the first ``used`` queries are; those beyond the plan are counted to its last group."""
    found, left = [], used
    for count in counts:
        found.append(min(left, count))
        left -= found[-1]
    found[-1] += left
    return found


def compute_consumed_budget(
    mechanism: str,
    delta: float,
    *,
    counts: Sequence[int],
    epsilons: Sequence[float],
    classic: Sequence[float],
    exact: Sequence[float],
    optimal: Sequence[float],
) -> ConsumedBudget:
    """Compute the cost of the used queries under each noise for unit sensitivity; equal noise is computed once."""

    def compute_cost(scales: Sequence[float]) -> Interval:
        if mechanism == "gaussian" or delta == 0:
            used = Counter[float]()
            for scale, count in zip(scales, counts, strict=True):
                used[scale] += count
            groups = [(count, scale) for scale, count in used.items() if count]
        else:
            groups = [
                (n, 1 / share) for n, share in bucket_shares([(n, 1 / b) for n, b in zip(counts, scales, strict=True)])
            ]
        kind = Gaussian if mechanism == "gaussian" else Laplace
        parts = [Repeated(kind(scale), count) for count, scale in groups if math.isfinite(scale)]
        return bound_epsilon(Composed(parts), delta=delta)

    costs = {tuple(scales): compute_cost(scales) for scales in (classic, exact, optimal)}
    split = math.fsum(count * each for count, each in zip(counts, epsilons, strict=True))
    return ConsumedBudget(split, costs[tuple(classic)], costs[tuple(exact)], costs[tuple(optimal)])


def cap_at_total(total: float, found: Interval) -> Interval:
    """A part of a plan costs no more than the plan, which was calibrated to ``total``."""
    return replace(found, lower=min(found.lower, total), upper=min(found.upper, total))


def bucket_shares(groups: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """(count, share) with at most ``_MOST_SHARES`` different shares: near-equal ones become the largest of them.

    A larger share means less noise, so the cost is an upper bound.
    """
    used = [(count, share) for count, share in groups if count]
    different = sorted({share for _, share in used})
    if len(different) > _MOST_SHARES:
        low, width = math.log(different[0]), math.log(different[-1] / different[0]) / _MOST_SHARES
        tops: dict[int, float] = {}
        for share in different:  # rising, so the last of a step is its largest
            tops[min(int((math.log(share) - low) / width), _MOST_SHARES - 1)] = share
        used = [(n, tops[min(int((math.log(share) - low) / width), _MOST_SHARES - 1)]) for n, share in used]
    joined = Counter[float]()
    for count, share in used:
        joined[share] += count
    return [(count, share) for share, count in joined.items()]
