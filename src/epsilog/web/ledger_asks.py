"""What is asked of the ledger, as strict models: amounts are decimal text, and a release is the ledger's own JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Any

from fastapi import Header
from fastapi.requests import Request as HttpRequest
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import Field

from epsilog.mechanisms import Release
from epsilog.spend import MOST_ORDERS, Request
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.terms.codec import UNREADABLE, from_json, parse
from epsilog.web.asks import Ask, Relation

Text = Annotated[str, Field(max_length=2000)]
Scope = Annotated[str, Field(max_length=500, description="names joined by '/'", examples=["acme/claims"])]
Key = Annotated[
    str, Field(max_length=500, description="the charge's idempotency key, within its scope", examples=["question-1"])
]
Amount = Annotated[str, Field(max_length=100, description="an exact decimal number", examples=["0.5"])]
Amounts = Annotated[dict[str, Amount], Field(max_length=40, description="by quantity", examples=[{"epsilon": "0.5"}])]
Hash = Annotated[str, Field(max_length=64, description="SHA-256, 64 hex digits")]
By = Annotated[str, Field(max_length=500, description="who decides; kept for ever")]
Reason = Annotated[str, Field(max_length=2000, description="why; kept for ever")]
Kind = Annotated[str, Field(max_length=40, description="pure, approximate, zcdp, gdp or rdp", examples=["pure"])]


class ExactRoute(APIRoute):
    """A route whose JSON can be read in one way only: no name twice, no NaN, no number that a double does not hold."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()

        async def exact(request: HttpRequest) -> Response:
            return await handler(_Exact(request.scope, request.receive))

        return exact


class _Exact(HttpRequest):
    async def json(self) -> Any:
        try:
            return parse(await self.body())
        except ValueError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


class ScopeAsk(Ask):
    """Something of one scope."""

    scope: Scope


class ActAsk(ScopeAsk):
    """What an owner does to a scope."""

    by: By
    reason: Reason


class CapAsk(ActAsk):
    """Another cap."""

    caps: Amounts


class PartitionAsk(ActAsk):
    """A scope whose blocks are disjoint."""

    caps: Annotated[Amounts, Field(description="the most that any one block may cost: the budgets above spend it now")]


class BudgetAsk(ScopeAsk):
    """A new budget."""

    kind: Kind
    caps: Amounts
    relation: Relation = "add-or-remove-one"
    privacy_unit: Text | None = None
    simulation: bool = False
    quota: Annotated[bool, Field(description="whether it is a share that the budget above sets aside")] = False
    orders: Annotated[
        list[Amount] | None, Field(max_length=MOST_ORDERS, description="of an rdp budget that promises epsilon, delta")
    ] = None


class WholeAsk(Ask):
    """What an owner does to the whole ledger."""

    by: By
    reason: Reason


class ReleaseAsk(ScopeAsk):
    """A release under a scope."""

    release: Annotated[
        dict[str, Any],
        Field(
            description="the whole schedule, in the ledger's own JSON",
            examples=[{"v": 0, "term": {"type": "pure", "epsilon": 0.25}}],
        ),
    ]
    delta: Annotated[Amount | None, Field(description="what approximate budgets are charged")] = None
    relation: Annotated[Relation | None, Field(description="null takes the budget's")] = None

    def term(self) -> Release:
        """The release."""
        return _release(self.release)

    def of_relation(self) -> NeighboringRelation | None:
        """The neighboring relation."""
        return None if self.relation is None else NeighboringRelation(self.relation)


class FitsAsk(ScopeAsk):
    """What a scope can bear of a release, or of anything."""

    release: Annotated[dict[str, Any] | None, Field(description="see ``reserve``; null asks what is left")] = None
    delta: Amount | None = None
    relation: Relation | None = None

    def request(self) -> Request | None:
        """The request whose price is counted; None if nothing was asked."""
        if self.release is None:
            return None
        relation = None if self.relation is None else NeighboringRelation(self.relation)
        return Request(_release(self.release), relation, delta=self.delta)


