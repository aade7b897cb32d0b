"""A key belongs to its scope: whoever may not see a scope learns nothing of the keys there, whatever they ask."""

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.server.inside import ask
from tests.server.test_roles import ACTS, HASH, RELEASE, WHO

from epsilog.ledger import open_ledger
from epsilog.ledger.commands import COMMANDS
from epsilog.ledger.commands.base import CHARGE
from epsilog.ledger.headroom import HERE
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, create_app, tokens
from epsilog.server.access import Role
from epsilog.server.ledger_service import LedgerService

OURS = "zeta/a"
THEIRS = ["acme", "zeta/b", "zeta/ab"]
GONE, LATER = datetime(2026, 1, 1, tzinfo=UTC), "2099-01-01T00:00:00+00:00"
RELEASES = PureDP(0.0009765625)


def run(books, scope, key, **more):
    return books.reserve(scope, RELEASES, key=key, **more)


def started(books, scope, key):
    charge = run(books, scope, key, rounds=2)
    charge.start()
    charge.round_started(1)
    return charge


STATES = {  # what may have become of a charge of others
    "registered": lambda *at: at[0].register_plan(at[1], HASH, key=at[2]),
    "allowed": lambda *at: at[0].override_cost(at[1], RELEASES, key=at[2], amount={"epsilon": "0.5"}, reason="so"),
    "reserved": run,
    "expirable": lambda *at: run(*at, until=GONE),
    "held": lambda *at: run(*at, until=datetime.now(UTC) + timedelta(days=1)),
    "started": started,
    "released": lambda *at: started(*at).round_released(1, output_hash=HASH),
    "committed": lambda books, scope, key: books.charge(scope, RELEASES, key=key),
    "cancelled": lambda *at: run(*at).cancel("no"),
    "out of use": lambda books, scope, key: (
        books.charge(scope, RELEASES, key=key),
        books.decommission(key, scope=scope, **WHO),
    ),
}

OPENING = {
    "POST register-plan": {"plan_hash": HASH},
    "POST override-cost": {"release": RELEASE, "amount": {"epsilon": "0.5"}, "reason": "so"},
    "POST reserve": {"release": RELEASE},
    "POST charge": {"release": RELEASE},
}
GOING_ON = {
    "POST hold": {"until": LATER},
    "POST start": {},
    "POST round-start": {"round": 1},
    "POST round-release": {"round": 1, "output_hash": HASH},
    "POST commit": {},
    "POST cancel": {"reason": "no"},
    "POST expire": {},
    "POST approve": {"actor": "dora"},
    "POST revoke": WHO,
    "POST abandon": WHO,
    "POST decommission": WHO,
    "GET charges": {},
}
READING = [
    *("GET ", "GET head", "GET balances", f"GET rows?scope={OURS}", f"GET page?scope={OURS}&before=99", "GET rows"),
    *(f"GET entries?scope={OURS}", f"GET cycles?scope={OURS}", f"GET spending?scope={OURS}", "GET entry?index=8"),
    *(f"GET pending?scope={OURS}", "GET pending"),
]
STEPS = [
    *((what, scope) for what in OPENING for scope in (OURS, f"{OURS}/x", *THEIRS)),
    *((what, scope) for what in GOING_ON for scope in (None, OURS, *THEIRS)),
    *((what, None) for what in READING),
]
ROLES = [Role.OWNER, Role.SPENDER, Role.READER]


def test_every_verb_of_a_key_is_asked_here():
    keyed = {what.partition("?")[0] for what, (_, body) in ACTS.items() if body is not None and "key" in body}
    assert keyed | {"GET charges"} == OPENING.keys() | GOING_ON.keys()
    assert {
        f"POST {name}" for name, one in COMMANDS.items() if one.subject == CHARGE
    } <= GOING_ON.keys() | OPENING.keys()


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """The file of tokens, and each: ours at our scope, and those of others at theirs."""
    file = tmp_path_factory.mktemp("tokens") / "tokens.json"
    ours = {role: tokens.create_token(file, f"our {role}", role=role, scope=OURS)[1] for role in ROLES}
    theirs = {
        scope: tokens.create_token(file, scope.replace("/", " "), role="owner", scope=scope)[1] for scope in THEIRS
    }
    return file, ours | theirs


class Here:
    """Prices that need no other process."""

    def cost_model(self):
        return HERE


