import pytest

from epsilog.accounting import epsilon
from epsilog.ledger import Headroom
from epsilog.mechanisms import ApproximateDP, Composed, Gaussian, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.terms import BudgetExceededError, UnsupportedMechanismError

STEP = PoissonSampled(Gaussian(noise_multiplier=1.0), sampling_probability=0.01)


@pytest.fixture
def budget(ledger):
    ledger.create_budget("acme", kind="approximate", epsilon="4", delta="1e-5")
    return ledger


def test_the_charge_is_the_certified_upper_bound_rounded_up(budget):
    upper = epsilon(Repeated(STEP, 1000), delta=1e-5).upper
    charge = budget.reserve("acme/claims", Repeated(STEP, 1000), key="run", delta="1e-5")
    charged = float(charge.amounts["approximate"]["epsilon"])
    assert upper <= charged <= upper + 1e-9
    assert charge.amounts["approximate"]["delta"] == "0.00001"
    assert next(budget.history("acme/claims")).body["methods"]["approximate"]


@pytest.mark.slow
def test_a_refused_plan_learns_how_many_repetitions_fit(budget):
    step = Gaussian(noise_multiplier=8.0)
    with pytest.raises(BudgetExceededError, match="of the 90 repetitions as one plan") as refusal:
        budget.reserve("acme", Repeated(step, 90), key="long", delta="1e-5")
    headroom = budget.get_headroom("acme", Repeated(step, 90), delta="1e-5")
    assert f"or {headroom.repetitions} of the 90" in refusal.value.hint
    assert headroom.charges == 0
    assert budget.get_headroom("acme", Repeated(step, 3), delta="1e-5") == Headroom(
        headroom.available, 1, headroom.repetitions
    )
    with pytest.raises(BudgetExceededError):
        budget.reserve("acme", Repeated(step, headroom.repetitions + 1), key="too long", delta="1e-5")
    budget.reserve("acme", Repeated(step, headroom.repetitions), key="fits", delta="1e-5")


def test_headroom_is_the_least_on_the_path_and_counts_charges(budget):
    budget.create_budget("acme/claims", kind="pure", epsilon="1")
    budget.create_budget("acme/claims/anna", kind="pure", epsilon="2")
    budget.charge("acme/claims", PureDP(0.25), key="1")
    assert budget.get_headroom("acme/claims/anna") == Headroom({"epsilon": "0.75", "delta": "0.00001"})
    assert budget.get_headroom("acme/claims/anna", PureDP(0.2)).charges == 3
    assert budget.get_headroom("acme", PureDP(0.25)).charges == 15
    assert budget.get_headroom("acme", ApproximateDP(0.25, 4e-6)).charges == 2
    assert budget.get_headroom("acme", PureDP(0)).charges is None
    assert budget.get_headroom("acme/claims", ApproximateDP(0.1, 1e-6)).charges == 0


def test_delta_is_asked_for_where_it_is_needed(budget):
    with pytest.raises(ValueError, match="delta must be given"):
        budget.reserve("acme", STEP, key="run")
    with pytest.raises(ValueError, match="scope must lie at or under a budget"):
        budget.get_headroom("other")


def test_kinds_without_a_proven_price_say_so(ledger):
    ledger.create_budget("z", kind="zcdp", rho="1")
    ledger.create_budget("g", kind="gdp", mu_squared="1")
    for scope, amount in (("z", {"rho": "0.1"}), ("g", {"mu_squared": "0.1"})):
        for stated in (None, amount):
            with pytest.raises(UnsupportedMechanismError, match="override_cost"):
                ledger.reserve(scope, STEP, key=scope, amount=stated)
        ledger.override_cost(scope, STEP, key=scope, amount=amount, reason="worked out by hand: folder 7")
        (charged,) = ledger.reserve(scope, STEP, key=scope, amount=amount).amounts.values()
        assert charged == amount


@pytest.mark.parametrize("release", [Laplace(2.0), Repeated(Laplace(10.0), 5), Composed([Laplace(4.0), PureDP(0.25)])])
def test_releases_that_are_pure_are_charged_without_a_delta(ledger, release):
    ledger.create_budget("pure", kind="pure", epsilon="1")
    ledger.create_budget("approximate", kind="approximate", epsilon="1", delta="1e-5")
    pure = ledger.charge("pure", release, key="1").amounts["pure"]
    approximate = ledger.charge("approximate", release, key="2").amounts["approximate"]
    assert 0.5 <= float(pure["epsilon"]) <= 0.500000002
    assert dict(approximate) == {"epsilon": pure["epsilon"], "delta": "0"}
    with pytest.raises(BudgetExceededError, match="requested epsilon inf"):
        ledger.charge("pure", Composed([release, Gaussian(100.0)]), key="3")
