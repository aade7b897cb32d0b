"""What every ledger command is: a frozen dataclass, the table row of its verb, and one pure function that applies it.

A command reads nothing by itself: it is applied to an ``At``, the state of the ledger at one moment. ``apply`` returns
a ``Step`` or refuses. ``fold`` is the part that an entry determines alone, so the verification of a chain folds its
entries with the same code. HTTP routes, command line, client and reference are derived from the fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from inspect import cleandoc
from types import NoneType
from typing import (
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from epsilog.ledger import budget_path, charge_record, scopes
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.balances import Balance, list_cost_quantities
from epsilog.ledger.charge_record import ChargeRecord, RestoreState, RoundState
from epsilog.ledger.entries import Entry, Verb
from epsilog.ledger.fields import Arg
from epsilog.ledger.filters import get_privacy_filter
from epsilog.ledger.headroom import CostModel
from epsilog.ledger.transitions import TRANSITIONS, UNRESERVED_STATES, RoundStage, Transition
from epsilog.terms import BudgetExceededError, CheckError, ConflictError, PermissionDeniedError, check
from epsilog.terms.fields import document_fields

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator
    """``functools.cached_property`` without its lock, which threads would wait for and a fork could leave held."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work, self.__doc__ = work, work.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, _: type | None = None) -> T:
        found = vars(instance)[self._name] = self._work(instance)
        return found


BUDGET, CHARGE, RESERVATION, ENTIRE_LEDGER = "budget", "charge", "reservation", "ledger"  # the subject of a command
SPEND, OWN = "spend", "own"  # the required role
COMMANDS: dict[str, type[Command]] = {}
WRITERS: dict[Verb, type[Command]] = {}
"""Which command writes a verb."""


class Caller(NamedTuple):
    """Who gives a command.

    Attributes:
        actor: the caller's name, if known; recorded with the budgets, plans, costs and reservations that they make.
        covers: returns whether the caller may see the charges of a scope; all others are hidden.
        owns: returns whether the caller owns a scope, or for None the whole ledger.
        admit_free: called before a known caller opens a charge without cost, which no budget limits. It raises the
            refusal.
    """

    actor: str | None = None
    covers: Callable[[str], bool] = lambda _: True
    owns: Callable[[str | None], bool] = lambda _: True
    admit_free: Callable[[str], None] = lambda _: None


class Known(Protocol):
    """What an entry is folded onto."""

    @property
    def restore_state(self) -> RestoreState: ...  # noqa: D102 - whether the ledger was restored, and whether its owner has accepted that
    @property
    def path(self) -> Sequence[Balance]: ...  # noqa: D102 - the budgets at and above the scope, from the top
    @property
    def charge(self) -> ChargeRecord | None: ...  # noqa: D102 - the charge that is meant, if there is one
    @property
    def last(self) -> RoundState | None: ...  # noqa: D102 - the last round that it began
    @property
    def has_budgets(self) -> bool: ...  # noqa: D102 - whether a charge or a partition was ever made at or under the scope
    @property
    def has_children(self) -> bool: ...  # noqa: D102 - whether a budget was made under the scope

    def round(self, number: int) -> RoundState | None:
        """One round of the charge, if it began."""


class At(Known, Protocol):
    """What a command is applied to."""

    @property
    def head(self) -> tuple[int, str]: ...  # noqa: D102 - count of the entries, and hash of the last
    @property
    def now(self) -> str: ...  # noqa: D102 - the time that an entry notes
    @property
    def caller(self) -> Caller: ...  # noqa: D102 - who gives the command
    @property
    def prepared(self) -> Any: ...  # noqa: D102 - the result of ``Command.prepare``, if any

    def entry(self, index: int) -> Entry:
        """Return an entry that exists."""

    def reserved_at(self) -> str:
        """When the charge was reserved."""

    def overrider(self) -> str | None:
        """Return who allowed the cost of the charge, where it is overridden; None without a name."""

    def creation_entry(self) -> Entry:
        """Return the entry that made the last budget of the path."""


class Step(NamedTuple):
    """What an entry does.

    Attributes:
        entry: what is written; None where the same was done before.
        charge: the charge afterwards.
        path: the budgets on the path afterwards, from the top.
        round: the round afterwards.
        standing: of the ledger afterwards, where the entry is of the whole of it.
    """

    entry: Entry | None
    charge: ChargeRecord | None = None
    path: Sequence[Balance] = ()
    round: RoundState | None = None
    restore_state: RestoreState | None = None


