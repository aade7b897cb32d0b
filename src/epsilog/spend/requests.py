"""What is asked of the ledger, and how it is stored: the same key may only ever come with the same request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from epsilog.mechanisms import Release
from epsilog.spend.amounts import Amounts, Number
from epsilog.spend.entries import digest, sha256
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.codec import canonical, from_json, to_json


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the ledger; the same key may only ever come with the same request.

    Attributes:
        release: the whole schedule, as one release.
        relation: the neighboring relation it is accounted under; None for that of the budget.
        privacy_unit: what one neighbour differs in; None for that of the budget.
        delta: the failure probability at which an approximate budget is charged, rounded up to whole units; None where
            the release states its own or needs none.
        amount: a price worked out elsewhere, by quantity, rounded up; None to have it worked out here.
        plan_hash: SHA-256 of the plan; None if there is none.
        rounds: the most rounds the charge may run; None for no limit.
        simulation: whether it is no release of real data.
    """

    release: Release
    relation: NeighboringRelation | None = None
    privacy_unit: str | None = None
    delta: Number | None = None
    amount: Mapping[str, Number] | None = None
    plan_hash: str | None = None
    rounds: int | None = None
    simulation: bool = False

    def __post_init__(self) -> None:
        check.fields(
            self,
            release=check.instance(Release),
            relation=check.optional(check.member(NeighboringRelation)),
            privacy_unit=check.optional(check.text()),
            amount=check.optional(check.instance(Mapping)),
            rounds=check.optional(check.integer(1)),
            simulation=check.flag(),
        )
        if self.delta is not None:
            rounded = Amounts.charged({"delta": self.delta})["delta"]
            check.between(0, 1)(delta=float(rounded))
            object.__setattr__(self, "delta", rounded)
        if self.plan_hash is not None:
            sha256(plan_hash=self.plan_hash)
        if self.amount is not None:
            object.__setattr__(self, "amount", dict(Amounts.charged(self.amount)))
            if self.delta is not None:
                raise CheckError("delta", "left out where amount is given", repr(self.delta))

    def under(self, relation: NeighboringRelation, privacy_unit: str | None) -> Request:
        """The request with a budget's relation and privacy unit where it states none."""
        return replace(
            self,
            relation=relation if self.relation is None else self.relation,
            privacy_unit=privacy_unit if self.privacy_unit is None else self.privacy_unit,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as the ledger stores them."""
        return {
            "release": to_json(self.release),
            "relation": None if self.relation is None else self.relation.value,
            "privacy_unit": self.privacy_unit,
            "delta": self.delta,
            "amount": None if self.amount is None else dict(self.amount),
            "plan_hash": self.plan_hash,
            "rounds": self.rounds,
            "simulation": self.simulation,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Reads what ``to_json`` wrote."""
        return cls(
            **dict(data) | {"release": from_json(data["release"]), "relation": NeighboringRelation(data["relation"])}
        )


def request_of(body: Mapping[str, Any]) -> Request:
    """The request of an entry, if it is spelled as we spell it."""
    request = Request.from_json(body["request"])
    if request.to_json() != body["request"]:
        raise CheckError("request", "spelled as the ledger spells it", repr(body["request"]))
    return request


def waiver_of(request: Mapping[str, Any]) -> str:
    """What stands for a request whose price an owner has overridden."""
    return digest(canonical(dict(request)).decode())
