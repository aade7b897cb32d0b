"""Tokens of holders on other machines, hashed in one private file.

A token is ``eps_<id>_<secret>``: a public id of 64 bits, and a secret of 256 bits. The file keeps an argon2id hash of
the whole token. Writes are atomic, and a server reads each change before the next request.

An expired token stays expired: a running server's clock never goes back, and the file records each expiry that was
seen, so that a clock that is set back revives no token.
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
from typing import Annotated, Any, final

from epsilog import durable_io
from epsilog.ledger.scopes import list_ancestors
from epsilog.server.access import Holder, Role
from epsilog.terms import CheckError, ConflictError, EpsilogError, StorageError, check
from epsilog.terms.extras import install_command

TOKEN_PATTERN = re.compile(r"eps_([0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)  # the text of a token
VERSION = 0  # of the file
MAX_BYTES = 4 * 2**20  # bytes of a file
MAX_NAME_LENGTH = 100  # characters
_TIMES = ("created", "expires", "ended")
_KEYS = ("id", "name", "role", "scope", *_TIMES, "hash")
RETRY = 60.0  # seconds until a server tries again to record expiries
_LOG = logging.getLogger("uvicorn.error")
_COST = {"time_cost": 2, "memory_cost": 19 * 1024, "parallelism": 1}  # 2 passes over 19 MiB: OWASP's minimum


@dataclass(frozen=True, slots=True)
class Token:
    """One row of the file; it does not contain the token itself.

    Attributes:
        id: 16 hexadecimal digits.
        name: of its holder; one token per name, or two after a rotation.
        role: what its holder may do.
        scope: where, with everything under it; None is the whole ledger.
        created: when, in UTC.
        expires: when it expires, in UTC; None is never.
        ended: when its expiry was first recorded, whatever a clock says later; None is not yet.
        hash: argon2id, with its parameters and salt.
    """

    id: str
    name: str
    role: Annotated[Role, check.enum_member(Role)]
    scope: str | None
    created: dt.datetime
    expires: dt.datetime | None
    ended: dt.datetime | None
    hash: str

    def __post_init__(self) -> None:
        check.check_fields(self)
        require_holder_name(self.name)
        if self.scope is not None:
            list_ancestors(self.scope)

    def __repr__(self) -> str:
        return f"Token({self.id}, {self.name!r}, {self.role.value}, {self.scope!r})"

    @property
    def holder(self) -> Holder:
        """Its holder."""
        return Holder(self.name, self.role, self.scope)

    def has_expired(self, now: float) -> bool:
        """Return whether it has expired at a Unix time."""
        return self.ended is not None or (self.expires is not None and now >= self.expires.timestamp())

    def note_expiry(self, now: float) -> Token:
        """Return the same, with its expiry recorded if it has expired."""
        if self.ended is not None or not self.has_expired(now):
            return self
        return replace(self, ended=dt.datetime.fromtimestamp(int(now), dt.UTC))

    def to_json(self) -> dict[str, str | None]:
        """Return all fields but the hash."""
        times = {name: None if (at := getattr(self, name)) is None else at.isoformat() for name in _TIMES}
        return {"id": self.id, "name": self.name, "role": self.role.value, "scope": self.scope} | times


def require_holder_name(name: str) -> str:
    """Require a short, printable name in normal form C; entries of the ledger keep it forever."""
    name = check.text()(name=name)
    if name.startswith("eps_"):
        raise CheckError("name", "a holder's name", "what looks like a token")
    if "://" in name:
        raise CheckError(
            "name",
            "a holder's name",
            "what looks like the name of a holder of OpenID Connect or of a client certificate",
        )
    plain = name.isprintable() and unicodedata.is_normalized("NFC", name) and name == name.strip()
    if not plain or len(name) > MAX_NAME_LENGTH:
        raise CheckError("name", f"printable (NFC) text of at most {MAX_NAME_LENGTH} characters", repr(name[:80]))
    return name


def create_token(
    path: Path,
    name: str,
    *,
    role: Role | str,
    scope: str | None,
    expires: dt.datetime | None = None,
) -> tuple[Token, str]:
    """Create a token, and the file if it does not exist.

    Returns:
        Its row in the file, and the token itself, which cannot be shown again.

    Raises:
        ConflictError: the name has a token already.
        StorageError: the file cannot be used.
    """
    made, text = _draw_token(name, check.enum_member(Role)(role=role), scope, expires)
    with _changing(path) as tokens:
        if any(other.name == name for other in tokens.values()):
            raise ConflictError(
                f"{name!r} holds a token already: rotate it, or revoke it first, or give this one another name"
            )
        tokens[made.id] = made
    return made, text


def rotate_token(
    path: Path, name: str, *, keep: dt.timedelta = dt.timedelta(0), expires: dt.datetime | None = None
) -> tuple[Token, str]:
    """Replace the token of a holder by a new one of the same role and scope.

    Args:
        path: the file.
        name: of the holder.
        keep: how long the present token still works, at least 0, and never past its own expiry. A token that an earlier
            rotation kept ends at once.
        expires: when the new token expires; None is never.

    Returns:
        As ``create_token``.
    """
    require_holder_name(name)
    if keep < dt.timedelta(0):
        raise CheckError("keep", "at least 0", str(keep))
    with _changing(path, make=False) as tokens:
        present = _find_tokens(tokens, name)[-1]
        made, text = _draw_token(name, present.role, present.scope, expires)
        until = made.created + keep
        if present.expires is not None:
            until = min(until, present.expires)
        for token in _find_tokens(tokens, name):
            del tokens[token.id]
        if until > made.created:
            tokens[present.id] = replace(present, expires=until)
        tokens[made.id] = made
    return made, text


def revoke_token(path: Path, name: str) -> Token:
    """End a holder's tokens: the next request with one is refused. Returns the row of the newest."""
    require_holder_name(name)
    with _changing(path, make=False) as tokens:
        found = _find_tokens(tokens, name)
        for token in found:
            del tokens[token.id]
    return found[-1]


