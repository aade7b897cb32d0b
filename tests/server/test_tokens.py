"""The file of tokens: what it keeps, who may read it, and when it is not believed."""

import datetime as dt
import errno
import json
import logging
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import argon2
import pytest

from epsilog.server import tokens
from epsilog.server.authorization import Holder, Role
from epsilog.server.tokens import TOKEN_PATTERN, TokenStore
from epsilog.terms import CheckError, ConflictError, StorageError

TOMORROW = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)


@pytest.fixture(autouse=True)
def _cheap(monkeypatch):
    monkeypatch.setattr(tokens, "_COST", {"time_cost": 1, "memory_cost": 8, "parallelism": 1})


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tokens.json"


def made(file, name="anna", role="spender", scope="acme/claims", **more):
    return tokens.create_token(file, name, role=role, scope=scope, **more)


def good(keys, text):
    """As the doorkeeper asks."""
    token = keys.find(text)
    if token is None:
        return False
    return keys.is_known(token, text) or (keys.verify(token, text) and keys.remember(token, text))


def test_a_token_is_long_random_and_kept_nowhere(file):
    found = [made(file, f"holder-{at}")[1] for at in range(20)]
    assert all(TOKEN_PATTERN.fullmatch(text) for text in found)
    ids, secrets = {text.split("_", 2)[1] for text in found}, {text.split("_", 2)[2] for text in found}
    assert (len(ids), len(secrets), {len(secret) for secret in secrets}) == (20, 20, {43})
    kept = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert not any(secret.encode() in kept for secret in secrets)
    hashes = [row["hash"] for row in json.loads(file.read_text())["tokens"]]
    assert len(set(hashes)) == 20
    assert all(re.match(r"\$argon2id\$v=19\$", each) for each in hashes)


def test_the_hash_costs_what_it_should(file, monkeypatch):
    monkeypatch.undo()
    made(file)
    (row,) = json.loads(file.read_text())["tokens"]
    memory, passes = (int(re.search(rf"[$,]{letter}=(\d+)", row["hash"])[1]) for letter in "mt")
    assert memory * passes >= 19 * 1024 * 2  # KiB: the least that OWASP's password storage cheat sheet has for argon2id


def test_what_it_keeps_comes_back_and_shows_no_hash(file):
    first, _ = made(file, expires=TOMORROW)
    second, _ = made(file, "bob", "auditor", None)
    assert tokens.read_tokens(file) == [first, second]
    assert first.holder == Holder("anna", Role.SPENDER, "acme/claims")
    assert second.holder == Holder("bob", Role.AUDITOR, None)
    for token in (first, second):
        for shown in (repr(token), str(token), json.dumps(token.to_json())):
            assert "argon2" not in shown
            assert token.hash not in shown


def test_nobody_else_can_read_what_is_written(file):
    for at, umask in enumerate((0o000, 0o022, 0o077)):
        before = os.umask(umask)
        try:
            made(file, f"holder-{at}")
            tokens.revoke_token(file, f"holder-{at}")
        finally:
            os.umask(before)
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
        assert modes == {"tokens.json": 0o600, "tokens.json.lock": 0o600}
        file.unlink()
        file.with_name("tokens.json.lock").unlink()


PAST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
NO_NAMES = ("", " anna", "an\nna", "a" * 101, "a\u0308nna", "eps_0123456789abcdef_secret")
BAD = [
    *(("name", name) for name in NO_NAMES),
    *(("role", role) for role in ("king", "Owner")),
    *(("scope", scope) for scope in ("", "acme//claims", "acme/", "../acme")),
    ("expires", PAST),
]


@pytest.mark.parametrize(("field", "value"), BAD, ids=str)
def test_bad_values_are_refused_and_make_no_file(file, field, value):
    with pytest.raises(CheckError) as refusal:
        made(file, **{field: value})
    assert refusal.value.field == field
    assert "secret" not in str(refusal.value)
    with pytest.raises(StorageError, match="cannot be opened"):
        tokens.revoke_token(file, "anna")
    with pytest.raises(CheckError, match="file must be in a folder that is there"):
        made(file.parent / "none" / "tokens.json")
    assert not file.exists()


