"""Charge requests and their stored form; a key always identifies the same request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Self

from epsilog.ledger.entries import hash_entry
from epsilog.ledger.fields import Amount, Arg, Delta, PlanHash, PrivacyUnit, Relation, ReleaseField, Rounds, Simulation
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.codec import encode_canonical
from epsilog.terms.fields import document_fields, list_fields


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
        self._refuse_delta_of_amount()

    def _refuse_delta_of_amount(self) -> None:
        if self.amount is not None and self.delta is not None:
            raise CheckError("delta", "left out where amount is given", repr(self.delta))

    @classmethod
    def of(cls, command: object) -> Self:
        """Return the request of a command, whose fields have the same rules and were checked."""
        found = cls._make({name: getattr(command, name, default) for name, default in _DEFAULTS.items()})
        found._refuse_delta_of_amount()
        return found

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
