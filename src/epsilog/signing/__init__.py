"""Signatures that other tools read: Ed25519 keys with names, signed notes for checkpoints, envelopes for files.

Formats are others' (C2SP signed-note; DSSE and in-toto), so that whoever checks needs nothing of ours. ``keys`` is the
one room that knows the library which signs, the extra ``sign``; without it everything is read, and nothing is signed or
found to be signed.
"""

from epsilog.signing.envelopes import SUFFIX, Envelope, read_envelopes
from epsilog.signing.keys import SigningKey, VerifierKey, decode_base64
from epsilog.signing.notes import Note, Signature, find_note, verify_signatures

__all__ = [
    "SUFFIX",
    "Envelope",
    "Note",
    "Signature",
    "SigningKey",
    "VerifierKey",
    "decode_base64",
    "find_note",
    "read_envelopes",
    "verify_signatures",
]
