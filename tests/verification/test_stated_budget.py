"""The budget that a run config states is a cap: it is spent once, whatever the budgets above it would bear."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.ledger import Amounts, Charge, open_ledger
from epsilog.mechanisms import PureDP
from epsilog.pipeline import steps
from epsilog.pipeline.steps import make_charge_key, reserve_plan
from epsilog.plan import RegisteredPlan
from epsilog.reports import build_report, render_html, render_markdown, verify_run
from epsilog.terms import BudgetExceededError, CheckError, ConfigError, NeighboringRelation
from epsilog.verification import LedgerReader, read_evidence, read_run_folder, verify_evidence


def plan_of(name, *, stated="1", delta="1e-5", scope="acme/2026", simulation=True):
    """A plan that costs between half of the stated budget and all of it."""
    plan = make_plan(name=name, simulation=simulation)
    budget = {**plan.budget, "scope": scope, "epsilon": stated, "delta": delta}
    plan = replace(plan, budget=budget)
    assert 0.5 < plan.guarantee.epsilon / float(stated) <= 1
    return plan


@pytest.fixture
def ledger(tmp_path):
    """A ledger whose one budget stands above the run configs' scope and has room for a thousand of them."""
    with open_ledger(tmp_path / "ledger.db") as books:
        books.create_budget(
            "acme",
            kind="approximate",
            privacy_unit="school",
            relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            simulation=True,
            epsilon="1000",
            delta="1e-2",
        )
    return tmp_path / "ledger.db"


def test_a_second_config_is_refused_beyond_the_budget_that_it_states(ledger, tmp_path):
    one, two = plan_of("one"), plan_of("two")
    with open_ledger(ledger) as books:
        first = reserve_plan(books, one, tmp_path / "one")
        count = books.head()[0]
        with pytest.raises(BudgetExceededError, match="the run config two states this cap") as refused:
            reserve_plan(books, two, tmp_path / "two")
        assert (refused.value.scope, refused.value.caps) == ("acme/2026", {"epsilon": "1", "delta": "0.00001"})
        assert Decimal(refused.value.available["epsilon"]) == Decimal("1") - Decimal(
            first.amounts["approximate"]["epsilon"]
        )
        assert books.head()[0] == count  # nothing is written, so that the key stays free
        assert not (tmp_path / "two").exists()
        first.cancel("not run")
        assert reserve_plan(books, two, tmp_path / "two").state == "reserved"


def test_the_same_config_finds_its_own_charge_again_however_far_it_came(ledger, tmp_path):
    plan = plan_of("one")
    with open_ledger(ledger) as books:
        charge = reserve_plan(books, plan, tmp_path / "run")
        assert reserve_plan(books, plan, tmp_path / "run").replayed
        charge.start()
        assert reserve_plan(books, plan, tmp_path / "run").state == "started"
        charge.commit({})
        assert reserve_plan(books, plan, tmp_path / "run").state == "committed"


@pytest.mark.parametrize(("where", "refused"), [("acme/2026/sub", True), ("acme/other", False), ("acme/20267", False)])
def test_charges_at_and_under_the_scope_count_and_no_others(ledger, tmp_path, where, refused):
    with open_ledger(ledger) as books:
        books.charge(where, PureDP(0.75), key="of another tool", simulation=True)
        if refused:
            with pytest.raises(BudgetExceededError, match=r"epsilon 0\.75, delta 0 is spent or reserved"):
                reserve_plan(books, plan_of("one"), tmp_path / "run")
        else:
            reserve_plan(books, plan_of("one"), tmp_path / "run")


def test_delta_is_a_cap_too(ledger, tmp_path):
    with open_ledger(ledger) as books:
        reserve_plan(books, plan_of("one"), tmp_path / "one")
        with pytest.raises(BudgetExceededError) as refused:
            reserve_plan(
                books, replace(plan_of("two"), budget={**plan_of("two").budget, "epsilon": "30"}), tmp_path / "two"
            )
        assert set(refused.value.shortfall) == {"delta"}