class DescribedFields(NamedTuple):
    """A field: its type, what is said of it, and the rule for a value that is not None, made once."""

    kind: Any
    arg: Arg
    rule: check.Validator[Any]
    nullable: bool

    @classmethod
    def of(cls, hint: Any) -> Self:
        """Read an annotation."""
        kind, arg, *_ = get_args(hint) or (hint, None)
        if not isinstance(arg, Arg):
            raise TypeError(f"a field of a command is described by an Arg, got {hint!r}")
        stated = tuple(part for part in get_args(kind) if part is not NoneType)
        nullable = NoneType in get_args(kind)
        return cls(kind, arg, arg.rule(stated[0] if nullable and len(stated) == 1 else kind), nullable)

    def check_value(self, name: str, value: Any) -> Any:
        """A value as a command keeps it."""
        if value is None and self.nullable:
            return None
        return self.rule.apply(name, value)

    def require_spelled(self, name: str, value: Any) -> None:
        """Require a value as entries spell it."""
        if self.arg.write(self.check_value(name, self.arg.read(value))) != value:
            raise CheckError(name, "spelled as the ledger spells it", repr(value)[:1000])


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Command(ABC):
    """An act on the ledger: a frozen dataclass of described fields.

    A subclass has a name and the columns of ``Transition`` as class keywords. It may define ``body``, ``amounts``,
    ``prepare``, and how it recognizes a repeated command.
    """

    name: ClassVar[str]
    verb: ClassVar[Verb]
    role: ClassVar[str]
    subject: ClassVar[str]
    description: ClassVar[str]  # the docstring as it is written, for help and API
    args: ClassVar[Mapping[str, DescribedFields]]  # its fields
    stored: ClassVar[Mapping[str, DescribedFields]]  # what the body of its entry names
    may_store: ClassVar[Mapping[str, DescribedFields]]  # what it may name besides
    repeatable: ClassVar[bool]  # whether a client says it again where an answer was lost
    own_charge: ClassVar[bool]  # whether it is for the maker of the charge, and for owners

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        verb: str = "",
        role: str = SPEND,
        subject: str = "",
        stored: Mapping[str, Any] | None = None,
        may_store: Mapping[str, Any] | None = None,
        repeatable: bool = True,
        own_charge: bool = True,
        variants: Mapping[Verb, Mapping[str, Any]] | None = None,
        **row: Any,
    ) -> None:
        cls.description = cleandoc(cls.__doc__ or "")
        document_fields(dataclass(frozen=True, kw_only=True)(cls))
        cls.subject = subject or getattr(cls, "subject", "")
        hints = get_type_hints(cls, include_extras=True)
        cls.args = {one.name: DescribedFields.of(hints[one.name]) for one in fields(cls)}  # type: ignore[arg-type]
        if not name:
            return
        cls.name, cls.role, cls.repeatable, cls.own_charge = name, role, repeatable, own_charge
        COMMANDS[name] = cls
        cls.verb = Verb.of(verb)
        found = {one: arg for one, arg in cls.args.items() if one not in ("scope", "key")}
        cls.stored = found if stored is None else {one: DescribedFields.of(hint) for one, hint in stored.items()}
        cls.may_store = {one: DescribedFields.of(hint) for one, hint in (may_store or {}).items()}
        defaults = {"owned": role == OWN, "ledger_wide": cls.subject == ENTIRE_LEDGER}
        for one, changed in {cls.verb: {}, **(variants or {})}.items():
            TRANSITIONS.setdefault(one, Transition(**{**defaults, **row, **changed}))
            WRITERS.setdefault(one, cls)

    def __post_init__(self) -> None:
        for name, one in self.args.items():
            value = getattr(self, name)
            if not (value is None and one.nullable):
                object.__setattr__(self, name, one.rule.apply(name, value))

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what ``to_json`` wrote; a field that is left out has its default."""
        if unknown := document.keys() - cls.args.keys():
            raise CheckError("fields", f"some of {', '.join(cls.args)}", ", ".join(sorted(unknown))[:200])
        for one in fields(cls):  # type: ignore[arg-type]
            if one.name not in document and one.default is MISSING and one.default_factory is MISSING:
                raise CheckError(one.name, "given", "nothing")
        return cls(**{name: cls.args[name].arg.read(value) for name, value in document.items()})

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain JSON values."""
        return {name: one.arg.write(getattr(self, name)) for name, one in self.args.items()}

    def verb_at(self, at: At) -> Verb:  # noqa: ARG002
        """Return what its entry does."""
        return self.verb

    @abstractmethod
    def scope_at(self, at: At) -> str:
        """Return the scope of its entry."""

    def key_of_charge(self) -> str | None:
        """Return the key of its entry."""
        return getattr(self, "key", None)

    def body(self, at: At) -> dict[str, Any]:  # noqa: ARG002
        """Return the body of its entry: by default the fields that are neither scope nor key."""
        return {name: one.arg.write(getattr(self, name)) for name, one in self.stored.items()}

    def amounts(self, at: At) -> Mapping[str, Amounts]:  # noqa: ARG002
        """Return the amounts of its entry, by kind of budget."""
        return {}

    def was_done(self, at: At) -> bool:  # noqa: ARG002
        """Return whether the same was done before: then nothing is written, whatever the rules say by now."""
        return False

    def prepare(self, at: At) -> Callable[[CostModel], Any] | None:  # noqa: ARG002
        """Return the computation needed before it can be applied, outside of any transaction, or None."""
        return None

    def at_once(self) -> bool:
        """Return whether the command itself shows that no computation will be needed."""
        return True

    def then(self) -> Sequence[Command]:
        """Return what is done besides, in the same transaction."""
        return ()

    def explain_refusal(self, refusal: BudgetExceededError, at: At, cost_model: CostModel) -> BudgetExceededError:  # noqa: ARG002
        """A refusal with what would fit instead."""
        return refusal

    @classmethod  # noqa: B027 - most have nothing to check
    def check_body(cls, body: Mapping[str, Any]) -> None:
        """Check what concerns several fields of a stored body at once."""

    def entry(self, at: At) -> Entry:
        """Return the entry that it writes."""
        return self.build_entry(at, self.amounts(at), self.body(at))

    def build_entry(self, at: At, amounts: Mapping[str, Amounts], body: dict[str, Any]) -> Entry:
        """Return the entry with these amounts and this body."""
        verb = self.verb_at(at)
        if at.caller.actor is not None and "actor" in WRITERS[verb].may_store:
            body["actor"] = at.caller.actor
        time = at.reserved_at() if TRANSITIONS[verb].untimed else at.now
        count, head = at.head
        return Entry(count + 1, head, time, verb, self.scope_at(at), self.key_of_charge(), amounts, body)


