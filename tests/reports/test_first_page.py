"""The first page: few words, figures rounded against the reader's hopes, and nothing teal that nobody recomputed."""

import html
import json
import re
from fractions import Fraction
from types import SimpleNamespace

import pytest
from scipy.stats import norm
from tests.reports.drawn import drawn, finish, local, make_plan

from epsilog.plan.verdict import OF
from epsilog.reports import render_html
from epsilog.reports.first_page import answer, build_first_page, count_dots, format_verdict, list_evidence_kinds
from epsilog.reports.publication_fields import merge_publication_fields
from epsilog.terms import Finding, Status


def words_of(report):
    """The words of the first page as a reader sees them: the text without the picture."""
    page = render_html(report)
    first = page[page.index('<section class="first"') : page.index('<section class="details"')]
    return html.unescape(re.sub(r"<svg.*?</svg>|<[^>]*>", " ", first, flags=re.DOTALL)).split()


def page_of(report):
    return build_first_page(report, merge_publication_fields(report, {}))


@pytest.fixture(scope="module")
def client_side(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "run"
    return finish(folder, folder.parent / "ledger.db", make_plan(local, simulation=False))


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weak") / "run"
    plan = make_plan(simulation=False)
    return finish(folder, folder.parent / "ledger.db", plan, records=drawn(plan.scheme, 1, share=0.3))


@pytest.mark.slow
def test_the_first_page_has_at_most_150_words(report, real, client_side, weak):
    for one in (report, real, client_side, weak):
        assert len(words_of(one)) <= 150, " ".join(words_of(one))
    assert len(words_of(report)) > 60


def test_the_picture_is_a_bound_on_the_best_attack(report):
    dots, attack = count_dots(report), report["risk_metrics"]["attack"]
    (rate,) = [point["tpr"] for point in attack if point["fpr"] == 0.01]
    assert dots.guessed + dots.found == int(Fraction(rate) * OF) + 1, "a fraction of a unit counts as one"
    exact = OF * norm.cdf(norm.ppf(0.01) + 2 / 3)  # known participation: one Gaussian with mu 2/3
    assert exact <= dots.guessed + dots.found + dots.leaked < exact + 1.1
    assert sum(dots) + dots.safe == OF
    assert [path.count("M") for _, path in dots.paths()] == [*dots, dots.safe]
    shown = page_of(report)
    assert f"at most {dots.guessed + dots.found} of 1,000 schools" in shown["headline"]
    assert [count for _, count, _ in shown["key"]] == [str(count) for count in (*dots, dots.safe)]


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (0.0100000001, "at most 11 of 1,000 schools."),
        (0.9899999, "nearly every school."),
        (1.0, "nearly every school."),
        (0.0721, "at most 73 of 1,000 schools."),
        (0.072, "at most 73 of 1,000 schools."),  # published outcomes of checks add a little
    ],
)
def test_the_headline_rounds_up(report, rate, says):
    spoilt = json.loads(json.dumps(report))
    for point in spoilt["risk_metrics"]["attack"] + spoilt["risk_metrics"]["unamplified_attack"]:
        point["tpr"] = rate
    assert page_of(spoilt)["headline"].endswith(says)
    assert not count_dots(spoilt).leaked


def test_without_a_bound_on_attacks_there_is_no_picture(report, weak):
    assert count_dots(weak) is None
    assert page_of(weak)["headline"] == "The records do not support the claim."
    assert '<svg viewBox="0 0 400 250"' not in render_html(weak)
    spoilt = json.loads(json.dumps(report))
    spoilt["risk_metrics"] |= {"attack": [], "unamplified_attack": []}
    assert page_of(spoilt)["headline"].startswith("Epsilon is at most")
    render_html(spoilt)


def test_the_verdict_says_what_it_rests_on(report, real, weak):
    assert format_verdict(report) == "Would hold, on the curator’s word"
    assert format_verdict(real) == "Holds, on the curator’s word"
    assert format_verdict(weak).startswith("Does not hold, failed: noise")
    unseen = json.loads(json.dumps(real))
    unseen["verification"]["status"] = "not checked"
    (claim,) = [one for one in unseen["verification"]["findings"] if one["check"] == "claim"]
    claim["status"] = "not checked"
    assert format_verdict(unseen) == "Cannot tell, missing: claim"
    assert not any("Epsilon" in line for line in page_of(unseen)["recomputed"])
    assert {answer(one)["style"] for one in (report, real, weak, unseen)} == {"attested", "failed", "not"}


@pytest.mark.parametrize(
    ("cap", "before", "run", "shown"),
    [
        ("4", "0", "3.999988274", ["4.00", "0.00", "4.00", "0.00"]),
        ("4", "1.001", "1.001", ["4.00", "1.01", "1.01", "1.99"]),
        ("0.5", "0.1", "0.10001", ["0.500", "0.100", "0.101", "0.299"]),
        ("1500", "200.1", "1000", ["1,500", "201", "1,000", "299"]),
        ("1", "1", "0.5", ["1.00", "1.00", "0.50", "0.00"]),
    ],
)
def test_amounts_are_rounded_up_and_what_is_left_down(report, cap, before, run, shown):
    spoilt = json.loads(json.dumps(report))
    spoilt["budget"]["binding"] = {"caps": {"epsilon": cap}, "spent_or_reserved": {"epsilon": before}}
    spoilt["budget"]["charged"]["epsilon"] = run
    assert [amount for _, amount in page_of(spoilt)["budget"]] == shown


def test_what_is_not_protected_follows_from_the_parties(report, client_side):
    assert page_of(report)["unprotected"][0] == "Anything the server sees"
    assert page_of(client_side)["unprotected"][0] == "Anything the client itself sees"


def test_where_a_check_failed_no_figure_counts_as_recomputed(report):
    """Also not where the report itself comes out again: its records are in doubt."""
    fine = Finding("report/passed", Status.PASSED, "All figures match.")
    wrong = Finding("noise/too-weak", Status.FAILED, "The noise is too weak.")
    whole = list_evidence_kinds(SimpleNamespace(findings=(fine,), failed=set()), report)
    broken = list_evidence_kinds(SimpleNamespace(findings=(fine, wrong), failed={"noise"}), report)
    assert len(whole["recomputed"]) > 1
    assert whole["attested"]
    assert (len(broken["recomputed"]), broken["attested"], len(broken["contradicted"])) == (1, [], 1)
