"""From which frequency on a composed characteristic function is proven to be small: docs/accounting/spectral.md, 4.

sqrt(1 - |phi|^2) is subadditive in the frequency and at most spread * w: so what is known at one frequency holds, a
little less, on both sides of it; far out the parts' own decay takes over. Points are laid over the whole range, and
more of them where what they prove leaves gaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from epsilog.accounting.inversion.characteristic import Characteristic, OutOfReachError, TiltedLaw
from epsilog.accounting.inversion.sampled import TiltedSampled
from epsilog.numerics.laws.base import Array
from epsilog.numerics.rounding import BOUND, TINY, down, gamma

Laws = Sequence[tuple[TiltedLaw, int]]

_MOST_PASSES = 40
_MOST_EFFORT = 1_500_000  # terms of all sums of a scan; more where there are many laws
_EFFORT_OF_ONE = 40_000  # terms of the sums of each law
_FARTHEST = 1e7
_NEAREST = np.array([1.0, 1.15, 1.35, 1.7, 2.3, 3.2, 4.6])  # over the first frequency; then each twice the one before
_STEP, _TRIED = 1.4, 12  # a factor from one frequency that is tried to the next; how many at once
_ENOUGH = 1.2, 1.03  # how far, as a factor, the answer may be above what is seen to be too low; where the sum is long
_LONG = 1 / 16  # of the longest
_OCTAVES = 5  # that share the nodes of their sums
_STRIDE, _MOST_STRIDES = 1.3, 64  # over one by a spread
_ACCURACY = 5.0  # in nats
_CRAWL = 0.002  # of a frequency: what holds no farther than this is of no use
_MOST_INTO = 24  # points at once into one gap


def small_from(laws: Laws, nats: float, *, first: float, most: float) -> float:
    """The frequency, ``first`` or above and up to ``most``, from which on the modulus is proven to be at most e^-nats.

    Raises:
        OutOfReachError: there is none, or it takes too long to find.
    """
    plain = [(law, count) for law, count in laws if not isinstance(law, TiltedSampled)]
    if plain and _decayed(plain, np.array([1.5 * first]), nats)[0]:
        return 1.5 * first
    spread = math.sqrt(sum(count * law.spread**2 for law, count in laws) / sum(count for _, count in laws))
    far = _decayed_from(laws, first, nats)
    new = _laid(first, far, _STRIDE / spread)
    where, reach, effort, safe = np.zeros(0), np.zeros(0), 0, far
    most_effort = max(_MOST_EFFORT, _EFFORT_OF_ONE * len(laws))
    for _ in range(_MOST_PASSES):
        for octaves in _apart(new):
            found, terms = _covered(laws, octaves, nats)
            useful = np.where(found >= _CRAWL * octaves, found, 0.0)  # what is no number is of no use either
            where, reach, effort = np.append(where, octaves), np.append(reach, useful), effort + terms
        order = np.argsort(where)
        where, reach = where[order], reach[order]
        gaps = np.flatnonzero(where[1:] - reach[1:] > where[:-1] + reach[:-1])
        low = int(np.max(np.flatnonzero(reach[:-1] == 0), initial=-1))  # the last place with too little
        begin = max(int(np.max(gaps, initial=-1)), low) + 1  # from there on there is no gap
        safe = float(where[begin] - reach[begin]) if begin else first
        too_low = float(where[low]) if low >= 0 else first
        if safe <= _ENOUGH[safe > _LONG * most] * too_low or too_low > most or effort > most_effort:
            break
        new = np.concatenate([_into(where, reach, at) for at in gaps[gaps >= low]])
    if not safe <= most:
        raise OutOfReachError("the characteristic function falls too slowly")
    return max(safe, first)


def _laid(first: float, far: float, stride: float) -> Array:
    """Frequencies to look at first: close where the modulus is about to be small enough, then each twice the last.

    No frequency holds for farther than one over a spread, to either side: later they lie a ``stride`` apart.
    """
    doubled = first * np.append(_NEAREST, _NEAREST[-1] * 2.0 ** np.arange(1, 24))
    doubled = doubled[: int(np.argmax(np.diff(doubled, append=math.inf) > stride)) + 1]
    stride = max(stride, (far - doubled[-1]) / _MOST_STRIDES)
    points = np.append(doubled, np.arange(doubled[-1] + stride, far, stride))
    return np.append(points[points < far], far)


def _apart(points: Array) -> list[Array]:
    """Ascending frequencies in groups of a few octaves: a sum takes as many nodes as its largest frequency needs."""
    octave = np.log2(points / points[0]) // _OCTAVES
    return np.split(points, np.flatnonzero(np.diff(octave)) + 1)


def _into(where: Array, reach: Array, at: int) -> Array:
    """Frequencies to look at in the gap after a place."""
    low, high = float(where[at] + reach[at]), float(where[at + 1] - reach[at + 1])
    if reach[at] == 0:  # the answer is in here
        return np.geomspace(low, high, 5)[1:-1]
    count = min(math.ceil(1.1 * (high - low) / float(reach[at] + reach[at + 1])), _MOST_INTO)
    return np.linspace(low, high, count + 2)[1:-1]


def _decayed_from(laws: Laws, first: float, nats: float) -> float:
    """A frequency from which on the parts' own decay is enough."""
    for start in first * _STEP ** np.arange(0.0, math.log(_FARTHEST, _STEP), _TRIED):
        tried = start * _STEP ** np.arange(float(_TRIED))
        enough = np.flatnonzero(_decayed(laws, tried, nats))
        if len(enough):
            return float(tried[enough[0]])
    raise OutOfReachError("the characteristic function is not known to fall")


def _decayed(laws: Laws, frequency: Array, nats: float) -> Array:
    """Whether the parts' own decay is enough from each frequency on; shape (k,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(sum(count * np.log(law.decay(frequency)) for law, count in laws) <= -nats * (1 + BOUND))


def _covered(laws: Laws, points: Array, nats: float) -> tuple[Array, int]:
    """How far to either side of each point the composed modulus is at most e^-nats, 0 where it is not; and terms."""
    counts = np.array([count for _, count in laws], dtype=np.float64)
    spreads = np.array([law.spread for law, _ in laws])
    accuracy = _ACCURACY - math.log(min(nats / counts.sum(), 1.0))  # beside what one round has to lose
    known = [law.characteristic(points, accuracy) for law, _ in laws]
    rises, terms = np.stack([_rise(one) for one in known], axis=1), sum(one.terms for one in known)
    if len(counts) == 1:
        needed = math.sqrt(-math.expm1(-2 * nats * (1 + BOUND) / counts[0]))
        return np.asarray(np.maximum(rises[:, 0] - needed, 0.0) / max(spreads[0], TINY)), terms

    def enough(gap: Array) -> Array:
        left = np.maximum(rises - gap[:, None] * spreads, 0.0)
        lost = -0.5 * np.log1p(-np.minimum(left * left, 1 - 1e-15)) @ counts
        return np.asarray(lost >= nats * (1 + BOUND))

    low, high = np.zeros(len(points)), np.max(rises / np.maximum(spreads, TINY), axis=1)
    for _ in range(12):
        middle = (low + high) / 2
        holds = enough(middle)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return low, terms


def _rise(characteristic: Characteristic) -> Array:
    """Bounds sqrt(1 - |phi|^2) from below."""
    size = np.abs(characteristic.less_one)
    fall = down(-2 * characteristic.less_one.real - size * size, 14)
    return np.asarray(
        np.sqrt(np.maximum(fall - gamma(8.0) * size - 2.1 * characteristic.error - characteristic.error**2, 0.0))
    )
