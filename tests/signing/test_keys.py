"""Keys: published ones are read, private ones stay private, and what is not a key is refused."""

import base64
import re
import subprocess
import sys
from importlib import import_module

import pytest

from epsilog.signing import SigningKey, VerifierKey, keys
from epsilog.terms import CheckError, EpsilogError
from epsilog.terms.extras import install_command

# golang.org/x/mod/sumdb/note, package documentation; the key of Go's public checksum database
PUBLISHED = [
    "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8",
]
SAID = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
MADE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="


@pytest.mark.parametrize("line", PUBLISHED)
def test_a_published_key_is_read_and_written_again(line):
    key = VerifierKey.parse(f"{line}\n")
    assert str(key) == line
    assert key.label == line.rsplit("+", 1)[0] or line.startswith(key.label + "+")


def test_a_published_signature_is_one():
    pytest.importorskip("cryptography")
    key, made = VerifierKey.parse(PUBLISHED[0]), base64.b64decode(MADE)
    assert made[:4] == key.key_id
    assert key.verifies(made[4:], SAID.encode())
    assert not key.verifies(made[4:], SAID.encode() + b"\n")
    assert not key.verifies(made[4:][:-1], SAID.encode())
    assert not key.verifies(b"", SAID.encode())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "name",
        "name+00000000",
        PUBLISHED[0].replace("c74f20a3", "c74f20a4"),
        PUBLISHED[0].replace("c74f20a3", "C74F20A3"),
        PUBLISHED[0].replace("PeterNeumann", "PeterNeuman"),
        PUBLISHED[0].replace("ARpc", "Arpc"),  # another kind of key
        PUBLISHED[0][:-4],
        PUBLISHED[0] + "AAAA",
        PUBLISHED[0].replace("PeterNeumann", "Peter Neumann"),
        "é+" + PUBLISHED[0].partition("+")[2],
    ],
)
def test_what_is_no_key_is_refused(line):
    with pytest.raises(CheckError):
        VerifierKey.parse(line)


def test_a_private_key_is_kept_and_read_again(key, tmp_path):
    path = tmp_path / "key.pem"
    key.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    again = SigningKey.load(path)
    assert again.verifier == key.verifier
    assert again.verifier.verifies(again.sign(b"said"), b"said")
    with pytest.raises(CheckError, match="output must be a file that does not exist yet"):
        key.save(path)
    for shown in (repr(again), str(again)):
        assert shown == f"SigningKey({key.verifier.label})"


def test_a_passphrase_is_needed_once_it_is_set(key, tmp_path):
    path = tmp_path / "key.pem"
    key.save(path, passphrase="long enough")  # noqa: S106
    assert b"ENCRYPTED" in path.read_bytes()
    assert SigningKey.load(path, passphrase=lambda: "long enough").verifier == key.verifier
    for passphrase in (None, lambda: "wrong", lambda: ""):
        with pytest.raises(CheckError, match="passphrase"):
            SigningKey.load(path, passphrase=passphrase)
    with pytest.raises(CheckError, match="passphrase"):
        key.save(tmp_path / "empty.pem", passphrase="")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "can be read"),
        (lambda path: path.chmod(0o640), "others cannot read"),
        (lambda path: path.chmod(0o604), "others cannot read"),
        (lambda path: path.write_bytes(path.read_bytes().partition(b"\n")[2]), "below a line 'Name: "),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"Name: ", b"Name: a b")), "name must be"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"\nM", b"\nN")), "in PEM"),
        (lambda path: path.write_bytes(b""), "below a line"),
    ],
)
def test_a_file_that_is_no_private_key_is_refused(key, tmp_path, change, why):
    path = tmp_path / "key.pem"
    key.save(path)
    change(path)
    with pytest.raises(CheckError, match=why):
        SigningKey.load(path)


def test_a_key_of_another_kind_is_refused(tmp_path):
    pytest.importorskip("cryptography")
    formats = import_module("cryptography.hazmat.primitives.serialization")
    curve = import_module("cryptography.hazmat.primitives.asymmetric.ec")
    private = curve.generate_private_key(curve.SECP256R1())
    pem = private.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    (tmp_path / "key.pem").write_bytes(b"Name: example.org\n" + pem)
    (tmp_path / "key.pem").chmod(0o600)
    with pytest.raises(CheckError, match="an Ed25519 private key"):
        SigningKey.load(tmp_path / "key.pem")


def test_other_tools_read_the_public_key(key):
    formats = import_module("cryptography.hazmat.primitives.serialization")
    loaded = formats.load_pem_public_key(key.verifier.pem().encode())
    assert loaded.public_bytes_raw() == key.verifier.public


@pytest.mark.parametrize("name", ["", "a b", "a+b", "é", "a\nb", 3])
def test_a_name_is_one_word_of_ascii(name):
    with pytest.raises(CheckError, match="name must be printable ASCII"):
        SigningKey.create(name)


def test_without_the_library_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for name in [name for name in sys.modules if name.startswith("cryptography.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(EpsilogError, match=re.escape(install_command("sign"))):
        SigningKey.create("example.org")
    with pytest.raises(EpsilogError, match=re.escape(install_command("sign"))):
        VerifierKey.parse(PUBLISHED[0]).verifies(b"", b"")
    assert keys.decode_base64("AAAA", what="x") == b"\x00\x00\x00"


@pytest.mark.slow
def test_importing_brings_no_library_that_signs():
    code = "import sys, epsilog.signing, epsilog.ledger; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
