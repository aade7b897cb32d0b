"""Pages of the chain, newest first, are the history read backwards; and a check that tells how far it is."""

import pytest

from epsilog.spend import Verb, chain
from epsilog.terms import PureDP


@pytest.fixture
def scopes(ledger):
    for top in ("acme", "acme2", "lab"):
        ledger.create_budget(top, kind="pure", epsilon="100")
    for i in range(12):
        scope = ("acme", "acme/anna", "acme2/ben", "lab/x")[i % 4]
        ledger.charge(scope, PureDP(0.25), key=f"k{i}")
    return (None, "acme", "acme/anna", "acme2", "lab", "nobody")


@pytest.mark.parametrize("limit", [1, 4, 100])
def test_pages_joined_are_the_history_backwards(ledger, scopes, limit):
    for scope in scopes:
        found, before = [], None
        while page := ledger.page(scope, before=before, limit=limit):
            assert len(page) <= limit
            found, before = found + page, page[-1].index
        assert found == ledger.history(scope)[::-1]


def test_one_verb_alone(ledger, scopes):
    for scope in scopes[1:]:
        expected = [entry for entry in ledger.history(scope) if entry.verb is Verb.STARTED]
        assert ledger.page(scope, verb=Verb.STARTED, limit=100) == expected[::-1]
    assert len(expected := ledger.page("acme", verb=Verb.STARTED, limit=100)) == 6
    assert ledger.page("acme", verb=Verb.STARTED, before=expected[2].index, limit=2) == expected[3:5]
    with pytest.raises(ValueError, match="prefix must be a scope"):
        ledger.page(verb=Verb.STARTED)


def test_the_head_is_the_last_entry(ledger, scopes):
    last = ledger.page(limit=1)[0]
    assert ledger.head() == (last.index, ledger.verify().head)


def test_a_check_tells_how_far_it_is_and_can_be_ended(ledger, scopes, monkeypatch):
    monkeypatch.setattr(chain, "REPORT_EVERY", 10)
    seen = []
    assert ledger.verify(progress=seen.append).count == 39
    assert seen == [10, 20, 30]

    def enough(count):
        raise InterruptedError(count)

    with pytest.raises(InterruptedError):
        ledger.verify(progress=enough)
    assert ledger.verify().count == 39
