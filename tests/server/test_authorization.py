"""A server with tokens: who comes in, who does not, and what those who do not can learn, fill or break."""

import datetime as dt
import json
import logging
import time
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from tests.extent import amount
from tests.server.described import description
from tests.server.inside import ask, ask_at_once, ask_often, refuse_at_the_door

from epsilog.plan import QUESTIONS
from epsilog.server import AccessConfig, authorization, create_app, pages, tokens
from epsilog.server.access import Role
from epsilog.server.authorization import TokenAuthMiddleware
from epsilog.server.jobs import JobRegistry
from epsilog.server.middleware import HostGuardMiddleware, TokenBuckets
from epsilog.server.montecarlo import MonteCarloService
from epsilog.terms import PermissionDeniedError

CLOSED = (
    *("/api/v1/ledger", "/api/v1/ledger/entries", "/api/v1/runs", "/api/v1/runs/x", "/api/v1/montecarlo", "/metrics"),
    *(
        "/nothing",
        "/api/v1/nothing",
        "/api",
        "/api/",
        "/api/v1",
        "//api/v1/ledger",
        "/api/v1/ledger/",
        "/docsx",
        "/redoc",
    ),
)
OPEN = [
    *("/", "/ledger", "/runs/exam-scores-1", "/favicon.svg", "/checker/dp_certificate.mjs"),
    *("/healthz", "/readyz", "/api/openapi.json"),
]
LEDGER = "/api/v1/ledger"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch):
    monkeypatch.setattr(tokens, "_COST", {"time_cost": 1, "memory_cost": 8, "parallelism": 1})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, ledger_path, runs_path):
    """An application, its doorkeeper and its file of tokens."""
    path = tmp_path_factory.mktemp("doors") / "tokens.json"
    tokens.create_token(path, "nobody", role="reader", scope="nowhere")
    app = create_app(ledger=str(ledger_path), runs=runs_path, access=AccessConfig(path))
    app.state.ledger_checks = JobRegistry(what="checks", at_once=1)  # as its life begins; no process is started here
    app.state.montecarlo = MonteCarloService(path.parent)
    ask(app, "GET", "/healthz")
    keeper = app.middleware_stack
    while not isinstance(keeper, TokenAuthMiddleware):
        keeper = keeper.app
    return app, keeper, path


@pytest.fixture
def keeper(guarded):
    """A doorkeeper who has seen nobody."""
    for buckets in (guarded[1]._failures, guarded[1]._holders, guarded[1]._calculator_clients):
        buckets._levels.clear()
    return guarded[1]


@pytest.fixture
def file(guarded):
    """A file of tokens that lets nobody in yet."""
    guarded[2].unlink(missing_ok=True)
    tokens.create_token(guarded[2], "nobody", role="reader", scope="nowhere")
    return guarded[2]


@pytest.fixture
def app(guarded, file, keeper):
    return guarded[0]


def token_of(file, name="anna", role="reader", scope=None, **more):
    return tokens.create_token(file, name, role=role, scope=scope, **more)[1]


def turned_away(found):
    """Whoever is turned away hears the same."""
    assert found.status == 401
    assert found.headers["www-authenticate"] == 'Bearer realm="epsilog"'
    assert found.headers["content-type"] == "application/problem+json"
    assert found.headers["x-content-type-options"] == "nosniff"
    return found.body


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"])
def test_what_is_not_open_is_closed_whether_it_is_there_or_not(app, method):
    assert {turned_away(ask(app, method, path)) for path in CLOSED} == {turned_away(ask(app, "GET", LEDGER))}


