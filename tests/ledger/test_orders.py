"""Budgets of Renyi divergence: all orders within their caps, or, where (epsilon, delta) is promised, some order."""

import csv
import json
import math
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from hypothesis import given, settings, strategies as st
from tests.extent import amount
from tests.ledger.stores import InMemory

from epsilog.accounting import epsilon, rdp, rdp_lower_bound
from epsilog.ledger import (
    Amounts,
    ChargeRequest,
    Ledger,
    compute_cost,
    export_entries,
    iterate_verified_documents,
    read_cycles,
    read_verified_entries,
    write_bundle,
)
from epsilog.ledger.amounts import make_rdp_quantity
from epsilog.ledger.cap_conversion import convert_caps_to_epsilon, convert_guarantee_to_caps, get_epsilon_of_caps
from epsilog.ledger.cost import bound_cost_below, compute_stated_cost
from epsilog.ledger.filters import get_privacy_filter
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    DiscreteGaussian,
    ExponentialMechanism,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
    ZeroConcentratedDP,
)
from epsilog.terms import (
    BudgetExceededError,
    ConflictError,
    LedgerIntegrityError,
    NeighboringRelation,
    UnsupportedMechanismError,
)

ADD_OR_REMOVE_ONE, REPLACE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
ORDERS = ("rdp_2", "rdp_4", "rdp_8", "rdp_16", "rdp_32", "rdp_64")
PROMISE = {"epsilon": "2", "delta": "1e-5", "orders": (8, 16, 32, 64)}
SAMPLED = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 100)


@pytest.fixture
def place(tmp_path):
    return InMemory(tmp_path)


@pytest.fixture
def ledger(place):
    with Ledger(place.open()) as books:
        yield books


def asked(release, relation=ADD_OR_REMOVE_ONE, **said):
    return ChargeRequest(release, relation, **said)


def test_an_order_has_one_name_and_is_above_1():
    assert [make_rdp_quantity(order) for order in (2, "2.0", 1.5, Fraction(5, 4), "65536")] == [
        *("rdp_2", "rdp_2", "rdp_1.5", "rdp_1.25", "rdp_65536")
    ]
    for order in (1, 0, "1.00001", "65536.5", 1e9, "nan", math.inf, Fraction(1, 3), None):
        with pytest.raises(ValueError, match="order must be"):
            make_rdp_quantity(order)
    for name in ("rdp_1", "rdp_2.0", "rdp_02", "rdp_", "rdp_2 ", "rdp_-2", "rdp_1e3", "rdp_70000", "rdp_٢"):
        with pytest.raises(ValueError, match="quantity must be one of"):
            Amounts({name: 1})


def test_amounts_at_orders_are_told_from_the_least_order_on():
    amounts = Amounts.from_charge({"rdp_16": "3e-16", "rdp_2": 0.5, "rdp_1.5": "0.25", "rho": "1"})
    assert dict(amounts) == {"rho": "1", "rdp_1.5": "0.25", "rdp_2": "0.5", "rdp_16": "0.000000000000001"}
    assert list(amounts) == ["rho", "rdp_1.5", "rdp_2", "rdp_16"]
    assert dict(amounts.part(["rdp_2"])) == {"rdp_2": "0.5"}
    with pytest.raises(ValueError, match="amounts must be of rdp_3"):
        amounts.part(["rdp_3"])


@given(noise=st.floats(0.6, 10), share=st.floats(1e-4, 0.5), count=st.integers(1, 1000))
@settings(max_examples=10, deadline=None)
def test_prices_are_those_of_another_library_and_never_below(noise, share, count):
    theirs = RdpAccountant([2, 4, 8, 16, 32, 64])
    theirs.compose(dp_event.PoissonSampledDpEvent(share, dp_event.GaussianDpEvent(noise)), count)
    request = asked(Repeated(PoissonSampled(Gaussian(noise), share), count))
    ours = compute_cost(request, "rdp", orders=ORDERS).amounts
    least = bound_cost_below(request, "rdp", ours)
    for quantity, their in zip(ORDERS, theirs._rdp, strict=True):
        assert their * (1 - 1e-9) <= Fraction(ours[quantity]) <= their * (1 + 1e-6) + 1e-11
        assert Fraction(least[quantity]) <= their * (1 + 1e-9)
        assert Fraction(least[quantity]) >= their * (1 - 2e-5) - 1e-11


