"""What is said to fit is what is charged: one comparison with the caps, whatever was made and charged before."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings, strategies as st
from tests.extent import amount
from tests.ledger.stores import Memory, MemoryStore

from epsilog.ledger import Ledger
from epsilog.mechanisms import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from epsilog.terms import BudgetExceededError, ConflictError, EpsilogError, NeighboringRelation

ACT = {"actor": "dora", "reason": "agreed"}
SCOPES = ["r", "r/a", "r/a/x", "r/b", "r/p", "r/p/1", "r/p/1/y", "r/p/2"]
TENTHS = st.integers(0, 8).map(lambda n: f"0.{n}" if n < 10 else "1")
MILLIONTHS = st.integers(0, 4).map(lambda n: f"0.00000{n}")
ORDERS = st.lists(st.sampled_from(["rdp_2", "rdp_8", "rdp_32"]), min_size=1, max_size=3, unique=True)


def caps_of(kind, draw):
    match kind:
        case "pure":
            return {"epsilon": draw(TENTHS)}
        case "approximate":
            return {"epsilon": draw(TENTHS), "delta": draw(MILLIONTHS)}
        case "zcdp":
            return {"rho": draw(TENTHS)}
        case "gdp":
            return {"mu_squared": draw(TENTHS)}
        case "rdp":
            return {order: draw(TENTHS) for order in draw(ORDERS)}
        case "target_guarantee":  # some order is enough
            return {"epsilon": draw(st.sampled_from(["2", "3", "4"])), "delta": "1e-6"}
    raise AssertionError(kind)


EPSILONS = [PureDP(0.0), PureDP(0.1), PureDP(0.3), ApproximateDP(0.0, 1e-6), ApproximateDP(0.1, 2e-6)]
RHOS = [ZeroConcentratedDP(0.0), ZeroConcentratedDP(0.1), ZeroConcentratedDP(0.03)]
MUS = [GaussianDP(0.0), GaussianDP(0.3), GaussianDP(0.5)]
FAMILIES = [
    (("pure", "approximate"), EPSILONS),
    (("zcdp", "rdp", "target_guarantee"), RHOS),
    (("gdp", "rdp", "target_guarantee"), MUS),
]


def make(ledger, draw, scope, kinds):
    kind = draw(st.sampled_from(kinds))
    caps = caps_of(kind, draw)
    terms = {
        "relation": draw(
            st.sampled_from([NeighboringRelation.ADD_OR_REMOVE_ONE] * 9 + [NeighboringRelation.REPLACE_ONE])
        ),
        "simulation": draw(st.integers(0, 9)) == 9,
        "privacy_unit": "person",
        "quota": scope != "r" and draw(st.booleans()),
    }
    if kind == "target_guarantee":
        ledger.create_budget(scope, kind="rdp", orders=["16", "64"], **terms, **caps)
    else:
        ledger.create_budget(scope, kind=kind, **terms, **caps)


def happen(ledger, draw, number, kinds, releases):
    """One step of a life; what is refused changes nothing."""
    scope, key = draw(st.sampled_from(SCOPES)), f"k{number}"
    match draw(st.integers(0, 6)):
        case 0 | 1:
            make(ledger, draw, scope, kinds)
        case 2:
            above = [one for one in ledger.budgets_above("r/p") if one.scope != "r/p"]
            ledger.declare_partition("r/p", **ACT, **dict.fromkeys(above[-1].caps, "0.4"))
        case 3:
            ledger.charge(scope, draw(st.sampled_from(releases)), key=key)
        case 4:
            charge = ledger.reserve(scope, draw(st.sampled_from(releases)), key=key)
            if draw(st.booleans()):
                charge.cancel("no")
        case 5:
            there = ledger.balance(scope)
            if there.target_guarantee is None:
                numbers = {q: draw(MILLIONTHS if q == "delta" else TENTHS) for q in there.caps}
            else:
                numbers = {"epsilon": draw(st.sampled_from(["1.5", "2", "3"])), "delta": "1e-6"}
            ledger.set_cap(scope, **ACT, **numbers)
        case 6:
            if draw(st.integers(0, 3)) == 0:
                ledger.retire(scope, **ACT)


def outcome(do):
    """What something gives, or the class of its refusal."""
    try:
        return do(), None
    except (EpsilogError, ValueError) as error:
        return None, error


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "releases"), FAMILIES, ids=["epsilon", "rho", "mu"])
@settings(
    max_examples=amount(50, 150),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_charge_fits_if_and_only_if_it_is_accepted(kinds, releases, data):
    ledger = Ledger(MemoryStore(Memory()))
    for number in range(data.draw(st.integers(1, 12))):
        with suppress(EpsilogError, ValueError, IndexError):
            happen(ledger, data.draw, number, kinds, releases) if number else make(ledger, data.draw, "r", kinds)
    if data.draw(st.integers(0, 19)) == 19:
        ledger.mark_restored(**ACT)
    scope, release = data.draw(st.sampled_from(SCOPES)), data.draw(st.sampled_from(releases))
    path = ledger.budgets_above(scope)
    fits, refused = outcome(lambda: ledger.get_headroom(scope, release))
    simulation = bool(path) and path[-1].simulation
    charged = 0
    while charged < 4:
        key = f"x{charged}"
        made, error = outcome(lambda key=key: ledger.charge(scope, release, key=key, simulation=simulation))
        if made is None:
            break
        charged += 1
    if refused is not None:
        assert charged == 0, (error, refused)
        event(f"both raise {type(error).__name__}")
        return
    assert charged == min(4, 4 if fits.charges is None else fits.charges), (fits, charged, error)
    event("fits" if charged else "does not fit")
    if charged < 4:
        assert isinstance(error, BudgetExceededError), error
        check_told(error, [one.scope for one in path])


def check_told(error, scopes):
    """A refusal names the budget, what was asked, what is left, and who may raise it, unless nobody may."""
    assert error.scope in scopes
    assert error.requested.keys() == error.available.keys() == error.caps.keys()
    assert error.shortfall or error.reason, "it does not say what is missing"
    nobody_may = error.reason or "no cap is high enough" in error.hint
    assert (error.owners == ()) is bool(nobody_may)
    assert set(error.owners) <= set(scopes)
    for part in (error.scope, "requested", "available", *error.owners):
        assert part in str(error)


def test_a_refusal_tells_of_shares_that_stand_above_a_lowered_cap():
    ledger = Ledger(MemoryStore(Memory()))
    ledger.create_budget("r", kind="approximate", epsilon="1", delta="1e-5")
    ledger.create_budget("r/a", kind="approximate", epsilon="0.8", delta="1e-6", quota=True)
    ledger.set_cap("r", epsilon="0.5", delta="1e-5", **ACT)
    assert ledger.get_headroom("r", ApproximateDP(0.0, 1e-7)).charges == 0
    assert ledger.get_headroom("r").available == {"epsilon": "0", "delta": "0"}
    with pytest.raises(BudgetExceededError) as refused:
        ledger.charge("r", ApproximateDP(0.0, 1e-7), key="k")
    assert (refused.value.shortfall, refused.value.owners) == ({"epsilon": "0.3"}, ("r",))
    assert refused.value.set_aside == {"epsilon": "0.8", "delta": "0.000001"}


def test_what_a_mixed_path_refuses_does_not_fit_it():
    ledger = Ledger(MemoryStore(Memory()))
    ledger.create_budget("r", kind="pure", epsilon="1", relation=NeighboringRelation.REPLACE_ONE)
    ledger.create_budget("r/a", kind="pure", epsilon="1")
    for do in (lambda: ledger.get_headroom("r/a", PureDP(0.1)), lambda: ledger.charge("r/a", PureDP(0.1), key="k")):
        with pytest.raises(ConflictError, match="relation must be that of the budget of 'r'"):
            do()
