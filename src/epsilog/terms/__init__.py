"""Terms that all parts share: fields and their checks, JSON, intervals, guarantees, findings and errors."""

from epsilog.terms.canaries import Canaries
from epsilog.terms.errors import (
    AccessError,
    BudgetExceededError,
    CalibrationError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    ProgrammeError,
    RecordsError,
    StorageError,
    UnansweredError,
    UnsupportedMechanismError,
)
from epsilog.terms.findings import EVIDENCE, LOG_EVIDENCE, Effect, Finding, Grade, Verdict
from epsilog.terms.guarantee import Guarantee, NeighboringRelation
from epsilog.terms.interval import Interval
from epsilog.terms.messages import Message
from epsilog.terms.policy import DeltaDecision, DeltaPolicy, delta_finding
from epsilog.terms.rounds import COMMITMENT, CustodyRecord, RoundRecord, RunFile, record_line

__all__ = [
    "COMMITMENT",
    "EVIDENCE",
    "LOG_EVIDENCE",
    "AccessError",
    "BudgetExceededError",
    "CalibrationError",
    "Canaries",
    "CheckError",
    "ConflictError",
    "CustodyRecord",
    "DeltaDecision",
    "DeltaPolicy",
    "Effect",
    "EpsilogError",
    "Finding",
    "Grade",
    "Guarantee",
    "Interval",
    "LedgerIntegrityError",
    "Message",
    "NeighboringRelation",
    "ProgrammeError",
    "RecordsError",
    "RoundRecord",
    "RunFile",
    "StorageError",
    "UnansweredError",
    "UnsupportedMechanismError",
    "Verdict",
    "delta_finding",
    "record_line",
]