def exact_sampled(order, noise, share):
    """The divergence of order ``order``, by integration to 30 digits: Mironov et al. 2019, Theorem 4."""
    with mpmath.workdps(30):

        def integrand(x):
            ratio = 1 - share + share * mpmath.exp((2 * x - 1) / (2 * noise**2))
            return mpmath.npdf(x, 0, noise) * ratio**order

        return mpmath.log(mpmath.quad(integrand, [-20 * noise, 0, order / 2, order, order + 20 * noise])) / (order - 1)


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize(
    ("order", "noise", "share"), [(2, 1.0, 0.01), (8, 0.8, 0.2), (1.5, 1.0, 0.1), (3.25, 2.0, 0.3)]
)
def test_what_is_attained_lies_below_the_truth_and_the_price_above(order, noise, share):
    release, quantity = PoissonSampled(Gaussian(noise), share), make_rdp_quantity(order)
    truth = exact_sampled(order, noise, share)
    charged = compute_cost(asked(release), "rdp", orders=[quantity]).amounts
    least = bound_cost_below(asked(release), "rdp", charged)
    assert float(least[quantity]) <= truth <= float(charged[quantity])
    if order == int(order):
        assert float(least[quantity]) > truth * (1 - 1e-4)


def divergence(p, q, order):
    return math.log(sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)


@pytest.mark.parametrize("order", [1.25, 2.0, 7.0])
def test_what_is_attained_is_what_finite_laws_have(order):
    flip = 0.3
    truth = divergence([0.85, 0.15], [0.15, 0.85], order)
    bound = rdp_lower_bound(RandomizedResponse(flip, 2), np.array([order]), relation=REPLACE_ONE)[0]
    assert truth * (1 - 1e-4) < bound <= truth
    loss = 0.7
    p = [math.exp(loss) / (1 + math.exp(loss)), 1 / (1 + math.exp(loss))]
    truth = 3 * divergence(p, p[::-1], order)
    bound = rdp_lower_bound(Repeated(PureDP(loss), 3), np.array([order]), relation=ADD_OR_REMOVE_ONE)[0]
    assert truth * (1 - 1e-4) < bound <= truth


def test_what_is_known_only_from_above_counts_for_nothing_from_below():
    orders = np.array([1.5, 2.0, 4.0])
    known = rdp_lower_bound(Laplace(2.0), orders, relation=ADD_OR_REMOVE_ONE)
    both = Composed([Laplace(2.0), DiscreteGaussian(3.0)])
    assert rdp_lower_bound(both, orders, relation=ADD_OR_REMOVE_ONE) == pytest.approx(known)
    assert (rdp(both, orders, relation=ADD_OR_REMOVE_ONE) > 1.1 * known).all()
    for unknown in (DiscreteGaussian(3.0), ExponentialMechanism(1.0)):
        assert rdp_lower_bound(unknown, orders, relation=ADD_OR_REMOVE_ONE) is None


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize(
    ("release", "rho"), [(ZeroConcentratedDP(0.1), Fraction(1, 10)), (GaussianDP(0.3), Fraction(9, 200))]
)
def test_a_statement_costs_what_it_states_times_the_order(release, rho, relation):
    found = compute_stated_cost(asked(release, relation), "rdp", orders=["rdp_1.5", "rdp_8"])
    assert dict(found.amounts) == dict(Amounts.from_charge({"rdp_1.5": rho * 3 / 2, "rdp_8": rho * 8}))
    assert bound_cost_below(asked(release, relation), "rdp", found.amounts) == found.amounts


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_gaussian_costs_its_order_times_half_the_square(relation):
    far = 2 if relation is REPLACE_ONE else 1
    found = compute_cost(asked(Repeated(Gaussian(2.0), 5), relation), "rdp", orders=ORDERS)
    for quantity, order in zip(ORDERS, (2, 4, 8, 16, 32, 64), strict=True):
        truth = Fraction(5 * order * far**2, 8)
        assert 0 <= Fraction(found.amounts[quantity]) - truth < truth * Fraction(1, 10**12) + Fraction(2, 10**15)


def test_what_has_no_divergence_is_refused(ledger):
    ledger.create_budget("a", kind="rdp", rdp_2="1")
    with pytest.raises(BudgetExceededError):
        ledger.charge("a", ApproximateDP(0.1, 1e-6), key="1")
    with pytest.raises(UnsupportedMechanismError):
        ledger.charge("a", PoissonSampled(Laplace(1.0), 0.1), key="1")
    assert ledger.head()[0] == 1


