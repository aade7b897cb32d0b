"""Detect reused noise. Independent continuous values never repeat, even up to sign, except by rounding.

Let each rounding cell have probability at most p. Given all earlier values, the i-th value repeats one of them with
probability at most (i - 1) p. Chernoff's bound for a sum of such indicators bounds the probability of the observed
number of repeats. A round of k values repeats another, in any order, with probability at most k! p^k.
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

BEYOND = 1e150  # larger values are not noise, and their squares overflow
SAME = 1e-12  # relative rounding error of a change of units
SINGLE, DOUBLE = 2.0**-23, 2.0**-52
SHORT_TYPES = (8, 11, 24)  # significant bits of bfloat16, half and single precision
TRIED = 17  # values to test by their ratios
REMAINDERS = (2.0**-21, 2.0**-44)  # rounding errors relative to the largest value, in single precision and in doubles
FULL = 15  # independent values with this many significant digits never agree


@dataclass(frozen=True, slots=True)
class PaddingRound:
    """A round with noise on coordinates with true sum 0.

    Attributes:
        round: 1, 2, ...
        padding: the noise, in one unit for all rounds.
    """

    round: int
    padding: tuple[float, ...]

    @classmethod
    def from_values(cls, number: int, padding: Iterable[float], scale: float) -> PaddingRound:
        """Return padding in another unit, limited to finite doubles."""
        return cls(number, tuple(clamp(value * scale) for value in padding))


def clamp(value: float) -> float:
    """Return the nearest finite double."""
    return max(-sys.float_info.max, min(value, sys.float_info.max))


def check_noise_reuse(
    rounds: Sequence[PaddingRound], planned: float, digits: int, false_alarm_rate: float
) -> Finding | None:
    """Return a finding if noise was reused or the digits cannot exclude it; None otherwise.

    Args:
        rounds: with their padding, in one unit.
        planned: the claimed standard deviation; 0 for none.
        digits: the number of logged significant digits.
        false_alarm_rate: largest probability of rejecting independent noise, in (0, 1).
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
        message = f"{repeats} of {values.size} noise values repeat earlier ones, up to sign"
        message += f", and round {pair[1]} repeats round {pair[0]}" if pair else ""
        message += ". Reused noise gives no privacy."
        return Finding("noise/reused", Status.FAILED, message, numbers, false_alarm_rate=false_alarm_rate)
    doubtful = _chance(values.size, repeats, fine) < false_alarm_rate
    expected = values.size * (values.size - 1) / 2 * coarse
    seen = _chance(values.size, math.ceil(expected) + smallest, coarse) < false_alarm_rate / 2
    seen |= _compute_run_probability(len(rounds), smallest, coarse) < false_alarm_rate / 2
    if doubtful or not seen:
        message = f"{repeats} of {values.size} noise values repeat earlier ones. The logs have too few digits to "
        message += "distinguish reuse from rounding."
        return Finding("noise/not-checked", Status.NOT_CHECKED, message, numbers, missing_evidence="padding")
    return None


def count_significant_digits(values: Numbers) -> int:
    """Return the largest number of digits of a value: 17 for full doubles, fewer if all are of a shorter type."""
    most, bits = _most_written(values), _bits(values)
    if bits < 24:
        return min(most, max(1, math.floor(1 + (bits - 1) * math.log10(2))))
    if most <= 5 and _spelt(values, np.float16):
        return min(4, most)
    return min(8, most) if bits == 24 or (most == 9 and _spelt(values, np.float32)) else most


def _bits(values: Numbers) -> int:
    """Return the significant bits of the values' type; at least 24 if all are integer multiples of one number."""
    mantissas, exponents = np.frexp(np.abs(values[values != 0]))
    if not mantissas.size:
        return 24
    whole = (mantissas * 2.0**53).astype(np.int64)
    unused = np.log2(whole & -whole).astype(np.int64)
    bits = 53 - int(unused.min())
    multiples = int(exponents.max()) - int((exponents - 53 + unused).min()) <= bits + 2
    return max(bits, 24) if multiples else min(bits, _bits_before_a_unit(np.unique(mantissas)))


def _bits_before_a_unit(mantissas: Numbers) -> int:
    """Return the significant bits of the values' type before one factor scaled them to doubles; 53 if none fits.

    The ratio of two numbers of p bits is k / l 2^e with l < 2^p. Few doubles are this close to such a ratio: 16
    arbitrary ones all are with probability below 2^-32.
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
    """Return whether each value is the shortest decimal form of a number of a type."""
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
    """Bound the probability of a rounding cell: its width times the density of the absolute value at 0."""
    spread = math.sqrt(float(np.mean(np.square(values))))
    spread = min(spread, planned) if planned else spread
    width = max(step * float(values.max()), _power_of_two(values), *(_grid(values, share) for share in REMAINDERS))
    return min(1.0, math.sqrt(2 / math.pi) * width / spread) if spread > 0 else 1.0


def _power_of_two(values: Numbers) -> float:
    """Return the largest power of two that divides all values."""
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64)
    return float(np.ldexp((whole & -whole).astype(np.float64), exponents - 53).min())


def _grid(values: Numbers, share: float) -> float:
    """Return the approximate common divisor of all values, up to rounding; 0 if it is too small.

    It applies Euclid's algorithm to the values and to their gaps, in increasing order. Each value refines the divisor,
    larger values more precisely, so that errors do not accumulate.
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
    """Return the common divisor of two values, up to remainders of ``least``."""
    while one > least:
        rest = abs(math.remainder(other, one))
        one, other = rest, one
    return other


def _chance(count: int, repeats: int, cell: float) -> float:
    """Bound the probability of at least ``repeats`` repeats (Chernoff)."""
    expected = count * (count - 1) / 2 * cell
    if repeats <= expected:
        return 1.0
    return math.exp(min(0.0, repeats - expected + repeats * math.log(expected / repeats))) if expected > 0 else 0.0


def _compute_run_probability(rounds: int, values: int, cell: float) -> float:
    """Bound the probability that a round repeats another one, in any order."""
    log_bound = math.log(max(rounds * (rounds - 1) / 2, 1)) + math.lgamma(values + 1) + values * math.log(cell)
    return math.exp(min(0.0, log_bound))


def _twins(rounds: Sequence[PaddingRound]) -> tuple[int, int, int] | None:
    """Return two rounds with the same values, up to sign and order, and the number of values."""
    seen: dict[tuple[float, ...], int] = {}
    for one in rounds:
        values = tuple(sorted(float(f"{abs(value):.12g}") for value in one.padding))
        if any(values):
            if values in seen:
                return seen[values], one.round, len(values)
            seen[values] = one.round
    return None
