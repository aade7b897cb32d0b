"""The interface of a ledger's database: a view for reading, and one exclusive transaction for writing.

Any store with these methods can hold a ledger. The layers above have the rules of the ledger. A store decides nothing
about amounts: it stores rows, and reports rows that differ from what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_record import ChargeRecord, RoundState
from epsilog.ledger.entries import ChargeId, Entry, Verb, hash_entry
from epsilog.terms import LedgerIntegrityError

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what reading foreign JSON may raise
T = TypeVar("T")
Name_co = TypeVar("Name_co", covariant=True)
What_co = TypeVar("What_co", covariant=True)


class StoredRow(NamedTuple):
    """A stored entry. After tampering, each attribute may hold any value."""

    position: Any
    scope: Any
    document: Any
    hash: Any  # SHA-256 of the document

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
    """Rows that are read on demand, while their view is open.

    Attributes:
        ask: reads all in the order of their names.
        unordered: reads them in any order, in less time; None without a faster way.
    """

    ask: Callable[[], Iterator[tuple[Name_co, What_co]]]
    unordered: Callable[[], Iterator[tuple[Name_co, What_co]]] | None = None

    def items(self) -> Iterator[tuple[Name_co, What_co]]:
        """Return all of them."""
        return self.ask()


@dataclass(frozen=True, slots=True)
class StoredState:
    """The stored state, which must equal the replay of the entries."""

    head: tuple[int, str]  # count of the entries, and hash of the last
    balances: RowMapping[str, str]  # documents by scope
    charges: RowMapping[ChargeId, str]  # documents by scope and key
    rounds: RowMapping[tuple[ChargeId, int], RoundState]  # by charge and number; those of one charge in order


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


__all__ = ["LedgerSnapshot", "ReadableStore", "Store", "WriteTransaction"]

_FOUND_IN = 50  # entries that a search reads at a time


class LedgerSnapshot(Protocol):
    """One consistent view of the ledger.

    Any row that cannot be read as it was written is a ``LedgerIntegrityError``.
    """

    def check(self) -> None:
        """Raise if the database is damaged or has another schema."""

    def head(self) -> tuple[int, str]:
        """Return the number of entries and the hash of the last, checked against the last entry."""

    def rows(
        self, *, start: int | None = None, scope: str | None = None, limit: int | None = None
    ) -> Iterator[StoredRow]:
        """Return the stored entries, oldest first.

        Args:
            start: from this index on; None for all stored rows, whatever their index.
            scope: at and under this scope; None for all.
            limit: maximum number of entries, without reading the rest; None for all.
        """

    def page(self, *, before: int, limit: int, scope: str | None = None, verb: str | None = None) -> list[Entry]:
        """Return the newest entries before an index, newest first; ``verb`` needs a scope."""

    def entry(self, position: int) -> Entry:
        """Return the entry at an index that exists."""

    def latest(self, scope: str) -> Entry | None:
        """Return the last entry of exactly this scope, if any; "" is the scope of the whole ledger."""

    def read_stored_state(self) -> StoredState:
        """Return the stored state next to the entries."""

    def balances(self, scopes: Iterable[str] | None) -> list[Balance]:
        """Return the budgets among some scopes, ancestors first; all for None."""

    def below(self, scope: str) -> list[Balance]:
        """Return the budgets under a scope, ancestors first."""

    def charge(self, name: ChargeId) -> ChargeRecord | None:
        """Return the charge with a key in a scope, if there is one."""

    def find_charges(self, key: str) -> list[ChargeRecord]:
        """Return the charges with a key, at most one per scope, by scope."""

    def rounds(self, name: ChargeId) -> list[RoundState]:
        """Return the rounds of a charge, in order."""


def find_newest_entry(
    session: LedgerSnapshot, scope: str, verb: str, wanted: Callable[[Entry], bool], *, before: int
) -> Entry | None:
    """Return the newest entry at and under a scope that does this, before an index, and is wanted; None without one."""
    while page := session.page(before=before, limit=_FOUND_IN, scope=scope, verb=verb):
        if (found := next(filter(wanted, page), None)) is not None:
            return found
        before = page[-1].index
    return None


def find_override(session: LedgerSnapshot, charge: ChargeRecord) -> Entry | None:
    """Return the entry in which an owner allowed the cost of a charge that is open; None without one."""
    if charge.override_hash is None:
        return None
    at = charge.scope, Verb.COST_OVERRIDDEN
    return find_newest_entry(session, *at, lambda one: one.charge_id == charge.id, before=charge.opened)


class WriteTransaction(LedgerSnapshot, Protocol):
    """One transaction: a view that sees its own writes.

    Attributes:
        intact: whether the transaction is valid; False once a part could not be undone, and then all of it is lost.
    """

    intact: bool

    def part(self) -> AbstractContextManager[None]:
        """Open a block that undoes its writes if it raises; other writes stay."""

    def has_charges(self, scope: str) -> bool:
        """Return whether any charge was ever made at a scope or under it."""

    def round(self, name: ChargeId, number: int) -> RoundState | None:
        """Return one round of a charge, if it started."""

    def last_round(self, name: ChargeId) -> RoundState | None:
        """Return the last round of a charge that started, if any."""

    def append(self, *rows: StoredRow) -> None:
        """Append entries, at least one, and move the head to the last."""

    def put_balances(self, changed: Iterable[Balance]) -> None:
        """Store balances, at least one."""

    def put_charge(self, charge: ChargeRecord) -> None:
        """Store a charge."""

    def put_round(self, name: ChargeId, state: RoundState) -> None:
        """Store a round of a charge."""


class ReadableStore(Protocol):
    """A store that a ledger can be read from."""

    @property
    def address(self) -> str:
        """Return its address, as ``open_ledger`` takes it."""

    def reading(self) -> AbstractContextManager[LedgerSnapshot]:
        """Return a view, isolated from concurrent writes."""

    def close(self) -> None:
        """Close it for this process; later calls raise a ``StorageError``."""


class Store(ReadableStore, Protocol):
    """A store for a ledger, shared by threads and processes; its constructor opens or creates it."""

    def reading(self) -> AbstractContextManager[WriteTransaction]:
        """Return one consistent view, isolated from concurrent writes."""

    def writing(self) -> AbstractContextManager[WriteTransaction]:
        """Return the only writer, among all processes, until the block ends; all of its writes last, or none.

        Raises:
            StorageError: it cannot be written, or is not the one that was opened. Raised at the end, the entries may
                stand or be lost: they were not acknowledged, and a retry with the same key finds out.
        """
