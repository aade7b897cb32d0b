"""Every verb of the ledger with every role at every place: real tokens, and nothing written where it is refused."""

import json

import pytest

from epsilog.ledger import open_ledger, read_ledger
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, create_app, ledger_service, tokens
from epsilog.server.access import Role
from epsilog.terms import codec

HASH = "ab" * 32
RELEASE = {"v": 1, "term": {"type": "pure", "epsilon": 0.0009765625}}
WHO = {"actor": "dora", "reason": "a test"}
KEYED = {"key": "theirs"}
SPEND, OWN, READ, AUDIT = "spend", "own", "read", "audit"
ALLOWED = {  # by hand, as the documentation has it
    Role.READER: {READ},
    Role.SPENDER: {READ, SPEND},
    Role.OWNER: {READ, SPEND, OWN, AUDIT},
    Role.AUDITOR: {READ, AUDIT},
}
ACTS = {  # what each address is, at acme/claims; at the whole ledger where it says so
    "POST create": (OWN, {"scope": "acme/claims/new", "kind": "pure", "caps": {"epsilon": "1"}}),
    "POST set-cap": (OWN, {"scope": "acme/claims", "caps": {"epsilon": "2"}} | WHO),
    "POST approve-cap": (OWN, {"scope": "acme/claims", "caps": {"epsilon": "9"}} | WHO),
    "POST declare-partition": (OWN, {"scope": "acme/claims/parts", "caps": {"epsilon": "1"}} | WHO),
    "POST retire": (OWN, {"scope": "acme/claims/old"} | WHO),
    "POST override-cost": (
        OWN,
        {"scope": "acme/claims", "release": RELEASE, "amount": {"epsilon": "1"}, "key": "o", "reason": "r"},
    ),
    "POST register-plan": (SPEND, {"scope": "acme/claims", "key": "plan", "plan_hash": HASH}),
    "POST reserve": (SPEND, {"scope": "acme/claims", "release": RELEASE, "key": "r"}),
    "POST charge": (SPEND, {"scope": "acme/claims", "release": RELEASE, "key": "c"}),
    "POST charges": (SPEND, {"charges": [{"scope": "acme/claims", "release": RELEASE, "key": "m"}]}),
    "POST headroom": (READ, {"scope": "acme/claims"}),
    "POST start": (SPEND, KEYED),
    "POST commit": (SPEND, KEYED),
    "POST cancel": (SPEND, KEYED | {"reason": "r"}),
    "POST expire": (SPEND, KEYED),
    "POST hold": (SPEND, KEYED | {"until": "2099-01-01T00:00:00+00:00"}),
    "POST round-start": (SPEND, KEYED | {"round": 1}),
    "POST round-release": (SPEND, KEYED | {"round": 1, "output_hash": HASH}),
    "POST approve": (OWN, KEYED | {"actor": "dora"}),
    "POST revoke": (OWN, KEYED | WHO),
    "POST decommission": (OWN, KEYED | WHO),
    "POST abandon": (OWN, KEYED | WHO),
    "POST accept-restore": (OWN, WHO),
    "POST mark-restored": (OWN, WHO),
    "POST verify": (AUDIT, None),
    "GET balances?above=acme/claims": (READ, None),
    "GET rows?scope=acme/claims": (READ, None),
    "GET page?scope=acme/claims&before=9": (READ, None),
    "GET entries?scope=acme/claims": (READ, None),
    "GET cycles?scope=acme/claims": (READ, None),
    "GET spending?scope=acme/claims": (READ, None),
    "GET pending?scope=acme/claims": (READ, None),
    "GET rows": (READ, None),
    "GET page?before=9": (READ, None),
}
WHOLE = {"POST accept-restore", "POST mark-restored", "POST verify", "GET rows", "GET page?before=9"}
ANYWHERE = {"GET head", "GET entry", "GET charges", "GET "}  # what the asker sees of it: looked at below


@pytest.fixture(scope="module")
def team(tmp_path_factory, serve_app):
    """A site with tokens, the file of them, and its ledger's."""
    folder = tmp_path_factory.mktemp("team")
    file, path = folder / "tokens.json", folder / "ledger.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="8")
        books.create_budget("lab", kind="pure", epsilon="8")
        books.create_budget("acme/claims", kind="pure", epsilon="4")
        books.create_budget("acme/claims/old", kind="pure", epsilon="1")
        books.reserve("acme/claims", PureDP(0.125), key="theirs", rounds=2)
        books.charge("lab", PureDP(0.5), key="labs")
    held = {}
    for role in Role:
        for scope in (None, "acme", "acme/claims", "acme/claims/old", "acme/claim", "lab"):
            held[role, scope] = tokens.create_token(file, f"{role}-{scope}", role=role, scope=scope)[1]
    app = create_app(ledger=str(path), access=AccessConfig(file, rate=10_000.0))
    with serve_app(app) as site:
        yield site, held, path


def said(site, token, what, body):
    method, _, path = what.partition(" ")
    path = f"/api/v1/ledger/{path}" if path else "/api/v1/ledger"
    return site.ask(method, path, body, headers={"Authorization": f"Bearer {token}"} if token else {})


def head(path):
    with read_ledger(path) as books:
        return books.head()


@pytest.mark.slow
def test_every_address_of_the_ledger_is_looked_at_here(team):
    site, _, _ = team
    paths = json.loads(site.ask("GET", "/api/openapi.json").body)["paths"]
    there = {
        f"{method.upper()} {path.removeprefix('/api/v1/ledger').removeprefix('/')}"
        for path, methods in paths.items()
        for method in methods
        if path.startswith("/api/v1/ledger") and "{" not in path
    }
    assert there == {what.partition("?")[0] for what in ACTS} | ANYWHERE


