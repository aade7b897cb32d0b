"""Holders who sign in at an OpenID Connect provider: whose tokens are accepted, and what they may do then."""

import http.server
import json
import threading
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.server.inside import ask

from epsilog.ledger import open_ledger, read_ledger
from epsilog.ledger.headroom import HERE
from epsilog.server import AccessConfig, create_app, tokens
from epsilog.server.identity import KEEP, LEEWAY, REFRESH, RETRY, IdentityProvider
from epsilog.server.identity_config import parse_identity
from epsilog.server.ledger_service import LedgerService
from epsilog.terms import CheckError, ConfigError, PermissionDeniedError, StorageError

ISSUER, AUDIENCE, NOW = "https://login.example.org", "epsilog", 1_800_000_000
FILE = f"""
[[issuers]]
url = "{ISSUER}"
audience = "{AUDIENCE}"
keys = "https://login.example.org/keys"

[[issuers.grants]]
claim = ["realm", "roles"]
value = "owners"
role = "owner"
scope = "acme"

[[issuers.grants]]
claim = "groups"
value = "analysts"
role = "spender"
scope = "acme/claims"

[[issuers.grants]]
claim = "sub"
value = "carl"
role = "auditor"
entire_ledger = true
"""
RSA, OTHER_RSA, SHORT_RSA = (rsa.generate_private_key(65537, bits) for bits in (2048, 2048, 1024))
EC = ec.generate_private_key(ec.SECP256R1())


def publish(**keys):
    """The document of an issuer's public keys, by their ids."""
    listed = []
    for name, key in keys.items():
        kind = (
            jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else jwt.algorithms.RSAAlgorithm
        )
        listed.append(json.loads(kind.to_jwk(key.public_key())) | {"kid": name, "use": "sig"})
    return json.dumps({"keys": listed}).encode()


