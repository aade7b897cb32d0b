"""Cycles are sums over charges that were started, whatever became of them; in use is a view that no cap sees."""

from dataclasses import replace

import pytest

from epsilog.accounting import epsilon
from epsilog.ledger import ChargeState, PlanSummary, open_ledger, read_cycles
from epsilog.ledger.cycles import convert_amount_to_epsilon, fold_cycles
from epsilog.mechanisms import Gaussian, GaussianDP, Laplace, PureDP, Repeated
from epsilog.terms import CheckError, LedgerIntegrityError, StorageError

PLAN = "a" * 64
OWNER = {"actor": "ann", "reason": "replaced"}


@pytest.fixture
def books(tmp_path):
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10", privacy_unit="client")
        yield ledger


def spend(books, scope, key, cost, *, plan=None, ends="commit"):
    charge = books.reserve(scope, PureDP(cost), key=key, plan_hash=plan)
    if ends == "reserve":
        return
    charge.start()
    if ends == "commit":
        charge.commit(evidence={})


def test_what_was_started_is_spent_cycle_after_cycle(books):
    spend(books, "acme/q3", "words", 1.0)
    spend(books, "acme/q4/anna", "emoji", 0.5)
    spend(books, "acme/q3", "typos", 0.25, ends="start")
    spend(books, "acme", "alone", 2.0)
    spend(books, "acme/q5", "promised", 3.0, ends="reserve")
    found = read_cycles(books, "acme")
    told = [(c.name, [r.key for r in c.releases], *(x["epsilon"] for x in (c.spent, c.lifetime))) for c in found.cycles]
    assert told == [
        ("q3", ["words", "typos"], "1.25", "1.25"),
        ("q4", ["emoji"], "0.5", "1.75"),
        ("alone", ["alone"], "2", "3.75"),
    ]
    assert found.budget.spent["epsilon"] == "3.75"
    assert found.epsilon(found.budget.spent) == 3.75


def test_a_decommissioned_model_stays_spent_and_is_not_in_use(books):
    spend(books, "acme/q3", "words", 1.0)
    spend(books, "acme/q4", "emoji", 0.5)
    before = books.balance("acme").available
    books.decommission("words", **OWNER)
    found = read_cycles(books, "acme")
    first, second = found.cycles
    assert (first.lifetime["epsilon"], first.active["epsilon"]) == ("1", "0")
    assert (second.lifetime["epsilon"], second.active["epsilon"]) == ("1.5", "0.5")
    (gone,) = first.releases
    assert (gone.state, gone.in_use, gone.ended) == (ChargeState.DECOMMISSIONED, False, "ann: replaced")
    assert found.budget.available == before
    told = found.to_json()
    assert told["lifetime"]["epsilon"] == "1.5"
    assert told["active"]["epsilon"] == "0.5"
    assert told["available"]["epsilon"] == "8.5"


def test_whatever_ends_without_a_commit_stays_spent_unless_it_never_began(books):
    for key, cost in (("crashed", 1.0), ("written", 0.5), ("given", 0.25)):
        spend(books, "acme/q3", key, cost, ends="start" if key == "crashed" else "reserve")
    books.abandon("crashed", **OWNER)
    books.abandon("written", **OWNER)
    books.revoke("given", **OWNER)
    (cycle,) = read_cycles(books, "acme").cycles
    assert {one.key: one.state for one in cycle.releases} == {
        "crashed": ChargeState.ABANDONED,
        "written": ChargeState.ABANDONED,
    }
    assert cycle.lifetime["epsilon"] == cycle.active["epsilon"] == "1.5"


def test_plans_say_period_name_and_population(books):
    spend(books, "acme", "one", 1.0, plan=PLAN)
    spend(books, "acme", "two", 1.0, plan="b" * 64)
    spend(books, "acme", "three", 1.0)
    plans = {PLAN: PlanSummary("words", "2026-Q3", 300), "b" * 64: PlanSummary("emoji", "2026-Q3", 280)}
    cycle, rest = read_cycles(books, "acme", plans=plans).cycles
    assert (cycle.name, cycle.populations, [one.name for one in cycle.releases]) == (
        "2026-Q3",
        (280, 300),
        ["words", "emoji"],
    )
    assert (rest.name, rest.populations) == ("three", ())
    strange = read_cycles(books, "acme", plans=plans | {"c" * 64: PlanSummary("other", "", 1)})
    assert strange.notes[-1] == "No charge that was started here names the plan of other."
    assert strange.cycles == (cycle, rest)
    unstated = read_cycles(books, "acme", plans={PLAN: PlanSummary("words", "", 300)}).cycles
    assert [one.name for one in unstated] == ["one", "two", "three"]


