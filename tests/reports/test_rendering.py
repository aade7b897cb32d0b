"""Renderings state what the report states, no more, and interpret no quoted text as markup."""

import json
import re
from dataclasses import replace

import pytest
from tests.reports.drawn import EVIL, drawn, finish, make_plan

from epsilog.plan.sentences import list_group_rows
from epsilog.reports import (
    check_schema,
    render_html,
    render_markdown,
    render_pdf,
    render_verdict,
)
from epsilog.reports.figures import format_risk_rows
from epsilog.terms import CheckError, Finding, Status, codec
from epsilog.terms.formatting import format_upper
from epsilog.verification import Playbook, read_evidence, verify_evidence


def test_missing_bounds_of_groups_are_named(report):
    spoilt = json.loads(json.dumps(report))
    points = spoilt["risk_metrics"]["groups"]
    points[1] |= {"epsilon": "inf", "lower": "inf"}
    points[2] |= {"epsilon": None, "lower": None}
    spoilt["risk_metrics"]["fit"] = None
    check_schema(spoilt)
    _, two, eight, _ = list_group_rows(spoilt["risk_metrics"])
    assert two == ("2", "no finite bound", "no finite bound")
    assert eight == ("8", "not computed; assume no protection", "-")
    for text in (render_html(spoilt), render_markdown(spoilt)):
        assert all(upper in text and lower in text for _, upper, lower in list_group_rows(spoilt["risk_metrics"]))
    assert "has no proven protection" in render_markdown(spoilt, kind="summary")
    points[1] |= {"epsilon": 0.1}
    points[1] |= {"lower": -1.0}
    with pytest.raises(ValueError, match=r"^risk_metrics"):
        check_schema(spoilt)


def test_a_simulation_speaks_in_the_conditional(report, real):
    assert report["claim"]["statement"].startswith("This run is a simulation, so its noise protects nobody. With fresh")
    assert real["claim"]["statement"].startswith("The released models are (")
    for kind in ("markdown", "summary"):
        assert "protects nobody" in render_markdown(report, kind=kind)
        assert "protects nobody" not in render_markdown(real, kind=kind)


@pytest.mark.parametrize("kind", ["markdown", "summary"])
def test_markdown_shows_the_bounds_rounded_up_and_the_fingerprint(report, kind):
    text = render_markdown(report, kind=kind)
    assert format_upper(report["claim"]["epsilon"]["upper"]) in text
    assert format_upper(100 * report["risk_metrics"]["attack"][-1]["tpr"], 3) + "%" in text
    assert codec.hash_canonical(report) in text
    assert render_markdown(report, kind=kind) == text
    assert not re.search(r"\n{3}|None|Undefined", text)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_quoted_text_is_no_markup(real):
    spoilt = json.loads(json.dumps(real))
    for name in ("name", "purpose", "owner", "period"):
        spoilt["identity"][name] = EVIL
    spoilt["claim"]["delta_rationale"] = spoilt["budget"]["scope"] = EVIL
    for kind in ("markdown", "summary"):
        text = render_markdown(spoilt, {"prior_releases": EVIL}, kind=kind)
        assert not re.search(r"(?<!\\)<|(?<!\\)\]\(|(?<!\\)`|\$\{", text)
        assert not any(line.startswith("# head") for line in text.splitlines())
    assert "<script>" not in render_html(spoilt)


def test_a_pdf_is_set_from_the_report_and_reads_no_markup(real):
    pytest.importorskip("typst")
    spoilt = json.loads(json.dumps(real))
    spoilt["identity"]["purpose"] = EVIL
    content = render_pdf(spoilt, {"region": "Europe"})
    assert content.startswith(b"%PDF")
    assert len(content) > 20_000
    with pytest.raises(CheckError, match="organization"):
        render_pdf(spoilt, {"organization": "Another Org"})


def everybody(scheme):
    """Records of a run in which all clients took part in every round."""
    public, private = drawn(scheme, 1)
    return public, [replace(one, participants=tuple(range(scheme.clients))) for one in private]


@pytest.mark.parametrize(
    ("records", "left"),
    [(lambda scheme: drawn(scheme, 1, share=0.3), "none"), (everybody, "unamplified")],
    ids=["weak noise", "no sampling"],
)
def test_no_rendering_states_what_the_records_do_not_support(tmp_path, records, left):
    plan = make_plan(simulation=False)
    finish(tmp_path / "run", tmp_path / "ledger.db", plan, records=records(plan.scheme))
    report = codec.parse_json((tmp_path / "run" / "report.json").read_bytes())
    check_schema(report)
    assert report["verification"]["status"] == "failed"
    supported, planned = report["claim"]["supported"], format_upper(plan.epsilon.upper)
    assert supported == ("inf" if left == "none" else pytest.approx(plan.unamplified.upper, rel=1e-9))
    assert report["risk_metrics"] is None
    assert not format_risk_rows(report)
    assert "**The guarantee.**" not in render_markdown(report, kind="summary")
    for text in (*(render_markdown(report, kind=kind) for kind in ("markdown", "summary")), page(report)):
        for line in text.replace("\\", "").splitlines():
            if planned in line:
                assert any(word in line for word in ("was planned", "Recomputed", "closed form")), line
            assert "largest TPR" not in line
    told = [row["protection"] for row in report["claim"]["parties"]]
    assert any(
        ("no bound that the records support" if left == "none" else format_upper(supported)) in one for one in told
    )


def page(report):
    """The HTML without the document that it holds, and without its plot of the plan's curve."""
    text = render_html(report)
    return re.sub(r"<svg.*?</svg>", "", text[: text.index("<pre id=")], flags=re.DOTALL)


def test_a_verification_is_rendered_with_its_steps_and_files(finished, tmp_path):
    outcome = verify_evidence(read_evidence(finished, finished.parent / "ledger.db"))
    rules = tmp_path / "playbook.toml"
    rules.write_text('[steps]\nnoise = "stop <b>at once</b>"\n')
    weak = replace(outcome, findings=(Finding("noise/too-weak", Status.FAILED, EVIL), *outcome.findings))
    weak = replace(weak, claim=EVIL, files={"b.csv": "2" * 64, "a.csv": "1" * 64})
    text = render_verdict(weak, title=EVIL, playbook=Playbook.read(rules))
    assert "**Does not hold, failed: noise** (status: failed)" in text
    assert "| noise | failed | unsupported | critical |" in text
    assert "noise/too-weak: stop \\<b\\>at once" in text
    assert text.index("a.csv") < text.index("b.csv")
    assert not re.search(r"(?<!\\)<|(?<!\\)\]\(|(?<!\\)`", text)
    for one in weak.what_ifs:
        assert one.message.split(",")[0] in text.replace("\\", "")
    plain = render_verdict(outcome, title="run")
    assert "What to do now" not in plain
    assert "What was read" not in plain
