"""Checkpoints and receipts as files of their own, or told in one line of another text."""

from __future__ import annotations

from pathlib import Path

from epsilog.ledger import Kept, Receipt, is_receipt
from epsilog.signing import Note, find_note
from epsilog.terms import CheckError, RecordsError
from epsilog.verification.evidence import read_file


def read_checkpoint(path: Path) -> Kept:
    """Reads a kept checkpoint: its file, or a text that tells it in one line.

    Raises:
        RecordsError: it is none.
    """
    try:
        return Kept.parse(_text(path))
    except CheckError as error:
        raise RecordsError(f"{path} is no checkpoint: {error}") from error


def read_receipt(path: Path) -> tuple[Note, Receipt]:
    """Reads a receipt and its signatures; see ``read_checkpoint``."""
    try:
        note = find_note(_text(path))
        return note, Receipt.parse(note.text)
    except CheckError as error:
        raise RecordsError(f"{path} is no receipt: {error}") from error


def note_kind(path: Path) -> str | None:
    """Says whether a file is a "checkpoint" or a "receipt"; None for neither."""
    try:
        if is_receipt(find_note(_text(path))):
            return "receipt"
    except (CheckError, RecordsError):
        pass
    try:
        Kept.parse(_text(path))
    except (CheckError, RecordsError):
        return None
    return "checkpoint"


def _text(path: Path) -> str:
    try:
        content = read_file(path).decode()
    except UnicodeDecodeError as error:
        raise RecordsError(f"{path} is not text in UTF-8") from error
    if "PRIVATE KEY-----" in content:  # a message might repeat some of it
        raise RecordsError(f"{path} is a private key, which nobody else may see")
    return content
