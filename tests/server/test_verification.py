"""A report is checked over HTTP as `epsilog verify` checks it: what was changed differs, what is none is refused."""

import json

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog import plan
from epsilog.ledger import Checkpoint, iterate_verified_documents, open_ledger, read_ledger, write_bundle
from epsilog.reports import compare_rebuilt, verify_report
from epsilog.reports.rendering import extract_document
from epsilog.server import middleware, responses, verification, worker
from epsilog.server.montecarlo import _SOFTWARE
from epsilog.signing import Envelope, SigningKey
from epsilog.terms import CheckError, RecordError, codec


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
    told, expected = found.json(), verify_report(text.encode(), None)
    worker.ROUTES["/verify"].response.model_validate(told, strict=False)
    assert (told["status"], told["supported_claim"]) == (expected.status, expected.claim)
    assert told["findings"] == [json.loads(json.dumps(one.to_json())) for one in expected.findings]
    assert not any(part["differing"] for part in told["parts"])
    assert {part["part"] for part in told["parts"]} == set(json.loads((run / "report.json").read_text()))
    assert sum(part["fields"] for part in told["parts"]) > 300


@pytest.mark.slow
def test_what_was_changed_is_named_with_both_values(site, run):
    report = codec.parse_json((run / "report.json").read_bytes())
    report["claim"]["epsilon"]["upper"] = 0.1
    report["surplus"] = 1
    del report["limits"]
    told = site.post("verify", {"report": codec.encode_canonical(report).decode()}).json()
    assert told["status"] == "failed"
    assert "no guarantee is supported" in told["supported_claim"]
    differing = {place: (says, again) for part in told["parts"] for place, says, again in part["differing"]}
    assert differing["claim/epsilon/upper"][0] == "0.1"
    assert float(differing["claim/epsilon/upper"][1]) > 0.6
    assert differing["surplus"] == ("1", "nothing")
    assert differing["limits"][0] == "nothing"
    assert len(differing) == 3
    report["rounds"] += [0] * 5000
    told = site.post("verify", {"report": codec.encode_canonical(report).decode()}).json()
    (rounds,) = (part for part in told["parts"] if part["part"] == "rounds")
    assert len(rounds["differing"]) == 1000  # of many, the first


def test_what_is_no_report_is_refused_in_words(site, run):
    page = (run / "report.html").read_text()
    for text in ("", "{}", "[1]", "nothing", "<html></html>", page.replace("&#34;v&#34;:2", "", 1), '{"a": NaN}'):
        found = site.post("verify", {"report": text})
        assert found.status == 422, text[:40]
        assert "report" in found.json()["detail"]
    assert site.post("verify", {"report": 3}).status == 422
    assert site.post("verify", {}).status == 422


def test_a_report_may_be_longer_than_other_questions_and_not_endless(site):
    assert site.post("verify", raw=b" " * (middleware.MAX_BODY_BYTES + 1)).status != 413
    assert site.post("verify", raw=b" " * (middleware.MAX_REPORT_BODY_BYTES + 1)).status == 413
    assert site.post("federated", raw=b" " * (middleware.MAX_BODY_BYTES + 1)).status == 413


def test_what_carries_no_evidence_cannot_be_compared(run):
    report = codec.parse_json(extract_document((run / "report.html").read_bytes()))
    assert [part.part for part in compare_rebuilt(codec.encode_canonical(report))] == list(report)
    report["evidence"]["plan"]["scheme"]["rounds"] = -1
    with pytest.raises(RecordError):
        compare_rebuilt(codec.encode_canonical(report))


