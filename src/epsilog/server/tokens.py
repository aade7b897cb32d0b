"""Tokens: who may come in from another machine, and as what. One file holds them, hashed, for its owner alone.

A token is ``eps_<id>_<secret>``: 64 bits to find its row by, which are no secret, and 256 bits that are. The file keeps
an argon2id hash of the whole. It is never half written, and a server sees each change of it with the next request.

A token that has run out once is worth nothing for ever: a server's time never goes back while it runs, and the file
notes each token that was seen to have run out, so that a clock which is set back brings none to life.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import hmac
import json
import logging
import math
import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from epsilog import durable_io
from epsilog.ledger import list_ancestors
from epsilog.server.roles import Holder, Role
from epsilog.terms import CheckError, ConflictError, EpsilogError, StorageError, check
from epsilog.terms.extras import install_command

LOOKS = re.compile(r"eps_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)  # the text of a token
VERSION = 0  # of the file
LARGEST = 4 * 2**20  # bytes of a file
LONGEST_NAME = 100  # characters
_KEYS = ("id", "name", "role", "scope", "created", "expires", "ended", "hash")
_KEYS_BEFORE = tuple(key for key in _KEYS if key != "ended")  # files of the time before it was noted
RETRY = 60.0  # seconds after which a server tries again to note what ran out
_LOG = logging.getLogger("uvicorn.error")
_COST = {"time_cost": 2, "memory_cost": 19 * 1024, "parallelism": 1}  # 2 passes over 19 MiB: OWASP's least for argon2id


@dataclass(frozen=True, slots=True)
class Token:
    """What the file says of one token; the token itself stands nowhere.

    Attributes:
        id: 16 hexadecimal digits, by which its row is found.
        name: who holds it; one token for a name.
        role: what its holder may do.
        scope: where, and everywhere under it; None is the whole ledger.
        created: when, in UTC.
        expires: from when on it is worth nothing, in UTC; None is never.
        ended: when it was first seen to have run out, whatever a clock says later; None is not yet.
        hash: argon2id, with its parameters and salt.
    """

    id: str
    name: str
    role: Role
    scope: str | None
    created: dt.datetime
    expires: dt.datetime | None
    ended: dt.datetime | None
    hash: str

    def __post_init__(self) -> None:
        check.validate_fields(self, role=check.enum_member(Role))
        require_holder_name(self.name)
        if self.scope is not None:
            list_ancestors(self.scope)

    def __repr__(self) -> str:
        return f"Token({self.id}, {self.name!r}, {self.role.value}, {self.scope!r})"

    @property
    def holder(self) -> Holder:
        """Who comes in with it."""
        return Holder(self.name, self.role, self.scope)

    def has_expired(self, now: float) -> bool:
        """Whether it is worth nothing any more, at a time of Unix."""
        return self.ended is not None or (self.expires is not None and now >= self.expires.timestamp())

    def note_expiry(self, now: float) -> Token:
        """The same, with a note if it has run out by now."""
        if self.ended is not None or not self.has_expired(now):
            return self
        return replace(self, ended=dt.datetime.fromtimestamp(int(now), dt.UTC))

    def to_json(self) -> dict[str, str | None]:
        """As it is shown: all but the hash."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role.value,
            "scope": self.scope,
            "created": self.created.isoformat(),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "ended": None if self.ended is None else self.ended.isoformat(),
        }


def require_holder_name(name: str) -> str:
    """Requires a holder's name: short, printable, spelled in one way; entries of the ledger carry it for ever."""
    name = check.text()(name=name)
    if name.startswith("eps_"):
        raise CheckError("name", "a holder's name", "what looks like a token")
    plain = name.isprintable() and unicodedata.is_normalized("NFC", name) and name == name.strip()
    if not plain or len(name) > LONGEST_NAME:
        raise CheckError("name", f"printable (NFC) text of at most {LONGEST_NAME} characters", repr(name[:80]))
    return name