class LedgerWideCommand(Command, subject=ENTIRE_LEDGER):
    """An act on the whole ledger."""

    def scope_at(self, at: At) -> str:  # noqa: ARG002, D102
        return ""


def require_reserved(at: At, key: str, scope: str | None, verb: Verb) -> ChargeRecord:
    """Return the charge that a command is about, which must be reserved."""
    if at.charge is None:
        where = "" if scope is None else f" at {scope!r}"
        raise ConflictError(f"key must be that of a charge{where}, got {key!r}")
    if at.charge.state in UNRESERVED_STATES:
        raise ConflictError(f"charge {key!r} is {at.charge.state}: it must be reserved before it is {verb}")
    return at.charge


def apply(command: Command, at: At) -> Step:
    """Return the effect of a command: the entry and the resulting state; or a refusal."""
    require_own(command, at)
    if command.was_done(at):
        return Step(None, at.charge)
    if command.subject != ENTIRE_LEDGER:
        charge_record.refuse_until_accepted(at.restore_state, command.verb_at(at), at.charge)
    entry = command.entry(at)
    if not TRANSITIONS[entry.verb].opens:  # what it asks was checked when it was asked
        check_entry(entry)
    _require_owned(at, entry)
    return fold(entry, at)


def fold(entry: Entry, known: Known) -> Step:
    """Return what an entry of the right form does to what is known before it; or why the rules refuse it."""
    rule = TRANSITIONS[entry.verb]
    if rule.ledger_wide:
        return Step(entry, restore_state=charge_record.apply_restore(known.restore_state, entry))
    charge_record.refuse_until_accepted(known.restore_state, entry.verb, known.charge)
    if entry.key is None:
        return Step(entry, path=_of_budget(entry, known))
    if rule.stage is not None:  # of a charge that has started: no budget changes
        charge = charge_record.apply_to_charge(known.charge, entry)
        state = known.round(entry.body["round"])
        last = known.last if state is None else None
        return Step(entry, charge, round=charge_record.apply_to_round(charge, state, entry, last=last))
    path = known.path
    scopes.require_budget(entry.scope, path)
    charge = charge_record.apply_to_charge(
        known.charge, entry, last=known.last if rule.rounds != tuple(RoundStage) else None
    )
    after = budget_path.apply_along_path(path, entry)
    if rule.reserves:
        _require_due(entry, path)
    if rule.allows_release:
        budget_path.require_approvals(path, charge.key, charge.approvals or ())
    if entry.verb is Verb.APPROVED and not budget_path.count_required_approvals(path):
        raise ConflictError(f"no budget at or above {entry.scope!r} requires approvals")
    return Step(entry, charge, after)


