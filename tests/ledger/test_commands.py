"""One contract for every command, store and transport: the same outcome, the same entries, and the same once."""

import json
import subprocess
import sys
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.ledger.stores import AVAILABLE, STORES
from tests.server.conftest import serving

from epsilog.certificates import certificate
from epsilog.ledger import Ledger, open_ledger, read_cycles
from epsilog.ledger.commands import COMMANDS
from epsilog.ledger.commands.base import CHARGE, ENTIRE_LEDGER, WRITERS, Caller, Command, check_entry
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.mechanisms import Gaussian, Laplace, PureDP, Repeated
from epsilog.server.access import Action
from epsilog.server.app import create_app
from epsilog.server.authorization import PERMISSIONS
from epsilog.terms import (
    BudgetExceededError,
    CheckError,
    ConflictError,
    EpsilogError,
    PermissionDeniedError,
    UnsupportedMechanismError,
    codec,
)

WHO = {"actor": "dora", "reason": "as decided"}
H, OTHER = "ab" * 32, "cd" * 32
QUARTER, NOISE = codec.to_json(PureDP(0.25)), codec.to_json(Laplace(8.0))
SGD = codec.to_json(Repeated(Laplace(20.0), 3))
PROVEN = {"scope": "proven", "kind": "approximate", "caps": {"epsilon": "3", "delta": "1e-5"}}
REQUIRED = PROVEN | {"requires_certificate": True}
STEPS = codec.to_json(Repeated(Gaussian(8.0), 3))
PROOF = certificate(Repeated(Gaussian(8.0), 3), delta=1e-6).text
SOON, LATE = "2026-01-01T00:01:00+00:00", "2027-01-01T00:00:00+02:00"
DONE, STANDS = "done", "stands"  # an entry is written; the same was done before, and none is
PURE = {"kind": "pure", "privacy_unit": "person"}


def asks(key, scope="acme", release=QUARTER, **more):
    return {"key": key, "scope": scope, "release": release, **more}


