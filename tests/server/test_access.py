"""Who may use a server: roles, scopes, addresses, TLS."""

import datetime as dt
import ipaddress
import logging
import math
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from epsilog.server import AccessConfig, create_app, server
from epsilog.server.access import (
    LOCAL_HOLDER,
    LOOPBACK_ADDRESSES,
    LOOPBACK_HOSTS,
    Action,
    Holder,
    Role,
    require_permission,
)
from epsilog.server.server import TlsCertificate, make_tls_context
from epsilog.terms import CheckError, PermissionDeniedError, StorageError

MAY = {  # as the documentation's table has it, by hand
    Role.READER: {"read"},
    Role.SPENDER: {"read", "spend"},
    Role.OWNER: {"read", "spend", "own", "audit"},
    Role.AUDITOR: {"read", "audit"},
}


@pytest.mark.parametrize("role", Role)
def test_a_role_allows_its_acts_at_and_under_its_scope_and_no_others(role):
    anna, everywhere = Holder("anna", role, "acme/claims"), Holder("bob", role)
    for act in Action:
        for holder, scope in [
            *((anna, scope) for scope in ("acme/claims", "acme/claims/2026")),
            *((everywhere, scope) for scope in (None, "acme", "acme/claims")),
        ]:
            if act in MAY[role]:
                require_permission(holder, act, scope)
            else:
                with pytest.raises(PermissionDeniedError, match=f"a {role} may not {act}"):
                    require_permission(holder, act, scope)
        for scope in ("acme", "acme/claims-2", "acme/claim", "other/acme/claims", "", None):
            with pytest.raises(PermissionDeniedError):
                require_permission(anna, act, scope)
    assert (LOCAL_HOLDER.role, LOCAL_HOLDER.scope) == (Role.OWNER, None)


FILE = Path("tokens.json")
WILD = ("0.0.0.0", "::")  # noqa: S104
BEYOND = ("192.0.2.4", "127.0.0.2", "2001:db8::1", *WILD)
TOKENS, NAMED = AccessConfig(FILE), AccessConfig(FILE, names=("Team.Example.org",))
LOOPBACK, ADDRESS, NAME = "host must be a loopback address", "host must be an IP address", "name must be given"


@pytest.mark.parametrize(
    ("hosts", "access", "tls", "says"),
    [
        *(
            ((*BEYOND, "example.org", ""), access, tls, LOOPBACK)
            for access, tls in ((AccessConfig(), False), (AccessConfig(), True), (TOKENS, False))
        ),
        (("example.org", "", "localhost.evil.org", "0", "127.1", "0x7f.1", "192.0.2.4 "), NAMED, True, ADDRESS),
        (WILD, TOKENS, True, NAME),
    ],
)
def test_an_address_beyond_loopback_needs_tokens_tls_and_a_name(hosts, access, tls, says):
    for host in hosts:
        with pytest.raises(CheckError, match=says):
            access.for_address(host, tls=tls)


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_answers_to_loopback_its_names_and_its_address(tls):
    for host in LOOPBACK_ADDRESSES:
        for access in (AccessConfig(), TOKENS):
            assert access.for_address(host, tls=tls).hosts == LOOPBACK_HOSTS
    for host in BEYOND:
        for behind in {True, not tls}:
            access = replace(NAMED, trust_proxy=behind).for_address(host, tls=tls)
            own = {f"[{host}]" if ":" in host else host} - {*WILD, "[::]"}
            assert access.hosts == LOOPBACK_HOSTS | {"team.example.org"} | own
            assert (access.tokens, access.trust_proxy) == (FILE, behind)
    assert "[::1]" in AccessConfig(FILE, names=("[::1",)).hosts  # an address, however it is bracketed


NO_NAMES = ("", "https://a.example", "a.example:80", "a..example", "*", "a b", "a/b", "ä.example", "a" * 254)


def test_tokens_of_other_issuers_serve_as_well():
    access = AccessConfig(identity=FILE, names=("team.example.org",))
    for host in BEYOND:
        assert "team.example.org" in access.for_address(host, tls=True).hosts
        with pytest.raises(CheckError, match="host must be a loopback address"):
            access.for_address(host, tls=False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"names": ("team.example.org",)}, "tokens must be given"),
        ({"trust_proxy": True}, "tokens must be given"),
        *(({"tokens": FILE, "names": (name,)}, "name must be") for name in NO_NAMES),
        *(({"tokens": FILE, "rate": rate}, "rate must be") for rate in (0, -1, math.nan, math.inf, "5", None)),
    ],
)
def test_a_configuration_that_is_unsafe_or_none_is_refused(given, says):
    with pytest.raises(CheckError, match=says):
        AccessConfig(**given)


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


def test_a_key_may_be_read_by_its_owner_and_a_group_and_nobody_else(certificate):
    for mode in (0o640, 0o400, 0o600):
        certificate[1].chmod(mode)
        context = make_tls_context(*certificate)
    assert (context.minimum_version, context.protocol) == (ssl.TLSVersion.TLSv1_2, ssl.PROTOCOL_TLS_SERVER)
    for mode in (0o644, 0o604, 0o620, 0o601):
        certificate[1].chmod(mode)
        with pytest.raises(CheckError, match="tls_key must be a file that others cannot read"):
            make_tls_context(*certificate)
    certificate[1].chmod(0o600)


def test_a_certificate_goes_with_its_key(certificate, tmp_path):
    other, _ = self_signed(tmp_path)
    for wrong in ((other, certificate[1]), (certificate[1], certificate[1])):
        with pytest.raises(CheckError, match="tls_cert must be a TLS certificate and its key"):
            make_tls_context(*wrong)
    with pytest.raises(CheckError, match="tls_cert must be a file that can be read"):
        make_tls_context(tmp_path / "none.pem", certificate[1])


def shown(tls_certificate):
    """The certificate that a new connection is shown, in DER, with a server name and without."""
    found = []
    for name in ("localhost", None):
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        ours, theirs = socket.socketpair()
        with ours, theirs, ThreadPoolExecutor(1) as pool:
            accepted = pool.submit(tls_certificate.context.wrap_socket, theirs, server_side=True)
            with client.wrap_socket(ours, server_hostname=name) as asked:
                found.append(asked.getpeercert(binary_form=True))
            accepted.result().close()
    return found


@pytest.mark.slow
def test_a_renewed_certificate_is_shown_and_a_wrong_pair_is_not(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(
        server, "_LOG", logging.getLogger("renewed")
    )  # servers of other tests silence the logger itself

    def der():
        return ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text())

    renewed = TlsCertificate(*self_signed(tmp_path))
    first = der()
    assert shown(renewed) == [first, first]
    key = (tmp_path / "key.pem").read_bytes()
    self_signed(tmp_path)
    second = der()
    assert shown(renewed) == [first, first]  # nobody has looked yet
    renewed.refresh()
    assert shown(renewed) == [second, second]
    (tmp_path / "key.pem").write_bytes(key)  # of the first
    for _ in range(3):
        renewed.refresh()
    assert caplog.text.count("the TLS certificate was not renewed: tls_cert must be") == 1
    (tmp_path / "key.pem").unlink()
    renewed.refresh()
    assert shown(renewed) == [second, second]
    self_signed(tmp_path)
    renewed.refresh()
    assert shown(renewed) == [der()] * 2 != [second] * 2
