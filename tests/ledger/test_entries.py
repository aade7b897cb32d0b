import dataclasses
import json

import pytest
from hypothesis import given, settings, strategies as st

from epsilog.ledger import state_json
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.charge_record import ChargeRecord, apply_to_charge
from epsilog.ledger.entries import GENESIS, Entry, EntryParser, Verb, hash_entry
from epsilog.terms import ConflictError
from epsilog.terms.codec import encode_canonical

AMOUNTS = {"pure": Amounts.from_charge({"epsilon": "0.5"})}
ENTRY = Entry(
    1, GENESIS, "2026-01-01T00:00:00.000000+00:00", Verb.STARTED, "acme", "run", AMOUNTS, {"n": [1, 0.5, None]}
)


def test_an_entry_is_stored_as_canonical_json_and_read_back():
    document = ENTRY.document()
    assert Entry.parse(document) == ENTRY
    assert encode_canonical(json.loads(document)).decode() == document
    assert hash_entry(document) == hash_entry(Entry.parse(document).document())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"v":1', '"v":2'),
        ('"v":1', '"v":1,"v":1'),
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
    assert apply_to_charge(charge, ENTRY).state == "started"
    cheaper = Entry(
        2, GENESIS, ENTRY.time, Verb.STARTED, "acme", "run", {"pure": Amounts.from_charge({"epsilon": "0.4"})}
    )
    with pytest.raises(ConflictError, match="must move what was reserved"):
        apply_to_charge(charge, cheaper)
    with pytest.raises(ConflictError, match="must have been reserved at 'acme'"):
        apply_to_charge(None, ENTRY)


TEXTS = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from('"\\\n,:{}'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def read(parse, document):
    """What a text is read as, or that it is refused."""
    try:
        return parse(document)
    except (ValueError, TypeError, RecursionError):
        return "refused"


@pytest.mark.slow
@settings(deadline=None)
@given(
    changes=st.fixed_dictionaries(
        {
            "body": st.dictionaries(TEXTS, VALUES, max_size=3),
            "key": st.none() | TEXTS,
            "scope": TEXTS,
            "index": st.integers(-1, 2**54),
        }
    ),
    canonically=st.booleans(),
    cut=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 400), TEXTS),
)
def test_who_reads_many_entries_reads_what_anybody_reads(changes, canonically, cut):
    fields = json.loads(ENTRY.document()) | changes
    try:
        document = encode_canonical(fields).decode() if canonically else json.dumps(fields, separators=(",", ":"))
    except ValueError:  # what RFC 8785 has no spelling for
        document = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    if cut is not None:
        document = document[: cut[0]] + cut[2] + document[cut[1] :]
    reader = EntryParser()
    found = read(reader.parse, document)
    assert found == read(Entry.parse, document) == read(reader.parse, document)
    if found != "refused":
        assert found.document() == document


@pytest.mark.parametrize(
    "body",
    [
        '{"n":[1,0.5,NaN]}',
        '{"n":[1,0.5,1e400]}',
        '{"n":9007199254740993}',
        '{"n":-0}',
        '{"n":1.0}',
        '{"n":"\\u0041"}',
        '{"b":0,"a":0}',
        '{"\ufffd":0,"\U0001f600":0}',  # RFC 8785 orders names by their UTF-16 units
        '{"a":0},"body":{"a":0}',
        "[]",
    ],
)
@pytest.mark.parametrize("parse", [Entry.parse, EntryParser().parse], ids=["one", "many"])
def test_a_body_is_spelled_in_one_way(parse, body):
    document = ENTRY.document().replace('{"n":[1,0.5,null]}', body)
    assert document != ENTRY.document()
    with pytest.raises((ValueError, TypeError)):
        parse(document)


def test_a_copy_is_the_one_that_the_library_makes():
    charge = ChargeRecord("run", "acme", "reserved", AMOUNTS, rounds=None, opened=1)
    assert state_json.replace_fields(charge, state="started", actor="anna") == dataclasses.replace(
        charge, state="started", actor="anna"
    )
    with pytest.raises(KeyError):
        state_json.replace_fields(charge, color="red")