def test_the_format_is_the_one_that_is_written_down(file):
    token, text = made(file, expires=TOMORROW.replace(microsecond=0))
    row = token.to_json() | {"hash": token.hash}
    assert json.loads(file.read_text()) == {"v": 0, "kind": "tokens", "tokens": [row]}
    page = (Path(__file__).parents[2] / "docs/reference/formats.md").read_text().split("\n## tokens.json\n")[1]
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", page, flags=re.MULTILINE)))
    assert named == ["v", "kind", "tokens", *row]
    assert argon2.PasswordHasher().verify(row["hash"], text)


def test_a_name_holds_one_token(file):
    made(file)
    with pytest.raises(ConflictError, match="holds a token already"):
        made(file, role="owner")
    tokens.revoke_token(file, "anna")
    with pytest.raises(CheckError, match="name must be one that holds a token"):
        tokens.revoke_token(file, "anna")
    made(file, role="owner")
    assert [token.role for token in tokens.read_tokens(file)] == [Role.OWNER]


def test_a_rotated_token_has_a_successor_of_the_same_rights_and_ends_in_time(file):
    first, old = made(file)
    now = time.time()
    second, new = tokens.rotate_token(file, "anna", keep=dt.timedelta(hours=2), expires=TOMORROW)
    assert (second.holder, second.expires) == (first.holder, TOMORROW)
    clock = SimpleNamespace(now=now)
    keys = TokenStore(file, clock=lambda: clock.now)
    assert [good(keys, old), good(keys, new)] == [True, True]
    clock.now += 7300
    assert [good(keys, old), good(keys, new)] == [False, True]
    third, newest = tokens.rotate_token(file, "anna", keep=dt.timedelta(days=9))  # no longer than it would live
    assert [(one.id, one.expires) for one in tokens.read_tokens(file)] == [(second.id, TOMORROW), (third.id, None)]
    tokens.rotate_token(file, "anna")
    assert not any(good(TokenStore(file), text) for text in (old, new, newest))
    tokens.revoke_token(file, "anna")
    assert tokens.read_tokens(file) == []
    with pytest.raises(CheckError, match="name must be one that holds a token"):
        tokens.rotate_token(file, "anna")


def test_a_revocation_ends_the_rotated_token_too_and_a_refused_rotation_changes_nothing(file):
    made(file, role="owner")
    _, old = tokens.rotate_token(file, "anna", keep=dt.timedelta(hours=1))
    before = file.read_bytes()
    for wrong in ({"keep": dt.timedelta(seconds=-1)}, {"keep": dt.timedelta(0), "expires": PAST}):
        with pytest.raises(CheckError):
            tokens.rotate_token(file, "anna", **wrong)
    assert file.read_bytes() == before
    tokens.rotate_token(file, "anna", keep=dt.timedelta(hours=1))
    tokens.revoke_token(file, "anna")
    made(file, role="reader")  # a namesake inherits nothing
    assert not good(TokenStore(file), old)


@pytest.mark.parametrize("spoil", ["role", "unlimited", "three"])
def test_two_rows_of_a_name_are_one_holder_of_which_the_first_will_expire(file, spoil):
    made(file)
    tokens.rotate_token(file, "anna", keep=dt.timedelta(hours=1))
    document = json.loads(file.read_text())
    rows = document["tokens"]
    if spoil == "role":
        rows[0]["role"] = "owner"
    elif spoil == "unlimited":
        rows[0]["expires"] = None
    else:
        rows.insert(0, rows[0] | {"id": "0" * 16})
    file.write_text(json.dumps(document))
    with pytest.raises(StorageError, match="is not what"):
        tokens.read_tokens(file)


WRITER = """
import sys
from pathlib import Path
from epsilog.server import tokens
for at in sys.argv[2:]:
    tokens.create_token(Path(sys.argv[1]), f"holder-{at}", role="spender", scope="acme")
"""


