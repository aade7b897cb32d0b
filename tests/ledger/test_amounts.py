from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from epsilog.ledger.amounts import DECIMALS, Amounts, format_units, parse_units, round_cap_down, round_charge_up

QUANTITIES = st.sampled_from(sorted(DECIMALS))
VALUES = st.one_of(
    st.fractions(0, 1000),
    st.floats(0, 1000),
    st.decimals(0, 1000, allow_nan=False).map(str),
    st.tuples(st.integers(0, 9), st.integers(-40, 2)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
)


@pytest.mark.slow
@given(quantity=QUANTITIES, value=VALUES)
def test_charges_round_up_and_by_less_than_a_unit(quantity, value):
    unit = Fraction(1, 10 ** DECIMALS[quantity])
    charged = round_charge_up(quantity, value) * unit
    assert 0 <= charged - Fraction(value) < unit


@pytest.mark.slow
@given(quantity=st.sampled_from(["epsilon", "rho", "mu_squared"]), value=VALUES)
def test_caps_round_down_or_are_refused(quantity, value):
    unit = Fraction(1, 10 ** DECIMALS[quantity])
    if 0 < Fraction(value) < unit:
        with pytest.raises(ValueError, match="at least one unit"):
            round_cap_down(quantity, value)
    else:
        assert 0 <= Fraction(value) - round_cap_down(quantity, value) * unit < unit


@given(quantity=QUANTITIES, units=st.integers(0, 10**25))
def test_a_stored_amount_has_one_spelling(quantity, units):
    text = format_units(quantity, units)
    assert parse_units(quantity, text) == units
    for other in (f"0{text}", f"{text}0" if "." in text else f"{text}.0", f"+{text}", f" {text}", f"{text}e0"):
        with pytest.raises(ValueError, match=quantity):
            parse_units(quantity, other)


@pytest.mark.parametrize(
    "value",
    ["", "nan", "inf", "-1", "-0.0", "0x1", "1_0", "1e1000", "1" * 101, "1e10", "١", float("nan"), float("inf")],
)
@pytest.mark.parametrize("rounded", [round_charge_up, round_cap_down])
def test_what_is_no_amount_is_refused_by_name(rounded, value):
    with pytest.raises(ValueError, match="epsilon must be"):
        rounded("epsilon", value)


@pytest.mark.parametrize("value", [None, True, b"1", 1j])
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match="epsilon must be a decimal string or a number"):
        round_charge_up("epsilon", value)


def test_a_delta_cap_is_a_probability_below_one():
    assert round_cap_down("delta", "0.999999999999999999") == 10**18 - 1
    assert round_cap_down("delta", "0") == 0
    for delta in ("1", "2"):
        with pytest.raises(ValueError, match=r"delta must be in \[0, 1\)"):
            round_cap_down("delta", delta)


def test_a_float_stands_for_the_binary_number_that_it_is():
    assert Fraction(0.1) > Fraction("0.1")
    assert (round_charge_up("epsilon", "0.1"), round_charge_up("epsilon", 0.1)) == (10**8, 10**8 + 1)


def test_amounts_read_as_decimals_and_add_in_units():
    amounts = Amounts.from_charge({"delta": "1e-18", "epsilon": "0.1"})
    assert dict(amounts + amounts) == {"epsilon": "0.2", "delta": "0.000000000000000002"}
    assert amounts - amounts == Amounts.zero(["epsilon", "delta"])
    with pytest.raises(ValueError, match="at least 0 units"):
        amounts - (amounts + amounts)
    with pytest.raises(ValueError, match="same quantities"):
        amounts + Amounts.zero(["epsilon"])
    with pytest.raises(ValueError, match="quantity must be one of"):
        Amounts.from_charge({"sigma": "1"})


def test_amounts_are_of_known_quantities_and_never_below_0():
    for wrong in ({"sigma": 1}, {"epsilon": 1, "sigma": 0}, {"": 0}):
        with pytest.raises(ValueError, match="quantity must be one of"):
            Amounts(wrong)
        with pytest.raises(ValueError, match="quantity must be one of"):
            Amounts.zero(wrong)
    with pytest.raises(ValueError, match="delta must be at least 0 units"):
        Amounts({"epsilon": 0, "delta": -1})