def sign(key=RSA, algorithm="RS256", header=None, **changed):
    """A token of anna, an analyst; None drops a claim."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "anna",
        "iat": NOW,
        "exp": NOW + 600,
        "groups": ["staff", "analysts"],
    }
    claims = {name: value for name, value in (claims | changed).items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": "a"} | (header or {}))


class Provider:
    """An issuer whose keys and clock a test sets; it counts the fetches."""

    def __init__(self, folder, content=FILE, **keys):
        self.path, self.now, self.fetches = folder / "identity.toml", NOW, 0
        self.path.write_text(content)
        self.path.chmod(0o600)
        self.published = publish(**(keys or {"a": RSA}))
        self.verifier = IdentityProvider(self.path, clock=lambda: self.now, fetch=self._fetch)

    def _fetch(self, url):
        assert url == "https://login.example.org/keys"
        self.fetches += 1
        if isinstance(self.published, Exception):
            raise self.published
        return self.published


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """PyJWT reads the clock of the machine: it stands at the time of the tokens."""
    import datetime as dt

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(NOW, tz)

    monkeypatch.setattr("jwt.api_jwt.datetime", Clock)


@pytest.fixture
def provider(tmp_path):
    return Provider(tmp_path)


@pytest.mark.parametrize(
    ("claims", "role", "scope"),
    [
        ({}, "spender", "acme/claims"),
        ({"groups": "analysts"}, "spender", "acme/claims"),
        ({"realm": {"roles": ["owners"]}}, "owner", "acme"),  # the first grant that fits
        ({"sub": "carl", "groups": []}, "auditor", None),
    ],
)
def test_a_claim_gives_the_role_that_the_file_states(provider, claims, role, scope):
    found = provider.verifier.verify(sign(**claims))
    assert (found.holder.role, found.holder.scope) == (role, scope)
    assert found.holder.name == f"{claims.get('sub', 'anna')} at {ISSUER}"
    assert provider.verifier.find(sign(**claims)) is None or found.expires == NOW + 600 + LEEWAY


@pytest.mark.parametrize(
    "claims", [{"groups": ["analyst", "analysts2"]}, {"groups": None}, {"groups": {"analysts": 1}}]
)
def test_without_a_grant_nobody_may_do_anything(provider, claims):
    with pytest.raises(PermissionDeniedError, match="no grant"):
        provider.verifier.verify(sign(**claims))


def unsigned():
    return jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "iat": NOW, "exp": NOW + 600}, None, "none")


def confused():
    """Signed by the public key, taken as a shared secret."""
    secret = json.loads(publish(a=RSA))["keys"][0]["n"]
    return sign(secret, "HS256")


REFUSED = {
    "another issuer": lambda: sign(iss="https://login.example.com"),
    "the issuer with a slash": lambda: sign(iss=ISSUER + "/"),
    "no issuer": lambda: sign(iss=None),
    "another audience": lambda: sign(aud="lomas"),
    "no audience": lambda: sign(aud=None),
    "expired": lambda: sign(exp=NOW - LEEWAY - 1),
    "no expiry": lambda: sign(exp=None),
    "an endless expiry": lambda: sign(exp=1e400),
    "not yet valid": lambda: sign(nbf=NOW + LEEWAY + 1),
    "issued in the future": lambda: sign(iat=NOW + LEEWAY + 1),
    "no time of issue": lambda: sign(iat=None),
    "no subject": lambda: sign(sub=None),
    "a number as subject": lambda: sign(sub=7),
    "control characters in the subject": lambda: sign(sub="an\x1b[31mna"),
    "a long subject": lambda: sign(sub="a" * 250),
    "another key of that id": lambda: sign(OTHER_RSA),
    "an unknown key": lambda: sign(header={"kid": "b"}),
    "another kind of key": lambda: sign(EC, "ES256"),
    "an algorithm that the file does not list": lambda: sign(algorithm="RS512"),
    "no signature": unsigned,
    "the public key as a secret": confused,
    "a critical header": lambda: sign(header={"crit": ["exp"], "exp": 1}),
    "a changed payload": lambda: ".".join(
        [*sign().split(".")[:1], sign(sub="carl").split(".")[1], sign().split(".")[2]]
    ),
    "three dots": lambda: "a.b.c",
}


@pytest.mark.parametrize("made", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(provider, made):
    assert provider.verifier.verify(made()) is None
    assert provider.verifier.verify(sign()) is not None  # the same provider accepts the right one


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits", "ignore:The HMAC key")
def test_keys_that_are_too_short_or_no_keys_for_signatures_are_left_out(tmp_path):
    listed = json.loads(publish(a=SHORT_RSA, b=RSA, c=EC))["keys"]
    listed[1]["use"] = "enc"
    listed += [{"kty": "oct", "k": "c2VjcmV0", "kid": "d"}, {"kty": "RSA", "kid": "e"}, "text"]
    provider = Provider(tmp_path)
    provider.published = json.dumps({"keys": listed}).encode()
    assert provider.verifier.verify(sign(SHORT_RSA, header={"kid": "a"})) is None
    assert provider.verifier.verify(sign(RSA, header={"kid": "b"})) is None
    assert provider.verifier.verify(sign("secret", "HS256", header={"kid": "d"})) is None
    assert provider.verifier.verify(sign(EC, "ES256", header={"kid": "c"})) is not None


def test_a_new_key_is_fetched_and_a_withdrawn_one_ends(provider):
    assert provider.verifier.verify(sign()) is not None
    provider.published = publish(b=OTHER_RSA)
    assert provider.verifier.verify(sign(OTHER_RSA, header={"kid": "b"})) is None  # asked a moment ago
    provider.now += RETRY
    assert provider.verifier.verify(sign(OTHER_RSA, header={"kid": "b"})) is not None
    assert provider.verifier.verify(sign()) is None
    assert provider.fetches == 2


def test_a_token_that_was_verified_ends_with_the_key_that_signed_it(provider):
    text = sign(exp=NOW + 10**6)
    found = provider.verifier.verify(text)
    assert provider.verifier.find(text) is found
    provider.now += REFRESH
    assert provider.verifier.find(text) is None  # it is verified again
    assert provider.verifier.verify(text) == found
    assert provider.verifier.is_valid(found)
    provider.published, provider.now = publish(b=OTHER_RSA), provider.now + REFRESH
    assert provider.verifier.find(text) is None
    assert provider.verifier.verify(text) is None


def test_unknown_keys_make_no_flood_of_fetches(provider):
    for number in range(200):
        assert provider.verifier.verify(sign(header={"kid": f"k{number}"})) is None
    assert provider.fetches == 1


@pytest.mark.parametrize("trouble", [OSError("down"), b"{", b"{}", b'{"keys": 1}', b" " * (1 << 20) + b"{}"])
def test_known_keys_serve_for_a_day_while_the_issuer_is_away(provider, trouble):
    assert provider.verifier.verify(sign()) is not None
    provider.published = trouble
    provider.now += REFRESH
    assert provider.verifier.verify(sign(sub="bert", exp=NOW + 10**6)) is not None
    provider.now += KEEP
    with pytest.raises(StorageError, match=r"keys of the issuer https://login\.example\.org cannot be read"):
        provider.verifier.verify(sign(sub="emil", exp=NOW + 10**6))


def test_an_expired_token_stays_expired_when_the_clock_goes_back(provider):
    text = sign()
    found = provider.verifier.verify(text)
    assert provider.verifier.find(text) is found
    assert provider.verifier.is_valid(found)
    provider.now += 600 + LEEWAY
    assert provider.verifier.find(text) is None
    provider.now = NOW
    assert provider.verifier.find(text) is None
    assert provider.verifier.verify(text) is None
    assert not provider.verifier.is_valid(found)


def test_a_changed_file_counts_at_once(provider):
    text = sign()
    found = provider.verifier.verify(text)
    provider.path.write_text(FILE.replace('"analysts"', '"others"'))
    assert provider.verifier.find(text) is None
    assert not provider.verifier.is_valid(found)
    with pytest.raises(PermissionDeniedError):
        provider.verifier.verify(text)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_text("issuers = 1"), "issuers must be a list"),
        (lambda path: path.write_bytes(b"\xff"), "is not TOML"),
        (lambda path: path.chmod(0o620), "no other user"),
        (Path.unlink, "cannot be read"),
        (lambda path: (path.unlink(), path.mkdir()), "regular file"),
        (lambda path: path.write_text(FILE + "#" * (1 << 20)), "is larger than"),
    ],
)
def test_while_the_file_is_unusable_all_its_tokens_are_refused(provider, spoil, reason):
    text = sign()
    found = provider.verifier.verify(text)
    spoil(provider.path)
    for act in (provider.verifier.find, provider.verifier.verify):
        with pytest.raises(StorageError, match=reason):
            act(text)
    with pytest.raises(StorageError):
        provider.verifier.is_valid(found)
    with pytest.raises(StorageError, match=reason):
        IdentityProvider(provider.path)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            'https://login.example.org"\naud',
            'http://login.example.org"\naud',
            "issuers[0].url must be an https:// address",
        ),
        ('https://login.example.org"\naud', 'login.example.org"\naud', "issuers[0].url must be an https:// address"),
        (
            "https://login.example.org/keys",
            "http://login.example.org/keys",
            "issuers[0].keys must be an https:// address",
        ),
        ("https://login.example.org/keys", "file:///etc/passwd", "issuers[0].keys must be an https:// address"),
        ('"epsilog"', '" "', "issuers[0].audience must be a string that is not blank"),
        ('"spender"', '"admin"', "issuers[0].grants[1].role must be 'reader', 'spender', 'owner' or 'auditor'"),
        ('scope = "acme"', "", "issuers[0].grants[0].scope must be given"),
        ("entire_ledger = true", 'entire_ledger = true\nscope = "acme"', "issuers[0].grants[2].scope must be given"),
        ('scope = "acme"', 'scope = "acme//x"', "scope must be"),
        ('value = "owners"', "", "issuers[0].grants[0].value must be given"),
        ("keys =", 'algorithms = ["HS256"]\nkeys =', "algorithms[0] must be 'RS256'"),
        ("keys =", 'algorithms = ["none"]\nkeys =', "algorithms[0] must be 'RS256'"),
        ("keys =", "algorithms = []\nkeys =", "algorithms must be of at least 1 items"),
        ("keys =", "secret = 1\nkeys =", "issuers[0].secret must be absent"),
    ],
)
def test_a_wrong_file_is_refused_with_field_and_bound(before, after, message):
    assert before in FILE
    with pytest.raises(ConfigError) as refused:
        parse_identity(FILE.replace(before, after, 1).encode(), "identity.toml")
    assert message in str(refused.value)


def test_two_entries_of_one_issuer_are_refused():
    with pytest.raises(ConfigError, match="of different url"):
        parse_identity((FILE + FILE).encode(), "identity.toml")


def test_keys_may_lie_beside_the_file(tmp_path):
    (tmp_path / "keys.json").write_bytes(publish(a=RSA))
    provider = Provider(tmp_path, FILE.replace("https://login.example.org/keys", "keys.json"))
    assert provider.verifier.verify(sign()) is not None
    assert provider.fetches == 0


@pytest.fixture
def web(tmp_path):
    """An address of this machine that serves the folder, sends ``/moved`` elsewhere, and counts what it is asked."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=str(tmp_path))

        def do_GET(self):
            asked.append(self.path)
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/keys.json")
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize(("path", "accepted"), [("keys.json", True), ("moved", False), ("absent", False)])
def test_keys_are_fetched_from_the_stated_address_alone(tmp_path, web, path, accepted):
    (tmp_path / "keys.json").write_bytes(publish(a=RSA))
    (tmp_path / "identity.toml").write_text(FILE.replace("https://login.example.org/keys", f"{web[0]}/{path}"))
    (tmp_path / "identity.toml").chmod(0o600)
    verifier = IdentityProvider(tmp_path / "identity.toml", clock=lambda: NOW)
    if accepted:
        assert verifier.verify(sign()) is not None
    else:
        with pytest.raises(StorageError):
            verifier.verify(sign())
    assert web[1] == [f"/{path}"]


