"""Numbers that people type or paste: one grammar, which reads a text in one way or refuses it.

A point is the decimal point. Digits may be grouped in threes by spaces or underscores. A comma is never read, and
neither is a point that may have been meant to group digits, nor a number that begins with a zero too many. The pages
read numbers by a grammar of their own (``web/src/lib/numbers.ts``), which takes commas in whole numbers and refuses
fractions; ``tests/vectors/numerals.json`` holds both to their readings.
"""

from __future__ import annotations

import math
import re
import sys
from fractions import Fraction

from epsilog.terms.errors import CheckError

__all__ = ["read_number", "require_one_reading"]

_GAP = "[ \u00a0\u2009\u202f_]"
_GROUPED = re.compile(rf"([+-]?)([1-9]\d{{0,2}}(?:{_GAP}\d{{3}})+)(\.\d+)?", re.ASCII)
_PLAIN = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)
_POWER = re.compile(
    r"(?:([+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+))[×x*·])?10(?:\^|\*\*)([+-]?\d+)", re.ASCII | re.IGNORECASE
)
_AROUND = re.compile(r"\s*(\*\*|[×x*·^/])\s*")
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(?:\1\d{3})*", re.ASCII)
_TYPED_GROUP = re.compile(r"[+-]?[1-9]\d{0,2}\.\d\d0", re.ASCII)  # a decimal fraction does not need that zero
_RAISED = re.compile("10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")  # a superscript is an exponent of ten, or nothing
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_MINUS = str.maketrans("−–", "--")
_LONGEST = 200  # characters
_EXPONENT = 400  # past every double
_LARGEST, _SMALLEST = Fraction(sys.float_info.max), Fraction(math.ulp(0.0))


def read_number(name: str, text: str, *, integer: bool = False) -> Fraction:
    """Read a number as a person wrote it, exactly: 1e-6, 10^-6, 1.2×10⁻⁶, 1/50000, 0.000001, 50 000.

    Args:
        name: what is read, for the error.
        text: the text.
        integer: whether it must be a whole number, which is written without a point.

    Raises:
        CheckError: the text is no number, or can be read as two: "50.000", "50,000", "2,5".

    >>> read_number("rounds", "50 000", integer=True)
    Fraction(50000, 1)
    >>> read_number("rounds", "50.000", integer=True)
    Traceback (most recent call last):
    epsilog.terms.errors.CheckError: rounds must be written without “.”, which can group digits or begin decimals: \
write 50000 or 50, got '50.000'
    """
    given = text.strip()
    if len(given) > _LONGEST:
        raise CheckError(name, f"a number of at most {_LONGEST} characters", repr(given[:40]))
    spelled = _RAISED.sub(lambda ten: f"10^{ten[1].translate(_SUPERSCRIPT)}", given).translate(_MINUS)
    parts = _AROUND.sub(r"\1", spelled).split("/")
    values = [_part(name, part, given, integer=integer) for part in parts]
    if len(values) > 2 or (len(values) == 2 and not values[1]):
        raise CheckError(name, "a number", repr(given))
    value = values[0] if len(values) == 1 else values[0] / values[1]
    if integer and value.denominator != 1:
        raise CheckError(name, "a whole number", repr(given))
    if abs(value) > _LARGEST or 0 < abs(value) < _SMALLEST:
        raise CheckError(name, "0 or a number that a double holds", repr(given))
    return value


def require_one_reading(name: str, text: str) -> None:
    """Refuse a number with a point that may group digits; any other text passes.

    Raises:
        CheckError: the text is like "50.000" or "1.500".

    >>> require_one_reading("delta", "1.125")
    """
    if _TYPED_GROUP.fullmatch(text):
        raise CheckError(name, _two_ways(text, ".", integer=False), repr(text), verb="be written")


def _part(name: str, text: str, given: str, *, integer: bool) -> Fraction:
    """A number without a fraction bar; what can be read in two ways is refused before anything is read."""
    groups = _GROUPS.fullmatch(text)
    if groups and (groups[1] == "," or integer or _TYPED_GROUP.fullmatch(text)):
        raise CheckError(name, _two_ways(text, groups[1], integer=integer), repr(given), verb="be written")
    if "," in text:
        rule = "without a comma: a point begins the decimals, spaces group digits"
        raise CheckError(name, rule, repr(given), verb="be written")
    grouped = _GROUPED.fullmatch(text)
    if grouped:
        text = grouped[1] + re.sub(_GAP, "", grouped[2]) + (grouped[3] or "")
    plain, power = _PLAIN.fullmatch(text), _POWER.fullmatch(text)
    if plain is None and power is None:
        raise CheckError(name, "a number", repr(given))
    exponent = plain[1] if plain else power[2] if power else None
    if exponent is not None and abs(int(exponent)) > _EXPONENT:
        raise CheckError(name, f"a number with an exponent of at most {_EXPONENT}", repr(given))
    if integer and plain and exponent is None and "." in text:
        raise CheckError(name, "a whole number, written without a point", repr(given))
    return Fraction(text) if plain else Fraction(f"{power[1] or 1}e{power[2]}") if power else Fraction()


def _two_ways(text: str, mark: str, *, integer: bool) -> str:
    """Return the two readings of one mark, to choose from; several marks can only group digits."""
    joined, rule = text.replace(mark, ""), f"without “{mark}”, which can group digits or begin decimals"
    if text.count(mark) > 1:
        return f"{rule}: write {joined}"
    decimals = text.replace(mark, ".").rstrip("0").rstrip(".")
    return f"{rule}: write {joined}" + ("" if integer and "." in decimals else f" or {decimals}")