def create_token(
    path: Path,
    name: str,
    *,
    role: Role | str,
    scope: str | None,
    expires: dt.datetime | None = None,
) -> tuple[Token, str]:
    """Makes a token, and the file if there is none.

    Returns:
        What the file keeps of it, and the token itself: this once, it can never be shown again.

    Raises:
        ConflictError: the name holds one already.
        StorageError: the file cannot be used as it lies there.
    """
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    if expires is not None and expires <= now:
        raise CheckError("expires", "a moment that is still to come", expires.isoformat())
    token_id = secrets.token_hex(8)
    text = f"eps_{token_id}_{secrets.token_urlsafe(32)}"
    role = check.enum_member(Role)(role=role)
    made = Token(token_id, name, role, scope, now, expires, None, hash="")
    made = replace(made, hash=_argon2().PasswordHasher(**_COST).hash(text))
    with _changing(path) as tokens:
        if any(other.name == name for other in tokens.values()):
            raise ConflictError(f"{name!r} holds a token already: revoke it first, or give this one another name")
        tokens[made.id] = made
    return made, text


def revoke_token(path: Path, name: str) -> Token:
    """Ends a token: the next request with it is refused. Says which it was."""
    require_holder_name(name)
    with _changing(path, make=False) as tokens:
        found = [token for token in tokens.values() if token.name == name]
        if not found:
            raise CheckError("name", "one that holds a token", repr(name[:80]))
        del tokens[found[0].id]
    return found[0]


def read_tokens(path: Path) -> list[Token]:
    """All tokens of a file, in the order they were made.

    Raises:
        StorageError: it is not there, others can read it, or it is no file of tokens.
    """
    with _open_private_file(path) as descriptor:
        return list(_parse_tokens(path, descriptor).values())


@final
class TokenStore:
    """The tokens of a running server. Whoever asks sees the file as it lies there now.

    A secret is checked with argon2 once; after that a keyed digest of it is known to be good, until the file changes.
    Only good tokens are remembered, so there are never more of them than rows.

    Args:
        path: the file.
        clock: the time of Unix; only the latest that it ever said counts.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] | None = None) -> None:
        self._path, self._clock = path, clock or _steady()
        self._latest, self._due = -math.inf, math.inf
        self._key = secrets.token_bytes(32)  # of this process: a digest says nothing to another
        self._tokens: Mapping[str, Token] = {}
        self._good: dict[bytes, str] = {}
        self._stamp: tuple[int, ...] | None = None
        self._held: int | None = None  # kept open: as long as it is, no other file can have its inode
        self._refresh()

    def find(self, text: str) -> Token | None:
        """The row of a token by its id alone: nothing is said yet about its secret."""
        self._refresh()
        match = LOOKS.fullmatch(text)
        return None if match is None else self._tokens.get(match[1])

    def is_known(self, token: Token, text: str) -> bool:
        """Whether this text was verified since the file last changed, and the token is still worth something."""
        return self._good.get(self._digest(text)) == token.id and self.is_valid(token)

    def verify(self, token: Token, text: str) -> bool:
        """Whether the text is the token; costs what argon2 costs. May run in a thread: it changes nothing."""
        try:
            return bool(_argon2().PasswordHasher(**_COST).verify(token.hash, text))
        except _argon2().exceptions.VerificationError:
            return False

    def remember(self, token: Token, text: str) -> bool:
        """Notes a text that was verified, unless the token was revoked or ran out meanwhile; says whether it stands."""
        if self.is_valid(token):
            self._good[self._digest(text)] = token.id
            return True
        return False

    def is_valid(self, token: Token) -> bool:
        """Whether the token is still in the file, as it was, and has not run out."""
        self._refresh()
        return self._tokens.get(token.id) == token and not token.has_expired(self._now())

    def close(self) -> None:
        """Lets the file go."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), hashlib.sha256)

    def _refresh(self) -> None:
        """Reads the file again if another lies there, or it was written. While it cannot be used nobody comes in."""
        try:
            changed = self._stamp != _stamp(os.lstat(self._path))
        except OSError as error:
            self._forget()
            raise _unusable(self._path, f"it is not there: {error.strerror}") from None
        if changed:
            self._read()
        if self._now() >= self._due:
            self._note()

    def _read(self) -> None:
        self._forget()
        with _open_private_file(self._path) as descriptor:
            stamp = _stamp(os.fstat(descriptor))
            self._tokens = _parse_tokens(self._path, descriptor)
            self._held, self._stamp = os.dup(descriptor), stamp
        running = [one.expires.timestamp() for one in self._tokens.values() if one.expires and one.ended is None]
        self._due = min(running, default=math.inf)

    def _note(self) -> None:
        """Has the file say which tokens have run out; where it cannot be written, this process knows all the same."""
        try:
            with _changing(self._path, make=False, wait=False, now=self._now()):
                pass
        except (OSError, StorageError) as error:
            self._due = self._now() + RETRY
            _LOG.warning("a token has run out, which cannot be noted in its file: %s", error)
        else:
            self._read()

    def _now(self) -> float:
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _forget(self) -> None:
        self.close()
        self._tokens, self._good, self._stamp = {}, {}, None


