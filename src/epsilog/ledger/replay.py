"""The proof of a ledger: every hash, every rule and every balance, recomputed from the first entry.

Three pure steps: ``replay_entries`` folds the stored entries, ``compare_stored_state`` compares the result with the
stored state, and ``recheck_costs`` asks the accountant for charges that are too low.

It detects edits, deletions, insertions and swaps, and balances that are not the sum of their entries. It cannot detect
that the owner of a ledger cut its end off or rewrote all of it: compare the head with an independent copy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction

from epsilog.ledger import cap_conversion, charge_record, merkle, scopes
from epsilog.ledger.balances import Balance
from epsilog.ledger.charge_runs import ChargeRuns, ReplayedCharges
from epsilog.ledger.checkpoints import Checkpoint
from epsilog.ledger.commands.base import check_entry, fold as fold_entry
from epsilog.ledger.cost import CostRecheck, IdenticalCharges
from epsilog.ledger.entries import GENESIS, ChargeId, Entry, EntryParser, Verb
from epsilog.ledger.store import UNREADABLE, StoredRow, StoredState, StreamedRows, parse_row
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.terms import EpsilogError, LedgerIntegrityError

REPORT_EVERY = 500  # entries
SHAPES = 4096  # that are remembered
RECHECK_SECONDS = 20.0  # after which no further cost is recomputed


@dataclass(frozen=True, slots=True)
class LedgerVerification:
    """What a sound ledger amounts to.

    Attributes:
        count: entries.
        head: hash of the last entry; keep it elsewhere, and a later cut or rewrite shows.
        balances: every budget, by scope.
        charges: every charge, by scope and key.
        overridden: scope and key of each charge with a cost override by an owner, in order.
        rechecked: charges with a recomputed cost, which is at least what the accountant proves.
        unchecked: charges without a recomputed cost: no proven lower bound, or no time left.
        restored: indexes of the entries that record a restore from a backup; later entries of the original are missing.
        partitions: scopes declared as disjoint blocks by their owners; the budgets above rely on it.
        since: entries covered by the kept checkpoint; charges reserved by them are neither ``rechecked`` nor
            ``unchecked``.
        charges_compared: whether the stored charges were compared; False for a ledger on a server, which does not show
            them.
    """

    count: int
    head: str
    balances: dict[str, Balance]
    charges: Mapping[ChargeId, charge_record.ChargeRecord]
    overridden: tuple[ChargeId, ...] = ()
    rechecked: int = 0
    unchecked: int = 0
    restored: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    since: int = 0
    charges_compared: bool = True


@dataclass(slots=True)
class LedgerReplay:
    """Everything the entries amount to: the whole fold."""

    count: int = 0
    head: str = GENESIS
    charges: ReplayedCharges = field(default_factory=ReplayedCharges)
    # in order, the first is number 1
    rounds: dict[ChargeId, list[charge_record.RoundState]] = field(default_factory=dict)
    costs: CostRecheck = field(default_factory=CostRecheck)
    overridden: list[ChargeId] = field(default_factory=list)
    has_budgets: set[str] = field(default_factory=set)  # scopes of charges and partitions, and all above them
    above: set[str] = field(default_factory=set)  # scopes with a budget above them
    restore_state: charge_record.RestoreState = field(default_factory=charge_record.RestoreState)
    restored: list[int] = field(default_factory=list)
    promised: list[tuple[Entry, Balance]] = field(default_factory=list)  # with the budget that it was said of
    since: int = 0  # entries without a cost check
    parse: Callable[[str], Entry] = field(default_factory=lambda: EntryParser().parse)
    _shapes: dict[tuple[object, ...], Entry] = field(default_factory=dict)
    _balances: dict[str, Balance] = field(default_factory=dict)
    _runs: ChargeRuns = field(init=False)

    def __post_init__(self) -> None:
        self._runs = ChargeRuns(self._balances, self.charges)

    @property
    def balances(self) -> dict[str, Balance]:
        """Return every budget by its scope."""
        self._runs.finish()
        return self._balances

    def read(self, row: StoredRow) -> None:
        """Take in the next row, if it follows from the one before and keeps every rule."""
        index = self.count + 1
        if self.restore_state.accepted and self._runs.read(row, index, self.head, rechecked=index > self.since):
            self.count, self.head = index, row.hash
            return
        if row.position != index:
            raise LedgerIntegrityError(f"is missing or out of order: found {row.position!r}", index=index)
        entry = parse_row(row, self.parse)
        if entry.previous != self.head:
            raise LedgerIntegrityError("does not follow from the entry before it", index=index)
        try:
            record, identical = self.fold(entry)
        except (EpsilogError, *UNREADABLE) as error:
            raise LedgerIntegrityError(f"breaks a rule of the ledger: {error}", index=index) from error
        self.count, self.head = index, row.hash
        if entry.verb is Verb.CHARGED and record is not None:
            self._runs.note(row, entry, record, identical)

    def fold(self, entry: Entry) -> tuple[charge_record.ChargeRecord | None, IdenticalCharges | None]:
        """Take in the next entry; whatever the rules refuse is an error here too.

        Returns:
            The charge that it is of, and where its cost is counted for a recheck, if it is.
        """
        self._check_form(entry)
        step = fold_entry(entry, Onto(self, entry))
        if step.restore_state is not None:
            self.restore_state = step.restore_state
            if entry.verb is Verb.LEDGER_RESTORED:
                self.restored.append(entry.index)
            return None, None
        self._balances |= {budget.scope: budget for budget in step.path}
        name = entry.charge_id
        if name is None:
            self._note(entry, step.path[-1])
            return None, None
        assert step.charge is not None, "an entry with a key is of a charge"
        self.charges[name] = step.charge
        if step.round is not None:
            self.rounds.setdefault(name, [])[step.round.number - 1 :] = [step.round]  # the last again, or the next
        if entry.verb is Verb.COST_OVERRIDDEN:
            self.overridden.append(name)
        identical = None
        if TRANSITIONS[entry.verb].reserves and step.charge.override_hash is None and entry.index > self.since:
            identical = self.costs.add(entry)
        self.has_budgets.update(scopes.list_ancestors(entry.scope))
        return step.charge, identical

    def _note(self, entry: Entry, balance: Balance) -> None:
        """What an owner's act on a budget means for later ones, and for the proof."""
        path = scopes.list_ancestors(entry.scope)
        self.above.update(path[:-1])
        if entry.verb is Verb.PARTITION_DECLARED:
            self.has_budgets.update(path)  # no budget is between it and the budgets that count it
        if "target_guarantee" in entry.body:
            self.promised.append((entry, balance))

    def _check_form(self, entry: Entry) -> None:
        """``check_entry``, once for entries that differ in index, time and key alone: it asks for none but the key."""
        same = entry.verb, entry.scope, entry.key is None, id(entry.amounts), id(entry.body)
        if same not in self._shapes:
            check_entry(entry)
            if len(self._shapes) == SHAPES:
                self._shapes.clear()
            self._shapes[same] = entry  # so that what has these ids lives as long as they are known
        elif entry.key is not None:
            scopes.require_idempotency_key(entry.key)


