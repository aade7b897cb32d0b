"""Certificates: the verdict of the standalone checker as a finding."""

from __future__ import annotations

from epsilog.certificates import check_certificate
from epsilog.terms import Finding, Status


def check_certificate_file(content: bytes) -> Finding:
    """Check a certificate that stands alone: what it proves is what it claims, of no particular run."""
    found = check_certificate(content)
    said = found.message.partition(": ")[2]
    by = f"(dp_certificate.py with SHA-256 {found.checker})"
    if found.proven:
        return Finding("certificate/proven", Status.PASSED, f"The certificate proves its claim: {said} {by}.")
    return Finding("certificate/refused", Status.FAILED, f"The certificate does not prove its claim: {said} {by}.")
