"""What is made from a report for other readers says what the report says, no more, and quotes nothing as markup."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reports.drawn import central, drawn, finish, local, make_plan

from epsilog.accounting import epsilon, group_privacy, profile
from epsilog.mechanisms import GaussianDP
from epsilog.plan import compute_risk_metrics, interpret_guarantee
from epsilog.plan.risk_metrics import SLACK
from epsilog.reports import (
    PUBLICATION_FIELDS,
    build_registry_record,
    check_record,
    check_schema,
    read_publication_file,
    render_html,
    render_markdown,
    render_pdf,
    render_record,
    render_verdict,
    require_field,
)
from epsilog.reports.claim_metrics import compute_claim_metrics
from epsilog.reports.figures import format_group_rows, format_risk_rows
from epsilog.reports.publication_fields import compute_registry_tier, list_publication_fields, merge_publication_fields
from epsilog.reports.report import get_unamplified_release
from epsilog.reports.residual_risks import RUN_RISKS, list_residual_risks
from epsilog.schemes import ClientLevelClientSide
from epsilog.terms import CalibrationError, CheckError, Finding, NeighboringRelation, RecordError, Status, codec
from epsilog.terms.formatting import format_upper
from epsilog.terms.messages import sentence
from epsilog.verification import Claim, Playbook, compute_certified_interval, read_evidence, verify_evidence

DOCS = Path(__file__).parents[2] / "docs"
EVIL = 'x|y <script>alert(1)</script> [a](javascript:b)\n# head `c` *d* _e_ ${f} #eval("g") "h" \\'
ABOUT = {
    "organisation": "Example Org",
    "description": "A model of scores.",
    "region": "Netherlands",
    "publication_date": "2026-12-01",
}


def whole(z):
    return ClientLevelClientSide(150, 4, 3, 2, 1.0, z)


@pytest.fixture(scope="module")
def report(finished):
    return codec.parse_json((finished / "report.json").read_bytes())


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The report of a run for people, whose publisher says something."""
    folder = tmp_path_factory.mktemp("real") / "run"
    said = {"period": "2026-Q4", "organisation": "Example Org", "retention": EVIL}
    finish(folder, folder.parent / "ledger.db", make_plan(simulation=False, reporting=said))
    return codec.parse_json((folder / "report.json").read_bytes())


def of_model(plan):
    """Without the published outcomes of checks, which readings leave out: 1e-10 of epsilon at most."""
    found = compute_certified_interval(plan.release, plan.guarantee.delta, plan.guarantee.relation)
    assert plan.epsilon.upper * (1 - 1e-10) < found.upper < plan.epsilon.upper
    return found


def read_plan(plan):
    claim = Claim.from_plan(plan)
    return compute_claim_metrics(claim, claim.release, get_unamplified_release(claim))


def test_readings_are_the_accountants(report):
    plan = make_plan()
    reading = compute_risk_metrics(
        plan.scheme.release(),
        delta=plan.guarantee.delta,
        relation=plan.guarantee.relation,
        known=plan.scheme.unamplified_release(),
    )
    told = interpret_guarantee(
        plan.scheme.release(),
        plan.epsilon,
        delta=plan.guarantee.delta,
        relation=plan.guarantee.relation,
        privacy_unit=plan.guarantee.privacy_unit,
    )
    assert report["risk_metrics"] == codec.parse_json(
        codec.encode_canonical(reading | {"log_odds_factor": told.log_odds_factor})
    )
    assert f"<p>{told.odds}</p>" in html.unescape(render_html(report | {"simulation": False}))
    supposed = f"<p>With fresh randomness, this would hold: {told.odds}</p>"
    assert supposed in html.unescape(render_html(report)), "seeded noise protects no one"
    assert reading["mu"] is None, "sampling leaves no mu"
    assert reading["unamplified_mu"] == pytest.approx(2 / 3), "four rounds at noise 3"
    for point in reading["attack"]:
        assert point["fpr"] < point["tpr"] < 3 * point["fpr"]
    epsilons = [point["epsilon"] for point in reading["profile"]]
    assert epsilons == sorted(epsilons)
    one, two, eight, many = reading["groups"]
    assert (one["epsilon"], one["lower"]) == (of_model(plan).upper, plan.epsilon.lower)
    assert [point["units"] for point in reading["groups"]] == [1, 2, 8, 64]
    assert 2 * one["epsilon"] <= two["epsilon"]
    assert 4 * two["epsilon"] <= eight["epsilon"] < many["epsilon"] / 4
    for point in reading["groups"]:
        assert 0 < point["lower"] <= point["epsilon"] < 1.05 * point["lower"], "from both sides"


