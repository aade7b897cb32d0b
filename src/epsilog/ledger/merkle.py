"""Merkle trees over entries: one hash that stands for the first n of them, and short proofs about it.

A proof is a few roots of subtrees. Arithmetic on sizes selects them (``list_inclusion_ranges``,
``list_consistency_ranges``). ``compute_subtree_roots`` computes them in one pass over the leaves, with a few hashes per
level in memory. The two verifiers take only sizes and hashes.

Source:
    RFC 9162, Sec. 2.1 (the tree of RFC 6962, Sec. 2.1): leaves are hashed after a byte 0, nodes after a byte 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from epsilog.terms import CheckError, check

EMPTY = hashlib.sha256(b"").digest()  # the root of no entries
Span = tuple[int, int]  # leaves from one index (of 0, 1, ...) up to and without another


def hash_leaf(content: bytes) -> bytes:
    """Return the hash of one entry."""
    return hashlib.sha256(b"\x00" + content).digest()


def hash_children(left: bytes, right: bytes) -> bytes:
    """Return the hash of two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(slots=True)
class Frontier:
    r"""A tree that grows at its end: the roots of its complete subtrees, the largest first.

    Attributes:
        count: leaves so far.

    >>> tree = Frontier()
    >>> for content in (b"", b"\x00", b"\x10"):
    ...     tree.add(hash_leaf(content))
    >>> tree.root().hex()[:16]
    'aeb6bcfe274b70a1'
    """

    count: int = 0
    _peaks: list[bytes] = field(default_factory=list)

    def add(self, hashed: bytes) -> None:
        """Take in the hash of the next leaf."""
        self._peaks.append(hashed)
        self.count += 1
        size = self.count
        while size % 2 == 0:  # two subtrees of one size are one of the next
            right = self._peaks.pop()
            self._peaks[-1] = hash_children(self._peaks[-1], right)
            size //= 2

    def root(self) -> bytes:
        """Return the root of all leaves so far."""
        if not self._peaks:
            return EMPTY
        return reduce(lambda right, left: hash_children(left, right), reversed(self._peaks))


def compute_root(leaves: Iterable[bytes]) -> bytes:
    """Return the root over some leaves' hashes."""
    tree = Frontier()
    for hashed in leaves:
        tree.add(hashed)
    return tree.root()


def list_inclusion_ranges(index: int, size: int) -> list[Span]:
    """Return the subtrees that prove a leaf to lie in a tree, from its sibling up.

    Source:
        RFC 9162, Sec. 2.1.3.1.
    """
    size = check.integer(1)(size=size)
    return _path(check.integer(0, size - 1)(index=index), 0, size)


def _path(index: int, start: int, end: int) -> list[Span]:
    if end - start == 1:
        return []
    middle = _middle(start, end)
    if index < middle:
        return [*_path(index, start, middle), (middle, end)]
    return [*_path(index, middle, end), (start, middle)]


def list_consistency_ranges(old: int, size: int) -> list[Span]:
    """Return the subtrees that prove a tree to begin with an older one.

    Source:
        RFC 9162, Sec. 2.1.4.1.
    """
    size = check.integer(0)(size=size)
    old = check.integer(0, size)(old=old)
    return _subproof(old, 0, size, known=True) if old else []


def _subproof(old: int, start: int, end: int, *, known: bool) -> list[Span]:
    """``known`` says that the older tree's root is one that the verifier has, and not a part of it."""
    if old == end:
        return [] if known else [(start, end)]
    middle = _middle(start, end)
    if old <= middle:
        return [*_subproof(old, start, middle, known=known), (middle, end)]
    return [*_subproof(old, middle, end, known=False), (start, middle)]


def _middle(start: int, end: int) -> int:
    """Where a tree is divided: its left part is the largest power of two below its size."""
    return start + (1 << (end - start - 1).bit_length() - 1)


def compute_subtree_roots(leaves: Iterable[bytes], spans: Sequence[Span]) -> list[bytes]:
    """Return the roots of some subtrees that do not overlap, in one pass over the hashes of all leaves."""
    trees = {span: Frontier() for span in sorted(spans)}
    waiting = iter(trees.items())
    (start, end), tree = next(waiting, ((0, 0), Frontier()))
    for index, hashed in enumerate(leaves):
        if index == end:
            (start, end), tree = next(waiting, ((0, 0), tree))
        if start <= index < end:
            tree.add(hashed)
    short = [span for span, tree in trees.items() if tree.count != span[1] - span[0]]
    if short:
        raise CheckError("leaves", f"at least {max(end for _, end in short)}", "fewer")
    return [trees[span].root() for span in spans]


def verify_inclusion(hashed: bytes, *, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof leads from a leaf to a root.

    Source:
        RFC 9162, Sec. 2.1.3.2.
    """
    if not 0 <= index < size or not _hashes(hashed, root, *proof):
        return False
    at, last, found = index, size - 1, hashed
    for other in proof:
        if last == 0:
            return False
        if at % 2 or at == last:
            found = hash_children(other, found)
            while at % 2 == 0 and at:
                at, last = at >> 1, last >> 1
        else:
            found = hash_children(found, other)
        at, last = at >> 1, last >> 1
    return last == 0 and found == root


def _hashes(*found: bytes) -> bool:
    """Return whether these are hashes by their length, so that no two of them can be read as another two."""
    return all(len(each) == len(EMPTY) for each in found)


def verify_consistency(*, old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether a proof shows that a tree begins with an older one.

    Source:
        RFC 9162, Sec. 2.1.4.2; for 0 and for equal sizes RFC 6962, Sec. 2.1.2 has no proof, and none is taken.
    """
    if not _hashes(old_root, root, *proof) or not 0 <= old <= size:
        return False
    if old in {0, size}:
        return not proof and old_root == (EMPTY if old == 0 else root) and (size > 0 or root == EMPTY)
    if not proof:
        return False
    at, last = old - 1, size - 1
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)  # a power of two is one subtree
    while at % 2:
        at, last = at >> 1, last >> 1
    before = after = path[0]
    for other in path[1:]:
        if last == 0:
            return False
        if at % 2 or at == last:
            before, after = hash_children(other, before), hash_children(other, after)
            while at % 2 == 0 and at:
                at, last = at >> 1, last >> 1
        else:
            after = hash_children(after, other)
        at, last = at >> 1, last >> 1
    return last == 0 and (before, after) == (old_root, root)
