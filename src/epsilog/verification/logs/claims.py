"""What was claimed of a run: stated in the mapping, or registered in a plan of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from epsilog.plan import RegisteredPlan
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError, Guarantee, RecordError, codec
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.evidence import read_file
from epsilog.verification.logs.log_data import LogUnits
from epsilog.verification.logs.mapping import LogMapping, PlannedClaim, StatedClaim


@dataclass(frozen=True, slots=True)
class Claim:
    """A guarantee and the schedule that is said to give it.

    Attributes:
        guarantee: epsilon, delta, relation, unit and N.
        scheme: sampling, clipping, noise and rounds; its clients are the privacy units, whatever they are called.
        divisor: the public number that noisy sums are divided by; None where nobody stated one.
        plan: the plan that claims it; None where the mapping states the claim itself.
    """

    guarantee: Guarantee
    scheme: ClientLevelCentral
    divisor: float | None
    plan: RegisteredPlan | None = None

    @property
    def simulation(self) -> bool:
        """Whether the plan says that randomness was seeded: then noise protects nobody."""
        return self.plan is not None and self.plan.simulation

    @property
    def units(self) -> LogUnits:
        """For columns that are measured in what is claimed."""
        return LogUnits(self.scheme.clients, self.scheme.clip_norm, self.divisor)


def read_claim(mapping: LogMapping, base: Path) -> Claim:
    """Reads the claim of a mapping.

    Raises:
        CheckError: a claim that does not hold together, or that no theorem prices.
        RecordError: a plan that cannot be read.
    """
    if isinstance(mapping.claim, PlannedClaim):
        return _read_planned_claim(base / mapping.claim.plan)
    try:
        return _read_stated_claim(mapping.claim)
    except CheckError as error:
        raise error.under("claim") from None


def _read_planned_claim(path: Path) -> Claim:
    try:
        plan = RegisteredPlan.from_json(codec.parse_json(read_file(path)))
    except codec.UNREADABLE as error:
        raise RecordError(f"{path.name} is not a plan: {error}") from error
    scheme = plan.scheme
    if plan.trials is not None:
        raise CheckError(
            "claim.plan", "of one run: logs of the best of several trials do not tell of the others", "trials"
        )
    if not isinstance(scheme, ClientLevelCentral):  # each client's noise, or noise over rounds, is not a sum's own
        bound = (
            f"of a fixed clip norm, and of noise that is drawn anew for each round's sum ({ClientLevelCentral.kind})"
        )
        raise CheckError("claim.plan", bound, repr(scheme.kind))
    return Claim(plan.guarantee, scheme, scheme.expected_cohort, plan)


def _read_stated_claim(said: StatedClaim) -> Claim:
    scheme = ClientLevelCentral(
        said.population,
        said.sampling_probability,
        said.rounds,
        said.clip_norm,
        said.noise_multiplier,
        sampling=said.sampling,
        cohort_size=said.cohort_size,
        cycle_length=said.cycle_length,
    )
    if said.relation not in scheme.relations:
        priced = " or ".join(relation.value for relation in scheme.relations)
        raise CheckError("relation", f"{priced} for sampling = {said.sampling!r}", repr(said.relation.value))
    epsilon = said.epsilon
    if epsilon is None:
        epsilon = compute_certified_interval(scheme.release(), said.delta, said.relation).upper
        if not math.isfinite(epsilon):
            raise CheckError("noise_multiplier", "so large that epsilon is finite", repr(said.noise_multiplier))
    guarantee = Guarantee(epsilon, said.delta, said.relation, said.privacy_unit, said.population)
    return Claim(guarantee, scheme, said.divisor)