def test_a_fitted_mu_comes_close_by_what_it_says(report):
    """Checked at rates of the accountant's own: the best test stays below the Gaussian's but for what is left out."""
    plan, fit = make_plan(), report["risk_metrics"]["fit"]
    gaussian, curve = profile(GaussianDP(fit["mu"])), profile(plan.scheme.release())
    assert 0 < fit["slack"] <= SLACK
    assert 0 <= fit["regret"] < 0.01
    for fpr in (0.01, 0.4):
        assert curve.tpr(fpr).lower <= gaussian.tpr(fpr + fit["slack"]).upper + fit["slack"]
        assert gaussian.tpr(fpr).lower <= curve.tpr(fpr + fit["regret"]).upper + fit["regret"]
    assert curve.tpr(0.2).lower > gaussian.tpr(0.2).upper, "without the slack the mu would be too small"


def test_every_rendering_has_the_table_of_copies(report):
    texts = [render_html(report), render_markdown(report)]
    for units, upper, lower in format_group_rows(report):
        assert all(upper in text and lower in text for text in texts), units
    assert [units for units, *_ in format_group_rows(report)] == ["1", "2", "8", "64"]


def test_where_nothing_is_promised_to_copies_it_is_said_in_words(report):
    spoilt = json.loads(json.dumps(report))
    points = spoilt["risk_metrics"]["groups"]
    points[1] |= {"epsilon": "inf", "lower": "inf"}
    points[2] |= {"epsilon": None, "lower": None}
    spoilt["risk_metrics"]["fit"] = None
    check_schema(spoilt)
    _, two, eight, _ = format_group_rows(spoilt)
    assert two == ("2", "no finite bound", "no finite bound")
    assert eight == ("8", "not computed; assume no protection", "-")
    for text in (render_html(spoilt), render_markdown(spoilt)):
        assert all(told in text for told in (two[1], eight[1]))
    assert "has no proven protection" in render_markdown(spoilt, kind="summary")
    points[1] |= {"epsilon": 0.1}
    points[1] |= {"lower": -1.0}
    with pytest.raises(ValueError, match=r"^risk_metrics"):
        check_schema(spoilt)


def test_copies_that_cannot_be_priced_are_not_told_a_number(monkeypatch):
    def fails(*_, **__):
        raise CalibrationError("no root", bracket=(0.0, 1.0))

    monkeypatch.setattr(group_privacy, "bound_on_lattice", fails)
    plan = make_plan(lambda z: central(z + 0.125))
    one, *others = read_plan(plan)["groups"]
    assert one["epsilon"] == of_model(plan).upper
    assert {(point["lower"], point["epsilon"]) for point in others} == {(None, None)}


def test_the_most_that_a_person_holds_is_read_first():
    plan = make_plan()
    stated = replace(plan, details=plan.details | {"coverage": {"group_size": 3}})
    found = {one["units"]: one["epsilon"] for one in read_plan(stated)["groups"]}
    assert list(found) == [3, 1, 2, 8, 64]
    assert found[2] < found[3] < found[8]
    exact = epsilon(plan.scheme.release(), delta=plan.guarantee.delta, relation=plan.guarantee.relation, group_size=3)
    assert found[3] == pytest.approx(exact.upper, rel=0.01)
    for told in (1, 8):
        stated = replace(plan, details=plan.details | {"coverage": {"group_size": told}})
        assert sorted(one["units"] for one in read_plan(stated)["groups"]) == [1, 2, 8, 64]


