"""Certificates: a claim of (epsilon, delta)-DP with a proof that a standalone program checks in a second."""

from epsilog.certificates.checker import FORMAT as FORMAT, Verdict, check_certificate, find_checker
from epsilog.certificates.claim import (
    describe_claim as describe_claim,
    restate_claim as restate_claim,
    write_claim as write_claim,
)
from epsilog.certificates.maker import Certificate, NotProvenError, certificate, certify_guarantee as certify_guarantee

__all__ = [
    "Certificate",
    "NotProvenError",
    "Verdict",
    "certificate",
    "check_certificate",
    "find_checker",
]
