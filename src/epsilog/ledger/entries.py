"""Ledger entries: what happened, in order, each naming the hash of the one before.

An entry is stored as its canonical JSON (RFC 8785) and the SHA-256 of those bytes. The index alone is the order. The
time is a note for people, and entries of a run carry the time of its reservation, because the duration of a run on its
data is private. A holder of the file can rewrite all of it: a chain reveals edits to those who kept a later hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, NoReturn, Self, TypeAlias

from epsilog.ledger.amounts import Amounts
from epsilog.terms import CheckError, check
from epsilog.terms.codec import encode_canonical

VERSION = 1
GENESIS = "0" * 64  # what the first entry names as the one before
ChargeId: TypeAlias = tuple[str, str]  # what a charge is known by: the scope that it names, and its key there


class Verb(StrEnum):
    """What an entry does. A verb never changes its meaning: a new meaning is a new verb."""

    BUDGET_CREATED = "budget-created"
    QUOTA_CREATED = "quota-created"
    PARTITION_DECLARED = "partition-declared"
    PARTITION_RAISED = "partition-raised"
    CAP_CHANGED = "cap-changed"
    CAP_APPROVED = "cap-approved"
    SCOPE_RETIRED = "scope-retired"
    PLAN_REGISTERED = "plan-registered"
    COST_OVERRIDDEN = "cost-overridden"
    RESERVED = "reserved"
    CHARGED = "charged"
    APPROVED = "approved"
    EXPIRY_SET = "expiry-set"
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

    @classmethod
    def of(cls, text: str) -> Verb:
        """Return the verb of a text; one that no other code names is made by the command that writes it."""
        if text not in cls._value2member_map_:
            made = str.__new__(cls, text)
            made._name_ = made._value_ = text
            cls._value2member_map_[text] = made
        return cls(text)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes:
        index: 1, 2, ... without a gap.
        previous: the hash of the entry before; ``GENESIS`` for the first.
        time: when it was written, UTC, ISO 8601; never used to order. From the start of a charge to its commit, when it
            was reserved.
        verb: what happened.
        scope: the budget's scope, or the scope that the charge names; "" for what is of the whole ledger.
        key: the charge's idempotency key, which belongs to the scope; None for a budget.
        amounts: the amounts it moves, by kind of budget; empty for rounds, and for budgets that are not partitions.
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
        if type(self.index) is not int or self.index < 1:
            object.__setattr__(self, "index", check.integer(1)(index=self.index))
        if type(self.previous) is not str or not _SHA256.fullmatch(self.previous):
            require_sha256(previous=self.previous)
        if datetime.fromisoformat(self.time).utcoffset() is None:
            raise CheckError("time", "its offset from UTC", repr(self.time), verb="carry")

    @property
    def charge_id(self) -> ChargeId | None:
        """Return the charge that it is of; None for a budget's."""
        return None if self.key is None else (self.scope, self.key)

    def document(self) -> str:
        """Return the canonical JSON that is stored and hashed."""
        return encode_canonical(self._fields()).decode()

    def _fields(self) -> dict[str, Any]:
        return {
            "v": VERSION,
            "index": self.index,
            "previous": self.previous,
            "time": self.time,
            "verb": self.verb.value,
            "scope": self.scope,
            "key": self.key,
            "amounts": {kind: amount.to_json() for kind, amount in self.amounts.items()},
            "body": dict(self.body),
        }

    @classmethod
    def parse(cls, document: str) -> Self:
        """Read a stored entry; anything else, another spelling of one included, is an error of value or type."""
        fields = _value(document)
        version = fields.pop("v", None) if isinstance(fields, dict) else None
        if type(version) is not int or version != VERSION:
            raise ValueError(f"it is of version {version!r}, and this release reads version {VERSION}")
        if set(fields) != set(cls.__dataclass_fields__):
            raise CheckError("fields", f"{sorted(cls.__dataclass_fields__)}", f"{sorted(fields)}")
        fields["verb"] = Verb(fields["verb"])
        fields["amounts"], fields["body"] = _by_kind(fields["amounts"]), _object(fields["body"])
        return cls(**fields)


