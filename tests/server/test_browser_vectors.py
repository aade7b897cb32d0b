"""The shared vectors match the library; vitest compares the pages' accountant with the same file."""

import importlib.util
import json
from pathlib import Path

import pytest
from tests.extent import amount

_SCRIPT = Path(__file__).parents[1] / "vectors" / "browser_accountant.py"
_spec = importlib.util.spec_from_file_location("browser_accountant_vectors", _SCRIPT)
vectors = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(vectors)

CASES = json.loads(vectors.FILE.read_text())["cases"]
SLOW = [case for case in CASES if case["kind"].startswith("sampled_")]
FAST = [case for case in CASES if not case["kind"].startswith("sampled_")]


def agrees(stored, now):
    """Equal but for the last digits."""
    if isinstance(stored, dict):
        return stored.keys() == now.keys() and all(agrees(stored[key], now[key]) for key in stored)
    if isinstance(stored, list):
        return len(stored) == len(now) and all(map(agrees, stored, now))
    if isinstance(stored, float | int) and not isinstance(stored, bool):
        return now == pytest.approx(stored, rel=1e-9, abs=1e-300)
    return stored == now


def test_there_are_enough_cases_and_they_are_the_scripts_own():
    assert len(CASES) >= 2000
    assert len(SLOW) >= 1000
    assert [{k: v for k, v in case.items() if k != "want"} for case in CASES] == vectors.questions()


@pytest.mark.slow
def test_the_library_still_says_so():
    for case in FAST[:: amount(4, 1)]:
        assert agrees(case["want"], vectors.answer(case)), case


def test_a_changed_number_is_noticed():
    case = next(case for case in FAST if case["kind"] == "gaussian_delta")
    assert not agrees({"lower": 0.0, "upper": case["want"]["upper"] * (1 + 1e-6)}, vectors.answer(case))


@pytest.mark.slow
def test_stored_intervals_are_the_librarys():
    for case in SLOW[7::120]:
        now = vectors.answer(case)
        assert number(case["want"]["lower"]) <= number(now["upper"]), case
        assert number(now["lower"]) <= number(case["want"]["upper"]), case
        assert number(now["upper"]) == pytest.approx(number(case["want"]["upper"]), rel=1e-3, abs=1e-12), case


def number(value):
    return float(value)