@pytest.mark.slow
def test_many_who_write_at_once_lose_nothing(file):
    command = [sys.executable, "-c", WRITER, str(file)]
    writers = [subprocess.Popen([*command, *map(str, range(first, 24, 4))]) for first in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert sorted(token.name for token in tokens.read_tokens(file)) == sorted(f"holder-{at}" for at in range(24))


# --- where it is not believed -----------------------------------------------------------------------------------------


def loosened(mode):
    return lambda file: file.chmod(mode)


def linked(file):
    file.rename(file.with_name("elsewhere.json"))
    file.symlink_to(file.with_name("elsewhere.json"))


def piped(file):
    file.unlink()
    os.mkfifo(file, 0o600)


def in_an_open_folder(file):
    file.parent.chmod(0o777)


def rewritten(change):
    def spoil(file):
        document = json.loads(file.read_text())
        change(document)
        file.write_text(json.dumps(document))

    return spoil


SPOILS = {
    "group can read": loosened(0o640),
    "world can read": loosened(0o604),
    "world can write": loosened(0o602),
    "a link": linked,
    "a pipe": piped,
    "gone": lambda file: file.unlink(),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "an open folder": in_an_open_folder,
    "empty": lambda file: file.write_text(""),
    "half": lambda file: file.write_bytes(file.read_bytes()[:-40]),
    "not UTF-8": lambda file: file.write_bytes(b"\xff\xfe"),
    "deep": lambda file: file.write_text("[" * 100_000),
    "too long": lambda file: file.write_bytes(file.read_bytes() + b" " * tokens.MAX_BYTES),
    "a list": lambda file: file.write_text("[]"),
    "another version": rewritten(lambda document: document.update(v=2)),
    "another key": rewritten(lambda document: document["tokens"][0].update(more=1)),
    "another role": rewritten(lambda document: document["tokens"][0].update(role="king")),
    "a scope that is none": rewritten(lambda document: document["tokens"][0].update(scope="")),
    "a moment without zone": rewritten(lambda document: document["tokens"][0].update(expires="2030-01-01")),
    "an id that is a number": rewritten(lambda document: document["tokens"][0].update(id=1234567890123456)),
    "a hash that is none": rewritten(lambda document: document["tokens"][0].update(hash="x")),
    "an empty hash": rewritten(lambda document: document["tokens"][0].update(hash="")),
    "twice": rewritten(lambda document: document["tokens"].append(document["tokens"][0])),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_file_that_cannot_be_believed_lets_nobody_in_and_is_not_changed(file, spoil):
    _, text = made(file)
    keys = TokenStore(file)
    assert good(keys, text)
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    if spoil is in_an_open_folder:  # seen as soon as anything is swapped there
        file.touch()
    with pytest.raises(StorageError, match="cannot be used"):
        keys.find(text)
    with pytest.raises(StorageError, match="cannot be used"):
        TokenStore(file)
    if file.exists() or file.is_symlink():
        with pytest.raises(StorageError, match="cannot be used"):
            made(file, "bob")
    with pytest.raises(StorageError, match="cannot be used"):
        tokens.revoke_token(file, "anna")
    assert (file.read_bytes() if file.is_file() else None) == before
    if before is not None and stat.S_IMODE(file.stat().st_mode) & 0o077 and not file.is_symlink():
        file.chmod(0o600)  # mended, it lets in again
        assert good(keys, text)


def test_a_file_of_somebody_else_is_not_believed(file, monkeypatch):
    made(file)
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
    else:  # who may give nothing away becomes somebody else
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StorageError, match="belongs to another user"):
        TokenStore(file)


# --- a server that runs -----------------------------------------------------------------------------------------------


def test_a_change_is_seen_with_the_next_question(file):
    _, text = made(file)
    keys = TokenStore(file)
    _, other = made(file, "bob")
    assert good(keys, text)
    assert good(keys, other)
    tokens.revoke_token(file, "anna")
    assert not good(keys, text)
    assert good(keys, other)
    made(file)
    assert not good(keys, text)


def test_however_fast_it_is_changed(file):
    """The inode of a file that is replaced is not taken again, so that no two are mistaken for each other."""
    keys = None
    for at in range(40):
        _, text = made(file, f"n{at % 10}")
        keys = keys or TokenStore(file)
        assert good(keys, text)
        tokens.revoke_token(file, f"n{at % 10}")
        assert not good(keys, text)
    keys.close()


class Clock(SimpleNamespace):
    """A clock that can be set."""

    def __call__(self):
        return self.now

    def in_seconds(self, seconds):
        return dt.datetime.fromtimestamp(self.now + seconds, dt.UTC)


@pytest.fixture
def clock():
    return Clock(now=float(int(time.time())))


def test_a_token_runs_out_while_it_is_known(file, clock):
    _, text = made(file, expires=clock.in_seconds(100))
    keys = TokenStore(file, clock=clock)
    assert good(keys, text)
    clock.now += 99
    assert good(keys, text)
    clock.now += 1
    assert not good(keys, text)
    assert not good(TokenStore(file, clock=clock), text)


def test_what_has_run_out_stays_so_when_the_clock_is_set_back(file, clock):
    _, used = made(file, expires=clock.in_seconds(100))
    _, unused = made(file, "bob", expires=clock.in_seconds(100))
    _, later = made(file, "carl", expires=clock.in_seconds(1000))
    keys = TokenStore(file, clock=clock)
    assert good(keys, used)
    clock.now += 100
    assert not good(keys, used)
    clock.now -= 100
    assert [good(keys, text) for text in (used, unused, later)] == [False, False, True]
    assert [token.ended is not None for token in tokens.read_tokens(file)] == [True, True, False]
    clock.now -= 10**6
    assert [good(TokenStore(file, clock=clock), text) for text in (used, unused, later)] == [False, False, True]
    made(file, "dora")
    tokens.revoke_token(file, "carl")
    assert [good(TokenStore(file, clock=clock), text) for text in (used, unused, later)] == [False, False, False]


def test_where_it_cannot_be_noted_the_process_knows_and_tries_again(file, clock, monkeypatch, caplog):
    _, text = made(file, expires=clock.in_seconds(100))
    keys, before = TokenStore(file, clock=clock), file.read_bytes()
    tried = []
    for name in ("uvicorn", "uvicorn.error"):  # a server that ran in this process may have kept them to itself
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        caplog.set_level(logging.WARNING, logger=name)

    def refuse(*given, **_):
        tried.append(given)
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tokens.durable_io, "write_atomically", refuse)
    assert good(keys, text)
    clock.now += 100
    assert not any(good(keys, text) for _ in range(5))
    clock.now -= 50
    assert not good(keys, text)
    assert (len(tried), file.read_bytes()) == (1, before)
    assert "cannot be noted" in caplog.text
    monkeypatch.undo()
    clock.now += 50 + tokens.RETRY
    assert not good(keys, text)
    assert tokens.read_tokens(file)[0].ended is not None


