"""After a run: do the records agree with plan and ledger? Reads records, never ``training``.

``read_evidence`` reads what a run left behind, ``reconcile`` runs every check over it, and each finding says what was
compared. A sampler that is rejected loses the amplified claim; noise that is too weak voids it.
"""

from epsilog.verification.attack import audited, check_audit
from epsilog.verification.books import Books, LedgerWord
from epsilog.verification.canaries import CanaryScores
from epsilog.verification.charges import LEDGER_CHECKS
from epsilog.verification.claim import certified, certified_run
from epsilog.verification.clipping import check_clipping, check_norms
from epsilog.verification.documents import check_books, check_chain, check_head, check_note, check_prices, identify
from epsilog.verification.drift import control_limits
from epsilog.verification.evidence import Evidence, parse_evidence, parse_records, read_evidence, read_file, read_folder
from epsilog.verification.findings import overall
from epsilog.verification.hidden import get_published_verdict
from epsilog.verification.noise import check_count, check_noise, in_first_unit, power, stddev_interval
from epsilog.verification.notes import read_checkpoint, read_receipt
from epsilog.verification.outcome import Reconciliation
from epsilog.verification.owner import WEAKENED, OwnerWord, Utility, check_control
from epsilog.verification.participation import check_custody, check_participation
from epsilog.verification.plans import SAME, closed_form, unamplified
from epsilog.verification.playbook import Playbook
from epsilog.verification.reconciliation import check_private, reconcile
from epsilog.verification.rigorous import check_rigorous
from epsilog.verification.signatures import (
    NOTHING,
    Brought,
    Signed,
    check_checkpoint,
    check_consistency,
    check_receipt,
    check_signatures,
    note_signatures,
    read_signed,
    signed_file,
    signed_note,
)
from epsilog.verification.what_if import WhatIf, whatever_the_sampler

__all__ = [
    "LEDGER_CHECKS",
    "NOTHING",
    "SAME",
    "WEAKENED",
    "Books",
    "Brought",
    "CanaryScores",
    "Evidence",
    "LedgerWord",
    "OwnerWord",
    "Playbook",
    "Reconciliation",
    "Signed",
    "Utility",
    "WhatIf",
    "audited",
    "certified",
    "certified_run",
    "check_audit",
    "check_books",
    "check_chain",
    "check_checkpoint",
    "check_clipping",
    "check_consistency",
    "check_control",
    "check_count",
    "check_custody",
    "check_head",
    "check_noise",
    "check_norms",
    "check_note",
    "check_participation",
    "check_prices",
    "check_private",
    "check_receipt",
    "check_rigorous",
    "check_signatures",
    "closed_form",
    "control_limits",
    "get_published_verdict",
    "identify",
    "in_first_unit",
    "note_signatures",
    "overall",
    "parse_evidence",
    "parse_records",
    "power",
    "read_checkpoint",
    "read_evidence",
    "read_file",
    "read_folder",
    "read_receipt",
    "read_signed",
    "reconcile",
    "signed_file",
    "signed_note",
    "stddev_interval",
    "unamplified",
    "whatever_the_sampler",
]