def test_what_a_dishonest_curator_could_do_is_told_where_it_applies(report, real):
    assert report["residual_risks"] == list_residual_risks(make_plan())
    seeded = "A seeded run called real"
    assert not any(line.startswith(seeded) for line in report["residual_risks"])
    assert any(line.startswith(seeded) for line in real["residual_risks"])
    less = "Clients added too little noise"
    assert any(line.startswith(less) for line in list_residual_risks(make_plan(local)))
    assert not any(line.startswith(less) for line in list_residual_risks(make_plan(central)))


def test_the_docs_table_names_every_forgery():
    page = " ".join((DOCS / "how-to" / "verify-a-report.md").read_text().split())
    for risk in RUN_RISKS:
        assert f"| {risk.description} | passes" in page or f"| {risk.description} | *not checked*" in page, (
            risk.description
        )
        assert risk.detected_by in page


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


def test_what_the_owner_writes_is_no_markup(real):
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
    content = render_pdf(spoilt, ABOUT)
    assert content.startswith(b"%PDF")
    assert len(content) > 20_000
    with pytest.raises(CheckError, match="organisation"):
        render_pdf(spoilt, {"organisation": "Somebody Else"})


def test_a_failed_run_is_no_promise_in_any_rendering(report):
    failed = json.loads(json.dumps(report))
    failed["verification"]["status"] = "failed"
    failed["claim"]["statement"] = "Checks failed (noise), so no guarantee is supported."
    for kind in ("markdown", "summary"):
        text = render_markdown(failed, kind=kind)
        assert "no guarantee is supported" in text
    assert "The guarantee." not in render_markdown(failed, kind="summary")


def test_a_record_is_valid_and_says_what_the_report_says(real):
    record = build_registry_record(real, ABOUT)
    inner, claim = record["deployment"], real["claim"]
    assert inner["privacy_loss"]["privacy_parameters"] == {
        "epsilon": claim["guarantee"]["epsilon"],
        "delta": claim["guarantee"]["delta"],
    }
    assert inner["privacy_loss"]["privacy_parameters"]["epsilon"] >= claim["epsilon"]["lower"]
    assert inner["basic"]["data_curators"] == ["Example Org"]
    assert inner["deployment_model"]["model_name"] == "Central"
    assert json.loads(render_record(record)) == record
    notes = inner["administrative"]["notes"]
    for told in ("certified upper bound", claim["guarantee"]["relation"], real["evidence"]["plan_hash"], "Ledger head"):
        assert told in notes
    assert record["tier"] == 1
    every = {name: (field.choices or ("2026-12-01",))[0] for name, field in PUBLICATION_FIELDS.items()}
    del every["organisation"], every["retention"]
    assert build_registry_record(real, every)["tier"] == 3


PLACES = {
    "organisation": ("basic", "data_curators", 0),
    "description": ("basic", "description"),
    "region": ("basic", "data_product_region"),
    "sector": ("basic", "data_product_sector"),
    "publication_date": ("basic", "publication_date"),
    "sources": ("administrative", "sources"),
    "release_type": ("deployment_model", "release_type"),
    "data_source_type": ("deployment_model", "data_source_type"),
    "access_type": ("deployment_model", "access_type"),
    "data_domain": ("dp_variant", "data_domain"),
    "unprotected_quantities": ("dp_variant", "unprotected_quantities"),
    "tuning": ("implementation", "preprocessing_and_hyperparameter_tuning"),
    "justification": ("implementation", "justification"),
}