@pytest.fixture
def blind(monkeypatch):
    """The check before a reservation sees nothing of the other run config, as in a race; the one after it does."""
    held = steps._sum_reserved

    def seen(*args, before=None):
        return Amounts.zero(("epsilon", "delta")) if before is None else held(*args, before=before)

    monkeypatch.setattr(steps, "_sum_reserved", seen)


def test_of_two_that_reserve_at_once_the_later_gives_back(ledger, tmp_path, blind):
    with open_ledger(ledger) as books:
        reserve_plan(books, plan_of("one"), tmp_path / "one")
        with pytest.raises(BudgetExceededError, match="states this cap"):
            reserve_plan(books, plan_of("two"), tmp_path / "two")
        assert books.find(make_charge_key(plan_of("two"))).state == "cancelled"
        assert not (tmp_path / "two").exists()


def test_what_was_given_back_in_a_race_is_reserved_again_once_there_is_room(ledger, tmp_path, blind):
    plan, key = plan_of("two"), make_charge_key(plan_of("two"))
    with open_ledger(ledger) as books:
        first = reserve_plan(books, plan_of("one"), tmp_path / "one")
        for lost in (key, f"{key}-2", f"{key}-3"):
            with pytest.raises(BudgetExceededError, match="states this cap"):
                reserve_plan(books, plan, tmp_path / "two")
            assert books.find(lost).state == "cancelled"
        assert books.balance("acme").reserved == books.balance("acme").cost(first.amounts)
        first.cancel("not run")
        charge = reserve_plan(books, plan, tmp_path / "two")
        assert (charge.key, charge.state) == (f"{key}-4", "reserved")
        again = reserve_plan(books, plan, tmp_path / "two")
        assert (again.key, again.replayed) == (charge.key, True)
        charge.start()
        assert not steps.is_charge_closed(plan, ledger)
        charge.commit({})
        assert steps.is_charge_closed(plan, ledger)
        word = LedgerReader.read(ledger).read_excerpt(plan.hash)
        assert (word.key, word.state, word.other_charges) == (charge.key, "committed", 0)


@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_is_killed_while_it_gives_back_goes_on(ledger, tmp_path, blind, monkeypatch, after):
    """Killed before the cancel it finds its reservation and gives it back; killed after it, it makes another."""
    plan, key, cancel = plan_of("two"), make_charge_key(plan_of("two")), Charge.cancel

    def killed(charge, reason):
        if after:
            cancel(charge, reason)
        raise KeyboardInterrupt

    with open_ledger(ledger) as books:
        first = reserve_plan(books, plan_of("one"), tmp_path / "one")
        monkeypatch.setattr(Charge, "cancel", killed)
        with pytest.raises(KeyboardInterrupt):
            reserve_plan(books, plan, tmp_path / "two")
        monkeypatch.setattr(Charge, "cancel", cancel)
        with pytest.raises(BudgetExceededError, match="states this cap"):
            reserve_plan(books, plan, tmp_path / "two")
        assert [books.find(one).state for one in (key, f"{key}-2") if books.find(one)] == ["cancelled"] * (1 + after)
        first.cancel("not run")
        assert reserve_plan(books, plan, tmp_path / "two").state == "reserved"


def test_two_processes_of_one_config_share_the_charge_that_follows_a_cancelled_one(ledger, tmp_path):
    with open_ledger(ledger) as ours, open_ledger(ledger) as theirs:
        reserve_plan(ours, plan_of("one"), tmp_path / "one").cancel("not run")
        keys = {reserve_plan(books, plan_of("one"), tmp_path / "one").key for books in (ours, theirs)}
        assert keys == {f"{make_charge_key(plan_of('one'))}-2"}


