"""Receipts: a signed text that proves one charge of a ledger, and names neither its scope nor its key.

- epsilog-receipt/v0
- what was charged, as canonical JSON
- origin, size and root of the ledger's checkpoint, a line each
- the entry's position (0, 1, ...), its leaf hash, and the proof that leads from it to the root

The signer vouches for the charge and for the root. The proof binds both to one entry: a later reader of the ledger
finds that entry at its index, or proves the signer wrong.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from epsilog.ledger import merkle
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.checkpoints import LARGEST_PROOF, Checkpoint, parse_decimal
from epsilog.ledger.entries import Entry, require_sha256
from epsilog.ledger.filters import PRIVACY_FILTERS
from epsilog.ledger.transitions import TRANSITIONS, UNRESERVED_STATES, ChargeState
from epsilog.signing import Note, SigningKey, decode_base64
from epsilog.terms import CheckError, NeighboringRelation, check
from epsilog.terms.codec import UNREADABLE, encode_canonical, parse_json

FIRST = "epsilog-receipt/v0"
DISCLOSED = ("plan_hash", "privacy_unit", "relation", "simulation")  # of a charge's request


@dataclass(frozen=True, slots=True)
class Receipt:
    """One charge, and its position.

    Attributes:
        facts: state, amounts, relation, unit, plan and whether it is a simulation, as plain JSON values.
        checkpoint: of the ledger.
        index: the entry's place, from 0.
        leaf: the entry's leaf hash.
        proof: from the leaf to the checkpoint's root.
    """

    facts: Mapping[str, Any]
    checkpoint: Checkpoint
    index: int
    leaf: bytes
    proof: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.proof) > LARGEST_PROOF:
            raise CheckError("proof", f"of at most {LARGEST_PROOF} hashes", f"{len(self.proof)}")

    @property
    def included(self) -> bool:
        """Return whether the proof leads from the entry to the root."""
        at = self.checkpoint
        return merkle.verify_inclusion(self.leaf, index=self.index, size=at.size, proof=self.proof, root=at.root)

    def __str__(self) -> str:
        """Return the text that is signed."""
        hashes = [base64.b64encode(hashed).decode() for hashed in (self.leaf, *self.proof)]
        lines = [
            FIRST,
            encode_canonical(dict(self.facts)).decode(),
            *str(self.checkpoint).split(),
            str(self.index),
            *hashes,
        ]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a receipt, which has one spelling."""
        lines = text.removesuffix("\n").split("\n")
        if lines[0] != FIRST or len(lines) < 7:
            raise CheckError("receipt", f"{FIRST}, and six lines at least", repr(text[:80]))
        try:
            facts = _check_facts(parse_json(lines[1].encode()))
        except UNREADABLE as error:
            raise CheckError("receipt", f"one that says what was charged ({error})", repr(lines[1][:200])) from error
        hashes = [decode_base64(line, what="proof") for line in lines[6:]]
        checkpoint = Checkpoint.parse("".join(f"{line}\n" for line in lines[2:5]))
        found = cls(facts, checkpoint, parse_decimal(lines[5], what="index"), hashes[0], tuple(hashes[1:]))
        if str(found) != text:
            raise CheckError("receipt", "written in its one spelling", repr(text[:80]))
        return found


def _check_facts(facts: Any) -> dict[str, Any]:
    """Return what a receipt says, if it is what one can say."""
    if set(facts) != {"amounts", "state", *DISCLOSED}:
        raise CheckError("facts", f"amounts, state, {', '.join(DISCLOSED)}", repr(sorted(facts)))
    for kind, amount in facts["amounts"].items():
        check.one_of(tuple(PRIVACY_FILTERS))(kind=kind)
        Amounts.parse(amount)
    check.one_of(tuple(state.value for state in ChargeState if state not in UNRESERVED_STATES))(state=facts["state"])
    check.enum_member(NeighboringRelation)(relation=facts["relation"])
    check.boolean()(simulation=facts["simulation"])
    check.optional(check.text())(privacy_unit=facts["privacy_unit"])
    if facts["plan_hash"] is not None:
        require_sha256(plan_hash=facts["plan_hash"])
    found: dict[str, Any] = facts
    return found


def is_receipt(note: Note) -> bool:
    """Recognize a receipt by its first line."""
    return note.text.startswith(f"{FIRST}\n")


def read_charge_facts(entries: Sequence[Entry], index: int) -> dict[str, Any]:
    """What a receipt says of the charge that an entry (from 0) belongs to, as the ledger stood with that entry."""
    name = entries[index].charge_id
    own = [entry for entry in entries[: index + 1] if name is not None and entry.charge_id == name]
    opened = [entry for entry in own if TRANSITIONS[entry.verb].reserves]
    if not opened:
        raise CheckError("index", "that of a charge", str(index))
    state = TRANSITIONS[own[-1].verb].to_state
    assert state is not None, "every verb of a charge leads to a state"
    request = opened[-1].body["request"]
    amounts = {kind: dict(amount) for kind, amount in opened[-1].amounts.items()}
    return {"amounts": amounts, "state": state.value} | {name: request[name] for name in DISCLOSED}


def write_receipt(
    documents: Sequence[str], *, key: str, origin: str, signer: SigningKey, scope: str | None = None
) -> Note:
    """Return the receipt for a charge, in its present state.

    Args:
        documents: the canonical JSON of every entry.
        key: the charge's.
        origin: what the ledger is called; choose a name that says nothing of the charge.
        signer: the name of the signer.
        scope: of the charge; None if only one scope has the key.
    """
    entries = [Entry.parse(document) for document in documents]
    named = [entry for entry in entries if entry.key == key and scope in (None, entry.scope)]
    reserved = {entry.scope for entry in named if TRANSITIONS[entry.verb].reserves}
    if not reserved:
        raise CheckError("charge", "the key of a charge in this ledger", repr(key))
    if len(reserved) > 1:
        raise CheckError("scope", f"one of {', '.join(sorted(reserved))}: each has this key", "None")
    name = reserved.pop(), key
    places = [index for index, entry in enumerate(entries) if entry.charge_id == name]
    index, leaves = places[-1], [merkle.hash_leaf(document.encode()) for document in documents]
    proof = tuple(merkle.compute_subtree_roots(leaves, merkle.list_inclusion_ranges(index, len(leaves))))
    checkpoint = Checkpoint(origin, len(leaves), merkle.compute_root(leaves))
    receipt = Receipt(read_charge_facts(entries, index), checkpoint, index, leaves[index], proof)
    assert receipt.included, "a proof that we have made holds"
    return Note(str(receipt)).signed_by(signer)
