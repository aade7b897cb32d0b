"""A stamped calculation: a record of a question, its answer and its owner's remarks, with the record's hash.

A record proves nothing about a run. A reader can check that it is unchanged, compute the answer again from the
question, and compare files with the hashes that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any

from epsilog.plan import QUESTIONS, Question
from epsilog.terms import CheckError, Finding, Status, check, codec

KINDS = {"federated-calculation": "/federated", "query-calculation": "/queries"}
"""Kinds of records, with the path of the question."""
FILE_KINDS = {
    "model": "model version",
    "data": "data-set descriptor",
    "playbook": "playbook",
    "other": "another file",
}
"""Kinds of referenced files."""

MAX_REFERENCES, MAX_NAME_LENGTH, MAX_REASON_LENGTH = 20, 120, 1000

VERSION = 1
_FIELDS = {"v", "kind", "software", "question", "answer"}


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file that a calculation belongs to, named by its hash.

    Attributes:
        what: "model", "data", "playbook" or "other".
        name: the owner's name for it, in one line; not a path.
        sha256: the hash of its bytes, 64 hex digits.
    """

    what: Annotated[str, check.one_of(tuple(FILE_KINDS))]
    name: Annotated[str, check.text()]
    sha256: Annotated[str, check.text()]

    def __post_init__(self) -> None:
        check.check_fields(self)
        object.__setattr__(self, "name", self.name.strip())
        object.__setattr__(self, "sha256", self.sha256.strip().lower())
        if len(self.name) > MAX_NAME_LENGTH or not self.name.isprintable():
            raise CheckError("name", f"one line of at most {MAX_NAME_LENGTH} characters", repr(self.name[:80]))
        if "\\" in self.name or self.name.startswith(("/", "~")):
            raise CheckError("name", "a name, not a path", repr(self.name[:80]))
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise CheckError("sha256", "64 hex digits", repr(self.sha256[:80]))

    def to_json(self) -> dict[str, str]:
        """Return plain JSON values."""
        return {"what": self.what, "name": self.name, "sha256": self.sha256}


def stamp_calculation(
    question: Question, *, delta_reason: str | None = None, references: Sequence[FileReference] = ()
) -> dict[str, Any]:
    """Return a calculation with the SHA-256 of its canonical JSON (RFC 8785).

    Args:
        question: the question, of one of ``KINDS``.
        delta_reason: why its owner chose this delta; a text that no number is read from.
        references: files that it belongs to.

    >>> from epsilog.plan import QUESTIONS
    >>> asked = QUESTIONS["/queries"].parse({"epsilon": 1.0, "queries": 3})
    >>> stamped = stamp_calculation(asked, delta_reason="policy 7, below 1/N")
    >>> stamped["record"]["owner"]["delta_reason"], len(stamped["sha256"])
    ('policy 7, below 1/N', 64)
    """
    paths = {path: kind for kind, path in KINDS.items()}
    record: dict[str, Any] = {
        "v": VERSION,
        "kind": paths[check.one_of(tuple(paths))(question=check.instance_of(Question)(question=question).path)],
        "software": f"epsilog {version('epsilog')}",
        "question": question.to_json(),
        "answer": question.answer(),
    }
    if owner := _build_owner_section(delta_reason, references):
        record["owner"] = owner
    return {"record": record, "sha256": codec.hash_canonical(record)}


def _build_owner_section(delta_reason: str | None, references: Sequence[FileReference]) -> dict[str, Any]:
    """Return the owner's remarks; no field for what is not stated."""
    section: dict[str, Any] = {}
    if delta_reason is not None and delta_reason.strip():
        reason = check.text()(delta_reason=delta_reason).strip()
        if len(reason) > MAX_REASON_LENGTH or not all(each.isprintable() or each in "\n\t" for each in reason):
            raise CheckError("delta_reason", f"text of at most {MAX_REASON_LENGTH} characters", repr(reason[:80]))
        section["delta_reason"] = reason
    listed = check.sequence_of(check.instance_of(FileReference))(references=references)
    if len(listed) > MAX_REFERENCES:
        raise CheckError("references", f"at most {MAX_REFERENCES}", f"{len(listed)}")
    if listed:
        section["references"] = [one.to_json() for one in listed]
    return section


