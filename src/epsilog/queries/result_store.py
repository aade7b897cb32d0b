"""Store results: a folder with one file per charge, written before the result leaves the process.

A draft is a result that is drawn but not released. There is at most one, even under concurrent calls, and after a
crash the next call finds it. The ledger releases it; then it gets its final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from epsilog import durable_io
from epsilog.terms import CheckError, ConflictError
from epsilog.terms.codec import encode_canonical

__all__ = ["ResultStore"]

_READABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


class ResultStore:
    """The files of one charge.

    Args:
        folder: the folder of results; created if absent.
        scope: the scope of the charge.
        key: the key of the charge.
    """

    def __init__(self, folder: Path, scope: str, key: str) -> None:
        digest = hashlib.sha256(encode_canonical([scope, key])).hexdigest()
        name = f"{key}-{digest[:8]}" if _READABLE.fullmatch(key) else digest
        self.folder = folder
        self.released, self.draft = folder / f"{name}.json", folder / f"{name}.draft"

    def contains(self) -> bool:
        """Return whether there is a result or a draft."""
        return self.released.exists() or self.draft.exists()

    def prepare(self) -> None:
        """Try everything that storing a result needs; after the charge it would be too late to fail."""
        for last in (False, False, True):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                with self._write_private_file(b"") as temporary:
                    linked = temporary.with_suffix(".link")
                    linked.hardlink_to(temporary)
                    linked.unlink()
                return
            except OSError as error:
                if isinstance(error, FileNotFoundError) and not last:
                    continue  # a concurrent `publish` removed the trial file
                bound = "a folder to write to, with links"
                raise CheckError("keep", bound, f"{self.folder} ({error.strerror})") from None

    def read_draft(self, bound: Mapping[str, Any], draw: Callable[[], bytes]) -> bytes:
        """Return the draft, drawn now if it does not exist; concurrent calls get the same one.

        Args:
            bound: the fields that the draft must have.
            draw: makes the draft.

        Raises:
            ConflictError: the stored result is of another ledger, or released.
        """
        if not self.draft.exists():
            if self.released.exists():
                raise ConflictError(f"{self.released} holds an answer that this ledger has not released")
            self._write_draft(draw())
        try:
            document = self.draft.read_bytes()
        except FileNotFoundError:
            raise ConflictError(f"{self.draft} was released or discarded just now") from None
        if not _matches_charge(document, bound):
            raise ConflictError(f"{self.draft} holds an answer that is not this charge's")
        return document

    def _write_draft(self, document: bytes) -> None:
        """Write the draft atomically, unless another process was first."""
        with self._write_private_file(document) as temporary, suppress(FileExistsError, FileNotFoundError):
            self.draft.hardlink_to(temporary)  # not found: another result was released, and temporary files removed
        durable_io.sync_folder(self.folder)

    @contextmanager
    def _write_private_file(self, document: bytes) -> Iterator[Path]:
        """Write a temporary file that only its owner can read; remove it at the end."""
        descriptor, name = tempfile.mkstemp(prefix=f".{self.draft.stem}.", suffix=".tmp", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def find(self, digest: str) -> bytes | None:
        """Return the released result by its SHA-256, if it is stored."""
        for path in (self.draft, self.released, self.draft):  # the draft may be renamed meanwhile
            try:
                document = path.read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(document).hexdigest() == digest:
                return document
        return None

    def publish(self, digest: str) -> None:
        """Rename the draft that the ledger has released; a repeated call changes nothing."""
        with suppress(FileNotFoundError):  # already renamed
            if hashlib.sha256(self.draft.read_bytes()).hexdigest() == digest:
                self.draft.replace(self.released)
                durable_io.sync_folder(self.folder)
        for stray in self.folder.glob(f".{self.draft.stem}.*.tmp"):  # of a process that was killed
            stray.unlink(missing_ok=True)

    def discard(self, bound: Mapping[str, Any]) -> None:
        """Remove a draft that the ledger will never release, since it released another."""
        with suppress(FileNotFoundError):
            if _matches_charge(self.draft.read_bytes(), bound):
                self.draft.unlink()


def _matches_charge(document: bytes, bound: Mapping[str, Any]) -> bool:
    """Return whether a document belongs to a charge; another ledger may use the same folder."""
    found = json.loads(document)
    return all(found.get(name) == value for name, value in bound.items())
