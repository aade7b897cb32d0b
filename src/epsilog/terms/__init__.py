"""Terms that all parts share: fields and their checks, JSON, intervals, guarantees, findings and errors."""

from epsilog.terms.canaries import Canaries
from epsilog.terms.errors import (
    BatchRefusedError,
    BudgetExceededError,
    CalibrationError,
    CheckError,
    ConfigError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RecordError,
    StorageError,
    UnsupportedMechanismError,
)
from epsilog.terms.findings import (
    EVIDENCE_KINDS,
    LOG_EVIDENCE_KINDS,
    OPTIONAL_EVIDENCE_KINDS,
    ClaimEffect,
    Finding,
    Severity,
    Status,
)
from epsilog.terms.guarantee import OUTCOME_SHARE, Guarantee, NeighboringRelation
from epsilog.terms.interval import Interval
from epsilog.terms.messages import Message
from epsilog.terms.policy import DeltaChoice, DeltaPolicy, delta_finding
from epsilog.terms.rounds import COMMITMENT, CustodyRecord, RoundRecord, RunArtifact, record_line

__all__ = [
    "COMMITMENT",
    "EVIDENCE_KINDS",
    "LOG_EVIDENCE_KINDS",
    "OPTIONAL_EVIDENCE_KINDS",
    "OUTCOME_SHARE",
    "BatchRefusedError",
    "BudgetExceededError",
    "CalibrationError",
    "Canaries",
    "CheckError",
    "ClaimEffect",
    "ConfigError",
    "ConflictError",
    "CustodyRecord",
    "DeltaChoice",
    "DeltaPolicy",
    "EpsilogError",
    "Finding",
    "Guarantee",
    "Interval",
    "LedgerIntegrityError",
    "Message",
    "NeighboringRelation",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "RecordError",
    "RoundRecord",
    "RunArtifact",
    "Severity",
    "Status",
    "StorageError",
    "UnsupportedMechanismError",
    "delta_finding",
    "record_line",
]
