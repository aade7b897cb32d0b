"""Shown bounds are rounded outward."""

from hypothesis import given
from hypothesis import strategies as st

from epsilog.terms.formatting import format_lower, format_upper


@given(st.floats(1e-300, 1e300), st.integers(1, 10))
def test_shown_bounds_never_flatter(value, digits):
    assert float(format_lower(value, digits)) <= value <= float(format_upper(value, digits))
    assert float(format_upper(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
