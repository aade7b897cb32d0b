"""Read from a ledger what concerns one plan: its charge, the rounds released under it, and the committed hashes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Self

from epsilog.ledger import Amounts, ChargeState, Entry, Verb, merkle, read_verified_entries
from epsilog.ledger.budget_path import CREATION_VERBS
from epsilog.ledger.partitions import counts_towards_parent, held_under
from epsilog.ledger.scopes import list_ancestors
from epsilog.ledger.transitions import CLOSED_STATES, TRANSITIONS, UNRESERVED_STATES
from epsilog.signing import Note
from epsilog.terms import LedgerIntegrityError, RecordError, check


@dataclass(frozen=True, slots=True)
class LedgerExcerpt:
    """A ledger's entries on one plan, up to the one that closed its charge.

    Later entries are excluded, so that a report does not change while the ledger grows.

    Attributes:
        sound: whether the whole chain and all balances are valid.
        trouble: the error, if any.
        count: the number of entries up to the closing of the charge; all of them if it is open.
        head: hash of the last of those.
        key: the charge's idempotency key within its scope; None if no charge names the plan.
        other_charges: the number of other charges that name the plan and were not cancelled by then.
        state: reserved, started, committed or cancelled.
        request: the charge's request, as plain JSON values.
        amounts: the amounts charged, by budget kind and quantity (decimal strings).
        scope: the charged scope.
        cap: the caps of that scope's own budget at the reservation; empty if the budget is of a scope above.
        earlier_spending: spending of the nearest (epsilon, delta) budget at the reservation; empty if none.
        spent_or_reserved: amounts spent or reserved at and under the charged scope; empty without such a budget.
        binding: of the (epsilon, delta) budgets at and above the scope, the one with least epsilon available then:
            its scope, its caps, and its ``spent_or_reserved``; empty without such a budget.
        released: output hash of every released round.
        attempts: the number of starts of each round.
        evidence: SHA-256 values that the commit names; None while the charge is open.
        certificate: SHA-256 of the certificate that the reservation presented; None without one.
    """

    sound: bool
    trouble: str = ""
    count: int = 0
    head: str = ""
    key: str | None = None
    other_charges: int = 0
    state: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scope: str = ""
    cap: Mapping[str, str] = field(default_factory=dict)
    earlier_spending: Mapping[str, str] = field(default_factory=dict)
    spent_or_reserved: Mapping[str, str] = field(default_factory=dict)
    binding: Mapping[str, Any] = field(default_factory=dict)
    released: Mapping[int, str] = field(default_factory=dict)
    attempts: Mapping[int, int] = field(default_factory=dict)
    evidence: Mapping[str, str] | None = None
    certificate: str | None = None

    @property
    def charged(self) -> Mapping[str, str]:
        """Return the amounts charged to (epsilon, delta) budgets, by quantity."""
        return self.amounts.get("approximate", {})

    def to_json(self) -> dict[str, Any] | None:
        """Return plain JSON values, as in a report; None if no valid charge names the plan."""
        if not self.sound or self.key is None:
            return None
        by_round = {name: {str(n): v for n, v in getattr(self, name).items()} for name in ("released", "attempts")}
        presented = {} if self.certificate is None else {"certificate": self.certificate}
        return {name: getattr(self, name) for name in _WRITTEN} | by_round | presented

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read the output of ``to_json``; only a ledger can confirm it."""
        check.one_of(tuple(state.value for state in ChargeState if state not in UNRESERVED_STATES))(
            state=document["state"]
        )
        by_round = {name: {int(n): v for n, v in document[name].items()} for name in ("released", "attempts")}
        stated = {name: document[name] for name in _WRITTEN} | by_round
        return cls(sound=True, certificate=document.get("certificate"), **stated)


_WRITTEN = [f.name for f in fields(LedgerExcerpt) if f.name not in ("sound", "trouble", "certificate")]