def test_no_token_of_the_server_has_the_name_of_a_holder_of_an_issuer(tmp_path):
    with pytest.raises(CheckError, match="OpenID Connect"):
        tokens.create_token(tmp_path / "tokens.json", f"anna at {ISSUER}", role="owner", scope="acme")


class Costs:
    """Costs that need no other process."""

    def cost_model(self):
        return HERE


@pytest.fixture
def app(provider, tmp_path, monkeypatch):
    """An application with a ledger that accepts the provider's tokens."""
    path = tmp_path / "ledger.db"
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="3")
        ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    monkeypatch.setattr("epsilog.server.app.IdentityProvider", lambda _: provider.verifier)
    made = create_app(ledger=str(path), access=AccessConfig(identity=provider.path))
    service = made.state.ledger_service = LedgerService(str(path), Costs())
    yield made
    service.close()


def charge(app, text, scope, key):
    body = {"scope": scope, "key": key, "release": {"v": 1, "term": {"type": "pure", "epsilon": 0.5}}}
    headers = [("content-type", "application/json")]
    return ask(app, "POST", "/api/v1/ledger/charge", token=text, headers=headers, body=json.dumps(body).encode())


def test_over_http_the_role_holds_and_the_ledger_keeps_the_name(app, provider, tmp_path):
    assert charge(app, sign(), "acme/claims", "k").status == 200
    refused = charge(app, sign(), "acme", "k2")
    assert (refused.status, refused.json()["code"]) == (403, "access")
    holder = ask(app, "GET", "/api/v1/holder", token=sign()).json()
    assert holder["name"] == f"anna at {ISSUER}"
    assert ask(app, "GET", "/api/v1/holder", token=sign(groups=[])).status == 403
    with read_ledger(tmp_path / "ledger.db") as ledger:
        assert f"anna at {ISSUER}" in "".join(text for _, text in ledger.documents())


