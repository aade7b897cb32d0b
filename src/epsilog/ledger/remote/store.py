"""A ledger that a server keeps: commands are sent as their JSON, and entries are read word for word.

Each command is refused by the same errors, with the same fields. The server computes costs, and acknowledged commands
are on its disk. An answer may be lost. Idempotent requests are repeated. If our effect cannot be distinguished from
another caller's, the error says that it is unknown: a release needs a charge with a known starter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import Any

from epsilog.ledger import replay, scopes
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord, RoundState
from epsilog.ledger.checkpoints import Checkpoint
from epsilog.ledger.commands import ChargeAtOnce, Command
from epsilog.ledger.commands.base import BUDGET, CHARGE, RESERVATION
from epsilog.ledger.entries import ChargeId, Entry, hash_entry
from epsilog.ledger.execute import Done
from epsilog.ledger.fields import ChargeRequest
from epsilog.ledger.headroom import Headroom
from epsilog.ledger.http_codec import error_from_json
from epsilog.ledger.remote.connection import Connection, NotFoundError
from epsilog.ledger.store import UNREADABLE, StoredRow, StoredState, parse_row, parse_state
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.ledger.view import Served
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    EpsilogError,
    LedgerIntegrityError,
    OutcomeUnknownError,
    StorageError,
    UnsupportedMechanismError,
    check,
)

_AT_ONCE = 500  # entries of one answer
_REFUSED_AS_BEFORE = (BudgetExceededError, CheckError, UnsupportedMechanismError)


class RemoteSession:
    """A read view of a server's ledger: answers come from different moments, so entries are paged by their index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check(self) -> None:
        """The server's database is the server's to check."""

    def head(self) -> tuple[int, str]:
        """Count of entries and hash of the last."""
        found = self._connection.get("/head")
        return check.integer(0)(count=found["count"]), str(found["hash"])

    def rows(
        self, *, start: int | None = None, scope: str | None = None, limit: int | None = None
    ) -> Iterator[StoredRow]:
        """Yield entries, oldest first; see ``store.Session``."""
        after, left, more = max(0, (start or 1) - 1), limit, True
        while more and (left is None or left > 0):
            asked = _AT_ONCE if left is None else min(left, _AT_ONCE)
            found = self._connection.get("/rows", scope=scope, after=after, limit=asked)
            rows = [parse_entry_row(document) for document in found["documents"]]
            more = bool(found["more"]) and bool(rows)
            for row in rows:
                if row.position <= after:
                    raise LedgerIntegrityError("is out of order", index=row.position)
                after = row.position
                yield row
            left = None if left is None else left - len(rows)

    def page(self, *, before: int, limit: int, scope: str | None = None, verb: str | None = None) -> list[Entry]:
        """Return the newest entries before an index, newest first."""
        found: list[Entry] = []
        while len(found) < limit and before > 1:
            asked = min(limit - len(found), _AT_ONCE)
            stated = self._connection.get("/page", before=before, limit=asked, scope=scope, verb=verb)["documents"]
            found += [parse_row(parse_entry_row(document)) for document in stated]
            if len(stated) < asked:
                break
            before = found[-1].index
        return found

    def entry(self, position: int) -> Entry:
        """Return the entry at an index that exists."""
        found = parse_row(parse_entry_row(self._connection.get("/entry", index=position)["document"]))
        if found.index != position:
            raise LedgerIntegrityError("is another than was asked for", index=position)
        return found

    def latest(self, _: str) -> Entry | None:
        """Refuse: ledger-wide entries are visible only with access to all of the ledger."""
        raise StorageError("a server does not show ledger-wide entries here")

    def read_stored_state(self) -> StoredState:
        """Refuse: the server compares its stored state itself."""
        raise StorageError("a server does not show its stored state")

    def balances(self, scopes: Iterable[str] | None) -> list[Balance]:
        """Return the budgets among some scopes, ancestors first; all that the token may see for None."""
        if scopes is None:
            return self._balances(None)
        wanted = set(scopes)
        deepest = [one for one in wanted if not any(other.startswith(f"{one}/") for other in wanted)]
        found = {b.scope: b for one in deepest for b in self._balances(one) if b.scope in wanted}
        return [found[scope] for scope in sorted(found)]

    def below(self, scope: str) -> list[Balance]:
        """Return the budgets under a scope that the token may see, ancestors first."""
        return [found for found in self._balances(None) if found.scope.startswith(f"{scope}/")]

    def _balances(self, above: str | None) -> list[Balance]:
        stated = self._connection.get("/balances", above=above)["budgets"]
        return [parse_budget(budget) for budget in stated]

    def charge(self, name: ChargeId) -> ChargeRecord | None:
        """Return the charge with a key in a scope, if there is one that the token may see."""
        scope, key = name
        found = self._connection.get("/charges", key=key, scope=scope)["charge"]
        return None if found is None else parse_charge(found, key=key, scope=scope)

    def find_charges(self, key: str) -> list[ChargeRecord]:
        """Return the charge that has a key; of several that the token may see, the server asks which is meant."""
        found = self._connection.get("/charges", key=key)["charge"]
        return [] if found is None else [parse_charge(found, key=key)]

    def rounds(self, name: ChargeId) -> list[RoundState]:
        """Return the rounds of a charge, in order."""
        scope, key = name
        return [RoundState(*stated) for stated in self._connection.get("/charges", key=key, scope=scope)["rounds"]]


