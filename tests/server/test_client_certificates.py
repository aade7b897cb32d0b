"""Client certificates that a proxy checked: which headers the server believes, and what their holders may do."""

import base64
import datetime as dt
import hashlib
import http.server
import json
import logging
import ssl
import threading
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.server.browsing import ENTER, clean, every, fill, one, press, shows, until
from tests.server.conftest import filled, serving
from tests.server.inside import ask
from tests.server.test_access import self_signed
from tests.server.test_command_route import BAD, CHARGE, DORA, GOOD, HEADERS, tell

from epsilog.ledger import open_ledger, read_ledger
from epsilog.ledger.headroom import HERE
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, create_app
from epsilog.server.access import Role
from epsilog.server.client_certificates import CertificateDirectory
from epsilog.server.command_route import CommandMiddleware
from epsilog.server.identity import IdentityProvider
from epsilog.server.identity_config import parse_identity
from epsilog.server.ledger_service import LedgerService
from epsilog.server.tokens import create_token
from epsilog.server.x509_certificates import get_fingerprint, get_subject, read_certificate
from epsilog.terms import CheckError, ConfigError, EpsilogError, PermissionDeniedError

SECRET = "n0lgDw3cR4a2y7Hq5k1Zs8Xv6Tb9Mj0f"
PROXY = "192.0.2.9"
NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Made:
    certificate: x509.Certificate
    key: object

    @property
    def der(self):
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def header(self):
        """As RFC 9440 has it."""
        return f":{base64.b64encode(self.der).decode()}:"

    @property
    def sha256(self):
        return hashlib.sha256(self.der).hexdigest()


def make(common_name, issuer=None, *, begin=NOW - DAY, end=NOW + DAY, authority=False, key=None, signature=None):
    """A certificate, signed by an authority or by itself."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Example"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name),
        ]
    )
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    algorithm = None if isinstance(signer, ed25519.Ed25519PrivateKey) else signature or hashes.SHA256()
    return Made(builder.sign(signer, algorithm), key)


CA, TWIN = make("Research CA", authority=True), make("Research CA", authority=True)  # one name, two keys
UNDER = make("Under CA", CA, authority=True)
OLD_CA = make("Old CA", authority=True, begin=NOW - 9 * DAY, end=NOW - DAY)
ANNA, BOT, NEW_BOT = make("anna", CA), make("bot"), make("bot")
CARL = make("carl", OLD_CA)


def toml(*, role="spender", scope='scope = "acme/claims"', more=""):
    return f"""
[proxy]
addresses = ["{PROXY}", "::1", "127.0.0.1"]
secret_sha256 = ["{hashlib.sha256(SECRET.encode()).hexdigest()}"]

[[certificates]]
name = "nightly job"
sha256 = ["{BOT.sha256}", "{NEW_BOT.sha256.upper()}"]
role = "{role}"
{scope}

[[authorities]]
certificate = '''
{CA.pem}'''

[[authorities.holders]]
name = "anna"
subject = "CN=anna,O=Example"
role = "{role}"
{scope}

[[authorities]]
certificate = '''{OLD_CA.pem}'''

