"""Predictions for new rows, in the words of the run config: labels, numbers, dates, and blanks."""

import datetime as dt

import numpy as np
import pytest

from epsilog import npz
from epsilog.pipeline import predict_targets
from epsilog.terms import ConfigError
from epsilog.training.data import parse_target
from epsilog.training.models import ReleasedModel, build_model

CLINICS = "examples/own-data/clinics.toml"
ROWS = "age,ward\n110,surgery\n0,surgery\n,surgery\n50,nowhere\n"


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text(ROWS)
    return path


def saved(path, classes, vector):
    model = build_model("linear", inputs=5, classes=classes)
    path.write_bytes(npz.encode_npz(ReleasedModel(model, np.array(vector, dtype=float)).arrays))
    return path


@pytest.fixture
def config(tmp_path, pytestconfig):
    def write(*changes):
        text = (pytestconfig.rootpath / CLINICS).read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "clinics.toml"
        path.write_text(text)
        return path

    return write


def test_a_row_gets_its_label_or_nothing(config, rows, tmp_path):
    old_are_long = saved(tmp_path / "model.npz", 2, [0, 1, *([0] * 8), 0, 0])
    assert predict_targets(config(), old_are_long, rows) == ["yes", "no", "no", None]  # 50 stands for a missing age


def test_real_targets_come_back_in_their_own_range(config, rows, tmp_path):
    model = saved(tmp_path / "model.npz", None, [0.5, 0, 0, 0, 0, 0.25])
    path = config(('classes = ["no", "yes"]', "target_range = [0, 40]"), ('kind = "linear"', 'kind = "linear"'))
    assert predict_targets(path, model, rows)[:2] == [35, 15]
    assert predict_targets(path, saved(tmp_path / "m.npz", None, [9, 0, 0, 0, 0, 0]), rows)[:2] == [
        40,
        0,
    ]  # never beyond it
    assert (
        predict_targets(path, saved(tmp_path / "m.npz", None, [-1, 0, 0, 0, 0, 0]), rows)[0] == 0
    )  # -1 is a number like any


def test_dates_and_plain_numbers():
    first, last = dt.date(2025, 1, 1), dt.date(2025, 12, 31)
    assert parse_target(None, [first, last]).describe(1.0) == last
    assert parse_target(None, [first, last]).describe(0.0) == dt.date(2025, 7, 2)
    assert parse_target(3).describe(2) == 2


def test_what_is_wrong_is_told_by_its_place(config, rows, tmp_path):
    model = saved(tmp_path / "model.npz", None, [0] * 6)
    with pytest.raises(ConfigError, match="model must hold the arrays of the model"):
        predict_targets(config(), model, rows)
    rows.write_text("age\n1\n")
    with pytest.raises(ConfigError, match=r"data.features.ward must be one of the columns 'age', got 'ward'"):
        predict_targets(config(), model, rows)


def test_a_shipped_set_has_no_columns_of_its_own(rows, tmp_path, pytestconfig):
    with pytest.raises(ConfigError, match=r"data.name must be absent: only a file"):
        predict_targets(pytestconfig.rootpath / "examples/central.toml", tmp_path / "model.npz", rows)