class RequestAsk(ReleaseAsk):
    """What a charge asks for."""

    key: Key | None = None
    amount: Annotated[Amounts | None, Field(description="a price worked out elsewhere, at least the proven one")] = None
    privacy_unit: Annotated[Text | None, Field(description="null takes the budget's")] = None
    simulation: bool = False

    def arguments(self) -> dict[str, Any]:
        """For the ledger's verbs, but the scope, the release and the key."""
        given = self.model_dump(exclude={"scope", "release", "key", "relation", "until"})
        return given | {"relation": self.of_relation()}


class ReserveAsk(RequestAsk):
    """What a reservation asks for."""

    plan_hash: Hash | None = None
    rounds: Annotated[int | None, Field(description="the most rounds it may run")] = None
    until: Annotated[str | None, Field(max_length=40, description="when anybody may give it back, ISO 8601")] = None

    def moment(self) -> datetime | None:
        """When anybody may give it back."""
        return None if self.until is None else moment(self.until)


class OverrideAsk(ReleaseAsk):
    """A charge that an owner allows at an amount of their own."""

    key: Key
    amount: Amounts
    reason: Reason
    privacy_unit: Text | None = None
    plan_hash: Hash | None = None
    rounds: int | None = None
    simulation: bool = False

    def arguments(self) -> dict[str, Any]:
        """For ``override_price``, but the scope, the release and the key."""
        given = self.model_dump(exclude={"scope", "release", "key", "relation", "delta"})
        return given | {"relation": self.of_relation()}


class PlanAsk(ScopeAsk):
    """A plan, before anything is reserved for it."""

    key: Key
    plan_hash: Hash


class KeyAsk(Ask):
    """Something of one charge."""

    key: Key
    scope: Annotated[
        str | None,
        Field(
            max_length=500,
            description="the charge's scope; null if one charge alone has the key, among those that the token covers",
        ),
    ] = None


class RoundAsk(KeyAsk):
    """A round that begins."""

    round: int


class OutputAsk(RoundAsk):
    """A round that releases."""

    output_hash: Hash


class EvidenceAsk(KeyAsk):
    """What closes a charge."""

    evidence: Annotated[
        dict[Text, Hash], Field(max_length=1000, description="SHA-256 values by name", default_factory=dict)
    ]


class UntilAsk(KeyAsk):
    """How long a reservation is held."""

    until: Annotated[str, Field(max_length=40, description="ISO 8601, with its offset from UTC")]


class CancelAsk(KeyAsk):
    """A reservation that its owner gives back."""

    reason: Reason


class ChargeActAsk(KeyAsk):
    """What an owner does to a charge."""

    by: By
    reason: Reason


IdempotencyKey = Annotated[
    str | None,
    Header(description="the charge's key, quoted or not; the same as in the body, where both are given"),
]


def key_of(ask: RequestAsk, header: str | None) -> str:
    """The idempotency key, which body or header give, or both alike."""
    quoted = header is not None and len(header) >= 2 and header[0] == header[-1] == '"'
    said = header[1:-1] if quoted and header is not None else header
    if ask.key is None and said is None:
        raise CheckError("key", "given, in the body or as Idempotency-Key", "nothing")
    if ask.key is not None and said is not None and ask.key != said:
        raise CheckError("key", "the one that the header Idempotency-Key gives", repr(ask.key[:80]))
    return str(said if ask.key is None else ask.key)


def moment(text: str) -> datetime:
    """A time as entries spell it, or otherwise."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise CheckError("until", "a time such as 2026-05-01T12:00:00+00:00", repr(text[:80])) from None


def _release(document: dict[str, Any]) -> Release:
    try:
        found = from_json(document)
    except CheckError as error:
        raise error.under("release") from None
    except UNREADABLE as error:
        raise CheckError("release", "one that this server knows", str(error)[:200]) from None
    if not isinstance(found, Release):
        raise CheckError("release", "a release", type(found).__name__)
    return found