[[authorities.holders]]
name = "carl"
subject = "CN=carl,O=Example"
role = "auditor"
entire_ledger = true
{more}"""


FILE = toml()


def write(folder, content=FILE):
    path = folder / "identity.toml"
    path.write_text(content)
    path.chmod(0o600)
    return path


class Costs:
    """Costs that need no other process."""

    def cost_model(self):
        return HERE


@pytest.fixture
def app(tmp_path):
    """An application with tokens and certificates; its ledger has a charge of another."""
    path = tmp_path / "ledger.db"
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="3")
        ledger.create_budget("acme/claims", kind="pure", epsilon="1")
    _, token = create_token(tmp_path / "tokens.json", "anna", role="spender", scope="acme/claims")
    access = AccessConfig(tmp_path / "tokens.json", identity=write(tmp_path), rate=1000.0)
    made = create_app(ledger=str(path), access=access)
    made.state.token = token
    service = made.state.ledger_service = LedgerService(str(path), Costs())
    yield made
    service.close()


def from_proxy(value, *more, secret=SECRET):
    return [("client-cert", value), ("epsilog-proxy-secret", secret), *more]


def get_holder(app, headers, *, peer=PROXY, **more):
    return ask(app, "GET", "/api/v1/holder", headers=headers, peer=peer, **more)


def charge(app, headers, key, scope="acme/claims", **more):
    body = {"scope": scope, "key": key, "release": {"v": 1, "term": {"type": "pure", "epsilon": 0.125}}}
    headers = [("content-type", "application/json"), *headers]
    return ask(app, "POST", "/api/v1/ledger/charge", headers=headers, body=json.dumps(body).encode(), **more)


# --- what a header may be ---------------------------------------------------------------------------------------------


def test_a_certificate_is_read_as_rfc_9440_and_as_nginx_and_envoy_write_it():
    for made in (ANNA, make("b", key=ed25519.Ed25519PrivateKey.generate()), make("ü,\n+x")):
        nginx = quote(made.pem, safe="")
        envoy = made.pem.replace("\n", "%0A").replace(" ", "%20").replace("+", "%2B").replace("/", "%2F")
        for value in (made.header, nginx, envoy.replace("=", "%3D"), quote(made.pem.rstrip())):
            found = read_certificate(value)
            assert get_fingerprint(found) == made.sha256
    assert get_subject(ANNA.certificate) == "CN=anna,O=Example"
    assert get_subject(make("a,O=b").certificate) == "CN=a\\,O=b,O=Example"  # no name can be taken for another


MALFORMED = {
    "nothing": "",
    "an empty sequence": "::",
    "no colons": ANNA.header.strip(":"),
    "one colon": ANNA.header[:-1],
    "no base64": ":%%%:",
    "a character between": ANNA.header[:40] + "-" + ANNA.header[41:],
    "cut": ANNA.header[:80] + ":",
    "changed length": f":{base64.b64encode(ANNA.der[:-1]).decode()}:",
    "something behind it": f":{base64.b64encode(ANNA.der + b'0').decode()}:",
    "a chain in DER": f":{base64.b64encode(ANNA.der + CA.der).decode()}:",
    "a chain as a list": f"{ANNA.header}, {CA.header}",
    "a chain in PEM": quote(ANNA.pem + CA.pem),
    "a parameter": f"{ANNA.header};a=1",
    "a key": quote(ANNA.pem.replace("CERTIFICATE", "PRIVATE KEY")),
    "text before it": "x" + quote(ANNA.pem),
    "plain PEM on one line": ANNA.pem.replace("\n", " "),
    "too long": ":" + "A" * 20_000 + ":",
    "no ASCII": ":é:",
    "an element of X-Forwarded-Client-Cert": f'Cert="{quote(ANNA.pem)}"',
}


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_certificate_is_refused(app, value):
    for found in (
        get_holder(app, from_proxy(value.encode())),
        charge(app, from_proxy(value.encode()), "k", peer=PROXY),
    ):
        assert (found.status, found.json()["code"]) == (403, "access")
        assert "Client-Cert" in found.json()["detail"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of cryptography, about what is unusual in a certificate
def test_no_changed_byte_gives_an_error_or_another_holder():
    directory, now = CertificateDirectory(parse_identity(FILE.encode(), "identity.toml")), NOW.timestamp()
    signed = len(ANNA.certificate.tbs_certificate_bytes)
    for place in range(len(ANNA.der)):
        for value in {0, 1, 2, 0x30, 0x80, 0xFF, ANNA.der[place] ^ 1} - {ANNA.der[place]}:
            changed = ANNA.der[:place] + bytes([value]) + ANNA.der[place + 1 :]
            try:
                holder, _ = directory.find_holder(f":{base64.b64encode(changed).decode()}:", now)
            except PermissionDeniedError:
                continue
            assert (holder.name, place >= signed) == ("certificate://anna", True)  # another form of the signature


# --- whom the server believes -----------------------------------------------------------------------------------------

WRONG = "w" * 43
SPOOFED = {  # headers, the address they come from, and the answer
    "another address": (from_proxy(ANNA.header), "192.0.2.10", 421, "does not name the address '192.0.2.10'"),
    "no address": (from_proxy(ANNA.header), None, 421, "does not name the address 'unknown'"),
    "loopback without the secret": ([("client-cert", ANNA.header)], "127.0.0.1", 421, "needs the proxy's secret"),
    "another secret": (from_proxy(ANNA.header, secret=WRONG), PROXY, 421, "is not the secret"),
    "an empty secret": (from_proxy(ANNA.header, secret=""), PROXY, 421, "is not the secret"),
    "the hash as secret": (
        from_proxy(ANNA.header, secret=hashlib.sha256(SECRET.encode()).hexdigest()), PROXY, 421, "is not the secret",
    ),
    "the secret alone from elsewhere": ([("epsilog-proxy-secret", SECRET)], "192.0.2.10", 421, "does not name"),
    "two certificates": (from_proxy(ANNA.header, ("client-cert", BOT.header)), PROXY, 400, "must be given once"),
    "one certificate twice": (from_proxy(ANNA.header, ("Client-Cert", ANNA.header)), PROXY, 400, "must be given once"),
    "two secrets": (from_proxy(ANNA.header, ("epsilog-proxy-secret", WRONG)), PROXY, 400, "must be given once"),
    "a chain": (from_proxy(ANNA.header, ("client-cert-chain", CA.header)), PROXY, 400, "not send Client-Cert-Chain"),
    "a chain from elsewhere": ([("client-cert-chain", CA.header)], "192.0.2.10", 421, "does not name"),
    "a token too": (from_proxy(ANNA.header, ("authorization", "Bearer TOKEN")), PROXY, 400, "not both"),
    "other credentials too": (from_proxy(ANNA.header, ("authorization", "Basic YTpi")), PROXY, 400, "not both"),
    "another site's page": (from_proxy(ANNA.header, ("sec-fetch-site", "cross-site")), PROXY, 403, "other sites"),
    "a sibling's page": (from_proxy(ANNA.header, ("sec-fetch-site", "same-site")), PROXY, 403, "other sites"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOOFED.values(), ids=SPOOFED)
def test_what_does_not_come_from_the_proxy_alone_is_refused_and_writes_nothing(app, tmp_path, case):
    headers, peer, status, says = case
    headers = [(name, value.replace("TOKEN", app.state.token)) for name, value in headers]
    for found in (get_holder(app, headers, peer=peer), charge(app, headers, "k", peer=peer)):
        assert found.status == status, found.body
        assert says in found.json()["detail"]
    page = ask(app, "GET", "/playground", headers=headers, peer=peer).status  # nobody relies on it there either
    assert page == (200 if status == 403 else status)
    with read_ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.head()[0] == 2


def test_the_proxy_is_believed_in_each_of_its_forms(app):
    for peer in (PROXY, f"::ffff:{PROXY}", "::1"):
        for site in ((), (("sec-fetch-site", "same-origin"),), (("sec-fetch-site", "none"),)):
            found = get_holder(app, from_proxy(ANNA.header, *site), peer=peer)
            assert [found.json()[name] for name in ("role", "scope")] == ["spender", "acme/claims"]
    assert get_holder(app, [("epsilog-proxy-secret", SECRET)]).status == 401  # a visitor without a certificate
    assert get_holder(app, [("epsilog-proxy-secret", SECRET)], token=app.state.token).status == 200


@pytest.mark.parametrize("tokens", [False, True])
def test_a_server_without_a_proxy_in_its_file_refuses_the_header(tmp_path, tokens):
    if tokens:
        create_token(tmp_path / "tokens.json", "anna", role="owner", scope="acme")
    app = create_app(access=AccessConfig(tmp_path / "tokens.json" if tokens else None))
    for headers in (from_proxy(ANNA.header), [("client-cert", ANNA.header)], [("epsilog-proxy-secret", SECRET)]):
        found = get_holder(app, headers, peer="127.0.0.1")
        assert found.status == 421
        assert "accepts no client certificates" in found.json()["detail"]


def test_a_short_secret_is_refused_even_if_the_file_has_its_hash(tmp_path):
    short = "a" * 31
    content = FILE.replace(hashlib.sha256(SECRET.encode()).hexdigest(), hashlib.sha256(short.encode()).hexdigest())
    app = create_app(access=AccessConfig(identity=write(tmp_path, content)))
    found = get_holder(app, from_proxy(ANNA.header, secret=short))
    assert (found.status, "at least 32 characters" in found.json()["detail"]) == (421, True)


def test_secrets_are_compared_in_constant_time(app, monkeypatch):
    import hmac

    seen, compare = [], hmac.compare_digest
    monkeypatch.setattr(
        "epsilog.server.client_certificates.hmac.compare_digest", lambda *both: seen.append(both) or compare(*both)
    )
    assert get_holder(app, from_proxy(ANNA.header)).status == 200
    assert [[len(one) for one in both] for both in seen] == [[32, 32]]


def test_while_the_file_is_unusable_every_certificate_is_refused(app, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("epsilog.server.client_certificates._LOG", logging.getLogger("certificates"))
    assert get_holder(app, from_proxy(ANNA.header)).status == 200
    (tmp_path / "identity.toml").chmod(0o620)
    for _ in range(3):
        assert get_holder(app, from_proxy(ANNA.header)).status == 503
    assert caplog.text.count("every client certificate is refused") == 1
    assert get_holder(app, [], token=app.state.token).status == 200  # of the other file


# --- whose a certificate is -------------------------------------------------------------------------------------------

SHA1 = make("anna", CA, signature=hashes.SHA256())
NOBODY = {
    "unknown, by itself": (make("anna"), "names neither the client certificate"),
    "unknown issuer": (make("anna", make("Other CA", authority=True)), "names neither"),
    "a namesake of another issuer of the same name": (make("anna", TWIN), "names neither"),
    "another subject": (make("bert", CA), "no holder 'CN=bert,O=Example'"),
    "another case": (make("Anna", CA), "no holder 'CN=Anna,O=Example'"),
    "a subject that contains it": (make("anna,O=Example", CA), "no holder"),
    "no direct child": (make("anna", UNDER), "names neither"),
    "the authority itself": (CA, "no holder"),
    "a namesake of a fingerprint": (make("bot"), "names neither"),
    "expired": (make("anna", CA, begin=NOW - 2 * DAY, end=NOW - DAY), f"expired on {NOW - DAY:%Y-%m-%d %H:%M:%S} UTC"),
    "expired and unknown": (make("eve", begin=NOW - 2 * DAY, end=NOW - DAY), "expired on"),
    "not yet valid": (make("anna", CA, begin=NOW + DAY, end=NOW + 2 * DAY), "is not valid before"),
    "an expired authority": (make("carl", OLD_CA), "the authority of the client certificate expired on"),
}


@pytest.mark.parametrize(("made", "says"), NOBODY.values(), ids=NOBODY.keys())
def test_a_certificate_without_an_entry_or_out_of_its_time_is_refused(app, made, says):
    for found in (get_holder(app, from_proxy(made.header)), charge(app, from_proxy(made.header), "k", peer=PROXY)):
        assert (found.status, found.json()["code"]) == (403, "access")
        assert says in found.json()["detail"]
    assert get_holder(app, from_proxy(ANNA.header)).json()["name"] == "certificate://anna"  # the right one enters


def test_a_signature_by_a_broken_hash_counts_for_nothing(monkeypatch, app):
    """OpenSSL may refuse to make one: the algorithm is replaced instead."""
    assert get_holder(app, from_proxy(SHA1.header)).status == 200
    monkeypatch.setattr("epsilog.server.x509_certificates._SIGNATURE_HASHES", frozenset({"sha384", "sha512"}))
    assert "names neither" in get_holder(app, from_proxy(make("anna", CA).header)).json()["detail"]


def test_a_subject_alone_is_no_proof_of_its_issuer(app):
    """The signature counts, not the name: an authority without a valid one issued this."""
    forged = bytearray(ANNA.der)
    forged[-1] ^= 1
    value = f":{base64.b64encode(bytes(forged)).decode()}:"
    assert get_holder(app, from_proxy(value)).status == 403


def test_two_fingerprints_are_one_holder_who_continues_the_charges(app, tmp_path):
    assert charge(app, from_proxy(BOT.header), "k", peer=PROXY).status == 200
    again = charge(app, from_proxy(NEW_BOT.header), "k", peer=PROXY)
    assert (again.status, again.json()["replayed"]) == (200, True)
    write(tmp_path, FILE.replace(f'"{BOT.sha256}", ', ""))  # the old one has done its duty
    assert charge(app, from_proxy(BOT.header), "k", peer=PROXY).status == 403
    assert charge(app, from_proxy(NEW_BOT.header), "k", peer=PROXY).status == 200


def test_a_namesake_by_token_or_certificate_inherits_nothing(app, tmp_path):
    assert charge(app, from_proxy(ANNA.header), "k", peer=PROXY).status == 200
    assert charge(app, [("authorization", f"Bearer {app.state.token}")], "k").status == 403
    assert charge(app, from_proxy(BOT.header), "k", peer=PROXY).status == 403
    with read_ledger(tmp_path / "ledger.db") as ledger:
        assert '"certificate://anna"' in "".join(text for _, text in ledger.documents())


def test_failures_are_limited_and_lock_out_no_valid_certificate(app):
    found = [get_holder(app, from_proxy(make("eve").header)).status for _ in range(14)]
    assert (found[0], found[-1]) == (403, 429)
    assert get_holder(app, from_proxy(ANNA.header)).status == 200


def test_a_known_certificate_ends_at_its_expiry_and_with_its_entry(tmp_path):
    now = NOW.timestamp()
    path = write(tmp_path)
    provider = IdentityProvider(path, clock=lambda: now)
    short = make("anna", CA, end=NOW + dt.timedelta(hours=1)).header
    found = provider.verify_certificate(short)
    assert (provider.find(short), provider.is_valid(found)) == (found, True)
    path.write_text(FILE + "\n# changed")
    assert (provider.find(short), provider.is_valid(found)) == (None, False)
    found = provider.verify_certificate(short)
    now += 3600
    assert (provider.find(short), provider.is_valid(found)) == (None, False)
    now -= 3600  # the clock of the machine is set back
    assert (provider.find(short), provider.is_valid(found)) == (None, False)


def test_rsa_and_ed25519_authorities_serve_too(tmp_path):
    for key in (rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()):
        authority = make("Research CA", authority=True, key=key)
        provider = IdentityProvider(write(tmp_path, FILE.replace(CA.pem, authority.pem)))
        assert provider.verify_certificate(make("anna", authority).header).holder.name == "certificate://anna"


# --- the file ---------------------------------------------------------------------------------------------------------

SHORT_RSA = make("Research CA", authority=True, key=rsa.generate_private_key(65537, 1024))  # noqa: S505


WRONG_FILES = [
    (f'addresses = ["{PROXY}", ', 'addresses = ["proxy.example", ', "proxy.addresses must be an IP address"),
    (f'addresses = ["{PROXY}", ', 'addresses = ["192.0.2.0/24", ', "proxy.addresses must be an IP address"),
    (f'addresses = ["{PROXY}", ', 'addresses = ["0.0.0.0", ', "proxy.addresses must be the address of one machine"),
    (f'addresses = ["{PROXY}", "::1", "127.0.0.1"]', "addresses = []", "proxy.addresses must be of at least 1"),
    (hashlib.sha256(SECRET.encode()).hexdigest(), SECRET, "proxy.secret_sha256 must be SHA-256"),
    (BOT.sha256, BOT.sha256[:-1], "certificates[0].sha256 must be SHA-256"),
    (BOT.sha256, NEW_BOT.sha256, "certificates must be of different sha256"),
    ('name = "nightly job"', 'name = "a://b"', "certificates[0].name must be a holder's name"),
    ('name = "nightly job"', 'name = "carl"', "name must be of one role and scope"),
    ('scope = "acme/claims"', "", "certificates[0].scope must be given"),
    ('subject = "CN=anna,O=Example"', 'subject = " "', "authorities[0].holders[0].subject must be"),
    (CA.pem, ANNA.pem, "authorities[0].certificate must be the certificate of an authority"),
    (CA.pem, CA.pem + OLD_CA.pem, "authorities[0].certificate must be one certificate"),
    (
        CA.pem,
        SHORT_RSA.pem,
        "authorities[0].certificate must be of an authority whose RSA key has at least 2048 bits",
    ),
    (CA.pem, OLD_CA.pem, "authorities must be of different certificate"),
    ("[proxy]", "[[issuers]]", "issuers[0].url must be given"),
]


@pytest.mark.parametrize("case", WRONG_FILES, ids=[case[2] for case in WRONG_FILES])
def test_a_wrong_file_is_refused_with_field_and_bound(case):
    before, after, message = case
    assert before in FILE
    with pytest.raises(ConfigError) as refused:
        parse_identity(FILE.replace(before, after, 1).encode(), "identity.toml")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "content",
    ["", FILE[: FILE.index("[[certificates]]")], FILE[FILE.index("[[certificates]]") :]],
    ids=["nothing", "a proxy", "certificates"],
)
def test_a_proxy_without_certificates_or_certificates_without_a_proxy_are_refused(content):
    with pytest.raises(ConfigError, match="must be given"):
        parse_identity(content.encode(), "identity.toml")


def test_two_holders_of_one_subject_are_refused():
    again = '[[authorities.holders]]\nname = "c"\nsubject = "CN=carl,O=Example"\nrole = "owner"\nscope = "acme"\n'
    with pytest.raises(ConfigError, match="of holders of different subject"):
        parse_identity((FILE + again).encode(), "identity.toml")


# --- roles, and both routes -------------------------------------------------------------------------------------------

ACTS = (  # what is asked, and the roles that may, by hand; the file's scope is acme/claims
    ("GET", "/api/v1/ledger/balances?above=acme/claims", None, set(Role)),
    ("POST", "/api/v1/ledger/headroom", {"scope": "acme/claims"}, set(Role)),
    ("POST", "/api/v1/ledger/charge", CHARGE, {Role.SPENDER, Role.OWNER}),
    ("POST", "/api/v1/ledger/charge", CHARGE | {"scope": "acme", "key": "above"}, set()),
    ("POST", "/api/v1/ledger/charge", CHARGE | {"scope": "lab/study", "key": "beside"}, set()),
    ("POST", "/api/v1/ledger/set-cap", {"scope": "acme/claims", "caps": {"epsilon": "2"}} | DORA, {Role.OWNER}),
    ("POST", "/api/v1/ledger/verify", None, set()),
    ("GET", "/api/v1/runs", None, set()),
    ("GET", "/metrics", None, set(Role)),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("role", Role)
def test_a_certificate_allows_what_a_token_of_its_role_allows(tmp_path, role):
    statuses = {}
    for kind in ("certificate", "authority", "token"):
        folder = tmp_path / kind
        folder.mkdir()
        path = filled(folder / "ledger.db")
        _, token = create_token(folder / "tokens.json", "anna", role=role, scope="acme/claims")
        identity = write(folder, toml(role=role.value))
        app = create_app(ledger=str(path), access=AccessConfig(folder / "tokens.json", identity=identity, rate=1000.0))
        headers = {
            "certificate": from_proxy(BOT.header),
            "authority": from_proxy(ANNA.header),
            "token": [("authorization", f"Bearer {token}")],
        }[kind]
        service = app.state.ledger_service = LedgerService(str(path), Costs())
        statuses[kind] = []
        for method, address, body, roles in ACTS:
            raw = b"" if body is None else json.dumps(body).encode()
            given = [*headers, *([] if body is None else [("content-type", "application/json")])]
            found = ask(app, method, address, headers=given, body=raw, peer=PROXY)
            assert (found.status == 200) is (role in roles), (address, found.body)
            statuses[kind].append((found.status, None if found.status == 200 else found.json()))
        service.close()
        with read_ledger(path) as ledger:
            actors = [entry.body["actor"] for entry in ledger.page("acme/claims", verb="cap-changed", limit=5)]
        name = {"certificate": "certificate://nightly job", "authority": "certificate://anna", "token": "token of anna"}
        assert actors == ([f"dora ({name[kind]})"] if role is Role.OWNER else [])
    assert statuses["certificate"] == statuses["authority"] == statuses["token"]


ATTACKS = [
    {"Client-Cert": ANNA.header},
    {"Epsilog-Proxy-Secret": WRONG, "Client-Cert": ANNA.header},
    {"Epsilog-Proxy-Secret": SECRET, "Client-Cert": ANNA.header, "Authorization": "Bearer eps_x"},
    {"Epsilog-Proxy-Secret": SECRET, "Client-Cert": ANNA.header, "Client-Cert-Chain": CA.header},
    {"Epsilog-Proxy-Secret": SECRET, "Client-Cert": NOBODY["expired"][0].header},
    {"Epsilog-Proxy-Secret": SECRET, "Client-Cert": make("anna", TWIN).header},
    {"Epsilog-Proxy-Secret": SECRET, "Client-Cert": ":AAAA:"},
    {"Epsilog-Proxy-Secret": SECRET},
]


@pytest.mark.slow
@pytest.mark.parametrize("role", [Role.OWNER, Role.READER])
def test_both_routes_answer_a_certificate_alike(tmp_path, monkeypatch, capsys, role):
    """Headers, bodies, entries and the log."""
    headers, found = {"Epsilog-Proxy-Secret": SECRET, "Client-Cert": ANNA.header}, []
    for short in (True, False):
        folder = tmp_path / str(short)
        folder.mkdir()
        identity = write(folder, toml(role=role.value, scope='scope = "acme"'))
        app = create_app(
            ledger=str(filled(folder / "l.db")), access=AccessConfig(identity=identity, rate=1000.0, access_log=True)
        )
        if not short:
            monkeypatch.setattr(CommandMiddleware, "__call__", lambda self, *given: self.app(*given))
        with serving(app) as site:
            told = [tell(site.post(f"ledger/{name}", body, headers=headers)) for name, body in GOOD]
            assert told[0][0] == (403 if role is Role.READER else 200), told[0]
            told += [tell(site.post("ledger/charge", raw=raw, headers=headers)) for raw in BAD]
            told += [tell(site.post("ledger/charge", CHARGE, headers=headers | more)) for more in HEADERS]
            for attack in ATTACKS:
                refused = tell(site.post("ledger/charge", CHARGE | {"key": "attack"}, headers=attack))
                assert refused[0] in {400, 401, 403, 421}, refused
                told.append(refused)
        logged = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        told += [
            {name: one for name, one in line.items() if name not in ("id", "time", "milliseconds")} for line in logged
        ]
        assert not any(SECRET in str(line) or ANNA.header in str(line) for line in logged)
        with open_ledger(folder / "l.db") as ledger:
            told.append([(entry.verb, entry.scope, entry.key, entry.body) for entry in ledger.history()])
            assert "attack" not in {key for _, key in ledger.verify().charges}
        found.append(told)
    for this, other in zip(*found, strict=True):
        assert this == other


# --- the client, through a proxy --------------------------------------------------------------------------------------


class Proxy(http.server.BaseHTTPRequestHandler):
    """Ends TLS, requires a client certificate, and passes it on as RFC 9440 has it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        passed = {name: self.headers[name] for name in ("Content-Type", "Authorization") if name in self.headers}
        der = base64.b64encode(self.connection.getpeercert(binary_form=True)).decode()
        passed |= {"Client-Cert": f":{der}:", "Epsilog-Proxy-Secret": SECRET}
        said = self.server.site.ask(self.command, self.path, raw=self.rfile.read(length) or None, headers=passed)
        self.send_response(said.status)
        self.send_header("Content-Length", str(len(said.body)))
        self.end_headers()
        self.wfile.write(said.body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def proxied(tmp_path):
    """The address of a server behind a proxy; files of anna's and of eve's certificate with their keys."""
    certificate, key = self_signed(tmp_path)
    for name, made in (("anna", ANNA), ("eve", make("eve", CA))):
        secret = made.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (tmp_path / f"{name}.pem").write_text(made.pem + secret.decode())
    (tmp_path / "ca.pem").write_text(CA.pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)
    app = create_app(ledger=str(filled(tmp_path / "l.db")), access=AccessConfig(identity=write(tmp_path)))
    with serving(app) as site, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.socket, server.site = context.wrap_socket(server.socket, server_side=True), site
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}", certificate
        server.shutdown()


