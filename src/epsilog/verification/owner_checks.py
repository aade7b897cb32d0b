"""The owner's attestation against the plan, and the control that a simulation's verifier must reject."""

from __future__ import annotations

from collections.abc import Iterator

from epsilog.terms import Finding, RunArtifact, Status
from epsilog.verification.evidence import Evidence
from epsilog.verification.noise import compute_power
from epsilog.verification.owner_attestation import CONTROL_NOISE_RATIO, SimulatedUtility


def check_owner(evidence: Evidence) -> Iterator[Finding]:
    """Check that the owner speaks of a simulation only where one was planned, and that its control was rejected."""
    if evidence.owner is None:
        yield Finding("attestation/missing", Status.FAILED, f"The owner's word, {RunArtifact.OWNER}, is not here.")
        return
    utility = evidence.owner.utility
    if (utility is not None) != evidence.claim.simulation:
        message = "Utility beside the run is for simulations, and for those only."
        yield Finding("attestation/utility-misplaced", Status.FAILED, message)
        return
    yield Finding("attestation/passed", Status.PASSED, "The owner's word is here; nobody else can recompute it.")
    if utility is not None:
        yield check_control(utility)


def check_control(utility: SimulatedUtility) -> Finding:
    """A verifier that accepts the control proves nothing: then the run's own verification fails too."""
    if utility.control["status"] == Status.FAILED:
        return Finding("control/passed", Status.PASSED, "The control run was rejected, so the noise check can fail.")
    values = int(utility.control["values"]["values"])
    if compute_power(values, share=CONTROL_NOISE_RATIO) < 0.99:
        says = (
            f"{values} padding values are too few to notice noise {1 - CONTROL_NOISE_RATIO:.0%} too low; the run "
            "is too short."
        )
        return Finding("control/too-short", Status.WARNED, says)
    return Finding(
        "control/not-rejected", Status.FAILED, "The control run was not rejected: the noise check does not work."
    )