@pytest.mark.slow
def test_what_is_cancelled_after_a_run_has_ended_changes_nothing_that_was_said_of_it(ledger, tmp_path):
    plan = plan_of("one")
    ask = {"delta": "1e-5", "relation": plan.guarantee.relation, "privacy_unit": "school", "plan_hash": plan.hash}
    with open_ledger(ledger) as books:
        other = books.reserve("acme", plan.release, key="other", simulation=True, **ask)
        report = finish(tmp_path / "run", ledger, plan, make_budget=False)
        then = LedgerReader.read(ledger).read_excerpt(plan.hash)
        assert then.other_charges == 1
        other.cancel("not run")
        later = books.reserve("acme", plan.release, key="later", simulation=True, **ask)
        later.cancel("not run")
        assert LedgerReader.read(ledger).read_excerpt(plan.hash) == then
    evidence = read_evidence(tmp_path / "run", ledger)
    assert build_report(verify_evidence(evidence)) == report


@pytest.mark.parametrize("ends", ["cancel", "revoke"])
def test_what_never_started_is_no_further_charge_of_the_plan(ledger, tmp_path, ends):
    """Neither before the run nor after it; what stays reserved, or is written off, is one."""
    plan = plan_of("one")
    ask = {"delta": "1e-5", "relation": plan.guarantee.relation, "privacy_unit": "school", "plan_hash": plan.hash}
    with open_ledger(ledger) as books:

        def end(charge):
            charge.cancel("no") if ends == "cancel" else books.revoke(charge.key, actor="dora", reason="no")

        end(reserve_plan(books, plan, tmp_path / "run"))
        assert LedgerReader.read(ledger).read_excerpt(plan.hash).state == "cancelled"
        assert LedgerReader.read(ledger).read_excerpt(plan.hash).other_charges == 0
        finish(tmp_path / "run", ledger, plan, make_budget=False)
        later = books.reserve("acme", plan.release, key="later", simulation=True, **ask)
        assert LedgerReader.read(ledger).read_excerpt(plan.hash).other_charges == 1
        end(later)
        word = LedgerReader.read(ledger).read_excerpt(plan.hash)
        assert (word.key, word.state, word.other_charges) == (f"{make_charge_key(plan)}-2", "committed", 0)
        assert verify_evidence(read_evidence(tmp_path / "run", ledger)).status == "passed"
        books.reserve("acme", plan.release, key="lost", simulation=True, **ask)
        books.abandon("lost", actor="dora", reason="somebody ran it")
        assert LedgerReader.read(ledger).read_excerpt(plan.hash).other_charges == 1


def test_a_raised_cap_of_the_scope_itself_is_no_leave_to_exceed_what_is_stated(ledger, tmp_path):
    caps = {"kind": "approximate", "privacy_unit": "school", "simulation": True, "delta": "1e-5"}
    with open_ledger(ledger) as books:
        books.create_budget("acme/2026", epsilon="1", **caps)
        reserve_plan(books, plan_of("one"), tmp_path / "one")
        books.set_cap("acme/2026", epsilon="3", delta="0.5", actor="dora", reason="more")
        with pytest.raises(BudgetExceededError, match="states this cap"):
            reserve_plan(books, plan_of("two"), tmp_path / "two")


def test_a_budget_that_does_not_count_epsilon_and_delta_cannot_keep_what_is_stated(tmp_path):
    with open_ledger(tmp_path / "l.db") as books:
        books.create_budget("acme", kind="zcdp", privacy_unit="school", simulation=True, rho="9")
        with pytest.raises(ConfigError, match="budget of epsilon and delta"):
            reserve_plan(books, plan_of("one"), tmp_path / "run")
        assert books.head()[0] == 1


def test_a_simulation_makes_its_own_budget_where_there_is_none(tmp_path):
    with open_ledger(tmp_path / "l.db") as books:
        reserve_plan(books, plan_of("one"), tmp_path / "one")
        assert books.balance("acme/2026").caps["epsilon"] == "1"
        with pytest.raises(BudgetExceededError, match="more requires an owner of"):  # the ledger's own refusal
            reserve_plan(books, plan_of("two"), tmp_path / "two")


