"""Signatures in standard formats: named Ed25519 keys, signed notes for checkpoints, and envelopes for files.

The formats (C2SP signed-note, DSSE, in-toto) are public, so other tools can verify them. Only ``keys`` imports the
library that signs, the extra ``sign``. Without it, everything can be read, but nothing signed or verified.
"""

from epsilog.signing.envelopes import SUFFIX as SUFFIX, Envelope, read_envelopes
from epsilog.signing.keys import SigningKey, VerifierKey, decode_base64 as decode_base64
from epsilog.signing.notes import Note, find_note as find_note, verify_signatures

__all__ = [
    "Envelope",
    "Note",
    "SigningKey",
    "VerifierKey",
    "read_envelopes",
    "verify_signatures",
]
