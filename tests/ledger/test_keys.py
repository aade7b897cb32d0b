"""A charge is known by its scope and key: the same key in two scopes is two charges, in all that is told of them."""

import json

import pytest
from tests.ledger.stores import AVAILABLE, STORES
from tests.ledger.test_replay import rehashed

from epsilog.cli.app import load
from epsilog.ledger import (
    Ledger,
    Receipt,
    read_cycles,
    replay,
    write_receipt,
)
from epsilog.ledger.commands import Start
from epsilog.mechanisms import PureDP
from epsilog.signing import SigningKey
from epsilog.terms import CheckError, ConflictError, LedgerIntegrityError
from epsilog.verification.ledger_excerpt import LedgerReader

app = load()

ACT = {"actor": "dora", "reason": "agreed"}
HASH, OTHER = "ab" * 32, "cd" * 32
SCOPES = ("acme", "acme/claims", "zeta")


@pytest.fixture
def books(ledger):
    for scope in ("acme", "zeta"):
        ledger.create_budget(scope, kind="approximate", epsilon="8", delta="1e-5")
    return ledger


def reserved(books, **more):
    return [
        books.reserve(scope, PureDP(0.25 * number), key="k", rounds=2, plan_hash=HASH, **more)
        for number, scope in enumerate(SCOPES, 1)
    ]


@pytest.mark.parametrize("name", STORES)
def test_each_lives_its_own_life_in_every_store(name, tmp_path, clock):
    if name not in AVAILABLE:
        pytest.skip(f"no server or driver for {name}: run scripts/system-packages")
    place = STORES[name](tmp_path)
    with Ledger(place.open(), clock=clock) as books:
        for scope in ("acme", "zeta"):
            books.create_budget(scope, kind="pure", epsilon="8")
        top, claims, zeta = reserved(books)
        assert not any(one.replayed for one in (top, claims, zeta))
        top.start()
        zeta.start()
        zeta.round_started(1)
        zeta.round_released(1, output_hash=OTHER)
        assert (top.rounds_started, zeta.rounds_released) == ({}, {1: OTHER})
        top.round_started(1)
        claims.cancel("not needed")
        zeta.commit()
        assert [one.state for one in (top, claims, zeta)] == ["started", "cancelled", "committed"]
        assert books.reserve("zeta", PureDP(0.75), key="k", rounds=2, plan_hash=HASH).state == "committed"
        spent = {scope: books.balance(scope).spent["epsilon"] for scope in ("acme", "zeta")}
        assert spent == {"acme": "0.25", "zeta": "0.75"}
        whole = books.verify()
        assert whole.charges.keys() == {(scope, "k") for scope in SCOPES}
        place.edit("charges", ("zeta", "k"), document=whole.charges["acme/claims", "k"].document())
        with pytest.raises(LedgerIntegrityError, match="stored charge 'k' at 'zeta'"):
            books.verify()


LOOKING = {
    "charge_record": lambda books, **at: books.charge_record("k", **at).scope,
    "charge_rounds": lambda books, **at: books.charge_rounds("k", **at),
    "find": lambda books, **at: books.find("k", **at).scope,
    "find_record": lambda books, **at: books.find_record("k", **at).scope,
}
ACTING = {
    "start": lambda books, **at: books.execute(Start(key="k", **at)),
    "expire": lambda books, **at: books.expire("k", **at),
    "revoke": lambda books, **at: books.revoke("k", **ACT, **at),
    "abandon": lambda books, **at: books.abandon("k", **ACT, **at),
    "decommission": lambda books, **at: books.decommission("k", **ACT, **at),
}


@pytest.mark.parametrize("ask", (LOOKING | ACTING).values(), ids=LOOKING | ACTING)
def test_a_key_of_several_charges_takes_the_scope_that_is_meant(books, clock, ask):
    reserved(books, until=clock())
    clock.now = clock.now.replace(year=2027)
    count = books.head()[0]
    with pytest.raises(ConflictError, match=r"several scopes \('acme', 'acme/claims', 'zeta'\): state the scope"):
        ask(books)
    seen = books.on_behalf_of("anna", covers=lambda scope: scope.startswith("acme"))
    with pytest.raises(ConflictError, match=r"several scopes \('acme', 'acme/claims'\): state the scope"):
        ask(seen)
    assert books.head()[0] == count
    if ask is ACTING["decommission"]:
        books.abandon("k", scope="acme/claims", **ACT)
    found = ask(seen, scope="acme/claims")
    assert ask in ACTING.values() or found in ("acme/claims", [])
    moved = [one.scope for one in books.history(after=count)]
    assert set(moved) == ({"acme/claims"} if ask in ACTING.values() else set())


