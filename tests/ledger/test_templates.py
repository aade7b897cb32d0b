"""A charge by a template is the charge of the full rules: the same entries, state and refusals, after any history."""

import random
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from tests.extent import amount

from epsilog.ledger import Amounts, ChargeState, Ledger
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.entries import Entry, EntryText, Verb
from epsilog.ledger.execute import Done
from epsilog.ledger.ledger import Caller
from epsilog.ledger.sqlite import SqliteStore
from epsilog.ledger.templates import ChargeTemplate, Templates, identify_value
from epsilog.mechanisms import ApproximateDP, Gaussian, Laplace, PoissonSampled, PureDP, Repeated, ZeroConcentratedDP
from epsilog.terms import EpsilogError

DORA = {"actor": "dora", "reason": "agreed"}
SOON = {"valid_from": "2026-01-01T00:00:20Z", "valid_until": "2026-01-01T00:01:20Z"}  # a life has an act a second
BUDGETS = (  # scope, and what it is made with
    ("acme", {"kind": "pure", "epsilon": "2.5", "privacy_unit": "person"}),
    ("acme/zc", {"kind": "zcdp", "rho": "0.3", "privacy_unit": "person"}),
    ("acme/share", {"kind": "pure", "epsilon": "1", "quota": True, "privacy_unit": "person"}),
    ("acme/share/part", {"kind": "pure", "epsilon": "0.5", "quota": True, "privacy_unit": "person"}),
    ("two", {"kind": "approximate", "epsilon": "1", "delta": "1e-5"}),
    ("promise", {"kind": "rdp", "orders": [16, 32, 64], "epsilon": "3", "delta": "1e-6"}),
    ("orders", {"kind": "rdp", "rdp_2": "0.5", "rdp_8": "2"}),
    ("signed", {"kind": "pure", "epsilon": "1", "requires_approvals": 1}),
    ("acme/q", {"kind": "pure", "epsilon": "2", "privacy_unit": "person", "requires_child_budget": True}),
    ("acme/q/now", {"kind": "pure", "epsilon": "1", "privacy_unit": "person", **SOON}),
)
SCOPES = (
    "acme",
    "acme/anna",
    "acme/zc",
    "acme/share/x",
    "acme/share/part",
    "acme/days/1",
    "acme/days",
    "two/x",
    "promise",
)
SCOPES = (*SCOPES, "orders/x", "signed/x", "nowhere", "acme/q", "acme/q/now/x", "acme", "acme", "acme/share/part")
RELEASES = (
    PureDP(0.1), PureDP(0.25), PureDP(0.0), PureDP(1), PureDP(1.0), ApproximateDP(0.1, 1e-7), ZeroConcentratedDP(0.02),
    Gaussian(5.0), Laplace(8.0), Repeated(PoissonSampled(Laplace(8.0), 0.01), 50),
)  # fmt: skip
FAVORITES = (("acme/anna", PureDP(0.1)), ("acme/share/part", PureDP(0.01)), ("acme/days/1", PureDP(0.02)))
FAVORITES = (*FAVORITES, ("acme/q/now", PureDP(0.005)), ("promise", Gaussian(5.0)), ("two/x", ApproximateDP(0.1, 1e-7)))
STATED = ({}, {}, {}, {"delta": "1e-7"}, {"amount": {"epsilon": "0.3", "delta": "1e-6"}}, {"privacy_unit": "person"})


@dataclass
class Clock:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.now


def draw_act(draws, ledger):
    """One act of a life: mostly charges like those before, by some callers, among all that can come between."""
    scope, release, key = draws.choice(SCOPES), draws.choice(RELEASES), f"key-{draws.randrange(150)}"
    stated, atomic, cap = draws.choice(STATED), draws.random() < 0.5, draws.choice(("1", "3", "5"))
    if draws.random() < 0.6:
        (scope, release), stated = draws.choice(FAVORITES), {}
    asked, number = ChargeAtOnce(scope, release, key=key, **stated), draws.randrange(3)
    both, low = [asked, ChargeAtOnce("acme", PureDP(0.1), key=key + "b")], {"epsilon": "0.01", "delta": "0"}
    acts = (
        (62, lambda: ledger.execute(asked)),
        (8, lambda: ledger.execute_many(both, atomic=atomic)),
        (6, lambda: ledger.reserve(scope, release, key=key, **stated)),
        (4, lambda: ledger.find(key, scope=scope).start()),
        (4, lambda: ledger.find(key, scope=scope).cancel("no")),
        (4, lambda: ledger.set_cap("acme", epsilon=cap, **DORA)),
        (2, lambda: ledger.override_cost(scope, release, key=key, amount=low, reason="agreed")),
        (2, lambda: ledger.register_plan(scope, "ab" * 32, key=key)),
        (2, lambda: ledger.create_budget(f"acme/new{number}", **BUDGETS[0][1])),
        (2, lambda: ledger.decommission(key, scope=scope, **DORA)),
        (0.5, lambda: ledger.retire(("acme/share/part", "two", "acme/zc")[number], **DORA)),
        (0.5, lambda: ledger.mark_restored(**DORA)),
        (3, lambda: ledger.accept_restored(**DORA)),
    )
    return draws.choices([act for _, act in acts], [weight for weight, _ in acts])[0]


