"""Figures, sentences and pages are made from the document alone and hold to its schema."""

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epsilog.prove import check_schema, report_schema, statement, who_sees_what
from epsilog.prove.narrative import supported_statement
from epsilog.prove.plots import Series, line_plot, ticks
from epsilog.terms import ClientLevelCentral, Guarantee, NeighboringRelation, Scheme, UnsupportedMechanismError
from epsilog.terms.digits import lower_text, upper_text

GUARANTEE = Guarantee(3.99841, 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE, "school", 2000)


@given(st.floats(1e-300, 1e300), st.integers(1, 10))
def test_shown_bounds_never_flatter(value, digits):
    assert float(lower_text(value, digits)) <= value <= float(upper_text(value, digits))
    assert float(upper_text(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


def test_the_statement_rounds_up_and_names_everything():
    said = statement(GUARANTEE)
    for part in ("3.999", "1e-5", "adding or removing one school", "2,000"):
        assert part in said
    nothing = Guarantee(1e9, 1e-5, NeighboringRelation.ZERO_OUT, "school", 2000)
    assert "more than 1e300" in statement(nothing)


def test_a_failed_check_withdraws_the_claim():
    assert supported_statement(GUARANTEE, unamplified=22.0, failed=()) == statement(GUARANTEE)
    assert "only the claim without amplification" in supported_statement(
        GUARANTEE, unamplified=22.0, failed={"participation"}
    )
    assert "(22, " in supported_statement(GUARANTEE, unamplified=22.0, failed={"participation"})
    gone = supported_statement(GUARANTEE, unamplified=22.0, failed={"noise", "participation"})
    assert gone.startswith("Nothing is claimed")


def test_the_server_of_a_central_scheme_gets_no_guarantee():
    rows = who_sees_what(ClientLevelCentral(10, 0.5, 2, 1.0, 1.0), unit="x", epsilon=1.0, unamplified=2.0)
    assert {r["party"]: r["protected_by"] for r in rows}["Server"].startswith("no guarantee")
    with pytest.raises(UnsupportedMechanismError):
        who_sees_what(Scheme(), unit="x", epsilon=1.0, unamplified=2.0)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
@example(879609.9999999999, 1e-06)  # hardly more than the numbers can tell
def test_ticks_are_round_and_inside(low, span):
    marks, slack = ticks(low, low + span), 1e-6 * span + 4 * math.ulp(abs(low) + span)
    assert all(low - slack <= t <= low + span + slack for t in marks)
    assert len(marks) <= 12


def test_a_plot_is_well_formed_described_and_leaves_out_infinities():
    drawn = line_plot(
        [Series("a <b>", ((1.0, 1.0), (2.0, math.inf), (3.0, 4.0)), markers=True)],
        title="T & t",
        x_label="round",
        y_label="epsilon",
        mark=("budget", 5.0),
    )
    root = ET.fromstring(drawn)  # noqa: S314 - our own text
    text = " ".join(root.itertext())
    assert "T & t" in text
    assert "a <b>: from 1 at 1 to 4 at 3" in text
    assert "inf" not in drawn
    assert "nan" not in drawn


def test_an_empty_or_foreign_document_is_no_report():
    assert report_schema()["title"].startswith("epsilog report")
    for document in ({}, {"kind": "report"}, []):
        with pytest.raises(ValueError, match=r"required|not of type"):
            check_schema(document)
