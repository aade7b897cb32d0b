"""Bundles: text files with every entry of a ledger and a checkpoint over them, which need no other file to be checked.

    epsilog-bundle/v0
    one entry a line, as canonical JSON
    (an empty line)
    the checkpoint, signed or not

A bundle has all entries, because every rule of a ledger depends on earlier ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from epsilog import durable_io
from epsilog.ledger import merkle
from epsilog.ledger.checkpoints import Checkpoint
from epsilog.ledger.entries import Entry, EntryParser, hash_entry
from epsilog.ledger.store import UNREADABLE, StoredRow
from epsilog.signing import Note, SigningKey
from epsilog.terms import CheckError, LedgerIntegrityError, StorageError

FIRST = b"epsilog-bundle/v0\n"
LONGEST = 1 << 26  # bytes of one entry


def is_bundle(path: Path) -> bool:
    """Recognize a bundle by its first line."""
    with path.open("rb") as file:
        return file.read(len(FIRST)) == FIRST


def write_bundle(documents: Iterable[str], path: Path, *, origin: str, key: SigningKey | None = None) -> Note:
    """Write a bundle in one pass; a kill leaves the old file, or none.

    Args:
        documents: the canonical JSON of every entry, from the first.
        path: the file to write.
        origin: the name of the ledger.
        key: the signing key; None leaves the checkpoint unsigned.

    Returns:
        The checkpoint.
    """
    waiting = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with waiting.open("xb") as file:
            note = _write(documents, file, origin, key)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)
    durable_io.sync_folder(path.parent)
    return note


def _write(documents: Iterable[str], file: BinaryIO, origin: str, key: SigningKey | None) -> Note:
    tree = merkle.Frontier()
    file.write(FIRST)
    for document in documents:
        content = document.encode()
        tree.add(merkle.hash_leaf(content))
        file.write(content + b"\n")
    note = Checkpoint(origin, tree.count, tree.root()).note(key)
    file.write(b"\n" + str(note).encode())
    return note


@dataclass(slots=True)
class Bundle:
    """A bundle during reading: its entries in order, once, then its checkpoint."""

    file: BinaryIO
    entries: list[Entry] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)  # the hash of each
    leaves: list[bytes] = field(default_factory=list)  # the leaf hash of each, in the tree of checkpoints
    note: Note | None = None  # the checkpoint, after all entries were read
    _tree: merkle.Frontier = field(default_factory=merkle.Frontier)
    _reader: EntryParser = field(default_factory=EntryParser)

    @classmethod
    def over(cls, file: BinaryIO) -> Self:
        """Start reading a file."""
        if file.read(len(FIRST)) != FIRST:
            raise StorageError("it is not a bundle")
        return cls(file)

    def rows(self) -> Iterator[StoredRow]:
        """Yield the stored entries, and then compare them with the checkpoint."""
        while (line := self.file.readline(LONGEST)) != b"\n":
            yield self._row(line)
        self._close(self.file.read(LONGEST))

    def _row(self, line: bytes) -> StoredRow:
        index = self._tree.count + 1
        if not line.endswith(b"\n"):
            raise LedgerIntegrityError("the bundle ends here, or this line is too long", index=index)
        try:
            document = line[:-1].decode()
            entry = self._reader.parse(document)
        except UNREADABLE as error:
            raise LedgerIntegrityError(f"cannot be read: {error}", index=index) from error
        if self.heads and entry.previous == self.heads[-1]:
            object.__setattr__(entry, "previous", self.heads[-1])  # one text for both: most of a large bundle's memory
        leaf, head = merkle.hash_leaf(line[:-1]), hash_entry(document)
        self._tree.add(leaf)
        self.entries.append(entry)
        self.heads.append(head)
        self.leaves.append(leaf)
        return StoredRow(index, entry.scope, document, head)

    def parse(self, _document: str) -> Entry:
        """Return the entry of the row that was read last, without parsing it again."""
        return self.entries[-1]

    def _close(self, content: bytes) -> None:
        """Compare the checkpoint with the entries that were read."""
        try:
            self.note = Note.parse(content.decode())
            checkpoint = Checkpoint.parse(self.note.text)
        except (CheckError, UnicodeDecodeError) as error:
            raise LedgerIntegrityError(f"the bundle's checkpoint cannot be read: {error}") from error
        if checkpoint.size != self._tree.count:
            raise LedgerIntegrityError(
                f"the checkpoint covers {checkpoint.size} entries, but the bundle has {self._tree.count}"
            )
        if checkpoint.root != self._tree.root():
            raise LedgerIntegrityError("the checkpoint does not match the entries of the bundle")
