"""Verify a finished run: compare its records with its plan and its ledger. Never imports ``training``.

``read_evidence`` reads a run folder; ``logs`` reads the logs of other frameworks. ``verify_evidence`` applies ``RULES``
to either. Without a passing sampler test, only the unamplified claim remains; noise that is too weak voids the claim.
"""

from epsilog.verification.artifacts import (
    check_head as check_head,
    check_ledger_chain as check_ledger_chain,
    check_ledger_contents as check_ledger_contents,
    check_note as check_note,
    identify_artifact as identify_artifact,
    read_checkpoint as read_checkpoint,
)
from epsilog.verification.charge_checks import LEDGER_CHECKS as LEDGER_CHECKS
from epsilog.verification.claim import (
    RECOMPUTE_TOLERANCE as RECOMPUTE_TOLERANCE,
    bound_any_sampler as bound_any_sampler,
    bound_every_round as bound_every_round,
    bound_unamplified as bound_unamplified,
    check_certificate_file as check_certificate_file,
    closed_form as closed_form,
    compute_certified_interval as compute_certified_interval,
    compute_claim_interval as compute_claim_interval,
    get_certified_delta as get_certified_delta,
)
from epsilog.verification.columns import LogSource as LogSource
from epsilog.verification.evidence import Claim as Claim, Evidence
from epsilog.verification.files import read_file as read_file
from epsilog.verification.hidden import get_published_verdict as get_published_verdict
from epsilog.verification.ledger_excerpt import LedgerExcerpt as LedgerExcerpt, LedgerReader as LedgerReader
from epsilog.verification.noise import check_noise as check_noise
from epsilog.verification.outcome import (
    REQUIRED_LOGS as REQUIRED_LOGS,
    VERDICT_BASIS as VERDICT_BASIS,
    Verification,
    write_answer as write_answer,
)
from epsilog.verification.owner_attestation import (
    CONTROL_NOISE_RATIO as CONTROL_NOISE_RATIO,
    CanaryScores as CanaryScores,
    OwnerAttestation as OwnerAttestation,
    SimulatedUtility as SimulatedUtility,
)
from epsilog.verification.owner_checks import evaluate_planned_audit as evaluate_planned_audit
from epsilog.verification.playbook import Playbook as Playbook
from epsilog.verification.rules import RULES, Need, Rule, check_private as check_private, publish, verify_evidence
from epsilog.verification.run_folder import parse_evidence as parse_evidence, read_evidence, read_run_folder
from epsilog.verification.sampler_tests import compute_control_limits as compute_control_limits
from epsilog.verification.signatures import (
    NO_TRUST_ANCHORS as NO_TRUST_ANCHORS,
    SignatureCheck as SignatureCheck,
    TrustAnchors,
    check_checkpoint as check_checkpoint,
    check_checkpoint_signatures as check_checkpoint_signatures,
    check_file_signatures as check_file_signatures,
    check_signatures as check_signatures,
    read_signed as read_signed,
)
from epsilog.verification.what_if import WhatIf as WhatIf

__all__ = [
    "RULES",
    "Evidence",
    "Need",
    "Rule",
    "TrustAnchors",
    "Verification",
    "publish",
    "read_evidence",
    "read_run_folder",
    "verify_evidence",
]
