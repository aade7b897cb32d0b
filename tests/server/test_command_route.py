"""Commands by the short route are those by FastAPI's: the same answers, to good requests and to bad ones."""

import asyncio
import gzip
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.extent import amount
from tests.server.conftest import filled, serving

from epsilog.ledger import Ledger, open_ledger
from epsilog.server import AccessConfig, create_app
from epsilog.server.access import Role
from epsilog.server.command_route import CommandMiddleware
from epsilog.server.ledger_service import LedgerService
from epsilog.server.tokens import create_token
from epsilog.terms import StorageError

PURE = {"v": 1, "term": {"type": "pure", "epsilon": 0.125}}
MUCH = {"type": "pure", "epsilon": 9.0}
DORA = {"actor": "dora", "reason": "agreed"}
CHARGE = {"scope": "acme/claims/anna", "key": "k-1", "release": PURE}
GOOD = (
    ("charge", CHARGE), ("charge", CHARGE | {"key": "k-2"}), ("charge", CHARGE),
    ("charge", CHARGE | {"key": "k-\u00e9\U0001f511"}),
    ("reserve", CHARGE | {"key": "r-1"}), ("start", {"key": "r-1"}), ("commit", {"key": "r-1"}),
    ("start", {"key": "waiting"}),
    ("cap", {"scope": "acme/claims", "caps": {"epsilon": "3.5"}, **DORA}),
    ("hold", {"key": "r-1", "until": "2030-01-01T00:00Z"}),
    ("create-budget", {"scope": "new", "kind": "pure", "caps": {"epsilon": "1"}}), ("revoke", {"key": "r-1", **DORA}),
    ("charge", CHARGE | {"scope": "lab/study", "delta": "1e-6", "release": {"v": 1, "term": {"type": "gaussian"}}}),
    ("charge", CHARGE | {"scope": "acme/claims", "key": "much", "release": {"v": 1, "term": MUCH}}),
)  # fmt: skip
BAD = (
    b"", b"{", b"[]", b"null", b"{}", b'{"scope": "acme", "scope": "acme"}', b'{"scope": NaN}', b"\xff", b'"\\ud800"',
    json.dumps(CHARGE | {"more": 1}).encode(), json.dumps(CHARGE | {"key": 5}).encode(),
    json.dumps(CHARGE | {"key": "x" * 501}).encode(), json.dumps(CHARGE | {"scope": "nowhere"}).encode(),
    json.dumps(CHARGE | {"scope": "/"}).encode(), json.dumps(CHARGE | {"release": {}}).encode(),
    json.dumps(CHARGE | {"release": {"v": 1, "term": {"type": "pure", "epsilon": -1}}}).encode(),
    json.dumps({"scope": "acme/claims", "release": PURE}).encode(), json.dumps(CHARGE | {"release": None}).encode(),
    json.dumps(CHARGE | {"delta": "1"}).encode(), json.dumps(CHARGE | {"relation": "replace-one"}).encode(),
    json.dumps(CHARGE | {"key": "k-1", "amount": {"epsilon": "1"}}).encode(), b" " * 65537,
)  # fmt: skip
HEADERS = (
    {}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-8"}, {"Idempotency-Key": "h-1"},
    {"Idempotency-Key": '"k-1"'}, {"Accept-Encoding": "gzip"}, {"Origin": "https://example.org"},
    {"Host": "example.org"},
    {"X-Forwarded-For": "1.2.3.4"}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Idempotency-Key": ""},
)  # fmt: skip


def tell(said):
    """An answer without what differs from one moment to the next."""
    body = gzip.decompress(said.body) if said.headers.get("content-encoding") == "gzip" else said.body
    body = re.sub(rb"[0-9a-f]{64}|\d{4}-\d\d-\d\dT[0-9:.]+", b"", body)
    passing = ("x-request-id", "date", *(("content-length",) if "content-encoding" in said.headers else ()))
    return said.status, {name: one for name, one in said.headers.items() if name not in passing}, body


