"""Empirical lower bounds on epsilon, each by an attack and with a stated confidence; never a guarantee.

``audit_one_run`` takes the scores of canaries that fair coins included in one run; ``audit_two_datasets`` takes
outcomes of many runs on two neighboring data sets. Each may refute a claim. An audit that refutes nothing proves
little; each states the largest bound that it could have shown. Docs: docs/how-to/audit-a-run.md.
"""

from epsilog.verification.audits.audit_plan import (
    PLANNED as PLANNED,
    SCORES as SCORES,
    ClaimTest as ClaimTest,
    PlannedAudit,
    refute_claim,
)
from epsilog.verification.audits.canaries import (
    GAUSSIAN as GAUSSIAN,
    METHODS as METHODS,
    ONE_RUN as ONE_RUN,
    SILENCE as SILENCE,
    AuditProtocol,
    CanaryAudit,
    Guesses as Guesses,
    audit_one_run,
    count_correct_guesses as count_correct_guesses,
    list_default_guesses as list_default_guesses,
    read_protocol as read_protocol,
    read_scores as read_scores,
    refutes_epsilon as refutes_epsilon,
    refutes_profile as refutes_profile,
)
from epsilog.verification.audits.estimate import (
    estimate_by_cosines as estimate_by_cosines,
    estimate_epsilon,
    fit_normal as fit_normal,
)
from epsilog.verification.audits.refutation import (
    Curve as Curve,
    bound_p_value as bound_p_value,
    build_gaussian_curve as build_gaussian_curve,
    build_line_curve as build_line_curve,
    list_profile_points as list_profile_points,
    refutes_f_dp as refutes_f_dp,
)
from epsilog.verification.audits.samples import audit_two_datasets

__all__ = [
    "AuditProtocol",
    "CanaryAudit",
    "PlannedAudit",
    "audit_one_run",
    "audit_two_datasets",
    "estimate_epsilon",
    "refute_claim",
]
