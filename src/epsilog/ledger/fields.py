"""The fields of ledger commands and of the request that they store: meaning, check, and spelling in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from types import NoneType
from typing import Annotated, Any, Self, get_args

from epsilog.ledger.amounts import MAX_RENYI_ORDERS, Amounts, Number, make_rdp_quantity
from epsilog.ledger.entries import hash_entry, require_sha256
from epsilog.ledger.scopes import list_ancestors, require_idempotency_key
from epsilog.mechanisms import Release
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.codec import encode_canonical, parse_term, to_json
from epsilog.terms.fields import Field, document_fields, list_fields

MAX_CERTIFICATE = 1 << 16  # characters that the checker reads


@dataclass(frozen=True, slots=True)
class Kind:
    """How the values of a field are checked, and spelled in JSON.

    Attributes:
        check: turns a named value into what a command keeps, or says why not.
        write: its JSON.
        read: turns JSON into what ``check`` takes.
        json: the type of its JSON, where that is not the type of the field.
        most: the most characters of a text, or items of a list or object, that a server takes; 0 for any number.
    """

    check: Callable[[str, Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value
    json: Any = None
    most: int = 2000


@dataclass(frozen=True, slots=True)
class Arg(Field):
    """A field of a command."""

    kind: Kind | None = None  # how it is checked and spelled, where its type does not say so
    positional: bool = False  # whether a command line gives it by its place
    example: Any = None

    def rule(self, kind: Any, most: float | None = None) -> check.Validator[Any]:
        """Return the rule for a value of ``kind``."""
        if self.kind is None:
            return Field.rule(self, kind, most)
        rule = check.Validator(self.kind.check)
        return check.optional(rule) if NoneType in get_args(kind) else rule

    @property
    def as_kind(self) -> Kind:
        """How it is checked and spelled; as it is where only its type says so."""
        return _PLAIN if self.kind is None else self.kind

    def write(self, value: Any) -> Any:
        """Return the JSON of a value."""
        return None if value is None else self.as_kind.write(value)

    def read(self, value: Any) -> Any:
        """A value from its JSON."""
        return None if value is None else self.as_kind.read(value)


def parse_timestamp(**named: object) -> str:
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
    return list_ancestors(value)[-1]


def _key(_: str, value: Any) -> str:
    require_idempotency_key(value)
    return str(value)


def _hash(name: str, value: Any) -> str:
    require_sha256(**{name: value})
    return str(value)


def _hashes(name: str, value: Any) -> dict[str, str]:
    return {
        check.text()(**{name: one}): _hash(one, hashed)
        for one, hashed in check.instance_of(Mapping)(**{name: value}).items()
    }


def _delta(name: str, value: Any) -> str:
    rounded = Amounts.from_charge({"delta": value})["delta"]
    check.in_open_interval(0, 1)(**{name: float(rounded)})
    return rounded


def _amount(name: str, value: Any) -> dict[str, str]:
    return dict(Amounts.from_charge(check.instance_of(Mapping)(**{name: value})))


def _release(document: Any) -> Release:
    return parse_term(Release, document, "release")


def _certificate(name: str, value: Any) -> str:
    text = check.text()(**{name: value}).removesuffix("\n")
    if len(text) > MAX_CERTIFICATE or not text.isascii():
        found = f"{len(text)} characters" + ("" if text.isascii() else ", some of them others")
        raise CheckError(name, f"at most {MAX_CERTIFICATE} characters of ASCII", found)
    return text


_PLAIN = Kind(lambda _, value: value)
SCOPE = Kind(_scope, most=500)
KEY = Kind(_key, most=500)
NAME = Kind(check.text().read, most=500)
HASH = Kind(_hash, most=64)
CERTIFICATE = Kind(_certificate, most=MAX_CERTIFICATE)
HASHES = Kind(_hashes, json=dict[str, str], most=1000)
DELTA = Kind(_delta, json=str, most=100)
AMOUNT = Kind(_amount, json=dict[str, str], most=40)
CAPS = Kind(  # the kind of the budget says which there are
    lambda name, value: dict(check.instance_of(Mapping)(**{name: value})),
    write=lambda caps: dict(Amounts.from_cap(caps)),
    json=dict[str, str],
    most=40,
)
RELEASE = Kind(check.instance_of(Release).read, to_json, _release, dict[str, Any], most=0)
RELATION = Kind(check.enum_member(NeighboringRelation).read, write=lambda relation: relation.value)
MOMENT = Kind(lambda name, value: parse_timestamp(**{name: value}), json=str, most=40)
ORDERS = Kind(
    check.sequence_of(check.Validator(lambda _, order: make_rdp_quantity(order))).read,
    write=lambda orders: [one.removeprefix("rdp_") for one in orders],
    json=list[str],
    most=MAX_RENYI_ORDERS,
)

Scope = Annotated[str, Arg("names joined by '/'", kind=SCOPE, positional=True, example="acme/claims")]
Key = Annotated[str, Arg("the charge's idempotency key, within its scope", kind=KEY, example="question-1")]
ChargeKey = Annotated[str, Arg("the charge's idempotency key", kind=KEY, positional=True, example="question-1")]
AtScope = Annotated[str | None, Arg("the charge's scope", kind=SCOPE, none_means="the only visible one with the key")]
By = Annotated[str, Arg("who decides; stored permanently", kind=NAME)]
Reason = Annotated[str, Arg("why; stored permanently")]
BudgetKind = Annotated[str, Arg("pure, approximate, zcdp, gdp or rdp", kind=NAME, example="pure")]
Caps = Annotated[Mapping[str, Any], Arg("exact decimals by quantity", kind=CAPS, example={"epsilon": "0.5"})]
Orders = Annotated[
    Sequence[Any] | None,
    Arg("Renyi orders of an rdp budget with a target guarantee", kind=ORDERS, none_means="no target guarantee"),
]
BudgetRelation = Annotated[NeighboringRelation, Arg("neighboring relation of its charges", kind=RELATION)]
Simulation = Annotated[bool, Arg("the data are simulated; only budgets of simulations accept the charge")]
_EXAMPLE = {"v": 1, "term": {"type": "pure", "epsilon": 0.25}}
ReleaseField = Annotated[Release, Arg("the release, as tagged JSON", kind=RELEASE, example=_EXAMPLE)]
Relation = Annotated[
    NeighboringRelation | None, Arg("the neighboring relation", kind=RELATION, none_means="that of the nearest budget")
]
PrivacyUnit = Annotated[
    str | None, Arg("what two neighboring data sets differ in", none_means="that of the nearest budget")
]
Delta = Annotated[
    Number | None,
    Arg("delta that approximate budgets are charged", kind=DELTA, none_means="the release states it, or needs none"),
]
Amount = Annotated[
    Mapping[str, Any] | None,
    Arg("the caller's cost, at least the accountant's", kind=AMOUNT, none_means="the accountant computes it"),
]
StatedAmount = Annotated[Mapping[str, Any], Arg("its cost, by quantity", kind=AMOUNT)]
PlanHash = Annotated[str | None, Arg("SHA-256 of the plan, 64 hex digits", kind=HASH, none_means="no plan")]
Certificate = Annotated[
    str | None,
    Arg(
        "a certificate of the release, its text", kind=CERTIFICATE, none_means="none; or that of the charge it repeats"
    ),
]
Hash = Annotated[str, Arg("SHA-256, 64 hex digits", kind=HASH)]
Rounds = Annotated[int | None, Arg("the most rounds it may run", ge=1, none_means="no limit")]
Until = Annotated[
    datetime | str | None,
    Arg(
        "when anyone may cancel it if it has not started, such as 2026-05-01T12:00Z",
        kind=MOMENT,
        none_means="never",
    ),
]


def refuse_delta_of_amount(delta: object, amount: object) -> None:
    """Refuse a delta beside an amount, which states its own."""
    if amount is not None and delta is not None:
        raise CheckError("delta", "left out where amount is given", repr(delta))


@document_fields
@dataclass(frozen=True, slots=True)
class ChargeRequest:
    """The request of a charge; a key always identifies the same request."""

    release: ReleaseField
    relation: Relation = None
    privacy_unit: PrivacyUnit = None
    delta: Delta = None
    amount: Amount = None
    plan_hash: PlanHash = None
    rounds: Rounds = None
    simulation: Simulation = False

    def __post_init__(self) -> None:
        check.check_fields(self)
        refuse_delta_of_amount(self.delta, self.amount)

    @classmethod
    def of(cls, command: object) -> Self:
        """Return the request of a command, whose fields have the same rules and were checked."""
        return cls._make({name: getattr(command, name, default) for name, default in _DEFAULTS.items()})

    def under(self, relation: NeighboringRelation, privacy_unit: str | None) -> Self:
        """Return the request with a budget's relation and privacy unit where it states none."""
        values = {name: getattr(self, name) for name in _ARGS}
        values["relation"] = relation if self.relation is None else self.relation
        values["privacy_unit"] = privacy_unit if self.privacy_unit is None else self.privacy_unit
        return self._make(values)

    @classmethod
    def _make(cls, values: Mapping[str, Any]) -> Self:
        """Build a request of checked values without checking again."""
        found = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(found, name, value)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as the ledger stores them."""
        return {name: arg.write(getattr(self, name)) for name, arg in _ARGS.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Parse the result of ``to_json``; any other spelling is an error."""
        found = cls(**{name: _ARGS[name].read(value) if name in _ARGS else value for name, value in data.items()})
        if found.relation is None or found.to_json() != data:
            raise CheckError("request", "spelled as the ledger spells it", repr(dict(data))[:1000])
        return found


_ARGS = {name: arg for name, arg in list_fields(ChargeRequest).items() if isinstance(arg, Arg)}
_DEFAULTS = {one.name: None if one.default is MISSING else one.default for one in fields(ChargeRequest)}


def hash_overridden_request(request: Mapping[str, Any]) -> str:
    """Return the substitute for a request with a cost override."""
    return hash_entry(encode_canonical(dict(request)).decode())
