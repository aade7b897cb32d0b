"""What ``make test`` leaves to ``make test-all`` is further cases: never all of a test, nor one side of a grid."""

import itertools

import pytest
from tests.extent import is_kept


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_the_first_case_and_about_one_of_n_are_kept(step):
    kept = [index for index in range(300) if is_kept(index, step)]
    assert kept[0] == 0
    assert abs(len(kept) - 300 / step) <= 2


@pytest.mark.parametrize(("rows", "columns"), [(6, 2), (4, 3), (8, 4), (6, 5)])
def test_no_column_of_a_grid_of_parameters_is_lost(rows, columns):
    kept = [place for i, place in enumerate(itertools.product(range(rows), range(columns))) if is_kept(i, 2)]
    assert {column for _, column in kept} == set(range(columns))
    assert len({row for row, _ in kept}) >= rows - 1