def is_calculation(document: Any) -> bool:
    """Return whether a JSON document has the form of a stamped calculation."""
    return isinstance(document, dict) and set(document) == {"record", "sha256"}


def check_calculation(document: Any, *, files: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Check a stamped calculation: its hash, its answer, and the files that it references.

    Args:
        document: the stamped calculation, as plain JSON values.
        files: SHA-256 of given files, by the names of references.

    Raises:
        CheckError: it is not a stamped calculation, or it references no file of a given name.
    """
    record = document["record"] if is_calculation(document) else None
    if not isinstance(record, dict) or set(record) - {"owner"} != _FIELDS or record["kind"] not in KINDS:
        raise CheckError("record", "a stamped calculation", "something else")
    if record["v"] != VERSION:
        raise CheckError("v", f"{VERSION}", repr(record["v"]))
    return (
        _check_stamp(record, document["sha256"]),
        _check_answer(record),
        *_check_references(record, dict(files or {})),
    )


def _check_stamp(record: dict[str, Any], sha256: Any) -> Finding:
    found = codec.hash_canonical(record)
    if found == sha256:
        return Finding("record/passed", Status.PASSED, f"The record is unchanged: SHA-256 {found}.")
    message = f"The record was changed after it was stamped: its SHA-256 is {found}, not the stated one."
    return Finding("record/changed", Status.FAILED, message)


def _check_answer(record: dict[str, Any]) -> Finding:
    made = str(record["software"])[:80]
    try:
        question = QUESTIONS[KINDS[record["kind"]]].parse(record["question"])
        again = codec.encode_canonical(question.answer())
    except codec.UNREADABLE as error:
        message = f"The answer ({made}) cannot be computed again: {str(error)[:200]}"
        return Finding("calculation/not-reproducible", Status.FAILED, message)
    if again == codec.encode_canonical(record["answer"]):
        return Finding("calculation/passed", Status.PASSED, f"The answer ({made}) matches its recomputation exactly.")
    message = f"The answer ({made}) differs from its recomputation with epsilog {version('epsilog')}."
    return Finding("calculation/mismatch", Status.FAILED, message)


def _check_references(record: dict[str, Any], files: dict[str, str]) -> list[Finding]:
    """Check the form of the owner's remarks, and each reference against its file."""
    owner = record.get("owner", {})
    try:
        listed = [FileReference(**each) for each in owner.get("references", [])]
        if "owner" in record and _build_owner_section(owner.get("delta_reason"), listed) != owner:
            raise CheckError("owner", "delta_reason and references", "something else")
    except codec.UNREADABLE as error:
        message = f"The owner's fields are invalid: {str(error)[:200]}"
        return [Finding("record/owner-fields-invalid", Status.FAILED, message)]
    unknown = set(files) - {one.name for one in listed}
    if unknown:
        raise CheckError("reference", "a name in the record", ", ".join(sorted(unknown))[:80])
    return [_check_reference(one, files.get(one.name)) for one in listed]


def _check_reference(one: FileReference, sha256: str | None) -> Finding:
    named = f"{one.name} ({FILE_KINDS[one.what]}, SHA-256 {one.sha256})"
    if sha256 is None:
        return Finding("references/not-checked", Status.NOT_CHECKED, f"No file was given for {named}.")
    if sha256 == one.sha256:
        return Finding("references/passed", Status.PASSED, f"The given file is {named}.")
    return Finding("references/mismatch", Status.FAILED, f"The given file (SHA-256 {sha256}) is not {named}.")
