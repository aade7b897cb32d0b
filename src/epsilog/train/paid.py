"""What was paid for, in one object: a scheme, the charge that pays for it, and where its draws come from.

Held apart, the three can disagree: a run could train another scheme than the one that was priced, or draw the noise
that protects people from a seed. A ``PaidRun`` compares them at birth with the request that the ledger has stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.spend import RunCharge
from epsilog.terms import NeighboringRelation, Scheme
from epsilog.train.noise import Randomness
from epsilog.train.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class PaidRun:
    """A scheme that is trained under the charge that pays for it, with draws of the kind that the charge allows.

    Attributes:
        scheme: how people are protected; the charge's stored release is exactly what it releases.
        charge: reserved or later.
        randomness: the operating system's, or a seed where the charge is a simulation, and only there.
    """

    scheme: Scheme
    charge: RunCharge
    randomness: Randomness

    def __post_init__(self) -> None:
        request, rounds = self.charge.request, self.scheme.rounds
        if not self.scheme.noise_multiplier > 0:
            raise ValueError(f"noise_multiplier must be above 0 to train, got {self.scheme.noise_multiplier!r}")
        if self.scheme.release() != request.release:
            raise ValueError(
                f"scheme must release what the charge paid for, {request.release!r}, got {self.scheme.release()!r}"
            )
        if request.rounds not in (None, rounds):
            raise ValueError(f"rounds must be {request.rounds}, as the charge says, got {rounds}")
        if request.relation is NeighboringRelation.REPLACE_ONE:
            raise ValueError("relation must be add-or-remove-one or zero-out: no scheme here is priced for replace-one")
        if request.simulation != self.randomness.is_simulated:
            kind, other = ("a simulation", "a seed") if request.simulation else ("no simulation", "from_os()")
            raise ValueError(f"randomness must be {other}, as the charge is {kind}, got {self.randomness!r}")
        if self.randomness.noise_factor != 1:
            raise ValueError(f"noise_factor must be 1 under a charge, got {self.randomness.noise_factor!r}")

    def require_unit(self, task: Task) -> None:
        """Refuses data whose privacy unit is another than the one that was paid for."""
        if self.charge.request.privacy_unit != task.unit:
            raise ValueError(
                f"privacy_unit must be {self.charge.request.privacy_unit!r}, as the charge says, got {task.unit!r}"
            )
