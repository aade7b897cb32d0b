"""A report of logs is a function of them, reveals no client, and claims what the logs support."""

import hashlib
import hmac
import json
import re

import numpy as np
import pytest
from tests.extent import amount
from tests.reports.test_verification import mutants, spelt
from tests.verification.logs.damaged import (
    DISHONEST,
    HIDDEN,
    ONLY_CLIENTS,
    ONLY_SIZES,
    in_every_round,
    realised,
    without,
)
from tests.verification.logs.simulated import MAPPING, T, Z, honest, save, write

from epsilog.reports import (
    PUBLICATION_FIELDS,
    build_report,
    check_schema,
    format_verified_claim,
    render_html,
    render_markdown,
    render_pdf,
    verification,
    verify_report,
)
from epsilog.reports.figures import format_risk_rows
from epsilog.reports.hazards import LOG_RISKS, SEEDED_RISK
from epsilog.reports.verification import check_rebuilt, verify_log_report
from epsilog.signing import VerifierKey
from epsilog.terms import CheckError, ConfigError, RecordError, Status
from epsilog.terms.formatting import format_upper
from epsilog.verification import SignatureCheck, TrustAnchors, bound_every_round, publish
from epsilog.verification.hidden import compute_alarm
from epsilog.verification.logs import verify_logs

SALT = "b2f6a3f05a4eac1d0d6a2f1f2f9b7c11"
EVIL = "x|y <script>alert(1)</script> [a](javascript:b) # head `c` *d* ${f} #eval"
KINDS = ("markdown", "summary")
PADDED = 'padding = { column = "padding", unit = "absolute", on = "sum" }\n'


def report_of(folder, run=None, **changes):
    return build_report(verify_logs(save(run or honest(), folder, **changes)))


