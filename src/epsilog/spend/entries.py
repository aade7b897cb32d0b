"""Ledger entries: what happened, in order, each naming the hash of the one before.

An entry is stored as its canonical JSON (RFC 8785) and the SHA-256 of those bytes. Order is the index alone; the time
is a note for people. Whoever holds the file can rewrite all of it: a chain shows edits to those who kept a later hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from epsilog.spend.amounts import Amounts
from epsilog.terms import CheckError, check
from epsilog.terms.codec import canonical

VERSION = 0
GENESIS = "0" * 64  # what the first entry names as the one before


class Verb(StrEnum):
    """What an entry does. A verb never changes its meaning: a new meaning is a new verb."""

    BUDGET_CREATED = "budget-created"
    QUOTA_CREATED = "quota-created"
    CAP_CHANGED = "cap-changed"
    SCOPE_RETIRED = "scope-retired"
    PLAN_REGISTERED = "plan-registered"
    PRICE_OVERRIDDEN = "price-overridden"
    RESERVED = "reserved"
    HELD_UNTIL = "held-until"
    STARTED = "started"
    ROUND_STARTED = "round-started"
    ROUND_RELEASED = "round-released"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    REVOKED = "revoked"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    WRITTEN_OFF = "written-off"
    DECOMMISSIONED = "decommissioned"
    LEDGER_RESTORED = "ledger-restored"
    RESTORE_ACCEPTED = "restore-accepted"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes:
        index: 1, 2, ... without a gap.
        previous: the hash of the entry before; ``GENESIS`` for the first.
        time: when it was written, UTC, ISO 8601; never used to order.
        verb: what happened.
        scope: the budget's scope, or the scope that the charge names; "" for what is of the whole ledger.
        key: the charge's idempotency key; None for a budget.
        amounts: the money it moves, by kind of budget; empty for rounds and budgets.
        body: everything else, as plain JSON values.
    """

    index: int
    previous: str
    time: str
    verb: Verb
    scope: str
    key: str | None
    amounts: Mapping[str, Amounts] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check.fields(self, index=check.integer(1))
        sha256(previous=self.previous)
        if datetime.fromisoformat(self.time).utcoffset() is None:
            raise CheckError("time", "its offset from UTC", repr(self.time), verb="carry")

    def document(self) -> str:
        """The canonical JSON that is stored and hashed."""
        return canonical(self._fields()).decode()

    def is_spelled(self, document: str) -> bool:
        """Whether a document that this was read from is the canonical one: nobody who spells it again gets another."""
        return _WRITER.encode(self._fields()) == document or self.document() == document

    def _fields(self) -> dict[str, Any]:
        return {
            "v": VERSION,
            "index": self.index,
            "previous": self.previous,
            "time": self.time,
            "verb": self.verb.value,
            "scope": self.scope,
            "key": self.key,
            "amounts": {kind: dict(amount) for kind, amount in self.amounts.items()},
            "body": dict(self.body),
        }

    @classmethod
    def parse(cls, document: str) -> Self:
        """Reads a stored entry; anything else is a ``ValueError``."""
        fields = _READER.decode(document)
        if not isinstance(fields, dict) or fields.pop("v", None) != VERSION:
            raise ValueError(f"v must be {VERSION}")
        if set(fields) != set(cls.__dataclass_fields__):
            raise CheckError("fields", f"{sorted(cls.__dataclass_fields__)}", f"{sorted(fields)}")
        fields["verb"] = Verb(fields["verb"])
        fields["amounts"] = {kind: Amounts.stored(amount) for kind, amount in fields["amounts"].items()}
        return cls(**fields)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no name comes twice: it can be read in one way only."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name comes twice in one object")
    return fields


def _number(text: str) -> float:
    """A number that is not whole, in its canonical spelling."""
    number = float(text)
    if canonical(number).decode() != text:
        raise ValueError(f"a number must be spelled as RFC 8785 spells it, got {text}")
    return number


# One for all: to make one costs as much as to use it.
_READER = json.JSONDecoder(object_pairs_hook=_without_twins, parse_float=_number)
_WRITER = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":")
)  # fast, and canonical but for floats


def digest(document: str) -> str:
    """SHA-256 of a stored entry, 64 hex digits."""
    return hashlib.sha256(document.encode()).hexdigest()


def sha256(**named: object) -> None:
    """Requires SHA-256 values: 64 lower-case hex digits."""
    for name, value in named.items():
        if not (isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")):
            raise CheckError(name, "a SHA-256 of 64 lower-case hex digits", repr(value))
