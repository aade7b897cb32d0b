"""Random releases against exact values made by other methods: twenty at random each time, all in the slow run."""

import json
import random
from pathlib import Path

import pytest
from tests.extent import amount

from epsilog.accounting import delta
from epsilog.terms import NeighboringRelation, codec

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "accounting.json").read_text())["cases"]
ACCURACY = 2e-9  # of the stored values: two contours that agree to 1e-9


def check(case):
    found = delta(codec.decode(case["term"]), epsilon=case["epsilon"], relation=NeighboringRelation(case["relation"]))
    assert found.lower <= case["delta"] * (1 + ACCURACY), case
    assert found.upper >= case["delta"] * (1 - ACCURACY), case
    return found.relative_width


def test_there_are_thousands():
    assert len(CASES) >= 2000


def test_twenty_at_random():
    for case in random.SystemRandom().sample(CASES, 20):
        check(case)


@pytest.mark.slow
def test_every_one_and_most_of_them_narrow():
    """Every twelfth at each change; all of them in all tests."""
    gaps = [check(case) for case in CASES[:: amount(12, 1)]]
    assert sum(relative_width <= 0.01 for relative_width in gaps) >= 0.98 * len(gaps)


@pytest.mark.slow
def test_a_value_five_percent_off_is_noticed():
    """The control: were the stored values wrong by this much, or the bounds this loose, the check would say so."""
    tight = [case for case in CASES[:40] if 1e-12 < case["delta"] < 0.5]
    wrong = [case | {"delta": case["delta"] * factor} for case in tight for factor in (0.95, 1.05)]
    noticed = 0
    for case in wrong:
        try:
            check(case)
        except AssertionError:
            noticed += 1
    assert noticed >= 0.9 * len(wrong)
