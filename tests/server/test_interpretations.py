"""A report, the API and the page say one thing in one sentence."""

import html
import json
from pathlib import Path

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.plan.sentences import list_group_rows
from epsilog.reports import render_html, render_markdown
from epsilog.reports.figures import format_risk_rows
from epsilog.server import worker
from epsilog.terms import codec
from epsilog.terms.messages import catalogue, sentence

PAGES = Path(__file__).parents[2] / "web/src"
ASK = {
    "population": 150,
    "cohort_size": 30,
    "rounds": 4,
    "noise_multiplier": 3.0,
    "delta": 1e-5,
    "delta_cap": None,
    "privacy_unit": "school",
}


def asked(path, ask):
    status, _, body = worker.answer_request(path, ask)
    assert status == 200, body
    return json.loads(body)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verdict") / "run"
    finish(folder, folder.parent / "ledger.db", make_plan(simulation=False))
    return codec.parse_json((folder / "report.json").read_bytes())


@pytest.mark.slow
def test_a_report_and_the_api_use_the_same_sentences_and_numbers(report):
    told, risk = asked("/federated/interpretation", ASK), asked("/federated/risk", ASK)
    assert sentence(told["statement"]) == report["claim"]["statement"]
    assert told["log_odds_factor"] == report["risk_metrics"]["log_odds_factor"]
    mine = [(sentence(label), figure) for label, figure in risk["rows"]]
    assert mine == [row for row in format_risk_rows(report) if "approximate" not in row[0]]
    assert [tuple(row) for row in risk["group_rows"]] == list_group_rows(report["risk_metrics"])
    pages = render_html(report), render_markdown(report)
    for message in (risk["attack_note"], risk["group_note"], told["odds"]):
        assert all(sentence(message) in html.unescape(page) for page in pages)
    for label, figure in mine:
        assert all(label in page and figure in page for page in pages), label


@pytest.mark.slow
@pytest.mark.extended
def test_a_mix_means_what_its_one_release_means_on_its_own_page():
    """One Poisson-sampled run as a mix; the other page speaks of models, counts units, and says the rest alike."""
    part = {"mechanism": "gaussian", "parameter": 3.0, "sampling_probability": 0.2, "count": 4}
    mix = {"parts": [part], "delta": 1e-5}
    of_run = [asked("/federated/interpretation", ASK | {"cap": 1.0}), asked("/federated/risk", ASK)]
    of_mix = [asked("/account/interpretation", mix | {"cap": 1.0}), asked("/account/risk", mix)]
    for name in ("odds", "posteriors", "releases", "headroom_note", "max_releases_under_cap", "group_rows", "rows"):
        mine, theirs = (next(each[name] for each in found if name in each) for found in (of_mix, of_run))
        assert json.dumps(mine).replace("person", "school") == json.dumps(theirs), name
    assert of_mix[0]["statement"][1]["subject"] == "releases"
    assert of_mix[0]["max_releases_under_cap"] > 0


def test_the_page_has_none_of_these_sentences_of_its_own():
    """Words that the library says are not written again; the control is a phrase that the page does say itself."""
    texts = "".join(file.read_text(encoding="utf-8") for file in PAGES.rglob("*.tsx"))
    for name in ("copies/approximate", "releases/together", "attack/meaning", "attack/tpr"):
        assert catalogue()[name][:20] not in texts
    assert "What it means for one person" in texts
