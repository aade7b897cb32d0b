"""A ledger over HTTP: the same verbs, the same refusals, and nothing written that was refused."""

import functools
import hashlib
import http.client
import json
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from epsilog.certificates import certificate
from epsilog.cli.ledger_rows import list_unchecked
from epsilog.ledger import (
    Checkpoint,
    StoredCheckpoint,
    iterate_verified_documents,
    open_ledger,
    read_ledger,
)
from epsilog.ledger.execute import Local
from epsilog.ledger.remote import RemoteStore
from epsilog.ledger.remote.store import parse_entry_row
from epsilog.mechanisms import Gaussian, PureDP, Repeated
from epsilog.server import app as web_app, authorization
from epsilog.server.access import Holder, Role
from epsilog.server.app import create_app
from epsilog.server.workers import WorkerPool
from epsilog.signing import SigningKey
from epsilog.terms import (
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    OutcomeUnknownError,
    PermissionDeniedError,
    StorageError,
)

HASH, OTHER = "ab" * 32, "cd" * 32


DATA = {"v": 1, "term": {"type": "pure", "epsilon": 0.25}}


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve_app):
    """An application over an empty ledger, and its site."""
    path = tmp_path_factory.mktemp("served") / "ledger.db"
    open_ledger(path).close()
    app = create_app(ledger=str(path))
    with serve_app(app) as site:
        yield app, site, path


@pytest.fixture(scope="module")
def site(served):
    return served[1]


@pytest.fixture(scope="module")
def ledger(site):
    with open_ledger(site.url) as opened:
        yield opened


@pytest.fixture
def top(request, ledger):
    """A budget of this test's own: epsilon 1."""
    name = request.node.name.replace("/", "-").replace(".", "-")[:80]
    ledger.create_budget(name, kind="pure", epsilon="1")
    return name


@pytest.fixture
def held_by(monkeypatch):
    """Makes whoever asks somebody else, while the test lasts."""

    def become(role, scope, name="anna"):
        monkeypatch.setattr(authorization, "find_holder", lambda _: Holder(name, role, scope))

    return become


def test_amounts_are_exact_whatever_number_they_came_as(ledger, top):
    ledger.create_budget(f"{top}/z", kind="approximate", epsilon="3.000000001", delta=1e-5)
    found = ledger.balance(f"{top}/z").caps
    assert dict(found) == {"epsilon": "3.000000001", "delta": "0.00001"}
    assert ledger.get_headroom(top, PureDP(0.25)).charges == 4


def test_the_key_may_come_as_a_header_and_must_be_the_same(site, top):
    ask = {"scope": top, "release": DATA}
    assert site.post("ledger/reserve", ask).status == 422
    for header in (f'"{top}-h"', f"{top}-h"):
        assert site.post("ledger/reserve", ask, headers={"Idempotency-Key": header}).status == 200
    two = {"Host": "localhost", "Content-Type": "application/json"}
    for more in ([("Idempotency-Key", f"{top}-h"), ("Idempotency-Key", f"{top}-i")], [("Idempotency-Key", "a")] * 2):
        asked = http.client.HTTPConnection("127.0.0.1", int(site.url.rpartition(":")[2]))
        asked.putrequest("POST", "/api/v1/ledger/charge", skip_host=True)
        body = json.dumps(ask).encode()
        for name, value in [*two.items(), ("Content-Length", str(len(body))), *more]:
            asked.putheader(name, value)
        asked.endheaders(body)
        answer = asked.getresponse()
        assert (answer.status, b"idempotency-key must be given once" in answer.read()) == (400, True)
        asked.close()
    both = site.post("ledger/charge", ask | {"key": "another"}, headers={"Idempotency-Key": f'"{top}-h"'})
    assert (both.status, both.json()["errors"][0]["field"]) == (422, "key")


ODD = ["1e400", "NaN", "-0", "-1", "", " 1", "1_0", "0x1", "١", "1" * 101, "Infinity", "1e1000"]
ODD_EPSILONS = [b"1e400", b"NaN", b"-0.25", b'"x"']


