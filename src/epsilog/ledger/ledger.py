"""The ledger: each command of ``commands`` as a typed method, wherever the ledger is kept.

Each is one transaction, which writes all that the command does or nothing. What has started is spent for ever.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from epsilog.ledger import commands
from epsilog.ledger.amounts import Number
from epsilog.ledger.balances import Balance
from epsilog.ledger.commands import Command
from epsilog.ledger.commands.base import Caller
from epsilog.ledger.entries import Entry
from epsilog.ledger.execute import Done, Local
from epsilog.ledger.headroom import HERE, CostModel
from epsilog.ledger.store import Store
from epsilog.ledger.view import ChargeView, LedgerView, Served
from epsilog.terms import NeighboringRelation, PermissionDeniedError, check

ANYBODY = Caller()
P = ParamSpec("P")
T = TypeVar("T")


def get_utc_now() -> datetime:
    """Return the time that entries note."""
    return datetime.now(UTC)


def _return_none(_: Ledger, __: Done) -> None:
    return None


def _budget(_: Ledger, done: Done) -> Balance:
    assert done.balance is not None, "it is about a budget"
    return done.balance


def _charge(ledger: Ledger, done: Done) -> Charge:
    assert done.reserved is not None, "it reserves a charge"
    return Charge(ledger, done.reserved, replayed=done.replayed)


def _method(kind: Callable[P, Command], result: Callable[[Ledger, Done], T]) -> Callable[Concatenate[Ledger, P], T]:
    """Return the method that gives a command, with the arguments and the description of the command."""

    def method(ledger: Ledger, /, *args: P.args, **named: P.kwargs) -> T:
        return result(ledger, ledger.execute(kind(*args, **named)))

    command: Any = kind
    own, stated = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), inspect.signature(method)
    method.__signature__ = stated.replace(  # type: ignore[attr-defined]
        parameters=[own, *inspect.signature(kind).parameters.values()],
        return_annotation=inspect.signature(result).return_annotation,
    )
    helps = {name: (one.arg.help, one.arg.none_means) for name, one in command.args.items()}
    lines = (f"    {name}: {text}{none and f'; None: {none}'}." for name, (text, none) in helps.items())
    method.__doc__ = "\n".join([command.description.partition("\n\nExample:")[0], "", "Args:", *lines])
    return method


class Ledger(LedgerView):
    """An append-only, hash-chained ledger of privacy budgets. Use it as a context manager, or ``close`` it.

    ``open_ledger`` opens one, here or at a server. At a server each command may also raise an ``OutcomeUnknownError``:
    no answer came, and what was asked may stand or not. The ledger knows: ``find`` the charge, or ask again with the
    same key.

    Args:
        store: where it is kept, or the server that keeps it; closed with the ledger.
        clock: returns the time for entries; order never depends on it.
        cost_model: computes costs.
        caller: who gives the commands; a server knows them by their token.
    """

    def __init__(
        self,
        store: Store | Served,
        *,
        clock: Callable[[], datetime] = get_utc_now,
        cost_model: CostModel = HERE,
        caller: Caller = ANYBODY,
    ) -> None:
        super().__init__(store, covers=caller.covers)
        self._caller = caller
        self._local = None if isinstance(store, Served) else Local(store, clock=clock, cost_model=cost_model)

    def on_behalf_of(
        self,
        actor: str,
        *,
        covers: Callable[[str], bool] = lambda _: True,
        owns: Callable[[str | None], bool] = lambda _: True,
    ) -> Ledger:
        """Return the same ledger for a named caller; it closes with this one.

        Args:
            actor: their name.
            covers: returns whether the caller may see the charges of a scope; all others are hidden.
            owns: returns whether the caller owns a scope, or for None the whole ledger. An act that needs another owner
                raises ``PermissionDeniedError``.
        """
        actor = check.text()(actor=actor)
        if self._served is not None:
            raise PermissionDeniedError("a server knows who asks by their token: open the ledger with that")
        found = copy(self)
        found._caller = self._caller._replace(actor=actor, covers=covers, owns=owns)
        found._covers = covers
        return found

    def execute(self, command: Command) -> Done:
        """Carry out a command, durably and once, or refuses it."""
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
        requires_certificate: bool = False,
        requires_approvals: int = 0,
        requires_child_budget: bool = False,
        valid_from: datetime | str | None = None,
        valid_until: datetime | str | None = None,
        **caps: Number,
    ) -> Balance:
        """Set the cap of a scope, once and before any charge at or under it; the same again changes nothing.

        Args:
            scope: names joined by ``/``.
            kind: ``pure`` (epsilon), ``approximate`` (epsilon, delta), ``zcdp`` (rho), ``gdp`` (mu_squared) or ``rdp``
                (``rdp_2`` at Renyi order 2, ``rdp_8`` at 8, and so on: the orders that are named here).
            relation: the neighboring relation of everything charged to it.
            privacy_unit: what one neighbor differs in; None leaves it unsaid.
            simulation: takes charges of simulations, and those only.
            quota: whether the nearest budget above sets this cap aside as a share that others under it cannot use.
            orders: Renyi orders of an rdp budget that promises epsilon and delta; None for every other budget.
            requires_certificate: refuses each charge at or under it without a certificate of its release.
            requires_approvals: how many owners must ``approve`` each charge at or under it before it may start, 0 to 9.
            requires_child_budget: refuses each charge at or under it that no budget below it counts.
            valid_from: from when charges may be made or reserved, with an offset from UTC; None for any time before.
            valid_until: until when they may; None for ever. A reservation made before may still start.
            **caps: one for each quantity of the kind, rounded down to whole units. Or, for a zcdp, gdp or rdp budget,
                its promise: epsilon and delta, and its caps are the largest that keep these.

        Raises:
            BudgetExceededError: the quota exceeds what is available in the budget above, or the block its partition's
                cap.
            ConflictError: the scope has another budget, or charges already; or it is under a retired one, or under a
                partition and is not a block in its terms.
        """
        made = commands.CreateBudget(
            scope,
            kind=kind,
            caps=caps,
            relation=relation,
            privacy_unit=privacy_unit,
            simulation=simulation,
            quota=quota,
            orders=orders,
            requires_certificate=requires_certificate,
            requires_approvals=requires_approvals,
            requires_child_budget=requires_child_budget,
            valid_from=valid_from,
            valid_until=valid_until,
        )
        return _budget(self, self.execute(made))

    def declare_partition(self, scope: str, *, actor: str, reason: str, **caps: Number) -> Balance:
        """Declare, as an owner, disjoint blocks below a scope; the budgets above count one of them, now.

        A block is a budget directly below, made with ``create_budget`` in the same terms and within these caps. A
        charge in a block counts in that block alone. The entry states three facts. Each privacy unit is in one block.
        The assignment is public, fixed before any release there, and depends on that unit alone. A release under a
        block reads that block alone. A release that reads several blocks is charged above the partition. Repeating the
        same call changes nothing.

        Args:
            scope: under a budget with the partition's kind, relation, privacy unit and simulation. No budget or charge
                may exist at or under it yet.
            actor: who states that.
            reason: why it is so, in words; kept for ever.
            **caps: the most that any one block may cost, in the quantities of the kind. All budgets above spend it at
                once, up to the block of a partition around this one; it never comes back, and ``set_cap`` raises it.

        Raises:
            BudgetExceededError: a budget above cannot cover a block.
            ConflictError: the budgets above are of more than one kind; or there are charges or budgets here already.
            CheckError: neighbors replace one unit by another, or the budget above states no privacy unit.
        """
        return _budget(self, self.execute(commands.DeclarePartition(scope, caps=caps, actor=actor, reason=reason)))

    def set_cap(self, scope: str, *, actor: str, reason: str, **caps: Number) -> Balance:
        """Return an owner's act: sets another cap, higher or lower. What is spent or promised stays so.

        Below the sum already counted, a cap refuses every further charge. A higher cap is the promise from then on. An
        owner who chooses it after seeing results promises no more than the highest cap that could have come.

        The cap of a partition only rises: the budgets above count the difference, and never get it back.

        Args:
            scope: one that has a budget.
            actor: who decides.
            reason: why, in words; kept for ever.
            **caps: all of the budget's quantities; or the epsilon and delta that it is to promise, as it was made.

        Raises:
            BudgetExceededError: the quota or partition exceeds what is available above, or the block the cap of its
                partition.
            ConflictError: the scope is retired; a partition's cap that is lowered.
        """
        return _budget(self, self.execute(commands.SetCap(scope, caps=caps, actor=actor, reason=reason)))

    def approve_cap(
        self, scope: str, *, actor: str, reason: str, until: datetime | None = None, **caps: Number
    ) -> Balance:
        """Return an owner's act: approves another cap, where a budget at or above the scope requires approvals.

        A cap rises there only once as many other owners have approved exactly this cap. An approval of another cap
        replaces those of the present one.

        Args:
            scope: one that has a budget.
            actor: who approves; at a server the holder of the token, whatever this says.
            reason: why, in words; kept for ever.
            until: when the approval expires, with an offset from UTC; None is seven days from now.
            **caps: as for ``set_cap``.

        Raises:
            ConflictError: no budget requires approvals, or the scope is retired.
        """
        return _budget(
            self, self.execute(commands.ApproveCap(scope, caps=caps, actor=actor, reason=reason, until=until))
        )

    retire = _method(commands.Retire, _budget)
    mark_restored = _method(commands.MarkRestored, _return_none)
    accept_restored = _method(commands.AcceptRestored, _return_none)
    register_plan = _method(commands.RegisterPlan, _return_none)
    reserve = _method(commands.Reserve, _charge)
    charge = _method(commands.ChargeAtOnce, _charge)
    override_cost = _method(commands.OverrideCost, _return_none)
    expire = _method(commands.Expire, _return_none)
    approve = _method(commands.Approve, _return_none)
    revoke = _method(commands.Revoke, _return_none)
    abandon = _method(commands.Abandon, _return_none)
    decommission = _method(commands.Decommission, _return_none)

    def execute_many(self, charges: Sequence[commands.ChargeAtOnce], *, atomic: bool) -> list[Done | Exception]:
        """Carry out charges in one transaction; see ``charge_many``."""
        if self._served is not None:
            return self._served.charge_many(charges, atomic=atomic)
        assert self._local is not None, "it is kept here or by a server"
        return self._local.execute_many(charges, self._caller, atomic=atomic)

    def is_repeat(self, command: Command) -> bool:
        """Return whether a command repeats a charge of this caller that this process has seen accepted."""
        return self._local is not None and self._local.is_repeat(command, self._caller)

    @staticmethod
    def repeat_many(asked: Sequence[tuple[Ledger, Command]]) -> list[Done | None]:
        """Charge what repeats accepted charges in one transaction, for several callers of one ledger.

        Args:
            asked: at least one command, each with the ledger of its caller.

        Returns:
            None for each command that was not carried out, since only ``execute`` can tell.
        """
        local = asked[0][0]._local
        assert local is not None, "it is kept here"
        return local.repeat_many([(command, ledger._caller) for ledger, command in asked])

    def charge_many(self, charges: Sequence[commands.ChargeAtOnce], *, atomic: bool = True) -> list[Charge | Exception]:
        """Charge several releases in one transaction, by one durable write; run it before the releases.

        Each charge sees those before it. The same release at several scopes is several charges, all of which stand or
        none. To repeat the batch changes nothing: each key gives its charge again.

        Args:
            charges: at most 1,000.
            atomic: whether one refusal undoes the batch; else each charge stands for itself.

        Returns:
            The charge of each, in order; without ``atomic`` the error of each that was refused.

        Raises:
            BatchRefusedError: with ``atomic``: one was refused, and nothing was charged.

        Example:
            >>> import tempfile, epsilog as ep
            >>> from epsilog.ledger import open_ledger
            >>> from epsilog.ledger.commands import ChargeAtOnce
            >>> with tempfile.TemporaryDirectory() as folder, open_ledger(f"{folder}/ledger.db") as ledger:
            ...     _ = ledger.create_budget("acme", kind="pure", epsilon="1")
            ...     questions = [ChargeAtOnce("acme/visits", ep.PureDP(0.1), key=f"visits-{n}") for n in range(3)]
            ...     charges = ledger.charge_many(questions)
            ...     print(len(charges), ledger.balance("acme").available["epsilon"])
            3 0.7
        """
        atomic = check.boolean()(atomic=atomic)
        batch = [check.instance_of(commands.ChargeAtOnce)(charges=one) for one in charges]
        found = self.execute_many(batch, atomic=atomic)
        return [one if isinstance(one, Exception) else _charge(self, one) for one in found]

    def find(self, key: str, *, scope: str | None = None) -> Charge | None:
        """Return the charge with a key, if there is one that the caller may see."""
        entry = self._opening(key, scope)
        return None if entry is None else Charge(self, entry, replayed=True)


class Charge(ChargeView):
    """A handle of a charge: what its owner does next.

    Attributes:
        replayed: whether the key was known already, so that nothing new was charged: what it released must be looked
            up, not released again.
    """

    _charges: Ledger

    def __init__(self, charges: Ledger, entry: Entry, *, replayed: bool) -> None:
        super().__init__(charges, entry)
        self.replayed = replayed

    def start(self) -> None:
        """Spend the amount, for ever; called before data is first touched.

        Raises:
            ConflictError: it has started before. To resume a run, read ``state`` and do not start again.
        """
        self._charges.execute(commands.Start(self.key, scope=self.scope))

    def round_started(self, number: int) -> None:
        """Notes that a round begins; it may begin again as long as nothing of it was released."""
        self._charges.execute(commands.StartRound(self.key, scope=self.scope, round=number))

    def round_released(self, number: int, *, output_hash: str) -> None:
        """Notes what a round is about to release; called before it leaves the process. Twice the same is once."""
        released = commands.ReleaseRound(self.key, scope=self.scope, round=number, output_hash=output_hash)
        self._charges.execute(released)

    def commit(self, evidence: Mapping[str, str] | None = None) -> None:
        """Close a started charge; ``evidence`` names SHA-256 values. Twice the same is once."""
        self._charges.execute(commands.Commit(self.key, scope=self.scope, evidence=evidence or {}))

    def hold(self, until: datetime) -> None:
        """Set the time from which anyone may cancel the reservation if it has not started; the last call counts."""
        self._charges.execute(commands.Hold(self.key, scope=self.scope, until=until))

    def cancel(self, reason: str) -> None:
        """Cancel a reservation that never started. Repeating it changes nothing."""
        self._charges.execute(commands.Cancel(self.key, scope=self.scope, reason=reason))
