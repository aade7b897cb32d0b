"""Signed notes (C2SP signed-note): a text, an empty line, and one line per signature.

Checkpoints and receipts are notes. For an e-mail or a git tag, a note can also be one line of ASCII: each line of it is
a word, between ``epsilog-note`` and ``end``.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from epsilog.signing.keys import SigningKey, VerifierKey, decode_base64
from epsilog.terms import CheckError

DASH = "\N{EM DASH} "
MAX_CHARACTERS = 1 << 20  # of a note
MAX_SIGNATURES = 100
BEGIN, END, SIGNED, EMPTY = "epsilog-note", "end", "--", "."
_SAFE = "!\"#$&'()*+,-./:;<=?@[\\]^_`{|}~"  # printable ASCII but letters and digits, the space, % and >


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature of a note with the key that it claims; only that key can verify it."""

    name: str
    key_id: bytes
    content: bytes

    def __post_init__(self) -> None:
        if not self.name or "+" in self.name or any(c.isspace() for c in self.name):
            raise CheckError("name", "without spaces or '+'", repr(self.name))

    @property
    def label(self) -> str:
        """Name and id, as in ``VerifierKey.label``."""
        return f"{self.name}+{self.key_id.hex()}"

    def __str__(self) -> str:
        return f"{DASH}{self.name} {base64.b64encode(self.key_id + self.content).decode()}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read one signature line, without its newline."""
        name, _, encoded = line.removeprefix(DASH).partition(" ")
        content = decode_base64(encoded, what="signature") if line.startswith(DASH) else b""
        if len(content) < 5:
            raise CheckError("signature", "a line of an em dash, a name and base64", repr(line[:200]))
        return cls(name, content[:4], content[4:])


@dataclass(frozen=True, slots=True)
class Note:
    """A text with its signatures, if any.

    Attributes:
        text: ends with a newline, and has no other control characters.
        signatures: in the order of the note.
    """

    text: str
    signatures: tuple[Signature, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.endswith("\n") or any(c < " " and c != "\n" for c in self.text):
            raise CheckError("note", "lines without control characters, each ended by a newline", repr(self.text[:80]))
        if len(self.signatures) > MAX_SIGNATURES:
            raise CheckError("note", f"of at most {MAX_SIGNATURES} signatures", f"{len(self.signatures)}")

    def __str__(self) -> str:
        signed = "".join(f"{signature}\n" for signature in self.signatures)
        return f"{self.text}\n{signed}" if signed else self.text

    @classmethod
    def parse(cls, content: str) -> Self:
        """Read a note; refuse an ambiguous one."""
        if len(content) > MAX_CHARACTERS:
            raise CheckError("note", f"at most {MAX_CHARACTERS} characters long", f"{len(content)}")
        text, gap, rest = content.rpartition("\n\n")
        if not gap or not rest.startswith(DASH):
            return cls(content)
        lines = rest.split("\n")
        if lines.pop() != "":
            raise CheckError("note", "ended by a newline", repr(rest[-80:]))
        return cls(text + "\n", tuple(Signature.parse(line) for line in lines))

    def signed_by(self, key: SigningKey) -> Self:
        """Return the note with one more signature."""
        verifier = key.verifier
        added = Signature(verifier.name, verifier.key_id, key.sign(self.text.encode()))
        return type(self)(self.text, (*self.signatures, added))

    def in_one_line(self) -> str:
        """Return the note as one line of ASCII, which ``find_note`` finds in any text."""
        lines = [_encode_line(line) for line in self.text.removesuffix("\n").split("\n")]
        signed = [word for one in self.signatures for word in (SIGNED, *map(_encode_line, str(one).split(" ")[1:]))]
        return " ".join([BEGIN, *lines, *signed, END])


def _encode_line(line: str) -> str:
    """Return a line as one word, different from the reserved ones."""
    encoded = quote(line, safe=_SAFE) or EMPTY
    if not line or encoded not in (BEGIN, END, SIGNED, EMPTY):
        return encoded
    return f"%{ord(encoded[0]):02X}{encoded[1:]}"


def find_note(content: str) -> Note:
    """Read a note from its file, or from its one line within other text, which may be quoted and wrapped."""
    if len(content) > MAX_CHARACTERS:
        raise CheckError("note", f"at most {MAX_CHARACTERS} characters long", f"{len(content)}")
    found = _parse_note_words(content)
    if not found:
        return Note.parse(content)
    if len(found) > 1:
        raise CheckError("note", "the only one in its text", f"{len(found)} notes")
    return Note(*_unfold_note(found.pop()))


def _parse_note_words(content: str) -> set[tuple[str, ...]]:
    """Return the words of each one-line note in a text; mail puts ``>`` before a quotation."""
    found, words = set(), None
    for word in content.replace(">", " ").split():
        if word == BEGIN:
            words = list[str]()
        elif words is not None and word == END:
            found.add(tuple(words))
            words = None
        elif words is not None:
            words.append(word)
    return found


def _unfold_note(words: tuple[str, ...]) -> tuple[str, tuple[Signature, ...]]:
    count = words.index(SIGNED) if SIGNED in words else len(words)
    lines = ["" if word == EMPTY else _decode_line(word) for word in words[:count]]
    signed = words[count:]
    if len(signed) % 3 or any(word != SIGNED for word in signed[::3]):
        raise CheckError("note", f"signatures as {SIGNED} NAME SIGNATURE", " ".join(signed)[:200])
    pairs = zip(signed[1::3], signed[2::3], strict=True)
    found = tuple(Signature.parse(f"{DASH}{_decode_line(name)} {encoded}") for name, encoded in pairs)
    return "".join(f"{line}\n" for line in lines), found


def _decode_line(encoded: str) -> str:
    """Return the line that a word encodes."""
    try:
        return unquote(encoded, errors="strict")
    except UnicodeDecodeError as error:
        raise CheckError("note", "percent-encoded UTF-8", repr(encoded[:80])) from error


def verify_signatures(note: Note, keys: Collection[VerifierKey]) -> Iterator[tuple[VerifierKey, bool]]:
    """Yield each of these keys that a note claims as a signer, and whether the signature is valid."""
    for signature in note.signatures:
        for key in keys:
            if (signature.name, signature.key_id) == (key.name, key.key_id):
                yield key, key.verifies(signature.content, note.text.encode())
