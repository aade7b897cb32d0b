"""The published commitment to custody records hides them, binds them, and can be opened with the key."""

import contextlib
import hashlib
import hmac
import json
import re
import stat
from dataclasses import replace

import pytest
from tests.reports.drawn import drawn, finish, lines, make_plan, train

from epsilog.ledger import open_ledger, read_ledger
from epsilog.mechanisms import PureDP
from epsilog.pipeline import steps
from epsilog.reports import verify_run
from epsilog.terms import CheckError, CustodyRecord, RecordError, codec
from epsilog.terms.disclosed import Commitment, CommitmentKey, Public, Released, disclose, same_digest
from epsilog.verification import LedgerReader, read_run_folder

PUBLISHED = ("plan.json", "rounds.jsonl", "owner.json", "report.json", "report.html")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run in which one row of a participant of the second round is unusable; and its true custody."""
    plan = make_plan()
    public, private = drawn(plan.scheme, 1)
    private[1] = replace(private[1], unusable_rows=1)
    folder = tmp_path_factory.mktemp("committed") / "run"
    finish(folder, folder.parent / "ledger.db", plan, records=(public, private))
    return folder, private


def published(folder):
    """Every byte that a run publishes: its public files, and the entries of its ledger."""
    with read_ledger(folder.parent / "ledger.db") as books:
        entries = [entry.document().encode() for entry in books.history()]
    return b"\n".join([*((folder / name).read_bytes() for name in PUBLISHED), *entries])


def candidates(private):
    """The guesses of an attacker who knows all records except the round of an unusable row."""
    for place in range(len(private)):
        for count in range(3):
            yield place, [replace(one, unusable_rows=count if i == place else 0) for i, one in enumerate(private)]


def test_no_published_digest_confirms_a_guess_of_custody_records(run):
    folder, private = run
    digests = set(re.findall(rb"[0-9a-f]{64}", published(folder)))
    guesses = {hashlib.sha256(lines(guess)).hexdigest().encode(): place for place, guess in candidates(private)}
    assert not digests & set(guesses), "an unsalted hash of custody.jsonl is published: a guess of it can be checked"
    found = hashlib.sha256((folder / "owner.json").read_bytes()).hexdigest().encode()
    assert found in digests  # the same search finds a file whose plain hash is published
    planted = digests | {hashlib.sha256((folder / "custody.jsonl").read_bytes()).hexdigest().encode()}
    assert {guesses[one] for one in planted & set(guesses)} == {1}  # the old commit revealed the round


def verdicts(folder, files):
    found = verify_run(files, LedgerReader.read(folder.parent / "ledger.db"))
    return {one.code: one.status for one in found.findings}, found.status


def test_the_commitment_key_is_stored_for_the_curator_alone(run):
    folder, _ = run
    key = folder / "custody.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert re.fullmatch(rb"[0-9a-f]{64}\n", key.read_bytes())
    assert key.read_bytes().strip() not in published(folder)


@pytest.mark.slow
def test_whoever_holds_the_key_checks_the_records_and_nobody_else_needs_it(run):
    folder, private = run
    files = read_run_folder(folder)
    commitment = json.loads(files["report.json"])["evidence"]["files"]["custody.commitment"]
    secret = bytes.fromhex(files["custody.key"].decode())
    assert commitment == hmac.new(secret, files["custody.jsonl"], "sha256").hexdigest()
    found, verdict = verdicts(folder, files)
    assert (found["files/passed"], found["custody/passed"], verdict) == ("passed", "passed", "passed")
    other = lines([*private[:2], replace(private[2], unusable_rows=1), private[3]])
    assert verdicts(folder, files | {"custody.jsonl": other})[0]["files/mismatch"] == "failed"
    assert verdicts(folder, files | {"custody.key": b"0" * 64 + b"\n"})[0]["files/mismatch"] == "failed"
    bare = {name: content for name, content in files.items() if name not in ("custody.jsonl", "custody.key")}
    without, verdict = verdicts(folder, bare)
    assert without["files/passed"] == "passed"
    assert (without["custody/missing"], verdict) == ("failed", "failed")


def test_custody_records_without_their_key_fail(run):
    folder, _ = run
    files = {name: content for name, content in read_run_folder(folder).items() if name != "custody.key"}
    found, verdict = verdicts(folder, files)
    assert (found["files/no-key"], verdict) == ("failed", "failed")


@pytest.mark.parametrize(
    "content", [b"", b"ab" * 32, b"AB" * 32 + b"\n", b"ab" * 31 + b"\n", b"ab" * 32 + b"\n\n", b"\xff"]
)
def test_an_invalid_key_is_refused_and_not_quoted(run, content):
    folder, _ = run
    with pytest.raises(
        RecordError, match=r"custody\.key cannot be read: key must be 64 hex digits and a newline"
    ) as told:
        verify_run(read_run_folder(folder) | {"custody.key": content}, None)
    assert "abab" not in str(told.value)


@pytest.mark.slow
def test_each_run_draws_one_key_and_keeps_it_after_a_crash(tmp_path, monkeypatch):
    keys = set()
    for name in ("one", "two"):
        folder = tmp_path / name / "run"
        with monkeypatch.context() as broken:
            broken.setattr(steps, "disclose", killed)
            with pytest.raises(OSError, match="killed"):
                train(folder, folder.parent / "ledger.db", make_plan())
        kept = (folder / "custody.key").read_bytes()
        with steps_of(folder) as charge:
            steps.commit_charge(charge, folder, None)
            assert charge.state == "committed"
        assert (folder / "custody.key").read_bytes() == kept
        keys.add(kept)
    assert len(keys) == 2  # though both runs are simulations of one seed


@contextlib.contextmanager
def steps_of(folder):
    """The charge of a run that is there."""
    with open_ledger(folder.parent / "ledger.db") as books:
        (key,) = {entry.key for entry in books.history()} - {None}
        yield books.find(key)


def killed(_):
    raise OSError("killed")


def test_only_what_may_leave_is_committed():
    secret, key = b"7 participants", CommitmentKey(b"k" * 32)
    given = {"a": Public.of(b"a"), "b": Released.of(b"b"), "c": Commitment.to(secret, key)}
    assert disclose(given) == {name: str(digest) for name, digest in given.items()}
    assert {type(one) for one in disclose(given).values()} == {str}
    plain = hashlib.sha256(secret).hexdigest()
    with pytest.raises(TypeError, match=r"d must be Public, Released or a Commitment to leave, got str"):
        disclose(given | {"d": plain})
    assert same_digest(plain, plain)
    assert not same_digest(plain, given["c"])
    assert not same_digest(None, None)


def test_a_key_file_is_read_as_it_was_written_and_nothing_else_is():
    for secret in (b"k" * 32, bytes(range(32)), bytes(32)):
        written = CommitmentKey(secret).content
        assert CommitmentKey.parse(written).secret == secret
        for other in (written[:-1], written[1:], written + b"\n", b"0" + written, written.replace(b"\n", b"g"), b""):
            with pytest.raises(CheckError, match="64 hex digits"):
                CommitmentKey.parse(other)


@pytest.mark.parametrize(
    "private", [CustodyRecord(1, (3, 5), 0.25, 0.5), CommitmentKey(b"k" * 32)], ids=lambda one: type(one).__name__
)
def test_private_values_have_no_text_json_or_hash(private):
    for leak in (
        str,
        hash,
        "{}".format,
        "%s".__mod__,
        json.dumps,
        codec.encode,
        codec.to_json,
        codec.encode_canonical,
        codec.hash_canonical,
    ):
        with pytest.raises((TypeError, ValueError)):
            leak(private)
    for nested in ([private], {"a": private}, (private,)):
        with pytest.raises((TypeError, ValueError)):
            codec.encode_canonical(codec.encode(nested))
    assert repr(private) == f"{type(private).__name__}(private)"


def test_no_commit_names_a_private_file_of_a_run(run):
    folder, _ = run
    digest = hashlib.sha256((folder / "custody.jsonl").read_bytes()).hexdigest()
    with open_ledger(folder.parent / "other.db") as books:
        books.create_budget("acme", kind="pure", epsilon="1")
        charge = books.reserve("acme", PureDP(0.5), key="one")
        charge.start()
        for name in ("custody.jsonl", "custody.key", "canaries.secret"):
            with pytest.raises(CheckError, match=f"evidence must be of public files .*, got {name}"):
                charge.commit({"model": "a" * 64, name: digest})
        charge.commit({"model": "a" * 64, "custody.commitment": digest})
