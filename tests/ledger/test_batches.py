"""A batch of charges is what its charges are one after another, in one transaction: all of it or, if asked, each."""

import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from tests.extent import amount
from tests.ledger.stores import AVAILABLE, STORES, InMemory
from tests.server.conftest import serving

from epsilog.ledger import Ledger, Verb, open_ledger
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.execute import MAX_BATCH
from epsilog.ledger.tables import SqlSession
from epsilog.mechanisms import ApproximateDP, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.server.app import create_app
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    ConflictError,
    LedgerIntegrityError,
    PermissionDeniedError,
    StorageError,
    UnsupportedMechanismError,
)

QUARTER, SGD = PureDP(0.25), Repeated(PoissonSampled(Laplace(8.0), 0.01), 50)
SCOPES = ("acme", "acme/anna", "acme/team/ben", "proven/x", "nowhere")
RELEASES = (QUARTER, PureDP(0.0), Laplace(4.0), SGD, ApproximateDP(0.1, 1e-6))


def furnish(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="2")
    ledger.create_budget("acme/team", kind="pure", epsilon="0.5", quota=True)
    ledger.create_budget("proven", kind="approximate", epsilon="1", delta="1e-5")
    return ledger


def open_in_memory(clock):
    return Ledger(InMemory(None).open(), clock=clock)


@pytest.fixture(scope="module")
def site():
    """A server whose ledger is exchanged between tests."""
    app = create_app(ledger="not-used.db")
    with serving(app) as found:
        yield app, found


@pytest.fixture(params=[*STORES, pytest.param("served", marks=pytest.mark.slow)])
def ledger(request, tmp_path, clock):
    """Every store, and a server."""
    if request.param == "served":
        app, far = request.getfixturevalue("site")
        with Ledger(STORES["sqlite"](tmp_path).open(), clock=clock) as made, open_ledger(far.url) as asked:
            app.state.ledger_service._ledger = furnish(made)
            yield asked
        return
    if request.param not in AVAILABLE:
        pytest.skip(f"no server or driver for {request.param}: run scripts/system-packages")
    with Ledger(STORES[request.param](tmp_path).open(), clock=clock) as opened:
        yield furnish(opened)


def ask(key, release=QUARTER, scope="acme/anna", **more):
    return ChargeAtOnce(scope, release, key=key, **more)


def test_all_are_charged_by_one_transaction_and_again_by_none(ledger):
    batch = [ask("a"), ask("b", SGD), ask("c", scope="proven/x", delta="1e-6"), ask("a", scope="acme/team/ben")]
    charges = ledger.charge_many(batch)
    assert [(one.key, one.scope, one.replayed, one.state) for one in charges] == [
        (one.key, one.scope, False, "committed") for one in batch
    ]
    head = ledger.head()
    assert head[0] == 3 + len(batch)
    assert [one.replayed for one in ledger.charge_many(batch)] == [True] * len(batch)
    assert ledger.head() == head
    assert ledger.verify().count == head[0]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (ask("dear", PureDP(1.75)), BudgetExceededError),
        (ask("dear", scope="acme/team/ben", release=PureDP(0.75)), BudgetExceededError),
        (ask("a", PureDP(0.125)), ConflictError),  # the key of the first with another release
        (ask("none", scope="nowhere"), ValueError),
        (ask("unproven", ApproximateDP(0.1, 1e-6)), BudgetExceededError),
        (ask("mu", PureDP(0.1), relation="replace-one"), ConflictError),
        (ask("less", Laplace(4.0), amount={"epsilon": "0.1"}), CheckError),
    ],
    ids=lambda value: getattr(value, "key", getattr(value, "__name__", "")),
)
def test_one_refusal_undoes_the_batch_or_itself_alone(wrong, kind, clock):
    ledger = furnish(open_in_memory(clock))
    before, stood = ledger.head(), ledger.balance("acme")
    batch = [ask("a"), ask("b", SGD), wrong, ask("z", PureDP(0.125))]
    with pytest.raises(
        BatchRefusedError, match=r"charges\[2\] \(key .*\) is refused, and nothing was charged: "
    ) as found:
        ledger.charge_many(batch)
    assert (found.value.index, found.value.key, type(found.value.refusal)) == (2, wrong.key, kind)
    assert (ledger.head(), ledger.balance("acme")) == (before, stood)
    outcomes = ledger.charge_many(batch, atomic=False)
    assert [type(one) for one in outcomes if isinstance(one, Exception)] == [type(outcomes[2])] == [kind]
    assert ledger.head()[0] == before[0] + 3 == ledger.verify().count


def test_one_release_at_several_scopes_is_charged_at_all_or_none(ledger):
    at = ["acme/anna", "acme/team/ben", "proven"]
    charges = ledger.charge_many([ask("joint", PureDP(0.5), scope, delta=None) for scope in at])
    assert [one.scope for one in charges] == at
    with pytest.raises(BatchRefusedError, match=r"charges\[1\] .*'acme/team' refuses"):
        ledger.charge_many([ask("more", PureDP(0.5), scope) for scope in at])
    assert [ledger.find("more", scope=scope) for scope in at] == [None] * 3


@pytest.mark.parametrize(
    ("charges", "message"),
    [
        ([ask(str(number)) for number in range(MAX_BATCH + 1)], r"charges must be in \[0, 1000\], got 1001"),
        ([ask("a"), "b"], "charges must be a ChargeAtOnce"),
    ],
)
def test_what_is_no_batch_is_refused_by_name(clock, charges, message):
    with open_in_memory(clock) as ledger, pytest.raises(CheckError, match=message):
        ledger.charge_many(charges)


