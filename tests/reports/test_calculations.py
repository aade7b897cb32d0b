"""Stamped calculations: changes are detected, answers are recomputed, and files are named by hash alone."""

import copy
import hashlib
import json

import pytest

from epsilog import reports
from epsilog.plan import QUESTIONS
from epsilog.reports import FileReference
from epsilog.terms import CheckError, Status, codec

REASON = "our policy says 1e-7\nin \u00a7 4; N is 50,000"
DATA = FileReference("data", "visits-2026.csv", hashlib.sha256(b"visits").hexdigest())
MODEL = FileReference("model", "org/model:v3", "AB" * 32)


QUESTION = {
    "epsilon": 1.0,
    "queries": 3,
    "mechanism": "gaussian",
    "population": 1000,
    "weights": [1.0, 2.0, 1.0],
    "magnitude": 5.0,
}


def stamped(**said):
    return reports.stamp_calculation(QUESTIONS["/queries"].parse(QUESTION), **said)


def outcome(document, **given):
    return {found.code: found.status for found in reports.check_calculation(document, **given)}


def test_a_record_without_remarks_has_no_owner_field():
    found = stamped(delta_reason=" ")
    assert set(found["record"]) == {"v", "kind", "software", "question", "answer"}
    assert found["sha256"] == codec.hash_canonical(found["record"])
    assert outcome(found) == {"record/passed": Status.PASSED, "calculation/passed": Status.PASSED}
    assert reports.is_calculation(found)
    assert not reports.is_calculation(found["record"])


def test_owner_remarks_are_kept_and_change_no_number():
    found = stamped(delta_reason=REASON, references=[DATA, MODEL])
    assert found["record"]["owner"] == {
        "delta_reason": REASON,
        "references": [
            {"what": "data", "name": "visits-2026.csv", "sha256": DATA.sha256},
            {"what": "model", "name": "org/model:v3", "sha256": "ab" * 32},
        ],
    }
    assert found["record"]["answer"] == stamped()["record"]["answer"]
    again = json.loads(json.dumps(found))
    assert [one.code for one in reports.check_calculation(again)] == [
        "record/passed",
        "calculation/passed",
        *["references/not-checked"] * 2,
    ]
    assert outcome(again, files={DATA.name: DATA.sha256, MODEL.name: MODEL.sha256})["references/passed"] == "passed"
    assert outcome(again, files={DATA.name: "0" * 64})["references/mismatch"] == "failed"
    with pytest.raises(CheckError, match="reference must be a name in the record, got other"):
        outcome(again, files={"other": DATA.sha256})


def places(value, path=()):
    """The place of every leaf."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [place for key, each in inner for place in places(each, (*path, key))]
    return found or [path]


PLACES = [
    place
    for place in places(stamped(delta_reason=REASON, references=[DATA])["record"])
    if place[0] != "answer" or place[1] in ("epsilon", "remaining", "delta_grade", "findings")
]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_any_change_fails(place):
    document = stamped(delta_reason=REASON, references=[DATA])
    changed = copy.deepcopy(document)
    *path, last = place
    where = changed["record"]
    for step in path:
        where = where[step]
    where[last] = {str: str(where[last]) + "0", int: 7, float: 7.5, type(None): 7}[type(where[last])]
    if place in {("v",), ("kind",)}:  # other formats and kinds are refused
        with pytest.raises(CheckError):
            outcome(changed)
        return
    assert outcome(changed)["record/changed"] is Status.FAILED
    changed["sha256"] = codec.hash_canonical(changed["record"])  # a new stamp may change anything but the answer
    found = outcome(changed)
    assert "record/changed" not in found
    assert (Status.FAILED in found.values()) == (place[0] in {"question", "answer"} or place[-1] in {"what", "sha256"})


@pytest.mark.parametrize(
    ("owner", "code"),
    [
        ({"delta": 0.5}, "record/owner-fields-invalid"),
        ({"delta_reason": 0.5}, "record/owner-fields-invalid"),
        ({"delta_reason": "x" * 1001}, "record/owner-fields-invalid"),
        ({"references": [{"what": "data", "name": "x"}]}, "record/owner-fields-invalid"),
        ({"references": [{"what": "data", "name": "/home/me/x", "sha256": "0" * 64}]}, "record/owner-fields-invalid"),
    ],
)
def test_invalid_owner_fields_fail(owner, code):
    record = stamped()["record"] | {"owner": owner}
    assert outcome({"record": record, "sha256": codec.hash_canonical(record)})[code] is Status.FAILED


def test_a_question_that_cannot_be_parsed_fails():
    record = stamped()["record"] | {"question": {}}
    assert (
        outcome({"record": record, "sha256": codec.hash_canonical(record)})["calculation/not-reproducible"]
        is Status.FAILED
    )


@pytest.mark.parametrize("document", [None, [], {}, {"record": {}, "sha256": ""}, {"record": 3, "sha256": ""}])
def test_other_documents_are_refused(document):
    with pytest.raises(CheckError, match="record must be a stamped calculation"):
        outcome(document)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"what": "paper"}, "what must be one of model"),
        ({"name": " "}, "name must be a string that is not blank"),
        ({"name": "x" * 121}, "name must be one line"),
        ({"name": "a\nb"}, "name must be one line"),
        ({"name": "/home/me/visits.csv"}, "name must be a name, not a path"),
        ({"name": "C:\\me\\visits.csv"}, "name must be a name, not a path"),
        ({"name": "~/visits.csv"}, "name must be a name, not a path"),
        ({"sha256": "ab"}, "sha256 must be 64 hex digits"),
        ({"sha256": "g" * 64}, "sha256 must be 64 hex digits"),
    ],
)
def test_a_reference_has_a_name_and_a_hash(fields, wrong):
    with pytest.raises(CheckError, match=f"^{wrong}"):
        FileReference(**{"what": "data", "name": "visits", "sha256": "0" * 64} | fields)


def test_owner_remarks_are_bounded():
    for said, wrong in [
        ({"delta_reason": "x" * 1001}, "delta_reason must be text of at most 1000"),
        ({"delta_reason": "as\x1b[2J agreed"}, "delta_reason must be text"),
        ({"references": [DATA] * 21}, "references must be at most 20"),
        ({"references": [None]}, r"references\[0\] must be a FileReference"),
    ]:
        with pytest.raises(CheckError, match=f"^{wrong}"):
            stamped(**said)
    with pytest.raises(CheckError, match="question must be one of /federated, /queries, got '/sensitivity'"):
        reports.stamp_calculation(QUESTIONS["/sensitivity"].parse({"query": "count"}))
