"""Shuffled reports: one unit's report among clones, that is reports of others that might as well have been its own.

Above, for any epsilon0-DP reports: a unit reports 0 with odds of e^epsilon0 to 1, or 1 with those odds, among C ~ Bin(n
- 1, 2 / (e^epsilon0 + 1)) fair coins. Below, the same for an epsilon0-DP mechanism with three answers, or two. Of N
reports in {0, 1} with a zeros and b ones, P has (e^epsilon0 a + b) / (a + e^epsilon0 b) times the mass of Q.
docs/accounting/shuffling.md has the proof.

The number of coins is revealed within a bucket: with fewer coins above, with more (added) coins below.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from epsilog.numerics.distributions.base import Array, BasePair, DiscretePair
from epsilog.numerics.pairs import LONGEST, NEAREST, clamp_to_doubles, pure, use_exact_pair
from epsilog.numerics.rounding import ELEMENTARY, RATIO, gamma, round_down, round_up

MOST_UNITS = 10**9
"""The number of units beyond which the bounds do not improve above, and answers are ignored below."""

_NATS = 138.0  # a tail that is cut off has at most e^-138
_TAILS = 1e-58  # of all of them together, under P and under Q
_SEVERAL = math.sqrt(3) - 1  # odds from which on three answers tell more than two
_LEAST_SEEN = 1e-300  # its multiples are in double range; below, a bucket is left out
_MOST_COUNTS = 20_000  # with differences summed one by one
_FAINTEST = 1e-40  # of a probability; relative to it the truncation is below one rounding
_STEP = 0.004  # of a bucket, as a part of the coins in it
_MOST_ATOMS = 300_000
_MOST_BUCKETS = 3_000
_BESIDE = 6  # roundings of the number of other reports: a difference, a quotient, two sums and a product


def build_clone_pair(epsilon: float, units: int, *, categories: int = 2) -> DiscretePair:
    """Return the pair that dominates ``units`` shuffled reports of any epsilon-DP randomizer.

    Further ``categories`` of randomized response only hide more.

    >>> build_clone_pair(1.0, 1).finite_range()  # one report hides among none
    (-1.0, 1.0)
    """
    odds = round_up(math.expm1(epsilon), 2 * ELEMENTARY)  # more of it loses no less, so it is taken as exact
    return _clones(odds, categories, min(units, MOST_UNITS), epsilon)


def build_attained_pair(epsilon: float, units: int) -> DiscretePair | None:
    """A pair that an epsilon-DP randomizer attains; None of too many units.

    It has three answers: the true one differs, the others are equally likely, and all other units hold the third. If
    epsilon is small it has two, and the others' report is a fair coin between them.
    """
    if units > MOST_UNITS:
        return None
    odds = round_down(math.expm1(epsilon), 2 * ELEMENTARY)
    if odds > _SEVERAL:
        return _build_attained_pair(odds, (2 + odds) / (3 + odds), 2 / (3 + odds), units)
    return _build_attained_pair(odds, 1.0, 1.0, units)


def build_shuffled_response_pair(flip: float, categories: int, units: int) -> DiscretePair | None:
    """A pair that shuffled randomized response attains: all others hold a third category, or half of them each."""
    rare = flip / categories
    if units > MOST_UNITS or not 1e-100 < rare < (1 - flip) * 1e100:
        return None
    if categories == 2:
        return _build_balanced_pair(flip, units)
    return _build_attained_pair((1 - flip) / rare, (1 - flip) + 2 * rare, 2 * rare, units)


class _Buckets(NamedTuple):
    """How many coins there are: the least and the most in each bucket, and its mass."""

    low: Array  # shape (k,)
    high: Array  # shape (k,)
    mass: Array  # shape (k,); all except the tails, so a lower bound for each
    further: Array  # the mass of one coin more, shape (k,)
    least: float  # the mass of none
    roundings: float  # in a mass


@lru_cache(maxsize=16)
def _clones(odds: float, categories: int, units: int, largest: float) -> DiscretePair:
    """Return the pair of blankets, which reveals in buckets how many other reports could be the unit's.

    Of B reports in the blanket, its own among them, N are 0 or 1. Its own is among these with the odds (2 + ``odds``) N
    to 2 (B - N). Of neither count does a smaller one lose less; of two counts in a bucket the lower is taken for the
    coins, and the higher for the odds.
    """
    step, parts = _STEP, []
    while True:
        blankets = _coins(units - 1, categories / (categories + odds), categories / odds, step)
        inner = [_coins(int(low), 2 / categories, _over(2, categories - 2), step) for low in blankets.low]
        atoms = sum(float(np.sum(2 * np.sqrt(_NATS / 2 * (one.low + 1)) + 2)) for one in inner)
        if (atoms <= _MOST_ATOMS and sum(len(one.low) for one in inner) <= _MOST_BUCKETS) or step >= 1:
            break
        step *= 1.5
    own, roundings = (2 + odds) / (categories + odds), 0.0
    for others, blanket_mass, coins in zip(blankets.low, blankets.mass, inner, strict=True):
        weights = float(blanket_mass) * (own * coins.mass + (1 - own) * coins.further)
        for low, high, weight in zip(coins.low, coins.high, weights, strict=True):
            size = int(low) + 1
            a, share, lost = _halves(size)
            b = size - a
            decoys = max(
                round_down(size * (1 + (others - high) / (high + 1)), _BESIDE), float(size)
            )  # less of it loses no less
            u = np.log1p(odds * (a - b) / (decoys + odds * b))
            share = float(weight) / (decoys + odds * size / 2) * share
            parts.append((u, share * (decoys + odds * a), share * (decoys + odds * b)))
            roundings = max(roundings, blankets.roundings + coins.roundings + lost)
        none = float(blanket_mass) * (1 - own) * float(coins.least)
        parts.append((np.zeros(1), np.full(1, none), np.full(1, none)))
    return _atoms(parts, roundings + 64, largest=largest, tails=_TAILS)


def _over(one: float, other: float) -> float:
    return one / other if other else math.inf


@lru_cache(maxsize=16)
def _build_attained_pair(odds: float, own: float, coin: float, units: int) -> DiscretePair | None:
    """A unit answers 0 or 1 with the chance ``own``, with odds of 1 + ``odds`` for the truth, others with ``coin``.

    What is seen is N, how many answered so: c coins and the unit's answer, or c + 1 coins and none of it, c = N - 1.
    """
    buckets = _coins(units - 1, coin, coin / (1 - coin) if coin < 1 else math.inf, _STEP)
    if float(np.sum(2 * np.sqrt(_NATS / 2 * (buckets.high + 1)) + 2)) > 4 * _MOST_ATOMS:
        return None
    parts, roundings = [], 0.0
    for coins, mass, further in zip(buckets.high, buckets.mass, buckets.further, strict=True):
        size = int(coins) + 1
        a, share, lost = _halves(size)
        b = size - a
        seen, unseen = float(mass) * own / size / (1 + odds / 2), float(further) * (1 - own)
        if seen < _LEAST_SEEN:
            continue
        weight = (1 - _TAILS) * share
        p, q = seen * (size + odds * a) + unseen, seen * (size + odds * b) + unseen
        u = np.log1p(seen * odds * (a - b) / q)
        parts.append((u, weight * p, weight * q))
        roundings = max(roundings, buckets.roundings + lost)
    return _atoms(parts, roundings + 64, largest=None, tails=0.0) if parts else None


@lru_cache(maxsize=16)
def _build_balanced_pair(flip: float, units: int) -> DiscretePair | None:
    """Two categories: as many of the others hold one as the other, with one made up where their number is odd.

    Then X - Y of two equal binomial counts is the number of answers above half. z_k is the probability of k more, or of
    k fewer. Next to it an answer has P ((1 - r) z_k + r z_(k+1)) against Q the other way round, r = flip / 2.
    """
    rare, half = flip / 2, units // 2
    buckets = _coins(half, rare, rare / (1 - rare), 0.0)
    if len(buckets.mass) > _MOST_COUNTS:
        return None
    z = np.correlate(buckets.mass, buckets.mass, "full")[len(buckets.mass) - 1 :]
    z = np.append(z[z > _FAINTEST], 0.0) if half == 0 else z[z > _FAINTEST]
    near, next_to = z[:-1], z[1:]
    roundings = 2 * buckets.roundings + len(buckets.mass) + 64
    ratio = next_to / near
    u = np.log1p((1 - flip) * (1 - ratio) / (rare + (1 - rare) * ratio))
    u = np.maximum(u - 8 * gamma(roundings), 0.0)
    kept = 1 - _TAILS
    p, q = kept * ((1 - rare) * near + rare * next_to), kept * (rare * near + (1 - rare) * next_to)
    return _atoms([(u, p, q)], roundings, largest=None, tails=0.0)


def _coins(trials: int, chance: float, odds: float, step: float) -> _Buckets:
    """Return the binomial distribution of the others' coins, in buckets, except for tails of e^-138 at either end.

    Chernoff: P[C <= m - t] <= exp(-t^2 / 2m), P[C >= m + t] <= exp(-t^2 / (2m + 2t/3)), m the mean.
    """
    if trials == 0 or chance == 0:
        return _Buckets(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 1.0, 0.0)
    if math.isinf(odds):
        return _Buckets(np.full(1, trials), np.full(1, trials), np.ones(1), np.zeros(1), 0.0, 0.0)
    mean = trials * chance
    low = max(0, math.floor(mean - math.sqrt(2 * _NATS * mean)))
    high = min(trials, math.ceil(mean + _NATS / 3 + math.sqrt(_NATS**2 / 9 + 2 * _NATS * mean)))
    middle = min(max(math.floor(mean), low), high)
    rising = np.arange(middle, high, dtype=np.float64)  # from each count to the next
    falling = np.arange(middle, low, -1, dtype=np.float64)  # to the one before
    after = np.cumprod((trials - rising) / (rising + 1) * odds)
    before = np.cumprod(falling / (trials - falling + 1) / odds)
    mass = np.concatenate((before[::-1], [1.0], after))
    mass /= mass.sum()
    starts = [low]
    while (following := starts[-1] + max(1, int(step * starts[-1]))) <= high:
        starts.append(following)
    lows = np.array(starts, dtype=np.float64)
    highs = np.append(lows[1:] - 1, high)
    at = np.array(starts) - low
    further = np.add.reduceat(np.append(mass[1:], _TAILS), at)
    least = float(mass[0]) if low == 0 else 0.0
    return _Buckets(lows, highs, np.add.reduceat(mass, at), further, least, 12.0 * len(mass) + 16)


@lru_cache(maxsize=128)
def _halves(size: int) -> tuple[Array, Array, float]:
    """Return the binomial distribution of ``size`` fair coins from the middle up: counts, probabilities, roundings.

    Of what is cut off, at most 2 e^-138, all is added to the rest (Hoeffding: t^2 = 69 ``size``).
    """
    start = -(-size // 2)
    stop = min(size, math.floor(size / 2 + math.sqrt(_NATS / 2 * size)))
    a = np.arange(start, stop + 1, dtype=np.float64)
    share = np.concatenate(([1.0], np.cumprod((size - a[:-1]) / (a[:-1] + 1))))
    total = 2 * share.sum() - (1.0 if 2 * start == size else 0.0)
    return a, share / total, 5.0 * len(a) + 8


def _atoms(
    parts: list[tuple[Array, Array, Array]], roundings: float, *, largest: float | None, tails: float
) -> DiscretePair:
    """Merge both halves of symmetric distributions, given by losses from 0 on with masses under P and Q.

    Above (where ``largest`` is) what was cut off gives away as much as there is. Below, losses are made smaller by more
    than their roundings.
    """
    u, p, q = (np.concatenate(side) for side in zip(*parts, strict=True))
    error = gamma(roundings)
    if largest is None:
        u = u * (1 - 8 * error)
    else:
        u = np.minimum(u, largest)
        u, p, q = (np.append(one, end) for one, end in ((u, largest), (p, tails), (q, tails * math.exp(-largest))))
    away = u > 0
    u, p = np.concatenate((-u[away], u)), np.concatenate((q[away], p))
    order = np.argsort(u, kind="stable")
    far = float(np.abs(u).max())
    return DiscretePair(u[order], p[order], relative_error=(1 + far) * 16 * error + gamma(64 + 16 * far))


class Reports(NamedTuple):
    """What is known of reports beyond their largest loss."""

    pair: DiscretePair | None = None  # what is attained by all of them, shuffled; None out of reach
    least: float = 0.0  # a loss that one of them attains
    categories: int = 2  # how many answers there are


def of_statement(epsilon: float, units: int) -> Reports:
    """Reports of a randomizer of three answers, or two, that satisfies the statement."""
    return Reports(build_attained_pair(min(epsilon, LONGEST), units), epsilon) if epsilon > NEAREST else Reports()


def of_responses(flip: float, categories: int, units: int, *, largest: float) -> Reports:
    """Randomized responses, by their largest loss."""
    return Reports(build_shuffled_response_pair(flip, categories, units), round_down(largest, 2 * RATIO), categories)


def build_shuffled_pairs(epsilon: float, units: int, reports: Reports) -> tuple[BasePair, BasePair]:
    """Reports of this many units that lose at most ``epsilon`` each."""
    if epsilon == 0:
        return use_exact_pair(pure(0.0, 0.0))
    above, _ = clamp_to_doubles(
        lambda at: build_clone_pair(at, units, categories=reports.categories), epsilon, (0.0, epsilon)
    )
    if reports.pair is None:
        return above, pure(0.0, 0.0)
    return above, replace(reports.pair, stated=(reports.least, epsilon))
