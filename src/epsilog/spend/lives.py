"""The charges of a ledger that is worked out again, in little memory: most are closed, and hardly ever asked for again.

A closed charge is kept as the text that is stored of it, and rounds that are over as one hash: a round begins when the
one before it is released, and what is released is neither rerun nor released again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
class Lives(Mapping[str, ChargeRecord]):
    """Every charge, by its key.

    Attributes:
        open: those that may still move money.
        rounds: how far these have come.
        closed: of the others scope and document, as they are stored, and the hash over their rounds.
    """

    open: dict[str, ChargeRecord] = field(default_factory=dict)
    rounds: dict[str, Rounds] = field(default_factory=dict)
    closed: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)

    def __getitem__(self, key: str) -> ChargeRecord:
        charge = self.open.get(key)
        return ChargeRecord.parse(self.closed[key][1]) if charge is None else charge

    def __iter__(self) -> Iterator[str]:
        yield from self.open
        yield from self.closed

    def __len__(self) -> int:
        return len(self.open) + len(self.closed)

    def put(self, charge: ChargeRecord) -> None:
        """Takes in where a charge stands now."""
        if charge.closed is None:
            self.open[charge.key] = charge
            return
        self.open.pop(charge.key, None)
        rounds = self.rounds.pop(charge.key, None)
        seal = self.seal_of(charge.key) if rounds is None else rounds.seal
        self.closed[charge.key] = charge.scope, charge.document(), seal

    def put_round(self, key: str, state: RoundState) -> None:
        """Takes in where a round of an open charge stands now."""
        known = self.rounds.get(key)
        self.rounds[key] = Rounds(state) if known is None else known.put(state)

    def row(self, key: str) -> tuple[str, str] | None:
        """Scope and document of a charge, as they are stored."""
        if key in self.closed:
            return self.closed[key][:2]
        charge = self.open.get(key)
        return None if charge is None else (charge.scope, charge.document())

    def seal_of(self, key: str) -> bytes:
        """The hash over the rounds of a charge."""
        if key in self.rounds:
            return self.rounds[key].seal
        return self.closed[key][2] if key in self.closed else NO_ROUNDS