def texts(report):
    """Every rendering that is text; of the page, what a reader sees."""
    page = render_html(report)
    return [*(render_markdown(report, kind=kind) for kind in KINDS), page[: page.index("<pre id=")]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs")
    save(honest(), path)
    return path


@pytest.fixture(scope="module")
def found(folder):
    return verify_logs(folder / "mapping.toml")


@pytest.fixture(scope="module")
def report(found):
    return build_report(found)


def test_a_report_of_logs_is_a_report(report, found):
    check_schema(report)
    assert report["kind"] == "log-report"
    assert report["claim"]["statement"] == format_verified_claim(found)
    assert report["claim"]["supported"] == found.evidence.claim.guarantee.epsilon
    assert report["verification"]["status"] == "passed"
    assert "attested by the ledger" not in render_html(report), "logs have no ledger"
    assert report["verification"]["false_alarm_rate"] == pytest.approx(
        1e-6 + compute_alarm(found.evidence.claim.guarantee), rel=1e-12
    )
    assert {one["field"] for one in report["publication"]["blank"]} == set(PUBLICATION_FIELDS)
    assert len(report["residual_risks"]) == len(LOG_RISKS) + 1
    with pytest.raises(ValueError, match="surplus"):
        check_schema(report | {"surplus": 1})
    spoilt = json.loads(json.dumps(report))
    del spoilt["verification"]["findings"][0]["claim_effect"]
    with pytest.raises(ValueError, match="effect"):
        check_schema(spoilt)


@pytest.mark.parametrize("page", [True, False])
def test_the_logs_rebuild_their_report(report, found, page):
    content = render_html(report).encode() if page else spelt(report)
    outcome = verify_log_report(content, found)
    ends = {one.code: one.status for one in outcome.findings}
    assert ends["report/passed"] == "passed"
    assert ("page/passed" in ends) == page
    assert outcome.status == "passed"
    assert outcome.claim == format_verified_claim(found)


@pytest.mark.slow
def test_every_changed_place_of_a_log_report_fails(report, found, monkeypatch):
    """All by comparison with the rebuilt report; at each change, some by verifying the document."""
    again = build_report(found)
    monkeypatch.setattr(verification, "build_report", lambda _: again)  # it is one report all along
    for count, (place, other) in enumerate(mutants(report)):
        assert check_rebuilt(other, again).status is Status.FAILED, place
        if count % amount(9, 1):
            continue
        try:
            outcome = verify_log_report(spelt(other), found)
        except RecordError:
            continue
        assert outcome.status == "failed", place
        assert outcome.claim == "Checks failed (report), so no guarantee is supported."
    page = render_html(report).replace("<h2>Limits</h2>", "<h2>No limits</h2>")
    assert "Checks failed (page)" in verify_log_report(page.encode(), found).claim


def test_other_documents_are_refused(report, found):
    for content in (b"{}", b'{"kind": "report"}', b"[]", b"no", b'{"kind": "log-report", "kind": "log-report"}'):
        with pytest.raises(RecordError):
            verify_log_report(content, found)
    with pytest.raises(RecordError, match="verify it with the mapping"):
        verify_report(spelt(report), None)


def test_one_client_more_or_less_changes_no_report_of_private_logs(report, tmp_path):
    """The logs are not public, and both runs are sound: what differs is a function of the data that no noise hides."""
    run = honest()
    run.norms = [norms[ids != 7] for ids, norms in zip(run.took_part, run.norms, strict=True)]
    run.took_part = [ids[ids != 7] for ids in run.took_part]
    less = report_of(tmp_path, run)
    without = lambda one: one | {"evidence": one["evidence"] | {"files": {}}}  # noqa: E731 - a mapping has no client
    assert without(less) == without(report)
    assert less["evidence"]["files"] == report["evidence"]["files"]
    assert less["evidence"]["unhashed_files"] == ["clients.csv", "enrollment.csv", "rounds.csv"]


def one_more_at(number):
    return lambda rows: [*rows, rows[0] | {"round": number}]


def up_to(last):
    return lambda rows: [row for row in rows if row["round"] <= last]


PADDED_ALONE = """
[padding]
file = "padding.csv"
format = "csv"
first_round = 1
columns = { round = "round", value = { column = "value", unit = "absolute", on = "sum" } }
"""


@pytest.mark.slow
@pytest.mark.parametrize("logs", ["with rounds", "without padding", "by lists", "by lists and padding"])
def test_private_lists_do_not_reveal_rounds_of_a_client(tmp_path, logs):
    """Neither where they name rounds that no other log has, nor where they alone say how many rounds there were."""
    mapping = MAPPING if logs == "with rounds" else ONLY_CLIENTS if "by" in logs else MAPPING.replace(PADDED, "")
    if "and padding" in logs:
        mapping += PADDED_ALONE
        write(tmp_path / "padding.csv", [{"round": 1, "value": v} for v in honest().padding[0].tolist()])
    changes = map(up_to, (T - 2, T - 1)) if "by" in logs else map(one_more_at, (T + 2, T + 3))
    told = [report_of(tmp_path, mapping=mapping, clients=each) for each in changes]
    assert told[0] == told[1]


@pytest.mark.slow
def test_private_logs_do_not_reveal_norms_through_clip_norms(tmp_path):
    """Clip norms that follow the largest update are functions of the data; so are rounds that have no row."""
    told = []
    for largest in (0.41, 0.43):
        run = honest()
        run.clip[9] = largest
        told.append(report_of(tmp_path, run))
    assert told[0] == told[1]
    assert "clipping/norm-mismatch" in {one["code"] for one in told[0]["verification"]["findings"]}
    told = [report_of(tmp_path, rounds=rows) for rows in (without(7), lambda rows: without(7)(without(9)(rows)))]
    assert told[0] == told[1]
    assert "rounds/out-of-order" in {one["code"] for one in told[0]["verification"]["findings"]}


def test_checks_on_people_state_their_outcome_without_figures(report, found):
    told = {one["check"]: one for one in report["verification"]["findings"]}
    for check in ("log", "population", "delta", "norms", "custody", "participation"):
        assert told[check]["message"] == "Checked on logs that this report does not contain: passed."
        assert told[check]["values"] == {}
    assert "on 3840 padding values" in told["noise"]["message"]
    assert {one.name for one in publish(found).what_ifs} == {"participation lists known"}


def test_public_logs_show_cohort_sizes_and_no_client(tmp_path):
    report = report_of(tmp_path, head="public = true\n")
    check_schema(report)
    assert report["observed"]["cohorts"] == [len(ids) for ids in honest().took_part]
    low, high = report["observed"]["control_limits"]
    assert low < min(report["observed"]["cohorts"]) < max(report["observed"]["cohorts"]) < high
    names = {one["name"] for one in report["verification"]["what_ifs"]}
    assert "worst end of the observed schedule (95%)" in names
    assert (
        report["evidence"]["files"]["rounds.csv"] == hashlib.sha256((tmp_path / "rounds.csv").read_bytes()).hexdigest()
    )
    told = {one["check"]: one for one in report["verification"]["findings"]}
    assert told["norms"]["values"] == told["custody"]["values"] == {}
    for text in texts(report):
        assert "an estimate, not a guarantee" in text or ": summary" in text
    assert "<svg" in render_html(report)


def test_a_salt_binds_logs_that_are_not_public(tmp_path):
    report = report_of(tmp_path, head=f'salt = "{SALT}"\n')
    evidence = report["evidence"]
    digest = hashlib.sha256((tmp_path / "rounds.csv").read_bytes())
    assert evidence["hmac_files"]["rounds.csv"] == hmac.new(SALT.encode(), digest.digest(), "sha256").hexdigest()
    assert evidence["unhashed_files"] == []
    assert set(evidence["files"]) == {"mapping.toml"}
    assert digest.hexdigest() not in json.dumps(report)
    assert SALT not in json.dumps(report)
    with pytest.raises(ConfigError, match="salt"):
        report_of(tmp_path, head='salt = "short"\n')


@pytest.mark.every(6)
@pytest.mark.slow
@pytest.mark.parametrize(("run", "code"), DISHONEST.values(), ids=DISHONEST)
def test_no_rendering_states_what_the_logs_refute(tmp_path, run, code):
    found = verify_logs(save(run, tmp_path, head="public = true\n"))
    report = build_report(found)
    check_schema(report)
    if found.status != "failed":
        assert report["claim"]["supported"] == found.evidence.claim.guarantee.epsilon
        return
    failed = {one.check for one in found.findings if one.status == "failed"}
    assert code.partition("/")[0] in failed
    sampler = failed <= {"participation", "population"}
    assert report["claim"]["supported"] == (
        pytest.approx(bound_every_round(found.evidence.claim).upper) if sampler else "inf"
    )
    assert report["verification"]["what_ifs"] == []
    assert bool(format_risk_rows(report)) == sampler
    claimed, known = (
        format_upper(found.evidence.claim.guarantee.epsilon),
        format_upper(bound_every_round(found.evidence.claim).upper),
    )
    for text in texts(report):
        for line in text.replace("\\", "").splitlines():
            if claimed in line:
                assert any(word in line for word in ("was claimed", "Recomputed")), line
            assert sampler or known not in line, line
        assert "The guarantee." not in text


def test_without_lists_the_unamplified_claim_remains(tmp_path):
    found = verify_logs(save(honest(), tmp_path, mapping=ONLY_SIZES))
    report = build_report(found)
    assert report["claim"]["supported"] == bound_every_round(found.evidence.claim).upper > 40
    assert report["risk_metrics"]["mu"] == pytest.approx(np.sqrt(T) / Z)
    for text in texts(report):
        assert format_upper(bound_every_round(found.evidence.claim).upper) in text.replace("\\", "")
    assert report["verification"]["status"] == "not checked"


def test_a_report_contains_triggered_playbook_steps(tmp_path):
    (tmp_path / "steps.toml").write_text('[steps]\n"divisor/realized-cohort-size" = "train again"\nrounds = "ask"\n')
    report = report_of(tmp_path, realised(honest()), head='playbook = "steps.toml"\n')
    digest = hashlib.sha256((tmp_path / "steps.toml").read_bytes()).hexdigest()
    (triggered,) = [one for one in report["verification"]["findings"] if "playbook" in one]
    assert triggered["playbook"] == {"steps": ["train again"], "sha256": digest}
    assert report["evidence"]["files"]["steps.toml"] == digest
    for text in texts(report)[::2]:
        plain = text.replace("\\", "")
        assert "divisor/realized-cohort-size: train again" in plain
        assert digest in plain


@pytest.mark.slow
def test_a_mapping_states_the_publication_fields(tmp_path):
    mapping = (
        MAPPING
        + f"""
[identity]
name = {json.dumps(EVIL)}
purpose = "Predict scores"
[reporting]
period = "2026-Q4"
organization = "Example Org"
publication_date = 2026-12-01
"""
    )
    report = report_of(tmp_path, mapping=mapping)
    assert report["identity"] == {"name": EVIL, "purpose": "Predict scores", "period": "2026-Q4"}
    assert report["publication"]["stated"] == {"organization": "Example Org", "publication_date": "2026-12-01"}
    for text in texts(report)[:2]:
        assert not re.search(r"(?<!\\)<|(?<!\\)\]\(|(?<!\\)`|\$\{", text)
    assert "<script>" not in render_html(report)
    assert "Example Org" in render_markdown(report)
    for wrong in ("region = 3", "colour = 'red'", "publication_date = 'soon'", "period = 3"):
        with pytest.raises(CheckError, match="reporting"):
            report_of(tmp_path, mapping=f"{MAPPING}\n[reporting]\n{wrong}\n")


@pytest.mark.slow
def test_a_pdf_is_set_from_it(report, tmp_path):
    pytest.importorskip("typst")
    for each in (report, report_of(tmp_path, in_every_round(honest()), head="public = true\n")):
        content = render_pdf(each)
        assert content.startswith(b"%PDF")
        assert len(content) > 15_000


def test_a_simulations_logs_speak_in_the_conditional(tmp_path):
    from tests.reports.drawn import make_plan, train

    train(tmp_path / "run", tmp_path / "ledger.db", make_plan())
    path = tmp_path / "run" / "mapping.toml"
    rounds = '[rounds]\nfile = "rounds.jsonl"\nformat = "jsonl"\nat = "term"\nfirst_round = 1\n'
    path.write_text(
        f'[claim]\nplan = "plan.json"\n{rounds}[rounds.columns]\nround = "round"\nclip_norm = "clip_norm"\n'
    )
    report = build_report(verify_logs(path))
    check_schema(report)
    assert report["simulation"]
    assert "This run is a simulation" in report["claim"]["statement"]
    assert "protects nobody" in render_markdown(report, kind="summary")
    assert not any(line.startswith(SEEDED_RISK.description[:10].capitalize()) for line in report["residual_risks"])


def test_a_report_of_logs_can_be_signed(report, found):
    content, keys = spelt(report), (VerifierKey("example.org/privacy", bytes(32)),)
    for signed, verdict in (
        ((SignatureCheck("report"),), "not checked"),
        ((SignatureCheck("report", by=(keys[0].label,)),), found.status),
        ((SignatureCheck("report", claimed=("another",)),), "failed"),
    ):
        outcome = verify_log_report(content, found, trust=TrustAnchors(keys=keys), signed=signed)
        assert outcome.status == verdict
        assert ("Checks failed (signature)" in outcome.claim) == (verdict == "failed")


@pytest.mark.parametrize("public", [True, False])
def test_a_report_lists_the_filters_of_its_logs(tmp_path, public):
    """A filter of the mapping hides that one client took part in every round; the report names it."""
    head = f"public = {str(public).lower()}\n"
    report = build_report(verify_logs(save(honest(), tmp_path, head=head, **HIDDEN)))
    left_out = T if public else None
    told = {"section": "participation", "file": "clients.csv", "where": {"kind": "used"}, "rows_left_out": left_out}
    assert report["observed"]["filters"] == [told]
    assert report["verification"]["status"] != "passed"
    assert "log/rows-excluded" in {one["code"] for one in report["verification"]["findings"]}
    check_schema(report)
    how_many = "60: all" if public else "a number that is not public: all"
    for text in texts(report)[::2]:
        assert "rows of clients.csv that participation leaves out" in text
        assert f"{how_many} without kind = " in text


def test_rows_of_another_kind_may_be_left_out(tmp_path):
    """What a filter leaves out and could not be read as such a row anyway is named, and no warning."""
    other = [{"round": "", "client": "", "norm": "", "at": "", "kind": "evaluated"}]
    kept = {
        "clients": lambda rows: [row | {"kind": "used"} for row in rows] + other * 5,
        "mapping": MAPPING.replace("[participation.columns]", 'where = { kind = "used" }\n[participation.columns]'),
    }
    found = verify_logs(save(honest(), tmp_path, **kept))
    assert found.status == "passed"
    (read,) = [one for one in found.findings if one.check == "log"]
    assert "5 excluded by the filter (kind = 'used')" in read.message
    assert [one.left_out for one in found.evidence.logs.summaries if one.where] == [5]