@pytest.mark.slow
def test_pages_docs_and_health_are_open_to_read(app, monkeypatch, tmp_path):
    for path in OPEN:
        assert ask(app, "GET", path).status == 200
        turned_away(ask(app, "POST", path))
    (tmp_path / "index.html").write_text("front", encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    assert ask(app, "GET", "/docs").status == 308
    assert ask(app, "GET", "/docs/").body == b"front"
    turned_away(ask(app, "POST", "/docs/"))


def test_every_route_is_closed_or_known_to_be_open(app):
    """A route that comes later is closed until somebody says otherwise here."""
    anonymous = {
        (method, path)
        for path, methods in description()["paths"].items()
        for method in methods
        if ask(app, method.upper(), path, body=b"no JSON", headers=[("content-type", "application/json")]).status != 401
    }
    more = {f"/{page}/{what}" for page in ("federated", "queries") for what in ("record", "elsewhere")}
    questions = {f"/api/v1{path}" for path in QUESTIONS.keys() | more | {"/dp-sgd/elsewhere"}}
    assert anonymous == {("get", "/healthz"), ("get", "/readyz")} | {("post", path) for path in questions}


BODIES = {
    "none": b"",
    "no JSON": b'{"scope": ',
    "too long": b'{"scope": "' + b"a" * 2**21 + b'"}',
    "1e400": b'{"scope": "acme/claims", "caps": {"epsilon": 1e400}}',
    "NaN": b'{"scope": NaN}',
    "sound": b'{"scope": "acme/claims", "caps": {"epsilon": "9"}, "actor": "b", "reason": "r", "key": "waiting"}',
}


@pytest.fixture
def _unhurried(keeper, monkeypatch):
    monkeypatch.setattr(keeper, "_holders", TokenBuckets(rate=1e9, burst=1e9))


@pytest.mark.usefixtures("_unhurried")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_word_of_a_body_is_read_for_those_who_may_not(app, file, keeper, ledger_path, body):
    """What the description says of each address holds at the door, for every role, whatever is sent there."""
    before = ledger_path.read_bytes()
    held = {None: None, "unknown": f"eps_{0:016x}_{'x' * 43}"}
    held |= {role.value: token_of(file, role.value, role=role, scope="acme/claims") for role in Role}
    for path, methods in description()["paths"].items():
        for method, told in methods.items():
            good = [named for one in told["security"] for named in one["token"]]
            if told["security"] == []:
                continue
            may = set() if told["x-whole-ledger"] else set(good)
            asks = [(role, (method.upper(), path, text, body)) for role, text in held.items() if role not in may]
            keeper._failures._levels.clear()
            found = refuse_at_the_door(app, [asked for _, asked in asks])
            for (role, _), said in zip(asks, found, strict=True):
                assert said.status == (403 if role in [*Role] else 401), (path, role)
                assert said.headers["content-type"] == "application/problem+json"
    assert ledger_path.read_bytes() == before


def test_a_good_token_comes_in(app, file):
    text = token_of(file)
    for _ in range(3):
        assert ask(app, "GET", LEDGER, token=text).json()["entries"] > 0
    assert ask(app, "GET", "/api/v1/ledger", headers=[("authorization", f"bearer {text}")]).status == 200
    assert ask(app, "GET", "/api/v1/nothing", token=text).status == 404


def smuggled(text, other):
    return {
        "two headers": [("authorization", f"Bearer {text}"), ("authorization", f"Bearer {text}")],
        "two, the first wrong": [("authorization", f"Bearer {other}"), ("authorization", f"Bearer {text}")],
        "two, the second wrong": [("authorization", f"Bearer {text}"), ("authorization", "Basic YTpi")],
        "joined": [("authorization", f"Bearer {text}, Bearer {text}")],
        "no scheme": [("authorization", text)],
        "another scheme": [("authorization", f"Basic {text}")],
        "two blanks": [("authorization", f"Bearer  {text}")],
        "a tab": [("authorization", f"Bearer\t{text}")],
        "a blank before": [("authorization", f" Bearer {text}")],
        "a blank after": [("authorization", f"Bearer {text} ")],
        "a line": [("authorization", f"Bearer {text}\n")],
        "a zero": [("authorization", f"Bearer {text}\0")],
        "quotes": [("authorization", f'Bearer "{text}"')],
        "capitals": [("authorization", f"Bearer {text.upper()}")],
        "longer": [("authorization", f"Bearer {text}A")],
        "shorter": [("authorization", f"Bearer {text[:-1]}")],
        "not ASCII": [("authorization", b"Bearer \xff\xfe" + text.encode())],
        "other digits": [("authorization", f"Bearer eps_{'٣' * 16}_{text[21:]}")],
        "empty": [("authorization", "")],
        "only the scheme": [("authorization", "Bearer ")],
        "1 MB": [("authorization", f"Bearer {'a' * 2**20}")],
        "1 MB of a token": [("authorization", f"Bearer {text}{'a' * 2**20}")],
        "in a cookie": [("cookie", f"token={text}; Authorization=Bearer {text}")],
        "another header": [("x-authorization", f"Bearer {text}"), ("proxy-authorization", f"Bearer {text}")],
        "under_lined": [("authorization_", f"Bearer {text}")],
    }


def test_what_is_not_one_header_with_one_token_is_none(app, keeper, file):
    text = token_of(file)
    for how, headers in smuggled(text, text[:-2] + "AA").items():
        keeper._failures._levels.clear()
        assert ask(app, "GET", LEDGER, headers=headers).status == 401, how
    for place in ("?token={}", "?access_token={}", "?authorization=Bearer%20{}"):
        turned_away(ask(app, "GET", LEDGER + place.format(text)))
    assert ask(app, "GET", LEDGER, token=text).status == 200


def test_whoever_is_turned_away_cannot_tell_why(app, keeper, file, monkeypatch):
    expired = token_of(file, "bob", expires=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    revoked = token_of(file, "carl")
    tokens.revoke_token(file, "carl")
    good = token_of(file)
    assert ask(app, "GET", LEDGER, token=expired).status == 200
    monkeypatch.setattr(keeper._keys, "_clock", lambda: time.time() + 86_400)
    said = [
        turned_away(ask(app, "GET", LEDGER, token=text, peer=f"192.0.2.{at}"))
        for at, text in enumerate((expired, revoked, good[:-1] + ("A" if good[-1] != "A" else "B"), "eps_", "none"))
    ]
    assert len({turned_away(ask(app, "GET", "/api/v1/ledger")), *said}) == 1


def test_what_streams_to_a_holder_ends_when_the_token_is_revoked(file):
    sent, text = [], token_of(file)

    async def stream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(4):
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
            if number == 1:
                tokens.revoke_token(file, "anna")
                sent.append("revoked")

    async def app(scope, receive, send):
        async def note(message):
            sent.append((message["body"], message["more_body"]) if "body" in message else message["status"])
            await send(message)

        keeper = TokenAuthMiddleware(stream, keys=tokens.TokenStore(file), rate=9.0, trust_proxy=False)
        await keeper(scope, receive, note)

    ask(app, "GET", LEDGER, token=text)
    assert sent == [200, (b"0", True), (b"1", True), "revoked", (b"", False)]


def spoilt_by_a_link(file):
    file.rename(file.with_name("moved.json"))
    file.symlink_to(file.with_name("moved.json"))


@pytest.mark.parametrize("spoil", [lambda file: file.chmod(0o644), lambda file: file.unlink(), spoilt_by_a_link])
def test_while_the_tokens_cannot_be_read_nobody_comes_in_and_the_log_says_why_once(
    app, file, keeper, monkeypatch, spoil
):
    lines, log = [], logging.getLogger("doors")  # servers of other tests silence the logger itself
    monkeypatch.setattr(authorization, "_LOG", log)
    monkeypatch.setattr(log, "error", lambda text, *given: lines.append(text % given))
    monkeypatch.setattr(keeper, "_last_trouble", "")
    text = token_of(file)
    assert ask(app, "GET", LEDGER, token=text).status == 200
    spoil(file)
    for _ in range(3):
        found = ask(app, "GET", LEDGER, token=text)
        assert (found.status, str(file) in found.body.decode()) == (503, False)
    assert [str(file) in line for line in lines] == [True]
    assert ask(app, "GET", "/").status == 200


# --- what a holder may see --------------------------------------------------------------------------------------------


READS = {
    "/api/v1/ledger/cycles?scope=acme/claims": "acme/claims",
    "/api/v1/ledger/cycles?scope=lab/study": "lab/study",
    "/api/v1/ledger/entries?scope=acme/claims/anna": "acme/claims/anna",
    "/api/v1/ledger/entries?scope=lab": "lab",
    "/api/v1/ledger/entries?scope=acme": "acme",
    "/api/v1/runs": None,
    "/api/v1/runs/exam-scores-1": None,
    "/api/v1/runs/exam-scores-1/report.json": None,
    "/api/v1/runs/nothing-there": None,
}


@pytest.mark.every(1)
@pytest.mark.slow
@pytest.mark.parametrize("role", Role)
def test_a_holder_is_told_who_they_are_and_reads_their_subtree_and_no_other(app, file, role):
    for scope in (None, "acme", "acme/claims", "acme/claim", "lab", "nowhere"):
        text = token_of(file, f"{role} {scope}", role=role, scope=scope)
        me = ask(app, "GET", "/api/v1/holder", token=text).json()
        acts = {"reader": "read", "spender": "read spend", "owner": "audit own read spend", "auditor": "audit read"}
        assert me == {"name": f"{role} {scope}", "role": role, "scope": scope, "acts": acts[role].split()}
        for path, of in READS.items():
            may = scope is None or (of is not None and f"{of}/".startswith(f"{scope}/"))
            found = ask(app, "GET", path, token=text)
            assert found.status == (403 if not may else 404 if "nothing" in path else 200), path
            assert may or b"exam-scores" not in found.body  # the same whether it is there or not
        under = [at for at in ("acme/claims", "lab/study") if scope is None or f"{at}/".startswith(f"{scope}/")]
        assert [budget["scope"] for budget in ask(app, "GET", LEDGER, token=text).json()["budgets"]] == under
        entries = ask(app, "GET", f"{LEDGER}/entries?limit=500", token=text).json()["entries"]
        assert all(scope is None or f"{entry['scope']}/".startswith(f"{scope}/") for entry in entries)
        assert bool(entries) == bool(under)
        figures = ask(app, "GET", "/metrics", token=text).body.decode()
        assert [at for at in ("acme/claims", "lab/study") if at in figures] == under
        for path, method in (("", "POST"), ("/none", "GET"), ("/none/events", "GET"), ("/none/cancel", "POST")):
            if scope is None and role in {Role.OWNER, Role.AUDITOR}:  # the whole chain, for who may read it all
                assert not path or ask(app, method, f"{LEDGER}/verify{path}", token=text).status == 404
            else:
                assert ask(app, method, f"{LEDGER}/verify{path}", token=text).status == 403


def test_above_a_scope_the_budgets_alone_are_seen(app, file):
    text = token_of(file, scope="acme/claims/anna")
    (budget,) = ask(app, "GET", LEDGER, token=text).json()["budgets"]
    assert budget["scope"] == "acme/claims"
    assert ask(app, "GET", "/api/v1/ledger/entries?scope=acme/claims", token=text).status == 403
    assert "acme/claims" not in ask(app, "GET", "/metrics", token=text).body.decode()


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("auditor", 403), ("spender", 422), ("owner", 422)])
def test_monte_carlo_runs_are_started_by_those_who_spend(app, file, role, status):
    text, kind = token_of(file, role=role, scope="acme"), [("content-type", "application/json")]
    wrong = json.dumps({"participation": "b-min-sep", "bins": 1024, "epochs": 100}).encode()
    assert ask(app, "POST", "/api/v1/montecarlo", token=text, body=wrong, headers=kind).status == status
    assert ask(app, "POST", "/api/v1/montecarlo/0/steal", token=text).status == status