class RemoteStore(Served):
    """Where a server keeps a ledger; read through its answers, and written by the server alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        """Return the server's URL."""
        return self._connection.address

    @contextmanager
    def reading(self) -> Iterator[RemoteSession]:
        """Yield what the server says now."""
        yield RemoteSession(self._connection)

    def execute(self, command: Command, /) -> Done:
        """Send a command, and return what the server reports as done."""
        found, lost = self._send(command)
        if command.subject == BUDGET:
            return Done(balance=parse_budget(found["budget"], scope=command.to_json()["scope"]))
        if command.subject == CHARGE:
            return Done(charge=parse_charge(found["charge"], key=command.key_of_charge()))
        if command.subject != RESERVATION:
            return Done(accepted=bool(found["accepted"]))
        replayed = found["replayed"] is not False  # new only if it is said to be
        if lost and replayed and isinstance(command, ChargeAtOnce):
            raise OutcomeUnknownError(
                f"a reply was lost: charge {command.key!r} exists, but it is unknown whether this request created it"
            )
        return Done(reserved=_read_reservation(found["entry"], command.to_json()), replayed=replayed)

    def charge_many(self, charges: Sequence[ChargeAtOnce], *, atomic: bool) -> list[Done | Exception]:
        """Send charges for one transaction."""
        asked = [charge.to_json() for charge in charges]
        found, lost = self._post("/charges", {"charges": asked, "atomic": atomic})
        stated = found["outcomes"]
        if len(stated) != len(asked):
            raise EpsilogError(f"the server answered {len(stated)} of {len(asked)} charges")
        if lost and any("error" not in one and one["replayed"] is not False for one in stated):
            raise OutcomeUnknownError(
                "a reply was lost: charges of the batch exist, but it is unknown whether this request created them"
            )
        return [_read_outcome(one, ask) for one, ask in zip(stated, asked, strict=True)]

    def _send(self, command: Command) -> tuple[dict[str, Any], bool]:
        """Ask the server, which does it or refuses.

        After a lost answer a conflict may come from our own effect, and a refused caller may have had access before:
        the outcome is unknown. A refusal that the first attempt would also have met means that nothing was done.
        """
        return self._post(f"/{command.name}", command.to_json(), again=command.repeatable)

    def _post(self, path: str, ask: Mapping[str, Any], *, again: bool = True) -> tuple[dict[str, Any], bool]:
        try:
            return self._connection.post(path, ask, again=again)
        except EpsilogError as error:
            refusal = error.refusal if isinstance(error, BatchRefusedError) else error
            if isinstance(refusal, _REFUSED_AS_BEFORE):
                raise
            if isinstance(error.__cause__, OutcomeUnknownError) and not isinstance(error, OutcomeUnknownError):
                raise OutcomeUnknownError(f"{error.__cause__}; a retry was refused: {error}") from error
            raise

    def spending(self, scope: str, *, limit: int) -> list[tuple[Entry, Amounts]]:
        """Return what the newest charges under a budget cost, at most 500."""
        scopes.list_ancestors(scope)
        found = self._connection.get("/spending", scope=scope, limit=min(limit, 500))["spending"]
        return [(parse_row(parse_entry_row(one["entry"])), Amounts.parse(one["total"])) for one in found]

    def get_headroom(self, scope: str, request: ChargeRequest | None) -> Headroom:
        """Return the available amount of a scope, with the server's costs."""
        scopes.list_ancestors(scope)
        asked = {} if request is None else request.to_json()
        ask = {"scope": scope} | {name: asked[name] for name in ("release", "delta", "relation") if name in asked}
        found, _ = self._connection.post("/headroom", ask)
        return Headroom(Amounts.parse(found["available"]), found["charges"], found["repetitions"])

    def verify(
        self, *, progress: Callable[[int], None] | None, seconds: float, since: Checkpoint | None
    ) -> replay.LedgerVerification:
        """Replay the whole ledger locally: the server's entries, and then their costs.

        The stored state of the server is compared as far as it is visible: balances, but no charges.
        """
        with self.reading() as session:
            head, stated, now = session.head(), session.balances(None), session.head()
            rows = takewhile(lambda row: row.position <= head[0], session.rows())
            replayed = replay.replay_entries(rows, progress=progress, since=since)
        if (replayed.count, replayed.head) != head:
            raise LedgerIntegrityError(
                "the head that the server states does not match its entries", index=replayed.count
            )
        if now == head and replayed.balances != {budget.scope: budget for budget in stated}:
            raise LedgerIntegrityError("the balances of the server do not match its entries")
        return replace(replay.recheck_costs(replayed, seconds=seconds), charges_compared=False)

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()