@pytest.mark.parametrize("ask", (LOOKING | ACTING).values(), ids=LOOKING | ACTING)
def test_what_is_not_seen_is_not_there(books, ask):
    reserved(books)
    count = books.head()[0]
    blind = books.on_behalf_of("anna", covers=lambda scope: scope == "nowhere")
    for at in ({}, {"scope": "zeta"}, {"scope": "nowhere"}):
        told = []
        for key in ("k", "x"):
            try:
                told.append(repr(ask(_asking(blind, key), **at)))
            except (ConflictError, AttributeError) as refusal:
                told.append(f"{refusal!r}".replace(f"'{key}'", "K"))
        assert told[0] == told[1]
    assert books.head()[0] == count
    one = books.on_behalf_of("anna", covers=lambda scope: scope == "zeta")
    assert one.charge_record("k").scope == one.find("k").scope == "zeta"


def _asking(books, key):
    """The same ledger, asked of another key than is said."""

    class Asking:
        def __getattr__(self, name):
            return lambda _, *rest, **more: getattr(books, name)(key, *rest, **more)

    return Asking()


def test_a_charge_that_is_not_there_is_refused_by_its_key_and_scope(books):
    books.charge("zeta", PureDP(0.1), key="k")
    for key, at, told in (("x", {}, "a charge, got 'x'"), ("k", {"scope": "acme"}, "a charge at 'acme', got 'k'")):
        with pytest.raises(ConflictError, match=told):
            books.charge_record(key, **at)


def test_many_scopes_are_not_all_listed(books):
    for number in range(13):
        books.charge(f"zeta/{number:02}", PureDP(0.1), key="k")
    with pytest.raises(ConflictError, match=r"'zeta/09' and 3 more\): state the scope"):
        books.charge_record("k")


def test_an_entry_is_of_the_charge_in_its_own_scope(books):
    """Each entry names both, so one that names the scope of nobody, or of another, is refused or is that one's."""
    reserved(books)[0].start()
    documents = [json.loads(document) for _, document in books.documents()]
    start = documents[-1]
    for scope in ("acme/claims", "zeta"):
        forged = start | {"scope": scope, "index": len(documents) + 1}
        with pytest.raises(LedgerIntegrityError, match="must move what was reserved"):
            replay.replay_entries(rehashed([*documents, forged]))
    nobody = start | {"scope": "acme/other", "index": len(documents) + 1}
    with pytest.raises(LedgerIntegrityError, match="charge 'k' must have been reserved at 'acme/other'"):
        replay.replay_entries(rehashed([*documents, nobody]))
    again = documents[2] | {"index": len(documents) + 1}
    with pytest.raises(LedgerIntegrityError, match="must be reserved once"):
        replay.replay_entries(rehashed([*documents, again]))


def test_a_plan_and_a_price_bind_the_key_in_their_scope_alone(books):
    books.register_plan("acme", HASH, key="k")
    books.override_cost("zeta", PureDP(1.0), key="k", amount={"epsilon": "0.5", "delta": "0"}, reason="so")
    assert not books.charge("acme/claims", PureDP(1.0), key="k").replayed
    with pytest.raises(ConflictError, match="registered for another plan"):
        books.charge("acme", PureDP(1.0), key="k")
    with pytest.raises(ValueError, match="amount must be at least"):
        books.charge("zeta/x", PureDP(1.0), key="k", amount={"epsilon": "0.5", "delta": "0"})
    books.charge("zeta", PureDP(1.0), key="k", amount={"epsilon": "0.5", "delta": "0"})
    assert books.verify().overridden == (("zeta", "k"),)


def test_cycles_and_the_word_on_a_plan_tell_them_apart(books, path):
    top, claims, zeta = reserved(books)
    for one in (claims, top):
        one.start()
    top.commit()
    books.decommission("k", scope="acme", **ACT)
    zeta.start()
    zeta.round_started(1)
    found = [one for cycle in read_cycles(books, "acme").cycles for one in cycle.releases]
    assert [(one.scope, one.key, one.amounts["epsilon"], one.state) for one in found] == [
        ("acme/claims", "k", "0.5", "started"),
        ("acme", "k", "0.25", "decommissioned"),
    ]
    word = LedgerReader.read(path).read_excerpt(HASH)  # of several charges, the last
    assert (word.scope, word.key, word.state, word.attempts, word.other_charges) == ("zeta", "k", "started", {1: 1}, 2)


def test_a_receipt_is_of_the_charge_that_is_meant(books):
    for one in reserved(books)[1:]:
        one.start()
    documents, signer = [document for _, document in books.documents()], SigningKey.create("privacy")
    with pytest.raises(CheckError, match="scope must be one of acme, acme/claims, zeta: each has this key"):
        write_receipt(documents, key="k", origin="o", signer=signer)
    for scope, epsilon, state in (("acme", "0.25", "reserved"), ("acme/claims", "0.5", "started")):
        note = write_receipt(documents, key="k", scope=scope, origin="o", signer=signer)
        facts = Receipt.parse(note.text).facts
        assert (facts["amounts"]["approximate"]["epsilon"], facts["state"]) == (epsilon, state)
    with pytest.raises(CheckError, match="the key of a charge in this ledger"):
        write_receipt(documents, key="k", scope="acme/other", origin="o", signer=signer)