def test_a_client_charges_with_the_certificate_that_its_environment_names(tmp_path, proxied, monkeypatch):
    address, trusted = proxied
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setenv("EPSILOG_CLIENT_CERT", str(tmp_path / "anna.pem"))
    with open_ledger(address) as ledger:
        ledger.charge("acme/claims", PureDP(0.125), key="by certificate")
    with read_ledger(tmp_path / "l.db") as ledger:
        assert ledger.find("by certificate", scope="acme/claims").key == "by certificate"
    monkeypatch.setenv("EPSILOG_CLIENT_CERT", str(tmp_path / "eve.pem"))
    with open_ledger(address) as ledger, pytest.raises(PermissionDeniedError, match="no holder 'CN=eve,O=Example'"):
        ledger.charge("acme/claims", PureDP(0.125), key="by eve")
    with open_ledger(address, token="a") as ledger, pytest.raises(EpsilogError, match="not both"):  # noqa: S106
        ledger.charge("acme/claims", PureDP(0.125), key="by both")


@pytest.mark.parametrize("key", [None, "ca.pem", "absent.pem"])
def test_a_client_certificate_that_cannot_be_used_is_refused_before_anything_is_sent(tmp_path, monkeypatch, key):
    (tmp_path / "ca.pem").write_text(CA.pem)
    monkeypatch.setenv("EPSILOG_CLIENT_CERT", str(tmp_path / "ca.pem"))
    if key is not None:
        monkeypatch.setenv("EPSILOG_CLIENT_KEY", str(tmp_path / key))
    with pytest.raises(CheckError, match="EPSILOG_CLIENT_CERT must be a certificate in PEM"):
        open_ledger("https://localhost:1")


@pytest.mark.slow
def test_a_page_needs_no_token_behind_the_proxy(browser, tmp_path):
    app = create_app(ledger=str(filled(tmp_path / "l.db")), access=AccessConfig(identity=write(tmp_path)))
    passed = [(name.encode(), value.encode()) for name, value in from_proxy(ANNA.header)]

    async def behind(scope, receive, send):
        await app(scope | {"headers": [*scope.get("headers", ()), *passed]}, receive, send)

    with serving(behind) as site:
        browser.get(site.url + "/ledger")
        shows(browser, "acme/claims")
        charge = until(
            lambda: next(part for part in every(browser, ".part") if part.text.startswith("Charge a release"))
        )
        one(charge, "summary").send_keys(ENTER)
        fill(charge, scope="acme/claims/anna", value="0.25", key="mine")
        press(charge, "Reserve")
        until(lambda: "is reserved" in charge.text or "mine" in charge.text)
        browser.get("about:blank")
    assert clean(browser) == []
    with read_ledger(tmp_path / "l.db") as ledger:
        assert ledger.find("mine", scope="acme/claims/anna").key == "mine"
        assert '"certificate://anna"' in "".join(text for _, text in ledger.documents())