# --- too often --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_random_tokens_leave_nothing_behind(app, keeper, file, ledger_path, monkeypatch):
    costly = []
    monkeypatch.setattr(tokens.TokenStore, "verify", lambda *given: costly.append(given))
    before = {path: path.read_bytes() for path in (file, ledger_path)}
    peers = [f"198.51.{at // 250}.{at % 250}" if at % 2 else "203.0.113.9" for at in range(amount(1500, 10_000))]
    asks = [(f"eps_{at:016x}_{at:043d}", peer) for at, peer in enumerate(peers)]
    found = ask_often(app, "/api/v1/ledger", asks)
    assert ({reply.status for reply in found}, costly) == ({401, 429}, [])
    assert not any(text.encode() in reply.body for (text, _), reply in zip(asks, found, strict=True))
    assert {path: path.read_bytes() for path in before} == before
    assert len(keeper._failures) <= 4096
    assert (len(keeper._holders), len(keeper._keys._good)) == (0, 0)


def test_wrong_tokens_are_soon_too_many_and_colleagues_still_come_in(app, file):
    anna, bob = token_of(file), token_of(file, "bob")
    assert ask(app, "GET", LEDGER, token=anna).status == 200
    wrong = [ask(app, "GET", LEDGER, token=f"eps_{at:016x}_{'x' * 43}") for at in range(30)]
    assert {found.status for found in wrong[:10]} == {401}
    assert {found.status for found in wrong[10:]} == {429}
    assert 1 <= int(wrong[-1].headers["retry-after"]) <= 10
    for text in (anna, bob):  # from the same address: known, and not yet known
        assert ask(app, "GET", LEDGER, token=text).status == 200
    assert ask(app, "GET", LEDGER, token="none", peer="203.0.113.5").status == 401  # noqa: S106


