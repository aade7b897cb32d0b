"""The charges of a ledger that is worked out again, in little memory: most are closed, and hardly ever asked for again.

A closed charge is kept as the text that is stored of it, and rounds that are over as one hash: a round begins when the
one before it is released, and what is released is neither rerun nor released again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from epsilog.spend.entries import ChargeId
from epsilog.spend.records import ChargeRecord, RoundState

NO_ROUNDS = b""


def sealed(before: bytes, state: RoundState) -> bytes:
    """A hash over a round and, by their hash, all before it; ``NO_ROUNDS`` is before the first."""
    return hashlib.sha256(before + repr((state.number, state.attempts, state.output_hash)).encode()).digest()


@dataclass(frozen=True, slots=True)
class Rounds:
    """How far a charge has come.

    Attributes:
        last: the last round that began.
        before: the hash over all before it.
    """

    last: RoundState
    before: bytes = NO_ROUNDS

    @property
    def seal(self) -> bytes:
        """The hash over all of them."""
        return sealed(self.before, self.last)

    def state(self, number: int) -> RoundState | None:
        """Where a round stands; of one that is over, that it was released: no rule asks what."""
        if number < self.last.number:
            return RoundState(number, attempts=1, output_hash="")
        return self.last if number == self.last.number else None

    def put(self, state: RoundState) -> Rounds:
        """The same with a round that began, or went on."""
        return Rounds(state, self.before if state.number == self.last.number else self.seal)


@dataclass(slots=True)
class Lives(Mapping[ChargeId, ChargeRecord]):
    """Every charge, by scope and key.

    Attributes:
        open: those that may still move money.
        rounds: how far these have come.
        closed: of the others the document, as it is stored, and the hash over their rounds.
    """

    open: dict[ChargeId, ChargeRecord] = field(default_factory=dict)
    rounds: dict[ChargeId, Rounds] = field(default_factory=dict)
    closed: dict[ChargeId, tuple[str, bytes]] = field(default_factory=dict)

    def __getitem__(self, name: ChargeId) -> ChargeRecord:
        charge = self.open.get(name)
        return ChargeRecord.parse(self.closed[name][0]) if charge is None else charge

    def __iter__(self) -> Iterator[ChargeId]:
        yield from self.open
        yield from self.closed

    def __len__(self) -> int:
        return len(self.open) + len(self.closed)

    def put(self, charge: ChargeRecord) -> None:
        """Takes in where a charge stands now."""
        name = charge.id
        if charge.closed is None:
            self.open[name] = charge
            return
        self.open.pop(name, None)
        rounds = self.rounds.pop(name, None)
        seal = self.seal_of(name) if rounds is None else rounds.seal
        self.closed[name] = charge.document(), seal

    def put_round(self, name: ChargeId, state: RoundState) -> None:
        """Takes in where a round of an open charge stands now."""
        known = self.rounds.get(name)
        self.rounds[name] = Rounds(state) if known is None else known.put(state)

    def document(self, name: ChargeId) -> str | None:
        """The document of a charge, as it is stored."""
        if name in self.closed:
            return self.closed[name][0]
        charge = self.open.get(name)
        return None if charge is None else charge.document()

    def seal_of(self, name: ChargeId) -> bytes:
        """The hash over the rounds of a charge."""
        if name in self.rounds:
            return self.rounds[name].seal
        return self.closed[name][1] if name in self.closed else NO_ROUNDS
