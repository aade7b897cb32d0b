"""A refusal says which field, what it must be and what it was, to people and to programs."""

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
