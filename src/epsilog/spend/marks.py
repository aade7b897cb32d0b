"""Marks: how far somebody has verified a ledger, and what it amounted to there, to go on from.

A mark belongs to whoever verifies, and lies where the ledger's owner cannot change it: what it says is believed. From
the ledger itself nothing is. Of charges that were closed it has two hashes each, so that one that is named again, and
what is stored of it, can still be judged.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from epsilog import disk
from epsilog.spend.balances import Balance
from epsilog.spend.entries import GENESIS, ChargeId, sha256
from epsilog.spend.lives import Lives, Rounds, Seals
from epsilog.spend.records import ChargeRecord, RoundState, Standing
from epsilog.terms import CheckError, check
from epsilog.terms.codec import UNREADABLE, canonical, fingerprint

KIND = "epsilog-ledger-mark/v1"


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything that a verification needs to know of the entries that were verified before.

    Attributes:
        count: how many they are.
        head: hash of the last of them.
        balances: every budget, by scope.
        charges: every charge; those that were closed when the mark was written to a file by their hashes alone.
        populated: scopes at or under which there are charges.
        standing: whether a restore waits to be accepted.
        restored: indexes of the entries that say that the ledger was restored from a backup.
        overridden: scope and key of each charge whose price an owner has allowed, in order.
        priced: charges whose price was worked out again.
        unpriced: charges whose price could not be.
    """

    count: int = 0
    head: str = GENESIS
    balances: Mapping[str, Balance] = field(default_factory=dict)
    charges: Lives = field(default_factory=Lives)
    populated: frozenset[str] = frozenset()
    standing: Standing = field(default_factory=Standing)
    restored: tuple[int, ...] = ()
    overridden: tuple[ChargeId, ...] = ()
    priced: int = 0
    unpriced: int = 0

    def document(self) -> str:
        """As a file has it: JSON, with a hash over all of it."""
        said = {
            "kind": KIND,
            "count": self.count,
            "head": self.head,
            "balances": [balance.document() for balance in self.balances.values()],
            "open": [[charge.document(), _rounds(self.charges, name)] for name, charge in self.charges.open.items()],
            "closed": base64.b64encode(self.charges.seals().records).decode(),
            "populated": sorted(self.populated),
            "standing": [self.standing.restored, self.standing.accepted],
            "restored": list(self.restored),
            "overridden": [list(name) for name in self.overridden],
            "priced": self.priced,
            "unpriced": self.unpriced,
        }
        return canonical({"mark": said, "sha256": fingerprint(said)}).decode()

    @classmethod
    def parse(cls, document: str) -> Self:
        """Reads what ``document`` wrote; anything else, and what was damaged, is a ``CheckError``."""
        try:
            told = json.loads(document)
            said = told["mark"]
            if set(told) != {"mark", "sha256"} or told["sha256"] != fingerprint(said):
                raise ValueError("its hash is another")
            if said["kind"] != KIND:
                raise ValueError(f"it is of kind {said['kind']!r}")
            return cls._of(said)
        except (*UNREADABLE, OverflowError) as error:
            raise CheckError("mark", f"a mark as this release writes it ({error})", repr(document[:40])) from error

    @classmethod
    def _of(cls, said: Mapping[str, Any]) -> Self:
        sha256(head=said["head"])
        balances = [Balance.parse(one) for one in said["balances"]]
        lives = Lives(sealed=Seals(base64.b64decode(said["closed"], validate=True)))
        for one, rounds in said["open"]:
            charge = ChargeRecord.parse(one)
            lives.open[charge.id] = charge
            if rounds is not None:
                lives.rounds[charge.id] = Rounds(RoundState(*rounds[1:]), bytes.fromhex(rounds[0]))
        return cls(
            count=check.integer(0)(count=said["count"]),
            head=said["head"],
            balances={balance.scope: balance for balance in balances},
            charges=lives,
            populated=frozenset(said["populated"]),
            standing=Standing(*said["standing"]),
            restored=tuple(said["restored"]),
            overridden=tuple((str(scope), str(key)) for scope, key in said["overridden"]),
            priced=check.integer(0)(priced=said["priced"]),
            unpriced=check.integer(0)(unpriced=said["unpriced"]),
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        """The mark in a file."""
        try:
            return cls.parse(file.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise CheckError("mark", "text", str(file)) from error

    def write(self, file: Path) -> None:
        """Replaces the mark in a file, so that a kill or a power cut leaves the old one or the new one."""
        disk.write_atomically(file, self.document().encode())


def _rounds(charges: Lives, name: ChargeId) -> list[Any] | None:
    rounds = charges.rounds.get(name)
    if rounds is None:
        return None
    return [rounds.before.hex(), rounds.last.number, rounds.last.attempts, rounds.last.output_hash]