class Onto:
    """What the entries before amount to, for the next; see ``commands.base.Known``."""

    __slots__ = ("_rounds", "charge", "has_budgets", "has_children", "last", "path", "restore_state")

    def __init__(self, replay: LedgerReplay, entry: Entry) -> None:
        name, self.restore_state = entry.charge_id, replay.restore_state
        self.charge = None if name is None else replay.charges.get(name)
        self._rounds = () if name is None else replay.rounds.get(name, ())
        self.last = self._rounds[-1] if self._rounds else None
        above = scopes.list_ancestors(entry.scope) if entry.scope else ()
        balances = replay.balances
        self.path = [balances[scope] for scope in above if scope in balances]
        self.has_budgets, self.has_children = entry.scope in replay.has_budgets, entry.scope in replay.above

    def round(self, number: int) -> charge_record.RoundState | None:
        """One round of the charge, if it began."""
        return _at(self._rounds, number)


def _at(rounds: Sequence[charge_record.RoundState], number: object) -> charge_record.RoundState | None:
    """Return the state of a round; None if it has not begun, or the number is invalid."""
    return rounds[number - 1] if isinstance(number, int) and 0 < number <= len(rounds) else None


def replay_entries(
    rows: Iterable[StoredRow],
    *,
    progress: Callable[[int], None] | None = None,
    since: Checkpoint | None = None,
    parse: Callable[[str], Entry] | None = None,
) -> LedgerReplay:
    """Replay all entries."""
    replay = LedgerReplay(since=0 if since is None else since.size)
    replay.parse = parse or replay.parse
    for row in rows if since is None else beginning(rows, since):
        replay.read(row)
        if progress is not None and replay.count % REPORT_EVERY == 0:
            progress(replay.count)
    return replay