def test_wrong_secrets_of_a_known_id_cost_argon2_ten_times_and_no_more(app, file, monkeypatch):
    anna, asked, real = token_of(file), [], tokens.TokenStore.verify
    monkeypatch.setattr(tokens.TokenStore, "verify", lambda self, *given: asked.append(given) or real(self, *given))
    found = [ask(app, "GET", LEDGER, token=anna[:-4] + f"{at:04d}").status for at in range(40)]
    assert found == [401] * 10 + [429] * 30
    assert len(asked) == 10
    assert ask(app, "GET", LEDGER, token=anna).status == 429  # whose id is known there
    assert ask(app, "GET", LEDGER, token=anna, peer="203.0.113.5").status == 200
    assert ask(app, "GET", LEDGER, token=anna).status == 200  # known by now


def test_many_who_begin_at_once_with_one_token_are_checked_once(app, keeper, file, monkeypatch):
    """After every change of the file all of them come at once; none is taken for somebody who guesses."""
    anna, asked, real = token_of(file), [], tokens.TokenStore.verify
    monkeypatch.setattr(tokens.TokenStore, "verify", lambda self, *given: asked.append(given) or real(self, *given))
    found = ask_at_once(app, "/api/v1/nothing", [(anna, "192.0.2.7")] * 64)
    assert [reply.status for reply in found] == [404] * 64
    assert len(asked) == 1
    wrong = anna[:-4] + "0000"
    found = ask_at_once(app, "/api/v1/nothing", [(wrong, "192.0.2.8")] * 30 + [(anna, "192.0.2.8")] * 30)
    assert sorted(reply.status for reply in found) == [401] * 10 + [404] * 30 + [429] * 20
    assert len(asked) == 11
    assert len(keeper._locks) == 0


