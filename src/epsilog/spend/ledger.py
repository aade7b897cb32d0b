"""The ledger's verbs: create a budget, reserve, start, commit, or cancel before the start; and what is left.

Each verb is one transaction: read the head and the balances on the path, fold one entry onto them with the pure rules
of ``folds``, which may refuse, and only then write. From ``start`` on the money is gone for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from epsilog.spend import chain, folds, headroom, scopes
from epsilog.spend.amounts import Amounts, Number
from epsilog.spend.charge import Charge
from epsilog.spend.entries import Entry, Verb
from epsilog.spend.filters import filter_of
from epsilog.spend.folds import Balance
from epsilog.spend.headroom import Headroom
from epsilog.spend.pricing import Price, price
from epsilog.spend.requests import Request, waiver_of
from epsilog.spend.rows import parsed
from epsilog.spend.shapes import check_shape
from epsilog.spend.states import LATER, RULES, State
from epsilog.spend.store import Session, Store
from epsilog.terms import (
    BudgetExceededError,
    CheckError,
    ConflictError,
    LedgerIntegrityError,
    NeighboringRelation,
    Release,
    check,
)


def utc_now() -> datetime:
    """The time that entries note."""
    return datetime.now(UTC)


class Ledger:
    """An append-only, hash-chained ledger of privacy budgets. Use it as a context manager, or ``close`` it.

    Args:
        store: where it is kept; closed with the ledger.
        clock: tells the time that entries note; order never depends on it.
    """

    def __init__(self, store: Store, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._store, self._clock = store, clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it is kept, as ``open_ledger`` takes it."""
        return self._store.address

    def close(self) -> None:
        """Closes it for this process."""
        self._store.close()

    def create_budget(
        self,
        scope: str,
        *,
        kind: str,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit: str | None = None,
        simulation: bool = False,
        **caps: Number,
    ) -> Balance:
        """Sets the cap of a scope, once and before any charge at or under it; the same again changes nothing.

        Args:
            scope: names joined by ``/``.
            kind: ``pure`` (epsilon), ``approximate`` (epsilon, delta), ``zcdp`` (rho) or ``gdp`` (mu_squared).
            relation: the neighboring relation of everything charged to it.
            privacy_unit: what one neighbour differs in; None leaves it unsaid.
            simulation: takes charges of simulations, and those only.
            **caps: one for each quantity of the kind, rounded down to whole units.

        Raises:
            ConflictError: the scope has another budget, or charges already.
        """
        quantities = filter_of(kind).quantities
        if set(caps) != set(quantities):
            raise ValueError(
                f"caps of a {kind} budget must be {', '.join(quantities)}, got {', '.join(caps) or 'none'}"
            )
        relation = check.member(NeighboringRelation)(relation=relation)
        simulation = check.flag()(simulation=simulation)
        if privacy_unit is not None:
            privacy_unit = check.text()(privacy_unit=privacy_unit)
        scopes.ancestors(scope)
        body = {
            "kind": kind,
            "caps": dict(Amounts.capped({quantity: caps[quantity] for quantity in quantities})),
            "relation": relation.value,
            "privacy_unit": privacy_unit,
            "simulation": simulation,
        }
        with self._store.writing() as session:
            entry = self._entry(session, Verb.BUDGET_CREATED, scope, None, body=body)
            created = folds.opened_balance(entry)
            existing = session.balances([scope])
            if existing and existing[0].terms == created.terms:
                return existing[0]
            scopes.refuse_late_budget(scope, exists=bool(existing), populated=session.has_charges(scope))
            session.append(entry)
            session.put_balances([created])
        return created

    def reserve(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        delta: Number | None = None,
        amount: Mapping[str, Number] | None = None,
        relation: NeighboringRelation | None = None,
        privacy_unit: str | None = None,
        plan_hash: str | None = None,
        rounds: int | None = None,
        simulation: bool = False,
    ) -> Charge:
        """Promises the price of a release; nothing is spent before ``start``.

        Args:
            scope: where it is charged; every budget at or above it must bear it.
            release: the whole schedule, stored for ever.
            key: idempotency key: the same key and request give the same charge.
            delta: the failure probability that approximate budgets are charged, rounded up to whole units.
            amount: a price worked out elsewhere, by quantity, instead of the accountant's upper bound: at least that,
                unless an owner has allowed it (``override_price``).
            relation: neighboring relation; None takes that of the nearest budget. All budgets on the path must have it.
            privacy_unit: what one neighbour differs in; likewise.
            plan_hash: SHA-256 of the plan.
            rounds: the most rounds it may run.
            simulation: whether it is no release of real data; only such budgets take it.

        Raises:
            BudgetExceededError: some budget cannot bear it; nothing was written.
            ConflictError: the key came with another request, or was cancelled; or relation, unit or simulation is not
                the budget's.
            UnsupportedMechanismError: no proven price.
        """
        request = Request(release, relation, privacy_unit, delta, amount, plan_hash, rounds, simulation)
        return self._reserve(scope, key, request, settle=False)

    def charge(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        delta: Number | None = None,
        amount: Mapping[str, Number] | None = None,
        relation: NeighboringRelation | None = None,
        privacy_unit: str | None = None,
        simulation: bool = False,
    ) -> Charge:
        """Reserves, starts and commits at once, before a release that is made in one step; see ``reserve``.

        A key that somebody reserved or started is theirs to finish, and a ``ConflictError`` here.
        """
        request = Request(release, relation, privacy_unit, delta, amount, simulation=simulation)
        return self._reserve(scope, key, request, settle=True)

    def override_price(
        self,
        scope: str,
        release: Release,
        *,
        key: str,
        amount: Mapping[str, Number],
        reason: str,
        relation: NeighboringRelation | None = None,
        privacy_unit: str | None = None,
        plan_hash: str | None = None,
        rounds: int | None = None,
        simulation: bool = False,
    ) -> None:
        """An owner's act: allows one charge at an amount that the accountant does not prove, as an entry of its own.

        The same key, scope and request may then be reserved or charged with this ``amount``, once. Nothing is spent
        yet. ``verify`` names every charge that was allowed so.

        Args:
            scope: where it will be charged; see ``reserve`` for what is not named here.
            release: what will be released.
            key: of the charge that is allowed.
            amount: its price, by quantity.
            reason: why this amount is right, in words; kept for ever.
            relation: see ``reserve``.
            privacy_unit: see ``reserve``.
            plan_hash: see ``reserve``.
            rounds: see ``reserve``.
            simulation: see ``reserve``.

        Raises:
            ConflictError: the key is known already.
        """
        scopes.check_key(key)
        reason = check.text()(reason=reason)
        request = Request(release, relation, privacy_unit, None, amount, plan_hash, rounds, simulation)
        with self._store.writing() as session:
            path = _path(session, scope)
            body = {"request": request.under(path[-1].relation, path[-1].privacy_unit).to_json(), "reason": reason}
            known = session.charge(key)
            if known is not None and known.state is State.ALLOWED and session.entry(known.opened).body == body:
                return  # the same again
            entry = self._entry(session, Verb.PRICE_OVERRIDDEN, scope, key, body=body)
            session.put_charge(folds.advance(known, entry))
            session.append(entry)

    def _reserve(self, scope: str, key: str, request: Request, *, settle: bool) -> Charge:
        scopes.check_key(key)
        prices: dict[str, Price] = {}
        while True:
            transaction = self._store.writing if prices else self._store.reading  # nothing is written without a price
            try:
                with transaction() as session:
                    path = _path(session, scope)
                    request = request.under(path[-1].relation, path[-1].privacy_unit)
                    known = session.charge(key)
                    if known is not None and known.state is not State.ALLOWED:
                        return self._again(session, known, scope, request, settle=settle)
                    unpriced = {budget.kind for budget in path} - prices.keys()
                    if not unpriced:
                        headroom.refuse_unbearable(prices, path)
                        reserved = self._reservation(session, scope, key, request, path=path, prices=prices)
                        return self._open(session, reserved, known, path, settle=settle)
            except BudgetExceededError as refusal:
                raise headroom.explained(refusal, request, path) from None
            allowed = known is not None and (known.scope, known.waiver) == (scope, waiver_of(request.to_json()))
            prices |= {kind: price(request, kind, overridden=allowed) for kind in unpriced}  # slow: nobody waits for it

    def _again(
        self, session: Session, known: folds.ChargeRecord, scope: str, request: Request, *, settle: bool
    ) -> Charge:
        """The charge that a repeated key stands for."""
        opened = session.entry(known.opened)
        if known.scope != scope or opened.body["request"] != request.to_json():
            raise ConflictError(f"key {known.key!r} is taken by another request (entry {known.opened})")
        if known.state is State.CANCELLED:
            raise ConflictError(f"charge {known.key!r} is cancelled: take another key")
        if settle and known.state is not State.COMMITTED:
            raise ConflictError(f"charge {known.key!r} is {known.state}: whoever reserved it starts and commits it")
        return Charge(self, opened, replayed=True)

    def _reservation(
        self,
        session: Session,
        scope: str,
        key: str,
        request: Request,
        *,
        path: list[Balance],
        prices: Mapping[str, Price],
    ) -> Entry:
        kinds = sorted({budget.kind for budget in path})
        amounts = {kind: prices[kind].amounts for kind in kinds}
        body = {"request": request.to_json(), "methods": {kind: prices[kind].method for kind in kinds}}
        return self._entry(session, Verb.RESERVED, scope, key, amounts=amounts, body=body)

    def _open(
        self,
        session: Session,
        reserved: Entry,
        known: folds.ChargeRecord | None,
        path: list[Balance],
        *,
        settle: bool,
    ) -> Charge:
        """Writes a reservation; with ``settle`` its start and its commit as well."""
        path, charge = [folds.apply(budget, reserved) for budget in path], folds.advance(known, reserved)
        session.append(reserved)
        later: dict[Verb, Mapping[str, Any]] = {Verb.STARTED: {}, Verb.COMMITTED: {"evidence": {}}} if settle else {}
        for verb, body in later.items():
            entry = self._entry(session, verb, reserved.scope, reserved.key, amounts=reserved.amounts, body=body)
            path, charge = [folds.apply(budget, entry) for budget in path], folds.advance(charge, entry)
            session.append(entry)
        session.put_balances(path)
        session.put_charge(charge)
        return Charge(self, reserved, replayed=False)

    def advance(self, key: str, verb: Verb, body: Mapping[str, Any]) -> None:
        """Writes one entry of a charge that exists; ``Charge`` has the verbs by name."""
        verb = check.one_of(LATER)(verb=verb)
        with self._store.writing() as session:
            charge = _known(session, key)
            if charge.closed is not None:
                closing = session.entry(charge.closed)
                if (closing.verb, closing.body) == (verb, body):
                    return  # the same again
            amounts = charge.amounts if RULES[verb].moves else {}
            entry = self._entry(session, verb, charge.scope, key, amounts=amounts, body=body)
            check_shape(entry)
            last = session.last_round(key) if verb in (Verb.COMMITTED, Verb.ROUND_STARTED) else None
            moved = folds.advance(charge, entry, last=last)
            if RULES[verb].stage is not None:
                state = session.round(key, body["round"])
                if verb is Verb.ROUND_RELEASED and state is not None and state.output_hash == body["output_hash"]:
                    return  # the same again
                session.put_round(key, folds.advance_round(charge, state, entry, last=last))
            else:
                session.put_balances([folds.apply(b, entry) for b in session.balances(scopes.ancestors(charge.scope))])
                session.put_charge(moved)
            session.append(entry)

    def _entry(
        self,
        session: Session,
        verb: Verb,
        scope: str,
        key: str | None,
        *,
        body: Mapping[str, Any],
        amounts: Mapping[str, Amounts] | None = None,
    ) -> Entry:
        """The next entry, not written yet."""
        count, head = session.head()
        time = self._clock().astimezone(UTC).isoformat(timespec="microseconds")
        return Entry(count + 1, head, time, verb, scope, key, amounts or {}, body)

    def find(self, key: str) -> Charge | None:
        """The charge with a key, if there is one."""
        scopes.check_key(key)
        with self._store.reading() as session:
            known = session.charge(key)
            if known is None or known.state is State.ALLOWED:
                return None
            return Charge(self, session.entry(known.opened), replayed=True)

    def charge_record(self, key: str) -> folds.ChargeRecord:
        """Where a charge stands; ``Charge`` tells it by name."""
        with self._store.reading() as session:
            return _known(session, key)

    def charge_rounds(self, key: str) -> list[folds.RoundState]:
        """The rounds of a charge, in order."""
        scopes.check_key(key)
        with self._store.reading() as session:
            return session.rounds(key)

    def balance(self, scope: str) -> Balance:
        """The budget of exactly this scope; a scope without one is a ``ValueError``."""
        with self._store.reading() as session:
            return _budget(session, scope)

    def budgets(self) -> list[Balance]:
        """Every budget, by scope."""
        with self._store.reading() as session:
            return session.balances(None)

    def budgets_above(self, scope: str) -> list[Balance]:
        """The budgets that a charge at this scope must fit, from the top."""
        with self._store.reading() as session:
            return session.balances(scopes.ancestors(scope))

    def history(self, prefix: str | None = None) -> list[Entry]:
        """Entries at and under a scope, oldest first; all of them for None."""
        if prefix is not None:
            scopes.ancestors(prefix)
        with self._store.reading() as session:
            return [parsed(row) for row in session.rows(scope=prefix)]

    def head(self) -> tuple[int, str]:
        """How many entries there are, and the hash of the last."""
        with self._store.reading() as session:
            return session.head()

    def page(
        self, prefix: str | None = None, *, before: int | None = None, limit: int = 50, verb: Verb | None = None
    ) -> list[Entry]:
        """The newest entries, newest first, however long the history is.

        Args:
            prefix: at and under this scope; None takes all.
            before: only entries of a lower index: the cursor to page on with.
            limit: at most so many.
            verb: only entries that do this; needs a scope.
        """
        if prefix is not None:
            scopes.ancestors(prefix)
        elif verb is not None:
            raise CheckError("prefix", "a scope where a verb is asked for", "None")
        limit, before = check.integer(1)(limit=limit), check.optional(check.integer(1))(before=before)
        verb = check.optional(check.member(Verb))(verb=verb)
        with self._store.reading() as session:
            until = session.head()[0] + 1 if before is None else before
            return session.page(before=until, limit=limit, scope=prefix, verb=verb)

    def spending(self, scope: str, *, limit: int = 100) -> list[tuple[Entry, Amounts]]:
        """What the newest charges under a budget cost, from the moment each was started; oldest first.

        Args:
            scope: one that has a budget.
            limit: at most so many charges.

        Returns:
            The entry that started each charge, and all that was spent up to and with it, to the last unit.
        """
        limit = check.integer(1)(limit=limit)
        with self._store.reading() as session:
            budget = _budget(session, scope)
            newest = session.page(before=session.head()[0] + 1, limit=limit, scope=scope, verb=Verb.STARTED)
        sums = [budget.spent]  # no charge is older than the budget it falls under
        for entry in newest:
            try:
                sums.append(sums[-1] - entry.amounts[budget.kind])
            except (KeyError, ValueError) as error:
                raise LedgerIntegrityError("is not in the balance", index=entry.index) from error
        return list(zip(newest, sums, strict=False))[::-1]

    def verify(
        self, *, progress: Callable[[int], None] | None = None, seconds: float = chain.PRICE_SECONDS
    ) -> chain.Verified:
        """Works the whole ledger out again: its entries in one consistent view of it, and then its prices.

        Args:
            progress: told how many entries held so far, now and then; what it raises ends the check.
            seconds: after which no further price is worked out again. A price that is being worked out is waited for.

        Raises:
            LedgerIntegrityError: with the index of the first entry that does not hold.
        """
        with self._store.reading() as session:
            books = refolded(session, progress=progress)
        return chain.reprice(books, seconds=seconds)

    def what_fits(
        self,
        scope: str,
        release: Release | None = None,
        *,
        delta: Number | None = None,
        relation: NeighboringRelation | None = None,
    ) -> Headroom:
        """What a scope can still bear, of a release if one is given.

        Raises:
            UnsupportedMechanismError: no proven price for the release.
        """
        with self._store.reading() as session:
            path = _path(session, scope)
        if release is None:
            return Headroom(headroom.least(path))
        request = Request(release, relation, delta=delta).under(path[-1].relation, path[-1].privacy_unit)
        return headroom.headroom_for(request, path)


def refolded(session: Session, *, progress: Callable[[int], None] | None = None) -> chain.Books:
    """Checks everything but prices, in one view of the ledger; see ``Ledger.verify``."""
    session.check()
    books = chain.fold(session.rows(), progress=progress)
    chain.compare(books, session.stored())
    return books


def _path(session: Session, scope: str) -> list[Balance]:
    """The budgets that a charge at a scope must fit, from the top, at least one."""
    path = session.balances(scopes.ancestors(scope))
    scopes.require_budget(scope, path)
    return path


def _budget(session: Session, scope: str) -> Balance:
    scopes.ancestors(scope)
    found = session.balances([scope])
    if not found:
        raise CheckError("scope", "a budget", repr(scope), verb="have")
    return found[0]


def _known(session: Session, key: str) -> folds.ChargeRecord:
    scopes.check_key(key)
    charge = session.charge(key)
    if charge is None:
        raise ConflictError(f"key must be that of a charge, got {key!r}")
    return charge
