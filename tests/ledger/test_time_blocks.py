"""The next blocks of a calendar: in the terms of the latest one, with what is below it, and once."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from epsilog.ledger.time_blocks import PERIODS, create_time_blocks
from epsilog.mechanisms import PureDP
from epsilog.terms import CheckError, ConflictError

NOW = datetime(2026, 11, 29, 23, tzinfo=UTC)
ACT = {"actor": "dora", "reason": "over"}
NAMES = {  # the present block and the next one, by hand
    "day": ("2026-11-29", "2026-11-30"),
    "week": ("2026-W48", "2026-W49"),
    "month": ("2026-11", "2026-12"),
    "quarter": ("2026-Q4", "2027-Q1"),
    "year": ("2026", "2027"),
}


def scopes(ledger):
    return sorted(one.scope for one in ledger.budgets())


@pytest.mark.parametrize("period", PERIODS)
def test_the_present_and_the_next_block_are_created_once(ledger, period):
    ledger.create_budget("acme", kind="pure", epsilon="9")
    ledger.create_budget(
        "acme/2000-01-01" if period == "day" else f"acme/2000{NAMES[period][0][4:]}", kind="pure", epsilon="1"
    )
    made = create_time_blocks(ledger, "acme", period=period, now=NOW)
    assert [one.scope for one in made] == [f"acme/{name}" for name in NAMES[period]]
    head = ledger.head()
    assert create_time_blocks(ledger, "acme", period=period, now=NOW) == []
    assert ledger.head() == head


@given(st.dates(date(1999, 1, 1), date(2060, 1, 1)), st.sampled_from(list(PERIODS)))
def test_every_day_is_in_one_period_and_periods_follow_without_a_gap(day, period):
    calendar = PERIODS[period]
    start, after = calendar.start(day), calendar.following(calendar.start(day))
    assert start <= day < after
    assert calendar.start(after) == after
    assert calendar.start(after - timedelta(days=1)) == start
    assert calendar.pattern.fullmatch(calendar.name(start))
    assert calendar.name(start) < calendar.name(after)
    assert calendar.name(day if period in ("day", "week") else start) == calendar.name(start)


def test_a_block_has_the_terms_of_the_latest_and_what_is_in_use_below_it(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="9", privacy_unit="person")
    first = {"kind": "pure", "privacy_unit": "person"}
    ledger.create_budget("acme/2026-Q2", epsilon="7", **first)
    ledger.create_budget("acme/2026-Q3", epsilon="2", quota=True, requires_approvals=2, **first)
    ledger.create_budget("acme/2026-Q3/anna", epsilon="1", **first)
    ledger.create_budget("acme/2026-Q3/anna/pilot", epsilon="0.5", **first)
    ledger.create_budget("acme/2026-Q3/bob", epsilon="1", **first)
    ledger.create_budget("acme/2026-Q3-extra", epsilon="3", **first)
    ledger.retire("acme/2026-Q3/bob", **ACT)
    ledger.retire("acme/2026-Q3", **ACT)
    made = create_time_blocks(ledger, "acme", period="quarter", next_periods=0, now=NOW)
    assert [one.scope for one in made] == ["acme/2026-Q4", "acme/2026-Q4/anna", "acme/2026-Q4/anna/pilot"]
    block, source = ledger.balance("acme/2026-Q4"), ledger.balance("acme/2026-Q3")
    assert block.terms == source.terms
    assert block.retired is None
    assert [str(one.caps["epsilon"]) for one in made] == ["2", "1", "0.5"]
    ledger.verify()


@pytest.mark.parametrize(
    "terms",
    [
        {"kind": "approximate", "epsilon": "1", "delta": "1e-6", "requires_certificate": True},
        {"kind": "zcdp", "epsilon": "1", "delta": "1e-6"},
        {"kind": "rdp", "rdp_2": "1", "rdp_8": "2", "simulation": True},
        {"kind": "rdp", "epsilon": "1", "delta": "1e-6", "orders": ["16", "32.5"]},
        {"kind": "gdp", "mu_squared": "1", "privacy_unit": "person"},
    ],
)
def test_every_kind_of_budget_is_copied_as_it_is(ledger, terms):
    source = ledger.create_budget("acme/2026-10", **terms)
    for made in create_time_blocks(ledger, "acme", period="month", next_periods=2, now=NOW):
        assert (made.terms, made.caps) == (source.terms, source.caps)
    assert len(scopes(ledger)) == 4
    ledger.verify()


def test_a_changed_cap_is_the_cap_of_the_next_blocks_and_existing_ones_stay(ledger):
    ledger.create_budget("acme/2026-11", kind="pure", epsilon="1")
    create_time_blocks(ledger, "acme", period="month", now=NOW)
    ledger.set_cap("acme/2026-12", epsilon="3", **ACT)
    create_time_blocks(ledger, "acme", period="month", next_periods=2, now=NOW)
    caps = {one.scope[-2:]: one.caps["epsilon"] for one in ledger.budgets()}
    assert caps == {"11": "1", "12": "3", "01": "3"}


def test_a_run_that_ended_early_is_completed_and_a_block_in_use_stays(ledger, monkeypatch):
    for scope in ("acme/2026-10", "acme/2026-10/anna", "acme/2026-10/bob"):
        ledger.create_budget(scope, kind="pure", epsilon="1")
    create, calls = type(ledger).create_budget, []

    def end_early(self, scope, **terms):
        calls.append(scope)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return create(self, scope, **terms)

    monkeypatch.setattr(type(ledger), "create_budget", end_early)
    with pytest.raises(KeyboardInterrupt):
        create_time_blocks(ledger, "acme", period="month", now=NOW)
    monkeypatch.undo()
    (made,) = create_time_blocks(ledger, "acme", period="month", next_periods=0, now=NOW)
    assert made.scope == "acme/2026-11/bob"
    ledger.create_budget("acme/2026-10/carl", kind="pure", epsilon="1")
    ledger.charge("acme/2026-11/carl", PureDP(0.5), key="k")
    assert create_time_blocks(ledger, "acme", period="month", next_periods=0, now=NOW) == []


def test_blocks_of_a_partition_follow_too(ledger):
    ledger.create_budget("data", kind="pure", epsilon="2", privacy_unit="person-quarter")
    ledger.declare_partition("data/quarters", epsilon="1", **ACT)
    ledger.create_budget("data/quarters/2026-Q3", kind="pure", epsilon="1", privacy_unit="person-quarter")
    create_time_blocks(ledger, "data/quarters", period="quarter", now=NOW)
    for quarter in ("2026-Q3", "2026-Q4", "2027-Q1"):
        ledger.charge(f"data/quarters/{quarter}", PureDP(1.0), key="k")
    assert ledger.balance("data").total_reserved == {"epsilon": "1"}
    ledger.verify()


def test_the_present_is_that_of_utc(ledger):
    ledger.create_budget("acme/2026-11-28", kind="pure", epsilon="1")
    east = datetime(2026, 11, 30, 1, tzinfo=timezone(timedelta(hours=3)))
    (made,) = create_time_blocks(ledger, "acme", period="day", next_periods=0, now=east)
    assert made.scope == "acme/2026-11-29"


def test_what_is_refused(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="9", privacy_unit="person")
    ledger.create_budget("acme/2027-Q1", kind="pure", epsilon="1", privacy_unit="person")
    with pytest.raises(ConflictError, match="no block before 'acme/2026-Q4'"):
        create_time_blocks(ledger, "acme", period="quarter", now=NOW)
    ledger.declare_partition("acme/2026-10", epsilon="1", **ACT)
    with pytest.raises(ConflictError, match="'acme/2026-10' is a partition"):
        create_time_blocks(ledger, "acme", period="month", now=NOW)
    for wrong in (
        {"period": "decade"},
        {"next_periods": -1},
        {"next_periods": 61},
        {"next_periods": 1.5},
        {"now": datetime(2026, 1, 1)},
    ):
        with pytest.raises(CheckError):
            create_time_blocks(ledger, "acme", **({"period": "quarter", "now": NOW} | wrong))
    assert scopes(ledger) == ["acme", "acme/2026-10", "acme/2027-Q1"]
