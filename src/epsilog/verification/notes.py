"""Read checkpoints and receipts, from their own files or from one line of a text."""

from __future__ import annotations

from pathlib import Path

from epsilog.ledger import Receipt, StoredCheckpoint
from epsilog.ledger.receipts import is_receipt
from epsilog.signing import Note, find_note
from epsilog.terms import CheckError, RecordError
from epsilog.verification.files import read_file


def read_checkpoint(path: Path) -> StoredCheckpoint:
    """Read a kept checkpoint from its file, or from one line of a text.

    Raises:
        RecordError: the file contains no checkpoint.
    """
    try:
        return StoredCheckpoint.parse(_text(path))
    except CheckError as error:
        raise RecordError(f"{path} is no checkpoint: {error}") from error


def read_receipt(path: Path) -> tuple[Note, Receipt]:
    """Read a receipt and its signatures; see ``read_checkpoint``."""
    try:
        note = find_note(_text(path))
        return note, Receipt.parse(note.text)
    except CheckError as error:
        raise RecordError(f"{path} is no receipt: {error}") from error


def note_kind(path: Path) -> str | None:
    """Return "checkpoint", "receipt", or None for neither."""
    try:
        if is_receipt(find_note(_text(path))):
            return "receipt"
    except (CheckError, RecordError):
        pass
    try:
        StoredCheckpoint.parse(_text(path))
    except (CheckError, RecordError):
        return None
    return "checkpoint"


def _text(path: Path) -> str:
    try:
        content = read_file(path).decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not text in UTF-8") from error
    if "PRIVATE KEY-----" in content:  # a later message might quote it
        raise RecordError(f"{path} is a private key; keep it secret")
    return content