def beginning(rows: Iterable[StoredRow], kept: Checkpoint) -> Iterator[StoredRow]:
    """Yield the same rows, which must begin with the entries of a checkpoint.

    A row is hashed once the next is asked for: by then ``LedgerReplay.read`` has found it to be an entry.
    """
    tree = merkle.Frontier()
    for row in rows:
        yield row
        if tree.count == kept.size:
            continue
        tree.add(merkle.hash_leaf(row.document.encode()))
        if tree.count == kept.size and tree.root() != kept.root:
            problem = (
                "is not the last of the checkpoint: the ledger was rewritten, or the checkpoint is of another ledger"
            )
            raise LedgerIntegrityError(problem, index=kept.size)
    if tree.count < kept.size:
        problem = (
            f"the checkpoint covers {kept.size} entries, but the ledger has {tree.count}: truncated, or another one"
        )
        raise LedgerIntegrityError(problem, index=tree.count)


def compare_stored_state(replay: LedgerReplay, stored: StoredState) -> None:
    """Require that head, balances, charges and rounds are stored as the entries have them, row by row."""
    if stored.head != (replay.count, replay.head):
        raise LedgerIntegrityError(
            f"the head counts {stored.head[0]} entries, but there are {replay.count}", index=replay.count
        )
    folded = {scope: balance.document() for scope, balance in replay.balances.items()}
    found = dict(stored.balances.items())
    for scope in folded.keys() | found.keys():
        if folded.get(scope) != found.get(scope):
            raise _unlike(replay, f"stored balance {scope!r}")
    counts = Counter[ChargeId]()
    for (name, number), state in stored.rounds.items():
        if state.number != number or state != _at(replay.rounds.get(name, ()), number):
            raise _unlike(replay, f"stored round {number!r} of charge {_format_charge_id(name)}")
        counts[name] += 1
    for name, rounds in replay.rounds.items():
        if counts[name] != len(rounds):
            raise _unlike(replay, f"what is stored of the rounds of charge {_format_charge_id(name)}")
    if not _has_charges(replay, stored):
        _compare_charges(replay, stored)


def _has_charges(replay: LedgerReplay, stored: StoredState) -> bool:
    """Return whether exactly the charges of the entries are certainly stored; read in any order, if that is faster."""
    if not isinstance(stored.charges, StreamedRows) or stored.charges.unordered is None:
        return False
    seen = 0
    with suppress(Exception):  # a row that cannot be read is met again, after those that are to be named before it
        for name, document in stored.charges.unordered():
            if document != replay.charges.document(name):
                return False
            seen += 1
        return seen == len(replay.charges)
    return False


def _compare_charges(replay: LedgerReplay, stored: StoredState) -> None:
    """Require that the charges are stored as the entries have them, and name the first that is not."""
    seen = 0
    for name, document in stored.charges.items():
        if document != replay.charges.document(name):
            raise _unlike(replay, f"stored charge {_format_charge_id(name)}")
        seen += 1
    if seen != len(replay.charges):
        missing = replay.charges.keys() - {name for name, _ in stored.charges.items()}
        raise _unlike(
            replay, f"stored charge {_format_charge_id(min(missing))}" if missing else "what is stored of charges"
        )


def _format_charge_id(name: ChargeId) -> str:
    return f"{name[1]!r} at {name[0]!r}"


def _unlike(replay: LedgerReplay, what: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(f"{what} does not match the entries", index=replay.count)


def recheck_costs(replay: LedgerReplay, *, seconds: float = RECHECK_SECONDS) -> LedgerVerification:
    """Compare the charged costs with what the accountant proves today; cost overrides are not judged."""
    for entry, balance in replay.promised:
        _hold_promise(entry, balance)
    rechecked, unchecked = replay.costs.judge(time.monotonic() + seconds)
    return LedgerVerification(
        replay.count,
        replay.head,
        replay.balances,
        replay.charges,
        tuple(replay.overridden),
        rechecked=rechecked,
        unchecked=unchecked,
        restored=tuple(replay.restored),
        partitions=tuple(sorted(one.scope for one in replay.balances.values() if one.partition is not None)),
        since=replay.since,
    )


def _hold_promise(entry: Entry, balance: Balance) -> None:
    """Require that the caps of a budget keep what it promises; an error otherwise."""
    assert balance.target_guarantee is not None
    delta, relation = balance.target_guarantee["delta"], balance.relation
    epsilon = cap_conversion.get_epsilon_of_caps(balance.kind, balance.caps, delta=delta, relation=relation)
    if epsilon > Fraction(balance.target_guarantee["epsilon"]):
        guarantee, caps = dict(balance.target_guarantee), dict(balance.caps)
        problem = f"guarantees {guarantee} by {caps}, which prove only epsilon {epsilon:.9g}"
        raise LedgerIntegrityError(problem, index=entry.index)
