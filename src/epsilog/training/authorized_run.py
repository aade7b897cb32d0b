"""What was paid for, in one object: a scheme, the charge that pays for it, and where its draws come from.

Held apart, the three can disagree: a run could train another scheme than the one that was priced, or draw the noise
that protects people from a seed. A ``AuthorizedRun`` compares them at birth with the request that the ledger has
stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from epsilog.ledger import ChargeProtocol
from epsilog.schemes import Scheme
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.training.noise import Randomness
from epsilog.training.task import Task


@dataclass(frozen=True, slots=True, eq=False)
class AuthorizedRun:
    """A scheme that is trained under the charge that pays for it, with draws of the kind that the charge allows.

    Attributes:
        scheme: how people are protected; the charge's stored release is exactly what it releases.
        charge: reserved or later.
        randomness: the operating system's, or a seed where the charge is a simulation, and only there.
    """

    scheme: Scheme
    charge: ChargeProtocol
    randomness: Randomness

    def __post_init__(self) -> None:
        request, rounds = self.charge.request, self.scheme.rounds
        if not self.scheme.noise_multiplier > 0:
            raise CheckError("noise_multiplier", "above 0 to train", repr(self.scheme.noise_multiplier))
        if self.scheme.release() != request.release:
            raise ValueError(
                f"scheme must release what the charge paid for, {request.release!r}, got {self.scheme.release()!r}"
            )
        if request.rounds not in (None, rounds):
            raise CheckError("rounds", f"{request.rounds}, as the charge says", f"{rounds}")
        priced = [relation.value for relation in self.scheme.relations]
        if request.relation is not None and request.relation not in priced:
            raise CheckError("relation", f"{' or '.join(priced)} for {self.scheme.kind}", request.relation.value)
        if request.simulation != self.randomness.is_simulated:
            kind, other = ("a simulation", "a seed") if request.simulation else ("no simulation", "from_os()")
            raise CheckError("randomness", f"{other}, as the charge is {kind}", repr(self.randomness))
        if self.randomness.noise_factor != 1:
            raise CheckError("noise_factor", "1 under a charge", repr(self.randomness.noise_factor))

    def require_unit(self, task: Task) -> None:
        """Refuses data whose privacy unit is another than the one that was paid for, or whose sizes would show."""
        if self.charge.request.privacy_unit != task.unit:
            raise CheckError(
                "privacy_unit", f"{self.charge.request.privacy_unit!r}, as the charge says", repr(task.unit)
            )
        if task.reveals_sizes and self.charge.request.relation is not NeighboringRelation.ZERO_OUT:
            raise CheckError("example_cap", "absent, or paid for neighbours that keep all rows (zero-out)", "given")
