"""What a server's ledger says, as a store of it: entries word for word, each checked against its hash."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from epsilog.spend.balances import Balance
from epsilog.spend.entries import ChargeId, Entry, digest
from epsilog.spend.records import ChargeRecord, RoundState
from epsilog.spend.remote.connection import Connection
from epsilog.spend.rows import UNREADABLE, Row, Stored, parsed, stored_state
from epsilog.terms import LedgerIntegrityError, StorageError, check

_AT_ONCE = 500  # entries of one answer


class RemoteSession:
    """What a server's ledger says: each answer is of its own moment, so entries are paged by their index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check(self) -> None:
        """The server's database is the server's to check."""

    def head(self) -> tuple[int, str]:
        """Count of entries and hash of the last."""
        found = self._connection.get("/head")
        return check.integer(0)(count=found["count"]), str(found["hash"])

    def rows(self, *, start: int | None = None, scope: str | None = None, limit: int | None = None) -> Iterator[Row]:
        """Entries, oldest first; see ``store.Session``."""
        after, left, more = max(0, (start or 1) - 1), limit, True
        while more and (left is None or left > 0):
            asked = _AT_ONCE if left is None else min(left, _AT_ONCE)
            found = self._connection.get("/rows", scope=scope, after=after, limit=asked)
            rows = [as_row(document) for document in found["documents"]]
            more = bool(found["more"]) and bool(rows)
            for row in rows:
                if row.position <= after:
                    raise LedgerIntegrityError("is told out of its order", index=row.position)
                after = row.position
                yield row
            left = None if left is None else left - len(rows)

    def page(self, *, before: int, limit: int, scope: str | None = None, verb: str | None = None) -> list[Entry]:
        """The newest entries before an index, newest first."""
        found: list[Entry] = []
        while len(found) < limit and before > 1:
            asked = min(limit - len(found), _AT_ONCE)
            told = self._connection.get("/page", before=before, limit=asked, scope=scope, verb=verb)["documents"]
            found += [parsed(as_row(document)) for document in told]
            if len(told) < asked:
                break
            before = found[-1].index
        return found

    def entry(self, position: int) -> Entry:
        """The entry at an index that exists."""
        found = parsed(as_row(self._connection.get("/entry", index=position)["document"]))
        if found.index != position:
            raise LedgerIntegrityError("is another than was asked for", index=position)
        return found

    def latest(self, _: str) -> Entry | None:
        """What is of the whole ledger is told to those alone who may see all of it."""
        raise StorageError("a server tells nothing of the whole ledger here")

    def stored(self) -> Stored:
        """What the server keeps beside the entries is the server's to compare."""
        raise StorageError("a server tells nothing that it keeps beside the entries")

    def balances(self, scopes: Iterable[str] | None) -> list[Balance]:
        """The budgets among some scopes, ancestors first; all that the token may see for None."""
        if scopes is None:
            return self._balances(None)
        wanted = set(scopes)
        deepest = [one for one in wanted if not any(other.startswith(f"{one}/") for other in wanted)]
        found = {b.scope: b for one in deepest for b in self._balances(one) if b.scope in wanted}
        return [found[scope] for scope in sorted(found)]

    def below(self, scope: str) -> list[Balance]:
        """The budgets under a scope that the token may see, ancestors first."""
        return [found for found in self._balances(None) if found.scope.startswith(f"{scope}/")]

    def _balances(self, above: str | None) -> list[Balance]:
        told = self._connection.get("/balances", above=above)["budgets"]
        return [as_budget(budget) for budget in told]

    def charge(self, name: ChargeId) -> ChargeRecord | None:
        """The charge with a key in a scope, if there is one that the token may see."""
        scope, key = name
        found = self._connection.get("/charges", key=key, scope=scope)["charge"]
        return None if found is None else as_charge(found, key=key, scope=scope)

    def find_charges(self, key: str) -> list[ChargeRecord]:
        """The charge that has a key; of several that the token may see, the server asks which is meant."""
        found = self._connection.get("/charges", key=key)["charge"]
        return [] if found is None else [as_charge(found, key=key)]

    def rounds(self, name: ChargeId) -> list[RoundState]:
        """The rounds of a charge, in order."""
        scope, key = name
        return [RoundState(*told) for told in self._connection.get("/charges", key=key, scope=scope)["rounds"]]


class RemoteStore:
    """Where a server keeps a ledger; read through its answers, and written by the server alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def address(self) -> str:
        """The server's URL."""
        return self._connection.address

    @contextmanager
    def reading(self) -> Iterator[RemoteSession]:
        """What the server says now."""
        yield RemoteSession(self._connection)

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()


def as_charge(told: Any, **named: str) -> ChargeRecord:
    """Where a charge stands, as a server tells it."""
    return stored_state(ChargeRecord.parse, json.dumps(told), **named)


def as_budget(told: Any, **named: str) -> Balance:
    """A budget, as a server tells it."""
    return stored_state(Balance.parse, json.dumps(told), **named)


def as_row(document: Any) -> Row:
    """An entry as it was written; what cannot be read is refused by whoever parses it."""
    try:
        fields = json.loads(document)
        if type(fields["index"]) is not int:
            raise ValueError("its index is no whole number")
        return Row(fields["index"], fields["scope"], document, digest(document))
    except UNREADABLE as error:
        raise LedgerIntegrityError(f"an entry cannot be read: {error!r}") from error
