"""Keys, signatures, checkpoints, bundles and receipts, as an owner makes them and an auditor checks them."""

import json
import shutil

import pytest
from tests.reports.drawn import finish, make_plan
from typer.testing import CliRunner

from epsilog.cli import show, signing
from epsilog.cli.app import load
from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.signing import SUFFIX, SigningKey, VerifierKey
from epsilog.terms import CheckError, EpsilogError, LedgerIntegrityError, codec

pytest.importorskip("cryptography")

app = load()


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setattr(show.console(), "_width", 300)


def invoke(*words, **given):
    return CliRunner().invoke(app, [str(word) for word in words], **given)


def text_of(*words, **given):
    done = invoke(*words, **given)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words, **given):
    done = invoke(*words, **given)
    assert done.exit_code != 0
    return done.exception


def verified(*words):
    done = invoke("verify", *words, "--json")
    return done.exit_code, {one["code"] for one in json.loads(done.stdout)["findings"]}


@pytest.fixture
def at(tmp_path, monkeypatch):
    """A folder with a key, its public line, and a ledger."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.pub").write_text(text_of("key", "create", "example.org/privacy", "-o", "k.pem"))
    with open_ledger(tmp_path / "l.db") as books:
        books.create_budget("acme", kind="pure", epsilon="2")
        books.charge("acme/anna", PureDP(0.25), key="q-1")
    return tmp_path


def grow(name="q-2"):
    with open_ledger("l.db") as books:
        books.charge("acme/anna", PureDP(0.25), key=name)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_made_once_and_shows_its_public_half_alone(at):
    line = (at / "k.pub").read_text()
    assert VerifierKey.parse(line).name == "example.org/privacy"
    assert (at / "k.pem").stat().st_mode & 0o777 == 0o600
    assert text_of("key", "show", "k.pem") == line
    assert text_of("key", "show", "k.pem", "--pem") == VerifierKey.parse(line).pem()
    assert json.loads(text_of("key", "show", "k.pem", "--json"))["key"] == line.strip()
    written = json.loads(text_of("ledger", "checkpoint", "-l", "l.db", "--one-line", "-o", "c.txt", "--json"))
    assert f"{written['line']}\n" == (at / "c.txt").read_text()
    private = (at / "k.pem").read_text().split("\n")[2]
    wrong = (("--key", "k.pem"), ("--checkpoint", "k.pem"), ("--ledger", "k.pem"))
    given = [("key", "show", "k.pem"), ("key", "show", "k.pem", "--pem"), ("verify", "k.pem")]
    (at / "r.json").write_text('{"kind": "report"}')
    for words in (*given, *(("verify", "l.db", *one) for one in wrong), ("verify", "r.json", "--signature", "k.pem")):
        done = invoke(*words)
        assert private not in done.output + str(done.exception), words
    assert "a file that does not exist yet" in str(refused("key", "create", "example.org", "-o", "k.pem"))
    assert "name must be printable" in str(refused("key", "create", "two words", "-o", "k2.pem"))
    assert not (at / "k2.pem").exists()


def test_a_passphrase_comes_from_the_environment_or_a_prompt(at, monkeypatch):
    made = invoke("key", "create", "a", "-o", "p.pem", "--passphrase", input="secret\nsecret\n")
    assert made.exit_code == 0
    assert b"ENCRYPTED" in (at / "p.pem").read_bytes()
    assert VerifierKey.parse(text_of("key", "show", "p.pem", input="secret\n")).name == "a"
    assert isinstance(refused("key", "show", "p.pem", input="wrong\n"), CheckError)
    monkeypatch.setenv(signing.PASSPHRASE, "secret")
    assert VerifierKey.parse(text_of("key", "show", "p.pem")).name == "a"
    text_of("key", "create", "b", "-o", "q.pem", "--passphrase")
    monkeypatch.setenv(signing.PASSPHRASE, "other")
    assert isinstance(refused("key", "show", "q.pem"), CheckError)


def test_without_the_extra_everything_else_works(at, monkeypatch):
    text_of("ledger", "bundle", "-l", "l.db", "--sign", "k.pem", "-o", "l.bundle")

    def missing(part):
        raise EpsilogError("signatures need the extra `sign`: pip install 'cryptography>=43'")

    monkeypatch.setattr("epsilog.signing.keys._load_cryptography", missing)
    assert text_of("ledger", "checkpoint", "-l", "l.db").startswith("localhost/ledger\n2\n")
    text_of("ledger", "bundle", "-l", "l.db", "-o", "unsigned.bundle")
    assert verified("unsigned.bundle", "--require", "ledger")[0] == 0
    assert verified("l.bundle") == (5, {"ledger/passed", "costs/passed", "signature/not-checked"})
    for words in (
        ("key", "create", "x", "-o", "x.pem"),
        ("ledger", "checkpoint", "-l", "l.db", "--sign", "k.pem"),
        ("sign", "l.db", "--key", "k.pem"),
        ("verify", "l.bundle", "--key", "k.pub"),
    ):
        assert "cryptography" in str(refused(*words)), words


# --- what leaves a ledger ---------------------------------------------------------------------------------------------


def test_a_checkpoint_goes_out_and_catches_what_changes(at):
    (at / "mail.txt").write_text(
        "Kept:\n\n> " + text_of("ledger", "checkpoint", "-l", "l.db", "--sign", "k.pem", "--one-line")
    )
    grow()
    shown = text_of("ledger", "checkpoint", "-l", "l.db", "--since", "mail.txt", "--sign", "k.pem")
    assert shown.startswith("old 2\n")
    assert "\nexample.org/privacy\n3\n" in shown
    renamed = refused(
        "ledger", "checkpoint", "-l", "l.db", "--since", "mail.txt", "--origin", "acme", "--sign", "k.pem"
    )
    assert "since must be a checkpoint of acme" in str(renamed)
    text_of("ledger", "checkpoint", "-l", "l.db", "--since", "mail.txt", "--sign", "k.pem", "-o", "new.txt")
    key = ("--key", at / "k.pub")
    assert verified("new.txt", "--checkpoint", "mail.txt", *key) == (0, {"consistency/passed", "signature/passed"})
    assert verified("l.db", "--checkpoint", "mail.txt")[0] == 0
    assert verified("new.txt", "-l", "l.db", *key)[0] == 0
    assert verified("new.txt")[0] == 5
    shutil.copyfile("l.db", "kept.db")
    document = json.loads(text_of("ledger", "checkpoint", "-l", "l.db", "--json"))
    assert document["signed_by"] is None
    assert document["line"].startswith("epsilog-note localhost/ledger 3 ")
    (at / "l.db").unlink()
    with open_ledger(at / "l.db") as books:
        books.create_budget("acme", kind="pure", epsilon="2")
    assert verified("l.db", "--checkpoint", "mail.txt")[0] == 4
    for name in ("q-1", "q-2"):
        grow(name)
    code, found = verified("l.db", "--checkpoint", "mail.txt")
    assert (code, "checkpoint/rewritten" in found) == (4, True)
    error = refused("ledger", "checkpoint", "-l", "l.db", "--since", "mail.txt", "--sign", "k.pem")
    assert "does not begin" in str(error)
    assert "absent with --since" in str(
        refused("ledger", "checkpoint", "-l", "l.db", "--since", "mail.txt", "--one-line")
    )


def test_a_bundle_stands_for_its_ledger(at):
    out = text_of("ledger", "bundle", "-l", "l.db", "--sign", "k.pem", "-o", "l.bundle")
    assert out.startswith("wrote l.bundle: 2 entries, signed by example.org/privacy+")
    line = (at / "k.pub").read_text().strip()
    assert verified("l.bundle", "--key", line) == (0, {"ledger/passed", "costs/passed", "signature/passed"})
    assert verified("l.bundle")[0] == 5
    assert verified("l.bundle", "--require", "ledger")[0] == 0
    assert verified("l.bundle", "--require", "ledger", "--key", SigningKey.create("b").verifier)[0] == 4
    document = json.loads(text_of("ledger", "bundle", "-l", "l.db", "-o", "u.bundle", "--json"))
    assert (document["signed_by"], document["file"]) == (None, "u.bundle")
    assert verified("u.bundle", "--require", "ledger", "--key", line) == (
        5,
        {"ledger/passed", "costs/passed", "signature/missing"},
    )
    content = (at / "l.bundle").read_bytes()
    (at / "l.bundle").write_bytes(content.replace(b'"0.25"', b'"0.35"', 1))
    code, found = verified("l.bundle", "--key", line)
    assert (code, "ledger/invalid" in found) == (4, True)
    for words in (("-l", "l.db"), ("--signature", "x")):
        assert "absent for a bundle" in str(refused("verify", "u.bundle", *words))
    assert "a ledger file that exists" in str(refused("ledger", "bundle", "-l", "no.db", "-o", "x"))


def test_a_receipt_is_one_line(at):
    text_of("ledger", "receipt", "q-1", "-l", "l.db", "--sign", "k.pem", "-o", "r.txt")
    assert (at / "r.txt").read_text().count("\n") == 1
    assert text_of("ledger", "receipt", "q-1", "-l", "l.db", "--sign", "k.pem") == (at / "r.txt").read_text()
    assert verified("r.txt", "--key", at / "k.pub") == (0, {"receipt/passed", "signature/passed"})
    assert verified("r.txt")[0] == 5
    grow()
    assert verified("r.txt", "--key", at / "k.pub", "-l", "l.db")[0] == 0
    assert "the key of a charge" in str(refused("ledger", "receipt", "q-9", "-l", "l.db", "--sign", "k.pem"))


def test_a_ledger_that_does_not_hold_is_not_signed(at):
    from epsilog.ledger.sqlite import SqliteStore

    store = SqliteStore(at / "l.db")
    with store.writing() as session:
        session._raw.execute("UPDATE charges SET scope = 'acme/berta'")
    store.close()
    for words in (("checkpoint",), ("bundle", "-o", "l.bundle"), ("receipt", "q-1")):
        assert isinstance(refused("ledger", *words, "-l", "l.db", "--sign", "k.pem"), LedgerIntegrityError)
    assert not [path.name for path in at.iterdir() if "bundle" in path.name]


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed") / "run"
    finish(folder, folder.parent / "ledger.db", make_plan())
    return folder


@pytest.mark.slow
def test_a_report_is_signed_and_its_reader_knows_by_whom(at, original):
    run = shutil.copytree(original, at / "run")
    shutil.copyfile(original.parent / "ledger.db", at / "ledger.db")
    public = ("-l", at / "ledger.db", "--require", "report", "--require", "ledger")
    other = SigningKey.create("example.org/other")
    other.save(at / "other.pem")
    for name in ("report.html", "report.json"):
        assert verified(run / name, *public)[0] == 0
        assert verified(run / name, *public, "--key", "k.pub")[0] == 5  # asked for, and not there
        assert "wrote" in text_of("sign", run / name, "--key", "k.pem")
        assert verified(run / name, *public)[0] == 0
        assert verified(run / name, *public, "--require", "signature")[0] == 5
        code, found = verified(run / name, *public, "--key", "k.pub")
        assert (code, "signature/passed" in found) == (0, True)
        assert verified(run / name, *public, "--key", other.verifier)[0] == 4
        text_of("sign", run / name, "--key", "other.pem")
        assert verified(run / name, *public, "--key", other.verifier)[0] == 0
    assert verified(run, "--key", "k.pub")[0] == 0  # the folder, and its custody beside it
    moved = shutil.move(run / f"report.json{SUFFIX}", at / "kept.jsonl")
    assert verified(run / "report.json", *public, "--key", "k.pub")[0] == 5
    assert verified(run / "report.json", *public, "--key", "k.pub", "--signature", moved)[0] == 0
    assert verified(run / "report.html", *public, "--key", "k.pub", "--signature", moved)[0] == 4
    spaced = codec.encode_canonical(codec.parse_json((run / "report.json").read_bytes())).replace(b'{"', b'{ "', 1)
    (run / "report.json").write_bytes(spaced)  # the same document, and not the file that was signed
    code, found = verified(run / "report.json", *public, "--key", "k.pub", "--signature", moved)
    assert (code, {"signature/file-mismatch", "report/passed"} <= found) == (4, True)
