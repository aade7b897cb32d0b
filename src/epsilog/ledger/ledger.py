"""The ledger: each command of ``commands`` as a typed method, wherever the ledger is kept.

Each is one transaction, which writes all that the command does or nothing. What has started is spent for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime

from epsilog.ledger import commands
from epsilog.ledger.amounts import Number
from epsilog.ledger.balances import Balance
from epsilog.ledger.charge import Charge
from epsilog.ledger.commands import Caller, Command
from epsilog.ledger.execute import Done, Local
from epsilog.ledger.headroom import HERE, Pricing
from epsilog.ledger.store import Store
from epsilog.ledger.view import LedgerView, Served
from epsilog.mechanisms import Release
from epsilog.terms import AccessError, NeighboringRelation, check

ANYBODY = Caller()


def utc_now() -> datetime:
    """The time that entries note."""
    return datetime.now(UTC)


class Ledger(LedgerView):
    """An append-only, hash-chained ledger of privacy budgets. Use it as a context manager, or ``close`` it.

    ``open_ledger`` opens one, here or at a server. At a server each command may also raise an ``UnansweredError``: no
    answer came, and what was asked may stand or not. The ledger knows: ``find`` the charge, or ask again with the same
    key.

    Args:
        store: where it is kept, or the server that keeps it; closed with the ledger.
        clock: tells the time that entries note; order never depends on it.
        pricing: works prices out.
        caller: who gives the commands; a server knows them by their token.
    """

    def __init__(
        self,
        store: Store | Served,
        *,
        clock: Callable[[], datetime] = utc_now,
        pricing: Pricing = HERE,
        caller: Caller = ANYBODY,
    ) -> None:
        super().__init__(store, covers=caller.covers)
        self._caller = caller
        self._local = None if isinstance(store, Served) else Local(store, clock=clock, pricing=pricing)

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
        if self._served is not None:
            raise AccessError("a server knows who asks by their token: open the ledger with that")
        found = copy(self)
        found._caller = self._caller._replace(by=by, covers=covers, owns=owns)
        found._covers = covers
        return found

    def execute(self, command: Command) -> Done:
        """Carries out a command, durably and once, or refuses it."""
        if self._served is not None:
            return self._served.execute(command)
        assert self._local is not None, "it is kept here or by a server"
        return self._local.execute(command, self._caller)

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
        return self._budget(
            commands.CreateBudget(
                scope=scope,
                kind=kind,
                caps=caps,
                relation=relation,
                privacy_unit=privacy_unit,
                simulation=simulation,
                quota=quota,
                orders=orders,
            )
        )

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
        return self._budget(commands.DeclarePartition(scope=scope, caps=caps, by=by, reason=reason))

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
        return self._budget(commands.ChangeCap(scope=scope, caps=caps, by=by, reason=reason))

    def retire(self, scope: str, *, by: str, reason: str) -> Balance:
        """An owner's act: from here on nothing new is charged at or under a scope, ever.

        What runs may end. What is reserved no longer starts; it can be given back.

        Args:
            scope: one that has a budget.
            by: who decides.
            reason: why, in words; kept for ever.
        """
        return self._budget(commands.Retire(scope=scope, by=by, reason=reason))

    def mark_restored(self, *, by: str, reason: str) -> None:
        """Notes that this ledger came out of a backup: nothing happens in it until an owner accepts that.

        Args:
            by: who put it back.
            reason: why, in words; kept for ever.
        """
        self.execute(commands.MarkRestored(by=by, reason=reason))

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
        self.execute(commands.AcceptRestored(by=by, reason=reason))

    def register_plan(self, scope: str, plan_hash: str, *, key: str) -> None:
        """Notes a plan before anything is reserved for it: this key of the scope is then for this plan.

        Args:
            scope: where it will be charged.
            plan_hash: SHA-256 of the plan.
            key: of the charge that will pay for it.

        Raises:
            ConflictError: the key is known for something else in this scope.
        """
        self.execute(commands.RegisterPlan(scope=scope, key=key, plan_hash=plan_hash))

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
        return self._charge(
            commands.Reserve(
                scope=scope,
                key=key,
                release=release,
                relation=relation,
                privacy_unit=privacy_unit,
                delta=delta,
                amount=amount,
                plan_hash=plan_hash,
                rounds=rounds,
                simulation=simulation,
                until=until,
            )
        )

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
        return self._charge(
            commands.ChargeAtOnce(
                scope=scope,
                key=key,
                release=release,
                relation=relation,
                privacy_unit=privacy_unit,
                delta=delta,
                amount=amount,
                simulation=simulation,
            )
        )

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
        self.execute(
            commands.OverridePrice(
                scope=scope,
                key=key,
                release=release,
                relation=relation,
                privacy_unit=privacy_unit,
                amount=amount,
                reason=reason,
                plan_hash=plan_hash,
                rounds=rounds,
                simulation=simulation,
            )
        )

    def expire(self, key: str, *, scope: str | None = None) -> None:
        """Gives back a reservation whose time is over and that has not started: anyone may, once its time has come."""
        self.execute(commands.Expire(key=key, scope=scope))

    def revoke(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """An owner's act: gives back a reservation of somebody else's that has not started; see ``Charge.cancel``.

        Args:
            key: of the charge.
            by: who decides.
            reason: why, in words; kept for ever.
            scope: of the charge; None if only one scope has the key.
        """
        self.execute(commands.Revoke(key=key, scope=scope, by=by, reason=reason))

    def abandon(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """An owner's act: closes a charge that will never be committed, since its run is gone; it stays charged.

        One that is only reserved is written off: it is counted as spent.

        Args:
            key: of the charge.
            by: who decides.
            reason: why, in words; kept for ever.
            scope: of the charge; None if only one scope has the key.
        """
        self.execute(commands.Abandon(key=key, scope=scope, by=by, reason=reason))

    def decommission(self, key: str, *, by: str, reason: str, scope: str | None = None) -> None:
        """An owner's act: notes that what a charge released is out of use. It stays spent, for ever.

        Args:
            key: of the charge.
            by: who decides.
            reason: why, in words; kept for ever.
            scope: of the charge; None if only one scope has the key.
        """
        self.execute(commands.Decommission(key=key, scope=scope, by=by, reason=reason))

    def find(self, key: str, *, scope: str | None = None) -> Charge | None:
        """The charge with a key, if there is one that the caller may see."""
        entry = self._opening(key, scope)
        return None if entry is None else Charge(self, entry, replayed=True)

    def _budget(self, command: Command) -> Balance:
        done = self.execute(command)
        assert done.balance is not None, "it is about a budget"
        return done.balance

    def _charge(self, command: Command) -> Charge:
        done = self.execute(command)
        assert done.reserved is not None, "it reserves a charge"
        return Charge(self, done.reserved, replayed=done.replayed)
