"""Residual risks are listed where they apply, and as the docs list them."""

from pathlib import Path

from tests.reports.drawn import central, local, make_plan

from epsilog.reports.hazards import RUN_RISKS, list_residual_risks

DOCS = Path(__file__).parents[2] / "docs"


def test_risks_are_listed_where_they_apply(report, real):
    assert report["residual_risks"] == list_residual_risks(make_plan())
    seeded = "A seeded run called real"
    assert not any(line.startswith(seeded) for line in report["residual_risks"])
    assert any(line.startswith(seeded) for line in real["residual_risks"])
    less = "Clients added too little noise"
    assert any(line.startswith(less) for line in list_residual_risks(make_plan(local)))
    assert not any(line.startswith(less) for line in list_residual_risks(make_plan(central)))


def test_the_docs_table_names_every_risk():
    page = " ".join((DOCS / "how-to" / "verify-a-report.md").read_text().split())
    for risk in RUN_RISKS:
        assert f"| {risk.description} | passes" in page or f"| {risk.description} | *not checked*" in page, (
            risk.description
        )
        assert risk.detected_by in page
