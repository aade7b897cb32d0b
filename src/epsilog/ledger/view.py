"""A ledger to look at: balances, history page by page, what would fit, and the whole proof. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain as chain_of
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from epsilog.ledger import headroom, replay, scopes
from epsilog.ledger.amounts import Amounts, Number
from epsilog.ledger.balances import Balance
from epsilog.ledger.budget_path import require_valid_time
from epsilog.ledger.charge_record import ChargeRecord, RestoreState, RoundState, refuse_until_accepted
from epsilog.ledger.checkpoints import Checkpoint, StoredCheckpoint
from epsilog.ledger.commands import ChargeAtOnce, Command
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.execute import Done, find_record
from epsilog.ledger.fields import ChargeRequest, parse_timestamp
from epsilog.ledger.headroom import Headroom
from epsilog.ledger.partitions import counts_towards_parent, require_path
from epsilog.ledger.pending import PendingApproval, list_pending_approvals
from epsilog.ledger.store import LedgerSnapshot, ReadableStore, parse_row
from epsilog.ledger.transitions import TRANSITIONS, UNRESERVED_STATES
from epsilog.mechanisms import Release
from epsilog.signing import VerifierKey
from epsilog.terms import CheckError, ConflictError, LedgerIntegrityError, NeighboringRelation, check

_AT_FIRST, _AT_ONCE = 50, 500  # entries that a history reads in one view: a page, and then more


@runtime_checkable
class Served(ReadableStore, Protocol):
    """A ledger that a server keeps: what is not asked of its entries is asked of the server."""

    def execute(self, command: Command, /) -> Done:
        """Has a command carried out; the server knows the caller by their token."""

    def charge_many(self, charges: Sequence[ChargeAtOnce], *, atomic: bool) -> list[Done | Exception]:
        """See ``Ledger.charge_many``."""

    def spending(self, scope: str, *, limit: int) -> list[tuple[Entry, Amounts]]:
        """See ``LedgerView.spending``."""

    def get_headroom(self, scope: str, request: ChargeRequest | None) -> Headroom:
        """See ``LedgerView.get_headroom``."""

    def verify(
        self, *, progress: Callable[[int], None] | None, seconds: float, since: Checkpoint | None
    ) -> replay.LedgerVerification:
        """See ``LedgerView.verify``."""


class LedgerView:
    """All that can be asked of a ledger; each answer is of one consistent view of it.

    A scope and a key identify a charge. Methods that take a key find its charge without the scope if exactly one scope
    has that key; a ``ConflictError`` lists the scopes if several have it.

    Args:
        store: where it is kept; closed with the view.
        covers: returns whether the caller may see the charges of a scope; the view hides all others.
    """

    def __init__(self, store: ReadableStore, *, covers: Callable[[str], bool] = lambda _: True) -> None:
        self._store, self._covers = store, covers
        self._served = store if isinstance(store, Served) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it is kept, as ``open_ledger`` takes it."""
        return self._store.address

    def close(self) -> None:
        """Close it for this process."""
        self._store.close()

    def charge_record(self, key: str, *, scope: str | None = None) -> ChargeRecord:
        """Return the state of a charge; ``Charge`` reads it by name."""
        with self._store.reading() as session:
            return self._require_record(session, key, scope)

    def find_record(self, key: str, *, scope: str | None = None) -> ChargeRecord | None:
        """Return the state of a charge, or None if no charge has the key."""
        with self._store.reading() as session:
            return self._find_record(session, key, scope)

    def find(self, key: str, *, scope: str | None = None) -> ChargeView | None:
        """Return the charge with a key, if there is one."""
        entry = self._opening(key, scope)
        return None if entry is None else ChargeView(self, entry)

    def _opening(self, key: str, scope: str | None) -> Entry | None:
        """Return the entry that reserved a charge, if there is one."""
        with self._store.reading() as session:
            known = self._find_record(session, key, scope)
            return None if known is None or known.state in UNRESERVED_STATES else session.entry(known.opened)

    def charge_rounds(self, key: str, *, scope: str | None = None) -> list[RoundState]:
        """Return the rounds of a charge, in order."""
        with self._store.reading() as session:
            known = self._find_record(session, key, scope)
            return [] if known is None else session.rounds(known.id)

    def _find_record(self, session: LedgerSnapshot, key: str, scope: str | None) -> ChargeRecord | None:
        """Return the record of the charge with a key, in the given scope or in the only one that has the key."""
        return find_record(session, key, scope, self._covers)

    def _require_record(self, session: LedgerSnapshot, key: str, scope: str | None) -> ChargeRecord:
        """Return the record of a charge that must exist."""
        charge = self._find_record(session, key, scope)
        if charge is None:
            where = "" if scope is None else f" at {scope!r}"
            raise ConflictError(f"key must be that of a charge{where}, got {key!r}")
        return charge

    def balance(self, scope: str) -> Balance:
        """Return the budget of exactly this scope; a scope without one is a ``ValueError``."""
        with self._store.reading() as session:
            return get_budget(session, scope)

    def budgets(self) -> list[Balance]:
        """Return every budget, by scope."""
        with self._store.reading() as session:
            return session.balances(None)

    def budgets_above(self, scope: str) -> list[Balance]:
        """Return the budgets that a charge at this scope must fit, from the top."""
        with self._store.reading() as session:
            return session.balances(scopes.list_ancestors(scope))

    def history(self, prefix: str | None = None, *, after: int = 0) -> Iterator[Entry]:
        """Return entries at and under a scope, oldest first; all of them for None.

        Entries are read a few hundred at a time, and the ledger may be charged meanwhile; the result has the entries at
        the time of the call.

        Args:
            prefix: at and under this scope.
            after: only entries of a higher index.
        """
        return (entry for entry, _ in self.documents(prefix, after=after))

    def documents(self, prefix: str | None = None, *, after: int = 0) -> Iterator[tuple[Entry, str]]:
        """Return the same entries with the text that their hashes are of; see ``history``."""
        if prefix is not None:
            scopes.list_ancestors(prefix)
        after = check.integer(0)(after=after)
        return self._read_page(prefix, after=after, end=self.head()[0])

    def _read_page(self, prefix: str | None, *, after: int, end: int) -> Iterator[tuple[Entry, str]]:
        some, full = _AT_FIRST, True
        while full and after < end:
            with self._store.reading() as session:  # short views: a long one would stand in the way of writers
                rows = list(session.rows(start=after + 1, scope=prefix, limit=some))
            full, some = len(rows) == some, _AT_ONCE
            for row in rows:
                entry = parse_row(row)
                if entry.index > end:
                    return
                after = entry.index
                yield entry, row.document

    def head(self) -> tuple[int, str]:
        """Return how many entries there are, and the hash of the last."""
        with self._store.reading() as session:
            return session.head()

    def page(
        self, prefix: str | None = None, *, before: int | None = None, limit: int = 50, verb: Verb | None = None
    ) -> list[Entry]:
        """Return the newest entries, newest first, however long the history is.

        Args:
            prefix: at and under this scope; None takes all.
            before: only entries of a lower index: the cursor to page on with.
            limit: maximum number.
            verb: only entries that do this; needs a scope.
        """
        if prefix is not None:
            scopes.list_ancestors(prefix)
        elif verb is not None:
            raise CheckError("prefix", "a scope where a verb is asked for", "None")
        limit, before = check.integer(1)(limit=limit), check.optional(check.integer(1))(before=before)
        verb = check.optional(check.enum_member(Verb))(verb=verb)
        with self._store.reading() as session:
            until = session.head()[0] + 1 if before is None else before
            return session.page(before=until, limit=limit, scope=prefix, verb=verb)

    def spending(self, scope: str, *, limit: int = 100) -> list[tuple[Entry, Amounts]]:
        """What the newest charges under a budget cost, from the moment each was started or written off; oldest first.

        A partition costs the amount counted for its blocks; a charge in one of those then costs nothing here.

        Args:
            scope: one that has a budget.
            limit: maximum number of charges.

        Returns:
            The entry that spent each charge, and all that was spent up to and with it, to the last unit.
        """
        limit = check.integer(1)(limit=limit)
        if self._served is not None:
            return self._served.spending(scope, limit=limit)
        with self._store.reading() as session:
            budget = get_budget(session, scope)
            now = session.head()[0] + 1
            under = [budget, *session.below(scope)]
            spent = [
                session.page(before=now, limit=limit, scope=scope, verb=verb)
                for verb, rule in TRANSITIONS.items()
                if rule.is_spend
            ]
        newest = sorted(chain_of(*spent), key=lambda entry: entry.index, reverse=True)[:limit]
        partitions = {one.scope for one in under if one.partition is not None}
        sums = [budget.spent]  # no charge is older than the budget it falls under
        for entry in newest:
            try:
                counted = counts_towards_parent(entry, scope, partitions)
                sums.append(sums[-1] - budget.cost(entry.amounts) if counted else sums[-1])
            except (KeyError, ValueError) as error:
                raise LedgerIntegrityError("is not in the balance", index=entry.index) from error
        return list(zip(newest, sums, strict=False))[::-1]

    def list_pending_approvals(self, scope: str | None = None, *, now: datetime | None = None) -> list[PendingApproval]:
        """Return the reservations and caps that wait for the approval of owners, newest first.

        It reads the history back to the oldest reservation that is open. A reservation without cost may be missing.

        Args:
            scope: at and under this scope; None for all.
            now: what expires before is left out; None is the present.

        Returns:
            Caps that some owner has approved and nobody has set, then reservations with fewer approvals than required.
        """
        now = datetime.now(UTC) if now is None else datetime.fromisoformat(parse_timestamp(now=now))
        if scope is not None:
            scopes.list_ancestors(scope)
        with self._store.reading() as session:
            return list_pending_approvals(session, scope, now=now, covers=self._covers)

    def verify(
        self,
        *,
        progress: Callable[[int], None] | None = None,
        seconds: float = replay.RECHECK_SECONDS,
        since: StoredCheckpoint | None = None,
        keys: Collection[VerifierKey] = (),
    ) -> replay.LedgerVerification:
        """Replay the whole ledger: its entries in one consistent view, and then their costs.

        Args:
            progress: called with the number of checked entries, now and then; its exceptions end the check.
            seconds: after which no further cost is recomputed. A computation in progress is finished.
            since: a stored checkpoint. The ledger must begin with its entries; costs reserved by them are not
                recomputed, and everything else is checked.
            keys: the keys of trusted verifiers, one of which must have signed the checkpoint.

        Raises:
            CheckError: none of the keys has signed the checkpoint.
            LedgerIntegrityError: with the index of the first entry that does not hold.
        """
        begins = None if since is None else since.signed_by(keys)
        if self._served is not None:
            return self._served.verify(progress=progress, seconds=seconds, since=begins)
        with self._store.reading() as session:
            replayed = check_by_replay(session, progress=progress, since=begins)
        return replay.recheck_costs(replayed, seconds=seconds)

    def get_headroom(
        self,
        scope: str,
        release: Release | None = None,
        *,
        delta: Number | None = None,
        relation: NeighboringRelation | None = None,
    ) -> Headroom:
        """Return the available amount of a scope, in units of a release if one is given.

        Raises:
            UnsupportedMechanismError: no proven cost for the release.
            ConflictError: no such charge is accepted, whatever is left; see ``open_path``.
        """
        request = None if release is None else ChargeRequest(release, relation, delta=delta)
        if self._served is not None:
            return self._served.get_headroom(scope, request)
        if request is None:
            with self._store.reading() as session:
                return Headroom(headroom.compute_min_available(get_budget_path(session, scope)))
        return headroom.compute_headroom(request, self.open_path(scope))

    def open_path(self, scope: str) -> list[Balance]:
        """Return the budgets that a charge at this scope would count in now, from the top.

        Raises:
            ConflictError: the ledger came out of a backup, and takes no charge before its owner accepts that. Or a
                budget takes no charge now, or none at this scope.
        """
        with self._store.reading() as session:
            path = get_budget_path(session, scope)
            require_valid_time(path, datetime.now(UTC).isoformat())
            refuse_until_accepted(RestoreState.after(session.latest("")), Verb.RESERVED)
        return path


