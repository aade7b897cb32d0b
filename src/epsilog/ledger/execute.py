"""The one place where commands meet a store: what a command does is read, applied and written in one transaction.

Costs are computed outside of any transaction, so that other writers do not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from epsilog.ledger import budget_path, scopes
from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord, RestoreState, RoundState
from epsilog.ledger.commands import ChargeAtOnce, Command
from epsilog.ledger.commands.base import BUDGET, CHARGE, RESERVATION, Caller, Step, apply, fold, lazy, require_own
from epsilog.ledger.entries import ChargeId, Entry
from epsilog.ledger.headroom import CostModel
from epsilog.ledger.store import LedgerSnapshot, Store, StoredRow, WriteTransaction, find_override, parse_row
from epsilog.ledger.templates import ChargeTemplate, Templates
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    StorageError,
    check,
)

REMEMBERED = 4096  # charges
MAX_BATCH = 1000  # commands of one transaction, for which all other writers wait
_NAMED = 10  # scopes that have the same key


class Done(NamedTuple):
    """What a command has done, or what was done before by the same."""

    balance: Balance | None = None  # the budget that it was about
    charge: ChargeRecord | None = None  # the state of the charge
    reserved: Entry | None = None  # the entry that reserved it, where the command was to reserve it
    accepted: bool | None = None  # whether the ledger takes charges, where the command was about the whole of it
    document: str | None = None  # the stored text of ``reserved``, where it is at hand
    replayed: bool = False  # whether nothing was written, since the same was done before


class Local:
    """Carries out commands on a store."""

    def __init__(self, store: Store, *, clock: Callable[[], datetime], cost_model: CostModel) -> None:
        self._store, self._clock, self._cost_model = store, clock, cost_model
        self._times: dict[tuple[ChargeId, int], str] = {}  # of reservations: a run asks for its own at each round
        self._templates = Templates()

    def execute(self, command: Command, caller: Caller) -> Done:
        """Does what a command says, durably and once, or refuses."""
        template = self._find_template(command, caller)
        prepared, writing = None, template is not None or command.at_once()
        while True:
            transaction = self._store.writing if writing else self._store.reading
            try:
                with transaction() as session:
                    if template is not None and (done := self._repeat(session, command, template)) is not None:
                        return done
                    at = Reading(session, command, caller, clock=self._clock, prepared=prepared, times=self._times)
                    require_own(command, at)
                    work = command.prepare(at)
                    if work is None and (writing or command.was_done(at)):
                        return self._write(session, command, at)
            except BudgetExceededError as refusal:
                raise command.explain_refusal(refusal, at, self._cost_model) from None
            if work is not None:
                prepared = work(self._cost_model)
            template, writing = None, True

    def _find_template(self, command: Command, caller: Caller) -> ChargeTemplate | None:
        """Return the template of a command, if it repeats a charge that was accepted."""
        return self._templates.find(command, caller) if isinstance(command, ChargeAtOnce) else None

    def _repeat(self, session: WriteTransaction, command: Command, template: ChargeTemplate) -> Done | None:
        """Charge by a template; None where only the full rules can tell, and then nothing is written."""
        assert isinstance(command, ChargeAtOnce), "others have no template"
        if not RestoreState.after(session.latest("")).accepted or session.charge((command.scope, command.key)):
            return None
        path = session.balances(scopes.list_ancestors(command.scope))
        step = template.apply(command.key, session.head(), _format_now(self._clock), path)
        if step is None:
            return None
        session.append(step.row)
        session.put_balances(step.path)
        session.put_charge(step.charge)
        return Done(charge=step.charge, reserved=step.entry, document=step.row.document)

    def is_repeat(self, command: Command, caller: Caller) -> bool:
        """Return whether a command repeats a charge that was accepted."""
        return self._find_template(command, caller) is not None

    def repeat_many(self, asked: Sequence[tuple[Command, Caller]]) -> list[Done | None]:
        """Charge what repeats accepted charges in one transaction; None for each that the full rules must decide."""
        with self._store.writing() as session:
            return [
                None
                if (template := self._find_template(command, caller)) is None
                else self._repeat(session, command, template)
                for command, caller in asked
            ]

    def _write(self, session: WriteTransaction, command: Command, at: Reading) -> Done:
        done = _write(session, command, at)
        if isinstance(command, ChargeAtOnce) and at.charge is None and not done.replayed:
            assert done.reserved is not None, "it was charged"
            assert done.charge is not None, "it was charged"
            if not _is_free(done.reserved):  # callers ask for leave for each of those
                self._templates.add(command, at.caller, ChargeTemplate(done.reserved, done.charge, at.path))
        return done

    def execute_many(self, commands: Sequence[Command], caller: Caller, *, atomic: bool) -> list[Done | Exception]:
        """Carry out commands in one transaction, in order; each sees what those before it have done."""
        check.integer(0, MAX_BATCH)(charges=len(commands))
        batch = _Batch(commands, {}, {})
        missing = [
            index
            for index, command in enumerate(commands)
            if not (command.at_once() or self._find_template(command, caller))
        ]
        while True:
            self._prepare(batch, missing, caller)
            try:
                return self._write_batch(batch, caller, atomic=atomic)
            except _NotPreparedError as error:  # a budget was created since
                missing = [error.index]

    def _prepare(self, batch: _Batch, indexes: Sequence[int], caller: Caller) -> None:
        """Compute what commands need, outside of any transaction."""
        if not indexes:
            return
        with self._store.reading() as session:
            works = {}
            for index in indexes:
                at = self._read(session, batch, index, caller)
                with suppress(*_REFUSALS):  # which the transaction meets again
                    require_own(batch.commands[index], at)
                    works[index] = batch.commands[index].prepare(at)
        for index, work in works.items():
            try:
                batch.prepared[index] = None if work is None else work(self._cost_model)
            except _REFUSALS as refusal:
                batch.failed[index] = _require_refusal(refusal)

    def _write_batch(self, batch: _Batch, caller: Caller, *, atomic: bool) -> list[Done | Exception]:
        outcomes: list[Done | Exception] = []
        refused: list[tuple[int, BudgetExceededError, Reading]] = []
        try:
            with self._store.writing() as session:
                for index, command in enumerate(batch.commands):
                    template = self._find_template(command, caller)
                    at = self._read(session, batch, index, caller)
                    try:
                        if template is not None and (done := self._repeat(session, command, template)) is not None:
                            outcomes.append(done)
                            continue
                        require_own(command, at)
                        if command.prepare(at) is not None:
                            raise batch.failed.get(index) or _NotPreparedError(index)
                        outcomes.append(self._write(session, command, at))
                    except _REFUSALS as refusal:  # before anything of it was written
                        outcomes.append(_require_refusal(refusal))
                        if isinstance(refusal, BudgetExceededError):
                            refused.append((index, refusal, at))
                        if atomic:
                            raise BatchRefusedError(index, str(command.key_of_charge()), refusal) from refusal
        except BatchRefusedError as error:
            for index, found, at in refused:
                explained = batch.commands[index].explain_refusal(found, at, self._cost_model)
                raise BatchRefusedError(index, error.key, explained) from None
            raise
        quick = replace(self._cost_model, repetitions=lambda *_: 0)  # a search for each would take long
        for index, found, at in refused:
            outcomes[index] = batch.commands[index].explain_refusal(found, at, quick)
        return outcomes

    def _read(self, session: WriteTransaction, batch: _Batch, index: int, caller: Caller) -> Reading:
        prepared = batch.prepared.get(index)
        return Reading(session, batch.commands[index], caller, clock=self._clock, prepared=prepared, times=self._times)


class _Batch(NamedTuple):
    """Commands of one transaction, with what was computed for each, or why that failed, by its place."""

    commands: Sequence[Command]
    prepared: dict[int, Any]
    failed: dict[int, Exception]


class _NotPreparedError(Exception):
    """A command needs a computation that was not made."""

    def __init__(self, index: int) -> None:
        self.index = index


_REFUSALS = (EpsilogError, ValueError)


def _require_refusal(error: Exception) -> Exception:
    """Return an error that is of one command alone; raise an error of the ledger or its store."""
    if isinstance(error, StorageError | LedgerIntegrityError):
        raise error
    return error


def _write(session: WriteTransaction, command: Command, at: Reading) -> Done:
    first = last = apply(command, at)
    if first.entry is None:
        return _build_done(command, at, first)
    rows, now = [StoredRow.of(first.entry)], at
    for further in command.then():
        now = now.after(last, rows[-1].head)
        entry = further.entry(now)  # of a charge that is new, settled and the caller's own
        last = fold(entry, now)
        rows.append(StoredRow.of(entry))
    if at.caller.actor is not None and _is_free(first.entry):
        at.caller.admit_free(at.caller.actor)
    session.append(*rows)
    before = {one.scope: one for one in at.path} if last.path else {}
    if changed := [one for one in last.path if before.get(one.scope) is not one]:
        session.put_balances(changed)
    if last.round is not None and at.charge is not None:
        session.put_round(at.charge.id, last.round)
    elif last.charge is not None:
        session.put_charge(last.charge)
    return _build_done(command, at, last, first.entry)


def _is_free(entry: Entry) -> bool:
    """Return whether an entry opens a charge that costs nothing, without an owner."""
    rule = TRANSITIONS[entry.verb]
    return rule.opens and not rule.owned and not any(any(cost.units.values()) for cost in entry.amounts.values())


def _build_done(command: Command, at: Reading, last: Step, reserved: Entry | None = None) -> Done:
    replayed = last.entry is None
    if command.subject == BUDGET:
        return Done(balance=(at.path if replayed else last.path)[-1], replayed=replayed)
    if command.subject not in (CHARGE, RESERVATION):
        return Done(accepted=last.restore_state is not None and last.restore_state.accepted)
    charge = last.charge
    if command.subject == RESERVATION and reserved is None and charge is not None:
        reserved = at.entry(charge.opened)
    return Done(charge=charge, reserved=reserved if command.subject == RESERVATION else None, replayed=replayed)


class Reading:
    """What a command is applied to, read in one transaction as it is asked for; see ``At``."""

    def __init__(
        self,
        session: WriteTransaction,
        command: Command,
        caller: Caller,
        *,
        clock: Callable[[], datetime],
        prepared: Any = None,
        times: dict[tuple[ChargeId, int], str],
    ) -> None:
        self._session, self._command, self._clock, self._times = session, command, clock, times
        self._step: Step | None = None
        self._entries: dict[int, Entry] = {}
        self._rounds: dict[int, RoundState | None] = {}
        self.caller, self.prepared = caller, prepared

    @lazy
    def head(self) -> tuple[int, str]:  # noqa: D102
        return self._session.head()

    @lazy
    def now(self) -> str:  # noqa: D102
        return _format_now(self._clock)

    @lazy
    def restore_state(self) -> RestoreState:  # noqa: D102
        return RestoreState.after(self._session.latest(""))

    @lazy
    def path(self) -> Sequence[Balance]:  # noqa: D102
        scope = self._command.scope_at(self)
        return self._session.balances(scopes.list_ancestors(scope)) if scope else ()

    @lazy
    def charge(self) -> ChargeRecord | None:  # noqa: D102
        key = self._command.key_of_charge()
        if key is None:
            return None
        if TRANSITIONS[self._command.verb].opens:
            return self._session.charge((self._command.scope_at(self), key))
        return find_record(self._session, key, getattr(self._command, "scope", None), self.caller.covers)

    @lazy
    def last(self) -> RoundState | None:  # noqa: D102
        return None if self.charge is None else self._session.last_round(self.charge.id)

    @lazy
    def has_budgets(self) -> bool:  # noqa: D102
        return self._session.has_charges(self._scope) or any(one.partition is not None for one in self._below)

    @lazy
    def has_children(self) -> bool:  # noqa: D102
        return bool(self._below)

    @lazy
    def _below(self) -> Sequence[Balance]:
        return self._session.below(self._scope)

    @lazy
    def _scope(self) -> str:
        return self._command.scope_at(self)

    def round(self, number: int) -> RoundState | None:  # noqa: D102
        if number not in self._rounds:
            begun = self.charge is not None and self._step is None
            self._rounds[number] = self._session.round(self.charge.id, number) if begun and self.charge else None
        return self._rounds[number]

    def overrider(self) -> str | None:  # noqa: D102
        assert self.charge is not None, "only a charge has an overridden cost"
        found = find_override(self._session, self.charge)
        return None if found is None else found.body.get("actor")

    def entry(self, index: int) -> Entry:  # noqa: D102
        if index not in self._entries:
            self._entries[index] = self._session.entry(index)
        return self._entries[index]

    def after(self, step: Step, head: tuple[int, str]) -> Reading:
        """Return the state after the reservation of a charge, in the same transaction."""
        assert step.entry is not None, "what was done before changes nothing"
        found = copy(self)
        changed = {"charge": step.charge, "path": step.path, "last": None}  # it has no round yet
        vars(found).update(changed, _step=step, head=head, now=step.entry.time)
        found._entries = {**self._entries, step.entry.index: step.entry}
        return found

    def reserved_at(self) -> str:  # noqa: D102
        if self._step is not None:
            return self.now
        assert self.charge is not None, "only what happens to a charge has the time of its reservation"
        name = self.charge.id, self.charge.opened
        if (time := self._times.get(name)) is None:
            if len(self._times) >= REMEMBERED:
                self._times.clear()
            time = self._times[name] = self._session.entry(self.charge.opened).time
        return time

    def creation_entry(self) -> Entry:  # noqa: D102
        scope = self.path[-1].scope
        rows = (row for row in self._session.rows(scope=scope) if row.scope == scope)
        return next(entry for entry in map(parse_row, rows) if entry.verb in budget_path.CREATION_VERBS)


def _format_now(clock: Callable[[], datetime]) -> str:
    return clock().astimezone(UTC).isoformat(timespec="microseconds")


def find_record(
    session: LedgerSnapshot, key: str, scope: str | None, covers: Callable[[str], bool] = lambda _: True
) -> ChargeRecord | None:
    """Return the record of the charge with a key, in the given scope or in the only one that has the key."""
    scopes.require_idempotency_key(key)
    if scope is not None:
        scopes.list_ancestors(scope)
        return session.charge((scope, key)) if covers(scope) else None
    found = [charge for charge in session.find_charges(key) if covers(charge.scope)]
    if len(found) > 1:
        named = ", ".join(repr(charge.scope) for charge in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise ConflictError(f"key {key!r} has a charge in several scopes ({named}{more}): state the scope")
    return found[0] if found else None