def without_text(answer):
    """What an act answered, without the stored text, which templates alone have at hand."""
    if isinstance(answer, list):
        return [without_text(one) for one in answer]
    return answer._replace(document=None) if isinstance(answer, Done) else answer


def live(path, seed, length):
    """Lead a life drawn by a seed; return what each act answered, and all that is stored after it."""
    draws, clock, told = random.Random(seed), Clock(), []  # noqa: S311
    store, other = SqliteStore(path), SqliteStore(path)
    ledgers = [Ledger(one, clock=clock, caller=Caller(actor)) for one, actor in ((store, None), (other, None))]
    ledgers += [ledgers[0].on_behalf_of("anna"), ledgers[0].on_behalf_of("ben")]
    for scope, terms in BUDGETS:
        ledgers[0].create_budget(scope, **terms)
    ledgers[0].declare_partition("acme/days", epsilon="0.4", **DORA)
    ledgers[0].create_budget("acme/days/1", kind="pure", epsilon="0.4", privacy_unit="person")
    try:
        for _ in range(length):
            clock.now += timedelta(seconds=1)
            act = draw_act(draws, draws.choice(ledgers))
            try:
                told.append(repr(without_text(act())).replace(str(path), ""))
            except (EpsilogError, ValueError, AttributeError) as error:
                told.append(f"{type(error).__name__}: {error}".replace(str(path), ""))
        with store.reading() as session:
            stored = session.read_stored_state()
            told += [
                *session.rows(),
                stored.head,
                stored.balances,
                dict(stored.charges.items()),
                [*stored.rounds.items()],
            ]
        ledgers[0].verify()
    finally:
        for one in (store, other):
            one.close()
    return told


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(amount(3, 40)))
def test_a_life_is_the_same_with_and_without_templates(tmp_path, monkeypatch, seed):
    used = []
    with monkeypatch.context() as patched:
        apply = ChargeTemplate.apply
        patched.setattr(ChargeTemplate, "apply", lambda *given: used.append(apply(*given)) or used[-1])
        with_templates = live(tmp_path / "with.db", seed, amount(150, 400))
    monkeypatch.setattr(Templates, "find", lambda *_: None)
    without = live(tmp_path / "without.db", seed, amount(150, 400))
    assert with_templates == without
    assert sum(step is not None for step in used) >= 5, "templates were used"
    assert any(step is None for step in used), "templates left some to the full rules"


def test_one_changed_setting_or_caller_is_another_charge(tmp_path):
    """Without their actor in its name, a template would note the first caller in each charge."""
    with Ledger(SqliteStore(tmp_path / "l.db")) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="5")
        for number, caller in enumerate((ledger, ledger.on_behalf_of("anna"), ledger.on_behalf_of("ben"), ledger)):
            caller.charge("acme", PureDP(0.1), key=f"k-{number}")
        actors = [entry.body.get("actor") for entry in ledger.history("acme")]
        assert actors[1:] == [None, "anna", "ben", None]


def test_whoever_changes_the_body_of_an_entry_changes_no_later_charge(tmp_path):
    with Ledger(SqliteStore(tmp_path / "l.db")) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="5")
        for number in range(3):
            charge = ledger.charge("acme", PureDP(0.1), key=f"k-{number}")
            charge.entry.body["request"]["release"]["term"]["epsilon"] = 0.001
            charge.entry.body["methods"].clear()
            charge.entry.amounts["pure"].units["epsilon"] = 1
            charge.entry.amounts["pure"] = charge.amounts["zcdp"] = Amounts.parse({"epsilon": "0.001"})
        bodies = [entry.body for entry in ledger.history("acme")][1:]
        assert bodies[0] == bodies[1] == bodies[2]
        assert bodies[0]["request"]["release"]["term"]["epsilon"] == 0.1
        assert [entry.amounts for entry in ledger.history("acme")][1:] == [{"pure": {"epsilon": "0.1"}}] * 3
        assert ledger.balance("acme").spent == {"epsilon": "0.3"}
        ledger.verify()


