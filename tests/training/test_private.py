"""What holds people's rows, or what they amount to before noise, shows nothing of them, in a notebook or elsewhere."""

import json
from dataclasses import is_dataclass, replace

import numpy as np
import pytest
from tests.training.conftest import small_task

from epsilog.terms import CustodyRecord, codec
from epsilog.terms.disclosed import Private
from epsilog.training import Federation
from epsilog.training.data.columns import ArrayColumn, ColumnTable
from epsilog.training.data.dataset import Dataset
from epsilog.training.engines.base import ClippedSum
from epsilog.training.rounds import RoundResult, TrainingState

SECRET = 0.8642
ROWS = Federation(np.full((3, 2), SECRET), np.full(3, SECRET), np.array([1, 2]), ())
HOLDERS = [
    ROWS,
    Dataset("own data", "client", True, ROWS, None, None, {}, False, names=(f"Anna {SECRET}",)),
    ArrayColumn(np.full(3, SECRET)),
    ColumnTable({"age": ArrayColumn(np.full(3, SECRET))}, ["age"]),
    TrainingState(1, np.full(2, SECRET), np.array([8642, 1])),
    ClippedSum(np.full(2, SECRET), SECRET, 1, 0, 8642),
    CustodyRecord(1, (8642,), SECRET, 0.5),
]


@pytest.mark.parametrize("value", HOLDERS, ids=lambda value: type(value).__name__)
def test_it_has_no_text_no_json_and_no_hash_and_its_name_is_all_that_is_shown(value):
    assert isinstance(value, Private)
    assert is_dataclass(value)
    assert repr(value) == f"{type(value).__name__}(private)"
    for leak in (str, "{}".format, "%s".__mod__, hash, json.dumps, codec.encode, codec.encode_canonical):
        with pytest.raises((TypeError, ValueError)):
            leak(value)


def test_what_holds_one_of_them_shows_no_row_either():
    task = replace(small_task(), clients=small_task().clients)
    rows = task.clients.features.ravel()
    outcome = RoundResult(HOLDERS[4], None, HOLDERS[6])
    for shown in (repr(task), str(task), f"{task}", repr(outcome), str(outcome)):
        assert "(private)" in shown
        assert "8642" not in shown
        assert not any(f"{one:.6g}" in shown for one in rows if abs(one) > 1e-3)
