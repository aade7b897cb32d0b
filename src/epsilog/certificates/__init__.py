"""Certificates: a claim of (epsilon, delta)-DP with a proof that a standalone program checks in a second."""

from epsilog.certificates.checker import FORMAT, Verdict, check_certificate, find_checker
from epsilog.certificates.claim import describe_claim, restate_claim, write_claim
from epsilog.certificates.maker import Certificate, NotProvenError, certificate, certify_guarantee

__all__ = [
    "FORMAT",
    "Certificate",
    "NotProvenError",
    "Verdict",
    "certificate",
    "certify_guarantee",
    "check_certificate",
    "describe_claim",
    "find_checker",
    "restate_claim",
    "write_claim",
]