def test_time_goes_on_while_nobody_looks_and_the_clock_goes_back(file, clock, monkeypatch):
    elapsed = Clock(now=clock.now)
    monkeypatch.setattr(tokens.time, "time", clock)
    monkeypatch.setattr(tokens.time, "monotonic", elapsed)
    _, text = made(file, expires=clock.in_seconds(100))
    keys = TokenStore(file)
    assert good(keys, text)
    elapsed.now += 99
    clock.now -= 5000
    assert good(keys, text)
    elapsed.now += 1
    assert not good(keys, text)


def test_it_does_not_begin_to_stand_while_it_is_verified(file):
    token, text = made(file)
    keys = TokenStore(file)
    assert keys.verify(token, text)
    tokens.revoke_token(file, "anna")
    assert not keys.remember(token, text)
    assert not keys.is_known(token, text)


def test_a_secret_is_verified_once_and_wrong_ones_are_not_remembered(file, monkeypatch):
    _, text = made(file)
    keys, asked, real = TokenStore(file), [], TokenStore.verify
    monkeypatch.setattr(TokenStore, "verify", lambda self, *given: asked.append(given) or real(self, *given))
    assert all(good(keys, text) for _ in range(5))
    assert len(asked) == 1
    wrong = [text[:-1] + letter for letter in "abcdefgh" if letter != text[-1]]
    assert not any(good(keys, other) for other in wrong)
    assert len(asked) == 1 + len(wrong)
    assert len(keys._good) == 1
    assert not good(keys, made(file, "bob")[1][:20] + text[20:])
    unknown = "eps_" + "0" * 16 + text[20:]
    assert keys.find(unknown) is None
    assert text not in repr(vars(keys))
