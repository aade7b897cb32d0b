"""Verify a finished run: compare its records with its plan and its ledger. Never imports ``training``.

``read_evidence`` reads a run folder; ``logs`` reads the logs of other frameworks. ``verify_evidence`` applies ``RULES``
to either. Without a passing sampler test, only the unamplified claim remains; noise that is too weak voids the claim.
"""

from epsilog.verification.artifacts import (
    check_head,
    check_ledger_chain,
    check_ledger_contents,
    check_note,
    identify_artifact,
    read_checkpoint,
)
from epsilog.verification.charge_checks import LEDGER_CHECKS
from epsilog.verification.claim import (
    RECOMPUTE_TOLERANCE,
    bound_any_sampler,
    bound_every_round,
    bound_unamplified,
    check_certificate_file,
    closed_form,
    compute_certified_interval,
    compute_claim_interval,
    get_certified_delta,
)
from epsilog.verification.columns import LogSource
from epsilog.verification.evidence import Claim, Evidence
from epsilog.verification.files import read_file
from epsilog.verification.hidden import get_published_verdict
from epsilog.verification.ledger_excerpt import LedgerExcerpt, LedgerReader
from epsilog.verification.noise import check_noise
from epsilog.verification.outcome import REQUIRED_LOGS, VERDICT_BASIS, Verification, write_answer
from epsilog.verification.owner_attestation import (
    CONTROL_NOISE_RATIO,
    CanaryScores,
    OwnerAttestation,
    SimulatedUtility,
)
from epsilog.verification.owner_checks import evaluate_planned_audit
from epsilog.verification.playbook import Playbook
from epsilog.verification.rules import RULES, Need, Rule, check_private, publish, verify_evidence
from epsilog.verification.run_folder import parse_evidence, read_evidence, read_run_folder
from epsilog.verification.sampler_tests import compute_control_limits
from epsilog.verification.signatures import (
    NO_TRUST_ANCHORS,
    SignatureCheck,
    TrustAnchors,
    check_checkpoint,
    check_checkpoint_signatures,
    check_file_signatures,
    check_signatures,
    read_signed,
)
from epsilog.verification.what_if import WhatIf

__all__ = [
    "CONTROL_NOISE_RATIO",
    "LEDGER_CHECKS",
    "NO_TRUST_ANCHORS",
    "RECOMPUTE_TOLERANCE",
    "REQUIRED_LOGS",
    "RULES",
    "VERDICT_BASIS",
    "CanaryScores",
    "Claim",
    "Evidence",
    "LedgerExcerpt",
    "LedgerReader",
    "LogSource",
    "Need",
    "OwnerAttestation",
    "Playbook",
    "Rule",
    "SignatureCheck",
    "SimulatedUtility",
    "TrustAnchors",
    "Verification",
    "WhatIf",
    "bound_any_sampler",
    "bound_every_round",
    "bound_unamplified",
    "check_certificate_file",
    "check_checkpoint",
    "check_checkpoint_signatures",
    "check_file_signatures",
    "check_head",
    "check_ledger_chain",
    "check_ledger_contents",
    "check_noise",
    "check_note",
    "check_private",
    "check_signatures",
    "closed_form",
    "compute_certified_interval",
    "compute_claim_interval",
    "compute_control_limits",
    "evaluate_planned_audit",
    "get_certified_delta",
    "get_published_verdict",
    "identify_artifact",
    "parse_evidence",
    "publish",
    "read_checkpoint",
    "read_evidence",
    "read_file",
    "read_run_folder",
    "read_signed",
    "verify_evidence",
    "write_answer",
]
