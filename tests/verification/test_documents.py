"""`verify` tells what it was given by content, and names what it cannot read."""

import pytest

from epsilog.terms import Finding, RecordsError, Verdict
from epsilog.verification import OwnerWord, identify, overall
from epsilog.verification.owner import PRIVATE


def test_identify_by_content(tmp_path):
    with pytest.raises(RecordsError, match="cannot be read: No such file"):
        identify(tmp_path / "nothing")
    with pytest.raises(RecordsError, match=r"folder without plan.json"):
        identify(tmp_path)
    (tmp_path / "x").write_bytes(b'{"kind": "plan"}')
    with pytest.raises(RecordsError, match="neither a run folder, nor a report, nor a ledger"):
        identify(tmp_path / "x")
    (tmp_path / "x").write_bytes(b'{"kind": "report"}')
    assert identify(tmp_path / "x") == "report"
    (tmp_path / "plan.json").write_text("{}")
    assert identify(tmp_path) == "run"
    from epsilog.ledger import open_ledger

    open_ledger(tmp_path / "odd-name.txt").close()
    assert identify(tmp_path / "odd-name.txt") == "ledger"


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
    assert overall([Finding("x/said", Verdict(v), "said") for v in verdicts]) == worst


def test_a_finding_that_lacks_what_nobody_requires_does_not_count():
    absent = Finding("x/said", Verdict.NOT_CHECKED, "said", lacks="custody")
    passed = Finding("y/said", Verdict.PASSED, "said")
    assert overall([absent, passed]) == "not checked"
    assert overall([absent, passed], required=("custody",)) == "not checked"
    assert overall([absent, passed], required=("ledger",)) == "passed"
    assert overall([absent], required=()) == "not checked"


def test_what_is_neither_is_refused_by_its_path(tmp_path):
    for content, says in (
        (b'{"kind": "report"', "nor a checkpoint: "),
        (b"no document", "nor a checkpoint$"),
        (b"[]", "nor a checkpoint$"),
        (b"", "nor a checkpoint$"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(RecordsError, match=says):
            identify(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"<!DOCTYPE html><p>")
    assert identify(tmp_path / "x") == "page"
    with pytest.raises(RecordsError, match="it is no file"):
        identify(type(tmp_path)("/dev/null"))


def test_only_an_owners_word_of_this_version_is_read():
    word = OwnerWord({"epsilog": "0.0.1"}, dict.fromkeys(PRIVATE, Verdict.PASSED))
    document = word.to_json()
    assert OwnerWord.from_json(document) == word
    for other in (document | {"v": 1}, document | {"kind": "plan"}, {}, None, [], "owner-word"):
        with pytest.raises(ValueError, match="must be a version 0 owner's word"):
            OwnerWord.from_json(other)
    with pytest.raises(ValueError, match="private must name custody, norms, participation"):
        OwnerWord.from_json(document | {"private": {"custody": "passed"}})
    with pytest.raises(ValueError, match="excellent"):
        OwnerWord.from_json(document | {"private": dict.fromkeys(PRIVATE, "excellent")})
    with pytest.raises(ValueError, match="epsilog"):
        OwnerWord.from_json(document | {"software": {"epsilog": ""}})