LIFE = [  # each command, what it is sent as, and what becomes of it
    ("create", {"scope": "acme", "caps": {"epsilon": "8"}, **PURE}, DONE),
    ("create", {"scope": "acme", "caps": {"epsilon": "8"}, **PURE}, STANDS),
    ("create", {"scope": "acme", "caps": {"epsilon": "9"}, **PURE}, ConflictError),
    ("create", {"scope": "acme//x", "caps": {"epsilon": "9"}, **PURE}, CheckError),
    ("create", {"scope": "beta", "caps": {"rho": "9"}, **PURE}, ValueError),
    ("create", {"scope": "acme/team", "caps": {"epsilon": "0.5"}, "quota": True, **PURE}, DONE),
    ("create", {"scope": "acme/team", "caps": {"epsilon": "0.5"}, **PURE}, ConflictError),
    ("create", {"scope": "acme/deep/x", "caps": {"epsilon": "0.5"}, **PURE}, DONE),
    ("declare-partition", {"scope": "acme/deep", "caps": {"epsilon": "0.5"}, **WHO}, ConflictError),
    ("create", {"scope": "acme/large", "caps": {"epsilon": "20"}, "quota": True, **PURE}, BudgetExceededError),
    ("create", {"scope": "g", "kind": "gdp", "caps": {"epsilon": "2", "delta": "1e-5"}}, DONE),
    ("create", {"scope": "r", "kind": "rdp", "caps": {"epsilon": "2", "delta": "1e-5"}, "orders": ["8", "16"]}, DONE),
    ("declare-partition", {"scope": "acme/blocks", "caps": {"epsilon": "1"}, **WHO}, DONE),
    ("declare-partition", {"scope": "acme/blocks", "caps": {"epsilon": "1"}, **WHO}, STANDS),
    ("declare-partition", {"scope": "acme/other", "caps": {"epsilon": "9"}, **WHO}, BudgetExceededError),
    ("set-cap", {"scope": "acme/blocks", "caps": {"epsilon": "1.5"}, **WHO}, DONE),
    ("set-cap", {"scope": "acme/blocks", "caps": {"epsilon": "1"}, **WHO}, ConflictError),
    ("create", {"scope": "acme/blocks/jan", "caps": {"epsilon": "1"}, **PURE}, DONE),
    ("set-cap", {"scope": "acme", "caps": {"epsilon": "4"}, **WHO}, DONE),
    ("set-cap", {"scope": "acme", "caps": {"epsilon": "4"}, **WHO}, STANDS),
    ("set-cap", {"scope": "nowhere", "caps": {"epsilon": "4"}, **WHO}, CheckError),
    ("register-plan", {"scope": "acme", "key": "run", "plan_hash": H}, DONE),
    ("register-plan", {"scope": "acme", "key": "run", "plan_hash": H}, STANDS),
    ("register-plan", {"scope": "acme", "key": "run", "plan_hash": OTHER}, ConflictError),
    ("reserve", asks("run", plan_hash=OTHER), ConflictError),
    ("reserve", asks("run", plan_hash=H, rounds=2, until=SOON), DONE),
    ("reserve", asks("run", plan_hash=H, rounds=2, until=SOON), STANDS),
    ("reserve", asks("run", plan_hash=H, rounds=3, until=SOON), ConflictError),
    ("hold", {"key": "run", "until": LATE}, DONE),
    ("hold", {"key": "run", "until": LATE}, STANDS),
    ("round-start", {"key": "run", "round": 1}, ConflictError),
    ("start", {"key": "run"}, DONE),
    ("start", {"key": "run"}, ConflictError),
    ("hold", {"key": "run", "until": LATE}, ConflictError),
    ("round-start", {"key": "run", "round": 1}, DONE),
    ("round-start", {"key": "run", "round": 1}, DONE),
    ("round-start", {"key": "run", "round": 2}, ConflictError),
    ("round-release", {"key": "run", "round": 2, "output_hash": H}, ConflictError),
    ("commit", {"key": "run"}, ConflictError),
    ("round-release", {"key": "run", "round": 1, "output_hash": H}, DONE),
    ("round-release", {"key": "run", "round": 1, "output_hash": H}, STANDS),
    ("round-release", {"key": "run", "round": 1, "output_hash": OTHER}, ConflictError),
    ("round-start", {"key": "run", "round": 3}, ConflictError),
    ("commit", {"key": "run", "evidence": {"rounds.jsonl": H}}, DONE),
    ("commit", {"key": "run", "evidence": {"rounds.jsonl": H}}, STANDS),
    ("commit", {"key": "run", "evidence": {"rounds.jsonl": OTHER}}, ConflictError),
    ("commit", {"key": "run", "evidence": {"custody.jsonl": H}}, CheckError),
    ("round-release", {"key": "run", "round": 1, "output_hash": H}, STANDS),
    ("decommission", {"key": "run", **WHO}, DONE),
    ("decommission", {"key": "run", **WHO}, STANDS),
    ("charge", asks("priced", release=SGD), DONE),
    ("charge", asks("priced", release=SGD), STANDS),
    ("charge", asks("block", scope="acme/blocks/jan/anna"), DONE),
    ("charge", asks("none", scope="acme/blocks"), ConflictError),
    ("charge", asks("less", release=NOISE, amount={"epsilon": "0.1"}), CheckError),
    ("override-cost", asks("less", release=NOISE, amount={"epsilon": "0.1"}, reason="proof 12"), DONE),
    ("override-cost", asks("less", release=NOISE, amount={"epsilon": "0.1"}, reason="proof 12"), STANDS),
    ("charge", asks("less", release=NOISE, amount={"epsilon": "0.1"}), DONE),
    ("charge", asks("unknown", scope="g", release=codec.to_json(PureDP(0.1))), UnsupportedMechanismError),
    ("reserve", asks("back"), DONE),
    ("charge", asks("back"), ConflictError),
    ("expire", {"key": "back"}, ConflictError),
    ("cancel", {"key": "back", "reason": "not needed"}, DONE),
    ("cancel", {"key": "back", "reason": "not needed"}, STANDS),
    ("reserve", asks("back"), ConflictError),
    ("reserve", asks("old", until="2025-01-01T00:00:00+00:00"), DONE),
    ("expire", {"key": "old"}, DONE),
    ("expire", {"key": "old"}, STANDS),
    ("expire", {"key": "nobody"}, ConflictError),
    ("reserve", asks("theirs"), DONE),
    ("revoke", {"key": "theirs", **WHO}, DONE),
    ("revoke", {"key": "theirs", **WHO}, STANDS),
    ("reserve", asks("gone"), DONE),
    ("start", {"key": "gone", "scope": "acme"}, DONE),
    ("round-start", {"key": "gone", "round": 2}, ConflictError),
    ("abandon", {"key": "gone", **WHO}, DONE),
    ("abandon", {"key": "gone", **WHO}, STANDS),
    ("reserve", asks("unsaid"), DONE),
    ("abandon", {"key": "unsaid", **WHO}, DONE),
    ("abandon", {"key": "unsaid", **WHO}, STANDS),
    ("charge", asks("big", release=codec.to_json(PureDP(5.0))), BudgetExceededError),
    ("set-cap", {"scope": "acme", "caps": {"epsilon": "0.1"}, **WHO}, DONE),
    ("charge", asks("priced", release=SGD), STANDS),  # what is acknowledged is told, whatever fits by now
    ("charge", asks("late"), BudgetExceededError),
    ("set-cap", {"scope": "acme", "caps": {"epsilon": "9"}, **WHO}, DONE),
    ("reserve", asks("open"), DONE),
    ("register-plan", {"scope": "acme", "key": "plan", "plan_hash": H}, DONE),
    ("retire", {"scope": "acme/team", **WHO}, DONE),
    ("retire", {"scope": "acme/team", **WHO}, STANDS),
    ("reserve", asks("late", scope="acme/team"), BudgetExceededError),
    ("create", REQUIRED, DONE),
    ("create", REQUIRED, STANDS),
    ("create", PROVEN, ConflictError),
    ("charge", asks("proven", scope="proven/a", release=STEPS, delta="1e-6"), CheckError),
    ("charge", asks("proven", scope="proven/a", release=NOISE, delta="1e-6", certificate=PROOF), CheckError),
    ("charge", asks("proven", scope="proven/a", release=STEPS, delta="1e-6", certificate=PROOF), DONE),
    ("charge", asks("proven", scope="proven/a", release=STEPS, delta="1e-6", certificate=PROOF), STANDS),
    ("reserve", asks("proven-2", scope="proven", release=STEPS, delta="1e-6", certificate=PROOF), DONE),
    ("create", {"scope": "two", "caps": {"epsilon": "1"}, **PURE, "requires_approvals": 2}, DONE),
    ("create", {"scope": "two", "caps": {"epsilon": "1"}, **PURE, "requires_approvals": 2}, STANDS),
    ("create", {"scope": "two", "caps": {"epsilon": "1"}, **PURE, "requires_approvals": 1}, ConflictError),
    ("create", {"scope": "two/a", "caps": {"epsilon": "1"}, **PURE, "requires_approvals": 1}, DONE),
    ("create", {"scope": "time", "caps": {"epsilon": "1"}, **PURE, "requires_child_budget": True}, DONE),
    ("create", {"scope": "time", "caps": {"epsilon": "1"}, **PURE}, ConflictError),
    ("create", {"scope": "time/q", "caps": {"epsilon": "1"}, **PURE, "valid_until": "2025-01-01T00:00Z"}, DONE),
    ("create", {"scope": "time/q", "caps": {"epsilon": "1"}, **PURE, "valid_until": "2025-01-01T00:00:00Z"}, STANDS),
    (
        "create",
        {"scope": "time/q", "caps": {"epsilon": "1"}, **PURE, "valid_until": "2025-01-02T00:00Z"},
        ConflictError,
    ),
    ("charge", asks("early", scope="time/q"), ConflictError),
    ("charge", asks("nobody's", scope="time/other"), ConflictError),
    ("charge", asks("at-once", scope="two/a/x"), ConflictError),
    ("set-cap", {"scope": "two/a", "caps": {"epsilon": "2"}, **WHO}, ConflictError),
    ("approve-cap", {"scope": "two/a", "caps": {"epsilon": "2"}, "until": LATE, **WHO}, DONE),
    ("approve-cap", {"scope": "two/a", "caps": {"epsilon": "2"}, "until": LATE, **WHO}, STANDS),
    ("approve-cap", {"scope": "acme", "caps": {"epsilon": "9"}, **WHO}, ConflictError),
    ("reserve", asks("waits", scope="two/a/x"), DONE),
    ("start", {"key": "waits"}, ConflictError),
    ("approve", {"key": "waits", "actor": "dora"}, DONE),
    ("approve", {"key": "waits", "actor": "dora"}, STANDS),
    ("start", {"key": "waits"}, ConflictError),
    ("approve", {"key": "waits", "actor": "emil"}, DONE),
    ("hold", {"key": "waits", "until": LATE}, DONE),
    ("start", {"key": "waits"}, DONE),
    ("approve", {"key": "waits", "actor": "emil"}, STANDS),
    ("approve", {"key": "waits", "actor": "fred"}, ConflictError),
    ("approve", {"key": "nobody", "actor": "dora"}, ConflictError),
    ("approve", {"key": "proven-2", "actor": "dora"}, ConflictError),  # no budget of its path requires any
    ("accept-restore", WHO, ConflictError),
    ("mark-restored", WHO, DONE),
    ("charge", asks("late"), ConflictError),
    ("charge", asks("priced", release=SGD), STANDS),
    ("register-plan", {"scope": "acme", "key": "plan", "plan_hash": H}, STANDS),
    ("accept-restore", WHO, DONE),
    ("start", {"key": "open"}, ConflictError),
    ("abandon", {"key": "open", **WHO}, DONE),
]


