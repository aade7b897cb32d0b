"""The table of the life of a charge: what it allows is what the folds do, and what it promises holds of every row."""

import re
from pathlib import Path

import pytest

from epsilog.ledger import Amounts, ChargeState, Verb
from epsilog.ledger.balances import Balance
from epsilog.ledger.budget_path import apply_to_balance
from epsilog.ledger.charge_record import ChargeRecord, RoundState, apply_to_charge, apply_to_round, get_round_stage
from epsilog.ledger.entries import GENESIS, Entry
from epsilog.ledger.transitions import CLOSED_STATES, TRANSITIONS, UNRESERVED_STATES, RoundStage
from epsilog.terms import ConflictError, NeighboringRelation

HASH = "ab" * 32
PRICE = Amounts.from_charge({"epsilon": "0.5"})
REQUEST = {"rounds": 3, "plan_hash": HASH, "relation": "add-or-remove-one", "privacy_unit": None, "simulation": False}
BODIES = {
    Verb.PLAN_REGISTERED: {"plan_hash": HASH},
    Verb.COST_OVERRIDDEN: {"request": REQUEST},
    Verb.RESERVED: {"request": REQUEST},
    Verb.CHARGED: {"request": REQUEST},
    Verb.APPROVED: {"actor": "dora"},
    Verb.EXPIRY_SET: {"until": "2026-01-01T00:00:00.000000+00:00"},
    Verb.ROUND_STARTED: {"round": 1},
    Verb.ROUND_RELEASED: {"round": 1, "output_hash": HASH},
}
OF_CHARGES = [verb for verb, rule in TRANSITIONS.items() if rule.from_states]
ROUNDS = {RoundStage.NOT_STARTED: None, RoundStage.OPEN: RoundState(1, 1), RoundStage.RELEASED: RoundState(1, 1, HASH)}


def entry(verb):
    amounts = {"pure": PRICE} if TRANSITIONS[verb].changes_balance else {}
    return Entry(7, GENESIS, "2026-01-01T00:00:00+00:00", verb, "acme", "run", amounts, BODIES.get(verb, {}))


def charge_in(state):
    if state is None:
        return None
    if state is ChargeState.REGISTERED:
        return apply_to_charge(None, entry(Verb.PLAN_REGISTERED))
    if state is ChargeState.OVERRIDDEN:
        return apply_to_charge(None, entry(Verb.COST_OVERRIDDEN))
    closed = 3 if state in CLOSED_STATES else None
    until = "2026-01-01T00:00:00+00:00"  # it has come
    return ChargeRecord("run", "acme", state, {"pure": PRICE}, rounds=3, opened=1, closed=closed, until=until)


@pytest.mark.parametrize("verb", OF_CHARGES)
def test_a_verb_is_allowed_in_the_states_of_its_row_and_leads_where_it_says(verb):
    for state in (None, *ChargeState):
        try:
            moved = apply_to_charge(charge_in(state), entry(verb))
        except ConflictError:
            assert state not in TRANSITIONS[verb].from_states, state
            continue
        assert state in TRANSITIONS[verb].from_states, state
        assert moved.state is TRANSITIONS[verb].to_state, state
        assert moved.closed == (3 if state in CLOSED_STATES else 7 if moved.state in CLOSED_STATES else None), state


@pytest.mark.parametrize("stage", RoundStage)
@pytest.mark.parametrize("verb", OF_CHARGES)
def test_a_round_is_in_the_stages_of_the_row(verb, stage):
    rule, last = TRANSITIONS[verb], ROUNDS[stage]
    state = next(iter(rule.from_states))

    def moved():
        charge = apply_to_charge(charge_in(state), entry(verb), last=last)
        return None if rule.stage is None else get_round_stage(apply_to_round(charge, last, entry(verb), last=last))

    if stage in rule.rounds:
        assert moved() is rule.stage
    else:
        with pytest.raises(ConflictError, match="round 1 of charge 'run'"):
            moved()


@pytest.mark.parametrize("verb", OF_CHARGES)
def test_money_moves_as_the_row_says_and_is_neither_made_nor_lost(verb):
    sums = {name: Amounts.from_charge({"epsilon": "1"}) for name in ("reserved", "started", "committed")}
    budget = Balance(
        "acme", "pure", NeighboringRelation.ADD_OR_REMOVE_ONE, None, False, Amounts.from_cap({"epsilon": "9"}), **sums
    )
    rule, moved = TRANSITIONS[verb], apply_to_balance(budget, entry(verb))
    for name, before in sums.items():
        after = before if name != rule.debit else before - PRICE
        assert getattr(moved, name) == (after if name != rule.credit else after + PRICE)
    assert moved.decommissioned == (PRICE if verb is Verb.DECOMMISSIONED else None)
    if (rule.debit and rule.credit) or rule.memo:
        assert moved.total_reserved == budget.total_reserved


def test_nothing_that_was_spent_comes_back():
    """Out of started money goes to committed alone, and out of committed nowhere."""
    spent = ("started", "committed")
    assert all(rule.credit in spent for rule in TRANSITIONS.values() if rule.debit in spent)
    assert {
        ChargeState.COMMITTED,
        ChargeState.CANCELLED,
        ChargeState.ABANDONED,
        ChargeState.DECOMMISSIONED,
    } == CLOSED_STATES
    assert {ChargeState.REGISTERED, ChargeState.OVERRIDDEN} == UNRESERVED_STATES


def test_every_state_is_reached_and_money_is_where_the_state_says():
    reached, held = {None}, dict.fromkeys((None, *UNRESERVED_STATES, ChargeState.CANCELLED))
    held |= {state: state.value for state in (ChargeState.RESERVED, ChargeState.STARTED, ChargeState.COMMITTED)}
    held |= dict.fromkeys((ChargeState.ABANDONED, ChargeState.DECOMMISSIONED), "committed")
    for _ in ChargeState:
        reached |= {rule.to_state for rule in TRANSITIONS.values() if reached.intersection(rule.from_states)}
    assert reached == {None, *ChargeState}
    for rule in TRANSITIONS.values():
        for state in rule.from_states:
            passes = rule.debit or rule.credit
            assert (rule.debit, rule.credit) == ((held[state], held[rule.to_state]) if passes else (None, None))
            assert passes or held[state] == held[rule.to_state]


def test_in_a_retired_scope_nothing_begins_and_everything_can_end():
    ends = {verb for verb in OF_CHARGES if TRANSITIONS[verb].to_state in CLOSED_STATES} - {Verb.CHARGED}
    goes_on = {Verb.ROUND_STARTED, Verb.ROUND_RELEASED}
    assert {verb for verb, rule in TRANSITIONS.items() if rule.retired} == ends | goes_on


def test_the_page_shows_the_table():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "ledger.md").read_text()
    shown = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"\| `[a-z-]+` \|.*", page)]

    def states(values):
        return ", ".join("unknown" if value is None else str(value) for value in values)

    def money(rule):
        if rule.debit and rule.credit:
            return f"{rule.debit} to {rule.credit}"
        if rule.memo:
            return f"recorded as {rule.memo}"
        return f"into {rule.credit}" if rule.credit else f"out of {rule.debit}" if rule.debit else ""

    rows = {
        f"`{verb}`": [
            states(rule.from_states),
            str(rule.to_state),
            money(rule),
            states(rule.rounds) if rule.rounds != tuple(RoundStage) else "",
            rule.stage or "",
        ]
        for verb, rule in TRANSITIONS.items()
        if rule.from_states
    }
    assert {name: cells for name, *cells in shown if name in rows} == rows
