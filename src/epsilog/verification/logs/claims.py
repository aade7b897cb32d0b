"""Read the claim of a run: stated in the mapping, or registered in our own plan."""

from __future__ import annotations

import math
from pathlib import Path

from epsilog.plan import RegisteredPlan
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import CheckError, Guarantee, RecordError, codec
from epsilog.verification.claim import compute_certified_interval
from epsilog.verification.evidence import Claim
from epsilog.verification.files import read_file
from epsilog.verification.logs.mapping import LogMapping, PlannedClaim, StatedClaim


def read_claim(mapping: LogMapping, base: Path) -> Claim:
    """Read the claim of a mapping.

    Raises:
        CheckError: the claim is inconsistent, or no theorem bounds it.
        RecordError: the plan cannot be read.
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
        bound = "of one run: logs of the best of several trials do not cover the others"
        raise CheckError("claim.plan", bound, "trials")
    if not isinstance(scheme, ClientLevelCentral):  # elsewhere noise is not drawn independently for each sum
        bound = f"of a fixed clip norm, with independent noise for each round's sum ({ClientLevelCentral.kind})"
        raise CheckError("claim.plan", bound, repr(scheme.kind))
    return Claim.from_plan(plan, scheme.expected_cohort)


def _read_stated_claim(stated: StatedClaim) -> Claim:
    scheme = ClientLevelCentral(
        stated.population,
        stated.sampling_probability,
        stated.rounds,
        stated.clip_norm,
        stated.noise_multiplier,
        sampling=stated.sampling,
        cohort_size=stated.cohort_size,
        cycle_length=stated.cycle_length,
    )
    if stated.relation not in scheme.relations:
        supported = " or ".join(relation.value for relation in scheme.relations)
        raise CheckError("relation", f"{supported} for sampling = {stated.sampling!r}", repr(stated.relation.value))
    epsilon = stated.epsilon
    if epsilon is None:
        epsilon = compute_certified_interval(scheme.release(), stated.delta, stated.relation).upper
        if not math.isfinite(epsilon):
            raise CheckError("noise_multiplier", "so large that epsilon is finite", repr(stated.noise_multiplier))
    guarantee = Guarantee(epsilon, stated.delta, stated.relation, stated.privacy_unit, stated.population)
    return Claim(guarantee, scheme, stated.divisor)