class World:
    """A ledger that a server keeps, and one charge of others in it."""

    def __init__(self, folder, held, *, state, scope, key):
        file, self.held = held
        path = folder / "ledger.db"
        path.unlink(missing_ok=True)
        with open_ledger(path) as books:
            for at in (OURS, *THEIRS):
                books.create_budget(at, kind="pure", epsilon="4")
            STATES[state](books, scope, key)
        self.path, self.app = path, create_app(ledger=str(path), access=AccessConfig(file, rate=1e9))
        self.app.state.ledger_service = LedgerService(str(path), Here())  # what its life begins with

    def said(self, who, what, body):
        method, _, path = what.partition(" ")
        if method == "GET" and body:
            path += "?" + "&".join(f"{name}={value}" for name, value in body.items())
        content = json.dumps(body).encode() if method == "POST" else b""
        headers = [("content-type", "application/json")] if content else []
        path = f"/api/v1/ledger/{path}".removesuffix("/")
        return ask(self.app, method, path, token=self.held[who], headers=headers, body=content)

    def answers(self, steps):
        """What we are told, step by step, of the key."""
        found = []
        for what, scope, role in steps:
            body = OPENING.get(what, GOING_ON.get(what))
            if body is not None:
                body = body | {"key": "k"} | ({} if scope is None else {"scope": scope})
            told = self.said(role, what, body)
            assert told.status != 500, (what, told.body)
            found.append((what, scope, role, told.status, told.body.decode()))
        return found

    def close(self):
        self.app.state.ledger_service.close()
        self.path.unlink()


def alike(found):
    """Answers without hashes and times."""
    for pattern, blank in ((r"[0-9a-f]{64}", "H"), (r"20\d\d-\d\d-\d\dT[0-9:.]+\+00:00", "T")):
        found = [(*which, re.sub(pattern, blank, text)) for *which, text in found]
    return found


def both(folder, held, steps, *, state, scope):
    """What we are told where others have a charge of the key, and where they have the same of another key."""
    found = []
    for key in ("k", "f"):
        world = World(folder, held, state=state, scope=scope, key=key)
        with open_ledger(world.path) as books:
            before = books.find_record(key, scope=scope)
            told = alike(world.answers(steps))
            assert books.find_record(key, scope=scope) == before
            books.verify()
        told += alike([("POST charge", scope, None, 0, theirs(world, scope, key))])
        found.append(told)
        world.close()
    return found


def theirs(world, scope, key):
    """What those are told whose charge it is, when they go on with it."""
    told = [world.said(scope, what, body | {"key": key}) for what, body in GOING_ON.items()]
    return (
        "\n".join(f"{one.status} {one.body.decode()}" for one in told)
        .replace(f'"{key}"', '"K"')
        .replace(f"'{key}'", "'K'")
    )


@pytest.mark.slow
@pytest.mark.every(10)
@pytest.mark.parametrize("state", STATES)
def test_whatever_is_asked_a_key_of_others_is_as_none(tmp_path, held, state):
    every = [(what, scope, role) for (what, scope), role in product(STEPS, ROLES)]
    first = [("POST reserve", OURS, Role.SPENDER), *(step for step in every if step[1] != OURS and step[0] in GOING_ON)]
    with_it, without = both(tmp_path, held, first + every, state=state, scope="zeta/b")
    assert with_it == without
    done = {what for what, _, _, status, _ in with_it if status == 200}
    assert {"POST reserve", "POST start", "POST round-release", "POST commit", "POST decommission"} <= done
    assert {status for *_, status, _ in with_it} >= {200, 403, 409}


@pytest.mark.slow
@pytest.mark.extended
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from([(*step, role) for step, role in product(STEPS, ROLES)]), min_size=10, max_size=40),
    state=st.sampled_from(sorted(STATES)),
    scope=st.sampled_from(THEIRS),
)
def test_in_whatever_order_it_is_asked(tmp_path, held, steps, state, scope):
    with_it, without = both(tmp_path, held, steps, state=state, scope=scope)
    assert with_it == without


def test_the_same_key_is_that_of_a_charge_in_each_scope(tmp_path, held):
    """Whoever sees several names the scope, and is told which there are of those that they see."""
    world = World(tmp_path, held, state="reserved", scope="acme", key="k")
    keyed = {"release": RELEASE, "key": "k"}
    for scope in (OURS, f"{OURS}/x"):
        made = world.said(Role.SPENDER, "POST reserve", keyed | {"scope": scope})
        assert (made.status, made.json()["replayed"]) == (200, False)
    for what in ("POST start", "GET charges"):
        refused = world.said(Role.SPENDER, what, {"key": "k"})
        assert refused.status == 409
        assert "state the scope" in refused.json()["message"]
        assert f"'{OURS}', '{OURS}/x'" in refused.json()["message"]
        assert "acme" not in refused.body.decode()
    assert world.said(Role.SPENDER, "POST start", {"key": "k", "scope": OURS}).json()["charge"]["state"] == "started"
    other = world.said(Role.SPENDER, "GET charges", {"key": "k", "scope": f"{OURS}/x"}).json()["charge"]
    assert (other["scope"], other["state"]) == (f"{OURS}/x", "reserved")
    world.close()
