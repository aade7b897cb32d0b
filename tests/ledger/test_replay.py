"""The proof of a chain over plain values: rows and stored state, whatever store they come from."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.extent import amount
from tests.ledger.conftest import Clock
from tests.ledger.stores import InMemory, charge_in_steps

from epsilog.ledger import Amounts, Ledger, Verb, replay
from epsilog.ledger.charge_record import RoundState
from epsilog.ledger.entries import GENESIS, Entry, hash_entry
from epsilog.ledger.store import StoredRow
from epsilog.mechanisms import Gaussian, PureDP
from epsilog.terms import LedgerIntegrityError
from epsilog.terms.codec import encode_canonical

HASH = "ab" * 32
RUN = ("acme", "run")


@pytest.fixture(scope="module")
def written():
    return every_verb(Clock())


@pytest.fixture
def told(written):
    return list(written[0]), written[1]


def every_verb(clock):
    """The rows and the stored state of a ledger in which every verb was used."""
    store = InMemory(None).open()
    ledger = Ledger(store, clock=clock)
    ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-5")
    ledger.create_budget("acme/x", kind="pure", epsilon="5")
    charge_in_steps(ledger, "acme/x", PureDP(0.25), key="one")
    run = ledger.reserve("acme", PureDP(1.0), key="run", rounds=2)
    run.start()
    run.round_started(1)
    run.round_released(1, output_hash=HASH)
    run.commit({"model": HASH})
    ledger.reserve("acme", PureDP(0.125), key="no").cancel("not needed")
    ledger.override_cost("acme", Gaussian(1.0), key="cheap", amount={"epsilon": "0.5"}, reason="as agreed")
    ledger.reserve("acme", Gaussian(1.0), key="cheap", amount={"epsilon": "0.5"})
    owners_acts(ledger, clock)
    with store.reading() as session:
        return list(session.rows()), session.read_stored_state()


def owners_acts(ledger, clock):
    """Everything that only owners do, and what time does."""
    act = {"actor": "dora", "reason": "as agreed"}
    ledger.create_budget("acme/q", kind="approximate", epsilon="1", delta="1e-6", quota=True)
    ledger.set_cap("acme/q", epsilon="0.75", delta="1e-6", **act)
    ledger.register_plan("acme/q", HASH, key="planned")
    soon = clock() + timedelta(seconds=2)
    ledger.reserve("acme/q", PureDP(0.5), key="planned", plan_hash=HASH, until=soon)
    clock.now += timedelta(minutes=1)
    ledger.expire("planned")
    ledger.reserve("acme/q", PureDP(0.5), key="revoked")
    ledger.revoke("revoked", **act)
    crashed = ledger.reserve("acme/q", PureDP(0.25), key="crashed")
    crashed.start()
    crashed.round_started(1)
    ledger.abandon("crashed", **act)
    ledger.reserve("acme/q", PureDP(0.125), key="unknown")
    ledger.abandon("unknown", **act)
    ledger.decommission("crashed", **act)
    ledger.retire("acme/q", **act)
    ledger.create_budget("acme/two", kind="pure", epsilon="1", requires_approvals=1)
    ledger.create_budget(
        "acme/time", kind="pure", epsilon="1", requires_child_budget=True, valid_until="2099-01-01T00Z"
    )
    approved = ledger.reserve("acme/two", PureDP(0.5), key="approved")
    ledger.approve("approved", actor="dora")
    approved.start()
    ledger.approve_cap("acme/two", epsilon="2", actor="emil", reason="why")
    ledger.create_budget("data", kind="pure", epsilon="2", privacy_unit="person-quarter")
    ledger.declare_partition("data/q", epsilon="1", **act)
    ledger.set_cap("data/q", epsilon="1.5", **act)
    ledger.create_budget("data/q/1", kind="pure", epsilon="1.5", privacy_unit="person-quarter")
    ledger.charge("data/q/1", PureDP(1.5), key="block")
    ledger.mark_restored(**act)
    ledger.accept_restored(**act)


def rehashed(documents):
    """Rows of these documents, each naming the one before: what a forger with a calculator leaves."""
    previous, rows = GENESIS, []
    for position, document in enumerate(documents, 1):
        text = encode_canonical({**document, "previous": previous}).decode()
        previous = hash_entry(text)
        rows.append(StoredRow(position, document["scope"], text, previous))
    return rows


def test_what_a_ledger_wrote_holds_and_is_counted(told):
    rows, stored = told
    assert {json.loads(row.document)["verb"] for row in rows} == set(Verb)
    seen = []
    books = replay.replay_entries(rows, progress=seen.append)
    replay.compare_stored_state(books, stored)
    assert ((books.count, books.head), seen) == ((len(rows), rows[-1].hash), [])
    for seconds, rechecked in ((-1, 0), (60, 9), (-1, 9)):  # what was rechecked stays so
        found = replay.recheck_costs(books, seconds=seconds)
        assert (found.count, found.head) == (books.count, books.head)
        assert (found.rechecked, found.unchecked, found.overridden) == (
            rechecked,
            9 - rechecked,
            (("acme", "cheap"),),
        )


def flips(text, every):
    """A text with one bit of one byte flipped: of every so many bytes, and the bit wanders."""
    for place in range(0, len(text), every):
        yield text[:place] + chr(ord(text[place]) ^ (1 << (place % 7))) + text[place + 1 :]


@pytest.mark.parametrize("every", [amount(31, 1)])
def test_no_byte_of_an_entry_can_be_flipped(told, every):
    books, tried = replay.LedgerReplay(), 0
    for row in told[0]:
        for column in ("scope", "document", "hash"):
            for changed in flips(getattr(row, column), every):
                with pytest.raises(
                    LedgerIntegrityError, match=rf"entry {row.position}: (does not match|cannot be read)"
                ):
                    books.read(row._replace(**{column: changed}))
                tried += 1
        books.read(row)
    assert tried > 5000 // every


def neighbors(value, every):
    """Every value that differs in one bit of a number, in one byte of a text or in one part of a tuple or a round."""
    if isinstance(value, str):
        yield from flips(value, every)
    elif isinstance(value, int):
        yield from (value ^ (1 << bit) for bit in range(48))
    elif isinstance(value, RoundState):
        for parts in neighbors((value.number, value.attempts, value.output_hash), every):
            yield RoundState(*parts)
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            for changed in neighbors(part, every):
                yield (*value[:place], changed, *value[place + 1 :])


def states(stored, every):
    """Every state that differs in one byte or bit of one row."""
    for head in neighbors(stored.head, every):
        yield replace(stored, head=head)
    for table in ("balances", "charges", "rounds"):
        rows = getattr(stored, table)
        for name, row in rows.items():
            others = {each: rows[each] for each in rows if each != name}
            for changed_name, changed_row in neighbors((name, row), every):
                yield replace(stored, **{table: {**others, changed_name: changed_row}})


@pytest.mark.parametrize("every", [amount(31, 1)])
def test_no_byte_of_what_is_stored_beside_the_entries_can_be_flipped(told, every):
    rows, stored = told
    books, tried = replay.replay_entries(rows), 0
    for changed in states(stored, every):
        with pytest.raises(LedgerIntegrityError, match=r"the head counts|does not match the entries"):
            replay.compare_stored_state(books, changed)
        tried += 1
    replay.compare_stored_state(books, stored)
    assert tried > 500 // every


@pytest.mark.parametrize(
    ("change", "index", "message"),
    [
        (lambda rows: rows[1:], 1, "is missing or out of order: found 2"),
        (lambda rows: rows[:3] + rows[4:], 4, "is missing or out of order: found 5"),
        (lambda rows: [*rows[:3], rows[4], rows[3], *rows[5:]], 4, "is missing or out of order: found 5"),
        (lambda rows: [rows[0]._replace(position=0), *rows], 1, "is missing or out of order: found 0"),
        (lambda rows: [*rows[:2], rows[2]._replace(scope="other"), *rows[3:]], 3, "does not match its hash"),
        (lambda rows: [*rows[:2], rows[2]._replace(hash=HASH), *rows[3:]], 3, "does not match its hash"),
        (lambda rows: [*rows[:2], rows[2]._replace(document=b"{}"), *rows[3:]], 3, "must be text, got bytes"),
        (lambda rows: [*rows[:2], rows[2]._replace(document="{}"), *rows[3:]], 3, "cannot be read"),
    ],
)
def test_a_row_that_was_changed_is_named_by_its_index(told, change, index, message):
    with pytest.raises(LedgerIntegrityError, match=message) as found:
        replay.replay_entries(change(told[0]))
    assert found.value.index == index


def test_an_entry_put_in_with_a_hash_to_match_breaks_the_next_link(told):
    rows, _ = told
    document = rows[2].document.replace("0.25", "0.05")
    rows[2] = rows[2]._replace(document=document, hash=hash_entry(document))
    with pytest.raises(LedgerIntegrityError, match="entry 4: does not follow"):
        replay.replay_entries(rows)


@pytest.mark.parametrize(
    ("position", "changes"),
    [
        (3, {"verb": "started", "body": {}}),
        (3, {"scope": "nobody"}),
        (4, {"key": "another"}),
        (4, {"amounts": {}}),
        (5, {"verb": "cancelled", "body": {"reason": "back, please"}}),
        (5, {"body": {"evidence": {}, "more": 1}}),
    ],
)
def test_right_hashes_do_not_make_a_rule(told, position, changes):
    documents = [json.loads(row.document) for row in told[0]]
    assert replay.replay_entries(rehashed(documents)).count == len(documents)
    documents[position - 1] |= changes
    with pytest.raises(LedgerIntegrityError, match=f"entry {position}: breaks a rule"):
        replay.replay_entries(rehashed(documents))


FORGED = [  # of the entries that owners write, by verb: what a forger would make of them
    ("cap-changed", {"body": {"actor": "dora", "reason": "why", "caps": {"rho": "9"}}}, "caps of the budget"),
    ("cap-changed", {"body": {"actor": " ", "reason": "why", "caps": {"epsilon": "9", "delta": "0"}}}, "actor must"),
    ("cap-changed", {"body": {"actor": "dora", "reason": "why", "caps": {"epsilon": "10", "delta": "0.5"}}}, "refuses"),
    (
        "cap-changed",
        {"body": {"actor": "dora", "reason": "why", "caps": {"epsilon": "9", "delta": "1"}}},
        "delta must be in",
    ),
    ("cap-changed", {"scope": "acme/q/none"}, "has no budget"),
    ("quota-created", {"scope": "other"}, "requires a budget above"),
    ("scope-retired", {"key": "one"}, "key of scope-retired"),
    ("plan-registered", {"body": {"plan_hash": "none"}}, "plan_hash must be"),
    ("expiry-set", {"body": {"until": "2026-01-01"}}, "until must"),
    ("expired", {"time": "2026-01-01T00:00:00.000000+00:00"}, "is held until"),
    ("expired", {"key": "cheap"}, "must have been reserved at"),
    ("revoked", {"body": {"actor": "dora"}}, "body of revoked"),
    ("approved", {"body": {}}, "body of approved"),
    ("cap-approved", {"body": {"actor": "emil", "reason": "why", "caps": {"epsilon": "2"}}}, "body of cap-approved"),
    ("approved", {"amounts": {"pure": {"epsilon": "0.5"}}}, "amounts of approved"),
    ("abandoned", {"amounts": {}}, "amounts of abandoned"),
    ("abandoned", {"verb": "cancelled", "body": {"reason": "back"}}, "to be reserved, but it is started"),
    ("written-off", {"verb": "abandoned"}, "to be started, but it is reserved"),
    ("decommissioned", {"verb": "revoked"}, "to be reserved, but it is abandoned"),
    ("ledger-restored", {"scope": "acme"}, "scope of ledger-restored must be blank"),
    ("scope-retired", {"scope": ""}, "scope of scope-retired must be named"),
    ("restore-accepted", {"body": {"actor": "dora", "reason": "why", "restored": 30}}, "no restoration awaits"),
    ("restore-accepted", {"body": {"actor": "dora", "reason": "why", "restored": "31"}}, "restored must be"),
    (
        "restore-accepted",
        {"verb": "scope-retired", "scope": "acme", "body": {"actor": "a", "reason": "b"}},
        "until an owner",
    ),
    ("partition-declared", {"amounts": {}}, "amounts of partition-declared"),
    ("partition-declared", {"amounts": {"pure": {"epsilon": "0.999999999"}}}, "must state the amounts"),
    ("partition-declared", {"amounts": {"pure": {"epsilon": "1"}, "zcdp": {"rho": "1"}}}, "must state the amounts"),
    ("partition-declared", {"scope": "lonely/q"}, "requires a budget above"),
    ("partition-declared", {"scope": "data"}, "before the scope has a budget"),
    ("partition-declared", {"scope": "acme/x/q"}, "kind of a partition must be that"),
    ("partition-declared", {"verb": "budget-created"}, "body of budget-created"),
    ("partition-raised", {"amounts": {"pure": {"epsilon": "0.4"}}}, "must state the amounts"),
    ("partition-raised", {"amounts": {}, "verb": "cap-changed"}, "is a partition"),
    ("partition-raised", {"scope": "data"}, "is no partition"),
    ("decommissioned", {"key": "revoked"}, "requires charge 'revoked' to be committed or abandoned"),
]


@pytest.mark.parametrize(("verb", "changes", "message"), FORGED)
def test_right_hashes_do_not_make_an_owners_act(told, verb, changes, message):
    documents = [json.loads(row.document) for row in told[0]]
    (document,) = [document for document in documents if document["verb"] == verb]
    document |= changes
    with pytest.raises(LedgerIntegrityError, match=f"entry {document['index']}: breaks a rule.*{message}"):
        replay.replay_entries(rehashed(documents))


@pytest.mark.parametrize("caps", [{"epsilon": "1", "delta": "5"}, {"epsilon": "10000000000", "delta": "0"}])
def test_a_budget_has_no_cap_that_its_owner_could_not_have_set(told, caps):
    document = json.loads(told[0][0].document)
    assert replay.replay_entries(rehashed([document])).count == 1
    with pytest.raises(LedgerIntegrityError, match=r"entry 1: breaks a rule.* must be in"):
        replay.replay_entries(rehashed([document | {"body": document["body"] | {"caps": caps}}]))


SPELLED = {
    "with blanks": json.dumps,
    "in another order": lambda entry: json.dumps(dict(reversed(entry.items())), separators=(",", ":")),
    "with a letter by its number": lambda entry: encode_canonical(entry).decode().replace("acme", "\\u0061cme"),
    "with a whole number as a float": lambda entry: (
        encode_canonical(entry).decode().replace('"index":2', '"index":2.0')
    ),
    "with a zero more": lambda entry: encode_canonical(entry).decode().replace("0.000012", "1.2e-05"),
}


@pytest.mark.parametrize("spell", SPELLED.values(), ids=SPELLED)
def test_an_entry_is_spelled_in_one_way(spell):
    """Whoever exports it and works its hash out again would find another."""
    store = InMemory(None).open()
    ledger = Ledger(store)
    ledger.create_budget("acme", kind="pure", epsilon="9")
    ledger.charge("acme", PureDP(0.000012), key="ключ\U0001f600")
    with store.reading() as session:
        (first, second, *_) = session.rows()
    assert replay.replay_entries([first, second]).count == 2
    text = spell(json.loads(second.document))
    assert text != second.document
    with pytest.raises(LedgerIntegrityError, match=r"entry 2: .*spelled"):
        replay.replay_entries([first, second._replace(document=text, hash=hash_entry(text))])


def test_of_what_was_open_in_a_backup_no_entry_says_that_it_goes_on(told):
    documents = [json.loads(row.document) for row in told[0]]
    count = len(documents)
    (reserved,) = [one for one in documents if one["verb"] == "reserved" and one["key"] == "cheap"]
    for verb, body in (("started", {}), ("cancelled", {"reason": "back"})):
        entry = reserved | {"verb": verb, "body": body, "index": count + 1}
        assert replay.replay_entries(rehashed([*documents[:-2], entry | {"index": count - 1}])).count == count - 1
        with pytest.raises(LedgerIntegrityError, match=f"entry {count + 1}: .* was open in the backup"):
            replay.replay_entries(rehashed([*documents, entry]))
    written = reserved | {"verb": "written-off", "body": {"actor": "dora", "reason": "lost"}, "index": count + 1}
    assert replay.replay_entries(rehashed([*documents, written])).charges["acme", "cheap"].state == "abandoned"


def test_an_owner_acts_once(told):
    """Decommissioned twice, a charge would be taken from the active view twice; retired twice is no act."""
    documents = [json.loads(row.document) for row in told[0]]
    for verb in (
        "decommissioned",
        "scope-retired",
        "quota-created",
        "abandoned",
        "restore-accepted",
        "partition-declared",
    ):
        (again,) = [document for document in documents if document["verb"] == verb]
        twice = [*documents, again | {"index": len(documents) + 1}]
        with pytest.raises(LedgerIntegrityError, match=f"entry {len(twice)}: breaks a rule"):
            replay.replay_entries(rehashed(twice))


@pytest.mark.parametrize(
    ("scope", "message"), [("acme/x", "exists already"), ("acme/x/y", "before any charge at or under")]
)
def test_a_budget_comes_once_and_before_what_it_counts(told, scope, message):
    documents = [json.loads(row.document) for row in told[0]]
    reserved = documents[2]
    count = len(documents)
    below = reserved | {"scope": "acme/x/y", "key": "below", "index": count + 1}
    late = documents[1] | {"scope": scope, "index": count + 2}
    assert replay.replay_entries(rehashed([*documents, below])).count == count + 1
    with pytest.raises(
        LedgerIntegrityError, match=f"entry {count + 2}: breaks a rule of the ledger: budget of .* {message}"
    ):
        replay.replay_entries(rehashed([*documents, below, late]))


def changed(part, name, value):
    """Another stored state, in which one item of one part is another; None takes it away."""

    def change(stored):
        items = {key: item for key, item in getattr(stored, part).items() if key != name}
        return replace(stored, **{part: items if value is None else items | {name: value}})

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored: replace(stored, head=(9, stored.head[1])), "the head counts 9 entries, but there are 43"),
        (lambda stored: replace(stored, head=(43, HASH)), "the head counts 43 entries, but there are 43"),
        (changed("balances", "acme", "{}"), "stored balance 'acme'"),
        (changed("balances", "acme/x", None), "stored balance 'acme/x'"),
        (changed("balances", "more", "{}"), "stored balance 'more'"),
        (changed("charges", RUN, "{}"), "stored charge 'run' at 'acme'"),
        (changed("charges", ("acme/x", "run"), "{}"), "stored charge 'run' at 'acme/x'"),
        (changed("charges", ("acme/x", "one"), None), "stored charge 'one' at 'acme/x'"),
        (changed("rounds", (RUN, 1), RoundState(1, 2, HASH)), "stored round 1 of charge 'run' at 'acme'"),
        (changed("rounds", (RUN, 1), None), "stored of the rounds of charge 'run'"),
        (changed("rounds", (RUN, 2), RoundState(2, 1)), "stored round 2 of charge 'run' at 'acme'"),
        (changed("rounds", (RUN, 2), RoundState(1, 1, HASH)), "stored round 2 of charge 'run'"),
        (changed("rounds", (RUN, 0), RoundState(0, 1)), "stored round 0 of charge 'run'"),
        (changed("rounds", (RUN, "1"), RoundState("1", 1)), "stored round '1' of charge 'run'"),
        (changed("rounds", (("acme/x", "run"), 1), RoundState(1, 1)), "stored round 1 of charge 'run' at 'acme/x'"),
        (changed("rounds", (("acme", "none"), 1), RoundState(1, 1)), "stored round 1 of charge 'none'"),
    ],
)
def test_what_is_stored_is_what_the_entries_amount_to(told, change, message):
    rows, stored = told
    with pytest.raises(LedgerIntegrityError, match=message) as found:
        replay.compare_stored_state(replay.replay_entries(rows), change(stored))
    assert found.value.index == len(rows)


def test_a_tail_cut_off_with_all_that_hung_on_it_shows_only_against_a_head_kept_elsewhere(told):
    """The limit that the documentation states."""
    rows, _ = told
    books = replay.replay_entries(rows[:2])
    balances = {scope: balance.document() for scope, balance in books.balances.items()}
    replay.compare_stored_state(
        books, replace(told[1], head=(2, rows[1].hash), balances=balances, charges={}, rounds={})
    )
    assert books.head != rows[-1].hash


def test_a_charge_below_its_release_s_price_is_named(told):
    rows, _ = told
    documents = [json.loads(row.document) for row in rows]
    for document in documents:
        if document["key"] == "run" and document["amounts"]:
            document["amounts"]["approximate"]["epsilon"] = "0.9"
    books = replay.replay_entries(rehashed(documents))
    assert replay.recheck_costs(books, seconds=-1).unchecked == 9
    with pytest.raises(LedgerIntegrityError, match=r"charged .*'0.9'.*costs at least .*'1'") as found:
        replay.recheck_costs(books)
    (run,) = [one for one in documents if (one["key"], one["verb"]) == ("run", "reserved")]
    assert run["index"] == found.value.index


def test_an_entry_is_what_the_rules_would_have_written():
    amounts = {"pure": Amounts.from_charge({"epsilon": "0.5"})}
    start = Entry(1, GENESIS, "2026-01-01T00:00:00+00:00", Verb.STARTED, "acme", "run", amounts)
    document = start.document()
    with pytest.raises(LedgerIntegrityError, match="entry 1: breaks a rule of the ledger: scope must lie"):
        replay.replay_entries([StoredRow(1, "acme", document, hash_entry(document))])


def test_rounds_that_are_over_stay_over(told):
    documents = [json.loads(row.document) for row in told[0]]
    end = next(i for i, one in enumerate(documents) if (one["key"], one["verb"]) == ("run", "committed"))
    start, release = documents[end - 2 : end]
    assert [one["verb"] for one in (start, release)] == ["round-started", "round-released"]

    def so_far(*further):
        """The run up to its first round, and these as its next entries."""
        later = [
            one | {"index": end + place, "body": one["body"] | {"round": number}}
            for place, (one, number) in enumerate(further, 1)
        ]
        return replay.replay_entries(rehashed([*documents[:end], *later]))

    books = so_far((start, 2), (start, 2), (release, 2))
    two = [RoundState(1, 1, HASH), RoundState(2, 2, HASH)]
    assert books.rounds[RUN] == two
    for further in ([(start, 1)], [(release, 1)], [(start, 2), (start, 1)], [(start, 2), (release, 1)]):
        with pytest.raises(LedgerIntegrityError, match="round 1 of charge 'run' is released and can be neither rerun"):
            so_far(*further)
    for further in ([(start, 3)], [(release, 2)], [(start, 2), (release, 2), (release, 2)], [(start, 2), (start, 3)]):
        with pytest.raises(LedgerIntegrityError, match="breaks a rule of the ledger: round"):
            so_far(*further)