def test_every_field_and_fact_has_its_place_in_a_record(real):
    said = {
        name: (field.choices or ("2026-12-01" if name.endswith("date") else f"the {name}",))[0]
        for name, field in PUBLICATION_FIELDS.items()
    }
    said |= {name: real["publication"]["stated"][name] for name in ("organisation", "retention")}
    inner = build_registry_record(real, said)["deployment"]
    for name, place in PLACES.items():
        found = inner
        for step in place:
            found = found[step]
        assert found == said[name], name
    assert said["unit_details"] in inner["privacy_loss"]["privacy_unit_details"]
    assert real["claim"]["statement"] in inner["privacy_loss"]["privacy_unit_details"]
    assert real["claim"]["delta_rationale"] in inner["privacy_loss"]["privacy_parameters_details"]
    assert inner["privacy_loss"]["privacy_unit"] == real["claim"]["guarantee"]["privacy_unit"]
    assert inner["basic"]["intended_use"] == real["identity"]["purpose"]
    assert inner["accounting"]["post_processing"]
    assert sentence(real["claim"]["epsilon"]["method"]) in inner["accounting"]["composition"]
    for party in real["claim"]["parties"]:
        assert f"{party['party']} sees {party['view']}: {party['protection']}" in inner["deployment_model"]["actors"]
    for name, value in real["mechanism"]["scheme"].items():
        assert str(value) in inner["implementation"]["mechanisms"], name
    assert inner["administrative"]["registry_authors"] == [real["identity"]["owner"]]
    assert set(PUBLICATION_FIELDS) - set(PLACES) == {
        "unit_details",
        "contact",
        "prior_releases",
        "retention",
        "review_date",
    }


def test_no_record_is_made_of_what_is_no_deployment(report, real):
    with pytest.raises(RecordError, match="simulation"):
        build_registry_record(report, ABOUT)
    with pytest.raises(RecordError, match="requires description, region, publication_date"):
        build_registry_record(real, {})
    failed = real | {"verification": real["verification"] | {"status": "failed"}}
    with pytest.raises(RecordError, match="no guarantee"):
        build_registry_record(failed, ABOUT)
    with pytest.raises(CheckError, match="as the report binds it"):
        build_registry_record(real, ABOUT | {"organisation": "Somebody Else"})


def test_the_registrys_schema_refuses_what_it_does_not_know(real):
    record = build_registry_record(real, ABOUT)
    for spoilt in (
        record | {"surprise": 1},
        record | {"tier": 0},
        record | {"status": "Fine"},
        {name: value for name, value in record.items() if name != "url_slug"},
        record | {"deployment": {}},
        record | {"deployment": record["deployment"] | {"basic": {"name": "x"}}},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            check_record(spoilt)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "model"), [(local, "Federated"), (whole, "Local")])
def test_noise_at_the_client_is_local_only_where_clients_are_protected_from_everybody(tmp_path, scheme, model):
    plan = make_plan(scheme, simulation=False, relation=NeighboringRelation.ZERO_OUT)
    finish(tmp_path / "run", tmp_path / "ledger.db", plan)
    report = codec.parse_json((tmp_path / "run" / "report.json").read_bytes())
    assert build_registry_record(report, ABOUT)["deployment"]["deployment_model"]["model_name"] == model


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
    for text in (*(render_markdown(report, kind=kind) for kind in ("markdown", "summary")), page(report)):
        for line in text.replace("\\", "").splitlines():
            if planned in line:
                assert any(word in line for word in ("was planned", "Recomputed", "closed form")), line
            assert "largest TPR" not in line
    told = [row["protection"] for row in report["claim"]["parties"]]
    assert any(
        ("nothing that the records support" if left == "none" else format_upper(supported)) in one for one in told
    )


def page(report):
    """The HTML without the document that it holds, and without its plot of the plan's curve."""
    text = render_html(report)
    return re.sub(r"<svg.*?</svg>", "", text[: text.index("<pre id=")], flags=re.DOTALL)


