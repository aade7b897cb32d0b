"""Charges in one step that repeat one which the full rules accepted: same release, scope, caller and settings.

Between two such charges only the key, the time, the place in the chain and the sums of the budgets differ. A template
keeps the rest: the texts of the entry and what each budget counts. It decides nothing new: it compares the sums with
``allows_charge``, as the full rules do, and leaves everything else, refusals and repeated keys included, to them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance, allows_charge
from epsilog.ledger.budget_path import set_aside_for_quotas
from epsilog.ledger.charge_record import ChargeRecord
from epsilog.ledger.commands.base import Caller
from epsilog.ledger.commands.charges import ChargeAtOnce
from epsilog.ledger.entries import Entry, EntryText, hash_entry
from epsilog.ledger.partitions import count_budgets_covered_by_partition
from epsilog.ledger.state_json import replace_fields
from epsilog.ledger.store import StoredRow

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_TEMPLATES = 4096
MAX_PARTS = 200  # values of a release, and characters of a text in it: larger ones are not kept


class ChargeStep(NamedTuple):
    """A charge that fits, and what it changes."""

    entry: Entry
    row: StoredRow
    path: Sequence[Balance]  # afterwards
    charge: ChargeRecord


class ChargeTemplate:
    """What all charges like one accepted charge have in common.

    Args:
        entry: of the accepted charge, which was the first of its key.
        charge: its record.
        path: the budgets before it, from the top.
    """

    def __init__(self, entry: Entry, charge: ChargeRecord, path: Sequence[Balance]) -> None:
        own = self._entry = _copy_entry(entry, entry.index, entry.previous, entry.time)  # whoever charged has the other
        self._charge, self._path = replace_fields(charge, amounts=own.amounts), path
        self._limited = [depth for depth, balance in enumerate(path) if balance.is_limited_in_time]
        self._text: EntryText | None = None  # most charges that come first come once
        self._counted = [
            (depth, path[depth].cost(own.amounts))
            for depth in range(count_budgets_covered_by_partition(path), len(path))
        ]

    def apply(self, key: str, head: tuple[int, str], time: str, path: Sequence[Balance]) -> ChargeStep | None:
        """Return the step of a charge with a new key; None where only the full rules can tell.

        The ledger must accept charges, and the caller must have been the one of the first charge.
        """
        if self._text is None:
            self._text = EntryText(self._entry)
        if [balance.settings for balance in path] != [balance.settings for balance in self._path]:
            return None
        if not all(path[depth].is_valid_at(time) for depth in self._limited):
            return None
        after = list(path)
        for depth, amount in self._counted:
            balance = path[depth]
            if not allows_charge(balance, amount, path[depth + 1 :]):
                return None
            after[depth] = replace_fields(balance, committed=balance.committed + amount)
        after = set_aside_for_quotas(path, after)
        index = head[0] + 1
        entry = _copy_entry(self._entry, index, head[1], time, key)
        document = self._text.write(entry)
        charge = replace_fields(self._charge, key=key, amounts=entry.amounts, opened=index, closed=index)
        return ChargeStep(entry, StoredRow(index, entry.scope, document, hash_entry(document)), after, charge)


class Templates:
    """The templates of a ledger, by what was asked and by whom."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], ChargeTemplate] = {}

    def find(self, command: ChargeAtOnce, caller: Caller) -> ChargeTemplate | None:
        """Return the template of a charge, if one like it was accepted."""
        stated = _list_stated(command, caller)
        return None if stated is None else self._known.get(stated)

    def add(self, command: ChargeAtOnce, caller: Caller, template: ChargeTemplate) -> None:
        """Keep the template of a charge that was accepted."""
        if (stated := _list_stated(command, caller)) is None:
            return
        if len(self._known) >= MAX_TEMPLATES:
            self._known.clear()
        self._known[stated] = template


def _list_stated(command: ChargeAtOnce, caller: Caller) -> tuple[Any, ...] | None:
    """Return all that decides on a charge besides its budgets, hashable; None for one that no other repeats."""
    if command.certificate is not None or (release := identify_value(command.release)) is None:
        return None
    amount = None if command.amount is None else tuple(command.amount.items())
    stated = command.relation, command.privacy_unit, command.simulation, command.delta, amount
    return caller.actor, command.scope, release, *stated


def identify_value(value: object) -> Hashable:
    """Return what only values of the same types with the same fields share; None for large or unknown values.

    Equality is not enough: ``1 == 1.0 == True``, and the ledger spells each in its own way.
    """
    parts: list[tuple[object, ...]] = []
    return tuple(parts) if _identify(value, parts) else None


def _identify(value: object, parts: list[tuple[object, ...]]) -> bool:
    """Add what identifies a value; return whether that is possible, and small enough to be kept for many."""
    kind = type(value)
    if len(parts) >= MAX_PARTS:
        return False
    if kind in _PLAIN:
        parts.append((kind, repr(value)))
        return kind is not str or len(value) <= MAX_PARTS  # type: ignore[arg-type]
    if isinstance(value, Enum):
        parts.append((kind, value.name))
        return True
    if kind is tuple:
        parts.append((kind, len(value)))  # type: ignore[arg-type]
        return all(_identify(part, parts) for part in value)  # type: ignore[attr-defined]
    if not is_dataclass(kind):
        return False
    parts.append((kind,))
    return all(_identify(getattr(value, name), parts) for name in _list_names(kind))


@cache
def _list_names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


_PLAIN = (int, float, str, bool, NoneType)


def _copy_entry(entry: Entry, index: int, previous: str, time: str, key: str | None = None) -> Entry:
    """Return the same entry at another place of the chain, which shares nothing that can be changed."""
    amounts, body = {kind: Amounts(dict(one.units)) for kind, one in entry.amounts.items()}, _copy(entry.body)
    return Entry(index, previous, time, entry.verb, entry.scope, entry.key if key is None else key, amounts, body)


def _copy(value: Any) -> Any:
    """Copy plain JSON values: whoever gets an entry may change its body."""
    if type(value) is dict:
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if type(value) is list else value
