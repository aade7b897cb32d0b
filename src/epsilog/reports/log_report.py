"""The report of a run that epsilog did not train: a function of its logs and of the mapping that says what they are.

Logs are their writer's word, and no ledger binds them. Whoever has them builds the report again and compares.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from epsilog.reports.claim_metrics import VERSION, compute_claim_metrics, get_report_version
from epsilog.reports.kinds import OF_LOGS, list_parts
from epsilog.reports.publication_fields import list_publication_fields, require_field
from epsilog.reports.residual_risks import list_residual_log_risks
from epsilog.reports.statements import (
    LOG_LIMITS,
    compute_supported_epsilon,
    format_statement,
    format_supported_statement,
)
from epsilog.reports.verification import ReportVerification, check_page, check_rebuilt, read_report
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.terms import CheckError, RecordError, RunArtifact, Status, codec
from epsilog.verification import (
    NO_TRUST_ANCHORS,
    SignatureCheck,
    TrustAnchors,
    check_signatures,
    compute_certified_interval,
    compute_control_limits,
)

if TYPE_CHECKING:
    from epsilog.verification.logs import LogVerification

KIND = "logs-report"
OF_SAMPLING = {"participation", "population"}  # what makes a sampler another one than was claimed
UNBOUND = "Logs are their writer's word, and nothing binds them to the run. "


def format_log_statement(found: LogVerification) -> str:
    """The claim in a sentence: all of it, the one without amplification by sampling, or none."""
    failed, unseen = _list_failed(found), _unseen(found)
    blank = f" What these logs do not show, and it takes for true: {', '.join(unseen)}." if unseen else ""
    guarantee, simulation, known = found.claim.guarantee, found.claim.simulation, found.unamplified.upper
    if failed:
        return UNBOUND + format_supported_statement(guarantee, unamplified=known, failed=failed, simulation=simulation)
    if _lists_are_there(found):
        return UNBOUND + format_statement(guarantee, simulation=simulation) + blank
    says = format_statement(replace(guarantee, epsilon=known), simulation=simulation)
    return (
        f"{UNBOUND}Nothing shows who took part, so what can be checked is the claim without amplification by sampling: "
        f"{says} The smaller epsilon of the claim rests on its writer's word.{blank}"
    )


def compute_log_supported_epsilon(found: LogVerification) -> float:
    """The epsilon that logs leave standing; infinite where they leave none."""
    known, failed = found.unamplified.upper, _list_failed(found)
    if not failed and not _lists_are_there(found):
        return known
    return compute_supported_epsilon(found.claim.guarantee, unamplified=known, failed=failed)


def _list_failed(found: LogVerification) -> set[str]:
    """Checks that failed; those of the sampling count as one."""
    failed = {one.check for one in found.outcome.findings if one.verdict is Status.FAILED}
    return {"participation"} if failed and failed <= OF_SAMPLING else failed


def _unseen(found: LogVerification) -> list[str]:
    return [one.check for one in found.outcome.findings if one.verdict is Status.NOT_CHECKED]


def _lists_are_there(found: LogVerification) -> bool:
    return not {"participation", "custody"} & set(_unseen(found))


def build_log_report(found: LogVerification, *, version: int = VERSION) -> dict[str, Any]:
    """Writes the report of one run from its logs: a function of mapping and logs, and of nothing else.

    It names no client and tells no number of one; sizes of cohorts, and how many rows a filter leaves out, it tells
    only where the mapping says that the logs are public.

    Args:
        found: what ``verify.logs.examine_logs`` said of them.
        version: of the report: 0 is built again beside one that was written as such.

    Raises:
        CheckError: a field of the mapping's [reporting] that is none.
    """
    claim, mapping, supported = found.claim, found.mapping, compute_log_supported_epsilon(found)
    scheme, guarantee = claim.scheme, claim.guarantee
    document = {
        "v": version,
        "kind": KIND,
        "identity": mapping.programme.model_dump(exclude_none=True) | {"period": _period(mapping.reporting)},
        "simulation": claim.simulation,
        "claim": {
            "statement": format_log_statement(found),
            "supported": supported if math.isfinite(supported) else "inf",
            "guarantee": codec.encode(guarantee),
            "epsilon": codec.encode(compute_certified_interval(scheme.release(), guarantee.delta, guarantee.relation)),
            "unamplified": codec.encode(found.unamplified),
        },
        "reading": _reading(found, supported, version),
        "publication": list_publication_fields(_get_statements(mapping.reporting)),
        "mechanism": {
            "scheme": codec.encode(scheme),
            "release": codec.encode(scheme.release()),
            "noise_stddev": scheme.noise_stddev,
            "divisor": claim.divisor,
        },
        "observed": {
            "public": mapping.public,
            "cohorts": list(found.cohorts or ()) if mapping.public else None,
            "limits": _limits(found) if mapping.public else None,
            "filters": [
                {
                    "section": told.name,
                    "file": told.file,
                    "where": dict(told.where),
                    "rows_left_out": told.left_out if mapping.public else None,
                }
                for told in found.told
                if told.where
            ],
        },
        "verification": found.published.to_json(found.playbook) | {"required": sorted(found.published.required)},
        "evidence": {
            **_bound(found),
            "software": {"epsilog": metadata.version("epsilog")},
            "recompute": "epsilog verify report.html --logs <mapping file>",
        },
        "kinds": list_parts(OF_LOGS),
        "limits": list(LOG_LIMITS),
        "forgeable": list_residual_log_risks(simulation=claim.simulation),
    }
    spelt: dict[str, Any] = codec.parse_json(codec.encode_canonical(document))  # as a reader of the file gets it
    return spelt


def _reading(found: LogVerification, supported: float, version: int) -> dict[str, Any] | None:
    """The reading of what stands: of the claim, of the schedule without amplification, or none."""
    if not math.isfinite(supported):
        return None
    scheme, guarantee, known = found.claim.scheme, found.claim.guarantee, found.claim.scheme.in_every_round()
    whole = supported == guarantee.epsilon and _lists_are_there(found) and not _list_failed(found)
    return compute_claim_metrics(
        scheme.release() if whole else known,
        version=version,
        delta=guarantee.delta,
        relation=guarantee.relation,
        known=known,
    )


def _limits(found: LogVerification) -> list[int] | None:
    """Between which all cohorts of a sound run lie, but for false alarms; None where no size is a matter of chance."""
    match found.claim.scheme.cohorts:
        case PoissonSampler(clients=clients, probability=rate) if rate < 1 and found.cohorts:
            return list(compute_control_limits(clients, rate, len(found.cohorts), found.mapping.false_alarm))
    return None


def _period(reporting: Mapping[str, Any]) -> str:
    period = reporting.get("period", "")
    if not isinstance(period, str):
        raise CheckError("reporting.period", "a string", repr(period))
    return period


def _get_statements(reporting: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {name: require_field(name, value) for name, value in reporting.items() if name != "period"}
    except CheckError as error:
        raise error.under("reporting") from None


def _bound(found: LogVerification) -> dict[str, Any]:
    """What binds the files: SHA-256 of public ones, keyed hashes of others, or the names of those that nothing binds.

    A hash of data that are not public would let whoever knows all of them but one person's check a guess of the rest.
    """
    public, mapping = found.mapping.public, found.mapping
    own = {} if public else {name: found.files[name] for name in mapping.logs}
    keyed = {} if mapping.salt is None else {name: _salt_digest(digest, mapping.salt) for name, digest in own.items()}
    return {
        "files": {name: digest for name, digest in found.files.items() if name not in own},
        "keyed": keyed,
        "unbound": sorted(own.keys() - keyed.keys()),
    }


def log_digests(found: LogVerification) -> dict[str, str]:
    """Digests by name of what was read, as a report binds it: none of data that are neither public nor under a salt."""
    bound = _bound(found)
    keyed = {f"{name}, under the salt of the mapping": digest for name, digest in bound["keyed"].items()}
    return {**bound["files"], **keyed}


def _salt_digest(digest: str, salt: str) -> str:
    return hmac.digest(salt.encode(), bytes.fromhex(digest), "sha256").hex()


COMPUTED = (
    ("claim", "supported"),
    ("claim", "guarantee", "epsilon"),
    ("claim", "epsilon"),
    ("claim", "unamplified"),
    ("reading",),
    ("verification",),
)


def verify_log_report(
    content: bytes,
    found: LogVerification,
    *,
    brought: TrustAnchors = NO_TRUST_ANCHORS,
    signed: Sequence[SignatureCheck] = (),
) -> ReportVerification:
    """Builds the report of logs again and compares it with one that was given, as JSON or as its HTML page.

    Args:
        content: the report.
        found: what the logs say themselves.
        brought: whose signatures count; whoever brings a key requires one.
        signed: who has signed the report; see ``verify.read_signed``.

    Raises:
        RecordError: it is no report of logs.
    """
    page, document = read_report(content)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise RecordError("it is no report of logs")
    findings = (
        *found.outcome.findings,
        check_rebuilt(document, build_log_report(found, version=get_report_version(document)), computed=COMPUTED),
        check_page({} if page is None else {RunArtifact.PAGE: content}, document),
        *check_signatures(signed, brought.keys),
    )
    failed = {one.check for one in findings if one.verdict is Status.FAILED} & {"report", "page", "signature"}
    left = format_supported_statement(found.claim.guarantee, unamplified=math.inf, failed=failed)
    required = (*found.outcome.required, *(("signature",) if brought.keys else ()))
    outcome = replace(found.outcome, findings=findings, required=required)
    return ReportVerification(outcome, left if failed else format_log_statement(found))