class Clock:
    """A second later each time."""

    def __init__(self):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


def lived(ledger):
    """What became of each command, every entry of the ledger afterwards, and what else is read."""
    outcomes = []
    for name, document, _ in LIFE:
        before = ledger.head()
        try:
            ledger.execute(COMMANDS[name].from_json(document))
            outcomes.append((DONE if ledger.head() != before else STANDS, "", {}))
        except (EpsilogError, ValueError) as error:
            assert ledger.head() == before, (name, document)
            fields = {name: value for name, value in vars(error).items() if not name.startswith("__")}
            outcomes.append((type(error), str(error), fields))
    documents = [document for _, document in ledger.documents()]
    return outcomes, documents, [ask(ledger) for ask in READ]


@pytest.fixture(scope="module")
def told():
    """The life of a ledger in memory."""
    with Ledger(STORES["memory"](None).open(), clock=Clock()) as ledger:
        return lived(ledger)


def test_each_command_does_what_the_table_says(told):
    outcomes, documents, _ = told
    for (name, document, expected), (found, says, _) in zip(LIFE, outcomes, strict=True):
        same = found is expected or (
            isinstance(expected, type) and isinstance(found, type) and issubclass(found, expected)
        )
        assert same, (name, document, found, says)
    written = {json.loads(document)["verb"] for document in documents}
    assert written == set(TRANSITIONS)
    assert {name for name, _, outcome in LIFE if outcome == DONE} == set(COMMANDS)


