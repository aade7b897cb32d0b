"""The charges of a ledger that is worked out again, in little memory: most are closed, and hardly ever asked for again.

A closed charge is kept as the text that is stored of it, and rounds that are over as one hash: a round begins when the
one before it is released, and what is released is neither rerun nor released again. Of a charge that was closed before
a mark there are two hashes, of its scope and key, and of what it was.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from epsilog.spend.copies import replace
from epsilog.spend.entries import ChargeId
from epsilog.spend.records import ChargeRecord, RoundState
from epsilog.spend.states import CLOSED, State
from epsilog.terms import ConflictError, LedgerIntegrityError

NO_ROUNDS = b""
_HALF = 16  # bytes of a hash of which there are two in a record
_RECORD = 2 * _HALF


def sealed(before: bytes, state: RoundState) -> bytes:
    """A hash over a round and, by their hash, all before it; ``NO_ROUNDS`` is before the first."""
    return hashlib.sha256(before + repr((state.number, state.attempts, state.output_hash)).encode()).digest()


def sealed_all(states: Iterable[RoundState]) -> bytes:
    """The hash over the rounds of a charge, in order."""
    found = NO_ROUNDS
    for state in states:
        found = sealed(found, state)
    return found


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


@dataclass(frozen=True, slots=True)
class Seals:
    """Charges that were closed, as hashes of their scopes and keys, and of what they were.

    Attributes:
        records: 32 bytes each, in order: half of a SHA-256 of scope and key, and of what is stored of the charge.
    """

    records: bytes = b""

    def __post_init__(self) -> None:
        if len(self.records) % _RECORD:
            raise ValueError("closed charges must be 32 bytes each")

    def __len__(self) -> int:
        return len(self.records) // _RECORD

    def _place(self, name: bytes) -> int:
        return bisect_left(range(len(self)), name, key=self._name)

    def _name(self, place: int) -> bytes:
        return self.records[place * _RECORD : place * _RECORD + _HALF]

    def find(self, charge: ChargeId) -> bytes | None:
        """What stands for a charge; None if it is none of these."""
        name = _name_of(charge)
        place = self._place(name)
        if place == len(self) or self._name(place) != name:
            return None
        return self.records[place * _RECORD + _HALF : (place + 1) * _RECORD]

    def with_charges(self, closed: Mapping[ChargeId, tuple[str, bytes]]) -> Seals:
        """The same with other charges, or with what became of these."""
        parts, at = [], 0
        for name, what in sorted((_name_of(charge), seal_of(*row)) for charge, row in closed.items()):
            place = self._place(name)
            parts += [self.records[at : place * _RECORD], name, what]
            at = (place + (place < len(self) and self._name(place) == name)) * _RECORD
        return Seals(b"".join([*parts, self.records[at:]]))


def _half(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_HALF]


def _name_of(charge: ChargeId) -> bytes:
    return _half(json.dumps(charge))


def seal_of(document: str, rounds: bytes) -> bytes:
    """What stands for what is stored of a charge."""
    return _half(json.dumps([document, rounds.hex()]))


@dataclass(slots=True)
class Lives(Mapping[ChargeId, ChargeRecord]):
    """Every charge that is known by its scope and key, and of others that they were closed.

    Attributes:
        open: those that may still move money.
        rounds: how far these have come.
        closed: of the others the document, as it is stored, and the hash over their rounds.
        sealed: those that were closed before.
    """

    open: dict[ChargeId, ChargeRecord] = field(default_factory=dict)
    rounds: dict[ChargeId, Rounds] = field(default_factory=dict)
    closed: dict[ChargeId, tuple[str, bytes]] = field(default_factory=dict)
    sealed: Seals = field(default_factory=Seals)
    _recalled: int = 0  # of the sealed ones are among the closed ones too

    def __getitem__(self, name: ChargeId) -> ChargeRecord:
        charge = self.open.get(name)
        return ChargeRecord.parse(self.closed[name][0]) if charge is None else charge

    def __iter__(self) -> Iterator[ChargeId]:
        yield from self.open
        yield from self.closed

    def __len__(self) -> int:
        return len(self.open) + len(self.closed)

    @property
    def unnamed(self) -> int:
        """How many are known as closed alone."""
        return len(self.sealed) - self._recalled

    def copy(self) -> Lives:
        """The same, to go on with."""
        return Lives(dict(self.open), dict(self.rounds), dict(self.closed), self.sealed, self._recalled)

    def seals(self) -> Seals:
        """All that are closed."""
        return self.sealed.with_charges(self.closed) if self.closed else self.sealed

    def recall(
        self,
        name: ChargeId,
        needs: Iterable[State | None],
        stored: Callable[[ChargeId], tuple[ChargeRecord | None, Iterable[RoundState]]],
    ) -> None:
        """Knows a charge again that was closed before, where something is to happen to it.

        What is stored of it is what it became since, if it did; so what it was is that, in one of the states in which
        this can happen, and the hash decides.

        Args:
            name: the charge's scope and key.
            needs: states in which this can happen.
            stored: tells what is stored of a charge, and of its rounds.
        """
        was = None if name in self.open or name in self.closed else self.sealed.find(name)
        if was is None:
            return
        states = [state for state in needs if state in CLOSED]
        if not states:
            raise ConflictError(f"charge {name[1]!r} at {name[0]!r} is closed, since before the mark")
        now, rounds = stored(name)
        seal = sealed_all(rounds)
        for state in states if now is not None else ():
            assert now is not None
            before = replace(now, state=state, decommissioned=None)
            if seal_of(before.document(), seal) == was:
                self.closed[name] = before.document(), seal
                self._recalled += 1
                return
        said = f"what is stored of charge {name[1]!r} at {name[0]!r} is not what it was at the mark"
        raise LedgerIntegrityError(said)

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

    def was(self, name: tuple[object, object], document: object, rounds: bytes) -> bool:
        """Whether this is a charge that is known as closed alone, with the hash over its rounds."""
        scope, key = name
        if not (isinstance(scope, str) and isinstance(key, str) and isinstance(document, str)):
            return False
        was = self.sealed.find((scope, key))
        return was is not None and seal_of(document, rounds) == was