def test_a_namesake_of_another_issuer_inherits_nothing(app, provider):
    second = FILE.replace(ISSUER, "https://login.example.net").replace(
        "https://login.example.net/keys", f"{ISSUER}/keys"
    )
    provider.path.write_text(FILE + second)
    namesake = sign(iss="https://login.example.net")
    assert charge(app, sign(), "acme/claims", "k").status == 200
    taken = charge(app, namesake, "acme/claims", "k")
    assert taken.status == 403, taken.body
    assert charge(app, namesake, "acme/claims", "k2").status == 200


def test_failures_are_limited_and_lock_out_no_valid_token(app):
    wrong = sign(OTHER_RSA)
    found = [ask(app, "GET", "/api/v1/holder", token=wrong).status for _ in range(14)]
    assert found[0] == 401
    assert found[-1] == 429
    assert ask(app, "GET", "/api/v1/holder", token=sign()).status == 200


def test_an_unusable_file_or_no_keys_are_the_servers_trouble(app, provider):
    provider.published = OSError("down")
    assert ask(app, "GET", "/api/v1/holder", token=sign()).status == 503
    provider.path.unlink()
    assert ask(app, "GET", "/api/v1/holder", token=sign()).status == 503


@pytest.mark.parametrize("text", ["", "eps_0123456789abcdef_" + "a" * 43, "a.b.c", "a" * 20_000, "a.b.c.d.e"])
def test_other_texts_are_no_tokens_here(app, text):
    assert ask(app, "GET", "/api/v1/holder", token=text).status == 401
