"""After a run: do the records agree with plan and ledger? Reads records, never ``train``.

``read_evidence`` reads what a run left behind, ``reconcile`` runs every check over it, and each finding says what was
compared. A sampler that is rejected loses the amplified claim; noise that is too weak voids it.
"""

from epsilog.verify.clipping import check_clipping
from epsilog.verify.documents import check_chain, identify, recompute_report
from epsilog.verify.evidence import Evidence, LedgerWord, ask_ledger, read_evidence, read_records
from epsilog.verify.findings import Finding, Verdict, overall
from epsilog.verify.noise import check_noise, power, stddev_interval
from epsilog.verify.participation import check_participation
from epsilog.verify.reconcile import Reconciliation, WhatIf, reconcile

__all__ = [
    "Evidence",
    "Finding",
    "LedgerWord",
    "Reconciliation",
    "Verdict",
    "WhatIf",
    "ask_ledger",
    "check_chain",
    "check_clipping",
    "check_noise",
    "check_participation",
    "identify",
    "overall",
    "power",
    "read_evidence",
    "read_records",
    "recompute_report",
    "reconcile",
    "stddev_interval",
]
