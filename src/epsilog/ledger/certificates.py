"""The certificate of a charge: proven by the checker, about the charged release, and no weaker than its cost.

The check takes up to a few seconds and comes before any transaction. An entry keeps the SHA-256 of the text alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from epsilog.ledger.cost import Cost
from epsilog.ledger.requests import ChargeRequest
from epsilog.terms import CheckError, NeighboringRelation

MOST_EXCESS = 1.01
"""Of what is proven over what is charged or claimed; certificates are made with a slack of .001."""


class ProvenClaim(NamedTuple):
    """What a certificate proves of a charged release.

    Attributes:
        epsilon: as a decimal.
        delta: as a decimal.
        relation: under which the release was compared.
    """

    epsilon: str
    delta: str
    relation: NeighboringRelation


def check_charge_certificate(request: ChargeRequest, certificate: str) -> ProvenClaim:
    """Check that a certificate is proven and is about what is charged.

    Args:
        request: what is asked, under its budget's relation.
        certificate: its text.

    Raises:
        CheckError: it is not proven, or its claim is another: of the first field that differs.
        UnsupportedMechanismError: no certificate covers the release.
    """
    from epsilog.certificates import check_certificate, restate_claim, write_claim

    verdict = check_certificate(certificate)
    if not verdict.proven:
        raise CheckError("certificate", "proven by the checker", verdict.message)
    claim = json.loads(certificate)["claim"]
    assert request.relation is not None, "a request has its budget's relation"
    delta = 0.5 if Fraction(claim["delta"]) > 0 else 0.0  # with 0, all is claimed by its largest loss
    due = write_claim(request.release, epsilon="0", delta=delta, relation=request.relation)
    if (restated := restate_claim(due)) and restated["releases"] == claim["releases"]:
        due = restated
    for name in ("relation", "group", "releases"):
        _require_equal(due[name], claim[name], f"certificate.claim.{name}")
    return ProvenClaim(claim["epsilon"], claim["delta"], request.relation)


def _require_equal(due: Any, found: Any, at: str) -> None:
    """Require equal JSON values; an error names the first that differ."""
    if isinstance(due, dict) and isinstance(found, dict) and due.keys() == found.keys():
        for name, value in due.items():
            _require_equal(value, found[name], f"{at}.{name}")
    elif isinstance(due, list) and isinstance(found, list) and len(due) == len(found):
        for i, (value, other) in enumerate(zip(due, found, strict=True)):
            _require_equal(value, other, f"{at}[{i}]")
    elif due != found:
        raise CheckError(at, f"{_format(due)}, as charged", _format(found))


def _format(value: Any) -> str:
    return json.dumps(value)[:200]


def require_no_weaker(proven: ProvenClaim, costs: Iterable[Cost]) -> None:
    """Require a proven epsilon and delta of at most 1% above each charged one.

    Costs in other quantities are not compared, nor is the delta where a release is charged without one.
    """
    for cost in costs:
        charged = cost.amounts
        for name, found in (("epsilon", proven.epsilon), ("delta", proven.delta)):
            known = charged.get(name)
            if known is None or (name, known) == ("delta", "0"):
                continue
            if Fraction(found) > Fraction(MOST_EXCESS) * Fraction(known):
                raise CheckError(f"certificate.claim.{name}", f"at most 1% above the charged {name} of {known}", found)
