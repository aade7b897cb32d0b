"""After a run: do the records agree with plan and ledger? Reads records, never ``train``.

``read_evidence`` reads what a run left behind, ``reconcile`` runs every check over it, and each finding says what was
compared. A sampler that is rejected loses the amplified claim; noise that is too weak voids it.
"""

from epsilog.verify.attack import audited, check_audit
from epsilog.verify.books import Books, LedgerWord
from epsilog.verify.canaries import CanaryScores
from epsilog.verify.charges import LEDGER_CHECKS
from epsilog.verify.claim import certified, certified_run
from epsilog.verify.clipping import check_clipping, check_norms
from epsilog.verify.documents import check_books, check_chain, check_head, check_note, check_prices, identify
from epsilog.verify.drift import control_limits
from epsilog.verify.evidence import Evidence, parse_evidence, parse_records, read_evidence, read_file, read_folder
from epsilog.verify.findings import overall
from epsilog.verify.hidden import get_published_verdict
from epsilog.verify.noise import check_count, check_noise, in_first_unit, power, stddev_interval
from epsilog.verify.notes import read_checkpoint, read_receipt
from epsilog.verify.outcome import Reconciliation
from epsilog.verify.owner import WEAKENED, OwnerWord, Utility, check_control
from epsilog.verify.participation import check_custody, check_participation
from epsilog.verify.plans import SAME, closed_form, unamplified
from epsilog.verify.playbook import Playbook
from epsilog.verify.reconciliation import check_private, reconcile
from epsilog.verify.rigorous import check_rigorous
from epsilog.verify.signatures import (
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
from epsilog.verify.what_if import WhatIf, whatever_the_sampler

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