BODIES = [
    *(b"", b"[]", b"null", b'{"scope": "odd", "scope": "lab"}', b"[" * 30_000),
    *(
        b'{"scope": "odd", "key": "odd", "release": ' + release + b"}"
        for release in (
            *(b'{"v": 1, "term": {"type": "pure", "epsilon": ' + epsilon + b"}}" for epsilon in ODD_EPSILONS),
            *(b'{"v": 1, "term": {"type": "pure"}}', b'{"v": 1, "term": [1]}', b'{"v": false, "term": {}}'),
            b'{"v": 1, "term": {"type": "interval", "lower": 0, "upper": 1}}',
        )
    ),
    b'{"scope": "odd", "key": "\\ud800", "release": {"v": 1, "term": {"type": "pure", "epsilon": 0.25}}}',
    *(
        json.dumps({"scope": "odd", "key": "odd", "release": DATA, field: value}).encode()
        for field, value in (
            *((field, value) for odd in ODD for field, value in (("delta", odd), ("amount", {"epsilon": odd}))),
            *(("surprise", 1), ("delta", 0.5), ("rounds", 1.5), ("rounds", 10**30), ("until", "soon")),
        )
    ),
]


@pytest.mark.parametrize("path", ["reserve", "charge"])
def test_odd_bodies_are_refused_and_nothing_is_written(site, ledger, path):
    if "odd" not in {budget.scope for budget in ledger.budgets()}:
        ledger.create_budget("odd", kind="approximate", epsilon="10", delta="0.1")
    before = ledger.head()
    for raw in BODIES:
        found = site.post(f"ledger/{path}", raw=raw)
        assert 400 <= found.status < 500, (raw, found.body)
        assert found.headers["content-type"] == "application/problem+json"
    assert ledger.head() == before


def test_a_charge_is_for_who_reserved_it_and_for_owners(ledger, top, held_by, served):
    key, soon = f"{top}-mine", datetime.now(UTC) + timedelta(hours=1)
    held_by(Role.SPENDER, top)
    mine = ledger.reserve(top, PureDP(0.125), key=key, rounds=1, until=soon)
    assert ledger.reserve(top, PureDP(0.125), key=key, rounds=1, until=soon).replayed
    ledger.charge(top, PureDP(0.125), key=f"{top}-done")
    ledger.register_plan(top, HASH, key=f"{top}-plan")
    before = ledger.head()
    theirs = (
        lambda: ledger.reserve(top, PureDP(0.125), key=key, rounds=1, until=soon),
        lambda: ledger.charge(top, PureDP(0.125), key=f"{top}-done"),
        lambda: ledger.register_plan(top, HASH, key=f"{top}-plan"),
        lambda: ledger.reserve(top, PureDP(0.125), key=f"{top}-plan", plan_hash=HASH),
        lambda: mine.hold(soon + timedelta(hours=1)),
        lambda: mine.cancel("in the way"),
        mine.start,
    )
    for scope in (top, None):
        held_by(Role.SPENDER, scope, "bob")
        for ask in theirs:
            with pytest.raises(PermissionDeniedError, match="belongs to 'anna': only they, or an owner"):
                ask()
        with pytest.raises(ConflictError, match="is held until"):  # which anybody may say, once its time has come
            ledger.expire(key)
    assert ledger.head() == before
    held_by(Role.SPENDER, top)
    mine.start()
    held_by(Role.SPENDER, top, "bob")
    for ask in (lambda: mine.round_started(1), lambda: mine.round_released(1, output_hash=HASH), mine.commit):
        with pytest.raises(PermissionDeniedError, match="belongs to 'anna'"):
            ask()
    held_by(Role.OWNER, top, "dora")
    mine.round_started(1)
    mine.round_released(1, output_hash=HASH)
    mine.commit()
    with read_ledger(served[2]) as here:
        assert {here.charge_record(f"{top}-{end}").actor for end in ("mine", "done", "plan")} == {"anna"}
        assert here.verify().count == here.head()[0]


def test_a_price_that_an_owner_allows_is_for_who_asks_and_says_who_allowed_it(ledger, top, held_by, served):
    allow = functools.partial(ledger.override_cost, top, PureDP(0.25), amount={"epsilon": "0.125"}, reason="proof")
    held_by(Role.SPENDER, top)
    ledger.register_plan(top, HASH, key=f"{top}-1")
    for name in ("dora", "emil"):  # the same again is the same, whoever says so
        held_by(Role.OWNER, top, name)
        allow(key=f"{top}-1", plan_hash=HASH)
        allow(key=f"{top}-2")
    held_by(Role.SPENDER, top, "bob")
    ledger.reserve(top, PureDP(0.25), key=f"{top}-2", amount={"epsilon": "0.125"})
    with pytest.raises(PermissionDeniedError, match="belongs to 'anna'"):  # who announced it
        ledger.reserve(top, PureDP(0.25), key=f"{top}-1", amount={"epsilon": "0.125"}, plan_hash=HASH)
    held_by(Role.SPENDER, top)
    ledger.reserve(top, PureDP(0.25), key=f"{top}-1", amount={"epsilon": "0.125"}, plan_hash=HASH)
    with read_ledger(served[2]) as here:
        said = [(entry.key, entry.verb, entry.body.get("actor")) for entry in here.history(top) if entry.key]
        assert said == [
            (f"{top}-1", "plan-registered", "anna"),
            (f"{top}-1", "cost-overridden", "dora"),
            (f"{top}-2", "cost-overridden", "dora"),
            (f"{top}-2", "reserved", "bob"),
            (f"{top}-1", "reserved", "anna"),
        ]
        assert [here.charge_record(f"{top}-{number}").actor for number in (1, 2)] == ["anna", "bob"]
        here.verify()


