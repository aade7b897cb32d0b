"""The figures of a report: each number that a section records is shown, and what DP costs of a score."""

import re

import pytest

from epsilog.reports import write_score_cost
from epsilog.reports.figures import list_noisy_counts

TABLE = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # 97.5% points of Student's t by number of pairs, from a table


def report(*pairs):
    (own, bare), *further = pairs
    utility = {"baseline_rounds": [{"test_score": 0.1}, {"test_score": bare}]}
    if further:
        utility["further_pairs"] = [{"test_score": one, "baseline_score": other} for one, other in further]
    return {"utility": utility, "result": {"test_score": own}}


@pytest.mark.parametrize("pairs", TABLE)
def test_the_cost_is_the_mean_difference_with_the_interval_of_students_t(pairs):
    differences = [0.02 + 0.001 * number for number in range(pairs)]
    found = write_score_cost(report(*((0.5 - one, 0.5) for one in differences)))
    mean = sum(differences) / pairs
    spread = (sum((one - mean) ** 2 for one in differences) / (pairs - 1) / pairs) ** 0.5
    cost, low, high = (float(number) for number in re.findall(r"-?\d\.\d+", found))
    assert cost == pytest.approx(mean, rel=0.051)
    assert low == pytest.approx(mean - TABLE[pairs] * spread, rel=0.051)
    assert high == pytest.approx(mean + TABLE[pairs] * spread, rel=0.051)
    assert found.startswith("DP costs") == (low > 0)
    assert f"from {pairs} pairs of runs" in found


def test_a_difference_that_may_be_chance_is_no_cost():
    assert write_score_cost(report((0.5, 0.51), (0.51, 0.5), (0.5, 0.505))).startswith("None is visible")
    assert write_score_cost(report((0.52, 0.5), (0.53, 0.5))).startswith("None is visible")
    assert write_score_cost(report((0.4, 0.5))).startswith("Not measured: one pair of runs")


def test_without_both_scores_there_is_no_cost():
    assert write_score_cost({"utility": None, "result": {"test_score": 0.5}}) == ""
    for pairs in (((None, 0.5),), ((0.5, None), (0.4, 0.5)), ((0.4, 0.5), (None, 0.5))):
        assert write_score_cost(report(*pairs)) == ""


@pytest.mark.parametrize("names", [(), ("usable",), ("usable", "evaluation", "rows")])
def test_each_noisy_count_is_shown_with_its_interval_and_its_charge(names):
    counts = [
        {
            "name": name,
            "value": 10.5 + at,
            "lower": 8.25 + at,
            "upper": 12.75 + at,
            "charged": {"cost": {"epsilon": f"0.{at}1"}},
        }
        for at, name in enumerate(names)
    ]
    shown = list_noisy_counts({"owner": {"counts": counts}})
    assert [name for name, _, _ in shown] == ["usable rows", "correct predictions on training rows", "rows"][
        : len(names)
    ]
    assert [value for _, value, _ in shown] == [f"{one['value']} ({one['lower']} to {one['upper']})" for one in counts]
    assert [note.endswith(f"charged epsilon 0.{at}1") for at, (_, _, note) in enumerate(shown)] == [True] * len(names)
    assert list_noisy_counts({"owner": None}) == list_noisy_counts({}) == []