def ask_all(site, headers):
    """Every answer to the requests above."""
    told = [tell(site.post(f"ledger/{name}", body, headers=headers)) for name, body in GOOD]
    told += [tell(site.post("ledger/charge", raw=raw, headers=headers)) for raw in BAD]
    asked = json.dumps(CHARGE | {"key": None, "scope": "acme/claims"}).encode()
    told += [tell(site.post("ledger/charge", raw=asked, headers=headers | more)) for more in HEADERS]
    told += [tell(site.ask(method, "/api/v1/ledger/charge", headers=headers)) for method in ("GET", "PUT", "HEAD")]
    return [
        *told,
        tell(site.ask("GET", "/healthz")),
        tell(site.ask("HEAD", "/healthz")),
        tell(site.ask("POST", "/healthz")),
    ]


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("role", [None, Role.OWNER, Role.SPENDER, Role.READER])
def test_both_routes_answer_alike(tmp_path, monkeypatch, capsys, role):
    """Headers, bodies, metrics and the log too."""
    found = []
    for short in (True, False):
        folder = tmp_path / str(short)
        folder.mkdir()
        tokens, headers = None, {}
        if role is not None:
            tokens = folder / "tokens.json"
            headers = {"Authorization": f"Bearer {create_token(tokens, 'anna', role=role, scope='acme')[1]}"}
        access = AccessConfig(tokens=tokens, rate=1000.0, access_log=True)
        if not short:
            monkeypatch.setattr(CommandMiddleware, "__call__", lambda self, *given: self.app(*given))
        with serving(create_app(ledger=str(filled(folder / "l.db")), access=access)) as site:
            told = ask_all(site, headers)
            assert told[0][0] == (403 if role is Role.READER else 200), "the token is accepted"
            counted = [
                line
                for line in site.ask("GET", "/metrics", headers=headers).body.decode().splitlines()
                if "epsilog_re" in line
            ]
        logged = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        lines = [
            {name: one for name, one in line.items() if name not in ("id", "time", "milliseconds")} for line in logged
        ]
        with open_ledger(folder / "l.db") as ledger:
            told.append([(entry.verb, entry.scope, entry.key, entry.body) for entry in ledger.history()])
            ledger.verify()
        found.append((told, [line for line in counted if "_seconds_" not in line and "_created" not in line], lines))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert one == other
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        assert sorted(map(str, one)) == sorted(map(str, other))


@pytest.fixture
def served(tmp_path):
    with open_ledger(tmp_path / "l.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="10")
    with serving(create_app(ledger=str(tmp_path / "l.db"))) as site:
        yield site, tmp_path / "l.db"


def charge(site, key, epsilon=0.125):
    return site.post(
        "ledger/charge",
        {"scope": "acme/x", "key": key, "release": {"v": 1, "term": {"type": "pure", "epsilon": epsilon}}},
    )


@pytest.mark.slow
def test_many_clients_meet_the_cap_to_the_unit(served):
    """A third of them ask again; each answer stands for one charge, and refusals come from the full rules."""
    site, path = served
    keys = [f"k-{number - number % 3 if number % 3 == 1 else number}" for number in range(amount(150, 600))]
    with ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(lambda key: charge(site, key), keys)]
    assert {said.status for said in answers} == {200, 409}
    done = [key for key, said in zip(keys, answers, strict=True) if said.status == 200]
    assert len(set(done)) == 80
    assert all(b"budget-exceeded" in said.body for said in answers if said.status == 409)
    with open_ledger(path) as ledger:
        assert ledger.balance("acme").available == {"epsilon": "0"}
        assert {key for _, key in ledger.verify().charges} == set(done)


def test_charges_that_wait_are_written_together(served, monkeypatch):
    site, path = served
    charge(site, "first")
    sizes, repeat_many = [], Ledger.repeat_many
    free = threading.Event()

    def slowly(asked):
        sizes.append(len(asked))
        free.wait(10)
        return repeat_many(asked)

    monkeypatch.setattr(Ledger, "repeat_many", slowly)
    with ThreadPoolExecutor(9) as pool:
        asked = [pool.submit(charge, site, f"k-{number}") for number in range(9)]
        while len(site.asked) < 10:
            threading.Event().wait(0.01)
        free.set()
        assert {one.result().status for one in asked} == {200}
    assert sum(sizes) == 9
    assert len(sizes) < 9
    with open_ledger(path) as ledger:
        assert ledger.verify().count == 11


@pytest.mark.parametrize(
    ("error", "status"), [(StorageError("the disk is full"), 503), (RuntimeError("can't start new thread"), 500)]
)
def test_a_group_that_fails_is_answered_and_the_next_one_is_written(served, monkeypatch, error, status):
    site, path = served
    charge(site, "first")

    def fail(_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "repeat_many", fail)
        with ThreadPoolExecutor(5) as pool:
            assert {said.status for said in pool.map(lambda key: charge(site, key), "abcde")} == {status}
    assert charge(site, "a").status == 200
    with open_ledger(path) as ledger:
        assert ledger.verify().count == 3


def test_whoever_waits_is_answered_when_the_server_ends(tmp_path):
    """A task that is cancelled leaves nobody waiting."""

    async def ask():
        service = LedgerService(str(tmp_path / "l.db"), costs=None)
        ledger = type("Asked", (), {"is_repeat": lambda *_: True})()
        service._ledger, service.run = ledger, None
        began, over = threading.Event(), threading.Event()

        def wait(_):
            began.set()
            over.wait(10)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Ledger, "repeat_many", wait)
            asked = [asyncio.create_task(service.execute(None, lambda one: one)) for _ in range(3)]
            while not began.is_set():
                await asyncio.sleep(0.01)
            service._writing.cancel()
            over.set()
            found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in found] == [asyncio.CancelledError] * 3
        assert service._writing is None

    asyncio.run(ask())
