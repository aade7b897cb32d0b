"""Was noise used twice? Continuous values do not come again, up to their sign, but for how they were rounded.

With n values in cells that each hold one with chance p at most, a value repeats an earlier one with chance at most
(i - 1) p, whatever came before, so that repeats are no more than a sum of such coins: Chernoff's bound on its tail is
how likely so many are. A round that is another's, in any order, has chance k! p^k.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from epsilog.terms import Finding, Status
from epsilog.verification.sampler_tests import Numbers

BEYOND = 1e150  # no noise; its square would be no number
SAME = 1e-12  # relatively: how far a value may move in a change of units
SINGLE, DOUBLE = 2.0**-23, 2.0**-52
SHORT_TYPES = (8, 11, 24)  # significant bits of bfloat16, half and single precision
TRIED = 17  # values that are compared with one of them
REMAINDERS = (2.0**-21, 2.0**-44)  # of the largest value: what rounding may leave, in single precision and in doubles
UNSURE = "noise/not-checked"
FULL = 15  # significant digits from which on two values that were drawn anew are never alike


@dataclass(frozen=True, slots=True)
class PaddingRound:
    """A round with noise on sums that are truly 0.

    Attributes:
        round: 1, 2, ...
        padding: the noise, in one unit for all rounds.
    """

    round: int
    padding: tuple[float, ...]

    @classmethod
    def scaled(cls, number: int, padding: Iterable[float], scale: float) -> PaddingRound:
        """Return padding in another unit; what passes all doubles becomes the largest."""
        return cls(number, tuple(clamp(value * scale) for value in padding))


def clamp(value: float) -> float:
    """Return the nearest finite double."""
    return max(-sys.float_info.max, min(value, sys.float_info.max))


def check_noise_reuse(
    rounds: Sequence[PaddingRound], planned: float, digits: int, false_alarm_rate: float
) -> Finding | None:
    """A finding where noise comes again, or where it cannot be told; None where none does.

    Args:
        rounds: with their padding, in one unit.
        planned: standard deviation as claimed; 0 if none was.
        digits: how many significant ones were logged.
        false_alarm_rate: how often noise that was drawn anew may be rejected, in (0, 1).
    """
    values = np.abs(np.array([value for one in rounds for value in one.padding if value and abs(value) < BEYOND]))
    ordered = np.sort(values)
    repeats = int((np.diff(ordered) <= SAME * ordered[1:]).sum()) if values.size else 0
    if not repeats:
        return None
    coarse, fine = (_cell(values, planned, max(10.0 ** (1 - digits), step)) for step in (SINGLE, DOUBLE))
    pair = _twins(rounds)
    smallest = min(len(one.padding) for one in rounds if any(one.padding))
    numbers = (("values", float(values.size)), ("repeats", float(repeats)))
    rejected = _chance(values.size, repeats, coarse) < false_alarm_rate / 2
    if rejected or (pair is not None and _compute_run_probability(len(rounds), pair[2], coarse) < false_alarm_rate / 2):
        says = f"{repeats} of {values.size} values of noise were there before, up to their sign"
        says += f", and round {pair[1]} has those of round {pair[0]}" if pair else ""
        says += ": noise that is used twice hides nothing."
        return Finding("noise/reused", Status.FAILED, says, numbers, false_alarm_rate=false_alarm_rate)
    doubtful = _chance(values.size, repeats, fine) < false_alarm_rate
    expected = values.size * (values.size - 1) / 2 * coarse
    seen = _chance(values.size, math.ceil(expected) + smallest, coarse) < false_alarm_rate / 2
    seen |= _compute_run_probability(len(rounds), smallest, coarse) < false_alarm_rate / 2
    if doubtful or not seen:
        says = f"{repeats} of {values.size} values of noise were there before, and were logged in too few digits to "
        says += "tell whether noise was used twice."
        return Finding(UNSURE, Status.NOT_CHECKED, says, numbers, missing_evidence="padding")
    return None


def count_significant_digits(values: Numbers) -> int:
    """The most that any value has: 17 as soon as one is written out in full, fewer where all are of a shorter type."""
    most, bits = _most_written(values), _bits(values)
    if bits < 24:
        return min(most, max(1, math.floor(1 + (bits - 1) * math.log10(2))))
    if most <= 5 and _spelt(values, np.float16):
        return min(4, most)
    return min(8, most) if bits == 24 or (most == 9 and _spelt(values, np.float32)) else most


def _bits(values: Numbers) -> int:
    """Significant bits of the type of all values; of whole multiples of one number, 24 at least."""
    mantissas, exponents = np.frexp(np.abs(values[values != 0]))
    if not mantissas.size:
        return 24
    whole = (mantissas * 2.0**53).astype(np.int64)
    unused = np.log2(whole & -whole).astype(np.int64)
    bits = 53 - int(unused.min())
    multiples = int(exponents.max()) - int((exponents - 53 + unused).min()) <= bits + 2
    return max(bits, 24) if multiples else min(bits, _bits_before_a_unit(np.unique(mantissas)))


def _bits_before_a_unit(mantissas: Numbers) -> int:
    """Significant bits of the type of all values before one factor turned them into doubles; 53 if there was none.

    The ratio of two numbers of p bits is k / l 2^e with l < 2^p. Few doubles are so near to one: of 16 that are not of
    such a type, all with a chance below 2^-32.
    """
    tried = mantissas[:: max(1, mantissas.size // TRIED)][:TRIED].tolist()
    if len(tried) < TRIED:
        return 53
    ratios = [Fraction(one) / Fraction(tried[0]) for one in tried[1:]]
    for bits in SHORT_TYPES:
        nearest = [ratio.limit_denominator(2**bits) for ratio in ratios]
        if all(abs(near - ratio) <= 2 * DOUBLE * ratio for near, ratio in zip(nearest, ratios, strict=True)):
            return bits
    return 53


def _spelt(values: Numbers, kind: type[np.floating[Any]]) -> bool:
    """Whether each is the shortest way to write a number of a type."""
    with np.errstate(over="ignore"):
        short = values.astype(kind)
    return all(float(str(one)) == value for one, value in zip(short, values.tolist(), strict=True))


def _most_written(values: Numbers) -> int:
    most = 1
    for value in values.tolist():
        written = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
        most = max(most, len(written))
        if most >= 15:
            return 17
    return most


def _cell(values: Numbers, planned: float, step: float) -> float:
    """The chance of the likeliest cell: its width by the density of the absolute value at 0."""
    spread = math.sqrt(float(np.mean(np.square(values))))
    spread = min(spread, planned) if planned else spread
    width = max(step * float(values.max()), _power_of_two(values), *(_grid(values, share) for share in REMAINDERS))
    return min(1.0, math.sqrt(2 / math.pi) * width / spread) if spread > 0 else 1.0


def _power_of_two(values: Numbers) -> float:
    """The largest power of two that all values are whole multiples of."""
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64)
    return float(np.ldexp((whole & -whole).astype(np.float64), exponents - 53).min())


def _grid(values: Numbers, share: float) -> float:
    """What all values are whole multiples of, but for how they were rounded; 0 where that is nothing much.

    Euclid's algorithm on the gaps between them and on themselves, from the smallest up: what was found is worked out
    anew from each, which is the surer the larger that is, so that errors do not grow.
    """
    values = np.unique(values)
    if values.size < 2:
        return 0.0
    gaps = np.diff(values, prepend=0.0)
    least = share * float(values.max())
    found = 0.0
    for value in np.sort(np.concatenate([gaps[gaps > least], values[values > least]])).tolist():
        found = _common(found, value, least)
        if found < 3 * least:
            return 0.0
        found = value / round(value / found)
    return found


def _common(one: float, other: float, least: float) -> float:
    """What both are multiples of, but for remainders up to ``least``."""
    while one > least:
        rest = abs(math.remainder(other, one))
        one, other = rest, one
    return other


def _chance(count: int, repeats: int, cell: float) -> float:
    """Of so many repeats, or more, at most."""
    expected = count * (count - 1) / 2 * cell
    if repeats <= expected:
        return 1.0
    return math.exp(min(0.0, repeats - expected + repeats * math.log(expected / repeats))) if expected > 0 else 0.0


def _compute_run_probability(rounds: int, values: int, cell: float) -> float:
    """The chance that some round of so many has another's values, in some order, at most."""
    told = math.log(max(rounds * (rounds - 1) / 2, 1)) + math.lgamma(values + 1) + values * math.log(cell)
    return math.exp(min(0.0, told))


def _twins(rounds: Sequence[PaddingRound]) -> tuple[int, int, int] | None:
    """Two rounds with the same values, up to sign and order, and how many."""
    seen: dict[tuple[float, ...], int] = {}
    for one in rounds:
        values = tuple(sorted(float(f"{abs(value):.12g}") for value in one.padding))
        if any(values):
            if values in seen:
                return seen[values], one.round, len(values)
            seen[values] = one.round
    return None
