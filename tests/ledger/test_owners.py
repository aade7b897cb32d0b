"""What owners do: caps change, scopes retire, plans are announced, charges are taken back or closed for others."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from epsilog.ledger import (
    Verb,
)
from epsilog.mechanisms import Gaussian, PureDP
from epsilog.terms import BudgetExceededError, CheckError, ConflictError

ACT = {"actor": "dora", "reason": "agreed on 3 May"}
HASH, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def books(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="10")
    return ledger


def last(ledger):
    (entry,) = ledger.page(limit=1)
    return entry


# --- caps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "cap"),
    [
        ({"kind": "pure", "epsilon": "3"}, {"epsilon": "5"}),
        ({"kind": "pure", "epsilon": "3", "quota": True}, {"epsilon": "2"}),
        ({"kind": "zcdp", "epsilon": "1", "delta": "1e-6"}, {"epsilon": "2", "delta": "1e-6"}),
        ({"kind": "rdp", "epsilon": "2", "delta": "1e-6", "orders": ["16", "64"]}, {"epsilon": "3", "delta": "1e-6"}),
    ],
)
def test_a_budget_is_made_again_with_its_first_caps_after_a_cap(books, made, cap):
    books.create_budget("acme/below", kind="pure", epsilon="1")
    first = books.create_budget("acme/x", **made)
    now = books.set_cap("acme/x", **cap, **ACT)
    books.reserve("acme/below", PureDP(0.5), key="r")
    head = books.head()
    assert first.caps != now.caps
    assert books.create_budget("acme/x", **made) == now
    assert books.create_budget("acme/x", **made | cap) == now
    for other in (made | {"epsilon": "2.5"}, made | {"simulation": True}):
        with pytest.raises(ConflictError, match="exists already"):
            books.create_budget("acme/x", **other)
    assert books.head() == head


def test_a_partition_is_declared_again_with_its_first_caps_after_they_rose(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="10", privacy_unit="person")
    ledger.declare_partition("acme/q", epsilon="1", **ACT)
    now = ledger.set_cap("acme/q", epsilon="2", **ACT)
    assert ledger.declare_partition("acme/q", epsilon="1", **ACT) == now
    assert ledger.declare_partition("acme/q", epsilon="2", **ACT) == now
    with pytest.raises(ConflictError):
        ledger.declare_partition("acme/q", epsilon="3", **ACT)


# --- quotas -----------------------------------------------------------------------------------------------------------


def test_shares_within_shares_and_budgets_between(books):
    books.create_budget("acme/x/y", kind="pure", epsilon="4", quota=True)
    books.create_budget("acme/x", kind="pure", epsilon="9")  # made later, between the share and what it is a share of
    books.create_budget("acme/x/y/z", kind="pure", epsilon="3", quota=True)
    assert [b.quota for b in books.budgets()] == [None, None, "acme", "acme/x/y"]
    before = books.head()
    books.create_budget("acme/x/y", kind="pure", epsilon="4", quota=True)  # the same again, whatever stands between
    assert books.head() == before
    with pytest.raises(BudgetExceededError, match="'acme/x/y' refuses"):
        books.charge("acme/x/y", PureDP(2.0), key="1")
    with pytest.raises(BudgetExceededError, match="'acme' refuses"):
        books.charge("acme", PureDP(7.0), key="1")
    books.charge("acme", PureDP(6.0), key="1")
    books.charge("acme/x/y/z", PureDP(3.0), key="2")
    books.charge("acme/x/y", PureDP(1.0), key="3")
    assert books.balance("acme").set_aside == books.balance("acme/x/y").set_aside == {"epsilon": "0"}
    books.verify()


@pytest.mark.parametrize(
    ("scope", "given", "message"),
    [
        ("other", {}, "requires a budget above it"),
        ("acme/q", {"kind": "zcdp", "rho": "1"}, "kind of a quota must be that of the budget of 'acme'"),
        ("acme/q", {"simulation": True}, "simulation of a quota must be"),
        ("acme/q", {"privacy_unit": "school"}, "privacy_unit of a quota must be"),
        ("acme", {}, "exists already"),
    ],
)
def test_a_quota_is_a_share_of_the_budget_above_in_its_own_terms(books, scope, given, message):
    given = given if "rho" in given else {"kind": "pure", "epsilon": "1"} | given
    with pytest.raises(ConflictError, match=message):
        books.create_budget(scope, quota=True, **given)
    assert books.head()[0] == 1


# --- retiring ---------------------------------------------------------------------------------------------------------


def test_in_a_retired_scope_nothing_begins_and_what_runs_ends(books):
    running = books.reserve("acme/a", PureDP(1.0), key="running", rounds=2)
    running.start()
    waiting = books.reserve("acme/a", PureDP(1.0), key="waiting")
    books.retire("acme", **ACT)
    books.retire("acme", **ACT)
    assert last(books).verb is Verb.SCOPE_RETIRED
    before = books.head()
    for begin in (
        lambda: books.charge("acme/a", PureDP(0.1), key="1"),
        lambda: books.charge("acme", PureDP(0.0), key="free"),
        lambda: books.register_plan("acme/a", HASH, key="plan"),
        lambda: books.override_cost("acme", Gaussian(0.1), key="cheap", amount={"epsilon": "1"}, reason="so"),
        waiting.start,
    ):
        with pytest.raises(BudgetExceededError, match=r"scope retired \(entry 5\)"):
            begin()
    for act in (
        lambda: books.set_cap("acme", epsilon="20", **ACT),
        lambda: books.create_budget("acme/new", kind="pure", epsilon="1"),
        lambda: books.create_budget("acme/new", kind="pure", epsilon="1", quota=True),
    ):
        with pytest.raises(ConflictError, match=r"scope 'acme' is retired \(entry 5\)"):
            act()
    assert books.head() == before
    assert books.get_headroom("acme/a", PureDP(0.0)).charges == 0
    assert books.get_headroom("acme").available == {"epsilon": "0"}
    running.round_started(1)
    running.round_released(1, output_hash=HASH)
    running.commit()
    waiting.cancel("too late")
    balance = books.balance("acme")
    assert (balance.spent, balance.reserved, balance.retired) == ({"epsilon": "1"}, {"epsilon": "0"}, 5)
    books.verify()


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_may_be_registered_then_allowed_then_reserved(books):
    asked = {"key": "run", "amount": {"epsilon": "0.5"}, "plan_hash": HASH}
    books.register_plan("acme", HASH, key="run")
    books.override_cost("acme", Gaussian(1.0), reason="proof", **asked)
    with pytest.raises(ConflictError, match="a cost override for another request"):
        books.reserve("acme", PureDP(0.5), key="run", plan_hash=HASH)
    books.reserve("acme", Gaussian(1.0), **asked)
    verified = books.verify()
    assert (verified.overridden, verified.charges["acme", "run"].plan) == ((("acme", "run"),), HASH)


# --- reservations that do not last ------------------------------------------------------------------------------------


def held(books, clock, key="run", seconds=60):
    return books.reserve("acme", PureDP(2.0), key=key, until=clock.now + timedelta(seconds=seconds))


def test_the_order_of_entries_decides_and_no_clock(books, clock):
    """Past its time a reservation still starts, if nobody gave it back; and what started never expires."""
    run = held(books, clock)
    clock.now += timedelta(days=1)
    run.start()
    with pytest.raises(ConflictError, match="expired requires charge 'run' to be reserved"):
        books.expire("run")
    other = held(books, clock, key="other")
    clock.now += timedelta(days=1)
    books.expire("other")
    clock.now -= timedelta(days=3)  # a clock that goes backwards brings nothing back
    with pytest.raises(ConflictError, match="is cancelled"):
        other.start()
    books.verify()


def test_the_time_of_a_reservation_is_part_of_what_is_asked(books, clock):
    until = datetime(2026, 5, 1, 12, tzinfo=UTC)
    charge = books.reserve("acme", PureDP(2.0), key="run", until=until)
    assert books.charge_record("run").until == "2026-05-01T12:00:00.000000+00:00"
    assert books.reserve("acme", PureDP(2.0), key="run", until=until).replayed
    assert books.reserve("acme", PureDP(2.0), key="run").replayed
    with pytest.raises(ConflictError, match="is held until 2026-05-01"):
        books.reserve("acme", PureDP(2.0), key="run", until=until + timedelta(days=1))
    for wrong in ("2026-05-01", until.replace(tzinfo=None), 7):
        with pytest.raises(CheckError, match="until must be a datetime with its offset"):
            books.reserve("acme", PureDP(2.0), key="2", until=wrong)
    charge.hold(until + timedelta(days=1))
    charge.hold(until + timedelta(days=1))
    assert last(books).body == {"until": "2026-05-02T12:00:00.000000+00:00"}
    assert books.head()[0] == 4
    assert books.reserve("acme", PureDP(2.0), key="run", until=until).replayed  # what was asked first is asked again
    assert books.reserve("acme", PureDP(2.0), key="run", until=until + timedelta(days=1)).replayed
    with pytest.raises(ConflictError, match="is held until 2026-05-02"):
        books.reserve("acme", PureDP(2.0), key="run", until=until + timedelta(days=2))
    charge.cancel("not needed")
    with pytest.raises(ConflictError, match="requires charge 'run' to be reserved, but it is cancelled"):
        charge.hold(until + timedelta(days=1))


@pytest.mark.parametrize(("moment", "hours"), [(datetime.max, -1), (datetime.min, 1)])
def test_a_time_outside_the_calendar_is_refused(books, moment, hours):
    with pytest.raises(CheckError, match="until must be in the years 1 to 9999"):
        books.reserve("acme", PureDP(2.0), key="run", until=moment.replace(tzinfo=timezone(timedelta(hours=hours))))
    assert books.head()[0] == 1


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_refusal_says_all_that_is_needed_to_act_on_it(books):
    books.create_budget("acme/a", kind="pure", epsilon="9.5")
    books.charge("acme/a", PureDP(8.0), key="1")
    books.reserve("acme/a", PureDP(1.0), key="2")
    with pytest.raises(BudgetExceededError) as refused:
        books.charge("acme/a/x", PureDP(2.5), key="3")
    assert refused.value.to_json() == {
        "scope": "acme",
        "requested": {"epsilon": "2.5"},
        "available": {"epsilon": "1"},
        "caps": {"epsilon": "10"},
        "spent": {"epsilon": "8"},
        "reserved": {"epsilon": "1"},
        "set_aside": {},
        "shortfall": {"epsilon": "1.5"},
        "reason": "",
        "hint": "at most epsilon 0.5 fits",
        "owners": ["acme", "acme/a"],
    }
    for part in (
        "requested epsilon 2.5",
        "available epsilon 1",
        "short by epsilon 1.5",
        "cap epsilon 10",
        "acme and of acme/a",
    ):
        assert part in str(refused.value)
    with pytest.raises(BudgetExceededError) as refused:
        books.charge("acme/a/x", PureDP(0.75), key="3")
    assert refused.value.owners == ("acme/a",)


def test_what_was_written_off_is_part_of_what_was_spent(books):
    books.charge("acme", PureDP(1.0), key="1")
    books.reserve("acme", PureDP(2.0), key="2")
    books.abandon("2", **ACT)
    books.charge("acme", PureDP(4.0), key="3")
    assert [(entry.key, sums["epsilon"]) for entry, sums in books.spending("acme")] == [
        ("1", "1"),
        ("2", "3"),
        ("3", "7"),
    ]
    assert [entry.key for entry, _ in books.spending("acme", limit=2)] == ["2", "3"]
