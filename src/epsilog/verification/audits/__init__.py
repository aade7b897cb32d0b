"""Empirical lower bounds: what an attack has shown a run to leak at least, with a stated confidence. Never a guarantee.

``one_run`` reads the scores of canaries that were put into one run by fair coins, ``two_samples`` the outcomes of many
runs on two neighbours. Each refutes claims that are too good; silence proves little, and each says how much it could
have shown. Docs: docs/how-to/audit-a-run.md.
"""

from epsilog.verification.audits.against import Held, held_against
from epsilog.verification.audits.canaries import (
    GAUSSIAN,
    METHODS,
    ONE_RUN,
    SILENCE,
    Audit,
    Guesses,
    Protocol,
    correct_guesses,
    one_run,
    refutes_epsilon,
    refutes_profile,
    usual_guesses,
)
from epsilog.verification.audits.curves import Curve, gaussian_curve, line_curve, lines_of
from epsilog.verification.audits.estimate import estimate_by_cosines, estimated_epsilon, fitted
from epsilog.verification.audits.files import read_protocol, read_scores
from epsilog.verification.audits.planned import PLANNED, SCORES, PlannedAudit
from epsilog.verification.audits.refutation import f_dp_refutes, p_value
from epsilog.verification.audits.samples import two_samples

__all__ = [
    "GAUSSIAN",
    "METHODS",
    "ONE_RUN",
    "PLANNED",
    "SCORES",
    "SILENCE",
    "Audit",
    "Curve",
    "Guesses",
    "Held",
    "PlannedAudit",
    "Protocol",
    "correct_guesses",
    "estimate_by_cosines",
    "estimated_epsilon",
    "f_dp_refutes",
    "fitted",
    "gaussian_curve",
    "held_against",
    "line_curve",
    "lines_of",
    "one_run",
    "p_value",
    "read_protocol",
    "read_scores",
    "refutes_epsilon",
    "refutes_profile",
    "two_samples",
    "usual_guesses",
]