@pytest.mark.slow
def test_a_holder_asks_so_often_and_others_are_not_kept_waiting(file, ledger_path):
    app = create_app(ledger=str(ledger_path), access=AccessConfig(file, rate=1.0))
    anna, bob = token_of(file), token_of(file, "bob")
    asked = (ask(app, "GET", "/api/v1/nothing", token=anna) for _ in range(1000))
    assert {next(asked).status for _ in range(4)} == {404}
    refused = next(reply for reply in asked if reply.status != 404)  # a bucket fills while a slow machine asks
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert ask(app, "GET", "/api/v1/nothing", token=bob).status == 404


@pytest.mark.slow
def test_calculators_are_asked_so_often_from_one_place(app, keeper, monkeypatch):
    assert {ask(app, "POST", "/api/v1/federated", body=b"[").status for _ in range(60)} == {422}
    monkeypatch.setattr(keeper, "_calculator_clients", TokenBuckets(rate=1e-3, burst=3))
    assert [ask(app, "POST", "/api/v1/federated", body=b"[").status for _ in range(5)] == [422] * 3 + [429] * 2
    assert ask(app, "POST", "/api/v1/federated", body=b"[", peer="203.0.113.5").status == 422


# --- which server, and what stands before it --------------------------------------------------------------------------


