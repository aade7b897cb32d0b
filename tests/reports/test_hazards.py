"""Each statement on a hazard follows from figures of the report: another fact makes another statement."""

import copy
import re

import pytest
from tests.reports.drawn import finish, local, make_plan
from tests.reports.test_verification import put
from tests.verification.logs.simulated import honest, save

from epsilog.reports import build_report, check_schema, render_html, render_markdown, render_pdf
from epsilog.reports.figure_sources import get_figure_source
from epsilog.reports.hazards import HAZARDS, count_answered, list_hazard_rows, state_hazards
from epsilog.reports.verification import check_rebuilt
from epsilog.terms.messages import Message, catalogue
from epsilog.verification.logs import verify_logs

DESCRIBED = {  # as a run of ours describes its data
    "data": "chem97",
    "units": 150,
    "clients": 150,
    "model": {"kind": "mlp", "hidden": [16], "loss": "half-squared-error"},
    "partition": "natural: a client is a school",
    "score": "R squared on the test set",
}
COUNT = {"name": "usable", "value": 812.0, "error": 9.0, "lower": 803.0, "upper": 821.0, "charged": {}}
ABSENT = object()

ALTERATIONS = [
    ("large-epsilon", "risk_metrics/attack/1/tpr", 0.5),
    ("large-epsilon", "risk_metrics/attack/1/tpr", 0.995),
    ("large-epsilon", "risk_metrics/attack", []),
    ("large-epsilon", "verification/status", "failed"),
    ("large-epsilon", "risk_metrics", None),
    ("native-parameters", "mechanism/scheme/noise_multiplier", 1.5),
    ("native-parameters", "risk_metrics/profile/2/epsilon", "inf"),
    ("native-parameters", "risk_metrics", None),
    ("outside-unit", "risk_metrics/groups/1/epsilon", 7.25),
    ("outside-unit", "risk_metrics/groups", []),
    ("event-level", "claim/guarantee/privacy_unit", "person"),
    ("event-level", "mechanism/scheme", "example"),
    ("event-level", "publication/stated/unit_details", "all rows of a school"),
    ("compared-deltas", "risk_metrics/profile/0/epsilon", 9.5),
    ("compared-deltas", "claim/guarantee/delta", 1e-7),
    ("compared-units", "claim/guarantee/relation", "replace-one"),
    ("compared-units", "claim/guarantee/population", None),
    ("large-delta", "claim/guarantee/delta", 0.004),
    ("large-delta", "claim/guarantee/delta", 0.02),
    ("large-delta", "claim/guarantee/population", None),
    ("other-releases", "budget/binding/spent_or_reserved/epsilon", "3.5"),
    ("other-releases", "publication/stated/prior_releases", "a count in 2025"),
    ("other-releases", "budget", {}),
    ("own-implementation", "evidence/provenance", {"engine": "torch"}),
    ("own-implementation", "evidence/software", {}),
    ("systemic-bias", "result/test_score", 0.75),
    ("systemic-bias", "result/test_score", None),
    ("human-bias", "owner/counts", [COUNT]),
    ("clipping-bias", "mechanism/scheme/clip_norm", 0.25),
    ("clipping-bias", "utility", None),
    ("contribution-bounds", "mechanism/noise_stddev", 0.125),
    ("contribution-bounds", "mechanism/noise_stddev", 0),
    ("bins", "owner/counts", [COUNT]),
    ("memorization", "audit", {"bound": {"epsilon": 0.5, "confidence": 0.95}}),
    ("memorization", "risk_metrics/groups/1/epsilon", 7.25),
    ("memorization", "risk_metrics/groups", []),
    ("synthetic-data", "result/rounds", 7),
    ("deep-synthesis", "mechanism/data/model/kind", "cnn"),
    ("deep-synthesis", "mechanism/data/model/kind", "mine.py:make_generator"),
    ("deep-synthesis", "mechanism/data", {}),
    ("unstructured-data", "mechanism/data/partition", "natural: a client is a phone"),
    ("unstructured-data", "mechanism/data", {}),
    ("unstructured-data", "publication/stated/unit_details", "all rows of a school"),
    ("interactive-queries", "budget/state", "reserved"),
    ("interactive-queries", "budget", {}),
    ("interactive-queries", "publication/stated/access_type", "Interactive"),
    ("trust", "claim/parties/0/protected", True),
    ("trust", "claim/parties/0/view", "nothing"),
    ("trust", "claim/parties", []),
    ("side-channels", "evidence/provenance", {"generator": "AES-256 (numpy)"}),
    ("side-channels", "evidence/provenance", {}),
    ("side-channels", "simulation", False),
    ("data-security", "publication/stated/retention", "two years, encrypted"),
    ("collection", "identity/purpose", "another purpose"),
    ("collection", "mechanism/data", {}),
]
FURTHER = [
    [("budget", {}), ("publication/stated/prior_releases", "a count in 2025")],
    [("risk_metrics/groups", []), ("risk_metrics/attack", [])],
    *[[(f"claim/parties/{one}/protected", True) for one in range(4)]],
]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """The report of a rehearsal whose plan describes its data as a run of ours does."""
    folder = tmp_path_factory.mktemp("described") / "run"
    report = finish(folder, folder.parent / "ledger.db", make_plan(data=DESCRIBED))
    return put(report, ("evidence", "provenance"), {"engine": "jax", "generator": "Philox, seeded"})