@pytest.mark.slow
@pytest.mark.parametrize("role", [*Role, None])
@pytest.mark.parametrize("scope", [None, "acme", "acme/claims", "acme/claims/old", "acme/claim", "lab"])
def test_what_is_not_allowed_is_refused_and_leaves_nothing(team, role, scope):
    site, held, path = team
    before = head(path)
    for what, (act, body) in ACTS.items():
        at = None if what in WHOLE else body.get("scope", "acme/claims") if body else "acme/claims"
        inside = scope is None or (at is not None and f"{at}/".startswith(f"{scope}/"))
        if role is not None and act in ALLOWED[role] and inside:
            continue
        if what.startswith("GET balances") and scope == "acme/claims/old":
            continue  # budgets above one's own are seen
        found = said(site, held.get((role, scope)), what, body)
        allowed = role is not None and act in ALLOWED[role]
        foreign = {422, 409} if body is not None and body.get("key") == "theirs" and allowed else {403}
        assert found.status in ({401} if role is None else foreign), (what, found.body)
        if foreign != {403}:  # a charge of others is not told apart from one that is not there
            unknown = said(site, held[role, scope], what, body | {"key": "nobody"})
            assert unknown.body.replace(b"nobody", b"theirs") == found.body
    assert head(path) == before


@pytest.mark.slow
def test_the_description_says_which_roles_each_address_takes(team):
    site, _, _ = team
    document = json.loads(site.ask("GET", "/api/openapi.json").body)
    assert document["components"]["securitySchemes"]["token"] | {"description": ""} == {
        "type": "http",
        "scheme": "bearer",
        "description": "",
    }
    for what, (act, _) in ACTS.items():
        method, _, path = what.partition("?")[0].partition(" ")
        told = document["paths"][f"/api/v1/ledger/{path}"][method.lower()]
        assert told["security"] == [{"token": [role]} for role in Role if act in ALLOWED[role]]
        assert (told["x-act"], {"401", "403"} <= set(told["responses"])) == (act, True)


def test_what_is_allowed_is_done(team):
    site, held, path = team
    for role, scope in ((Role.SPENDER, "acme/claims"), (Role.OWNER, "acme"), (Role.OWNER, None)):
        key, before = f"{role}-{scope}", head(path)
        body = {"scope": "acme/claims", "release": RELEASE, "key": key}
        found = said(site, held[role, scope], "POST charge", body)
        assert (found.status, found.json()["replayed"]) == (200, False)
        assert head(path) != before
    raised = said(site, held[Role.OWNER, "acme"], "POST set-cap", ACTS["POST set-cap"][1])
    assert raised.status == 200
    with read_ledger(path) as books:
        (entry,) = books.page("acme/claims", verb="cap-changed", limit=5)
        assert entry.body["actor"] == "dora (token of owner-acme)"


def test_a_holder_is_told_of_entries_and_charges_of_their_own_alone(team):
    site, held, _ = team
    lab, claims = held[Role.READER, "lab"], held[Role.READER, "acme/claims"]
    assert said(site, lab, "GET charges?key=labs", None).json()["charge"] is not None
    for key in ("theirs", "unknown"):
        assert said(site, lab, f"GET charges?key={key}", None).json() == {"charge": None, "rounds": []}
    entries = {index: said(site, lab, f"GET entry?index={index}", None) for index in range(1, 7)}
    shown = {index for index, found in entries.items() if found.status == 200}
    assert all(json.loads(entries[index].json()["document"])["scope"] == "lab" for index in shown)
    assert shown
    assert {found.body for index, found in entries.items() if index not in shown} == {
        said(site, claims, "GET entry?index=999999", None).body
    }
    for what in ("GET ", "GET balances"):
        budgets = said(site, claims, what, None).json()["budgets"]
        assert {budget["scope"] for budget in budgets} == {"acme", "acme/claims", "acme/claims/old"}


@pytest.mark.slow
def test_what_costs_nothing_is_limited_for_each_token(serve_app, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_service, "FREE_BURST", 3)
    monkeypatch.setattr(ledger_service, "FREE_RATE", 1e-6)
    file, path = tmp_path / "tokens.json", tmp_path / "ledger.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="8")
    held = {name: tokens.create_token(file, name, role="spender", scope="acme")[1] for name in ("anna", "bob")}
    free = {"scope": "acme", "release": {"v": 1, "term": {"type": "pure", "epsilon": 0.0}}}
    plan = {"scope": "acme", "plan_hash": HASH}
    with serve_app(create_app(ledger=str(path), access=AccessConfig(file, rate=10_000.0))) as site:
        for what, body in (("POST charge", free), ("POST reserve", free), ("POST register-plan", plan)):
            for _ in range(2):  # the same again is none more
                assert said(site, held["anna"], what, body | {"key": what}).status == 200
        before = head(path)
        for what, body in (("POST charge", free), ("POST reserve", free), ("POST register-plan", plan)):
            refused = said(site, held["anna"], what, body | {"key": f"{what} more"})
            assert (refused.status, int(refused.headers["retry-after"]) > 0) == (429, True)
        assert head(path) == before
        assert said(site, held["anna"], "POST charge", free | {"key": "g", "release": RELEASE}).status == 200
        assert said(site, held["bob"], "POST charge", free | {"key": "h"}).status == 200


@pytest.mark.slow
def test_the_release_that_the_description_shows_is_one(team):
    site, _, _ = team
    shapes = json.loads(site.ask("GET", "/api/openapi.json").body)["components"]["schemas"]
    for name in ("ReserveRequest", "ChargeAtOnceRequest", "OverrideCostRequest"):
        for example in shapes[name]["properties"]["release"]["examples"]:
            codec.from_json(example)
