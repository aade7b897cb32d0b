"""Where answers are kept: a folder with one file for each charge, written before the answer leaves the process.

A draft is what was drawn and not released yet: there is one at most, whoever asks at the same time, and a crash leaves
it for the next who asks. The ledger's word releases it; then it gets its own name.
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
        folder: where answers are kept; made if need be.
        scope: that the charge names.
        key: of the charge.
    """

    def __init__(self, folder: Path, scope: str, key: str) -> None:
        digest = hashlib.sha256(encode_canonical([scope, key])).hexdigest()
        name = f"{key}-{digest[:8]}" if _READABLE.fullmatch(key) else digest
        self.folder = folder
        self.released, self.draft = folder / f"{name}.json", folder / f"{name}.draft"

    def holds(self) -> bool:
        """Whether anything lies here."""
        return self.released.exists() or self.draft.exists()

    def prepare(self) -> None:
        """Tries what keeping an answer will need; once it is paid for, it would be too late to find that it fails."""
        for last in (False, False, True):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                with self._write_private_file(b"") as waiting:
                    linked = waiting.with_suffix(".link")
                    linked.hardlink_to(waiting)
                    linked.unlink()
                return
            except OSError as error:
                if isinstance(error, FileNotFoundError) and not last:
                    continue  # who was released just now took what was tried for a stray
                bound = "a folder to write to, with links"
                raise CheckError("keep", bound, f"{self.folder} ({error.strerror})") from None

    def read_draft(self, bound: Mapping[str, Any], draw: Callable[[], bytes]) -> bytes:
        """The draft, drawn now if there is none; of two who draw at once, both get the draft of one.

        Args:
            bound: what it must say.
            draw: makes it.

        Raises:
            ConflictError: what lies here is another ledger's, or released.
        """
        if not self.draft.exists():
            if self.released.exists():
                raise ConflictError(f"{self.released} holds an answer that this ledger has not released")
            self._put(draw())
        try:
            document = self.draft.read_bytes()
        except FileNotFoundError:
            raise ConflictError(f"{self.draft} was released or discarded just now") from None
        if not _matches_charge(document, bound):
            raise ConflictError(f"{self.draft} holds an answer that is not this charge's")
        return document

    def _put(self, document: bytes) -> None:
        """Writes the draft, all of it or nothing, unless somebody else was first."""
        with self._write_private_file(document) as waiting, suppress(FileExistsError, FileNotFoundError):
            self.draft.hardlink_to(waiting)  # no longer there: what it waited for is released, and strays were removed
        durable_io.sync_folder(self.folder)

    @contextmanager
    def _write_private_file(self, document: bytes) -> Iterator[Path]:
        """A file that nobody knows of, for its owner's eyes, while it is wanted."""
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
        """What was released, by its SHA-256, if it lies here."""
        for path in (self.draft, self.released, self.draft):  # one becomes the other while we look
            try:
                document = path.read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(document).hexdigest() == digest:
                return document
        return None

    def publish(self, digest: str) -> None:
        """Gives the draft the name of what is released; called after the ledger released it, and again if need be."""
        with suppress(FileNotFoundError):  # it has it already
            if hashlib.sha256(self.draft.read_bytes()).hexdigest() == digest:
                self.draft.replace(self.released)
                durable_io.sync_folder(self.folder)
        for stray in self.folder.glob(f".{self.draft.stem}.*.tmp"):  # of a process that was killed
            stray.unlink(missing_ok=True)

    def discard(self, bound: Mapping[str, Any]) -> None:
        """Takes away a draft that the ledger will never release, since it released another."""
        with suppress(FileNotFoundError):
            if _matches_charge(self.draft.read_bytes(), bound):
                self.draft.unlink()


def _matches_charge(document: bytes, bound: Mapping[str, Any]) -> bool:
    """Whether a document is of one charge: another ledger may keep its answers in the same folder."""
    said = json.loads(document)
    return all(said.get(name) == value for name, value in bound.items())
