"""The slow engine is right by reading; what it leaves out is tested here."""

import numpy as np
import pytest

from epsilog.schemes import RawUpdate
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.reference import ReferenceEngine

COHORT = np.array([2, 5])


@pytest.mark.parametrize("part", ["features", "targets"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e101, -1e101])
@pytest.mark.parametrize("row", [0, 3])
def test_a_row_that_cannot_be_used_is_as_good_as_absent(small_task, part, bad, row):
    def spoil(features, targets, present):
        present[2, row] = True
        if part == "features":
            features[2, row, 1] = bad
        else:
            targets[2, row] = bad

    def remove(_features, _targets, present):
        present[2, row] = False

    sums = []
    for change in (spoil, remove):
        task = small_task(widths=(3, 1), change=change, local_steps=1)
        vector = np.random.default_rng(1).standard_normal(task.model.size)
        sums.append(ReferenceEngine(task).sum_uploads(RoundInputs(vector, COHORT), RawUpdate(0.4)).total)
    assert np.array_equal(*sums)
    assert np.isfinite(sums[0]).all()
    assert sums[0].any()
