"""A refusal says which field, what it must be and what it was, to people and to programs."""

import pickle

from epsilog.terms import CheckError


def test_programs_read_field_bound_and_value():
    error = CheckError("count", "at least 1", "0").under("parts[2]")
    assert str(error) == "parts[2].count must be at least 1, got 0"
    assert error.to_json() == {
        "field": "parts[2].count",
        "message": "must be at least 1",
        "bound": "at least 1",
        "value": "0",
    }


def test_an_error_comes_out_of_another_process_as_it_went_in():
    error = CheckError("count", "5 at least", "3", verb="have").under("parts[2]")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(again) is CheckError
    assert (str(again), again.to_json()) == (str(error), error.to_json())