# --- what (epsilon, delta) promises


@pytest.mark.parametrize(
    ("eps", "delta", "orders"), [("2", "1e-5", (8, 16, 32)), ("0.5", "1e-9", (64, 128)), ("9", "0.01", (2,))]
)
def test_each_cap_keeps_the_promise_at_its_share_of_delta_and_hardly_more_would(eps, delta, orders):
    promise = Amounts.from_cap({"epsilon": eps, "delta": delta})
    caps = convert_guarantee_to_caps("rdp", promise, ADD_OR_REMOVE_ONE, [make_rdp_quantity(order) for order in orders])
    for order, cap in zip(orders, caps.values(), strict=True):
        theirs, _ = rdp_privacy_accountant.compute_epsilon([order], [float(cap)], float(delta) / len(orders))
        assert float(eps) * (1 - 1e-8) < theirs <= float(eps) * (1 + 1e-12)
    assert get_epsilon_of_caps("rdp", caps, delta=delta, relation=ADD_OR_REMOVE_ONE) <= float(eps)
    half = Amounts({quantity: units // (index + 1) for index, (quantity, units) in enumerate(caps.units.items())})
    readings = [
        rdp_privacy_accountant.compute_epsilon([order], [float(spent)], float(delta) / len(orders))[0]
        for order, spent in zip(orders, half.values(), strict=True)
    ]
    assert convert_caps_to_epsilon("rdp", half, delta=delta, relation=ADD_OR_REMOVE_ONE) == pytest.approx(
        min(readings), rel=1e-9
    )


FLIPS = (0.2, 0.5, 0.8, 0.95)  # of randomized responses, the strongest first
SOME = ("rdp_2", "rdp_4", "rdp_16")


def laws(flip):
    return np.array([1 - flip / 2, flip / 2]), np.array([flip / 2, 1 - flip / 2])


def worst_delta(caps, epsilon, seed):
    """The exact hockey-stick divergence of an adversary's answers, over the whole tree of what it may see.

    After each answer it picks what to ask next at random, as its seed has it, of what the filter of such a budget lets
    through; it goes on as long as anything fits, ten answers at most.
    """
    costs = [
        compute_cost(asked(RandomizedResponse(flip, 2), REPLACE_ONE), "rdp", orders=SOME).amounts for flip in FLIPS
    ]
    rule, total = get_privacy_filter("rdp", promised=True), 0.0
    todo = [(np.ones(2), Amounts.zero(SOME), 10, (seed,))]
    while todo:
        chances, held, left, seen = todo.pop()
        free = [i for i, cost in enumerate(costs) if rule.fits(caps, held=held, asked=cost)]
        if not left or not free:
            total += max(chances[0] - math.exp(epsilon) * chances[1], 0.0)
            continue
        choice = free[int(np.random.default_rng(seen).integers(len(free)))]
        p, q = laws(FLIPS[choice])
        for answer in range(2):
            chance = chances * np.array([p[answer], q[answer]])
            todo.append((chance, held + costs[choice], left - 1, (*seen, answer)))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_adversary_that_chooses_by_what_it_sees_stays_within_the_promise_and_beyond_with_larger_caps(seed):
    promise = Amounts.from_cap({"epsilon": "2.5", "delta": "0.15"})
    caps = convert_guarantee_to_caps("rdp", promise, REPLACE_ONE, SOME)
    assert worst_delta(caps, 2.5, seed) <= 0.15
    larger = Amounts({quantity: 6 * units for quantity, units in caps.units.items()})
    assert worst_delta(larger, 2.5, seed) > 0.15


@pytest.mark.parametrize(
    ("caps", "says"),
    [
        ({"epsilon": "2", "delta": "1e-5"}, "caps of a rdp budget must be rdp_2 for order 2"),
        ({"epsilon": "2", "delta": "1e-5", "orders": ()}, "orders must be 1 to 32"),
        ({"epsilon": "2", "delta": "1e-5", "orders": (8, 8)}, "orders must be 1 to 32, each once"),
        ({"epsilon": "2", "delta": "1e-5", "orders": range(2, 40)}, "orders must be 1 to 32"),
        ({"epsilon": "2", "delta": "1e-5", "orders": (2, 16)}, r"at order 2 a divergence of 0 converts to .*omit it"),
        ({"epsilon": "2", "delta": "1e-18", "orders": (2, 16)}, "orders must be such that each can guarantee"),
        ({"epsilon": "2", "delta": "1e-5", "orders": (1, 16)}, "order must be above 1"),
        ({"epsilon": "2", "delta": "0", "orders": (16,)}, "delta must be above 0"),
        ({"epsilon": "0", "delta": "1e-5", "orders": (16,)}, "epsilon must be above 0"),
        ({"rdp_2": "1", "orders": (2,)}, "caps of a rdp budget must be"),
        ({"rdp_2": "1", "epsilon": "1"}, "caps of a rdp budget must be"),
        ({"rdp_2": "1e-16"}, "rdp_2 must be 0 or at least one unit"),
        ({f"rdp_{order}": "1" for order in range(2, 40)}, "caps of a rdp budget must be"),
        ({}, "caps of a rdp budget must be"),
    ],
)
def test_what_is_no_budget_of_orders_is_refused_and_nothing_is_written(ledger, caps, says):
    with pytest.raises(ValueError, match=says):
        ledger.create_budget("acme", kind="rdp", **caps)
    with pytest.raises(ValueError, match="caps of a zcdp budget"):
        ledger.create_budget("acme", kind="zcdp", epsilon="1", delta="1e-5", orders=(2,))
    assert ledger.head()[0] == 0


# --- the two rules, in a ledger


def test_every_order_must_fit_where_each_has_a_cap_of_its_own(ledger):
    made = ledger.create_budget("a", kind="rdp", rdp_2="1", rdp_8="3")
    assert dict(made.caps) == {"rdp_2": "1", "rdp_8": "3"}
    ledger.charge("a", ZeroConcentratedDP(0.3), key="1")
    with pytest.raises(BudgetExceededError) as refused:
        ledger.charge("a", ZeroConcentratedDP(0.1), key="2")
    assert refused.value.shortfall == {"rdp_8": "0.2"}
    assert refused.value.available == {"rdp_2": "0.4", "rdp_8": "0.6"}
    assert "at most rdp_2 0.4, rdp_8 0.6 fits" in str(refused.value)
    assert ledger.get_headroom("a", ZeroConcentratedDP(0.03)).charges == 2
    ledger.charge("a", ZeroConcentratedDP(0.075), key="3")
    assert dict(ledger.balance("a").available) == {"rdp_2": "0.25", "rdp_8": "0"}
    assert ledger.get_headroom("a", ZeroConcentratedDP(0.03)).charges == 0
    assert ledger.verify().rechecked == 2


def test_some_order_is_enough_where_epsilon_and_delta_are_promised(ledger):
    made = ledger.create_budget("a", kind="rdp", **PROMISE)
    assert set(made.caps) == {"rdp_8", "rdp_16", "rdp_32", "rdp_64"}
    ledger.charge("a", SAMPLED, key="0")  # takes the upper orders beyond their caps, and they are never of use again
    assert dict(ledger.balance("a").available).keys() == made.caps.keys()
    assert [order for order, left in ledger.balance("a").available.items() if left != "0"] == ["rdp_8"]
    fits = ledger.get_headroom("a", SAMPLED).charges
    keys = [str(number) for number in range(1, fits + 1)]
    for key in keys:
        ledger.charge("a", SAMPLED, key=key)
    with pytest.raises(BudgetExceededError) as refused:
        ledger.charge("a", SAMPLED, key="last")
    assert set(refused.value.shortfall) == set(made.caps)
    assert f"at most rdp_8 {ledger.balance('a').available['rdp_8']} fits" in str(refused.value)
    verified = ledger.verify()
    assert verified.balances["a"].total_reserved.units["rdp_8"] <= made.caps.units["rdp_8"]
    assert verified.balances["a"].total_reserved.units["rdp_16"] > made.caps.units["rdp_16"]
    assert verified.rechecked == fits + 1
    assert "Lecuyer 2021" in made.theorem
    assert "Lecuyer" not in get_privacy_filter("rdp").theorem


def test_an_order_beyond_its_cap_takes_nothing_more_not_even_what_costs_nothing_there(ledger):
    made = ledger.create_budget("a", kind="rdp", **PROMISE)
    odd = {"rdp_8": made.caps["rdp_8"], "rdp_16": "9", "rdp_32": "9", "rdp_64": "9"}
    ledger.override_cost("a", Gaussian(9.0), key="1", amount=odd, reason="a test")
    ledger.charge("a", Gaussian(9.0), key="1", amount=odd)
    free = {"rdp_8": "1", "rdp_16": "0", "rdp_32": "0", "rdp_64": "0"}
    ledger.override_cost("a", Gaussian(9.0), key="2", amount=free, reason="a test")
    with pytest.raises(BudgetExceededError):
        ledger.charge("a", Gaussian(9.0), key="2", amount=free)
    assert not ledger.get_headroom("a", Gaussian(9.0)).charges


def test_each_budget_on_a_path_is_charged_in_its_own_quantities(ledger):
    ledger.create_budget("a", kind="pure", epsilon="5")
    ledger.create_budget("a/b", kind="rdp", rdp_2="1", rdp_8="3")
    ledger.create_budget("a/b/c", kind="zcdp", rho="1")
    ledger.create_budget("a/b/c/d", kind="rdp", **PROMISE)
    charge = ledger.reserve("a/b/c/d/e", PureDP(0.5), key="1")
    assert {kind: list(amount) for kind, amount in charge.amounts.items()} == {
        "pure": ["epsilon"],
        "rdp": ["rdp_2", "rdp_8", "rdp_16", "rdp_32", "rdp_64"],
        "zcdp": ["rho"],
    }
    with pytest.raises(BudgetExceededError, match=r"'a/b' refuses.*at most epsilon 4\.5, .*rdp_8 0\.\d+ or rdp_16"):
        ledger.charge("a/b/c/d", PureDP(1.4), key="2")
    charge.start()
    charge.commit()
    assert list(ledger.balance("a/b").spent) == ["rdp_2", "rdp_8"]
    assert list(ledger.balance("a/b/c/d").spent) == ["rdp_8", "rdp_16", "rdp_32", "rdp_64"]
    entry, total = ledger.spending("a/b")[-1]
    assert dict(total) == dict(ledger.balance("a/b").cost(entry.amounts)) == dict(ledger.balance("a/b").spent)
    assert ledger.verify().count == 7


def test_a_stated_amount_is_at_least_what_is_proved_at_every_order(ledger):
    ledger.create_budget("a", kind="rdp", rdp_2="10", rdp_8="50")
    for stated in ({"rdp_2": "1"}, {"rdp_2": "1", "rdp_8": "3.9"}, {"rdp_2": "0.9", "rdp_8": "5"}):
        with pytest.raises(ValueError, match="amount must"):
            ledger.charge("a", Gaussian(1.0), key="1", amount=stated)
    charge = ledger.charge("a", Gaussian(1.0), key="1", amount={"rdp_2": "1.01", "rdp_8": "4.01"})
    assert dict(charge.amounts["rdp"]) == {"rdp_2": "1.01", "rdp_8": "4.01"}


def test_a_charge_below_what_neighbors_attain_is_found(place, ledger, monkeypatch):
    ledger.create_budget("a", kind="rdp", rdp_2="10", rdp_8="50")
    monkeypatch.setattr("epsilog.accounting.rdp", lambda *given, relation: 0.999 * rdp(*given, relation=relation))
    ledger.charge("a", SAMPLED, key="1")
    with pytest.raises(LedgerIntegrityError, match="its release costs at least") as caught:
        ledger.verify()
    assert caught.value.index == 2


def test_a_charge_at_orders_that_no_budget_has_is_found(ledger, monkeypatch):
    ledger.create_budget("a", kind="rdp", rdp_2="10")
    for module in ("balances", "headroom", "commands.base"):
        monkeypatch.setattr(f"epsilog.ledger.{module}.list_cost_quantities", lambda _: {"rdp": ("rdp_2", "rdp_3")})
    ledger.charge("a", Gaussian(1.0), key="1")
    monkeypatch.undo()
    with pytest.raises(LedgerIntegrityError, match="must be charged as") as caught:
        ledger.verify()
    assert caught.value.index == 2


def test_caps_that_do_not_keep_their_promise_are_found(ledger, monkeypatch):
    honest = convert_guarantee_to_caps(
        "rdp", Amounts.from_cap({"epsilon": "2", "delta": "1e-5"}), ADD_OR_REMOVE_ONE, ORDERS[2:]
    )
    units = dict(honest.units) | {"rdp_32": honest.units["rdp_32"] * 1001 // 1000}
    monkeypatch.setattr("epsilog.ledger.cap_conversion.convert_guarantee_to_caps", lambda *_: Amounts(units))
    ledger.create_budget("a", kind="rdp", **PROMISE)
    with pytest.raises(LedgerIntegrityError, match=r"guarantees .*epsilon 2\.00"):
        ledger.verify()


def test_a_budget_made_again_has_the_same_orders_and_a_cap_is_changed_as_it_was_stated(place, ledger, tmp_path):
    made = ledger.create_budget("a", kind="rdp", **PROMISE)
    assert ledger.create_budget("a", kind="rdp", **PROMISE) == made
    plain = ledger.create_budget("b", kind="rdp", rdp_2="1", rdp_4="2")
    assert ledger.create_budget("b", kind="rdp", rdp_4="2", rdp_2="1") == plain
    for scope, other in (
        ("a", PROMISE | {"orders": (8, 16, 32)}),
        ("a", dict(made.caps)),
        ("b", {"rdp_2": "1"}),
        ("b", {"rdp_2": "1", "rdp_8": "2"}),
    ):
        with pytest.raises(ConflictError):
            ledger.create_budget(scope, kind="rdp", **other)
    act = {"actor": "dora", "reason": "agreed"}
    raised = ledger.set_cap("a", epsilon="3", delta="1e-5", **act)
    assert all(raised.caps.units[order] > units for order, units in made.caps.units.items())
    ledger.set_cap("b", rdp_2="2", rdp_4="1", **act)
    for scope, other in (("a", dict(made.caps)), ("b", {"rdp_2": "1"}), ("b", {"epsilon": "1", "delta": "1e-5"})):
        with pytest.raises(
            (ValueError, ConflictError), match=r"caps of (a rdp|the) budget|cap of the budget of '. is stated by"
        ):
            ledger.set_cap(scope, **other, **act)
    verified = ledger.verify()
    assert dict(verified.balances["b"].caps) == {"rdp_2": "2", "rdp_4": "1"}
    ledger.close()
    with Ledger(place.open()) as again:
        write_bundle(iterate_verified_documents(again), tmp_path / "l.bundle", origin="acme")
        assert again.balance("a") == raised
    assert read_verified_entries(tmp_path / "l.bundle").verified.balances == verified.balances


def test_a_share_is_set_aside_at_every_order_and_none_of_a_budget_where_some_order_is_enough(ledger):
    ledger.create_budget("a", kind="rdp", rdp_2="1", rdp_8="4")
    ledger.create_budget("a/q", kind="rdp", rdp_2="0.5", rdp_8="1", quota=True)
    assert dict(ledger.balance("a").available) == {"rdp_2": "0.5", "rdp_8": "3"}
    with pytest.raises(ConflictError, match="orders of a quota must be"):
        ledger.create_budget("a/r", kind="rdp", rdp_2="0.1", quota=True)
    with pytest.raises(BudgetExceededError):
        ledger.charge("a/x", ZeroConcentratedDP(0.26), key="1")
    ledger.charge("a/q", ZeroConcentratedDP(0.125), key="2")
    assert dict(ledger.balance("a").available) == {"rdp_2": "0.5", "rdp_8": "3"}
    ledger.create_budget("b", kind="rdp", **PROMISE)
    for scope, caps in (("b/q", PROMISE), ("b/q", {f"rdp_{order}": "0.1" for order in (8, 16, 32, 64)})):
        with pytest.raises(ConflictError, match="allows no quota"):
            ledger.create_budget(scope, kind="rdp", quota=True, **caps)
    ledger.verify()


def test_cycles_and_tables_tell_orders(ledger, tmp_path):
    ledger.create_budget("a", kind="rdp", rdp_2="3", rdp_16="9")
    ledger.create_budget("a/b", kind="rdp", rdp_8="9")
    for number in range(3):
        ledger.charge(f"a/b/{number}", Gaussian(5.0), key=str(number))
    found = read_cycles(ledger, "a", delta=1e-5)
    assert list(found.cycles[0].spent) == ["rdp_2", "rdp_16"]
    sums = [found.epsilon(cycle.lifetime) for cycle in found.cycles] + [found.epsilon(found.budget.spent)]
    assert all(earlier <= later for earlier, later in pairwise(sums))
    theirs, _ = rdp_privacy_accountant.compute_epsilon([16], [16 * 3 / 50], 1e-5 / 2)
    assert sums[-1] == pytest.approx(theirs, rel=1e-9)
    export_entries(ledger.history(), tmp_path / "entries.csv")
    rows = list(csv.DictReader((tmp_path / "entries.csv").read_text().splitlines()))
    assert rows[0]["rdp"] == ""
    told = {order: float(amount) for order, amount in json.loads(rows[2]["rdp"]).items()}
    assert told == pytest.approx({"rdp_2": 0.04, "rdp_8": 0.16, "rdp_16": 0.32})


@pytest.mark.slow
def test_as_many_plans_fit_as_the_page_says():
    """Basic composition shares delta out evenly; the last figure is one plan, priced whole."""
    said = re.search(
        r"basic composition, (\d+) under\s+`rdp` with\s+the\s+orders above \((\d+) if\s+all",
        Path("docs/ledger.md").read_text(),
    )
    basic = int(re.search(r"(\d+) under basic composition", Path("docs/ledger.md").read_text())[1])
    plan = Repeated(PoissonSampled(Gaussian(2.0), 0.01), 100)
    promise = Amounts.from_cap({"epsilon": "2", "delta": "1e-5"})
    caps = convert_guarantee_to_caps(
        "rdp", promise, ADD_OR_REMOVE_ONE, [make_rdp_quantity(order) for order in (8, 12, 16, 24, 32)]
    )
    cost = compute_cost(asked(plan), "rdp", orders=list(caps)).amounts
    assert int(said[1]) == max(caps.units[order] // cost.units[order] for order in caps)
    costs = [k * epsilon(plan, delta=1e-5 / k).upper for k in (basic, basic + 1)]
    assert costs[0] <= 2 < costs[1]
    costs = [epsilon(Repeated(plan, k), delta=1e-5).upper for k in (int(said[2]), int(said[2]) + 1)]
    assert costs[0] <= 2 < costs[1]


UNITS = st.integers(0, 6)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["top/x", "top/low/y"]), UNITS, UNITS, UNITS, st.sampled_from(["keep", "start", "cancel"])
    ),
    max_size=12,
)


@pytest.mark.slow
@given(steps=STEPS, promised=st.booleans())
@settings(max_examples=amount(8, 25), deadline=None)
def test_both_rules_are_those_of_a_model_in_whole_numbers(steps, promised):
    """Amounts of any shape, on an owner's word: reserved, and then left, started or given back."""
    with Ledger(InMemory(None).open()) as ledger:
        if promised:
            caps = {"top": ledger.create_budget("top", kind="rdp", **PROMISE | {"orders": (8, 16)}).caps.units}
        else:
            caps = {"top": ledger.create_budget("top", kind="rdp", rdp_8="2", rdp_16="4").caps.units}
        caps["top/low"] = ledger.create_budget("top/low", kind="rdp", rdp_4="1").caps.units
        held = {scope: dict.fromkeys(cap, 0) for scope, cap in caps.items()}
        for number, (scope, four, eight, sixteen, then) in enumerate(steps):
            asked_ = {"rdp_4": four, "rdp_8": eight, "rdp_16": sixteen}
            on_path = [budget for budget in caps if scope.startswith(budget)]
            amount = {q: Fraction(n, 5) for q, n in asked_.items() if any(q in caps[budget] for budget in on_path)}
            units = {q: n * 10**15 // 5 for q, n in asked_.items()}
            fit = {budget: [held[budget][q] + units[q] <= cap for q, cap in caps[budget].items()] for budget in on_path}
            fits = all(any(each) if promised and budget == "top" else all(each) for budget, each in fit.items())
            ledger.override_cost(scope, Gaussian(1.0), key=str(number), amount=amount, reason="a test")
            try:
                charge = ledger.reserve(scope, Gaussian(1.0), key=str(number), amount=amount)
            except BudgetExceededError:
                assert not fits
                continue
            assert fits
            if then == "cancel":
                charge.cancel("not needed")
                continue
            for budget in on_path:
                held[budget] = {q: before + units[q] for q, before in held[budget].items()}
            if then == "start":
                charge.start()
        verified = ledger.verify()
        assert {scope: dict(balance.total_reserved.units) for scope, balance in verified.balances.items()} == held
