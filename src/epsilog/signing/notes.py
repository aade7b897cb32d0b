"""Signed notes (C2SP signed-note): a text, an empty line, and a line for each signature.

Checkpoints and receipts are notes. A note can also be told in one line of ASCII, for an e-mail or a git tag: each line
of it as a word, between ``epsilog-note`` and ``end``.
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
LARGEST = 1 << 20  # characters of a note
MOST_SIGNATURES = 100
BEGIN, END, SIGNED, EMPTY = "epsilog-note", "end", "--", "."
_PLAIN = "!\"#$&'()*+,-./:;<=?@[\\]^_`{|}~"  # printable ASCII but letters and digits, the space, % and >


@dataclass(frozen=True, slots=True)
class Signature:
    """Whose signature a note carries, as it says itself: only a key that somebody holds shows whether it is.

    Attributes:
        name: the key's name.
        key_id: the key's four bytes.
        content: what the key has made of the text.
    """

    name: str
    key_id: bytes
    content: bytes

    def __post_init__(self) -> None:
        if not self.name or "+" in self.name or any(c.isspace() for c in self.name):
            raise CheckError("name", "without spaces or '+'", repr(self.name))

    @property
    def label(self) -> str:
        """Name and id, as ``VerifierKey.label``."""
        return f"{self.name}+{self.key_id.hex()}"

    def __str__(self) -> str:
        return f"{DASH}{self.name} {base64.b64encode(self.key_id + self.content).decode()}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Reads one signature line, without its newline."""
        name, _, encoded = line.removeprefix(DASH).partition(" ")
        content = decode_base64(encoded, what="signature") if line.startswith(DASH) else b""
        if len(content) < 5:
            raise CheckError("signature", "a line of an em dash, a name and base64", repr(line[:200]))
        return cls(name, content[:4], content[4:])


@dataclass(frozen=True, slots=True)
class Note:
    """A text and who has signed it; without signatures it is the text alone.

    Attributes:
        text: ends with a newline, and has no other control characters.
        signatures: in the order in which they stand.
    """

    text: str
    signatures: tuple[Signature, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.endswith("\n") or any(c < " " and c != "\n" for c in self.text):
            raise CheckError("note", "lines without control characters, each ended by a newline", repr(self.text[:80]))
        if len(self.signatures) > MOST_SIGNATURES:
            raise CheckError("note", f"of at most {MOST_SIGNATURES} signatures", f"{len(self.signatures)}")

    def __str__(self) -> str:
        signed = "".join(f"{signature}\n" for signature in self.signatures)
        return f"{self.text}\n{signed}" if signed else self.text

    @classmethod
    def parse(cls, content: str) -> Self:
        """Reads a note; one that cannot be read in one way only is refused."""
        if len(content) > LARGEST:
            raise CheckError("note", f"at most {LARGEST} characters long", f"{len(content)}")
        text, gap, rest = content.rpartition("\n\n")
        if not gap or not rest.startswith(DASH):
            return cls(content)
        lines = rest.split("\n")
        if lines.pop() != "":
            raise CheckError("note", "ended by a newline", repr(rest[-80:]))
        return cls(text + "\n", tuple(Signature.parse(line) for line in lines))

    def signed_by(self, key: SigningKey) -> Self:
        """The same note with one signature more."""
        verifier = key.verifier
        added = Signature(verifier.name, verifier.key_id, key.sign(self.text.encode()))
        return type(self)(self.text, (*self.signatures, added))

    def in_one_line(self) -> str:
        """The whole note as one line of ASCII; ``find_note`` reads it back from any text around it."""
        lines = [_to_word(line) for line in self.text.removesuffix("\n").split("\n")]
        signed = [word for one in self.signatures for word in (SIGNED, *map(_to_word, str(one).split(" ")[1:]))]
        return " ".join([BEGIN, *lines, *signed, END])


def _to_word(line: str) -> str:
    """A line as one word that is none of ours."""
    word = quote(line, safe=_PLAIN) or EMPTY
    if not line or word not in (BEGIN, END, SIGNED, EMPTY):
        return word
    return f"%{ord(word[0]):02X}{word[1:]}"


def find_note(content: str) -> Note:
    """Reads a note: the file as it was written, or its one line in the midst of other text, quoted and wrapped."""
    if len(content) > LARGEST:
        raise CheckError("note", f"at most {LARGEST} characters long", f"{len(content)}")
    found = _parse_note_words(content)
    if not found:
        return Note.parse(content)
    if len(found) > 1:
        raise CheckError("note", "the only one in its text", f"{len(found)} notes")
    return Note(*_unfold_note(found.pop()))


def _parse_note_words(content: str) -> set[tuple[str, ...]]:
    """The words of each note that a text tells in one line; mail puts ``>`` before what it quotes."""
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
    lines = ["" if word == EMPTY else _line(word) for word in words[:count]]
    signed = words[count:]
    if len(signed) % 3 or any(word != SIGNED for word in signed[::3]):
        raise CheckError("note", f"signatures as {SIGNED} NAME SIGNATURE", " ".join(signed)[:200])
    pairs = zip(signed[1::3], signed[2::3], strict=True)
    found = tuple(Signature.parse(f"{DASH}{_line(name)} {made}") for name, made in pairs)
    return "".join(f"{line}\n" for line in lines), found


def _line(word: str) -> str:
    """A line that was told as a word."""
    try:
        return unquote(word, errors="strict")
    except UnicodeDecodeError as error:
        raise CheckError("note", "percent-encoded UTF-8", repr(word[:80])) from error


def verify_signatures(note: Note, keys: Collection[VerifierKey]) -> Iterator[tuple[VerifierKey, bool]]:
    """Which of these keys a note says to be signed by, and whether it is."""
    for signature in note.signatures:
        for key in keys:
            if (signature.name, signature.key_id) == (key.name, key.key_id):
                yield key, key.verifies(signature.content, note.text.encode())
