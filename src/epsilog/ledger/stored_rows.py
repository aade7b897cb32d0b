"""The stored rows of a ledger, and their parser: nothing in them is trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from epsilog.ledger.charge_record import RoundState
from epsilog.ledger.entries import ChargeId, Entry, hash_entry
from epsilog.terms import LedgerIntegrityError

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what reading foreign JSON may raise
T = TypeVar("T")
Name_co = TypeVar("Name_co", covariant=True)
What_co = TypeVar("What_co", covariant=True)


class StoredRow(NamedTuple):
    """A stored entry. After tampering, each attribute may hold any value.

    Attributes:
        position: its index.
        scope: its scope.
        document: its canonical JSON.
        hash: SHA-256 of the document.
    """

    position: Any
    scope: Any
    document: Any
    hash: Any

    @classmethod
    def of(cls, entry: Entry) -> StoredRow:
        """Return the row of an entry."""
        document = entry.document()
        return cls(entry.index, entry.scope, document, hash_entry(document))

    @property
    def head(self) -> tuple[int, str]:
        """Return the number of entries up to this one, and its hash."""
        return self.position, self.hash


class RowMapping(Protocol[Name_co, What_co]):
    """Rows by name: a dictionary, or rows that are read on demand."""

    def items(self) -> Iterable[tuple[Name_co, What_co]]:
        """Return all of them."""


@dataclass(frozen=True, slots=True)
class StreamedRows(Generic[Name_co, What_co]):
    """Rows that are read on demand, while their view is open."""

    ask: Callable[[], Iterator[tuple[Name_co, What_co]]]

    def items(self) -> Iterator[tuple[Name_co, What_co]]:
        """Return all of them."""
        return self.ask()


@dataclass(frozen=True, slots=True)
class StoredState:
    """The stored state, which must equal the replay of the entries.

    Attributes:
        head: count of the entries, and hash of the last.
        balances: documents by scope.
        charges: documents by scope and key.
        rounds: by scope and key of the charge, and number; those of one charge in order.
    """

    head: tuple[int, str]
    balances: RowMapping[str, str]
    charges: RowMapping[ChargeId, str]
    rounds: RowMapping[tuple[ChargeId, int], RoundState]


def parse_state(parse: Callable[[str], T], document: str, **named: str) -> T:
    """Parse a stored balance or charge; unreadable or mismatched data is a ``LedgerIntegrityError``."""
    try:
        found = parse(document)
    except UNREADABLE as error:
        raise LedgerIntegrityError(f"a stored balance or charge cannot be read: {error!r}") from error
    for name, value in named.items():
        if getattr(found, name) != value:
            raise LedgerIntegrityError(f"what is stored for {name} {value!r} is that of {getattr(found, name)!r}")
    return found


def hash_row(row: StoredRow) -> str:
    """Return the hash of a row's document, which must be text."""
    if not isinstance(row.document, str):
        raise LedgerIntegrityError(f"must be text, got {type(row.document).__name__}", index=row.position)
    return hash_entry(row.document)


def parse_row(row: StoredRow, read: Callable[[str], Entry] = Entry.parse) -> Entry:
    """Return the entry of a row, if the row is what its hash says, as ``read`` reads it."""
    hashed = hash_row(row)
    try:
        entry = read(row.document)
    except UNREADABLE as error:
        raise LedgerIntegrityError(f"cannot be read: {error}", index=row.position) from error
    if (entry.index, entry.scope, hashed) != (row.position, row.scope, row.hash):
        raise LedgerIntegrityError("does not match its hash, index and scope", index=row.position)
    return entry
