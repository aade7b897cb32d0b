"""What the API is asked, as strict models: shapes and types here, bounds in the library, which names them better."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Relation = Literal["add-or-remove-one", "replace-one", "zero-out"]
LONGEST_TEXT = 4 * 1024 * 1024  # characters
LONGEST_NOTE = 64 * 1024  # characters of a signature or a checkpoint


class RequestModel(BaseModel):
    """Unknown fields, NaN and text for numbers are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class VerifyRequest(RequestModel):
    """A report, a bundle of a ledger, or both, to be checked, with what an auditor kept elsewhere."""

    report: Annotated[
        str | None, Field(description="report.json or report.html, its whole text", max_length=LONGEST_TEXT)
    ] = None
    bundle: Annotated[
        str | None, Field(description="a bundle of the ledger that paid, its whole text", max_length=LONGEST_TEXT)
    ] = None
    record: Annotated[
        str | None, Field(description="a calculator's stamped record, its whole text", max_length=LONGEST_TEXT)
    ] = None
    signature: Annotated[
        str | None, Field(description="the report's signature (.intoto.jsonl)", max_length=LONGEST_NOTE)
    ] = None
    checkpoint: Annotated[
        str | None, Field(description="a checkpoint that was kept: the bundle begins with it", max_length=LONGEST_NOTE)
    ] = None
    key: Annotated[
        str | None, Field(description="whose signature counts: the public line NAME+ID+KEY", max_length=1000)
    ] = None


class FileReferenceModel(RequestModel):
    """A file that a calculation belongs to, by its hash."""

    what: Literal["model", "data", "playbook", "other"]
    name: Annotated[str, Field(description="what its owner calls it; no path", max_length=120)]
    sha256: Annotated[str, Field(description="of its bytes, 64 hex digits", max_length=64)]


class OwnerFields(RequestModel):
    """What the owner of a calculation says in its record; no number is read from it."""

    delta_reason: Annotated[str | None, Field(description="why this delta, in words", max_length=1000)] = None
    references: Annotated[list[FileReferenceModel], Field(max_length=20)] = []