@dataclass(frozen=True, slots=True)
class LedgerReader:
    """A ledger or bundle, read and verified once.

    Attributes:
        entries: all entries, in order; empty if the ledger is invalid.
        heads: the hash of each entry.
        trouble: the error; "" for a valid ledger.
        leaves: the leaf hash of each entry, in the tree of checkpoints.
        note: the checkpoint in a bundle; None for a ledger file.
    """

    entries: tuple[Entry, ...]
    heads: tuple[str, ...]
    trouble: str = ""
    leaves: tuple[bytes, ...] = ()
    note: Note | None = None

    @classmethod
    def read(cls, ledger: str | Path | BinaryIO) -> Self:
        """Read and verify a ledger or a bundle; an invalid one sets ``trouble``, a missing file is an error."""
        if isinstance(ledger, Path) and not ledger.is_file():
            raise RecordError(f"{ledger} cannot be read: {'it is no file' if ledger.exists() else 'No such file'}")
        try:
            found = read_verified_entries(ledger)
        except LedgerIntegrityError as error:
            return cls((), (), str(error))
        return cls(found.entries, found.heads, leaves=found.leaves, note=found.note)

    def root(self, size: int) -> bytes:
        """Return the Merkle root of the first ``size`` entries."""
        return merkle.compute_root(self.leaves[:size])

    def read_excerpt(self, plan_hash: str) -> LedgerExcerpt:
        """Return the excerpt on the charge that names a plan; of several charges, the last one not cancelled."""
        if self.trouble:
            return LedgerExcerpt(sound=False, trouble=self.trouble)
        try:
            return self._read_excerpt(plan_hash)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return LedgerExcerpt(sound=False, trouble=f"the body of an entry does not fit its verb: {error!r}")

    def _read_excerpt(self, plan_hash: str) -> LedgerExcerpt:
        opening = (entry for entry in self.entries if TRANSITIONS[entry.verb].reserves)
        naming = [entry for entry in opening if entry.body["request"]["plan_hash"] == plan_hash]
        if not naming:
            return LedgerExcerpt(sound=True, count=len(self.entries), head=self.heads[-1] if self.heads else "")
        cancelled = {
            e.charge_id: e.index for e in self.entries if TRANSITIONS[e.verb].to_state is ChargeState.CANCELLED
        }
        opened = ([e for e in naming if e.charge_id not in cancelled] or naming)[-1]
        own = _until_closed(entry for entry in self.entries if entry.charge_id == opened.charge_id)
        last = own[-1]
        state = TRANSITIONS[last.verb].to_state
        assert state is not None, "every verb of a charge leads to a state"
        count = last.index if state in CLOSED_STATES else len(self.entries)
        earlier = self.entries[: opened.index - 1]
        budgets = _approximate_budgets(earlier, opened.scope)
        return LedgerExcerpt(
            sound=True,
            count=count,
            head=self.heads[count - 1],
            key=opened.key,
            other_charges=sum(
                e is not opened and e.index <= count < cancelled.get(e.charge_id, math.inf) for e in naming
            ),
            state=state.value,
            request=opened.body["request"],
            amounts={kind: dict(amount) for kind, amount in opened.amounts.items()},
            scope=opened.scope,
            cap=_caps(earlier, opened.scope),
            earlier_spending=self._spent_before(opened),
            spent_or_reserved=dict(held_under(earlier, opened.scope)) if budgets else {},
            binding=_binding(earlier, budgets),
            released={e.body["round"]: e.body["output_hash"] for e in own if e.verb is Verb.ROUND_RELEASED},
            attempts=Counter(e.body["round"] for e in own if e.verb is Verb.ROUND_STARTED),
            evidence=dict(last.body["evidence"]) if last.verb is Verb.COMMITTED else None,
            certificate=opened.body.get("certificate"),
        )

    def _spent_before(self, opened: Entry) -> dict[str, str]:
        """Return earlier spending under the nearest (epsilon, delta) budget at or above a charge."""
        earlier = self.entries[: opened.index]
        budgets = _approximate_budgets(earlier, opened.scope)
        if not budgets:
            return {}
        nearest = budgets[-1]
        partitions = {entry.scope for entry in earlier if entry.verb is Verb.PARTITION_DECLARED}
        spent = Amounts.zero(("epsilon", "delta"))
        for entry in earlier:
            under = TRANSITIONS[entry.verb].is_spend and f"{entry.scope}/".startswith(f"{nearest}/")
            if under and counts_towards_parent(entry, nearest, partitions):
                spent += entry.amounts["approximate"]
        return dict(spent)


def _approximate_budgets(entries: Iterable[Entry], scope: str) -> list[str]:
    """List the scopes of the (epsilon, delta) budgets that count a charge, from the top, but not above a partition."""
    created = {e.scope: e.verb for e in entries if e.verb in CREATION_VERBS and e.body["kind"] == "approximate"}
    path = [one for one in list_ancestors(scope) if one in created]
    partitions = [i for i, one in enumerate(path, 1) if created[one] is Verb.PARTITION_DECLARED]
    return path[partitions[-1] if partitions else 0 :]


def _caps(entries: Iterable[Entry], scope: str) -> dict[str, str]:
    """Return the caps of this scope's own budget after some entries; empty if it has none."""
    stated = [entry.body["caps"] for entry in entries if entry.scope == scope and "caps" in entry.body]
    return dict(stated[-1]) if stated else {}


def _binding(entries: Sequence[Entry], budgets: Iterable[str]) -> dict[str, Any]:
    """Return the budget with least epsilon available; of several, the one nearest to the charge."""
    found: dict[str, Any] = {}
    least = None
    for scope in budgets:
        caps, held = _caps(entries, scope), dict(held_under(entries, scope))
        available = Decimal(caps["epsilon"]) - Decimal(held["epsilon"])
        if least is None or available <= least:
            least, found = available, {"scope": scope, "caps": caps, "spent_or_reserved": held}
    return found


def _until_closed(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries of a charge up to the one that closed it; later entries do not change the charge."""
    own: list[Entry] = []
    for entry in entries:
        own.append(entry)
        if TRANSITIONS[entry.verb].to_state in CLOSED_STATES:
            break
    return own
