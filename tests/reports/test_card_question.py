"""The card of a report: its full curve where the whole claim is supported, and no card of what does not hold."""

import hashlib
import json

import pytest

from epsilog.plan.questions import VERDICTS, VerdictQuestion
from epsilog.reports import read_card_question
from epsilog.reports.first_page import count_dots, format_verdict
from epsilog.terms import Status
from epsilog.verification import VERDICT_BASIS, write_answer


def card_of(data):
    given = read_card_question(data)
    return given, VerdictQuestion.parse(given | {"date": "2026-11-28"}).answer()


@pytest.mark.slow
def test_a_card_shows_what_the_first_page_shows(finished, report):
    data = (finished / "report.json").read_bytes()
    given, card = card_of(data)
    dots = count_dots(report)
    assert card["found"] == dots.guessed + dots.found
    assert card["leaked"] == dots.leaked > 0
    assert given["report"] == hashlib.sha256(data).hexdigest()
    assert given["verdict"] == format_verdict(report)
    assert "Would hold" in card["text"]
    assert card["text"].startswith("Rehearsal.")
    assert "From the mechanism’s full curve." in card["text"]


def test_a_claim_that_is_supported_in_part_has_a_card_of_that_part(report):
    spoilt = json.loads(json.dumps(report))
    spoilt["claim"]["supported"] = 24.4
    given, card = card_of(json.dumps(spoilt).encode())
    assert (given["epsilon"], "release" in given) == (24.4, False)
    assert "From epsilon and delta alone" in card["text"]


@pytest.mark.parametrize("broken", ["failed", "inf", "text"])
def test_what_does_not_hold_has_no_card(report, broken):
    spoilt = json.loads(json.dumps(report))
    if broken == "failed":
        spoilt["verification"]["status"] = "failed"
    elif broken == "inf":
        spoilt["claim"]["supported"] = "inf"
    else:
        spoilt = {"kind": "report"}
    with pytest.raises(ValueError, match="report"):
        read_card_question(json.dumps(spoilt).encode())


def test_every_verdict_that_is_written_may_be_stated():
    written = {
        ", ".join(filter(None, write_answer(status, (), basis, simulation=simulation)))
        for status in (Status.PASSED, Status.WARNED)
        for basis in ("", *VERDICT_BASIS.values())
        for simulation in (False, True)
    }
    assert written | {"Cannot tell"} == set(VERDICTS)
