"""Check of costs: every reservation against what the accountant proves of its release today."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from epsilog.ledger.amounts import Amounts
from epsilog.ledger.cost import bound_cost_below
from epsilog.ledger.entries import Entry
from epsilog.ledger.requests import ChargeRequest
from epsilog.terms import LedgerIntegrityError, UnsupportedMechanismError

_UNASKED = {"plan_hash": None, "rounds": None}  # fields that do not affect the cost
_REMEMBERED = 4096


@dataclass(slots=True)
class IdenticalCharges:
    """Reservations that asked the same and were charged the same.

    Attributes:
        asked: their request as JSON, without the fields that do not affect the cost.
        charged: by kind of budget.
        first: index of the first.
        count: how many.
    """

    asked: str
    charged: Mapping[str, Amounts]
    first: int
    count: int = 0


@dataclass(slots=True)
class CostRecheck:
    """Reservations with costs to recompute."""

    _identical: dict[tuple[str, str], IdenticalCharges] = field(default_factory=dict)
    _seen: dict[tuple[int, int], tuple[Entry, IdenticalCharges]] = field(default_factory=dict)  # by what entries share

    def add(self, entry: Entry) -> None:
        """Take in a reservation, of any index above those before."""
        same = id(entry.amounts), id(entry.body)
        if same not in self._seen:
            if len(self._seen) == _REMEMBERED:
                self._seen.clear()
            self._seen[same] = entry, self._find_group(entry)  # the entry too, so that nothing else gets these ids
        self._seen[same][1].count += 1

    def _find_group(self, entry: Entry) -> IdenticalCharges:
        asked = json.dumps(dict(entry.body["request"]) | _UNASKED, sort_keys=True)
        charged = json.dumps({kind: amount.units for kind, amount in entry.amounts.items()}, sort_keys=True)
        return self._identical.setdefault((asked, charged), IdenticalCharges(asked, entry.amounts, entry.index))

    def judge(self, deadline: float) -> tuple[int, int]:
        """Return how many reservations were rechecked, and how many could not be.

        Args:
            deadline: of the monotonic clock; after it no further cost is computed.

        Raises:
            LedgerIntegrityError: with the index of the first reservation that was charged less than its release costs.
        """
        known: dict[tuple[object, ...], Amounts | None] = {}
        rechecked = unchecked = 0
        for group in self._identical.values():  # in the order of the first of each, which is the one to name
            least = [_least(group.asked, kind, charged, known, deadline) for kind, charged in group.charged.items()]
            for charged, proven in zip(group.charged.values(), least, strict=True):
                if proven is not None and any(charged.units[name] < units for name, units in proven.units.items()):
                    problem = f"charged {dict(charged)}, but its release costs at least {dict(proven)}"
                    raise LedgerIntegrityError(problem, index=group.first)
            if None in least:
                unchecked += group.count
            else:
                rechecked += group.count
        return rechecked, unchecked


def _least(
    asked: str, kind: str, charged: Amounts, known: dict[tuple[object, ...], Amounts | None], deadline: float
) -> Amounts | None:
    """Return what a reservation costs at least under one kind of budget; the same question is asked once."""
    question = asked, kind, tuple(charged), charged.get("delta")
    if question not in known:
        try:
            late = time.monotonic() > deadline
            known[question] = (
                None if late else bound_cost_below(ChargeRequest.from_json(json.loads(asked)), kind, charged)
            )
        except (UnsupportedMechanismError, ArithmeticError):
            known[question] = None
    return known[question]