def _steady() -> Callable[[], float]:
    """A clock of Unix that goes on as this machine does, however its clock is set back."""
    ahead = time.time() - time.monotonic()
    return lambda: max(time.time(), time.monotonic() + ahead)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Changes with every change of a file, its owner and its mode."""
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_uid,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _unusable(path: Path, why: str) -> StorageError:
    return StorageError(f"token file {path} cannot be used: {why}")


@contextlib.contextmanager
def _open_private_file(path: Path) -> Iterator[int]:
    """A descriptor of the file that lies there: a plain one of our own, which nobody else can read or swap."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else f"it cannot be opened: {error.strerror}"
        raise _unusable(path, why) from None
    try:
        found, folder = os.fstat(descriptor), path.absolute().parent.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "it is no plain file")
        if found.st_uid not in {0, os.geteuid()}:
            raise _unusable(path, "it belongs to somebody else")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise _unusable(path, f"others may not have access (chmod 600), its mode is {found.st_mode & 0o777:o}")
        if folder.st_mode & 0o002 and not folder.st_mode & stat.S_ISVTX:
            raise _unusable(path, "everybody can swap files in its folder (chmod o-w)")
        yield descriptor
    finally:
        os.close(descriptor)


def _parse_tokens(path: Path, descriptor: int) -> dict[str, Token]:
    """The rows by id, in order."""
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read(LARGEST + 1)
    try:
        document = json.loads(content) if len(content) <= LARGEST else None
        if not isinstance(document, dict) or document.keys() != {"v", "kind", "tokens"}:
            raise ValueError
        if document["v"] != VERSION or document["kind"] != "tokens" or not isinstance(document["tokens"], list):
            raise ValueError
        rows = [_row(row) for row in document["tokens"]]
        if len({row.id for row in rows}) < len(rows) or len({row.name for row in rows}) < len(rows):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _unusable(path, "it is not what `epsilog token create` writes") from None
    return {row.id: row for row in rows}


def _row(row: dict[str, Any]) -> Token:
    if tuple(row) not in {_KEYS, _KEYS_BEFORE} or not LOOKS.fullmatch(f"eps_{check.text()(id=row['id'])}_{'x' * 43}"):
        raise ValueError
    _argon2().extract_parameters(row["hash"])  # a ValueError where it is none
    return Token(
        row["id"],
        row["name"],
        Role(row["role"]),
        row["scope"],
        _moment(row["created"]),
        None if row["expires"] is None else _moment(row["expires"]),
        None if row.get("ended") is None else _moment(row["ended"]),
        hash=row["hash"],
    )


def _moment(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError
    return found


@contextlib.contextmanager
def _changing(
    path: Path, *, make: bool = True, wait: bool = True, now: float | None = None
) -> Iterator[dict[str, Token]]:
    """The rows, to be changed by one at a time and written when that went well; what has run out is noted with it."""
    now = time.time() if now is None else now
    if not path.absolute().parent.is_dir():
        raise CheckError("file", "in a folder that is there", repr(str(path)))
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    except OSError as error:
        raise _unusable(path, f"its lock {path.name}.lock cannot be opened: {error.strerror}") from None
    try:
        import fcntl  # where it is missing, nobody serves a team

        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        tokens = dict[str, Token]()
        if not make or os.path.lexists(path):
            with _open_private_file(path) as descriptor:
                tokens = _parse_tokens(path, descriptor)
        yield tokens
        rows = [token.note_expiry(now).to_json() | {"hash": token.hash} for token in tokens.values()]
        content = json.dumps({"v": VERSION, "kind": "tokens", "tokens": rows}, indent=1, ensure_ascii=False) + "\n"
        durable_io.write_atomically(path, content.encode(), private=True)
    finally:
        os.close(lock)


def _argon2() -> Any:
    """The one library that hashes tokens, if it is here."""
    from importlib import import_module

    try:
        return import_module("argon2")
    except ImportError as error:
        raise EpsilogError(f"tokens need the extra `server`: {install_command('server')} ({error})") from error
