"""Each value of a report is recomputed, attested or unknown.

A hostile owner changes one value in the evidence of a report and rebuilds everything else with this project's own
functions, the ledger's entries included. If the result passes and shows that value, it must not be called recomputed.
"""

import re
from collections import Counter
from dataclasses import replace

import pytest
from tests.extent import amount
from tests.reports.drawn import audit_of, finish, make_plan, scored
from tests.reports.test_verification import put

from epsilog.mechanisms import BinomialTrialCount
from epsilog.reports import build_report, compare_rebuilt, render_html, render_markdown, verify_report
from epsilog.reports.figure_sources import (
    LOG_PARTS,
    OWNER,
    RECOMPUTED,
    RUN_PARTS,
    UNKNOWN,
    get_figure_source,
    get_finding_source,
    list_descriptions,
    list_leaf_paths,
    list_parts,
)
from epsilog.reports.report import extract_files
from epsilog.reports.statements import FOREMOST
from epsilog.terms import Canaries, EpsilogError, Status, codec
from epsilog.terms.formatting import format_upper
from epsilog.verification import parse_evidence, read_evidence, verify_evidence

CARRIED = (("evidence", "plan"), ("evidence", "records"), ("owner",), ("audit", "canaries"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds") / "run"
    canaries = Canaries(64, "5a" * 32)
    report = finish(folder, folder.parent / "ledger.db", make_plan(**audit_of(canaries)), scores=scored(canaries, 0.1))
    return report, read_evidence(folder, folder.parent / "ledger.db")


def value_at(document, place):
    for step in place:
        document = document[step]
    return document


def others(value):
    """Other values of the same type: for a number, one that is far off and one that is near."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 7]
    if isinstance(value, float):
        return [7.0, value * 1.001953125]
    if isinstance(value, str):
        return ["7" * len(value) if re.fullmatch(r"[\d.e-]+|[0-9a-f]{64}", value) else "mutated"]
    return []


def anew(report, evidence):
    """The report rebuilt from the evidence that it carries; None if none can be built."""
    try:
        found = parse_evidence(extract_files(report), None)
        charged = dict(evidence.ledger.request) | {"plan_hash": found.plan.hash}
        word = replace(
            evidence.ledger,
            request=charged,
            released={record.round: record.output_hash for record in found.records},
            attempts=Counter(record.round for record in found.records),
            evidence=dict(evidence.ledger.evidence)
            | {n: h for n, h in found.hashes.items() if n in evidence.ledger.evidence},
        )
        found = replace(found, ledger=word)
        outcome = verify_evidence(found)
        again = build_report(outcome)
    except (EpsilogError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None
    return again if not any(one.status is Status.FAILED for one in outcome.findings) else None


@pytest.mark.slow
def test_each_value_has_a_kind(finished):
    report, _ = finished
    kinds = Counter(get_figure_source(report, place).source for place in list_leaf_paths(report))
    assert kinds.keys() == {"recomputed", "attested", "unknown"}
    with pytest.raises(KeyError):
        get_figure_source(report | {"new": 1}, ("new",))
    for place in list_leaf_paths(report):
        if value_at(report, place) is None:
            assert get_figure_source(report, place) == UNKNOWN
    assert report["figure_sources"] == list_parts(RUN_PARTS)
    for parts in (RUN_PARTS, LOG_PARTS):
        assert all((part.source.attested_by is not None) == bool(part.description) for part in parts)
        assert len({part.path for part in parts}) == len(parts)


@pytest.mark.slow
def test_what_an_owner_can_change_is_not_called_recomputed(finished):
    report, evidence = finished
    assert anew(report, evidence) == report
    free, wrong = [], set()
    named = {"evidence/records/3/term/test_score", "owner/software/numpy", "evidence/plan/epsilon/method"}
    named |= {"evidence/plan/details/data/score", "evidence/plan/name"}
    places = [at for at in list_leaf_paths(report) if any(at[: len(top)] == top for top in CARRIED)]
    for place in [at for i, at in enumerate(places) if i % amount(12, 1) == 0 or "/".join(map(str, at)) in named]:
        if len(place) > 2 and place[:2] == ("evidence", "records") and place[2] > 0 and place[2] < 3:
            continue  # the first and the last round stand for all
        if "padding" in place and place[-1] > 1:
            continue
        for other in others(value_at(report, place)):
            again = anew(put(report, place, other), evidence)
            if again is None:
                continue
            free.append(place)
            for at in list_leaf_paths(again):
                try:
                    before = value_at(report, at)
                except (KeyError, IndexError, TypeError):
                    before = None
                if value_at(again, at) == other and before != other and type(value_at(again, at)) is type(other):
                    wrong |= {"/".join(map(str, at))} if get_figure_source(again, at) == RECOMPUTED else set()
    assert wrong == set()
    assert named <= {"/".join(map(str, place)) for place in free}


def test_a_final_score_of_seven_is_attested(finished):
    """These figures were once called recomputed, and were not."""
    report, evidence = finished
    forged = put(report, ("evidence", "records", 3, "term", "test_score"), 7.0)
    forged = put(forged, ("evidence", "plan", "epsilon", "method"), "a method of our own")
    forged = put(
        forged, ("evidence", "plan", "epsilon", "assumptions"), ["pigs fly", *report["claim"]["epsilon"]["assumptions"]]
    )
    forged = put(forged, ("evidence", "plan", "epsilon", "lower"), report["claim"]["epsilon"]["upper"])
    again = anew(forged, evidence)
    assert again["result"]["test_score"] == 7.0
    assert get_figure_source(again, ("result", "test_score")) == OWNER
    assert again["claim"]["epsilon"] == report["claim"]["epsilon"]
    page = render_html(again).partition('<pre id="document">')[0]
    assert not re.search(r"a method of our own|pigs fly", page)
    assert "without DP 0.5; attested by the owner" in page
    assert "comes out again" not in page
    assert "after 4 rounds; without DP 0.5; attested by the owner" in render_markdown(again)


def test_only_what_is_recomputed_looks_passed(finished):
    report, _ = finished
    assert report["verification"]["status"] == "passed"
    page = render_html(report)
    looks = re.findall(r'<th scope="row">([a-z]+)</th><td><span class="([a-z]+)">([^<]*)</span>', page)
    assert [check for check, _, _ in looks] == [one["check"] for one in report["verification"]["findings"]]
    for (check, look, told), finding in zip(looks, report["verification"]["findings"], strict=True):
        source = get_finding_source(report, finding)
        assert (look == "passed") == (source == RECOMPUTED), check
        if source.attested_by is not None:
            assert f"attested by the {source.attested_by}" in told
    assert {check for check, look, _ in looks if look == "attested"} >= {"custody", "norms", "participation", "charge"}
    assert '<div class="answer attested"><b>Would hold</b><span>on the curator’s word</span></div>' in page


def test_the_supported_claim_lists_unchecked_evidence(finished):
    report, _ = finished
    found = verify_report(codec.encode_canonical(report), None)
    for name in ("custody", "norms", "participation", "page", "model", "ledger"):
        assert re.search(rf"Not checked here: [^.]*\b{name}\b", found.claim), name
    assert "Attested by the owner alone: " in found.claim
    assert set(FOREMOST) <= set(list_descriptions(RUN_PARTS, OWNER))
    assert f"{', '.join(FOREMOST)}; the report lists the rest." in found.claim
    (told,) = [one.message for one in found.findings if one.check == "report"]
    assert (
        told == "All report fields match the values recomputed from the evidence; "
        "values attested by the owner and the ledger are copied."
    )
    (counts,) = [dict(one.values) for one in found.findings if one.check == "report"]
    assert counts.keys() == {"recomputed", "owner", "ledger", "unknown"}
    assert sum(counts.values()) == len(list(list_leaf_paths(report)))


@pytest.mark.slow
def test_a_slightly_low_claim_is_replaced_by_the_bound(tmp_path):
    """Such a claim may rest on a tighter accountant, so it is a warning; the proven bound remains."""
    plan = make_plan(trials=BinomialTrialCount(3, 1.0))
    low = plan.guarantee.epsilon * 0.997
    stated = replace(plan.epsilon, upper=low, lower=min(plan.epsilon.lower, low))
    lowered = replace(plan, guarantee=replace(plan.guarantee, epsilon=low), epsilon=stated)
    report = finish(tmp_path / "run", tmp_path / "ledger.db", lowered)
    assert report["verification"]["status"] == "warned"
    assert report["claim"]["guarantee"]["epsilon"] == low
    assert report["claim"]["supported"] == report["claim"]["epsilon"]["upper"] == plan.guarantee.epsilon
    assert format_upper(plan.guarantee.epsilon) in report["claim"]["statement"]
    page = render_html(report).partition('<pre id="document">')[0]
    assert f'<th scope="row">epsilon</th><td>{format_upper(plan.guarantee.epsilon)}</td>' in page
    assert f"<li>Epsilon ≤ {format_upper(plan.guarantee.epsilon)} at delta" in page
    assert '<div class="answer warned"><b>Would hold</b><span>on the curator’s word, with a warning</span>' in page


def test_each_compared_part_counts_its_copied_values(finished):
    report, _ = finished
    parts = {part.part: part for part in compare_rebuilt(codec.encode_canonical(report))}
    assert {name for name, part in parts.items() if part.copied == 0} >= {
        "accounting",
        "limits",
        "residual_risks",
        "figure_sources",
    }
    for name in ("owner", "utility", "budget", "rounds", "identity"):
        assert 0 < parts[name].copied == parts[name].fields
    assert 0 < parts["claim"].copied < parts["claim"].fields
