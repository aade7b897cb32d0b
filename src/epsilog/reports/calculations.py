"""A calculation as a stamped record: question, answer, what its owner says of them, and the hash of all that.

A record proves nothing of a run. Whoever holds one can see that it is as it was stamped, work the answer out again from
the question, and compare files with the hashes that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any

from epsilog.plan import QUESTIONS, Question
from epsilog.terms import CheckError, Finding, Status, check, codec

KINDS = {"federated-calculation": "/federated", "query-calculation": "/queries"}
"""What is stamped, with the address of the question."""
WHATS = {
    "model": "model version",
    "data": "data-set descriptor",
    "playbook": "playbook",
    "other": "another file",
}
"""What a reference may be to."""

MOST_REFERENCES, LONGEST_NAME, LONGEST_REASON = 20, 120, 1000

VERSION = 1
_FIELDS = {"v", "kind", "software", "question", "answer"}


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file that a calculation belongs to, by its hash; the file itself is nowhere.

    Attributes:
        what: "model", "data", "playbook" or "other".
        name: what its owner calls it, in one line; no path.
        sha256: of its bytes, 64 hex digits.
    """

    what: Annotated[str, check.one_of(tuple(WHATS))]
    name: Annotated[str, check.text()]
    sha256: Annotated[str, check.text()]

    def __post_init__(self) -> None:
        check.check_fields(self)
        object.__setattr__(self, "name", self.name.strip())
        object.__setattr__(self, "sha256", self.sha256.strip().lower())
        if len(self.name) > LONGEST_NAME or not self.name.isprintable():
            raise CheckError("name", f"one line of at most {LONGEST_NAME} characters", repr(self.name[:80]))
        if "\\" in self.name or self.name.startswith(("/", "~")):
            raise CheckError("name", "a name, not the path of a file", repr(self.name[:80]))
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise CheckError("sha256", "64 hex digits", repr(self.sha256[:80]))

    def to_json(self) -> dict[str, str]:
        """Plain JSON values."""
        return {"what": self.what, "name": self.name, "sha256": self.sha256}


def stamp_calculation(
    question: Question, *, delta_reason: str | None = None, references: Sequence[FileReference] = ()
) -> dict[str, Any]:
    """A calculation with the SHA-256 of its canonical JSON (RFC 8785).

    Args:
        question: what is asked, of one of ``KINDS``.
        delta_reason: why its owner chose this delta, in words; no number is read from it.
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
    owner = _owner(delta_reason, references)
    if owner:
        record["owner"] = owner
    return {"record": record, "sha256": codec.hash_canonical(record)}


def _owner(delta_reason: str | None, references: Sequence[FileReference]) -> dict[str, Any]:
    """What a record says in its owner's words; nothing for what is not said."""
    said: dict[str, Any] = {}
    if delta_reason is not None and delta_reason.strip():
        reason = check.text()(delta_reason=delta_reason).strip()
        if len(reason) > LONGEST_REASON or not all(each.isprintable() or each in "\n\t" for each in reason):
            raise CheckError("delta_reason", f"text of at most {LONGEST_REASON} characters", repr(reason[:80]))
        said["delta_reason"] = reason
    listed = check.sequence_of(check.instance_of(FileReference))(references=references)
    if len(listed) > MOST_REFERENCES:
        raise CheckError("references", f"at most {MOST_REFERENCES}", f"{len(listed)}")
    if listed:
        said["references"] = [one.to_json() for one in listed]
    return said


def is_calculation(document: Any) -> bool:
    """Whether plain JSON values are a stamped calculation, sound or not."""
    return isinstance(document, dict) and set(document) == {"record", "sha256"}


def check_calculation(document: Any, *, files: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """What a stamped calculation shows by itself, and beside files.

    Args:
        document: the whole of it, as plain JSON values.
        files: SHA-256 by the names of references, of files that are here.

    Raises:
        CheckError: it is no stamped calculation, or a file is given for a name that it does not know.
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
        return Finding("record/passed", Status.PASSED, f"The record is as it was stamped: SHA-256 {found}.")
    says = f"The record was changed after it was stamped: its SHA-256 is {found}, and not the one beside it."
    return Finding("record/changed", Status.FAILED, says)


def _check_answer(record: dict[str, Any]) -> Finding:
    made = str(record["software"])[:80]
    try:
        question = QUESTIONS[KINDS[record["kind"]]].parse(record["question"])
        again = codec.encode_canonical(question.answer())
    except codec.UNREADABLE as error:
        says = f"The question ({made}) cannot be asked again: {str(error)[:200]}"
        return Finding("calculation/not-reproducible", Status.FAILED, says)
    if again == codec.encode_canonical(record["answer"]):
        return Finding("calculation/passed", Status.PASSED, f"The answer ({made}) comes out again, every digit.")
    says = f"The answer ({made}) does not come out again with epsilog {version('epsilog')}."
    return Finding("calculation/mismatch", Status.FAILED, says)


def _check_references(record: dict[str, Any], files: dict[str, str]) -> list[Finding]:
    """What the owner says, if it is well formed, and each reference beside its file."""
    owner = record.get("owner", {})
    try:
        listed = [FileReference(**each) for each in owner.get("references", [])]
        if "owner" in record and _owner(owner.get("delta_reason"), listed) != owner:
            raise CheckError("owner", "delta_reason and references", "something else")
    except codec.UNREADABLE as error:
        says = f"What the owner says in it is not what a record may hold: {str(error)[:200]}"
        return [Finding("record/owner-fields-invalid", Status.FAILED, says)]
    unknown = set(files) - {one.name for one in listed}
    if unknown:
        raise CheckError("reference", "a name in the record", ", ".join(sorted(unknown))[:80])
    return [_check_reference(one, files.get(one.name)) for one in listed]


def _check_reference(one: FileReference, sha256: str | None) -> Finding:
    named = f"{one.name} ({WHATS[one.what]}, SHA-256 {one.sha256})"
    if sha256 is None:
        return Finding("references/not-checked", Status.NOT_CHECKED, f"No file was given to compare: {named}.")
    if sha256 == one.sha256:
        return Finding("references/passed", Status.PASSED, f"The file is the one that the record names: {named}.")
    return Finding("references/mismatch", Status.FAILED, f"The file is another one (SHA-256 {sha256}): {named}.")