def test_an_empty_batch_is_nothing(ledger):
    before = ledger.head()
    assert ledger.charge_many([]) == []
    assert ledger.head() == before


charge = st.builds(
    ask,
    key=st.sampled_from("abcdef"),
    release=st.sampled_from(RELEASES),
    scope=st.sampled_from(SCOPES),
    delta=st.sampled_from([None, "1e-6"]),
)


def one_by_one(ledger, batch):
    outcomes = []
    for one in batch:
        try:
            outcomes.append(ledger.charge_many([one])[0])
        except BatchRefusedError as error:
            outcomes.append(error.refusal)
    return outcomes


def compared(outcomes):
    return [type(one) if isinstance(one, Exception) else (one.key, one.scope, one.replayed) for one in outcomes]


def entries(ledger):
    return [replace(one, time=GENESIS_TIME, previous="0" * 64) for one in ledger.history()]


GENESIS_TIME = "2026-01-01T00:00:00+00:00"


@pytest.mark.slow
@settings(max_examples=amount(20, 60), deadline=None)
@given(batch=st.lists(charge, max_size=8), before=st.lists(charge, max_size=3))
def test_a_batch_is_what_its_charges_are_one_after_another(batch, before):
    from tests.ledger.conftest import Clock

    singly, together, strictly = (furnish(open_in_memory(Clock())) for _ in range(3))
    for ledger in (singly, together, strictly):
        one_by_one(ledger, before)
    expected = one_by_one(singly, batch)
    assert compared(together.charge_many(batch, atomic=False)) == compared(expected)
    assert entries(together) == entries(singly)
    assert together.budgets() == singly.budgets()
    head, first = strictly.head(), next((i for i, one in enumerate(expected) if isinstance(one, Exception)), None)
    if first is None:
        assert compared(strictly.charge_many(batch)) == compared(expected)
        assert entries(strictly) == entries(singly)
    else:
        with pytest.raises(BatchRefusedError) as found:
            strictly.charge_many(batch)
        assert (found.value.index, type(found.value.refusal)) == (first, type(expected[first]))
        assert strictly.head() == head
    for ledger in (singly, together, strictly):
        ledger.verify()


def test_batches_at_once_meet_the_cap_to_the_unit(tmp_path):
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="2.5")
        outcomes = []

        def charge_all(name):
            batch = [ask(f"{name}-{number}", PureDP(0.125)) for number in range(8)]
            with open_ledger(tmp_path / "l.db") as own:
                outcomes.extend(own.charge_many(batch, atomic=False))

        threads = [threading.Thread(target=charge_all, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(not isinstance(one, Exception) for one in outcomes) == 20
        assert {type(one) for one in outcomes if isinstance(one, Exception)} == {BudgetExceededError}
        assert ledger.balance("acme").available == {"epsilon": "0"}
        ledger.verify()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, StorageError("full"), LedgerIntegrityError("torn")])
@pytest.mark.parametrize("atomic", [True, False])
def test_what_breaks_in_the_middle_undoes_all(tmp_path, monkeypatch, error, atomic):
    """An error of the store is of no charge alone."""
    with open_ledger(tmp_path / "l.db") as ledger:
        furnish(ledger)
        before, kept = ledger.head(), SqlSession.charge

        def third(self, name):
            if name[1] == "c":
                raise error
            return kept(self, name)

        monkeypatch.setattr(SqlSession, "charge", third)
        with pytest.raises(error if isinstance(error, type) else type(error)):
            ledger.charge_many([ask("a"), ask("b"), ask("c")], atomic=atomic)
        monkeypatch.undo()
        assert ledger.head() == before
        assert not any(one.replayed for one in ledger.charge_many([ask("a"), ask("b"), ask("c")]))
        assert [one.verb for one in ledger.history("acme")][-3:] == [Verb.CHARGED] * 3


def test_a_budget_that_comes_while_costs_are_computed_is_priced_too(tmp_path, monkeypatch):
    """The path has another kind of budget than when its costs were computed: they are computed again."""
    with open_ledger(tmp_path / "l.db") as ledger:
        furnish(ledger)
        kept, seen = Ledger.execute_many, []
        local = ledger._local
        prepare = type(local)._prepare

        def meanwhile(self, batch, indexes, caller):
            prepare(self, batch, indexes, caller)
            seen.append(list(indexes))
            if len(seen) == 1:
                with open_ledger(tmp_path / "l.db") as other:
                    other.create_budget("acme/new", kind="approximate", epsilon="1", delta="1e-5")

        monkeypatch.setattr(type(local), "_prepare", meanwhile)
        (found,) = kept(ledger, [ask("a", SGD, "acme/new/x", delta="1e-6")], atomic=True)
        assert seen == [[0], [0]]
        assert set(found.reserved.amounts) == {"pure", "approximate"}
        ledger.verify()


def test_a_namesake_gets_no_charge_of_another(clock):
    with open_in_memory(clock) as ledger:
        furnish(ledger)
        anna, ben = (ledger.on_behalf_of(name, owns=lambda _: False) for name in ("anna", "ben"))
        anna.charge_many([ask("a")])
        with pytest.raises(BatchRefusedError) as found:
            ben.charge_many([ask("b"), ask("a")])
        assert isinstance(found.value.refusal, PermissionDeniedError)
        assert ledger.find("b") is None


def test_a_cost_that_is_not_proven_is_refused_alone(clock):
    with open_in_memory(clock) as ledger:
        ledger.create_budget("g", kind="gdp", mu_squared="2")
        batch = [ask("a", PureDP(0.1), "g"), ask("b", Repeated(Laplace(8.0), 2), "g")]
        found = ledger.charge_many(batch, atomic=False)
        assert [type(one) for one in found] == [UnsupportedMechanismError] * 2
