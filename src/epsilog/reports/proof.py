"""The certificate in a report's page: what it must claim, and the script that checks it when the page is opened."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from epsilog.certificates import describe_claim, find_checker, restate_claim, write_claim
from epsilog.mechanisms import Release
from epsilog.terms import OUTCOME_SHARE, NeighboringRelation, codec
from epsilog.terms.messages import Message

CHECKERS = ("dp_certificate.py", "dp_certificate.mjs")


class Proof(NamedTuple):
    """What a page shows of a certificate.

    Attributes:
        headline: the epsilon that it proves, rounded up.
        certificate: its text.
        rows: what it must claim, as names and values: from the report's own release, not from the certificate.
        script: the checker and what compares the rows.
        digest: the script's SHA-256 as the page's security policy names it.
        checkers: SHA-256 of the standalone checkers, by name.
    """

    headline: str
    certificate: str
    rows: list[tuple[str, str]]
    script: str
    digest: str
    checkers: list[tuple[str, str]]


def build_proof(report: Mapping[str, Any]) -> Proof | None:
    """Return the proof of a report; None without a certificate."""
    text = report["evidence"].get("certificate")
    if text is None:
        return None
    release, guarantee = codec.decode(report["mechanism"]["release"]), report["claim"]["guarantee"]
    assert isinstance(release, Release)
    proven = json.loads(text)["claim"]
    claim = write_claim(
        release,
        epsilon=proven["epsilon"],
        delta=guarantee["delta"] * (1 - OUTCOME_SHARE),
        relation=NeighboringRelation(guarantee["relation"]),
    )
    if restate_claim(claim) == proven:
        claim = proven
    script = _read_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    headline = str(Message.of("page/proof", epsilon=math.nextafter(float(proven["epsilon"]), math.inf)))
    return Proof(headline, text.strip(), describe_claim(claim), script, f"sha256-{digest}", list(_hash_checkers()))


@cache
def _read_script() -> str:
    """The checker in JavaScript, and the comparison that calls it."""
    checker = find_checker("dp_certificate.mjs").read_text(encoding="utf-8")
    compare = (Path(__file__).parent / "templates" / "proof.mjs").read_text(encoding="utf-8")
    return f"\n{checker}\n{compare}"


@cache
def _hash_checkers() -> tuple[tuple[str, str], ...]:
    return tuple((name, hashlib.sha256(find_checker(name).read_bytes()).hexdigest()) for name in CHECKERS)
