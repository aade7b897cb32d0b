"""A registered plan stays within its budget, survives storage, and its hash notices every change."""

import json
import math
from dataclasses import replace
from decimal import Decimal
from functools import cache

import pytest

from epsilog import accounting
from epsilog.ledger.cost import compute_cost
from epsilog.ledger.fields import ChargeRequest
from epsilog.plan import RegisteredPlan, build_registered_plan, registered_plan
from epsilog.schemes import ClientLevelCentral, ClientLevelDistributed, ExampleLevelClientSide
from epsilog.terms import OUTCOME_SHARE, CalibrationError, CheckError, Guarantee, NeighboringRelation, codec
from epsilog.verification.claim import check_plan


@cache
def plan(noise_multiplier=None, epsilon="2", rounds=30):
    return build_registered_plan(
        lambda z: ClientLevelCentral(2000, 0.05, rounds, 0.5, z),
        name="p",
        noise_multiplier=noise_multiplier,
        budget_epsilon=Decimal(epsilon),
        delta=Decimal("1e-5"),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit="school",
        population=2000,
        budget={"scope": "a/b", "epsilon": epsilon, "delta": "1e-5", "delta_rationale": "policy"},
        simulation=False,
        details={"settings": "0" * 64},
    )


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["0.3", "2", "8"])
def test_calibrated_noise_meets_the_budget_and_little_less_would_not(epsilon):
    made = plan(epsilon=epsilon)
    assert made.guarantee.epsilon == made.epsilon.upper <= float(epsilon)
    with pytest.raises(CalibrationError, match="above the budget of"):
        plan(noise_multiplier=made.scheme.noise_multiplier * 0.995, epsilon=epsilon)


def test_a_point_of_the_curve_is_computed_once_whatever_the_plan_is_called(monkeypatch):
    made = plan(noise_multiplier=2.0, epsilon="30")
    first = made.epsilon_after(7)
    monkeypatch.setattr(registered_plan, "epsilon", None)
    assert replace(made, name="q").epsilon_after(7) == first


@pytest.mark.slow
def test_storage_keeps_the_hash():
    made = plan()
    again = RegisteredPlan.from_json(json.loads(codec.encode_canonical(made.to_json())))
    assert again == made
    assert again.hash == made.hash


@pytest.mark.slow
def test_any_change_changes_the_hash_or_is_refused():
    made = plan()
    for path in (
        ("scheme", "rounds"),
        ("guarantee", "epsilon"),
        ("scheme", "clip_norm"),
        ("budget", "scope"),
        ("name",),
    ):
        document = made.to_json()
        place = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = place[path[-1]] + (1 if not isinstance(place[path[-1]], str) else "x")
        try:
            assert RegisteredPlan.from_json(document).hash != made.hash
        except ValueError as error:
            assert "release must be what the scheme releases" in str(error)  # noqa: PT017


@pytest.mark.slow
def test_epsilon_grows_with_rounds_up_to_the_claim():
    made = plan()
    curve = [made.epsilon_after(r).upper for r in (1, 5, 15, 30)]
    assert curve == sorted(curve)
    assert curve[-1] == made.guarantee.epsilon


def test_a_client_side_curve_stops_growing_at_the_cap():
    scheme = ExampleLevelClientSide(100, 20, 30, 4, 0.25, 1, 1.0, 1.5)
    assert scheme.after(4) == scheme.after(30) == scheme.release()
    assert scheme.after(3) != scheme.release()


def test_the_closed_form_of_source_1_stands_beside_it():
    made = build_registered_plan(
        lambda z: ClientLevelCentral(10_000, 0.02, 100, 1.0, z),
        name="worked",
        noise_multiplier=1.0,
        budget_epsilon=Decimal(4),
        delta=Decimal("1e-6"),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit="client",
        population=10_000,
        budget={},
        simulation=False,
        details={},
    )
    assert made.closed_form.root_term == pytest.approx(1.0513, abs=5e-5)
    assert made.closed_form.linear_term == pytest.approx(0.04, abs=1e-12)
    assert made.closed_form.total == pytest.approx(1.0913, abs=5e-5)


@pytest.mark.slow
def test_only_plans_of_this_version_are_read():
    document = plan().to_json()
    for changes in ({"v": 0}, {"v": None}, {"kind": "report"}, {"kind": None}):
        with pytest.raises(ValueError, match="plan must be a version 1 plan document"):
            RegisteredPlan.from_json(document | changes)
    for other in (None, [], "plan", [["kind", "plan"], ["v", 0]]):
        with pytest.raises(ValueError, match="plan must be a version 1 plan document"):
            RegisteredPlan.from_json(other)
    for unlike in (document | {"surplus": 1}, {k: v for k, v in document.items() if k != "details"}):
        with pytest.raises(ValueError, match="plan must have the fields"):
            RegisteredPlan.from_json(unlike)
    for budget in (
        {},
        document["budget"] | {"more": "x"},
        {k: v for k, v in document["budget"].items() if k != "delta"},
    ):
        with pytest.raises(ValueError, match="budget must have scope"):
            RegisteredPlan.from_json(document | {"budget": budget})
    for field, wrong, says in (
        ("simulation", 0, "simulation"),
        ("details", [], "details"),
        ("name", "", "name"),
        ("closed_form", {"root_term": -1.0, "linear_term": 0.0}, "root_term"),
        ("closed_form", {"root_term": 1.0, "linear_term": -0.5}, "linear_term"),
        ("guarantee", document["epsilon"], "guarantee"),
        ("epsilon", document["guarantee"], "epsilon"),
        ("unamplified", document["guarantee"], "unamplified"),
        ("scheme", document["guarantee"], "scheme"),
    ):
        with pytest.raises(ValueError, match=says):
            RegisteredPlan.from_json(document | {field: wrong})