class EntryText:
    """Writes the documents of entries that differ from a first one in index, hash, time and key alone."""

    def __init__(self, first: Entry) -> None:
        text = {name: encode_canonical(value).decode() for name, value in first._fields().items()}
        self._start = f'{{"amounts":{text["amounts"]},"body":{text["body"]},"index":'
        self._scope = f'","scope":{text["scope"]},"time":'
        self._end = f',"v":{VERSION},"verb":{text["verb"]}}}'

    def write(self, entry: Entry) -> str:
        """Return ``entry.document()``."""
        key = "null" if entry.key is None else encode_basestring(entry.key)
        frame = f'{entry.index},"key":{key},"previous":"{entry.previous}{self._scope}{encode_basestring(entry.time)}'
        return f"{self._start}{frame}{self._end}"


class EntryParser:
    """Reads entries of which many are alike: the text of amounts and bodies that come again is read once.

    The result shares them, so it is only for internal reads.
    """

    def __init__(self, remembered: int = 4096) -> None:
        self._amounts, self._body = lru_cache(remembered)(_amounts), lru_cache(remembered)(_body)

    def parse(self, document: str) -> Entry:
        """``Entry.parse``.

        An object is spelled canonically if its names are in order, without blanks, and each value is spelled so. So it
        is enough to look at the frame, which is alike in all entries, and at the two values that are objects by
        themselves. Whatever this does not know is read as a whole.
        """
        start, _, end = document.rpartition(',"index":')
        frame = _END.fullmatch(end)
        if frame is None or not start.startswith(_START):
            return Entry.parse(document)
        amounts, _, body = start[len(_START) :].partition(',"body":')
        index, key, previous, scope, time, verb = frame.groups()
        try:
            shared = self._amounts(amounts), self._body(body)
        except ValueError:  # it says more than it seems to, or nothing right
            return Entry.parse(document)
        return Entry(int(index), previous, time, Verb(verb), scope, key, *shared)


PLAIN_TEXT = r'"([^"\\\x00-\x1f\ud800-\udfff]*)"'  # in which nothing is to be escaped
_START = '{"amounts":'
_END = re.compile(
    rf'([1-9][0-9]{{0,14}}),"key":(?:null|{PLAIN_TEXT}),"previous":"([0-9a-f]{{64}})","scope":{PLAIN_TEXT},"time":{PLAIN_TEXT},'
    rf'"v":{VERSION},"verb":"([a-z-]+)"}}'
)


def _amounts(text: str) -> dict[str, Amounts]:
    return _by_kind(_value(text))


def _body(text: str) -> dict[str, Any]:
    return _object(_value(text))


def _by_kind(value: Any) -> dict[str, Amounts]:
    return {kind: Amounts.parse(_object(amount)) for kind, amount in _object(value).items()}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("amounts and body must be objects")
    return value


def _value(text: str) -> Any:
    """Parse a text in its canonical spelling; refuse any other spelling."""
    value = _READER.decode(text)
    # what the fast writer spells so is canonical: the reader has looked at floats, and ASCII names have one order
    if not (text.isascii() and _WRITER.encode(value) == text) and encode_canonical(value).decode() != text:
        raise ValueError("an entry must be spelled as canonical JSON")
    return value


def _float(text: str) -> float:
    number = float(text)
    if encode_canonical(number).decode() != text:
        raise ValueError(f"a number must be spelled as RFC 8785 spells it, got {text}")
    return number


def _parse_integer(text: str) -> int:
    """A whole number; beyond what a double holds RFC 8785 has no spelling, and that is a ``ValueError``."""
    number = int(text)
    return number if len(text) < 16 else json.loads(encode_canonical(number))


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


# One for all: to make one costs as much as to use it.
_READER = json.JSONDecoder(parse_float=_float, parse_int=_parse_integer, parse_constant=_no_number)
_WRITER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False)


def hash_entry(document: str) -> str:
    """SHA-256 of a stored entry, 64 hex digits."""
    return hashlib.sha256(document.encode()).hexdigest()


_SHA256 = re.compile("[0-9a-f]{64}")


def require_sha256(**named: object) -> None:
    """Require SHA-256 values: 64 lower-case hex digits."""
    for name, value in named.items():
        if not (isinstance(value, str) and _SHA256.fullmatch(value)):
            raise CheckError(name, "a SHA-256 of 64 lower-case hex digits", repr(value))
