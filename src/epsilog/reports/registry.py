"""A record for the OpenDP Deployments Registry, from a report; notes hold what its schema has no field for.

Source:
    opendp/deployments-registry-data, schemas/deployments-schema.yaml at 3e9c812 (2026-07-15).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from epsilog.plan.sentences import format_tpr_label
from epsilog.reports.figures import show_lower, show_upper
from epsilog.reports.first_page import format_verdict
from epsilog.reports.publication_fields import compute_registry_tier, merge_publication_fields
from epsilog.reports.schema import check_record
from epsilog.terms import RecordError
from epsilog.terms.legible import legible
from epsilog.terms.messages import KINDS, sentence

REQUIRED_FIELDS = (
    "organization",
    "description",
    "region",
    "publication_date",
)  # by the schema, and implied by no report
NOTES_HEADING = "The schema has no field for what follows."


def build_registry_record(report: Mapping[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of one deployment, valid under the registry's schema.

    Args:
        report: a verified report of a real run.
        about: publication fields that the report leaves blank.

    Raises:
        RecordError: the run is a simulation, its checks failed, or a required field is blank.
        CheckError: the report states a field otherwise.
    """
    if report["simulation"]:
        raise RecordError("a simulation gives no protection, so the registry does not accept it")
    if report["verification"]["status"] == "failed":
        raise RecordError("the checks of this report failed, so no guarantee can be registered")
    stated = merge_publication_fields(report, about)
    blank = [name for name in REQUIRED_FIELDS if name not in stated]
    if blank:
        raise RecordError(
            f"the registry requires {', '.join(blank)}: state them in [reporting], or give --publication-fields FILE"
        )
    rounds, method = report["mechanism"]["scheme"]["rounds"], sentence(report["claim"]["epsilon"]["method"])
    record = {
        "url_slug": report["identity"]["name"],
        "status": "Draft",
        "tier": max(1, compute_registry_tier(stated)),
        "deployment": {
            "basic": _build_basic(report, stated),
            "dp_variant": {"variant_name": "Approximate DP"}
            | _select_fields(stated, "data_domain", "unprotected_quantities"),
            "privacy_loss": _build_privacy_loss(report, stated),
            "deployment_model": _build_deployment_model(report, stated),
            "accounting": {
                "post_processing": report["claim"]["coverage"].get("post_processing", "none stated"),
                "composition": f"{rounds} adaptive rounds, composed exactly: {method}.",
            },
            "implementation": _build_implementation(report, stated),
            "administrative": {
                "notes": "\n".join(f"- {line}" for line in list_unmapped_fields(report)),
                "registry_authors": [report["identity"]["owner"]],
            }
            | _select_fields(stated, "sources"),
        },
    }
    check_record(record)
    return record


def render_record(record: Mapping[str, Any]) -> str:
    """Return the record as YAML, of which JSON is a subset."""
    return legible(json.dumps(record, indent=2, ensure_ascii=False), keep="\n") + "\n"


def list_unmapped_fields(report: Mapping[str, Any]) -> list[str]:
    """Return what a report states and the registry's schema has no field for, a line each."""
    claim, evidence = report["claim"], report["evidence"]
    bounds = claim["epsilon"]
    lines = [
        NOTES_HEADING,
        f"Accountant: epsilog {evidence['software'].get('epsilog', '(version not stated)')}, "
        f"{sentence(bounds['method'])}.",
        f"Side: the epsilon above is a certified upper bound; epsilon is at least {show_lower(bounds['lower'])}.",
        f"Neighboring relation: {claim['guarantee']['relation']}, among N = {claim['guarantee']['population']}.",
        f"Epsilon if participation is known: {show_upper(claim['unamplified']['upper'])}.",
        f"Records against plan and ledger: {format_verdict(report)}.",
        f"Plan {evidence['plan_hash']}.",
    ]
    if evidence["ledger"]:
        lines.append(f"Ledger head {evidence['ledger']['head']} after {evidence['ledger']['count']} entries.")
    if report["risk_metrics"]["mu"] is not None:
        lines.append(f"Gaussian DP: mu {report['risk_metrics']['mu']}.")
    lines += [
        f"Attacks: {format_tpr_label(attack['fpr'])}, at most {KINDS['percent'](attack['tpr'])}."
        for attack in report["risk_metrics"]["attack"][-1:]
    ]
    return [*lines, f"Assumptions: {'; '.join(map(sentence, bounds['assumptions'])) or 'none'}."]


def _select_fields(stated: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: stated[name] for name in names if name in stated}


def _build_basic(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": report["identity"]["name"],
        "data_curators": [stated["organization"]],
        "description": stated["description"],
        "intended_use": report["identity"]["purpose"],
        "data_product_type": "Machine learning model",
        "data_product_region": stated["region"],
        "publication_date": stated["publication_date"],
    } | ({"data_product_sector": stated["sector"]} if "sector" in stated else {})


def _build_privacy_loss(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
    claim = report["claim"]
    guarantee = claim["guarantee"]
    details = [claim["statement"], *([stated["unit_details"]] if "unit_details" in stated else [])]
    return {
        "privacy_unit": guarantee["privacy_unit"],
        "privacy_unit_details": " ".join(details),
        "privacy_parameters": {"epsilon": claim["supported"], "delta": guarantee["delta"]},
        "privacy_parameters_details": f"Certified upper bound of the whole run. Delta: {claim['delta_rationale']}.",
    }


MODELS = {"client-level-distributed": "Federated", "example-level-client-side": "Federated"}
"""Schemes that are neither central nor local: at the example level a client is trusted with its own rows."""


def _build_deployment_model(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
    parties, kind = report["claim"]["parties"], report["mechanism"]["scheme"]["type"]
    trusted = any(row["party"] == "Server" and row["protection"].startswith("no guarantee") for row in parties)
    return {
        "model_name": MODELS.get(kind, "Central" if trusted else "Local"),
        "model_name_details": f"Federated learning under the scheme {kind}.",
        "actors": "\n".join(f"- {row['party']} sees {row['view']}: {row['protection']}." for row in parties),
    } | _select_fields(stated, "release_type", "data_source_type", "access_type")


def _build_implementation(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, str]:
    mechanism, software = report["mechanism"], report["evidence"]["software"]
    settings = {name: value for name, value in mechanism["scheme"].items() if name != "type"}
    versions = ", ".join(f"{name} {version}" for name, version in software.items())
    lines = [
        f"{mechanism['scheme']['type']}: {', '.join(f'{name} {value}' for name, value in settings.items())}.",
        f"Standard deviation of the noise on each noisy sum: {mechanism['noise_stddev']}.",
        f"Software: {versions}.",
        *report["limits"][3:5],
    ]
    tuning = {"preprocessing_and_hyperparameter_tuning": stated["tuning"]} if "tuning" in stated else {}
    return {"mechanisms": "\n".join(f"- {line}" for line in lines)} | tuning | _select_fields(stated, "justification")