@pytest.mark.parametrize("key", ["k", 'k"\\', "k\u00e9\u4e2d", "\U0001f511", None])
@pytest.mark.parametrize("time", ["2026-01-01T00:00:00.000001+00:00", "2026-01-01T00:00:00+00:00"])
def test_a_text_is_the_canonical_document(key, time):
    first = Entry(
        1, "0" * 64, "2025-01-01T00:00:00Z", Verb.CHARGED, 'a/"b"\u00e9', "x", {}, {"b": [1.0, None], "a": {}}
    )
    further = Entry(987654321, "ab" * 32, time, first.verb, first.scope, key, first.amounts, first.body)
    assert EntryText(first).write(further) == further.document()


def test_what_is_spelled_in_another_way_is_another_value():
    values = [PureDP(0.1), PureDP(0.2), ApproximateDP(0.1, 1e-6), Laplace(0.1), Repeated(PureDP(0.1), 2)]
    values += [1, 1.0, True, "1", None, 0.0, -0.0, (1,), (1.0,), ("1",), (), ((1,), 2), ((1, 2),), (1, (2,)), (1, 2)]
    values += [Verb.CHARGED, ChargeState.COMMITTED, "charged", (Verb.CHARGED,), ("charged",)]
    names = [identify_value(value) for value in values]
    assert None not in names
    assert len(set(names)) == len(values)
    assert identify_value(Repeated(PureDP(0.1), 2)) == names[4]
    for unknown in ([1], ([1],), {1: 2}, object()):
        assert identify_value(unknown) is None
    for large in ((0.5,) * 200, "x" * 201, ((1,) * 50,) * 5, (("x" * 300,),)):
        assert identify_value(large) is None


def test_a_cost_override_is_for_one_charge(tmp_path):
    """The charge that an owner allowed below its proven cost is no template for another."""
    low = {"amount": {"epsilon": "0.01"}}
    with Ledger(SqliteStore(tmp_path / "l.db")) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="5")
        ledger.override_cost("acme", Laplace(1.0), key="a", reason="proof 12", **low)
        ledger.charge("acme", Laplace(1.0), key="a", **low)
        for _ in range(2):
            with pytest.raises(ValueError, match="amount must be at least the certified cost"):
                ledger.charge("acme", Laplace(1.0), key="b", **low)
        assert ledger.balance("acme").spent == {"epsilon": "0.01"}


def test_leave_is_asked_for_each_charge_without_cost(tmp_path):
    with Ledger(SqliteStore(tmp_path / "l.db")) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="5")
        asked = []
        ledger._caller = Caller("anna", admit_free=asked.append)
        for number in range(3):
            ledger.charge("acme", PureDP(0.0), key=f"k-{number}")
        assert asked == ["anna"] * 3


def test_a_part_that_fails_takes_no_row_of_another(tmp_path):
    """What earlier parts have yet to write is written by a read in a later part, and undone with it."""
    store = SqliteStore(tmp_path / "l.db")
    with Ledger(store) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="5")
        ledger.charge("acme", PureDP(0.1), key="known")
        with store.writing() as session:
            together = Ledger(Together(session))
            with session.part():
                together.charge("acme", PureDP(0.1), key="first")
            with suppress(RuntimeError), session.part():
                together.charge("acme", PureDP(0.1), key="second")
                assert [entry.key for entry in session.page(before=9, limit=9)] == ["second", "first", "known", None]
                raise RuntimeError
            with session.part():
                together.charge("acme", PureDP(0.1), key="third")
        assert [entry.key for entry in ledger.history()] == [None, "known", "first", "third"]
        assert ledger.find("second") is None
        ledger.verify()


class Together:
    """A store whose transactions are one that is open."""

    def __init__(self, session):
        self.session, self.address = session, "together"

    @contextmanager
    def writing(self):
        yield self.session

    reading = writing

    def close(self):
        pass
