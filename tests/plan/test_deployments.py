"""The published budgets: each with a source, each in the docs, and what rho implies is what the accountant says."""

import math
from pathlib import Path

import pytest

from epsilog.accounting import epsilon
from epsilog.mechanisms import ZeroConcentratedDP
from epsilog.plan.deployments import DEPLOYMENTS
from epsilog.terms.formatting import format_upper

DOCS = (Path(__file__).parents[2] / "docs" / "learn" / "decision-makers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("one", [one for one in DEPLOYMENTS if one.rho is not None], ids=lambda one: one.name)
def test_what_rho_implies_is_not_below_what_the_accountant_says(one):
    assert format_upper(epsilon(ZeroConcentratedDP(one.rho), delta=one.delta).upper) == f"{one.epsilon}"


@pytest.mark.parametrize("one", DEPLOYMENTS, ids=lambda one: one.name)
def test_each_budget_has_a_source_that_the_docs_show(one):
    assert one.source.startswith("https://")
    rows = [line for line in DOCS.splitlines() if f"({one.source})" in line and line.startswith("|")]
    assert f"{one.rho or one.epsilon:g}" in "".join(rows)


def test_the_figures_that_are_computed_here_are_bounds():
    found = {one.name: one.epsilon for one in DEPLOYMENTS}
    f, hashes = 0.5, 2  # of Chrome's parameters: a value sets as many bits, and another value as many others
    rappor = 2 * hashes * math.log((1 - f / 2) / (f / 2))
    assert rappor <= found["Chrome RAPPOR, domains"] <= rappor + 1e-3
    assert found["Google mobility reports"] == pytest.approx(4 * (2 * 0.11 + 0.22) + 2 * (2 * 0.11 + 0.22))
    assert format_upper(epsilon(ZeroConcentratedDP(0.015), delta=1e-7).upper, 3) == "0.855"


def test_every_kind_of_unit_is_in_ascending_order():
    for kind in {one.protects for one in DEPLOYMENTS}:
        found = [one.epsilon for one in DEPLOYMENTS if one.protects == kind]
        assert found == sorted(found)
