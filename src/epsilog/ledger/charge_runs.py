"""Charges of a chain that repeat one which the full rules have folded: most entries of most ledgers.

Such an entry differs from the first in index, key, previous hash and time alone, so the rules say of it what they said
of the first. Three questions are open: is its key new, do the sums stay within the caps, and does it follow the entry
before? Whatever is not certain here is left to the full rules, refusals included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance, compute_committed
from epsilog.ledger.charge_record import ChargeRecord, ChargeText
from epsilog.ledger.cost import IdenticalCharges
from epsilog.ledger.entries import PLAIN_TEXT, VERSION, ChargeId, Entry, Verb, hash_entry
from epsilog.ledger.partitions import count_budgets_covered_by_partition
from epsilog.ledger.scopes import list_ancestors
from epsilog.ledger.state_json import replace_fields
from epsilog.ledger.store import StoredRow

_KINDS = 4096  # of charges, that a replay keeps to compare others with
_INDEX = ',"index":'  # the rest of a document begins here; before it, amounts and body
_FRAME = re.compile(
    rf'([1-9][0-9]{{0,14}}),"key":{PLAIN_TEXT},"previous":"([0-9a-f]{{64}})","scope":{PLAIN_TEXT},"time":{PLAIN_TEXT},'
    rf'"v":{VERSION},"verb":"{Verb.CHARGED}"}}'
)
_LAST = f'","v":{VERSION},"verb":"{Verb.CHARGED}"}}'
_PLAIN_KEY = re.compile(r"(?! )[ !#-[\]-~]{1,100}(?<! )", re.ASCII)  # keys that are certainly valid, and spelled so
# The first group alone decides whether such a text is a time: some Pythons read 24:00:00, without a fraction only.
_UTC_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.[0-9]{6})?\+00:00", re.ASCII
)
_NUMBER_SHIFT = 50  # bits of an index, which has at most 15 digits
_INDEX_MASK = (1 << _NUMBER_SHIFT) - 1


Count: TypeAlias = list[int]  # the units of a quantity that a budget has committed, and the most that it may commit


@dataclass(slots=True)
class ChargeKind:
    """Charges that repeat each other.

    Attributes:
        first: the record of the first of them.
        text: writes the others.
        costs: by budget that counts them.
        settings: of the budgets on their path.
        repeats: the charges of their scope that repeat others.
        middle: the text of an entry between the previous hash and the time.
        limited: the budgets on their path that take charges only at some times.
        identical: where they are counted for a recheck of their cost; None while none of them is rechecked.
        steps: each count that one of them adds to, and how much.
        required: the steps that must stay within their cap.
        choices: of each budget where one quantity within its cap is enough, the steps.
        turn: the turn of ``ChargeRuns`` that the counts are of.
        number: its place among the kinds that have repeats, shifted; None before the first repeat.
    """

    first: ChargeRecord
    text: ChargeText
    costs: dict[str, Amounts]
    settings: list[tuple[object, ...]]
    repeats: dict[str, int]
    middle: str
    limited: list[Balance]
    identical: IdenticalCharges | None = None
    steps: list[tuple[Count, int]] = field(default_factory=list)
    required: list[tuple[Count, int]] = field(default_factory=list)
    choices: list[list[tuple[Count, int]]] = field(default_factory=list)
    turn: int = -1
    number: int | None = None

    def add(self) -> bool:
        """Add one of them to the counts, if it fits; as ``PrivacyFilter.fits`` decides."""
        for count, units in self.required:
            if count[0] + units > count[1]:
                return False
        for choice in self.choices:
            if all(count[0] + units > count[1] for count, units in choice):
                return False
        for count, units in self.steps:
            count[0] += units
        return True


class ReplayedCharges(Mapping[ChargeId, ChargeRecord]):
    """The charges of a replay; of those that repeat another, only the key and one number are kept."""

    def __init__(self) -> None:
        self._records: dict[ChargeId, ChargeRecord] = {}
        self._repeats: dict[str, dict[str, int]] = {}  # by scope and key: the index, and above it the number of a kind
        self._kinds: list[ChargeKind] = []

    def repeats_at(self, scope: str) -> dict[str, int]:
        """Return the charges of a scope that repeat others, by key."""
        return self._repeats.setdefault(scope, {})

    def add_kind(self, kind: ChargeKind) -> int:
        """Return the number of a kind, shifted to stand above an index."""
        kind.number = len(self._kinds) << _NUMBER_SHIFT
        self._kinds.append(kind)
        return kind.number

    def __getitem__(self, name: ChargeId) -> ChargeRecord:
        if (found := self._find_repeat(name)) is None:
            return self._records[name]
        kind, index = found
        return replace_fields(kind.first, key=name[1], opened=index, closed=index)

    def __setitem__(self, name: ChargeId, record: ChargeRecord) -> None:
        self._records[name] = record
        self._repeats.get(name[0], {}).pop(name[1], None)

    def is_recorded(self, name: ChargeId) -> bool:
        """Return whether there is a charge with this name that does not repeat another."""
        return name in self._records

    def __iter__(self) -> Iterator[ChargeId]:
        yield from self._records
        for scope, keys in self._repeats.items():
            yield from ((scope, key) for key in keys)

    def __len__(self) -> int:
        return len(self._records) + sum(map(len, self._repeats.values()))

    def document(self, name: ChargeId) -> str | None:
        """Return what is stored of a charge; None where there is none."""
        scope, key = name
        if (repeats := self._repeats.get(scope)) is None or (found := repeats.get(key)) is None:
            record = self._records.get(name)
            return None if record is None else record.document()
        return self._kinds[found >> _NUMBER_SHIFT].text.write(key, found & _INDEX_MASK)

    def _find_repeat(self, name: ChargeId) -> tuple[ChargeKind, int] | None:
        if (repeats := self._repeats.get(name[0])) is None or (found := repeats.get(name[1])) is None:
            return None
        return self._kinds[found >> _NUMBER_SHIFT], found & _INDEX_MASK


class ChargeRuns:
    """Reads the rows of a chain that repeat a charge, as long as nothing else comes between.

    Args:
        balances: the budgets of the replay, which ``finish`` brings up to date.
        charges: its charges.
    """

    def __init__(self, balances: dict[str, Balance], charges: ReplayedCharges) -> None:
        self._balances, self._charges = balances, charges
        self._kinds: dict[tuple[str, str], ChargeKind] = {}  # by amounts and body, and scope
        self._counts: dict[str, dict[str, Count]] = {}  # by budget and quantity
        self._turn = 0
        self._second = ""  # the last that was found to be a time

    def read(self, row: StoredRow, index: int, head: str, *, rechecked: bool) -> bool:
        """Take in a row if it is certainly the next entry and repeats a charge; else change nothing."""
        position, scope, document, hashed = row
        if type(document) is not str or type(scope) is not str:
            return False
        start, _, end = document.rpartition(_INDEX)
        kind = self._kinds.get((start, scope))
        if kind is None or (rechecked and kind.identical is None):
            return False
        # The rest must be, letter by letter, what ``Entry.document`` writes around a key and a time.
        front, _, back = end.partition(f'","previous":"{head}{kind.middle}')
        before_key = f'{index},"key":"'
        key, time = front[len(before_key) :], back[: -len(_LAST)]
        if not (front.startswith(before_key) and back.endswith(_LAST)):
            return False
        if key in kind.repeats or self._charges.is_recorded((scope, key)):
            return False
        if not _PLAIN_KEY.fullmatch(key) or (found := _UTC_TIME.fullmatch(time)) is None:
            return False
        if found[1] != self._second and not self._is_time(found[1]):
            return False
        if kind.limited and not all(balance.is_valid_at(time) for balance in kind.limited):
            return False
        if position != index or hashed != hash_entry(document):
            return False
        if not (kind.turn == self._turn or self._prepare(kind, scope)) or not kind.add():
            return False
        number = kind.number
        kind.repeats[key] = (self._charges.add_kind(kind) if number is None else number) + index
        if rechecked and kind.identical is not None:
            kind.identical.count += 1
        return True

    def _prepare(self, kind: ChargeKind, scope: str) -> bool:
        """Find the sums of the budgets that count a kind of charge, if their settings are those of its first."""
        path = [balance for one in list_ancestors(scope) if (balance := self._balances.get(one)) is not None]
        if [balance.settings for balance in path] != kind.settings:
            return False
        kind.steps, kind.required, kind.choices, kind.turn = [], [], [], self._turn
        for balance in path:
            if balance.scope in kind.costs:
                units, counts = kind.costs[balance.scope].units, self._count(balance)
                steps = [(count, units[name]) for name, count in counts.items()]
                kind.steps += steps
                if balance.filter.one_is_enough:
                    kind.choices.append(steps)
                else:
                    kind.required += steps
        return True

    def _count(self, balance: Balance) -> dict[str, Count]:
        """Return the counts of a budget that has no quota on the path."""
        if (found := self._counts.get(balance.scope)) is None:
            held, mine = compute_committed(balance, ()).units, balance.committed.units
            found = {name: [mine[name], cap - held[name] + mine[name]] for name, cap in balance.caps.units.items()}
            self._counts[balance.scope] = found
        return found

    def note(self, row: StoredRow, entry: Entry, record: ChargeRecord, identical: IdenticalCharges | None) -> None:
        """Keep a charge in one step that the full rules have folded, to compare others with."""
        start, _, end = row.document.rpartition(_INDEX)
        path = [balance for one in list_ancestors(entry.scope) if (balance := self._balances.get(one)) is not None]
        beyond = count_budgets_covered_by_partition(path)
        if (
            not _FRAME.fullmatch(end)
            or (record.opened, record.override_hash, record.plan) != (entry.index, None, None)
            or any(one.quota is not None for one in path)
        ):
            return
        if len(self._kinds) >= _KINDS:
            self._kinds.clear()
        costs = {balance.scope: balance.cost(entry.amounts) for balance in path[beyond:]}
        settings = [balance.settings for balance in path]
        repeats, middle = self._charges.repeats_at(entry.scope), f'","scope":"{entry.scope}","time":"'
        limited = [balance for balance in path if balance.is_limited_in_time]
        self._kinds[start, entry.scope] = ChargeKind(
            record, ChargeText(record), costs, settings, repeats, middle, limited, identical
        )

    def finish(self) -> None:
        """Bring the budgets up to date, before any other entry is folded."""
        for scope, counts in self._counts.items():
            committed = Amounts({name: count[0] for name, count in counts.items()})
            self._balances[scope] = replace_fields(self._balances[scope], committed=committed)
        self._counts, self._turn = {}, self._turn + 1

    def _is_time(self, second: str) -> bool:
        """Return whether there is such a second; keep it for the entries of the same."""
        try:
            datetime.fromisoformat(second)
        except ValueError:
            return False
        self._second = second
        return True