def _find_tokens(tokens: Mapping[str, Token], name: str) -> list[Token]:
    """Return the tokens of a holder, the newest last: at least one."""
    found = [token for token in tokens.values() if token.name == name]
    if not found:
        raise CheckError("name", "one that holds a token", repr(name[:80]))
    return found


def _draw_token(name: str, role: Role, scope: str | None, expires: dt.datetime | None) -> tuple[Token, str]:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    if expires is not None and expires <= now:
        raise CheckError("expires", "a moment that is still to come", expires.isoformat())
    token_id = secrets.token_hex(8)
    text = f"eps_{token_id}_{secrets.token_urlsafe(32)}"
    made = Token(token_id, name, role, scope, now, expires, None, hash="")
    return replace(made, hash=_argon2().PasswordHasher(**_COST).hash(text)), text


def read_tokens(path: Path) -> list[Token]:
    """Return all tokens of a file, oldest first.

    Raises:
        StorageError: it does not exist, others can read it, or it is no file of tokens.
    """
    with _open_private_file(path) as descriptor:
        return list(_parse_tokens(path, descriptor).values())


@final
class TokenStore:
    """The tokens of a running server, as the file states them now; argon2 checks a secret once until it changes."""

    def __init__(self, path: Path, *, clock: Callable[[], float] | None = None) -> None:
        self._path, self._clock = path, clock or make_monotonic_clock()
        self._latest, self._due = -math.inf, math.inf
        self._key = secrets.token_bytes(32)  # of this process
        self._tokens: Mapping[str, Token] = {}
        self._good: dict[bytes, str] = {}
        self._stamp: tuple[int, ...] | None = None
        self._held: int | None = None  # kept open: as long as it is, no other file can have its inode
        self._refresh()

    def find(self, text: str) -> Token | None:
        """Return the row of a token by its id alone; its secret is not checked."""
        self._refresh()
        match = TOKEN_PATTERN.fullmatch(text)
        return None if match is None else self._tokens.get(match[1])

    def is_known(self, token: Token, text: str) -> bool:
        """Return whether this text was verified since the file last changed, and the token is still valid."""
        return self._good.get(self._digest(text)) == token.id and self.is_valid(token)

    def verify(self, token: Token, text: str) -> bool:
        """Return whether the text is the token, by argon2. May run in a thread: it changes nothing."""
        try:
            return bool(_argon2().PasswordHasher(**_COST).verify(token.hash, text))
        except _argon2().exceptions.VerificationError:
            return False

    def remember(self, token: Token, text: str) -> bool:
        """Trust a verified text, unless the token was revoked or has expired; returns whether it is valid."""
        if self.is_valid(token):
            self._good[self._digest(text)] = token.id
            return True
        return False

    def is_valid(self, token: Token) -> bool:
        """Return whether the token is still in the file, unchanged, and has not expired."""
        self._refresh()
        return self._tokens.get(token.id) == token and not token.has_expired(self._now())

    def close(self) -> None:
        """Close the file."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), hashlib.sha256)

    def _refresh(self) -> None:
        """Read the file again if it was replaced or written. While it cannot be used, every token is refused."""
        try:
            changed = self._stamp != _stamp(os.lstat(self._path))
        except OSError as error:
            self._forget()
            raise _unusable(self._path, f"it does not exist: {error.strerror}") from None
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
        """Record expiries in the file; if it cannot be written, this process knows them all the same."""
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


def make_monotonic_clock() -> Callable[[], float]:
    """Return a Unix clock that never goes back, even if the machine's clock is set back."""
    ahead = time.time() - time.monotonic()
    return lambda: max(time.time(), time.monotonic() + ahead)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Changes with every change of a file, its owner and its mode."""
    times = found.st_mtime_ns, found.st_ctime_ns
    return (found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_size, *times)


def _unusable(path: Path, why: str) -> StorageError:
    return StorageError(f"token file {path} cannot be used: {why}")


@contextlib.contextmanager
def _open_private_file(path: Path) -> Iterator[int]:
    """A descriptor of a regular file that we own and no other user can read or replace."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else f"it cannot be opened: {error.strerror}"
        raise _unusable(path, why) from None
    try:
        found, folder = os.fstat(descriptor), path.absolute().parent.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "it is not a regular file")
        if found.st_uid not in {0, os.geteuid()}:
            raise _unusable(path, "it belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise _unusable(path, f"others may not have access (chmod 600), its mode is {found.st_mode & 0o777:o}")
        if folder.st_mode & 0o002 and not folder.st_mode & stat.S_ISVTX:
            raise _unusable(path, "every user can replace files in its folder (chmod o-w)")
        yield descriptor
    finally:
        os.close(descriptor)


def _parse_tokens(path: Path, descriptor: int) -> dict[str, Token]:
    """Return the rows by id, in order."""
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read(MAX_BYTES + 1)
    try:
        document = json.loads(content) if len(content) <= MAX_BYTES else None
        if not isinstance(document, dict) or document.keys() != {"v", "kind", "tokens"}:
            raise ValueError
        if document["v"] != VERSION or document["kind"] != "tokens" or not isinstance(document["tokens"], list):
            raise ValueError
        rows = [_row(row) for row in document["tokens"]]
        if len({row.id for row in rows}) < len(rows) or not _have_own_names(rows):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _unusable(path, "it is not what `epsilog token create` writes") from None
    return {row.id: row for row in rows}


def _have_own_names(rows: list[Token]) -> bool:
    """Return whether a name is of one holder: a rotated token stands before its successor, and will expire."""
    last: dict[str, Token] = {}
    rotated = set[str]()
    for row in rows:
        earlier = last.get(row.name)
        if earlier is not None:
            if row.name in rotated or earlier.holder != row.holder or earlier.expires is None:
                return False
            rotated.add(row.name)
        last[row.name] = row
    return True


def _row(row: dict[str, Any]) -> Token:
    if tuple(row) != _KEYS or not TOKEN_PATTERN.fullmatch(f"eps_{check.text()(id=row['id'])}_{'x' * 43}"):
        raise ValueError
    _argon2().extract_parameters(row["hash"])  # a ValueError if it is no hash
    times = {name: None if row[name] is None and name != "created" else _moment(row[name]) for name in _TIMES}
    return Token(**row | times | {"role": Role(row["role"])})


def _moment(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError
    return found


@contextlib.contextmanager
def _changing(
    path: Path, *, make: bool = True, wait: bool = True, now: float | None = None
) -> Iterator[dict[str, Token]]:
    """The rows under a lock, written after the block with expiries recorded."""
    now = time.time() if now is None else now
    if not path.absolute().parent.is_dir():
        raise CheckError("file", "in a folder that is there", repr(str(path)))
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        lock = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    except OSError as error:
        raise _unusable(path, f"its lock {path.name}.lock cannot be opened: {error.strerror}") from None
    try:
        import fcntl  # missing on Windows, where no team is served

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
    """argon2-cffi, if it is installed."""
    from importlib import import_module

    try:
        return import_module("argon2")
    except ImportError as error:
        raise EpsilogError(f"tokens need the extra `server`: {install_command('server')} ({error})") from error
