"""Terms that all parts share: fields and their checks, JSON, intervals, guarantees, findings and errors."""

from epsilog.terms.canaries import Canaries as Canaries
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
    EVIDENCE_KINDS as EVIDENCE_KINDS,
    LOG_EVIDENCE_KINDS as LOG_EVIDENCE_KINDS,
    OPTIONAL_EVIDENCE_KINDS as OPTIONAL_EVIDENCE_KINDS,
    ClaimEffect as ClaimEffect,
    Finding,
    Severity,
    Status,
)
from epsilog.terms.guarantee import OUTCOME_SHARE as OUTCOME_SHARE, Guarantee, NeighboringRelation
from epsilog.terms.interval import Interval
from epsilog.terms.messages import Message
from epsilog.terms.policy import DeltaChoice as DeltaChoice, DeltaPolicy, delta_finding as delta_finding
from epsilog.terms.rounds import (
    COMMITMENT as COMMITMENT,
    CustodyRecord,
    RoundRecord,
    RunArtifact,
    record_line as record_line,
)

__all__ = [
    "BatchRefusedError",
    "BudgetExceededError",
    "CalibrationError",
    "CheckError",
    "ConfigError",
    "ConflictError",
    "CustodyRecord",
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
]