@pytest.fixture(scope="module")
def signed(run):
    """What an owner hands out beside the report: a signed bundle of the ledger, signatures, and an older checkpoint."""
    pytest.importorskip("cryptography")
    key, folder = SigningKey.create("example.org/claims"), run.parent
    with read_ledger(folder / "ledger.db") as books:
        documents = list(iterate_verified_documents(books))
    write_bundle(documents, folder / "signed.bundle", origin="o", key=key)
    report = (run / "report.json").read_text()
    return {
        "report": report,
        "bundle": (folder / "signed.bundle").read_text(),
        "signature": str(Envelope.over("report.json", report.encode(), key)),
        "checkpoint": Checkpoint.over(documents[:2], origin="o").note(key).in_one_line(),
        "key": f"{key.verifier}\n",
    }


def judged(site, given):
    told = site.post("verify", given)
    assert told.status == 200, told.body
    found = told.json()
    return found["status"], {one["code"]: one["status"] for one in found["findings"]}, found["supported_claim"]


def test_a_report_and_its_bundle_are_checked_as_the_command_checks_them(site, signed):
    verdict, found, stands = judged(site, signed)
    assert verdict == "passed"  # custody stays with the owner, who attests it
    assert "rests on the curator's word" in stands
    assert {found[code] for code in ("ledger/passed", "signature/passed", "checkpoint/passed", "report/passed")} == {
        "passed"
    }
    assert "No ledger" not in stands
    alone = judged(site, {"report": signed["report"]})[1]
    assert "ledger/passed" not in alone
    assert "failed" not in {*found.values(), *alone.values()}


def test_a_bundle_alone_is_worked_out_entry_by_entry(site, signed):
    kept = {name: signed[name] for name in ("bundle", "checkpoint", "key")}
    verdict, found, stands = judged(site, kept)
    assert (verdict, stands) == ("passed", "")
    assert {"ledger/passed", "costs/passed", "signature/passed"} <= found.keys()
    assert judged(site, {"bundle": signed["bundle"]})[0] == "not checked"  # nobody's signature counts


@pytest.mark.parametrize("what", ["bundle", "report", "signature", "checkpoint", "key"])
def test_whatever_of_it_is_another_is_found(site, signed, what, tmp_path):
    with open_ledger(tmp_path / "other.db") as books:
        books.create_budget("acme", kind="pure", epsilon="2")
        books.create_budget("acme/x", kind="pure", epsilon="1")
        documents = list(iterate_verified_documents(books))
    key = SigningKey.create("example.org/claims")
    write_bundle(documents, tmp_path / "other.bundle", origin="o", key=key)
    others = {
        "bundle": signed["bundle"].replace('"verb":"started"', '"verb":"expired"', 1),
        "report": signed["report"].replace('"adaptive_clip":false', '"adaptive_clip":true', 1),
        "signature": str(Envelope.over("report.json", b"{}", key)),
        "checkpoint": Checkpoint.over(documents, origin="o").note(key).in_one_line(),
        "key": str(key.verifier),
    }
    assert others[what] != signed[what]
    assert judged(site, signed | {what: others[what]})[0] == "failed"
    if what == "bundle":
        assert judged(site, signed | {"bundle": (tmp_path / "other.bundle").read_text()})[0] == "failed"
        assert judged(site, {"bundle": others["bundle"]})[0] == "failed"


def test_what_cannot_be_read_is_named_and_a_private_key_is_not_repeated(site, signed):
    for field, text in {
        "bundle": "no bundle",
        "checkpoint": "SECRET WORDS",
        "key": "SECRET WORDS",
        "signature": '{"payload": "SECRET WORDS"}',
    }.items():
        told = site.post("verify", signed | {field: text})
        assert told.status == 422, field
        assert field in told.json()["detail"]
        assert b"SECRET" not in told.body
    for given, says in (
        ({}, "report must be given, or a bundle"),
        (
            {"report": signed["report"], "checkpoint": signed["checkpoint"]},
            "checkpoint must be absent without a bundle",
        ),
        ({"bundle": signed["bundle"], "signature": signed["signature"]}, "signature must be absent without a report"),
    ):
        told = site.post("verify", given)
        assert told.status == 422
        assert says in told.json()["detail"]


