"""Response models: each is derived from what an answer is annotated with, or stated here.

Answers are sent as the library gives them; tests hold them against these models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from inspect import getdoc
from types import NoneType
from typing import Annotated, Any, Literal, Never, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, ConfigDict, Field, create_model

from epsilog import terms
from epsilog.plan.questions import INFINITE
from epsilog.terms import messages

Number = Annotated[float | Literal["inf"], Field(description=INFINITE)]
Message = Annotated[
    str | tuple[str, dict[str, Any]],
    Field(description="an identifier of the catalogue of messages, with its parameters; or a sentence"),
]


class ResponseModel(BaseModel):
    """Holds all that is sent, and nothing else."""

    model_config = ConfigDict(extra="forbid")


class IntervalModel(ResponseModel):
    """A certified interval; only ``upper`` may be claimed."""

    lower: Annotated[Number | None, Field(description="null where only the upper bound is known")]
    upper: Number
    method: Message
    relation: str
    assumptions: list[Message]
    type: Literal["interval"] = "interval"
    estimate: Number | None = None
    quantity: str = "epsilon"
    given: list[tuple[str, Number]] = []


class FindingModel(ResponseModel):
    """A finding for the reader; the reference lists the codes."""

    code: str
    check: str
    status: Literal["passed", "warned", "failed", "not checked"]
    message: str
    values: dict[str, Number]


class DeltaModel(ResponseModel):
    """The failure probability that is used, and why."""

    value: float
    rationale: str
    findings: list[FindingModel]


_MODELS = {
    messages.Message: Message,
    terms.Interval: IntervalModel,
    terms.Finding: FindingModel,
    terms.DeltaChoice: DeltaModel,
    terms.NeighboringRelation: str,
}


def build_response_model(answer: Callable[..., Any]) -> type[ResponseModel]:
    """Return the model of an answer, from ``Annotated[dict[str, Any], ...]``: dataclasses and TypedDicts.

    Each class adds its members to those of the class before; ``Never`` removes one. The last class gives the name.
    """
    _, *kinds = get_args(get_type_hints(answer, include_extras=True)["return"])
    return _build_model(*kinds)


@cache
def _build_model(*kinds: Any) -> type[ResponseModel]:
    members = {name: member for kind in kinds for name, member in _list_members(kind).items()}
    described: dict[str, Any] = {
        name: (_shape(hint, number), _get_default(hint))
        for name, (hint, number) in members.items()
        if hint is not Never
    }
    doc = (getdoc(kinds[-1]) or "").partition("\n\n")[0]
    model: type[ResponseModel] = create_model(kinds[-1].__name__, __base__=ResponseModel, __doc__=doc, **described)
    return model


def _list_members(kind: Any) -> dict[str, tuple[Any, Any]]:
    """Return the type of each member, and what a float of it is in JSON: any of a dataclass may be infinite."""
    if is_typeddict(kind):
        return {name: (hint, float) for name, hint in get_type_hints(kind, include_extras=True).items()}
    hints = get_type_hints(kind)
    return {each.name: (hints[each.name], Number) for each in dataclasses.fields(kind)}


def _get_default(hint: Any) -> Any:
    """Return what a member that may be left out has by default: its only word, or None."""
    if get_origin(hint) is not NotRequired:
        return ...
    (kind,) = get_args(hint)
    return get_args(kind)[0] if get_origin(kind) is Literal else None


def _shape(kind: Any, number: Any) -> Any:
    """Return a type in JSON."""
    parts = get_args(kind)
    match get_origin(kind):
        case origin if origin is NotRequired:
            return _shape(parts[0], number)
        case origin if origin is Annotated and parts[1] == INFINITE:
            return Annotated[float | Literal["inf"], Field(description=parts[-1])]
        case origin if origin is Annotated and isinstance(parts[1], str):
            return Annotated[_shape(parts[0], number), Field(description=parts[1])]
        case origin if origin is Annotated:
            return _build_model(*parts[1:])
        case origin if origin is list or (origin is tuple and parts[-1] is ...):
            return list[_shape(parts[0], number)]  # type: ignore[misc]
        case origin if origin is tuple:
            return tuple[tuple(_shape(part, number) for part in parts)]  # type: ignore[misc]
    if NoneType in parts:
        return _shape(parts[0], number) | None
    if is_typeddict(kind) or (dataclasses.is_dataclass(kind) and kind not in _MODELS):
        return _build_model(kind)
    return number if kind is float else _MODELS.get(kind, kind)


class SnippetsResponse(ResponseModel):
    """A calculation exported to other tools, each of which reproduces its number."""

    python: str
    command: str
    run_config: Annotated[str | None, Field(description="the run config (TOML); null if none can express the plan")]
    no_run_config: Annotated[str | None, Field(description="reason why a file is absent, or would be rejected")]
    playground: Annotated[str | None, Field(description="an address; null if its form cannot express the plan")]
    charge: Annotated[str, Field(description="an address of the ledger's page, with the release")]


class ForeignSnippetModel(ResponseModel):
    """Code for another library."""

    name: str
    code: Annotated[str | None, Field(description="null if the library cannot do this")]
    note: Annotated[str, Field(description="what the code does, or why there is none")]


class DPSGDSnippetsResponse(SnippetsResponse):
    """A DP-SGD run exported to other tools, with the epsilon of what each does."""

    foreign: list[ForeignSnippetModel]


class StampedCalculationModel(ResponseModel):
    """A question with its answer, and the SHA-256 of their canonical JSON."""

    record: dict[str, Any]
    sha256: str


class PartComparisonModel(ResponseModel):
    """One part of a report compared with its recomputation: its values, and those that differ."""

    part: str
    fields: int
    copied: Annotated[int, Field(description="attested values, whose equality proves nothing")]
    differing: Annotated[list[tuple[str, str, str]], Field(description="path, stated value, recomputed value")]


class EvidenceKindsModel(ResponseModel):
    """What a verdict rests on, in a few words each."""

    recomputed: list[str]
    attested: Annotated[list[str], Field(description="what rests on the curator's word")]
    unknown: list[str]
    contradicted: Annotated[list[str], Field(description="checks that failed, and what they found")]


class VerificationExampleModel(ResponseModel):
    """A report and the bundle of its ledger, as text."""

    report: str
    bundle: str


class ReportVerificationModel(ResponseModel):
    """The claim that a report alone supports, by check and by part."""

    status: Literal["passed", "warned", "failed", "not checked"]
    answer: Annotated[str, Field(description="whether it holds, and what that rests on, in a few words")]
    supported_claim: Annotated[str, Field(description="the supported claim, in a sentence")]
    findings: list[FindingModel]
    parts: list[PartComparisonModel]
    evidence: EvidenceKindsModel
    simulation: Annotated[bool, Field(description="a rehearsal, whose noise protects nobody")]
