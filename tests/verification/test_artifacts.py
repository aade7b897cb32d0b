"""`verify` tells what it was given by content, and names what it cannot read."""

import pytest

from epsilog.terms import Finding, RecordError, Status
from epsilog.verification import OwnerAttestation, identify_artifact
from epsilog.verification.outcome import combine_statuses
from epsilog.verification.owner_attestation import CUSTODY_CHECKS


def test_identify_by_content(tmp_path):
    with pytest.raises(RecordError, match="cannot be read: No such file"):
        identify_artifact(tmp_path / "nothing")
    with pytest.raises(RecordError, match=r"folder without plan.json"):
        identify_artifact(tmp_path)
    (tmp_path / "x").write_bytes(b'{"kind": "plan"}')
    with pytest.raises(RecordError, match="neither a run folder, nor a report, nor a ledger"):
        identify_artifact(tmp_path / "x")
    (tmp_path / "x").write_bytes(b'{"kind": "report"}')
    assert identify_artifact(tmp_path / "x") == "report"
    (tmp_path / "plan.json").write_text("{}")
    assert identify_artifact(tmp_path) == "run"
    from epsilog.ledger import open_ledger

    open_ledger(tmp_path / "odd-name.txt").close()
    assert identify_artifact(tmp_path / "odd-name.txt") == "ledger"


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ((), "not checked"),
        (("passed", "not checked"), "not checked"),
        (("warned", "not checked"), "not checked"),
        (("passed", "warned"), "warned"),
        (("warned", "failed", "passed"), "failed"),
        (("not checked",), "not checked"),
    ],
)
def test_the_worst_finding_decides(verdicts, worst):
    assert combine_statuses([Finding("x/said", Status(v), "said") for v in verdicts]) == worst


def test_a_finding_that_lacks_what_nobody_requires_does_not_count():
    absent = Finding("x/said", Status.NOT_CHECKED, "said", missing_evidence="custody")
    passed = Finding("y/said", Status.PASSED, "said")
    assert combine_statuses([absent, passed]) == "not checked"
    assert combine_statuses([absent, passed], required=("custody",)) == "not checked"
    assert combine_statuses([absent, passed], required=("ledger",)) == "passed"
    assert combine_statuses([absent], required=()) == "not checked"


def test_what_is_neither_is_refused_by_its_path(tmp_path):
    for content, says in (
        (b'{"kind": "report"', "nor a checkpoint: "),
        (b"no document", "nor a checkpoint$"),
        (b"[]", "nor a checkpoint$"),
        (b"", "nor a checkpoint$"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(RecordError, match=says):
            identify_artifact(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"<!DOCTYPE html><p>")
    assert identify_artifact(tmp_path / "x") == "page"
    with pytest.raises(RecordError, match="it is no file"):
        identify_artifact(type(tmp_path)("/dev/null"))


def test_only_an_owners_word_of_this_version_is_read():
    word = OwnerAttestation({"epsilog": "0.0.1"}, dict.fromkeys(CUSTODY_CHECKS, Status.PASSED))
    document = word.to_json()
    assert OwnerAttestation.from_json(document) == word
    for other in (document | {"v": 0}, document | {"kind": "plan"}, {}, None, [], "owner-attestation"):
        with pytest.raises(ValueError, match="must be a version 1 owner attestation"):
            OwnerAttestation.from_json(other)
    with pytest.raises(ValueError, match="custody_checks must name custody, norms, participation"):
        OwnerAttestation.from_json(document | {"custody_checks": {"custody": "passed"}})
    with pytest.raises(ValueError, match="excellent"):
        OwnerAttestation.from_json(document | {"custody_checks": dict.fromkeys(CUSTODY_CHECKS, "excellent")})
    with pytest.raises(ValueError, match="epsilog"):
        OwnerAttestation.from_json(document | {"software": {"epsilog": ""}})