RUN = {"population": 50_000, "cohort_size": 500, "rounds": 20, "noise_multiplier": 1.2}


def test_a_record_carries_its_owners_words_and_is_checked():
    said = {"delta_reason": "below 1/N", "references": [{"what": "data", "name": "visits", "sha256": "ab" * 32}]}
    asked = RUN | {"cohort_size": 50_000}  # everybody: a Gaussian, at once

    def record(path, ask):
        route = worker.ROUTES[path]
        return route.answer(route.request.model_validate(ask))

    stamped, plain = record("/federated/record", asked | said), record("/federated/record", asked)
    assert stamped["record"].pop("owner") == said
    assert stamped["record"] == plain["record"]
    assert plain["record"]["question"] == plan.QUESTIONS["/federated"].parse(asked).to_json()
    assert (plain["record"]["v"], plain["record"]["software"]) == (1, _SOFTWARE)
    query = {"epsilon": 1.0, "queries": 3}
    queries = record("/queries/record", query | said)
    assert queries["record"]["owner"] == said
    assert queries["record"]["question"] == plan.QUESTIONS["/queries"].parse(query).to_json()
    wrong = [said["references"][0], said["references"][0] | {"name": "/home/me/visits"}]
    with pytest.raises(CheckError, match=r"references\[1\].name must be a name, not a path"):
        record("/federated/record", asked | {"references": wrong})
    for document, codes, verdict in [
        (plain, ["record/passed", "calculation/passed"], "passed"),
        (queries, ["record/passed", "calculation/passed", "references/not-checked"], "not checked"),
        (plain | {"sha256": "0" * 64}, ["record/changed", "calculation/passed"], "failed"),
    ]:
        found = verification.verify_route(verification.VerifyRequest(record=json.dumps(document)))
        responses.ReportVerificationModel.model_validate_json(json.dumps(found))
        assert ([one["code"] for one in found["findings"]], found["status"]) == (codes, verdict)
    for other in ("{", "[]", '{"record": 3, "sha256": ""}', '{"sha256": "", "sha256": ""}'):
        with pytest.raises(CheckError, match="record must be a stamped calculation"):
            verification.verify_route(verification.VerifyRequest(record=other))
    with pytest.raises(CheckError, match="record must be alone"):
        verification.verify_route(verification.VerifyRequest(record=json.dumps(plain), key="x"))


@pytest.mark.slow
def test_the_example_holds_on_the_curators_word_and_an_edited_one_does_not(site):
    example = site.post("verify/example", {}).json()
    report = json.loads(example["report"])
    told = site.post("verify", example).json()
    assert (told["answer"], told["simulation"]) == ("Would hold, on the curator’s word", True)
    kinds = told["evidence"]
    assert "The charge of this run" in kinds["recomputed"]
    assert "Updates were clipped" in kinds["attested"]
    assert kinds["contradicted"] == []
    report["claim"]["guarantee"]["epsilon"] = 3
    edited = site.post("verify", example | {"report": json.dumps(report)}).json()
    assert edited["answer"] == "Does not hold, failed: report"
    assert edited["evidence"]["contradicted"] == ["report: The report differs from its evidence."]
    assert edited["evidence"]["attested"] == []
    alone = site.post("verify", {"report": example["report"]}).json()
    assert alone["answer"] == "Cannot tell, missing: ledger"
    assert "Whether a run was charged" in alone["evidence"]["unknown"]
    assert not {"The charge of this run", "The ledger’s entries"} & set(alone["evidence"]["recomputed"])


def test_a_bundle_alone_lists_its_checks(site):
    told = site.post("verify", {"bundle": site.post("verify/example", {}).json()["bundle"]}).json()
    assert told["evidence"]["recomputed"] == ["Checks passed: ledger, costs"]
    assert told["evidence"]["unknown"]  # its signature
    assert told["simulation"] is False