def charged_without_looking(ledger, tmp_path, monkeypatch):
    """Two run configs of one stated budget that both ran, as a tool without the check leaves them."""
    monkeypatch.setattr(steps, "_require_stated_cap", lambda *_: None)
    monkeypatch.setattr("tests.reports.drawn.reserve_plan", reserve_plan)
    reports = [finish(tmp_path / name, ledger, plan_of(name), make_budget=False) for name in ("one", "two")]
    monkeypatch.undo()
    return reports


@pytest.mark.slow
def test_verification_fails_where_a_stated_budget_is_spent_twice(ledger, tmp_path, monkeypatch):
    one, two = charged_without_looking(ledger, tmp_path, monkeypatch)
    assert one["verification"]["status"] == "passed"
    found = {f["check"]: f for f in two["verification"]["findings"]}["charge"]
    assert (found["code"], found["status"]) == ("charge/above-stated-budget", "failed")
    assert "the plan states a budget of 1" in found["message"]
    assert two["claim"]["supported"] == "inf"
    evidence = read_evidence(tmp_path / "two", ledger)
    assert verify_evidence(evidence).status == "failed"
    alone = verify_run(read_run_folder(tmp_path / "two"), None)
    assert {f.code for f in alone.findings} >= {"charge/above-stated-budget"}  # by the report's own account


@pytest.mark.slow
def test_a_reservation_that_starts_later_counts_as_one_that_started(ledger, tmp_path, monkeypatch):
    """The other run config reserved first and started after: what had been spent by then is not all."""
    monkeypatch.setattr(steps, "_require_stated_cap", lambda *_: None)
    with open_ledger(ledger) as books:
        first = reserve_plan(books, plan_of("one"), tmp_path / "one")
        finish(tmp_path / "two", ledger, plan_of("two"), make_budget=False)
        first.start()
    word = LedgerReader.read(ledger).read_excerpt(plan_of("two").hash)
    assert word.earlier_spending["epsilon"] == "0"
    assert word.spent_or_reserved == dict(first.amounts["approximate"])
    assert verify_evidence(read_evidence(tmp_path / "two", ledger)).status == "failed"


@pytest.mark.slow
def test_the_report_names_the_budget_that_binds(ledger, tmp_path):
    with open_ledger(ledger) as books:
        books.charge("acme/other", PureDP(999.5), key="others", simulation=True)
    with pytest.raises(BudgetExceededError):
        finish(tmp_path / "gone", ledger, plan_of("gone"), make_budget=False)
    with open_ledger(ledger) as books:
        books.set_cap("acme", epsilon="1000.2", delta="1e-2", actor="dora", reason="more")
    report = finish(tmp_path / "one", ledger, plan_of("one"), make_budget=False)
    binding = {"scope": "acme", "source": "ledger", "caps": {"epsilon": "1000.2", "delta": "0.01"}}
    assert report["budget"]["binding"] == binding | {"spent_or_reserved": {"epsilon": "999.5", "delta": "0"}}
    says = "the ledger's cap of acme binds: 1000.2, of which 999.5 was spent or reserved"
    assert says.replace("'", "&#39;") in render_html(report)
    assert says in render_markdown(report)
    assert json.loads((tmp_path / "one" / "report.json").read_text()) == report


def test_where_the_plan_states_less_than_the_ledger_its_cap_binds(ledger, tmp_path):
    report = finish(tmp_path / "one", ledger, plan_of("one"), make_budget=False)
    caps = {"epsilon": "1", "delta": "1e-5"}
    stated = {"scope": "acme/2026", "source": "plan", "caps": caps}
    assert report["budget"]["binding"] == stated | {"spent_or_reserved": {"epsilon": "0", "delta": "0"}}
    assert "the plan's cap binds: 1, of which 0 was" in render_markdown(report)


@pytest.mark.parametrize("text", ["Infinity", "NaN", "１0", "1_0", "-1", ""])
def test_a_plan_whose_stated_budget_is_no_number_is_refused(text):
    document = plan_of("one").to_json()
    document["budget"]["epsilon"] = text
    with pytest.raises(CheckError, match="epsilon"):
        RegisteredPlan.from_json(document)