READ = (
    lambda books: books.budgets(),
    lambda books: books.charge_record("run", scope="acme"),
    lambda books: books.charge_rounds("run"),
    lambda books: books.find("run").rounds_released,
    lambda books: books.find("run").request,
    lambda books: [books.find(key) for key in ("plan", "nobody")],
    lambda books: (books.spending("acme"), books.spending("acme", limit=2)),
    lambda books: books.get_headroom("g"),
    lambda books: books.get_headroom("acme/blocks/jan", PureDP(0.1)),
    lambda books: books.budgets_above("acme/blocks/jan/anna"),
    lambda books: list(books.documents()),
    lambda books: list(books.history("acme/blocks", after=3)),
    lambda books: books.page("acme", limit=4, before=40),
    lambda books: books.page("acme", verb="started"),
    lambda books: read_cycles(books, "acme"),
    lambda books: books.head(),
    lambda books: replace(books.verify(), charges_compared=True),  # the one thing that a server does not tell
)


@pytest.fixture(scope="module")
def site():
    """A server whose ledger is exchanged between tests: to start one for each would take a second."""
    app = create_app(ledger="not-used.db")
    with serving(app) as found:
        yield app, found


@pytest.mark.parametrize("transport", ["here", pytest.param("http", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", STORES)
def test_every_store_and_transport_writes_the_same_entries(kind, transport, told, tmp_path, request):
    if kind not in AVAILABLE:
        pytest.skip("PostgreSQL is not installed")
    with Ledger(STORES[kind](tmp_path).open(), clock=Clock()) as ledger:
        if transport == "http":
            app, far = request.getfixturevalue("site")
            app.state.ledger_service._ledger = ledger
            with open_ledger(far.url) as client:
                found = lived(client)
        else:
            found = lived(ledger)
        assert found == told
        assert ledger.verify().count == len(found[1])


@pytest.mark.slow
def test_what_is_typed_writes_the_same_entries(told, tmp_path):
    """But for the times; each option of each command is typed once, and what is left is done here."""
    from typer.testing import CliRunner

    from epsilog.cli.app import load

    app = load()

    path, given = tmp_path / "b.db", set()
    for (name, document, _), (outcome, *_) in zip(LIFE, told[0], strict=True):
        if outcome != DONE:
            continue
        options = {(name, one) for one in document}
        if options <= given or "evidence" in document or document.get("until") == SOON:
            with open_ledger(path) as ledger:
                ledger.execute(COMMANDS[name].from_json(document))
            continue
        given |= options
        words = list(typed(COMMANDS[name], document, tmp_path))
        done = CliRunner().invoke(app, ["ledger", name, *words, "--ledger", str(path), "--json"])
        assert done.exit_code == 0, (words, done.output, done.exception)
    with open_ledger(path) as ledger:
        found = [json.loads(document) for _, document in ledger.documents()]
        ledger.verify()
    assert [_timeless(one) for one in found] == [_timeless(json.loads(one)) for one in told[1]]


def typed(command, document, folder):
    """A document as words of a command line."""
    for name, value in document.items():
        option = f"--{name.replace('_', '-')}"
        if command.args[name].arg.positional:
            yield value
        elif name == "caps":
            for quantity, cap in value.items():
                yield from (f"--{quantity.replace('_', '-')}", cap)
        elif name == "certificate":
            (folder / "certificate.json").write_text(value)
            yield from (option, str(folder / "certificate.json"))
        elif name == "release":
            (folder / "release.json").write_text(json.dumps(value))
            yield from (option, str(folder / "release.json"))
        elif isinstance(value, bool):
            yield option
        elif isinstance(value, dict):
            for quantity, amount in value.items():
                yield from (option, f"{quantity}={amount}")
        else:
            yield from (option, ",".join(value) if isinstance(value, list) else str(value))


def _timeless(document):
    return {name: value for name, value in document.items() if name not in ("time", "previous")}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_sent_and_read_back_and_refuses_what_it_does_not_know(name):
    document = next(given for one, given, outcome in LIFE if (one, outcome) == (name, DONE))
    command = COMMANDS[name].from_json(document)
    assert COMMANDS[name].from_json(json.loads(json.dumps(command.to_json()))) == command
    with pytest.raises(CheckError, match="fields must be some of"):
        COMMANDS[name].from_json({**document, "more": 1})
    required = [one.name for one in fields(command) if one.default is MISSING and one.default_factory is MISSING]
    for one in required:
        with pytest.raises(CheckError, match=f"{one} must be given"):
            COMMANDS[name].from_json({field: value for field, value in document.items() if field != one})
        with pytest.raises((CheckError, ValueError)):
            COMMANDS[name](**{field.name: getattr(command, field.name) for field in fields(command)} | {one: None})


def test_every_entry_has_the_form_of_its_command_and_no_other(told):
    from epsilog.ledger.entries import Entry

    for document in told[1]:
        entry = Entry.parse(document)
        check_entry(entry)
        for name in WRITERS[entry.verb].stored:
            body = dict(entry.body)
            for changed in ({**body, name: [1]}, {one: value for one, value in body.items() if one != name}):
                with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
                    check_entry(Entry.parse(_with(entry, changed)))
        with pytest.raises(ValueError, match="must name"):
            check_entry(Entry.parse(_with(entry, {**entry.body, "more": 1})))


def _with(entry, body):
    return codec.encode_canonical(json.loads(entry.document()) | {"body": body}).decode()


def test_roles_follow_from_the_commands():
    for name, command in COMMANDS.items():
        need = PERMISSIONS["POST", f"/api/v1/ledger/{name}"]
        assert (need.action, need.entire_ledger) == (Action(command.role), command.subject == ENTIRE_LEDGER)
        assert TRANSITIONS[command.verb].owned == (command.role == "own")


@pytest.mark.parametrize("name", sorted(name for name, one in COMMANDS.items() if one.subject == CHARGE))
def test_a_charge_of_somebody_else_is_theirs_to_go_on_with(name):
    """Whether it stands or not: who may not go on with it learns nothing of how it is."""
    document = next(given for one, given, outcome in LIFE if (one, outcome) == (name, DONE))
    with Ledger(STORES["memory"](None).open(), clock=Clock()) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="8")
        anna = ledger.on_behalf_of("anna", owns=lambda _: False)
        anna.register_plan("acme", H, key="k")
        anna.reserve("acme", PureDP(0.25), key="k", plan_hash=H)
        before = ledger.head()
        bob = ledger.on_behalf_of("bob", owns=lambda _: False)
        refused = ConflictError if name == "expire" else PermissionDeniedError
        with pytest.raises(refused):
            bob.execute(COMMANDS[name].from_json({**document, "key": "k", "scope": "acme"}))
        assert ledger.head() == before


def test_what_opens_a_charge_for_nothing_is_admitted_first():
    asked = []
    caller = Caller(actor="anna", admit_free=asked.append)
    with Ledger(STORES["memory"](None).open(), clock=Clock(), caller=caller) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="8")
        ledger.charge("acme", PureDP(0.25), key="1")
        assert asked == []
        ledger.charge("acme", PureDP(0.0), key="2")
        ledger.charge("acme", PureDP(0.0), key="2")
        ledger.register_plan("acme", H, key="3")
        assert asked == ["anna", "anna"]
        ledger.override_cost("acme", Laplace(8.0), key="4", amount={"epsilon": "0.1"}, reason="an owner's")
        assert asked == ["anna", "anna"]


def test_a_cap_that_is_stated_is_another_than_the_same_one_that_was_promised():
    with Ledger(STORES["memory"](None).open(), clock=Clock()) as ledger:
        caps = ledger.create_budget("g", kind="gdp", epsilon="2", delta="1e-5").caps
        before = ledger.head()
        assert ledger.set_cap("g", **WHO, epsilon="2", delta="1e-5").target_guarantee is not None
        assert ledger.head() == before
        assert ledger.set_cap("g", **WHO, **caps).target_guarantee is None
        assert ledger.verify().count == 2


@pytest.mark.slow
def test_a_forked_child_asks_the_server_through_a_connection_of_its_own_alone(site, tmp_path):
    app, far = site
    with Ledger(STORES["sqlite"](tmp_path).open()) as ledger:
        app.state.ledger_service._ledger = ledger
        ledger.create_budget("acme", kind="pure", epsilon="1")
        script = Path(__file__).with_name("inherited.py")
        done = subprocess.run([sys.executable, script, far.url], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(ledger.verify().charges) == 4


def test_a_command_without_a_scope_is_never_made():
    class Nowhere(Command):
        """It has no place."""

    with pytest.raises(TypeError, match="scope_at"):
        Nowhere()
