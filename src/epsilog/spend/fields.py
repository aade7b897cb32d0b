"""The fields of ledger commands: what each means, how it is checked, and how it is spelled in JSON.

An annotation such as ``Key`` is used by the command, by the request that it stores, and by the check of its entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import Annotated, Any, get_args

from epsilog.mechanisms import Release
from epsilog.spend.amounts import MOST_ORDERS, Amounts, Number, rdp_quantity
from epsilog.spend.entries import sha256
from epsilog.spend.scopes import ancestors, check_key
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.codec import UNREADABLE, from_json, to_json
from epsilog.terms.fields import Field


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of a field are checked, and spelled in JSON.

    Attributes:
        check: turns a named value into what a command keeps, or says why not.
        write: its JSON.
        read: turns JSON into what ``check`` takes.
        json: the type of its JSON, where that is not the type of the field.
    """

    check: Callable[[str, Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value
    json: Any = None


@dataclass(frozen=True, slots=True)
class Arg(Field):
    """A field of a command.

    Attributes:
        kind: how it is checked and spelled, where its type does not say so.
        positional: whether a command line gives it by its place.
        most: the most characters of a text, or items of a list or object, that a server takes; 0 for any number.
        example: a value in JSON.
    """

    kind: Kind | None = None
    positional: bool = False
    most: int = 2000
    example: Any = None

    def rule(self, kind: Any, most: float | None = None) -> check.Rule[Any]:
        """The rule for a value of ``kind``."""
        if self.kind is None:
            return Field.rule(self, kind, most)
        rule = check.Rule(self.kind.check)
        return check.optional(rule) if NoneType in get_args(kind) else rule

    @property
    def json(self) -> Any:
        """The type of its JSON, where that is not the type of the field."""
        return None if self.kind is None else self.kind.json

    def write(self, value: Any) -> Any:
        """The JSON of a value."""
        return value if value is None or self.kind is None else self.kind.write(value)

    def read(self, value: Any) -> Any:
        """A value from its JSON."""
        return value if value is None or self.kind is None else self.kind.read(value)


def moment(**named: object) -> str:
    """A moment as entries spell it: UTC, ISO 8601, to the microsecond; from a ``datetime`` or a text."""
    ((name, value),) = named.items()
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise CheckError(name, "a time such as 2026-05-01T12:00:00+00:00", repr(value)[:80]) from None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise CheckError(name, "a datetime with its offset from UTC", repr(value))
    try:
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:  # its offset leads out of the calendar
        raise CheckError(name, "in the years 1 to 9999, in UTC", repr(value)) from None


def _scope(_: str, value: Any) -> str:
    return ancestors(value)[-1]


def _key(_: str, value: Any) -> str:
    check_key(value)
    return str(value)


def _hash(name: str, value: Any) -> str:
    sha256(**{name: value})
    return str(value)


def _hashes(name: str, value: Any) -> dict[str, str]:
    return {
        check.text()(**{name: one}): _hash(one, hashed)
        for one, hashed in check.instance(Mapping)(**{name: value}).items()
    }


def _delta(name: str, value: Any) -> str:
    rounded = Amounts.charged({"delta": value})["delta"]
    check.between(0, 1)(**{name: float(rounded)})
    return rounded


def _amount(name: str, value: Any) -> dict[str, str]:
    return dict(Amounts.charged(check.instance(Mapping)(**{name: value})))


def _release(document: Any) -> Release:
    try:
        found: Release = check.instance(Release)(release=from_json(document))
    except CheckError as error:
        raise error if error.field == "release" else error.under("release") from None
    except UNREADABLE as error:
        raise CheckError("release", "one that is known here", str(error)[:200]) from None
    return found


SCOPE = Kind(_scope)
KEY = Kind(_key)
HASH = Kind(_hash)
HASHES = Kind(_hashes, json=dict[str, str])
DELTA = Kind(_delta, json=str)
AMOUNT = Kind(_amount, json=dict[str, str])
CAPS = Kind(
    lambda name, value: dict(check.instance(Mapping)(**{name: value})),  # the kind of the budget says which there are
    write=lambda caps: dict(Amounts.capped(caps)),
    json=dict[str, str],
)
RELEASE = Kind(lambda name, value: check.instance(Release)(**{name: value}), to_json, _release, dict[str, Any])
RELATION = Kind(check.member(NeighboringRelation).read, write=lambda relation: relation.value)
MOMENT = Kind(lambda name, value: moment(**{name: value}), json=str)
ORDERS = Kind(
    check.each(check.Rule(lambda _, order: rdp_quantity(order))).read,
    write=lambda orders: [one.removeprefix("rdp_") for one in orders],
    json=list[str],
)

Scope = Annotated[str, Arg("names joined by '/'", kind=SCOPE, positional=True, most=500, example="acme/claims")]
Key = Annotated[str, Arg("the charge's idempotency key, within its scope", kind=KEY, most=500, example="question-1")]
ChargeKey = Annotated[
    str,
    Arg("the charge's idempotency key, within its scope", kind=KEY, positional=True, most=500, example="question-1"),
]
AtScope = Annotated[
    str | None,
    Arg(
        "the charge's scope; required if several scopes have the key, among those that the caller may see",
        kind=SCOPE,
        most=500,
        none_means="the only scope that has the key",
    ),
]
By = Annotated[str, Arg("who decides; kept for ever", most=500)]
Reason = Annotated[str, Arg("why; kept for ever")]
BudgetKind = Annotated[str, Arg("pure, approximate, zcdp, gdp or rdp", most=40, example="pure")]
Caps = Annotated[
    Mapping[str, Any], Arg("the cap of each quantity, exact decimals", kind=CAPS, most=40, example={"epsilon": "0.5"})
]
Orders = Annotated[
    Sequence[Any] | None,
    Arg(
        "Renyi orders of an rdp budget that promises epsilon and delta",
        kind=ORDERS,
        most=MOST_ORDERS,
        none_means="it promises neither",
    ),
]
BudgetRelation = Annotated[
    NeighboringRelation, Arg("the neighboring relation of everything charged to it", kind=RELATION)
]
Simulation = Annotated[bool, Arg("it is no release of real data, and only budgets of simulations take it")]
ReleaseField = Annotated[
    Release,
    Arg(
        "the whole schedule, in the ledger's own JSON",
        kind=RELEASE,
        most=0,
        example={"v": 0, "term": {"type": "pure", "epsilon": 0.25}},
    ),
]
Relation = Annotated[
    NeighboringRelation | None, Arg("the neighboring relation", kind=RELATION, none_means="that of the nearest budget")
]
PrivacyUnit = Annotated[str | None, Arg("what one neighbor differs in", none_means="what the nearest budget says")]
Delta = Annotated[
    Number | None,
    Arg(
        "the failure probability that approximate budgets are charged",
        kind=DELTA,
        most=100,
        none_means="the release states its own, or needs none",
    ),
]
Amount = Annotated[
    Mapping[str, Any] | None,
    Arg(
        "a price worked out elsewhere, by quantity: at least the accountant's, unless an owner has allowed it",
        kind=AMOUNT,
        most=40,
        none_means="the accountant works it out",
    ),
]
StatedAmount = Annotated[Mapping[str, Any], Arg("its price, by quantity", kind=AMOUNT, most=40)]
PlanHash = Annotated[str | None, Arg("SHA-256 of the plan, 64 hex digits", kind=HASH, most=64, none_means="no plan")]
Hash = Annotated[str, Arg("SHA-256, 64 hex digits", kind=HASH, most=64)]
Rounds = Annotated[int | None, Arg("the most rounds it may run", ge=1, none_means="no limit")]
Until = Annotated[
    datetime | str | None,
    Arg(
        "when anybody may give it back if it has not started, ISO 8601 with its offset from UTC",
        kind=MOMENT,
        most=40,
        none_means="never",
        example="2026-05-01T12:00:00+00:00",
    ),
]
