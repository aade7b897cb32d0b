"""Sentences name everything that gives a claim its meaning, and never more than the records support."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.reports.drawn import make_plan

from epsilog.reports.statements import (
    format_statement,
    format_supported_statement,
    format_verified_claim,
    list_party_guarantees,
)
from epsilog.schemes import ClientLevelCentral, ClientLevelClientSide, ExampleLevelClientSide, Scheme
from epsilog.terms import Guarantee, NeighboringRelation, Status, UnsupportedMechanismError
from epsilog.verification import Claim

GUARANTEE = Guarantee(3.99841, 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE, "school", 2000)


def test_the_statement_rounds_up_and_is_complete():
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


def test_a_bound_for_examples_says_what_it_is_not_for():
    apart = "for each record; nothing for a client as a whole, or for its participation"
    for scheme, stated in (
        (ExampleLevelClientSide(12, 5, 3, 3, 0.5, 1, 0.2, 1.0), True),
        (ClientLevelClientSide(12, 5, 3, 3, 0.2, 1.0), False),
    ):
        rows = list_party_guarantees(scheme, unit="record", epsilon=1.0, unamplified=2.0)
        bounds = [row["protection"] for row in rows if row["protection"].startswith("epsilon 1")]
        assert bounds
        assert all((apart in bound) is stated for bound in bounds)


@pytest.mark.parametrize("sampler", [None, *Status])
@pytest.mark.parametrize("status", Status)
def test_an_amplified_claim_needs_the_owner_s_word_and_no_check_that_failed_or_is_missing(sampler, status):
    owner = None if sampler is None else SimpleNamespace(custody_checks={"participation": sampler})
    evidence = SimpleNamespace(logs=None, custody=None, owner=owner, claim=Claim.from_plan(make_plan()))
    failed = {"participation"} if status is Status.FAILED else set()
    said = format_verified_claim(
        SimpleNamespace(evidence=evidence, status=status, failed=failed, findings=(), unchecked=())
    )
    rests = sampler is Status.PASSED and status in (Status.PASSED, Status.WARNED)
    assert ("This rests on the curator's word" in said) == rests
    assert ("only the unamplified claim can be checked" in said) != rests
