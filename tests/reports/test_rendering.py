"""Figures, sentences and pages are made from the document alone and hold to its schema."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports.drawn import make_plan

from epsilog.reports import check_schema, format_statement, list_party_guarantees, load_report_schema, plots
from epsilog.reports.statements import format_supported_statement
from epsilog.schemes import ClientLevelCentral, Scheme
from epsilog.terms import Guarantee, NeighboringRelation, UnsupportedMechanismError
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.verification import Claim

GUARANTEE = Guarantee(3.99841, 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE, "school", 2000)


@given(st.floats(1e-300, 1e300), st.integers(1, 10))
def test_shown_bounds_never_flatter(value, digits):
    assert float(format_lower(value, digits)) <= value <= float(format_upper(value, digits))
    assert float(format_upper(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


def test_the_statement_rounds_up_and_names_everything():
    said = format_statement(GUARANTEE)
    for part in ("3.999", "1e-5", "Adding or removing one school", "2,000"):
        assert part in said
    nothing = Guarantee(1e9, 1e-5, NeighboringRelation.ZERO_OUT, "school", 2000)
    assert "more than 1e300" in format_statement(nothing)


def test_a_failed_check_withdraws_the_claim():
    plan = make_plan()
    claim = Claim.from_plan(plan)
    weak = format_statement(replace(plan.guarantee, epsilon=plan.unamplified.upper), simulation=True)
    assert format_supported_statement(claim, ()) == format_statement(plan.guarantee, simulation=True)
    for failed in ({"participation"}, {"population"}, {"participation", "population"}):
        said = format_supported_statement(claim, failed)
        assert "only the unamplified claim" in said
        assert said.endswith(weak)
    assert format_supported_statement(claim, {"noise", "participation"}).endswith("no guarantee is supported.")


def test_the_server_of_a_central_scheme_gets_no_guarantee():
    rows = list_party_guarantees(ClientLevelCentral(10, 0.5, 2, 1.0, 1.0), unit="x", epsilon=1.0, unamplified=2.0)
    assert {r["party"]: r["protection"] for r in rows}["Server"].startswith("no guarantee")
    with pytest.raises(UnsupportedMechanismError):
        list_party_guarantees(Scheme(), unit="x", epsilon=1.0, unamplified=2.0)


def test_an_empty_or_foreign_document_is_no_report():
    assert load_report_schema()["title"].startswith("epsilog report")
    for document in ({}, {"kind": "report"}, []):
        with pytest.raises(ValueError, match=r"required|not of type"):
            check_schema(document)


def test_the_figures_of_a_report_are_its_numbers(monkeypatch):
    asked = {}

    def note(series, *, title, **options):
        asked[title] = {one.label: one.points for one in series}, options
        return title

    monkeypatch.setattr(plots, "draw_line_plot", note)
    curve = [{"round": r, "lower": low, "upper": up} for r, low, up in ((1, 0.5, 1.0), (2, 0.75, 1.5))]
    rounds = [{"round": 1, "test_loss": 1.0, "test_score": 0.25}, {"round": 2, "test_loss": None, "test_score": None}]
    bare = [{"round": 1, "test_score": 0.375}, {"round": 2, "test_score": 0.5}]
    study = [{"epsilon": 1.0, "test_score": 0.125}, {"epsilon": 4.0, "test_score": 0.25}]
    report = {
        "kind": "report",
        "accounting": {"curve": curve},
        "budget": {"epsilon": "4"},
        "rounds": rounds,
        "utility": {"baseline_rounds": bare, "study": study},
        "result": {"score_name": "R squared on the test set"},
    }
    assert set(plots.draw_report_plots(report)) == {"epsilon", "score", "study"}
    lines, options = asked["Epsilon by round"]
    assert lines == {"upper bound": ((1.0, 1.0), (2.0, 1.5)), "lower bound": ((1.0, 0.5), (2.0, 0.75))}
    assert options == {"x_label": "round", "y_label": "epsilon", "mark": ("budget", 4.0)}
    lines, options = asked["Score by round"]
    assert lines == {"with DP": ((1.0, 0.25),), "without DP": ((1.0, 0.375), (2.0, 0.5))}
    assert options == {"x_label": "round", "y_label": "R squared"}
    lines, options = asked["Score by budget"]
    assert lines == {"with DP": ((1.0, 0.125), (4.0, 0.25))}
    assert (options["mark"], options["log_x"], options["y_label"]) == (("without DP", 0.5), True, "R squared")
    bare[-1]["test_score"] = None  # the run without privacy diverged
    plots.draw_report_plots(report)
    assert asked["Score by budget"][1]["mark"] is None
    report["utility"] = None
    curve[:] = [{"round": 1, "lower": 0.0, "upper": 1.0}]
    assert set(plots.draw_report_plots(report)) == {"epsilon", "score"}
    assert set(asked["Epsilon by round"][0]) == {"upper bound"}
    assert set(asked["Score by round"][0]) == {"with DP"}
    assert plots.draw_report_plots(report | {"accounting": {"curve": []}, "rounds": []}) == {}