def test_blanks_are_listed_with_what_they_would_complete(real):
    told = real["publication"]
    assert told["stated"]["organisation"] == "Example Org"
    blank = {item["field"]: item["required_by"] for item in told["blank"]}
    assert blank == {
        name: f.required_by for name, f in PUBLICATION_FIELDS.items() if name not in ("organisation", "retention")
    }
    assert compute_registry_tier({}) == 0
    every = dict.fromkeys(PUBLICATION_FIELDS, "x")
    assert compute_registry_tier(every) == 3
    assert compute_registry_tier({name: "x" for name in every if name != "access_type"}) == 1
    assert list_publication_fields({})["stated"] == {}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("colour", "red", "one of"),
        ("sector", "Magic", "one of"),
        ("publication_date", "1/1/2026", "YYYY-MM-DD"),
        ("publication_date", "2026-02-30", "YYYY-MM-DD"),
        ("publication_date", "20260201", "YYYY-MM-DD"),
        ("contact", " ", "not blank"),
        ("contact", 3, "not blank"),
        ("contact", None, "not blank"),
    ],
)
def test_fields_that_say_nothing_are_refused(name, value, told):
    with pytest.raises(CheckError, match=told):
        require_field(name, value)


def test_a_file_of_fields_is_read_or_refused_with_its_name(tmp_path):
    path = tmp_path / "about.toml"
    path.write_text('region = "Europe"\npublication_date = 2026-12-01\n')
    assert read_publication_file(path) == {"region": "Europe", "publication_date": "2026-12-01"}
    for text in ("region = 3", "x = 'y'", "region", "publication_date = 2026-12-01T00:00:00"):
        path.write_text(text)
        with pytest.raises(RecordError, match=r"about\.toml"):
            read_publication_file(path)
    path.write_bytes(b"\xff")
    with pytest.raises(RecordError, match=r"about\.toml"):
        read_publication_file(path)
    with pytest.raises(RecordError, match="cannot be read"):
        read_publication_file(tmp_path / "nowhere")


def test_blanks_are_filled_and_nothing_is_contradicted(real):
    assert merge_publication_fields(real, {"region": "Europe"})["region"] == "Europe"
    assert merge_publication_fields(real, {"organisation": "Example Org"})["organisation"] == "Example Org"
    with pytest.raises(CheckError):
        merge_publication_fields(real, {"region": ""})


def test_the_docs_list_every_field():
    page = (DOCS / "how-to" / "publish-a-report.md").read_text()
    for name, field in PUBLICATION_FIELDS.items():
        assert re.search(
            rf"^\| `{name}` \| {re.escape(field.description)}.* \| {field.required_by} \|$", page, re.MULTILINE
        ), name


def test_a_verdict_is_written_for_whatever_was_verified(finished, tmp_path):
    outcome = verify_evidence(read_evidence(finished, finished.parent / "ledger.db"))
    rules = tmp_path / "playbook.toml"
    rules.write_text('[steps]\nnoise = "stop <b>at once</b>"\n')
    weak = replace(outcome, findings=(Finding("noise/too-weak", Status.FAILED, EVIL), *outcome.findings))
    weak = replace(weak, claim=EVIL, files={"b.csv": "2" * 64, "a.csv": "1" * 64})
    text = render_verdict(weak, title=EVIL, playbook=Playbook.read(rules))
    assert "Status: **failed**" in text
    assert "| noise | failed | unsupported | critical |" in text
    assert "noise/too-weak: stop \\<b\\>at once" in text
    assert text.index("a.csv") < text.index("b.csv")
    assert not re.search(r"(?<!\\)<|(?<!\\)\]\(|(?<!\\)`", text)
    for one in weak.what_ifs:
        assert one.message.split(",")[0] in text.replace("\\", "")
    plain = render_verdict(outcome, title="run")
    assert "What to do now" not in plain
    assert "What was read" not in plain
