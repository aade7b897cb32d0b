"""Who may use a server: roles, scopes, addresses, TLS."""

import datetime as dt
import ipaddress
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epsilog.server import AccessConfig, create_app
from epsilog.server.access import (
    LOCAL_HOLDER,
    LOOPBACK_ADDRESSES,
    LOOPBACK_HOSTS,
    Action,
    Holder,
    Role,
    require_permission,
)
from epsilog.server.tls import TlsCertificate, make_tls_context
from epsilog.terms import CheckError, PermissionDeniedError, StorageError

MAY = {  # as the documentation's table has it, by hand
    Role.READER: {"read"},
    Role.SPENDER: {"read", "spend"},
    Role.OWNER: {"read", "spend", "own", "audit"},
    Role.AUDITOR: {"read", "audit"},
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("act", Action)
def test_a_role_allows_its_acts_at_and_under_its_scope_and_no_others(role, act):
    anna = Holder("anna", role, "acme/claims")
    for scope in ("acme/claims", "acme/claims/2026"):
        if act in MAY[role]:
            require_permission(anna, act, scope)
        else:
            with pytest.raises(PermissionDeniedError, match=f"a {role} may not {act}"):
                require_permission(anna, act, scope)
    for scope in ("acme", "acme/claims-2", "acme/claim", "other/acme/claims", "", None):
        with pytest.raises(PermissionDeniedError):
            require_permission(anna, act, scope)


@pytest.mark.parametrize("scope", [None, "acme", "acme/claims"])
def test_whoever_holds_the_whole_ledger_holds_every_scope_of_it(scope):
    for act in Action:
        require_permission(LOCAL_HOLDER, act, scope)
    with pytest.raises(PermissionDeniedError, match="a reader may not own"):
        require_permission(Holder("bob", Role.READER), Action.OWN, scope)


FILE = Path("tokens.json")
WILD = ("0.0.0.0", "::")  # noqa: S104
BEYOND = ("192.0.2.4", "127.0.0.2", "2001:db8::1", *WILD)


@pytest.mark.parametrize("host", LOOPBACK_ADDRESSES)
@pytest.mark.parametrize("tls", [False, True])
def test_loopback_is_for_everybody(host, tls):
    assert AccessConfig().for_address(host, tls=tls).hosts == LOOPBACK_HOSTS
    assert AccessConfig(FILE).for_address(host, tls=tls).hosts == LOOPBACK_HOSTS


@pytest.mark.parametrize("host", BEYOND)
def test_tokens_of_other_issuers_serve_as_well(host):
    access = AccessConfig(identity=FILE, names=("team.example.org",))
    assert "team.example.org" in access.for_address(host, tls=True).hosts
    with pytest.raises(CheckError, match="host must be a loopback address"):
        access.for_address(host, tls=False)


@pytest.mark.parametrize("host", [*BEYOND, "example.org", ""])
@pytest.mark.parametrize(
    ("access", "tls"), [(AccessConfig(), False), (AccessConfig(), True), (AccessConfig(FILE), False)]
)
def test_beyond_it_tokens_and_tls_are_both_needed(host, access, tls):
    with pytest.raises(CheckError, match="host must be a loopback address"):
        access.for_address(host, tls=tls)


@pytest.mark.parametrize("host", BEYOND)
@pytest.mark.parametrize(("behind", "tls"), [(False, True), (True, False), (True, True)])
def test_with_both_or_a_proxy_it_listens_there(host, behind, tls):
    access = AccessConfig(FILE, names=("Team.Example.org",), trust_proxy=behind).for_address(host, tls=tls)
    own = {f"[{host}]" if ":" in host else host} - {*WILD, "[::]"}
    assert access.hosts == LOOPBACK_HOSTS | {"team.example.org"} | own
    assert (access.tokens, access.trust_proxy) == (FILE, behind)


@pytest.mark.parametrize("host", ["example.org", "", "localhost.evil.org", "0", "127.1", "0x7f.1", "192.0.2.4 "])
def test_a_name_is_no_address_to_listen_at(host):
    with pytest.raises(CheckError, match="host must be an IP address"):
        AccessConfig(FILE, names=("a.example",)).for_address(host, tls=True)


@pytest.mark.parametrize("host", WILD)
def test_who_listens_everywhere_says_by_which_name(host):
    with pytest.raises(CheckError, match="name must be given"):
        AccessConfig(FILE).for_address(host, tls=True)


@pytest.mark.parametrize("given", [{"names": ("team.example.org",)}, {"trust_proxy": True}])
def test_others_than_this_machines_need_tokens(given):
    with pytest.raises(CheckError, match="tokens must be given"):
        AccessConfig(**given)


@pytest.mark.parametrize(
    "name", ["", "https://a.example", "a.example:80", "a..example", "*", "a b", "a/b", "ä.example", "a" * 254, "[::1"]
)
def test_a_name_is_a_host_alone(name):
    if name == "[::1":  # an address, however it is bracketed
        assert "[::1]" in AccessConfig(FILE, names=(name,)).hosts
        return
    with pytest.raises(CheckError, match="name must be"):
        AccessConfig(FILE, names=(name,))


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), "5", None])
def test_a_rate_is_a_positive_number(rate):
    with pytest.raises(CheckError, match="rate must be"):
        AccessConfig(FILE, rate=rate)


