"""What ``make test`` leaves to ``make test-all`` is further cases: never all of a test, nor one side of a grid."""

import itertools
from types import SimpleNamespace

import pytest
from tests.extent import kept_cases, list_left_out


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_the_first_case_and_about_one_of_n_are_kept(step):
    kept = kept_cases([{("case", index)} for index in range(300)], step)
    assert 0 in kept
    assert abs(len(kept) - 300 / step) <= 2


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (6, 2), (4, 3), (8, 4), (6, 5), (2, 6)])
def test_no_side_of_a_grid_of_parameters_is_lost(rows, columns, step):
    cases = [{("row", place[0]), ("column", place[1])} for place in itertools.product(range(rows), range(columns))]
    kept = kept_cases(cases, step)
    assert set().union(*(cases[index] for index in kept)) == set().union(*cases)
    assert len(kept) <= len(cases) / step + max(rows, columns)


def test_a_check_leaves_further_cases_of_fast_tests_alone():
    counts = {"three": 3, "forty": 40, "slow": 40}
    items = [
        SimpleNamespace(nodeid=f"{name}[{case}]", get_closest_marker={"slow": name == "slow"}.get)
        for name, count in counts.items()
        for case in range(count)
    ]
    left = [item.nodeid for item in list_left_out(items)]
    assert {name.partition("[")[0] for name in left} == {"forty"}
    assert "forty[0]" not in left
    assert 28 <= len(left) <= 32
