"""Check the owner attestation against the plan, and the control run that a simulation's noise check must reject."""

from __future__ import annotations

from collections.abc import Iterator

from epsilog.terms import Finding, RunArtifact, Status
from epsilog.verification.evidence import Evidence
from epsilog.verification.noise import compute_power
from epsilog.verification.owner_attestation import CONTROL_NOISE_RATIO, SimulatedUtility


def check_owner(evidence: Evidence) -> Iterator[Finding]:
    """Check that utility figures exist exactly for a planned simulation, and that its control run was rejected."""
    if evidence.owner is None:
        message = f"The owner attestation, {RunArtifact.OWNER}, is missing."
        yield Finding("attestation/missing", Status.FAILED, message)
        return
    utility = evidence.owner.utility
    if (utility is not None) != evidence.claim.simulation:
        message = "The attestation must contain utility figures for a simulation, and only then."
        yield Finding("attestation/utility-misplaced", Status.FAILED, message)
        return
    message = "The owner attestation is present. Others cannot recompute its contents."
    yield Finding("attestation/passed", Status.PASSED, message)
    if utility is not None:
        yield check_control(utility)


def check_control(utility: SimulatedUtility) -> Finding:
    """Check that the noise check rejected the control run; otherwise it proves nothing about the run."""
    if utility.control["status"] == Status.FAILED:
        return Finding("control/passed", Status.PASSED, "The control run was rejected, so the noise check can fail.")
    values = int(utility.control["values"]["values"])
    if compute_power(values, share=CONTROL_NOISE_RATIO) < 0.99:
        message = (
            f"{values} padding values are too few to detect noise {1 - CONTROL_NOISE_RATIO:.0%} too low; the run "
            "is too short."
        )
        return Finding("control/too-short", Status.WARNED, message)
    return Finding(
        "control/not-rejected", Status.FAILED, "The control run was accepted, so the noise check does not work."
    )