def parse_charge(document: Any, **named: Any) -> ChargeRecord:
    """Parse the state of a charge from a server."""
    return parse_state(ChargeRecord.parse, json.dumps(document), **named)


def parse_budget(document: Any, **named: str) -> Balance:
    """Parse a budget from a server."""
    return parse_state(Balance.parse, json.dumps(document), **named)


def parse_entry_row(document: Any) -> StoredRow:
    """Return an entry as stored; the parser refuses what it cannot read."""
    try:
        fields = json.loads(document)
        if type(fields["index"]) is not int:
            raise ValueError("its index is no whole number")
        return StoredRow(fields["index"], fields["scope"], document, hash_entry(document))
    except UNREADABLE as error:
        raise LedgerIntegrityError(f"an entry cannot be read: {error!r}") from error


def remote_ledger_exists(connection: Connection) -> bool:
    """Return whether a server keeps a ledger at all."""
    try:
        connection.get("/head")
    except NotFoundError:
        return False
    finally:
        connection.close()
    return True


def _read_outcome(document: Mapping[str, Any], asked: Mapping[str, Any]) -> Done | Exception:
    """Return what was done for one charge of a batch, or why it was refused."""
    if "error" in document:
        return error_from_json(document["error"])
    return Done(reserved=_read_reservation(document["entry"], asked), replayed=document["replayed"] is not False)


def _read_reservation(document: Any, asked: Mapping[str, Any]) -> Entry:
    """Return the reservation of an answer, if it is the requested one."""
    entry = parse_row(parse_entry_row(document))
    request = entry.body.get("request", {})
    if (
        not TRANSITIONS[entry.verb].reserves
        or (entry.key, entry.scope) != (asked["key"], asked["scope"])
        or any(
            request.get(name) != asked.get(name, default)
            for name, default in (("release", None), ("plan_hash", None), ("rounds", None), ("simulation", False))
        )
    ):
        raise LedgerIntegrityError("is not the reservation that was asked for", index=entry.index)
    text = asked.get("certificate")
    if text is not None and entry.body.get("certificate") != hash_entry(text):
        raise LedgerIntegrityError("does not name the certificate that was presented", index=entry.index)
    return entry
