"""The rules of the data on rows of the test's own: scales, groups, who is held out."""

import numpy as np
import pytest

from epsilog.training.data import chem97 as data


def test_scales_are_those_that_the_facts_state():
    columns = {
        "gcsescore": np.array([0.0, 3.0, 6.0, 7.5, 8.0, 9.0]),
        "age": np.array([-6.0, 0.0, 3.0, 5.0, -3.0, 1.0]),
        "female": np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
        "score": np.array([0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
    }
    features, targets = data._standardize(columns)
    assert features.T.tolist() == [
        [-3.0, -3.0, 0.0, 1.5, 2.0, 2.0],
        [-1.0, 0.0, 0.5, 5 / 6, -0.5, 1 / 6],
        [1.0, -1.0, 1.0, -1.0, 1.0, -1.0],
    ]
    assert targets.tolist() == [-1.0, -0.6, -0.2, 0.2, 0.6, 1.0]


@pytest.mark.parametrize("keep_empty", [True, False])
def test_rows_are_grouped_by_school_in_their_order(keep_empty):
    school = np.array([7.0, 2.0, 7.0, 5.0, 2.0, 7.0, 9.0, 9.0])
    features, targets = np.arange(16.0).reshape(8, 2), np.arange(8.0)
    held_out = school == 5
    held_out[5] = True
    found = data._federation(school, features, targets, held_out=held_out, keep_empty=keep_empty)
    schools = [2, 5, 7, 9] if keep_empty else [2, 7, 9]
    rows = {2: [1, 4], 5: [], 7: [0, 2], 9: [6, 7]}
    assert found.sizes.tolist() == [len(rows[number]) for number in schools]
    for client, number in enumerate(schools):
        kept = found.rows_of(client)
        assert found.targets[kept].tolist() == rows[number]
        assert np.array_equal(found.features[kept], features[rows[number]])


@pytest.mark.parametrize("unit", ["school", "pupil"])
def test_so_many_are_held_out_by_their_number_alone(unit, monkeypatch):
    monkeypatch.setitem(data.HELD_OUT, unit, 3)
    school = np.repeat([11.0, 5.0, 8.0, 2.0, 30.0], [3, 1, 4, 2, 2])
    found = data._held_out({"school": school}, unit)
    whole = {number for number in set(school) if found[school == number].all()}
    if unit == "school":
        assert len(whole) == 3
        assert not found[[number not in whole for number in school]].any()
    else:
        assert found.sum() == 3
    assert np.array_equal(found, data._held_out({"school": school}, unit))
    more = data._held_out({"school": np.append(school, 30.0 if unit == "school" else 99.0)}, unit)
    if unit == "school":
        assert np.array_equal(more[:-1], found)  # one pupil more changes nothing