@pytest.mark.slow
def test_the_least_noise_of_six_digits_meets_the_budget_and_a_little_less_does_not():
    noise = plan().scheme.noise_multiplier
    assert noise == float(f"{noise:.6g}")
    assert plan(noise_multiplier=noise).guarantee.epsilon <= 2
    with pytest.raises(CalibrationError, match="above the budget of"):
        plan(noise_multiplier=noise * (1 - 1e-4))


def test_a_plan_is_priced_itself_whatever_the_search_says(monkeypatch):
    monkeypatch.setattr(registered_plan, "calibrate", lambda *_, **__: 0.5)
    with pytest.raises(CalibrationError, match=r"noise_multiplier 0\.5 costs .* above the budget of 2"):
        plan.__wrapped__()  # made afresh, not one that was made before


def test_a_bound_that_is_the_budget_fits_it():
    costs = plan(noise_multiplier=3.0, epsilon="8").epsilon.upper
    exact = plan(noise_multiplier=3.0, epsilon=repr(costs))
    assert exact.guarantee.epsilon == costs
    with pytest.raises(CalibrationError, match="above the budget of"):
        plan(noise_multiplier=3.0, epsilon=repr(math.nextafter(costs, 0)))


@pytest.mark.slow
def test_a_plan_holds_what_it_was_registered_with():
    made = plan(noise_multiplier=3.0)
    scheme = made.scheme
    assert scheme == ClientLevelCentral(2000, 0.05, 30, 0.5, 3.0)
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    model = accounting.epsilon(scheme.release(), delta=1e-5, relation=relation)
    kept = accounting.epsilon(scheme.release(), delta=1e-5 * (1 - OUTCOME_SHARE), relation=relation)
    assert made.epsilon == replace(model, upper=kept.upper)
    assert made.unamplified == accounting.epsilon(scheme.unamplified_release(), delta=1e-5, relation=relation)
    assert made.guarantee == Guarantee(made.epsilon.upper, 1e-5, relation, "school", 2000)
    given = {"sampling_probability": 0.05, "noise_multiplier": 3.0, "rounds": 30, "delta": 1e-5}
    assert made.closed_form == accounting.federated_closed_form(**given)
    assert made.budget == {"scope": "a/b", "epsilon": "2", "delta": "1e-5", "delta_rationale": "policy"}
    assert (made.name, made.simulation, made.details) == ("p", False, {"settings": "0" * 64})
    for rounds in (1, 7, 30):
        model = accounting.epsilon(scheme.after(rounds), delta=1e-5, relation=relation)
        assert made.epsilon_after(rounds) == replace(model, upper=made.epsilon_after(rounds).upper)
        assert model.upper < made.epsilon_after(rounds).upper < model.upper * (1 + 1e-9)


TURNS = ClientLevelCentral(200, None, 4, 0.5, 30.0, sampling="cyclic", cycle_length=5)
SHARED = ClientLevelDistributed(12, 4, 3, 4, 2, 0.2, 1e-3, 32, 30.0)


@pytest.mark.parametrize("scheme", [TURNS, SHARED], ids=["cyclic", "distributed"])
@pytest.mark.parametrize("relation", [NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE])
def test_neighbors_that_a_scheme_has_no_price_for_are_refused(scheme, relation):
    """One client more moves everybody's turn: no accountant's answer for such neighbors would be about the scheme."""
    given = {
        "name": "p",
        "noise_multiplier": 30.0,
        "budget_epsilon": Decimal(100),
        "delta": Decimal("1e-5"),
        "privacy_unit": "school",
        "population": scheme.clients,
        "budget": {"scope": "a/b", "epsilon": "100", "delta": "1e-5", "delta_rationale": "policy"},
        "simulation": False,
        "details": {"settings": "0" * 64},
    }
    with pytest.raises(CheckError, match=f"relation must be zero-out for {scheme.kind}, got {relation.value}"):
        build_registered_plan(lambda _: scheme, relation=relation, **given)
    made = build_registered_plan(lambda _: scheme, relation=NeighboringRelation.ZERO_OUT, **given)
    assert check_plan(made).status == "passed"
    forged = replace(made, guarantee=replace(made.guarantee, relation=relation))
    found = check_plan(forged)
    assert found.status == "failed"
    assert f"its scheme does not support the relation {relation.value}" in found.message


@pytest.mark.slow
def test_a_plan_is_charged_at_least_what_it_claims():
    """The charge was for the model alone: it could be a unit less than the claim, and the run failed its own check."""
    for index in range(24):
        made = plan(noise_multiplier=0.7 + index / 300, rounds=5, epsilon="50")
        request = ChargeRequest(made.release, made.guarantee.relation, delta="1e-5", plan_hash=made.hash)
        charged = compute_cost(request, "approximate").amounts
        assert Decimal(charged["epsilon"]) >= Decimal(made.guarantee.epsilon)
        assert Decimal(charged["epsilon"]) - Decimal(made.guarantee.epsilon) < Decimal("2e-9")
