"""Report the standalone checker's result on a certificate, alone or against a claim, as a finding."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from epsilog.certificates import check_certificate, restate_claim, write_claim
from epsilog.ledger.cost import MOST_EXCESS
from epsilog.terms import OUTCOME_SHARE, Finding, RunArtifact, Status, UnsupportedMechanismError
from epsilog.terms.formatting import format_upper
from epsilog.verification.evidence import Claim, Evidence


@lru_cache(maxsize=8)
def check_certificate_file(content: bytes) -> Finding:
    """Check that a certificate proves its claim, which names no particular run."""
    found = check_certificate(content)
    detail = found.message.partition(": ")[2]
    by = f"(dp_certificate.py with SHA-256 {found.checker})"
    if found.proven:
        return Finding("certificate/proven", Status.PASSED, f"The certificate proves its claim: {detail} {by}.")
    return Finding("certificate/refused", Status.FAILED, f"The certificate does not prove its claim: {detail} {by}.")


def get_certified_delta(claim: Claim) -> float:
    """Return the delta of a claim's certificate: a plan reserves a fraction of delta for the outcomes of checks."""
    return claim.guarantee.delta * (1.0 if claim.plan is None else 1 - OUTCOME_SHARE)


def check_claimed_certificate(evidence: Evidence) -> Finding:
    """Check that a run's certificate is the one that was charged, is proven, and covers the plan's release."""
    content, claim = evidence.certificate, evidence.claim
    if content is None:
        committed = (evidence.ledger.evidence if evidence.ledger else None) or {}
        if RunArtifact.CERTIFICATE in committed:
            message = f"{RunArtifact.CERTIFICATE} was committed and is missing."
            return Finding("certificate/missing", Status.FAILED, message)
        message = "There is no certificate."
        return Finding("certificate/not-checked", Status.NOT_CHECKED, message, missing_evidence="certificate")
    presented = evidence.ledger.certificate if evidence.ledger else None
    if presented is not None and hashlib.sha256(content).hexdigest() != presented:
        message = "The reservation presented another certificate: the ledger keeps another SHA-256."
        return Finding("certificate/mismatch", Status.FAILED, message)
    found = check_certificate_file(content)
    if found.status is Status.FAILED:
        return found
    stated = json.loads(content)["claim"]
    if not _is_about(stated, claim):
        message = "The certificate covers another release, delta or relation than the plan."
        return Finding("certificate/other-claim", Status.FAILED, message)
    epsilon = float(stated["epsilon"])
    message = (
        f"A certificate proves epsilon {stated['epsilon']} at delta {stated['delta']} for the release of the plan, "
    )
    message += f"which claims {format_upper(claim.guarantee.epsilon, 6)}; dp_certificate.py checked it."
    numbers = (("proven", epsilon), ("claimed", claim.guarantee.epsilon))
    if epsilon > MOST_EXCESS * claim.guarantee.epsilon:
        return Finding("certificate/larger-epsilon", Status.WARNED, message, numbers)
    return Finding("certificate/proven", Status.PASSED, message, numbers)


def _is_about(stated: dict[str, Any], claim: Claim) -> bool:
    """Return whether each field except epsilon follows from the claim's release."""
    guarantee = claim.guarantee
    try:
        again = write_claim(
            claim.release,
            epsilon=stated["epsilon"],
            delta=get_certified_delta(claim),
            relation=guarantee.relation,
        )
    except UnsupportedMechanismError:
        return False
    return stated in (again, restate_claim(again))