def test_a_served_ledger_is_held_against_a_signed_checkpoint(ledger, top, served):
    ledger.charge(top, PureDP(0.125), key=f"{top}-1")
    signer = SigningKey.create("example.org/auditor")

    def kept(documents):
        return StoredCheckpoint(Checkpoint.over(documents, origin="example.org/ledger").note(signer))

    with read_ledger(served[2]) as here:
        entries = list(iterate_verified_documents(here))
        ledger.charge(top, PureDP(0.125), key=f"{top}-2")
        whole = here.verify()
    asked = {"since": kept(entries), "keys": [signer.verifier]}
    found = ledger.verify(**asked)
    assert (found.since, found.count, found.head) == (len(entries), whole.count, whole.head)
    assert (found.balances, found.unchecked, whole.rechecked - found.rechecked) == (
        whole.balances,
        0,
        whole.rechecked - 1,
    )
    said = " ".join(list_unchecked(found))  # no more than was looked at
    assert f"begins with the {len(entries)} entries of the checkpoint. Their costs were not recomputed" in said
    assert not found.charges_compared
    assert "The server does not show its stored charges" in said
    with pytest.raises(LedgerIntegrityError, match="truncated, or another"):
        ledger.verify(**asked | {"since": kept([*entries, *entries])})
    with pytest.raises(LedgerIntegrityError, match="is not the last of the checkpoint"):
        ledger.verify(**asked | {"since": kept(entries[::-1])})
    with pytest.raises(CheckError, match="must be signed by a key that is given"):
        ledger.verify(since=kept(entries))


@pytest.mark.parametrize("index", ["1", None, 1.0, True])
def test_a_row_whose_index_is_no_number_is_no_entry(index):
    with pytest.raises(LedgerIntegrityError, match="an entry cannot be read"):
        parse_entry_row(json.dumps({"index": index, "scope": "acme"}))


@pytest.mark.parametrize(
    "url",
    [
        "http://ledger.example",
        "http://10.0.0.1:8080",
        "https://anna:secret@ledger.example",
        "https://ledger.example?token=secret",
        "https://ledger.example#secret",
        "https://",
        "https://ledger.example:0",
        "https://ledger.example:99999",
        "https://ledger.example\n",
        "http://localhost.evil.example",
        "HTTP://ledger.example",
        "https://[::1",
    ],
)
def test_addresses_that_are_not_safe_are_refused_and_show_no_secret(url):
    with pytest.raises(CheckError) as found:
        open_ledger(url)
    assert found.value.field == "url"
    assert "secret" not in str(found.value)


def test_a_token_is_never_shown(site, monkeypatch):
    monkeypatch.setenv("EPSILOG_TOKEN", "hush")
    with open_ledger(site.url) as books:
        assert "hush" not in repr(books) + repr(vars(books)) + books.address
    with pytest.raises(CheckError, match="not shown"):
        open_ledger(site.url, token="hush\r\nX: y")  # noqa: S106
    with pytest.raises(CheckError, match="a server has its own clock"):
        open_ledger(site.url, clock=lambda: None)


def test_a_server_that_is_not_there_did_nothing():
    with open_ledger("http://127.0.0.1:1") as books:
        assert isinstance(books._store, RemoteStore)
        with pytest.raises(StorageError, match=r"cannot be reached.*nothing was done"):
            books.head()
    with pytest.raises(StorageError, match="is closed"):
        books.head()


SLOW = (sys.executable, "-c", "import sys\nfor line in sys.stdin: pass")  # a process that never answers