@pytest.mark.slow
def test_it_answers_to_its_names_only(file):
    app = create_app(access=AccessConfig(file, names=("team.example.org",)))
    for host in ("team.example.org", "TEAM.example.org:8443", "localhost:8080"):
        assert ask(app, "GET", "/healthz", host=host).status == 200
    for host in ("evil.example", "team.example.org.evil.example", "192.0.2.7", "", "team.example.org@evil.example"):
        assert ask(app, "GET", "/healthz", host=host).status == 421
    assert ask(app, "GET", "/healthz", headers=[("host", "localhost")]).status == 421


def test_a_proxy_that_nobody_told_of_is_refused():
    """It would make every guest of its own a guest from this machine."""

    async def app(scope, receive, send):
        await PlainTextResponse("in")(scope, receive, send)

    file = AccessConfig(Path("t.json"))
    for header in ("x-forwarded-for", "X-Forwarded-For", "forwarded"):
        said = [(header, "192.0.2.1")]
        for access in (AccessConfig(), file, replace(file, names=("a.example",)), replace(file, trust_proxy=True)):
            found = ask(HostGuardMiddleware(app, access), "GET", "/", headers=said)
            assert found.status == (200 if access.trust_proxy else 421)
    assert ask(HostGuardMiddleware(app), "GET", "/").status == 200


@pytest.mark.slow
def test_behind_a_proxy_each_of_its_guests_is_counted(file):
    app = create_app(access=AccessConfig(file, trust_proxy=True))

    def status(guest):
        headers = [("x-forwarded-for", f"203.0.113.77, {guest}")]
        token = "eps_" + "0" * 16 + "_" + "x" * 43
        return ask(app, "GET", "/api/v1/runs", token=token, peer="127.0.0.1", headers=headers).status

    assert [status("192.0.2.1") for _ in range(12)] == [401] * 10 + [429] * 2
    assert status("192.0.2.2") == 401

    class Counting:  # the long questions of each
        async def answer(self, *_, client):
            return PlainTextResponse(client)

    app.state.workers = Counting()
    said = [("x-forwarded-for", "203.0.113.77, 192.0.2.3"), ("content-type", "application/json")]
    body = json.dumps({"epsilon": 1.0, "queries": 3}).encode()
    assert ask(app, "POST", "/api/v1/queries", body=body, peer="127.0.0.1", headers=said).body == b"192.0.2.3"


@pytest.mark.slow
def test_without_tokens_whoever_is_on_this_machine_comes_in(ledger_path):
    app = create_app(ledger=str(ledger_path))
    assert ask(app, "GET", "/api/v1/ledger").json()["present"]
    assert ask(app, "GET", "/metrics").status == 200


def test_a_route_that_the_table_lacks_is_no_ones():
    request = Request({"type": "http", "method": "GET", "path": "/api/v1/not-in-the-table", "headers": []})
    with pytest.raises(PermissionDeniedError, match="no role allows this"):
        anyio.run(authorization.authorize, request, authorization.LOCAL_HOLDER)
