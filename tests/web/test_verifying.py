"""A report is checked over HTTP as `epsilog verify` checks it: what was changed differs, what is none is refused."""

import json

import pytest
from tests.prove.drawn import finish, make_plan

from epsilog.prove import compare, document_of, examine_report
from epsilog.terms import RecordsError, codec
from epsilog.web import security, worker


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given") / "run"
    finish(folder, folder.parent / "ledger.db", make_plan())
    return folder


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("name", ["report.json", "report.html"])
def test_a_report_comes_out_again(site, run, name):
    text = (run / name).read_text()
    found = site.post("verify", {"report": text})
    assert found.status == 200
    told, expected = found.json(), examine_report(text.encode(), None)
    worker.ALL["/verify"].answers.model_validate(told, strict=False)
    assert (told["verdict"], told["stands"]) == (expected.verdict, expected.stands)
    assert told["findings"] == [json.loads(json.dumps(one.to_json())) for one in expected.outcome.findings]
    assert not any(part["differing"] for part in told["parts"])
    assert {part["part"] for part in told["parts"]} == set(json.loads((run / "report.json").read_text()))
    assert sum(part["fields"] for part in told["parts"]) > 300


def test_what_was_changed_is_named_with_both_values(site, run):
    report = codec.parse((run / "report.json").read_bytes())
    report["claim"]["epsilon"]["upper"] = 0.1
    report["surplus"] = 1
    del report["limits"]
    told = site.post("verify", {"report": codec.canonical(report).decode()}).json()
    assert told["verdict"] == "failed"
    assert "Nothing is claimed" in told["stands"]
    differing = {place: (says, again) for part in told["parts"] for place, says, again in part["differing"]}
    assert differing["claim/epsilon/upper"][0] == "0.1"
    assert float(differing["claim/epsilon/upper"][1]) > 0.6
    assert differing["surplus"] == ("1", "nothing")
    assert differing["limits"][0] == "nothing"
    assert len(differing) == 3


def test_of_many_differences_the_first_are_told(site, run):
    report = codec.parse((run / "report.json").read_bytes())
    report["rounds"] += [0] * 5000
    told = site.post("verify", {"report": codec.canonical(report).decode()}).json()
    assert told["verdict"] == "failed"
    (rounds,) = (part for part in told["parts"] if part["part"] == "rounds")
    assert len(rounds["differing"]) == 1000


def test_what_is_no_report_is_refused_in_words(site, run):
    page = (run / "report.html").read_text()
    for text in ("", "{}", "[1]", "nothing", "<html></html>", page.replace("&#34;v&#34;:0", "", 1), '{"a": NaN}'):
        found = site.post("verify", {"report": text})
        assert found.status == 422, text[:40]
        assert "report" in found.json()["detail"]
    assert site.post("verify", {"report": 3}).status == 422
    assert site.post("verify", {}).status == 422


def test_a_report_may_be_longer_than_other_questions_and_not_endless(site):
    assert site.post("verify", raw=b" " * (security.LONGEST_BODY + 1)).status != 413
    assert site.post("verify", raw=b" " * (security.LONGEST_REPORT_BODY + 1)).status == 413
    assert site.post("federated", raw=b" " * (security.LONGEST_BODY + 1)).status == 413


def test_what_carries_no_evidence_cannot_be_compared(run):
    report = codec.parse(document_of((run / "report.html").read_bytes()))
    assert [part.part for part in compare(codec.canonical(report))] == list(report)
    report["evidence"]["plan"]["scheme"]["rounds"] = -1
    with pytest.raises(RecordsError):
        compare(codec.canonical(report))
