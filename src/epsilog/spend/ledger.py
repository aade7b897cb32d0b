"""The ledger's verbs: create a budget, reserve, start, commit, or cancel before the start, and what owners do.

Each verb is one transaction: read the head and the balances on the path, fold one entry onto them with the pure rules
of ``paths`` and ``records``, which may refuse, and only then write. From ``start`` on the money is gone for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from epsilog.mechanisms import Release
from epsilog.spend import balances, headroom, paths, promises, records, scopes
from epsilog.spend.amounts import MOST_ORDERS, Amounts, Number, rdp_quantity
from epsilog.spend.balances import Balance
from epsilog.spend.charge import Charge
from epsilog.spend.entries import ChargeId, Entry, Verb
from epsilog.spend.filters import filter_of
from epsilog.spend.headroom import HERE, Pricing
from epsilog.spend.partitions import risen
from epsilog.spend.pricing import Price, price_at_once, states_price
from epsilog.spend.requests import Request, waiver_of
from epsilog.spend.rows import Row, parsed
from epsilog.spend.shapes import check_shape, moment, refuse_private
from epsilog.spend.states import AHEAD, CLOSED, LATER, RULES, State
from epsilog.spend.store import Session, Store
from epsilog.spend.view import LedgerView, budget_of, path_of
from epsilog.terms import AccessError, BudgetExceededError, CheckError, ConflictError, NeighboringRelation, check


def utc_now() -> datetime:
    """The time that entries note."""
    return datetime.now(UTC)


REMEMBERED = 4096  # charges


class Ledger(LedgerView):
    """An append-only, hash-chained ledger of privacy budgets. Use it as a context manager, or ``close`` it.

    Args:
        store: where it is kept; closed with the ledger.
        clock: tells the time that entries note; order never depends on it.
        pricing: works prices out.
        by: who asks, if that is known: noted with the budgets, plans, prices and reservations that they make.
        covers: tells whether they may see the charges of a scope; all others are hidden.
        owns: tells whether they own a scope, or for None the whole ledger.
        admit_free: asked before somebody who is known opens a charge that costs nothing: no budget ends that. It raises
            what refuses them.
    """

    _store: Store

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime] = utc_now,
        pricing: Pricing = HERE,
        by: str | None = None,
        covers: Callable[[str], bool] = lambda _: True,
        owns: Callable[[str | None], bool] = lambda _: True,
        admit_free: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(store, covers=covers)
        self._admit_free = admit_free
        self._clock, self._pricing, self._by, self._owns = clock, pricing, by, owns
        self._times: dict[tuple[ChargeId, int], str] = {}

    def on_behalf_of(
        self,
        by: str,
        *,
        covers: Callable[[str], bool] = lambda _: True,
        owns: Callable[[str | None], bool] = lambda _: True,
    ) -> Ledger:
        """The same ledger for somebody who is known by name; it closes with this one.

        Args:
            by: their name.
            covers: tells whether they may see the charges of a scope; all others are hidden.
            owns: tells whether they own a scope, or for None the whole ledger. An act that takes an owner whom they are
                not is an ``AccessError``.
        """
        by = check.text()(by=by)
        return Ledger(
            self._store,
            clock=self._clock,
            pricing=self._pricing,
            by=by,
            covers=covers,
            owns=owns,
            admit_free=self._admit_free,
        )

    def _require_owned(self, path: Sequence[Balance], entry: Entry) -> None:
        """Refuses an act of whoever does not own all that it changes; see ``paths.owned``."""
        if RULES[entry.verb].whole:
            if not self._owns(None):
                raise AccessError(f"{entry.verb} is of the whole ledger, and takes its owner")
            return
        for scope in paths.owned(path, entry):
            if not self._owns(scope):
                why = "" if scope == entry.scope else f" changes what the budget of {scope!r} counts, and"
                raise AccessError(f"{entry.verb} at {entry.scope!r}{why} takes an owner of {scope!r}")

    def create_budget(
        self,
        scope: str,
        *,
        kind: str,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit: str | None = None,
        simulation: bool = False,
        quota: bool = False,
        orders: Sequence[Number] | None = None,
        **caps: Number,
    ) -> Balance:
        """Sets the cap of a scope, once and before any charge at or under it; the same again changes nothing.

        Args:
            scope: names joined by ``/``.
            kind: ``pure`` (epsilon), ``approximate`` (epsilon, delta), ``zcdp`` (rho), ``gdp`` (mu_squared) or ``rdp``
                (``rdp_2`` at Renyi order 2, ``rdp_8`` at 8, and so on: the orders that are named here).
            relation: the neighboring relation of everything charged to it.
            privacy_unit: what one neighbour differs in; None leaves it unsaid.
            simulation: takes charges of simulations, and those only.
            quota: whether the nearest budget above sets this cap aside as a share that others under it cannot use.
            orders: Renyi orders of an rdp budget that promises epsilon and delta; None for every other budget.
            **caps: one for each quantity of the kind, rounded down to whole units. Or, for a zcdp, gdp or rdp budget,
                its promise: epsilon and delta, and its caps are the largest that keep these.

        Raises:
            BudgetExceededError: a quota that the budget above has no room for, or a block above its partition's cap.
            ConflictError: the scope has another budget, or charges already; or it lies under one that is retired, or
                under a partition and is no block in its terms.
        """
        relation = check.member(NeighboringRelation)(relation=relation)
        limits = _limits(kind, caps, relation, None if orders is None else tuple(map(rdp_quantity, orders)))
        simulation = check.flag()(simulation=simulation)
        if privacy_unit is not None:
            privacy_unit = check.text()(privacy_unit=privacy_unit)
        scopes.ancestors(scope)
        body = {
            "kind": kind,
            **limits,
            "relation": relation.value,
            "privacy_unit": privacy_unit,
            "simulation": simulation,
        }
        verb = Verb.QUOTA_CREATED if check.flag()(quota=quota) else Verb.BUDGET_CREATED
        with self._settled(verb) as session:
            path = session.balances(scopes.ancestors(scope))
            entry = self._entry(session.head(), verb, scope, None, body=body)
            self._require_owned(path, entry)
            if path and path[-1].scope == scope:
                there = path[-1]
                again = balances.opened_balance(entry, quota=there.quota)
                if again.terms in _terms_of(session, there) and quota == (there.quota is not None):
                    return there
                scopes.refuse_late_budget(scope, exists=True, populated=True)
            populated = session.has_charges(scope) or any(one.partition is not None for one in session.below(scope))
            scopes.refuse_late_budget(scope, exists=False, populated=populated)
            return self._act(session, path, entry)

    def declare_partition(self, scope: str, *, by: str, reason: str, **caps: Number) -> Balance:
        """An owner's act: what lies below a scope is disjoint blocks, of which the budgets above pay for one, now.

        A block is a budget directly below, made with ``create_budget`` in the same terms and within these caps. What is
        charged in a block counts in that block alone. The entry states that each privacy unit lies in one block; that
        which one is public, settled before anything is released there, and depends on that unit alone; and that a
        release under a block reads that block alone. Whoever reads more than one block charges above the partition. The
        same again changes nothing.

        Args:
            scope: under a budget, whose kind, relation, privacy unit and simulation are the partition's. Nothing may
                have been made or charged at or under it yet.
            by: who states that.
            reason: why it is so, in words; kept for ever.
            **caps: the most that any one block may cost, in the quantities of the kind. All budgets above spend it at
                once, up to the block of a partition around this one; it never comes back, and ``change_cap`` raises it.

        Raises:
            BudgetExceededError: a budget above cannot pay for a block.
            ConflictError: the budgets above are of more than one kind; or there are charges or budgets here already.
            CheckError: neighbours replace one unit by another, or the budget above states no privacy unit.
        """
        above, verb = self._above(scope), Verb.PARTITION_DECLARED
        nearest = above[-1]
        limits = _limits(nearest.kind, caps, nearest.relation, None)
        body = {
            "kind": nearest.kind,
            **limits,
            "relation": nearest.relation.value,
            "privacy_unit": nearest.privacy_unit,
            "simulation": nearest.simulation,
            "by": by,
            "reason": reason,
        }
        amounts = {nearest.kind: Amounts.stored(limits["caps"])}
        with self._settled(verb) as session:
            path = session.balances(scopes.ancestors(scope))
            entry = self._entry(session.head(), verb, scope, None, amounts=amounts, body=body)
            self._require_owned(path, entry)
            if path and path[-1].scope == scope:
                if balances.opened_balance(entry).terms in _terms_of(session, path[-1]):
                    return path[-1]
                scopes.refuse_late_partition(scope, exists=True, populated=True)
            populated = session.has_charges(scope) or bool(session.below(scope))
            scopes.refuse_late_partition(scope, exists=False, populated=populated)
            return self._pay(session, path, entry)

    def _above(self, scope: str) -> list[Balance]:
        """The budgets above a scope, at least one."""
        with self._store.reading() as session:
            path = [one for one in session.balances(scopes.ancestors(scope)) if one.scope != scope]
        scopes.require_budget(scope, path)
        return path

    def _pay(self, session: Session, path: list[Balance], entry: Entry) -> Balance:
        """Writes what a partition costs the budgets above it."""
        try:
            return self._act(session, path, entry)
        except BudgetExceededError as refusal:
            payers = [one for one in path if one.scope != entry.scope]
            raise headroom.unpaid(refusal, payers, entry.amounts) from None

    def change_cap(self, scope: str, *, by: str, reason: str, **caps: Number) -> Balance:
        """An owner's act: sets another cap, higher or lower. What is spent or promised stays so.

        Below what stands against it already, a cap refuses every further charge. A higher cap is the promise from then
        on; an owner who decides on it after seeing answers promises no more than the highest that could have come.

        The cap of a partition only rises: the budgets above pay the difference, and what was paid never comes back.

        Args:
            scope: one that has a budget.
            by: who decides.
            reason: why, in words; kept for ever.
            **caps: all of the budget's quantities; or the epsilon and delta that it is to promise, as it was made.

        Raises:
            BudgetExceededError: a quota or a partition that a budget above has no room for, or a block above the cap
                of its partition.
            ConflictError: the scope is retired; a partition's cap that is lowered.
        """
        there = self.balance(scope)  # its kind and relation are for ever; what keeps a promise takes a while to find
        orders = headroom.orders_of(there) if there.filter.one_is_enough else None
        limits = _limits(there.kind, caps, there.relation, orders)
        body = {**limits, "by": by, "reason": reason}
        with self._settled(Verb.CAP_CHANGED) as session:
            budget = budget_of(session, scope)
            if (dict(budget.caps), budget.promise and dict(budget.promise)) == (body["caps"], body.get("promise")):
                return budget
            path = session.balances(scopes.ancestors(scope))
            if budget.partition is None:
                return self._act(session, path, self._entry(session.head(), Verb.CAP_CHANGED, scope, None, body=body))
            amounts = {budget.kind: risen(budget, Amounts.stored(limits["caps"]))}
            entry = self._entry(session.head(), Verb.PARTITION_RAISED, scope, None, amounts=amounts, body=body)
            return self._pay(session, path, entry)

    def retire(self, scope: str, *, by: str, reason: str) -> Balance:
        """An owner's act: from here on nothing new is charged at or under a scope, ever.

        What runs may end. What is reserved no longer starts; it can be given back.

        Args:
            scope: one that has a budget.
            by: who decides.
            reason: why, in words; kept for ever.
        """
        with self._settled(Verb.SCOPE_RETIRED) as session:
            budget = budget_of(session, scope)
            if budget.retired is not None:
                return budget
            body = {"by": by, "reason": reason}
            path = session.balances(scopes.ancestors(scope))
            return self._act(session, path, self._entry(session.head(), Verb.SCOPE_RETIRED, scope, None, body=body))

    @contextmanager
    def _settled(self, verb: Verb, name: ChargeId | None = None) -> Iterator[Session]:
        """A transaction in which a verb is not refused for what a backup may have lost."""
        with self._store.writing() as session:
            known = None if name is None else session.charge(name)
            records.refuse_unsettled(records.Standing.after(session.latest("")), verb, known)
            yield session

    def mark_restored(self, *, by: str, reason: str) -> None:
        """Notes that this ledger came out of a backup: nothing happens in it until an owner accepts that.

        Args:
            by: who put it back.
            reason: why, in words; kept for ever.
        """
        self._write_whole(Verb.LEDGER_RESTORED, {"by": by, "reason": reason})

    def accept_restored(self, *, by: str, reason: str) -> None:
        """An owner's act: accepts what may be missing since the backup that this ledger was restored from.

        What was charged since is lost to the ledger, not to those who saw the answers. What is known of it is then to
        be charged again, by its statement, before anything else is. A charge that was open in the backup can only be
        abandoned.

        Args:
            by: who accepts.
            reason: what may be missing, and how that is known, in words; kept for ever.

        Raises:
            ConflictError: nothing waits to be accepted.
        """
        self._write_whole(Verb.RESTORE_ACCEPTED, {"by": by, "reason": reason})

    def _write_whole(self, verb: Verb, body: Mapping[str, Any]) -> None:
        with self._store.writing() as session:
            standing = records.Standing.after(session.latest(""))
            if verb is Verb.RESTORE_ACCEPTED:
                if standing.accepted:
                    raise ConflictError("no restore of this ledger waits to be accepted")
                body = {**body, "restored": standing.restored}
            entry = self._entry(session.head(), verb, "", None, body=body)
            self._require_owned((), entry)
            check_shape(entry)
            records.restand(standing, entry)
            session.append(Row.of(entry))

    def _act(self, session: Session, path: list[Balance], entry: Entry) -> Balance:
        """Writes what an owner does to a budget, which is the last on its path."""
        self._require_owned(path, entry)
        check_shape(entry)
        after = paths.along(path, entry)
        session.append(Row.of(entry))
        session.put_balances(after)
        return after[-1]

    def register_plan(self, scope: str, plan_hash: str, *, key: str) -> None:
        """Notes a plan before anything is reserved for it: this key of the scope is then for this plan.

        Args:
            scope: where it will be charged.
            plan_hash: SHA-256 of the plan.
            key: of the charge that will pay for it.

        Raises:
            ConflictError: the key is known for something else in this scope.
        """
        scopes.check_key(key)
        scopes.ancestors(scope)
        with self._settled(Verb.PLAN_REGISTERED, (scope, key)) as session:
            path, known = path_of(session, scope), session.charge((scope, key))
            if known is not None and known.plan == plan_hash:
                return  # the same again
            entry = self._entry(session.head(), Verb.PLAN_REGISTERED, scope, key, body={"plan_hash": plan_hash})
            check_shape(entry)
            charge = records.advance(known, entry)
            paths.along(path, entry)
            if self._by is not None:
                self._admit_free(self._by)
            session.put_charge(charge)
            session.append(Row.of(entry))

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
        until: datetime | None = None,
    ) -> Charge:
        """Promises the price of a release; nothing is spent before ``start``.

        Args:
            scope: where it is charged; every budget at or above it must bear it.
            release: the whole schedule, stored for ever.
            key: idempotency key, which belongs to the scope: the same scope, key and request give the same charge.
            delta: the failure probability that approximate budgets are charged, rounded up to whole units.
            amount: a price worked out elsewhere, by quantity, instead of the accountant's upper bound: at least that,
                unless an owner has allowed it (``override_price``).
            relation: neighboring relation; None takes that of the nearest budget. All budgets on the path must have it.
            privacy_unit: what one neighbour differs in; likewise.
            plan_hash: SHA-256 of the plan.
            rounds: the most rounds it may run.
            simulation: whether it is no release of real data; only such budgets take it.
            until: when anybody may give it back if it has not started (``expire``); None for never.

        Raises:
            BudgetExceededError: some budget cannot bear it; nothing was written.
            ConflictError: the key came with another request to this scope, or was cancelled; or relation, unit or
                simulation is not the budget's.
            UnsupportedMechanismError: no proven price.
        """
        request = Request(release, relation, privacy_unit, delta, amount, plan_hash, rounds, simulation)
        held: dict[Verb, Mapping[str, Any]] = {} if until is None else {Verb.HELD_UNTIL: {"until": moment(until=until)}}
        return self._reserve(scope, key, request, held)

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
        return self._reserve(scope, key, request, {Verb.STARTED: {}, Verb.COMMITTED: {"evidence": {}}})

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

        The same scope, key and request may then be reserved or charged with this ``amount``, once. Nothing is spent
        yet. ``verify`` names every charge that was allowed so.

        Args:
            scope: where it will be charged; see ``reserve`` for what is not named here.
            release: what will be released.
            key: of the charge that is allowed.
            amount: its price, by quantity.
            reason: why this amount is right, in words; kept for ever. It takes owners of every budget that the charge
                counts in.
            relation: see ``reserve``.
            privacy_unit: see ``reserve``.
            plan_hash: see ``reserve``.
            rounds: see ``reserve``.
            simulation: see ``reserve``.

        Raises:
            ConflictError: the key is known already in this scope.
        """
        scopes.check_key(key)
        scopes.ancestors(scope)
        reason = check.text()(reason=reason)
        request = Request(release, relation, privacy_unit, None, amount, plan_hash, rounds, simulation)
        with self._settled(Verb.PRICE_OVERRIDDEN, (scope, key)) as session:
            path = path_of(session, scope)
            body = {"request": request.under(path[-1].relation, path[-1].privacy_unit).to_json(), "reason": reason}
            known = session.charge((scope, key))
            stands = known is not None and known.state is State.ALLOWED
            if known is not None and stands and body.items() <= session.entry(known.opened).body.items():
                return  # the same again, whoever says so
            entry = self._entry(session.head(), Verb.PRICE_OVERRIDDEN, scope, key, body=body)
            self._require_owned(path, entry)
            charge = records.advance(known, entry)
            paths.along(path, entry)
            session.put_charge(charge)
            session.append(Row.of(entry))

    def _reserve(self, scope: str, key: str, request: Request, then: Mapping[Verb, Mapping[str, Any]]) -> Charge:
        """Writes a reservation, and in the same transaction what comes then."""
        scopes.check_key(key)
        prices: dict[str, Price] = {}
        while True:  # nothing is written without a price, and nobody waits for one that must be worked out
            transaction = self._store.writing if prices or states_price(request) else self._store.reading
            try:
                with transaction() as session:
                    path = path_of(session, scope)
                    request = request.under(path[-1].relation, path[-1].privacy_unit)
                    known = session.charge((scope, key))
                    if known is not None and known.state not in AHEAD:
                        return self._again(session, known, request, then)
                    records.refuse_unsettled(records.Standing.after(session.latest("")), Verb.RESERVED, known)
                    for kind, orders in _unpriced(path, prices).items():
                        if (stated := price_at_once(request, kind, orders=orders)) is not None:
                            prices[kind] = stated
                    if not (unpriced := _unpriced(path, prices)):
                        headroom.refuse_unbearable(prices, path)
                        reserved = self._reservation(session, scope, key, request, path=path, prices=prices)
                        return self._open(session, reserved, known, path, then)
            except BudgetExceededError as refusal:
                raise headroom.explained(refusal, request, path, prices, self._pricing.repetitions) from None
            allowed = known is not None and known.waiver == waiver_of(request.to_json())
            prices |= {kind: self._pricing.price(request, kind, orders, allowed) for kind, orders in unpriced.items()}

    def _again(
        self,
        session: Session,
        known: records.ChargeRecord,
        request: Request,
        then: Mapping[Verb, Mapping[str, Any]],
    ) -> Charge:
        """The charge that a repeated key stands for."""
        opened = session.entry(known.opened)
        if opened.body["request"] != request.to_json():
            raise ConflictError(f"key {known.key!r} is taken by another request (entry {known.opened})")
        if known.state is State.CANCELLED:
            raise ConflictError(f"charge {known.key!r} is cancelled: take another key")
        if Verb.COMMITTED in then and known.state not in CLOSED:
            raise ConflictError(f"charge {known.key!r} is {known.state}: whoever reserved it starts and commits it")
        if Verb.HELD_UNTIL in then and not _held(session, known, then[Verb.HELD_UNTIL]):
            raise ConflictError(f"charge {known.key!r} is held until {known.until or 'it is given back'}")
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
        due = sorted(balances.measures(path).items())
        amounts = {kind: prices[kind].amounts.part(quantities) for kind, quantities in due}
        body = {"request": request.to_json(), "methods": {kind: prices[kind].method for kind, _ in due}}
        return self._entry(session.head(), Verb.RESERVED, scope, key, amounts=amounts, body=body)

    def _open(
        self,
        session: Session,
        reserved: Entry,
        known: records.ChargeRecord | None,
        path: list[Balance],
        then: Mapping[Verb, Mapping[str, Any]],
    ) -> Charge:
        """Writes a reservation and what comes then."""
        charge, path = records.advance(known, reserved), paths.along(path, reserved)
        rows = [Row.of(reserved)]
        for verb, body in then.items():
            amounts = reserved.amounts if RULES[verb].moves else {}
            entry = self._entry(
                rows[-1].head, verb, reserved.scope, reserved.key, amounts=amounts, body=body, time=reserved.time
            )
            path, charge = paths.along(path, entry), records.advance(charge, entry)
            rows.append(Row.of(entry))
        if self._by is not None and not any(any(cost.units.values()) for cost in reserved.amounts.values()):
            self._admit_free(self._by)
        session.append(*rows)
        session.put_balances(path)
        session.put_charge(charge)
        return Charge(self, reserved, replayed=False)

    def advance(self, key: str, verb: Verb, body: Mapping[str, Any], *, scope: str | None = None) -> None:
        """Writes one entry of a charge that exists; ``Charge`` has the verbs by name."""
        verb = check.one_of(LATER)(verb=verb)
        with self._store.writing() as session:
            charge = self._require_record(session, key, scope)
            if charge.state in AHEAD:
                raise ConflictError(f"charge {key!r} is {charge.state}: it must be reserved before it is {verb}")
            if any(_says(session, index, verb, body) for index in (charge.closed, charge.decommissioned)):
                return  # the same again
            if verb is Verb.ROUND_RELEASED and _is_released(session, charge.id, body):
                return
            held = charge.until if charge.state is State.RESERVED else None
            if verb is Verb.HELD_UNTIL and held is not None and held == body.get("until"):
                return
            records.refuse_unsettled(records.Standing.after(session.latest("")), verb, charge)
            amounts = charge.amounts if RULES[verb].moves else {}
            time = self._reserved_at(session, charge) if RULES[verb].untimed else None
            entry = self._entry(session.head(), verb, charge.scope, key, amounts=amounts, body=body, time=time)
            if RULES[verb].owned:
                self._require_owned(session.balances(scopes.ancestors(charge.scope)), entry)
            check_shape(entry)
            refuse_private(entry)
            last = session.last_round(charge.id) if verb in (Verb.COMMITTED, Verb.ROUND_STARTED) else None
            moved = records.advance(charge, entry, last=last)
            if RULES[verb].stage is not None:
                state = session.round(charge.id, body["round"])
                session.put_round(charge.id, records.advance_round(charge, state, entry, last=last))
            else:
                session.put_balances(paths.along(session.balances(scopes.ancestors(charge.scope)), entry))
                session.put_charge(moved)
            session.append(Row.of(entry))

    def _reserved_at(self, session: Session, charge: records.ChargeRecord) -> str:
        """When a charge was reserved; remembered, since a run asks at each of its rounds."""
        known = charge.id, charge.opened
        time = self._times.get(known)
        if time is None:
            if len(self._times) >= REMEMBERED:
                self._times.clear()
            time = self._times[known] = session.entry(charge.opened).time
        return time

    def expire(self, key: str, *, scope: str | None = None) -> None:
        """Gives back a reservation whose time is over and that has not started: anyone may, once its time has come."""
        self.advance(key, Verb.EXPIRED, {}, scope=scope)

    def revoke(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """An owner's act: gives back a reservation of somebody else's that has not started; see ``Charge.cancel``.

        Args:
            key: of the charge.
            by: who decides.
            reason: why, in words; kept for ever.
            scope: of the charge; None if only one scope has the key.
        """
        self.advance(key, Verb.REVOKED, {"by": by, "reason": reason}, scope=scope)

    def abandon(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """An owner's act: closes a charge that will never be committed, since its run is gone; it stays charged.

        One that is only reserved is written off: it is counted as spent.

        Args:
            key: of the charge.
            by: who decides.
            reason: why, in words; kept for ever.
            scope: of the charge; None if only one scope has the key.
        """
        with self._store.reading() as session:
            charge = self._require_record(session, key, scope)
            closing = None if charge.closed is None else session.entry(charge.closed).verb
        unstarted = charge.state is State.RESERVED or closing is Verb.WRITTEN_OFF
        verb = Verb.WRITTEN_OFF if unstarted else Verb.ABANDONED
        self.advance(key, verb, {"by": by, "reason": reason}, scope=charge.scope)

    def decommission(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """An owner's act: notes that what a charge released is out of use. It stays spent, for ever.

        Args:
            key: of the charge.
            by: who decides.
            reason: why, in words; kept for ever.
            scope: of the charge; None if only one scope has the key.
        """
        self.advance(key, Verb.DECOMMISSIONED, {"by": by, "reason": reason}, scope=scope)

    def _entry(
        self,
        head: tuple[int, str],
        verb: Verb,
        scope: str,
        key: str | None,
        *,
        body: Mapping[str, Any],
        amounts: Mapping[str, Amounts] | None = None,
        time: str | None = None,
    ) -> Entry:
        """The entry after a head, not written yet; at the time that is given, or now."""
        if self._by is not None and "by" in RULES[verb].may_say:
            body = {**body, "by": self._by}
        count, hashed = head
        if time is None:
            time = self._clock().astimezone(UTC).isoformat(timespec="microseconds")
        return Entry(count + 1, hashed, time, verb, scope, key, amounts or {}, body)

    def find(self, key: str, *, scope: str | None = None) -> Charge | None:
        """The charge with a key, if there is one."""
        entry = self._opening(key, scope)
        return None if entry is None else Charge(self, entry, replayed=True)


def _terms_of(session: Session, there: Balance) -> tuple[tuple[object, ...], ...]:
    """The terms of a budget as it is now, and as it was made: a repeat is one, whoever has changed the cap since."""
    rows = (row for row in session.rows(scope=there.scope) if row.scope == there.scope)
    made = next(entry for entry in map(parsed, rows) if entry.verb in paths.CREATING)
    return there.terms, balances.opened_balance(made, quota=there.quota).terms


def _unpriced(path: Sequence[Balance], prices: Mapping[str, Price]) -> dict[str, tuple[str, ...]]:
    """The kinds of budgets on a path that have no price yet, at all of their orders, with these."""
    return {
        kind: orders
        for kind, orders in headroom.orders_on(path).items()
        if kind not in prices or not prices[kind].values.keys() >= set(orders)
    }


def _limits(
    kind: str, caps: Mapping[str, Number], relation: NeighboringRelation, orders: Sequence[str] | None
) -> dict[str, dict[str, str]]:
    """What an entry says of the caps of a budget: all of its quantities, rounded down, and what they are to keep."""
    rule = filter_of(kind)
    if kind in promises.KINDS and set(caps) == promises.PROMISED and rule.by_order == (orders is not None):
        if orders is not None and not (rule.measures(orders) and len(set(orders)) == len(orders)):
            raise CheckError("orders", f"1 to {MOST_ORDERS}, each once", ", ".join(orders)[:200] or "none")
        promise = Amounts.capped({quantity: caps[quantity] for quantity in sorted(caps)})
        return {"caps": dict(promises.cap_of(kind, promise, relation, orders or ())), "promise": dict(promise)}
    if orders is not None or not rule.measures(caps):
        wanted = ", ".join(rule.quantities) or f"rdp_2 for order 2 and so on, 1 to {MOST_ORDERS} of them"
        if kind in promises.KINDS:
            wanted += " (or epsilon, delta, and orders)" if rule.by_order else " (or epsilon, delta)"
        given = ", ".join([*caps, *(() if orders is None else ("orders",))])
        raise ValueError(f"caps of a {kind} budget must be {wanted}, got {given or 'none'}")
    return {"caps": dict(Amounts.capped(caps))}


def _held(session: Session, charge: records.ChargeRecord, body: Mapping[str, Any]) -> bool:
    """Whether a reservation is held as is asked again, or was when it was made; that time may have been moved since."""
    if charge.until is None or charge.until == body["until"]:
        return charge.until is not None
    then = session.entry(charge.opened + 1)  # exists: whatever said until when is later than the reservation
    return (then.verb, then.charge_id, then.body) == (Verb.HELD_UNTIL, charge.id, body)


def _is_released(session: Session, name: ChargeId, body: Mapping[str, Any]) -> bool:
    """Whether a round has released this output: the same again is the same once, also after the charge was closed."""
    if type(body.get("round")) is not int:
        return False
    state = session.round(name, body["round"])
    return state is not None and state.output_hash is not None and state.output_hash == body.get("output_hash")


def _says(session: Session, index: int | None, verb: Verb, body: Mapping[str, Any]) -> bool:
    """Whether an entry that is there already says this."""
    if index is None:
        return False
    entry = session.entry(index)
    return (entry.verb, entry.body) == (verb, body)
