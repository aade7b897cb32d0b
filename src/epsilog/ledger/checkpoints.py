"""Checkpoints: the number of entries of a ledger and one hash over all, to be kept where its owner cannot change them.

A checkpoint is a C2SP tlog-checkpoint: three lines (origin, number of entries, root of their Merkle tree in base64),
signed as a note or not. Its root binds every entry, including the hash of the last, so it has no line for the chain's
head. The leaves are the entries' canonical JSON.

A checkpoint may come with a consistency proof from an older one, in the form of C2SP tlog-witness: a line ``old SIZE``,
a line for each hash, an empty line, and the checkpoint.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from epsilog.ledger import merkle
from epsilog.signing import Note, SigningKey, VerifierKey, decode_base64, find_note, verify_signatures
from epsilog.terms import CheckError, check

LARGEST_PROOF = 63  # hashes; C2SP tlog-witness
OLD = "old "


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The size and root of a ledger, as its owner states them.

    Attributes:
        origin: the owner's name for the ledger.
        size: number of entries.
        root: root of the Merkle tree over them, 32 bytes.
    """

    UNNAMED: ClassVar[str] = "localhost/ledger"  # the origin of an unnamed ledger

    origin: str
    size: Annotated[int, check.integer(0)]
    root: bytes

    def __post_init__(self) -> None:
        if not self.origin or any(c.isspace() for c in self.origin):
            raise CheckError("origin", "a name without spaces, such as example.org/claims", repr(self.origin))
        check.check_fields(self)
        if len(self.root) != 32:
            raise CheckError("root", "32 bytes", f"{len(self.root)}")
        if self.size == 0 and self.root != merkle.EMPTY:
            raise CheckError("root", "that of an empty tree", base64.b64encode(self.root).decode())

    @classmethod
    def over(cls, documents: Iterable[str], *, origin: str) -> Self:
        """Return the checkpoint of some entries, in one pass."""
        tree = merkle.Frontier()
        for document in documents:
            tree.add(merkle.hash_leaf(document.encode()))
        return cls(origin, tree.count, tree.root())

    def __str__(self) -> str:
        """Return the text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a checkpoint; refuse further lines, which cannot be checked."""
        lines = text.removesuffix("\n").split("\n")
        if len(lines) != 3 or not text.endswith("\n"):
            raise CheckError("checkpoint", "three lines: origin, size, root", repr(text[:200]))
        return cls(lines[0], parse_decimal(lines[1], what="size"), decode_base64(lines[2], what="root"))

    def note(self, key: SigningKey | None) -> Note:
        """Return it as a note, signed if a key is given."""
        note = Note(str(self))
        return note if key is None else note.signed_by(key)

    def has_other_origin(self, other: Checkpoint) -> bool:
        """Return whether two checkpoints name different ledgers; an unnamed ledger may be any."""
        return self.origin != other.origin and self.UNNAMED not in (self.origin, other.origin)

    @property
    def summary(self) -> str:
        """Return the origin, the number of entries and the root, as text."""
        return f"{self.origin}, {self.size} entries, root {base64.b64encode(self.root).decode()}"


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as sent or stored: with its signatures, and optionally a consistency proof from an older one.

    Attributes:
        note: the signed note.
        old: number of entries of the older checkpoint; None without a proof.
        proof: the hashes of the proof.
    """

    note: Note
    old: int | None = None
    proof: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.proof) > LARGEST_PROOF:
            raise CheckError("proof", f"of at most {LARGEST_PROOF} hashes", f"{len(self.proof)}")
        Checkpoint.parse(self.note.text)

    @property
    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint without signatures and proof."""
        return Checkpoint.parse(self.note.text)

    def __str__(self) -> str:
        if self.old is None:
            return str(self.note)
        lines = [f"{OLD}{self.old}", *(base64.b64encode(hashed).decode() for hashed in self.proof)]
        return "".join(f"{line}\n" for line in lines) + f"\n{self.note}"

    @classmethod
    def parse(cls, content: str) -> Self:
        """Parse a checkpoint: alone, after a proof, or in one line of other text."""
        if not content.startswith(OLD):
            return cls(find_note(content))
        before, gap, note = content.partition("\n\n")
        first, *lines = before.split("\n")
        if not gap:
            raise CheckError("checkpoint", "below its proof, after an empty line", repr(content[-80:]))
        old = parse_decimal(first.removeprefix(OLD), what="old")
        return cls(Note.parse(note), old, tuple(decode_base64(line, what="proof") for line in lines))

    def signed_by(self, keys: Collection[VerifierKey]) -> Checkpoint:
        """Return what it says, if one of these keys has signed it, and no signature that claims to be of one is broken.

        Raises:
            CheckError: none has, or one has not.
        """
        found = [holds for _, holds in verify_signatures(self.note, keys)]
        if not found or not all(found):
            bound = f"signed by {' or '.join(key.label for key in keys) or 'a key that is given'}"
            signers = ", ".join(signature.label for signature in self.note.signatures)
            raise CheckError("checkpoint", bound, f"what stands for the signature of {signers}" if signers else "none")
        return self.checkpoint

    def follows(self, older: Checkpoint) -> bool | None:
        """Whether the proof shows that this ledger begins with an older one; None where it is no proof about that."""
        now = self.checkpoint
        if self.old is None and older.size == now.size:
            return older.root == now.root
        if self.old != older.size:
            return None
        return merkle.verify_consistency(
            old=older.size, old_root=older.root, size=now.size, root=now.root, proof=self.proof
        )


def parse_decimal(text: str, *, what: str) -> int:
    """A count in decimal, in its one spelling."""
    if not (text.isascii() and text.isdecimal()) or (text[0] == "0" and text != "0") or len(text) > 16:
        raise CheckError(what, "a whole number in decimal", repr(text[:40]))
    return int(text)


def prove_consistency(older: Checkpoint, documents: Iterable[str], note: Note) -> StoredCheckpoint:
    """Return the checkpoint of a ledger together with the proof that it only grew since an older one.

    Args:
        older: what was kept.
        documents: the entries that ``note`` is about.
        note: the new checkpoint.

    Raises:
        CheckError: the ledger does not begin with the older one, or has another name; such a checkpoint must not be
            signed.
    """
    now = Checkpoint.parse(note.text)
    if now.has_other_origin(older):
        raise CheckError("since", f"a checkpoint of {now.origin}", older.origin)
    if older.size > now.size:
        raise CheckError("since", f"a checkpoint of at most {now.size} entries", f"{older.size}")
    hashes = (merkle.hash_leaf(document.encode()) for document in documents)
    proof = tuple(merkle.compute_subtree_roots(hashes, merkle.list_consistency_ranges(older.size, now.size)))
    found = StoredCheckpoint(note, older.size, proof)
    if not found.follows(older):
        raise CheckError("since", "a checkpoint of this ledger", f"{older.summary}, with which it does not begin")
    return found
