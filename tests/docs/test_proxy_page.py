"""The snippets of the how-to for client certificates: they name what the server reads, and real proxies take them."""

import hashlib
import re
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from tests.server.conftest import filled, serving
from tests.server.test_access import self_signed
from tests.server.test_client_certificates import ANNA, BOT, CA, NEW_BOT, SECRET, make

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.server import AccessConfig, create_app
from epsilog.server.client_certificates import _HEADERS
from epsilog.server.identity_config import parse_identity
from epsilog.terms import EpsilogError, PermissionDeniedError

PAGE = (Path(__file__).parents[2] / "docs/how-to/share-a-ledger.md").read_text()
SECTION = PAGE[PAGE.index("## Sign in with client certificates") : PAGE.index("## Run the server permanently")]
TOML, NGINX, CADDY = (
    re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)[1] for language in ("toml", "nginx", "text")
)


def fill_identity():
    """The page's identity file with real certificates."""
    content = TOML.replace('"8f6e0d1c..."', f'"{hashlib.sha256(SECRET.encode()).hexdigest()}"')
    content = content.replace('"93:9A:33:..."', f'"{BOT.sha256}"').replace('"5b7c02..."', f'"{NEW_BOT.sha256}"')
    return re.sub(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", CA.pem, content, flags=re.DOTALL)


def test_the_identity_file_of_the_page_is_one():
    found = parse_identity(fill_identity().encode(), "identity.toml")
    holders = [one.holder for one in (*found.certificates, *found.authorities[0].holders)]
    assert [(one.name, one.role.value, one.scope) for one in holders] == [
        ("certificate://nightly job", "spender", "acme/claims"),
        ("certificate://anna", "owner", "acme"),
    ]


@pytest.mark.parametrize("snippet", [NGINX, CADDY], ids=["nginx", "caddy"])
def test_a_snippet_sets_the_headers_that_the_server_reads(snippet):
    found = set(re.findall(r"(?:proxy_set_header|header_up) (\S+)", snippet))
    assert {name.lower().encode() for name in found} & _HEADERS == {b"client-cert", b"epsilog-proxy-secret"}


def configure(name, folder, port, upstream):
    """Write the page's snippet as a whole configuration; returns the command that runs it."""
    certificate, key = self_signed(folder)
    (folder / "research-ca.pem").write_text(CA.pem)
    snippet = NGINX if name == "nginx" else CADDY
    snippet = re.sub(r"0123\.\.\.", SECRET, snippet).replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    snippet = re.sub(r"/etc/(nginx|caddy)", str(folder), snippet)
    path = folder / name
    if name == "nginx":
        places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{one}_temp_path {folder}/{one};" for one in places)
        path.write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
            f"http {{ access_log off; {temporary}\nserver {{ listen 127.0.0.1:{port} ssl; server_name localhost;\n"
            f"ssl_certificate {certificate}; ssl_certificate_key {key};\n{snippet}}} }}\n"
        )
        return ["-c", path, "-p", folder], certificate
    snippet = snippet.replace("ledger.example {", f"https://localhost:{port} {{").replace(
        "tls {", f"tls {certificate} {key} {{"
    )
    path.write_text(f"{{\n\tauto_https off\n\tadmin off\n}}\n{snippet}")
    return ["run", "--config", path, "--adapter", "caddyfile"], certificate


def answers(port):
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_a_real_proxy_takes_the_snippet(tmp_path, monkeypatch, name):
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is absent")
    for holder, made in (("anna", ANNA), ("eve", make("eve", CA)), ("stranger", make("anna"))):
        secret = made.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (tmp_path / f"{holder}.pem").write_text(made.pem + secret.decode())
    identity = tmp_path / "identity.toml"
    identity.write_text(fill_identity())
    identity.chmod(0o600)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    app = create_app(ledger=str(filled(tmp_path / "l.db")), access=AccessConfig(identity=identity, trust_proxy=True))
    with serving(app) as site:
        words, trusted = configure(name, tmp_path, port, site.port)
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        proxy = subprocess.Popen([program, *map(str, words)], env={"HOME": str(tmp_path)}, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 60
            while not answers(port):
                assert time.monotonic() < until
                assert proxy.poll() is None
                time.sleep(0.05)
            address = f"https://localhost:{port}"
            monkeypatch.setenv("EPSILOG_CLIENT_CERT", str(tmp_path / "anna.pem"))
            with open_ledger(address) as ledger:
                ledger.charge("acme/claims", PureDP(0.125), key="k")
            monkeypatch.setenv("EPSILOG_CLIENT_CERT", str(tmp_path / "eve.pem"))
            with open_ledger(address) as ledger, pytest.raises(PermissionDeniedError, match="no holder 'CN=eve"):
                ledger.charge("acme/claims", PureDP(0.125), key="k2")
            monkeypatch.setenv("EPSILOG_CLIENT_CERT", str(tmp_path / "stranger.pem"))
            with open_ledger(address) as ledger, pytest.raises((EpsilogError, ssl.SSLError)):
                ledger.charge("acme/claims", PureDP(0.125), key="k3")
        finally:
            proxy.terminate()
            proxy.wait(60)
