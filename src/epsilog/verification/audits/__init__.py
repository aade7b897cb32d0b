"""Empirical lower bounds on epsilon, each by an attack and with a stated confidence; never a guarantee.

``audit_one_run`` takes the scores of canaries that fair coins included in one run; ``audit_two_datasets`` takes
outcomes of many runs on two neighboring data sets. Each may refute a claim. An audit that refutes nothing proves
little; each states the largest bound that it could have shown. Docs: docs/how-to/audit-a-run.md.
"""

from epsilog.verification.audits.audit_plan import PLANNED, SCORES, ClaimTest, PlannedAudit, refute_claim
from epsilog.verification.audits.canaries import (
    GAUSSIAN,
    METHODS,
    ONE_RUN,
    SILENCE,
    AuditProtocol,
    CanaryAudit,
    Guesses,
    audit_one_run,
    count_correct_guesses,
    list_default_guesses,
    read_protocol,
    read_scores,
    refutes_epsilon,
    refutes_profile,
)
from epsilog.verification.audits.estimate import estimate_by_cosines, estimate_epsilon, fit_normal
from epsilog.verification.audits.refutation import (
    Curve,
    bound_p_value,
    build_gaussian_curve,
    build_line_curve,
    list_profile_points,
    refutes_f_dp,
)
from epsilog.verification.audits.samples import audit_two_datasets

__all__ = [
    "GAUSSIAN",
    "METHODS",
    "ONE_RUN",
    "PLANNED",
    "SCORES",
    "SILENCE",
    "AuditProtocol",
    "CanaryAudit",
    "ClaimTest",
    "Curve",
    "Guesses",
    "PlannedAudit",
    "audit_one_run",
    "audit_two_datasets",
    "bound_p_value",
    "build_gaussian_curve",
    "build_line_curve",
    "count_correct_guesses",
    "estimate_by_cosines",
    "estimate_epsilon",
    "fit_normal",
    "list_default_guesses",
    "list_profile_points",
    "read_protocol",
    "read_scores",
    "refute_claim",
    "refutes_epsilon",
    "refutes_f_dp",
    "refutes_profile",
]