@pytest.fixture(scope="module")
def example_level(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "run"
    return finish(folder, folder.parent / "ledger.db", make_plan(local))


@pytest.fixture(scope="module")
def of_logs(tmp_path_factory):
    return build_report(verify_logs(save(honest(), tmp_path_factory.mktemp("logs"))))


def alter(report, *changes):
    """The report with other values at these paths."""
    changed = copy.deepcopy(report)
    for path, value in changes:
        inner, steps = changed, path.split("/")
        for step in steps[:-1]:
            inner = inner[int(step) if isinstance(inner, list) else step]
        inner[steps[-1]] = copy.deepcopy(value)
    return changed


def sentences(report):
    return {
        hazard.name: (row["answer"], row["sentence"])
        for hazard, row in zip(HAZARDS, list_hazard_rows(report), strict=True)
    }


@pytest.mark.slow
def test_a_usual_run_answers_at_least_twenty_of_23_hazards(described, report, real, of_logs):
    assert len(HAZARDS) == len({one.name for one in HAZARDS}) == 23
    assert count_answered(described) >= 20
    for one in (described, report, real, of_logs):
        check_schema(one)
        assert [row["hazard"] for row in one["hazards"]] == [hazard.name for hazard in HAZARDS]
        assert all(sentence for _, sentence in sentences(one).values())
    assert count_answered(report) < count_answered(described), "what a plan does not describe is left open"


@pytest.mark.parametrize(("hazard", "path", "value"), ALTERATIONS)
def test_another_fact_makes_another_statement(described, example_level, hazard, path, value):
    value = example_level["mechanism"]["scheme"] if value == "example" else value
    before = sentences(described)
    assert sentences(alter(described, (path, value)))[hazard] != before[hazard]


def test_each_hazard_is_altered():
    assert {hazard for hazard, _, _ in ALTERATIONS} == {hazard.name for hazard in HAZARDS}


def test_each_figure_keeps_its_source(described):
    """A statement is called recomputed only if each of its figures is."""
    for row in state_hazards(described):
        sources = set()
        for path in row["figures"].values():
            steps, value = [], described
            for step in path.split("/"):
                steps.append(int(step) if isinstance(value, list) else step)
                value = value[steps[-1]]
            sources.add(get_figure_source(described, steps).source)
        assert row["status"] == "left open" or sources, f"{row['hazard']} follows from nothing"
        assert (row["source"] == "recomputed") == (sources == {"recomputed"})
        assert ("attested_by" in row) == (row["source"] == "attested")
    assert {row["source"] for row in state_hazards(described)} == {"recomputed", "attested", "unknown"}


@pytest.mark.slow
def test_the_page_the_text_and_the_pdf_show_every_statement(described, real):
    for one in (described, real):
        page, text = render_html(one).partition('<pre id="document">')[0], render_markdown(one)
        title = f"Privacy hazards of NIST SP 800-226: {count_answered(one)} of 23 answered"
        assert title in page
        assert title in text
        assert page.count("left open") == 23 - count_answered(one)
        for hazard in HAZARDS:
            assert str(Message(f"hazard/{hazard.name}")) in page
        assert re.search(rb"/Type\s*/Page\b", render_pdf(one))


@pytest.mark.slow
def test_a_report_prints_on_four_pages(described):
    pdf = render_pdf(described)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4


def test_every_sentence_is_short_and_is_said_of_some_report(described, example_level, of_logs):
    said, scheme = set(), example_level["mechanism"]["scheme"]
    reports = [described, *(alter(described, *one) for one in FURTHER), of_logs]
    reports += [alter(described, (path, scheme if value == "example" else value)) for _, path, value in ALTERATIONS]
    for one in reports:
        said |= {row["sentence"] for row in state_hazards(one)}
    expected = {name for name in catalogue() if name.startswith("hazard/")} - {f"hazard/{one.name}" for one in HAZARDS}
    assert said == expected
    for name in expected:
        assert all(len(one.split()) <= 25 for one in re.split(r"(?<=[.:]) ", catalogue()[name])), name


def test_a_missing_or_changed_statement_is_a_difference(real):
    with pytest.raises(ValueError, match="hazards"):
        check_schema({name: value for name, value in real.items() if name != "hazards"})
    changed = copy.deepcopy(real)
    changed["hazards"][9]["status"] = "said"
    check_schema(changed)
    assert check_rebuilt(changed, real).code == "report/mismatch"
    assert check_rebuilt(real, real).code == "report/passed"