def _of_budget(entry: Entry, known: Known) -> list[Balance]:
    path = known.path
    exists = bool(path) and path[-1].scope == entry.scope
    if entry.verb is Verb.PARTITION_DECLARED:
        scopes.refuse_late_partition(entry.scope, exists=exists, populated=known.has_budgets or known.has_children)
    elif entry.verb in budget_path.CREATION_VERBS:
        scopes.refuse_late_budget(entry.scope, exists=exists, populated=known.has_budgets)
    elif not exists:
        scopes.require_budget(entry.scope, path)
        raise ConflictError(f"scope {entry.scope!r} has no budget")
    return budget_path.apply_along_path(path, entry)


def _require_due(entry: Entry, path: Sequence[Balance]) -> None:
    """A reservation is charged in all that the budgets on its path sum, and in nothing else."""
    due = list_cost_quantities(path)
    given = {kind: tuple(amount) for kind, amount in entry.amounts.items()}
    if given != due or set(entry.body["methods"]) != set(due):
        raise ValueError(f"must be charged as {due}, got {given}")


def check_entry(entry: Entry) -> None:
    """Require the form that the command of an entry's verb writes; anything else is a ``ValueError``."""
    rule, writer = TRANSITIONS[entry.verb], WRITERS[entry.verb]
    if not writer.stored.keys() <= entry.body.keys() <= writer.stored.keys() | writer.may_store.keys():
        raise ValueError(f"body of {entry.verb} must name {sorted(writer.stored)}, got {sorted(entry.body)}")
    if (entry.scope == "") != rule.ledger_wide:
        raise ValueError(
            f"scope of {entry.verb} must be {'blank' if rule.ledger_wide else 'named'}, got {entry.scope!r}"
        )
    if (entry.key is not None) != bool(rule.from_states):
        raise ValueError(f"key of {entry.verb} must be that of a charge, got {entry.key!r}")
    if entry.key is not None:
        scopes.require_idempotency_key(entry.key)
    if bool(entry.amounts) != rule.changes_balance:
        raise ValueError(f"amounts of {entry.verb} must be there if a balance changes, got {dict(entry.amounts)}")
    for kind, amount in entry.amounts.items():
        require_measured(kind, amount)
    for name, value in entry.body.items():
        (writer.stored.get(name) or writer.may_store[name]).require_spelled(name, value)
    writer.check_body(entry.body)


def require_measured(kind: str, amounts: Mapping[str, Any]) -> None:
    """Require the quantities of a kind of budget."""
    rule = get_privacy_filter(kind)
    if not rule.measures(amounts):
        wanted = "of orders" if rule.by_order else f"of {rule.quantities}"
        raise ValueError(f"a {kind} amount must be {wanted}, got {sorted(amounts)}")


def require_own(command: Command, at: At) -> None:
    """Refuse access to another caller's charge, except for owners of its scope.

    Starting another caller's charge would release nothing for it, and continuing it might release twice for one cost.
    """
    caller = at.caller
    if not command.own_charge or caller.actor is None or (charge := at.charge) is None:
        return
    if charge.actor not in (None, caller.actor) and not caller.owns(charge.scope):
        raise PermissionDeniedError(
            f"charge {charge.key!r} belongs to {charge.actor!r}: only they, or an owner of {charge.scope!r}, may "
            "continue it"
        )


def _require_owned(at: At, entry: Entry) -> None:
    """Refuse an act by a caller who does not own all that it changes; see ``list_owned_scopes``."""
    rule = TRANSITIONS[entry.verb]
    if not rule.owned:
        return
    if rule.ledger_wide:
        if not at.caller.owns(None):
            raise PermissionDeniedError(f"{entry.verb} concerns the whole ledger and requires its owner")
        return
    for scope in budget_path.list_owned_scopes(at.path, entry):
        if not at.caller.owns(scope):
            why = "" if scope == entry.scope else f" changes the counted amount of the budget of {scope!r} and"
            raise PermissionDeniedError(f"{entry.verb} at {entry.scope!r}{why} requires an owner of {scope!r}")