def test_tokens_that_are_not_there_let_no_server_begin(tmp_path):
    with pytest.raises(StorageError, match="cannot be used"):
        create_app(access=AccessConfig(tmp_path / "none.json"))


# --- TLS certificates -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


def self_signed(folder, name="localhost"):
    """A TLS certificate and its key, as files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *formats))
    (folder / "key.pem").chmod(0o600)
    return folder / "cert.pem", folder / "key.pem"


def test_tls_is_modern(certificate):
    context = make_tls_context(*certificate)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.protocol == ssl.PROTOCOL_TLS_SERVER


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o400])
def test_a_key_may_be_read_by_its_owner_and_a_group(certificate, mode):
    certificate[1].chmod(mode)
    make_tls_context(*certificate)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o601])
def test_a_key_that_the_world_can_read_is_refused(certificate, mode):
    certificate[1].chmod(mode)
    try:
        with pytest.raises(CheckError, match="tls_key must be a file that others cannot read"):
            make_tls_context(*certificate)
    finally:
        certificate[1].chmod(0o600)


def test_a_certificate_goes_with_its_key(certificate, tmp_path):
    other, _ = self_signed(tmp_path)
    for wrong in ((other, certificate[1]), (certificate[1], certificate[1])):
        with pytest.raises(CheckError, match="tls_cert must be a TLS certificate and its key"):
            make_tls_context(*wrong)
    with pytest.raises(CheckError, match="tls_cert must be a file that can be read"):
        make_tls_context(tmp_path / "none.pem", certificate[1])


def shown(tls):
    """The certificate that a new connection is shown, in DER, with a server name and without."""
    found = []
    for name in ("localhost", None):
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        ours, theirs = socket.socketpair()
        with ours, theirs, ThreadPoolExecutor(1) as pool:
            accepted = pool.submit(tls.context.wrap_socket, theirs, server_side=True)
            with client.wrap_socket(ours, server_hostname=name) as asked:
                found.append(asked.getpeercert(binary_form=True))
            accepted.result().close()
    return found


def test_a_renewed_certificate_is_shown_and_a_wrong_pair_is_not(tmp_path, caplog):
    def der():
        return ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text())

    tls = TlsCertificate(*self_signed(tmp_path))
    first = der()
    assert shown(tls) == [first, first]
    key = (tmp_path / "key.pem").read_bytes()
    self_signed(tmp_path)
    second = der()
    assert shown(tls) == [first, first]  # nobody has looked yet
    tls.refresh()
    assert shown(tls) == [second, second]
    (tmp_path / "key.pem").write_bytes(key)  # of the first
    for _ in range(3):
        tls.refresh()
    assert caplog.text.count("the TLS certificate was not renewed: tls_cert must be") == 1
    (tmp_path / "key.pem").unlink()
    tls.refresh()
    assert shown(tls) == [second, second]
    self_signed(tmp_path)
    tls.refresh()
    assert shown(tls) == [der()] * 2 != [second] * 2
