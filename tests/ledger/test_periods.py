"""Limits of a period and of a person: a budget takes charges at its times only, or only under a budget below it."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from tests.ledger.test_replay import rehashed
from tests.server.conftest import serving

from epsilog.ledger import Ledger, open_ledger, replay
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.sqlite import SqliteStore
from epsilog.ledger.time_blocks import create_time_blocks
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, create_app, tokens
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    ConflictError,
    LedgerIntegrityError,
    PermissionDeniedError,
)

COST = PureDP(0.1)
START, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
TERMS = {"kind": "pure", "epsilon": "1"}
QUARTER = {**TERMS, "valid_from": START, "valid_until": END}
TICK = timedelta(microseconds=1)


class At:
    """A clock that stands where a test puts it."""

    def __init__(self, now=START):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return At()


@pytest.fixture
def ledger(path, clock):
    path.parent.mkdir()
    with Ledger(SqliteStore(path), clock=clock) as opened:
        yield opened


def rows_of(ledger):
    with ledger._store.reading() as session:
        return [*session.rows()]


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("below", ["", "/x", "/budget"])
def test_a_budget_takes_charges_from_its_first_moment_until_its_last(ledger, clock, repeated, below):
    """Also those that repeat an accepted charge, which have a faster path."""
    ledger.create_budget("acme", **QUARTER)
    ledger.create_budget("acme/budget", **TERMS)
    if repeated:
        for number in range(2):
            ledger.charge(f"acme{below}", COST, key=f"before-{number}")
    for number, (moment, fits) in enumerate(
        [(START - TICK, False), (START, True), (END - TICK, True), (END, False), (START, True), (END + TICK, False)]
    ):
        clock.now = moment
        if fits:
            ledger.charge(f"acme{below}", COST, key=f"k-{number}")
            ledger.reserve(f"acme{below}", COST, key=f"r-{number}").cancel("no")
            continue
        for act in (ledger.charge, ledger.reserve):
            with pytest.raises(ConflictError, match=r"'acme' takes charges from 2026-10-01.* until 2027-01-01"):
                act(f"acme{below}", COST, key="out")
        with pytest.raises(BatchRefusedError, match="takes charges from"):
            ledger.charge_many([ChargeAtOnce(f"acme{below}", COST, key="out")])
    ledger.verify()


@pytest.mark.parametrize("times", [{"valid_from": START}, {"valid_until": END}])
def test_one_end_may_be_open(ledger, clock, times):
    ledger.create_budget("acme", **TERMS, **times)
    for moment in (START - TICK, END):
        clock.now = moment
        if (moment < START and "valid_from" in times) or (moment >= END and "valid_until" in times):
            with pytest.raises(ConflictError, match="the time is"):
                ledger.charge("acme", COST, key=str(moment))
        else:
            ledger.charge("acme", COST, key=str(moment))


def test_what_was_reserved_in_time_ends_later_and_what_was_charged_is_told_again(ledger, clock):
    ledger.create_budget("acme", **QUARTER)
    ledger.charge("acme", COST, key="done")
    held = ledger.reserve("acme", COST, key="held")
    clock.now = END + timedelta(days=1)
    assert ledger.charge("acme", COST, key="done").replayed
    held.start()
    held.commit()
    ledger.verify()


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_forged_time_outside_is_refused_by_verification(ledger, place):
    """The first charge is read by the full rules, and later ones by runs."""
    ledger.create_budget("acme", **QUARTER)
    for number in range(3):
        ledger.charge("acme", COST, key=f"k-{number}")
    rows = rows_of(ledger)
    for moment, holds in ((END - TICK, True), (END, False), (START - TICK, False), (START, True)):
        documents = [json.loads(row.document) for row in rows]
        documents[place]["time"] = moment.isoformat()
        forged = rehashed(documents)
        if holds:
            assert replay.replay_entries(forged).count == 4
        else:
            with pytest.raises(LedgerIntegrityError, match=f"entry {place + 1}: breaks a rule.*takes charges from"):
                replay.replay_entries(forged)


def test_a_budget_may_take_charges_only_under_a_budget_below_it(ledger):
    ledger.create_budget("acme", **TERMS, requires_child_budget=True)
    ledger.create_budget("acme/anna", **TERMS, requires_child_budget=True)
    ledger.create_budget("acme/anna/2026-Q4", kind="pure", epsilon="0.25")
    for scope, nearest in (
        ("acme", "acme"),
        ("acme/ben", "acme"),
        ("acme/anna", "acme/anna"),
        ("acme/anna/x", "acme/anna"),
    ):
        for act in (ledger.charge, ledger.reserve):
            with pytest.raises(
                ConflictError, match=f"budget of '{nearest}' takes charges only under a budget below it"
            ):
                act(scope, COST, key="k")
        with pytest.raises(ConflictError, match="only under a budget below it"):
            ledger.get_headroom(scope, COST)
    for number in range(2):
        ledger.charge("acme/anna/2026-Q4/x", COST, key=f"k-{number}")
    with pytest.raises(BudgetExceededError):
        ledger.charge("acme/anna/2026-Q4/x", COST, key="k-2")
    assert ledger.balance("acme").spent["epsilon"] == "0.2"
    rows = [json.loads(row.document) for row in rows_of(ledger)]
    rows[-1]["scope"] = "acme/ben"
    with pytest.raises(LedgerIntegrityError, match=r"entry 5: breaks a rule.*only under a budget below it"):
        replay.replay_entries(rehashed(rows))


def test_what_would_fit_is_refused_outside_the_times(ledger):
    ledger.create_budget("over", **TERMS, valid_until="2020-01-01T00:00Z")
    ledger.create_budget("now", **TERMS, valid_from="2020-01-01T00:00Z")
    with pytest.raises(ConflictError, match="'over' takes charges until 2020-01-01"):
        ledger.get_headroom("over/x", COST)
    assert ledger.get_headroom("now/x", COST).charges == 10


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ({"valid_from": END, "valid_until": START}, "valid_until must be after valid_from"),
        ({"valid_from": END, "valid_until": END}, "valid_until must be after valid_from"),
        ({"valid_from": "2026-10-01"}, "valid_from"),
        ({"valid_until": datetime(2026, 10, 1)}, "valid_until"),
        ({"valid_until": 3}, "valid_until"),
    ],
)
def test_times_are_checked(ledger, times, problem):
    with pytest.raises((CheckError, TypeError), match=problem):
        ledger.create_budget("acme", **TERMS, **times)
    assert ledger.budgets() == []


@pytest.mark.parametrize(
    "body",
    [
        {"valid_from": "2027-01-01T00:00:00+00:00"},
        {"valid_until": "2027-01-01T01:00:00+01:00"},
        {"valid_until": "soon"},
        {"valid_until": None},
        {"requires_child_budget": False},
        {"requires_child_budget": 1},
    ],
)
def test_a_forged_setting_is_refused(ledger, body):
    ledger.create_budget("acme", **QUARTER)
    (document,) = [json.loads(row.document) for row in rows_of(ledger)]
    document["body"] |= body
    with pytest.raises(LedgerIntegrityError, match="entry 1"):
        replay.replay_entries(rehashed([document]))


def test_the_same_budget_again_changes_nothing_and_other_times_are_another(ledger):
    ledger.create_budget("acme", **QUARTER, requires_child_budget=True)
    assert ledger.create_budget("acme", **QUARTER, requires_child_budget=True).valid_until == END.isoformat(
        timespec="microseconds"
    )
    for other in ({"valid_until": END + TICK}, {"valid_from": None}, {"requires_child_budget": False}):
        with pytest.raises(ConflictError):
            ledger.create_budget("acme", **QUARTER | {"requires_child_budget": True} | other)
    assert ledger.head()[0] == 1


def test_time_blocks_take_charges_in_their_own_period(ledger, clock):
    ledger.create_budget("acme", kind="pure", epsilon="9", requires_child_budget=True)
    ledger.create_budget("acme/2026-Q4", **QUARTER)
    ledger.create_budget("acme/2026-Q4/anna", **QUARTER)
    ledger.create_budget("acme/2026-Q4/ben", **TERMS)
    made = create_time_blocks(ledger, "acme", period="quarter", next_periods=1, now=START)
    times = ("2027-01-01T00:00:00.000000+00:00", "2027-04-01T00:00:00.000000+00:00")
    assert {one.scope: (one.valid_from, one.valid_until) for one in made} == {
        "acme/2027-Q1": times,
        "acme/2027-Q1/anna": times,
        "acme/2027-Q1/ben": (None, None),
    }
    with pytest.raises(ConflictError, match="'acme/2027-Q1' takes charges from 2027-01-01"):
        ledger.charge("acme/2027-Q1/ben", COST, key="k")
    clock.now = END
    ledger.charge("acme/2027-Q1/ben", COST, key="k")
    with pytest.raises(ConflictError, match="'acme/2026-Q4' takes charges"):
        ledger.charge("acme/2026-Q4/ben", COST, key="k")
    ledger.create_budget("acme/2027-Q1/carl", **TERMS, valid_until=END + timedelta(days=3))
    with pytest.raises(ConflictError, match="other times than its block: create 'acme/2027-Q2/carl' by hand"):
        create_time_blocks(ledger, "acme", period="quarter", next_periods=1, now=END)


@pytest.mark.slow
def test_an_analyst_is_held_to_her_own_quarter_over_http(tmp_path):
    """Her token covers her scope alone; the parent bounds all analysts together."""
    now = datetime.now(UTC)
    present = {"valid_from": now - timedelta(days=1), "valid_until": now + timedelta(days=1)}
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="0.5", requires_child_budget=True)
        for who in ("anna", "ben"):
            ledger.create_budget(f"acme/{who}", kind="pure", epsilon="9", requires_child_budget=True)
            ledger.create_budget(f"acme/{who}/now", kind="pure", epsilon="0.3", **present)
            ledger.create_budget(f"acme/{who}/next", kind="pure", epsilon="0.3", valid_from=now + timedelta(days=1))
    file = tmp_path / "tokens.json"
    secrets = {who: tokens.create_token(file, who, role="spender", scope=f"acme/{who}")[1] for who in ("anna", "ben")}
    app = create_app(ledger=str(tmp_path / "l.db"), access=AccessConfig(file))
    with serving(app) as site:
        with open_ledger(site.url, token=secrets["anna"]) as anna:
            for number in range(3):
                anna.charge("acme/anna/now", COST, key=f"k-{number}")
            with pytest.raises(BudgetExceededError):
                anna.charge("acme/anna/now", COST, key="k-3")
            for scope in ("acme/anna/next", "acme/anna", "acme/anna/x"):
                with pytest.raises(ConflictError, match="takes charges"):
                    anna.charge(scope, COST, key="k-3")
            with pytest.raises(PermissionDeniedError):
                anna.charge("acme/ben/now", COST, key="k-3")
            assert anna.balance("acme/anna/next").valid_from is not None
        with open_ledger(site.url, token=secrets["ben"]) as ben:
            for number in range(2):
                ben.charge("acme/ben/now", COST, key=f"k-{number}")
            with pytest.raises(BudgetExceededError, match="'acme'"):
                ben.charge("acme/ben/now", COST, key="k-2")
