"""Numbers as people type them: each text is read in one way, or refused; the pages are held to the same vectors."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from epsilog.mechanisms import parse_trials
from epsilog.terms import CheckError
from epsilog.terms.numerals import read_number, require_one_reading

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "numerals.json").read_text())["cases"]


def read(text, *, whole=False):
    try:
        return read_number("x", text, integer=whole)
    except CheckError:
        return None


def test_the_vectors_are_what_is_read():
    assert len(CASES) > 150
    for case in CASES:
        value = read(case["text"], whole=case["whole"])
        if case["value"] is None:
            assert value is None or abs(value) > 2**53, case
        else:
            assert float(value) == case["value"], case


@given(st.text(alphabet="0123456789.,eE+-^*×x/⁰⁵⁻ _\u202f", max_size=12))
def test_what_is_read_is_what_other_readers_read(text):
    """Decimal reads the same where it reads anything; a comma, a lone gap or a typed group is never read."""
    value = read(text)
    if value is None:
        return
    assert "," not in text
    plain = text.strip().replace("−", "-")
    if all(each in "0123456789.eE+-" for each in plain):
        assert value == Fraction(Decimal(plain))
        assert math.isfinite(float(value))


@given(st.integers(1, 10**9), st.sampled_from(".,"))
def test_grouped_digits_are_refused_with_both_readings(number, mark):
    text = f"{1000 * number:,}".replace(",", mark)
    for whole in (False, True):
        with pytest.raises(CheckError) as refused:
            read_number("rounds", text, integer=whole)
        if mark == "," or whole or text.count(mark) == 1:
            assert f"write {1000 * number}" in str(refused.value)


@given(st.integers(0, 2**53))
def test_spaces_group_digits(number):
    assert read(f"{number:,}".replace(",", "\u202f"), whole=True) == number == read(f"{number:,}".replace(",", " "))


@pytest.mark.parametrize("text", ["fixed:2.000", "poisson:2,5", "poisson:1_0", "binomial:8.000,0.5", "fixed:2,000"])
def test_a_law_of_trials_has_one_reading(text):
    with pytest.raises(CheckError):
        parse_trials(text)


@pytest.mark.parametrize("text", ["50.000", "1.500", "-2.000", "999.990"])
def test_a_typed_group_is_refused_alone(text):
    with pytest.raises(CheckError, match="can group digits"):
        require_one_reading("argument", text)


@pytest.mark.parametrize("text", ["1.125", "0.500", "1.0000", "127.0.0.1", "v2.000", "2.000 people", "", "1.5e3"])
def test_other_words_pass(text):
    require_one_reading("argument", text)