def test_a_price_on_an_owners_word_is_named(books):
    books.override_cost("acme", Laplace(0.1), key="v", amount={"epsilon": "0.5"}, reason="proof 12")
    books.charge("acme", Laplace(0.1), key="v", amount={"epsilon": "0.5"})
    found = read_cycles(books, "acme")
    assert found.allowed == ("v at acme",)
    assert "Exceptions: v at acme, with costs that the owner attests without proof." in found.notes[0]
    assert "Exceptions" not in read_cycles_of_nothing(books).notes[0]


def read_cycles_of_nothing(books):
    books.create_budget("other", kind="pure", epsilon="1")
    found = read_cycles(books, "other")
    assert found.cycles == ()
    assert found.to_json()["lifetime"] == {"epsilon": "0", "epsilon_upper_bound": 0.0}
    return found


@pytest.mark.parametrize(("kind", "caps"), [("zcdp", {"rho": "3"}), ("gdp", {"mu_squared": "6"})])
def test_epsilon_is_read_off_other_quantities_at_a_delta_and_from_above(books, kind, caps):
    books.create_budget("other", kind=kind, **caps)
    for key in ("one", "two", "three"):
        books.charge(f"other/{key}", Repeated(Gaussian(4.0), 3), key=key)
    found = read_cycles(books, "other", delta=1e-6)
    assert read_cycles(books, "other").to_json()["lifetime"]["epsilon_upper_bound"] is None
    shown = [found.epsilon(cycle.lifetime) for cycle in found.cycles]
    assert shown == sorted(shown)
    exact = epsilon(GaussianDP((9 / 16) ** 0.5), delta=1e-6)
    assert shown[-1] >= exact.lower
    assert shown[-1] < exact.upper * (1.001 if kind == "gdp" else 1.5)
    assert found.epsilon(found.budget.spent) == shown[-1]
    for wrong in (0.0, 1.0, float("nan"), -1e-6):
        with pytest.raises(CheckError, match="delta"):
            read_cycles(books, "other", delta=wrong)


def test_a_delta_is_for_budgets_that_need_one(books):
    with pytest.raises(CheckError, match="where a delta is given"):
        read_cycles(books, "acme", delta=1e-6)
    with pytest.raises(ValueError, match="scope"):
        read_cycles(books, "nowhere")
    assert convert_amount_to_epsilon(books.balance("acme").spent, books.balance("acme"), None) == 0.0


def test_entries_that_do_not_amount_to_the_balance_are_refused(books, monkeypatch):
    spend(books, "acme/q3", "words", 1.0)
    kept = list(books.history("acme"))
    monkeypatch.setattr(type(books), "history", lambda *_: iter(kept[:-2]))
    with pytest.raises(LedgerIntegrityError, match="do not add up"):
        read_cycles(books, "acme")


def test_a_ledger_that_others_write_to_is_read_again_and_then_given_up(books, monkeypatch):
    real, looks = type(books).history, []

    def written_to(often):
        def history(self, scope):
            looks.append(scope)
            entries = list(real(self, scope))
            if len(looks) <= often:
                self.charge("acme", PureDP(0.001), key=f"k{len(looks)}")
            return iter(entries)

        return history

    monkeypatch.setattr(type(books), "history", written_to(2))
    assert [one.name for one in read_cycles(books, "acme").cycles] == ["k1", "k2"]
    assert len(looks) == 3
    monkeypatch.setattr(type(books), "history", written_to(100))
    with pytest.raises(StorageError, match="read a backup"):
        read_cycles(books, "acme")


def test_a_budget_further_down_counts_in_its_own_quantity(books):
    books.create_budget("acme/q4", kind="approximate", epsilon="1", delta="1e-5", privacy_unit="client")
    books.charge("acme/q4", PureDP(0.5), key="y")
    (above,) = read_cycles(books, "acme").cycles
    (below,) = read_cycles(books, "acme/q4").cycles
    assert dict(above.spent) == {"epsilon": "0.5"}
    assert dict(below.spent) == {"epsilon": "0.5", "delta": "0"}
    (one,) = fold_cycles(books.balance("acme"), books.history("acme"), {})
    assert replace(one, state=ChargeState.DECOMMISSIONED).in_use is False
