"""One hash over all entries, and proofs about it: published trees, the definition, and every damage."""

import hashlib
from base64 import b64decode
from itertools import pairwise

import pytest

from epsilog.ledger import merkle
from epsilog.terms import CheckError

# The tree that Certificate Transparency implementations share: transparency-dev/merkle, testonly/constants.go (inputs
# and roots by size) and testdata/{inclusion,consistency}/*/happy-path.json (proofs).
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
INCLUSION = {
    (0, 8): [
        "lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c=",
        "Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4=",
        "a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ=",
    ],
    (5, 8): [
        "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=",
        "yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA=",
        "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
    ],
    (2, 3): ["+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU="],
    (1, 5): [
        "bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=",
        "Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4=",
        "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=",
    ],
    (0, 1): [],
}
CONSISTENCY = {
    (6, 8): [
        "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o=",
        "yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA=",
        "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
    ],
}
PUBLISHED = [merkle.hash_leaf(bytes.fromhex(text)) for text in INPUTS]
LEAVES = [merkle.hash_leaf(b"%d" % i) for i in range(70)]


def defined(leaves):
    """RFC 9162, Sec. 2.1.1, word for word."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + defined(leaves[:k]) + defined(leaves[k:])).digest()


def included(at, size, proof, leaves=LEAVES, **changes):
    said = {"hashed": leaves[at], "index": at, "size": size, "root": merkle.compute_root(leaves[:size])}
    return merkle.verify_inclusion(**said | {"proof": proof} | changes)


def consistent(old, size, proof, leaves=LEAVES, **changes):
    said = {
        "old": old,
        "old_root": merkle.compute_root(leaves[:old]),
        "size": size,
        "root": merkle.compute_root(leaves[:size]),
    }
    return merkle.verify_consistency(**said | {"proof": proof} | changes)


def inclusion(index, size, leaves=LEAVES):
    return merkle.compute_subtree_roots(leaves[:size], merkle.list_inclusion_ranges(index, size))


def consistency(old, size, leaves=LEAVES):
    return merkle.compute_subtree_roots(leaves[:size], merkle.list_consistency_ranges(old, size))


def damaged(proof):
    """Every proof with one bit flipped, or one hash gone, doubled, added or exchanged."""
    for i, hashed in enumerate(proof):
        for bit in range(256):
            changed = bytes(b ^ (1 << bit % 8 if j == bit // 8 else 0) for j, b in enumerate(hashed))
            yield [*proof[:i], changed, *proof[i + 1 :]]
        yield [*proof[:i], *proof[i + 1 :]]
        yield [*proof[:i], hashed, *proof[i:]]
    yield [*proof, bytes(32)]
    yield [bytes(32), *proof]
    for i, (one, other) in enumerate(pairwise(proof)):
        yield [*proof[:i], other, one, *proof[i + 2 :]]


def test_published_roots_and_proofs_come_out():
    for size, root in enumerate(ROOTS):
        assert merkle.compute_root(PUBLISHED[:size]).hex() == root
    for (index, size), proof in INCLUSION.items():
        assert inclusion(index, size, PUBLISHED) == [b64decode(each) for each in proof]
        assert included(index, size, [b64decode(each) for each in proof], PUBLISHED)
    for (old, size), proof in CONSISTENCY.items():
        assert consistency(old, size, PUBLISHED) == [b64decode(each) for each in proof]
        assert consistent(old, size, [b64decode(each) for each in proof], PUBLISHED)


def test_the_root_is_the_defined_one_at_every_size_and_levels_are_all_that_is_held():
    tree = merkle.Frontier()
    for size, hashed in enumerate(LEAVES):
        assert tree.root() == defined(LEAVES[:size])
        assert len(tree._peaks) == size.bit_count()
        tree.add(hashed)


@pytest.mark.slow
def test_every_proof_of_every_tree_holds_and_is_no_longer_than_the_tree_is_high():
    for size in range(1, len(LEAVES) + 1):
        for at in range(size):
            proof = inclusion(at, size)
            assert included(at, size, proof)
            assert len(proof) <= (size - 1).bit_length()
            assert consistent(at, size, consistency(at, size))
        assert consistent(size, size, consistency(size, size))


@pytest.mark.slow
def test_a_proof_serves_for_its_own_place_and_sizes_alone():
    for size in range(1, 20):
        for at in range(size):
            proof = inclusion(at, size)
            for other in range(-1, 21):
                assert included(at, size, proof, index=other) is (other == at)
                if other != size and merkle.compute_root(LEAVES[: max(other, 0)]) != merkle.compute_root(LEAVES[:size]):
                    assert not included(at, size, proof, root=merkle.compute_root(LEAVES[: max(other, 0)]))
            assert not included(at, size, proof, hashed=LEAVES[at + 1])
            grown = consistency(at, size)
            for other in range(1, size):
                if other != at:
                    assert not consistent(other, size, grown), (at, other, size)
                    assert not consistent(at, size, grown, old_root=merkle.compute_root(LEAVES[:other]))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 13])
def test_every_damage_to_a_proof_is_seen(size):
    for at in range(size):
        assert not any(included(at, size, proof) for proof in damaged(inclusion(at, size)))
        assert not any(consistent(at, size, proof) for proof in damaged(consistency(at, size)))


def test_a_hash_of_another_length_is_none():
    assert not included(0, 1, [], hashed=b"", root=b"")
    assert not included(0, 2, [LEAVES[1][:31]])
    assert not consistent(1, 2, [LEAVES[1] + b"\x00"])


def test_a_leaf_is_no_node():
    """Two leaves' hashes as one entry are not the tree of the two: RFC 9162, Sec. 2.1.1 on second preimages."""
    assert merkle.hash_leaf(LEAVES[0] + LEAVES[1]) != merkle.hash_children(LEAVES[0], LEAVES[1])


@pytest.mark.parametrize(
    "asked",
    [
        lambda: merkle.list_inclusion_ranges(0, 0),
        lambda: merkle.list_inclusion_ranges(3, 3),
        lambda: merkle.list_inclusion_ranges(-1, 3),
        lambda: merkle.list_inclusion_ranges(1.5, 3),
        lambda: merkle.list_consistency_ranges(4, 3),
        lambda: merkle.list_consistency_ranges(-1, 3),
        lambda: merkle.compute_subtree_roots(LEAVES[:2], [(0, 3)]),
        lambda: merkle.compute_subtree_roots([], [(0, 1)]),
    ],
)
def test_what_no_tree_has_is_refused(asked):
    with pytest.raises(CheckError):
        asked()


@pytest.mark.parametrize(("old", "size"), [(0, 0), (0, 5), (5, 5)])
def test_what_needs_no_proof_takes_none(old, size):
    assert consistent(old, size, [])
    assert not consistent(old, size, [bytes(32)])
    assert not consistent(old, size, [], old_root=LEAVES[0])
    assert not consistent(0, 0, [], old_root=LEAVES[0], root=LEAVES[0])
    assert not merkle.verify_consistency(old=3, old_root=LEAVES[0], size=2, root=LEAVES[1], proof=[])
