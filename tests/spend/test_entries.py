import json

import pytest

from epsilog.spend.amounts import Amounts
from epsilog.spend.entries import GENESIS, Entry, Verb, digest
from epsilog.spend.records import ChargeRecord, advance
from epsilog.terms import ConflictError
from epsilog.terms.codec import canonical

AMOUNTS = {"pure": Amounts.charged({"epsilon": "0.5"})}
ENTRY = Entry(
    1, GENESIS, "2026-01-01T00:00:00.000000+00:00", Verb.STARTED, "acme", "run", AMOUNTS, {"n": [1, 0.5, None]}
)


def test_an_entry_is_stored_as_canonical_json_and_read_back():
    document = ENTRY.document()
    assert Entry.parse(document) == ENTRY
    assert canonical(json.loads(document)).decode() == document
    assert digest(document) == digest(Entry.parse(document).document())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"v":0', '"v":1'),
        ('"v":0', '"v":0,"v":0'),
        ('"n":', '"n":0,"n":'),
        ('"index":1', '"index":0'),
        ('"index":1', '"index":"1"'),
        ('"verb":"started"', '"verb":"refunded"'),
        ('"scope":"acme",', ""),
        ('"0.5"', '"0.50"'),
        ('"0.5"', "0.5"),
        ('"epsilon"', '"sigma"'),
        ("+00:00", ""),
        (GENESIS, GENESIS[1:]),
        ("{", "["),
    ],
)
def test_what_is_not_an_entry_is_refused(old, new):
    document = ENTRY.document()
    assert old in document
    with pytest.raises((ValueError, TypeError)):
        Entry.parse(document.replace(old, new, 1))


def test_a_charge_moves_exactly_what_was_reserved():
    charge = ChargeRecord("run", "acme", "reserved", AMOUNTS, rounds=None, opened=1)
    assert advance(charge, ENTRY).state == "started"
    cheaper = Entry(2, GENESIS, ENTRY.time, Verb.STARTED, "acme", "run", {"pure": Amounts.charged({"epsilon": "0.4"})})
    with pytest.raises(ConflictError, match="must move what was reserved"):
        advance(charge, cheaper)
    elsewhere = Entry(2, GENESIS, ENTRY.time, Verb.STARTED, "acme/anna", "run", AMOUNTS)
    with pytest.raises(ConflictError, match="must have been reserved at 'acme/anna'"):
        advance(charge, elsewhere)
    with pytest.raises(ConflictError, match="must have been reserved"):
        advance(None, ENTRY)