@pytest.mark.slow
def test_certificates_are_checked_in_other_processes_and_refused_by_their_field(tmp_path, serve_app, monkeypatch):
    """The server's own process never runs the checker, and a check that takes too long ends like a cost."""
    path, release = tmp_path / "ledger.db", Repeated(Gaussian(20.0), 10)
    with open_ledger(path) as books:
        books.create_budget("acme", kind="approximate", epsilon="9", delta="1e-5", requires_certificate=True)
    text, other = (certificate(one, delta=1e-6).text for one in (release, Gaussian(20.0)))
    monkeypatch.setattr("epsilog.certificates.checker.open_checker", None)
    with serve_app(create_app(ledger=str(path)), processes=True) as site, open_ledger(site.url) as ledger:
        charge = functools.partial(ledger.charge, "acme", key="run", delta="1e-6")
        with pytest.raises(CheckError, match=r"^certificate must be given: the budget of 'acme' requires one"):
            charge(release)
        with pytest.raises(CheckError, match=r"^certificate.claim.releases"):
            charge(release, certificate=other)
        with pytest.raises(CheckError, match=r"^certificate must be proven by the checker"):
            charge(release, certificate="{}")
        assert ledger.find("run") is None
        assert charge(release, certificate=text).certificate == hashlib.sha256(text.encode()).hexdigest()
        assert charge(release, certificate=text).replayed
        asked = {"scope": "acme", "key": "long", "release": DATA, "certificate": "x" * 2**17}
        assert site.post("ledger/charge", asked).status == 413
    monkeypatch.setattr(web_app, "WorkerPool", functools.partial(WorkerPool, command=SLOW))
    with (
        serve_app(create_app(ledger=str(path), workers=WorkerPool(deadline=1.0))) as site,
        open_ledger(site.url) as ledger,
        pytest.raises(EpsilogError, match="exceeded 1 s"),
    ):
        ledger.charge("acme", release, key="slow", delta="1e-6", certificate=text)


@pytest.mark.slow
def test_a_price_that_takes_too_long_keeps_nobody_waiting_and_writes_nothing(tmp_path, serve_app, monkeypatch):
    monkeypatch.setattr(web_app, "WorkerPool", functools.partial(WorkerPool, command=SLOW))
    path = tmp_path / "ledger.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="approximate", epsilon="9", delta="1e-5")
    slow, refused = Repeated(Gaussian(20.0), 10), []

    def wait(number):
        with open_ledger(site.url) as books:
            try:
                books.charge("acme", slow, key=f"slow-{number}", delta="1e-6")
            except EpsilogError as error:
                refused.append(error)

    with (
        serve_app(create_app(ledger=str(path), workers=WorkerPool(deadline=1.0))) as site,
        open_ledger(site.url) as ledger,
    ):
        waiting = [threading.Thread(target=wait, args=(number,)) for number in range(4)]
        for thread in waiting:
            thread.start()
        quick = ledger.reserve("acme", PureDP(0.125), key="quick")
        quick.start()
        quick.commit()
        assert any(thread.is_alive() for thread in waiting)
        assert len(refused) < len(waiting)
        for thread in waiting:
            thread.join()
        assert [type(error) for error in refused] == [EpsilogError] * 4
        assert all("exceeded 1 s" in str(error) for error in refused)
        assert {entry.key for entry in ledger.history("acme")} == {None, "quick"}


@pytest.mark.slow
def test_strangers_who_fill_the_desk_keep_no_price_waiting(tmp_path, serve_app):
    path = tmp_path / "ledger.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="approximate", epsilon="9", delta="1e-5")
    app = create_app(ledger=str(path))
    with serve_app(app, processes=True) as site, open_ledger(site.url) as ledger:
        for queue in (app.state.workers._quick, app.state.workers._slow):
            queue._queued = queue._max_queued
        run = {"population": 5000, "cohort_size": 50, "rounds": 20, "noise_multiplier": 1.2}
        assert site.post("federated", run).status == 503
        assert site.post("federated/curve", run).status == 503
        ledger.charge("acme", Repeated(Gaussian(20.0), 10), key="priced", delta="1e-6")
        assert ledger.find("priced").state == "committed"


@pytest.mark.slow
def test_what_the_servers_disk_refuses_may_stand_all_the_same(ledger, top, monkeypatch):
    def full(*_, **__):
        raise StorageError("a full disk")

    monkeypatch.setattr(Local, "execute", full)
    with pytest.raises(OutcomeUnknownError, match="a full disk; the request may or may not have taken effect"):
        ledger.reserve(top, PureDP(0.125), key=f"{top}-1")