class ChargeView:
    """A charge for reading; it always returns the stored state.

    Attributes:
        entry: the one that reserved it.
        key: its idempotency key, which belongs to its scope.
        scope: where it is charged.
        amounts: what it costs, by kind of budget.
    """

    def __init__(self, charges: LedgerView, entry: Entry) -> None:
        self._charges, self.entry = charges, entry
        self.key = str(entry.key)
        self.scope = entry.scope
        self.amounts: Mapping[str, Amounts] = entry.amounts

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self.key!r}, scope={self.scope!r}, amounts={dict(self.amounts)})"

    @property
    def request(self) -> ChargeRequest:
        """Return what was asked."""
        return ChargeRequest.from_json(self.entry.body["request"])

    @property
    def certificate(self) -> str | None:
        """Return the SHA-256 of the certificate that it presented; None without one."""
        found: str | None = self.entry.body.get("certificate")
        return found

    @property
    def state(self) -> str:
        """One of those in ``State``, from reserved on."""
        return self._charges.charge_record(self.key, scope=self.scope).state

    @property
    def rounds_started(self) -> dict[int, int]:
        """Round that began, and how often."""
        return {state.number: state.attempts for state in self._rounds()}

    @property
    def rounds_released(self) -> dict[int, str]:
        """Round that released something, and its SHA-256."""
        return {state.number: state.output_hash for state in self._rounds() if state.output_hash is not None}

    def _rounds(self) -> Sequence[RoundState]:
        return self._charges.charge_rounds(self.key, scope=self.scope)


def check_by_replay(
    session: LedgerSnapshot, *, progress: Callable[[int], None] | None = None, since: Checkpoint | None = None
) -> replay.LedgerReplay:
    """Check everything but costs, in one view of the ledger; see ``Ledger.verify``."""
    session.check()
    replayed = replay.replay_entries(session.rows(), progress=progress, since=since)
    replay.compare_stored_state(replayed, session.read_stored_state())
    return replayed


def get_budget_path(session: LedgerSnapshot, scope: str) -> list[Balance]:
    """Return the budgets at and above the scope of a charge, from the top; refuse a partition without a block."""
    return [*require_path(session.balances(scopes.list_ancestors(scope)), scope)]


def get_budget(session: LedgerSnapshot, scope: str) -> Balance:
    """Return the budget of exactly this scope, which there must be."""
    scopes.list_ancestors(scope)
    found = session.balances([scope])
    if not found:
        raise CheckError("scope", "a budget", repr(scope), verb="have")
    return found[0]
