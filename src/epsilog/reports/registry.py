"""A record for the OpenDP Deployments Registry, from a report: what its schema can say, and a note of what it cannot.

Source:
    opendp/deployments-registry-data, schemas/deployments-schema.yaml at 3e9c812 (2026-07-15).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from epsilog.plan.sentences import format_tpr_label
from epsilog.reports.publication_fields import compute_registry_tier, merge_publication_fields
from epsilog.reports.rendering import format_verdict
from epsilog.terms import RecordError
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.legible import legible
from epsilog.terms.messages import KINDS, sentence

NEEDED = ("organisation", "description", "region", "publication_date")  # the schema's own, which no report implies
NOT_SAID = "The schema has no field for what follows."


def build_registry_record(report: Mapping[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    """The record of one deployment, valid under the registry's schema.

    Args:
        report: a verified report of a run for people.
        about: further fields, which the report leaves blank; see ``publication.FIELDS``.

    Raises:
        RecordError: it reports a simulation, its checks failed, or a field that the schema requires is blank.
        CheckError: a field that the report states otherwise.
    """
    if report["simulation"]:
        raise RecordError("a simulation protects nobody and is no deployment: the registry takes none")
    if report["verification"]["status"] == "failed":
        raise RecordError("the checks of this report failed, so there is no guarantee to register")
    stated = merge_publication_fields(report, about)
    blank = [name for name in NEEDED if name not in stated]
    if blank:
        raise RecordError(
            f"the registry requires {', '.join(blank)}: state them in [reporting], or give --publication-fields FILE"
        )
    record = {
        "url_slug": report["identity"]["name"],
        "status": "Draft",
        "tier": max(1, compute_registry_tier(stated)),
        "deployment": {
            "basic": _basic(report, stated),
            "dp_variant": {"variant_name": "Approximate DP"}
            | _select_fields(stated, "data_domain", "unprotected_quantities"),
            "privacy_loss": _loss(report, stated),
            "deployment_model": _model(report, stated),
            "accounting": {
                "post_processing": report["claim"]["coverage"].get("post_processing", "none stated"),
                "composition": _composition(report),
            },
            "implementation": _implementation(report, stated),
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
    """The record as a YAML file: JSON, which YAML contains."""
    return legible(json.dumps(record, indent=2, ensure_ascii=False), keep="\n") + "\n"


@cache
def load_registry_schema() -> dict[str, Any]:
    """The registry's schema: its names, types, choices and what it requires."""
    schema: dict[str, Any] = json.loads((Path(__file__).parent / "registry.schema.json").read_text(encoding="utf-8"))
    return schema


def check_record(record: Any) -> None:
    """Raises ``ValueError`` naming the first place where a document is no record of the registry."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(load_registry_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)
    for error in validator.iter_errors(record):
        raise ValueError(f"{'/'.join(map(str, error.path)) or 'record'}: {error.message[:200]}")


def list_unmapped_fields(report: Mapping[str, Any]) -> list[str]:
    """What a report says and the registry's schema has no field for, a line each."""
    claim, evidence = report["claim"], report["evidence"]
    bounds = claim["epsilon"]
    least = format_lower(float(bounds["lower"]))
    lines = [
        NOT_SAID,
        f"Accountant: epsilog {evidence['software'].get('epsilog', '(version not stated)')}, "
        f"{sentence(bounds['method'])}.",
        f"Side: the epsilon above is a certified upper bound; the loss is at least {least}.",
        f"Neighbouring relation: {claim['guarantee']['relation']}, among N = {claim['guarantee']['population']}.",
        f"Against whoever knows who took part: epsilon {format_upper(float(claim['unamplified']['upper']))}.",
        f"Records against plan and ledger: {format_verdict(report)['message']}.",
        f"Plan {evidence['plan_hash']}.",
    ]
    if evidence["ledger"]:
        lines.append(f"Ledger head {evidence['ledger']['head']} after {evidence['ledger']['count']} entries.")
    if report["risk_metrics"]["mu"] is not None:
        lines.append(f"Gaussian DP: mu {report['risk_metrics']['mu']}.")
    lines += [
        f"Best attack: {format_tpr_label(attack['fpr'])}, at most {KINDS['percent'](attack['tpr'])}."
        for attack in report["risk_metrics"]["attack"][-1:]
    ]
    return [*lines, f"Assumed: {'; '.join(map(sentence, bounds['assumptions'])) or 'nothing further'}."]


def _select_fields(stated: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: stated[name] for name in names if name in stated}


def _basic(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": report["identity"]["name"],
        "data_curators": [stated["organisation"]],
        "description": stated["description"],
        "intended_use": report["identity"]["purpose"],
        "data_product_type": "Machine learning model",
        "data_product_region": stated["region"],
        "publication_date": stated["publication_date"],
    } | ({"data_product_sector": stated["sector"]} if "sector" in stated else {})


def _loss(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
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
"""Neither central nor local in the registry's words: at the example level a client is trusted with its own rows."""


def _model(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
    parties, kind = report["claim"]["parties"], report["mechanism"]["scheme"]["type"]
    trusted = any(row["party"] == "Server" and row["protection"].startswith("no guarantee") for row in parties)
    return {
        "model_name": MODELS.get(kind, "Central" if trusted else "Local"),
        "model_name_details": f"Federated learning under the scheme {kind}.",
        "actors": "\n".join(f"- {row['party']} sees {row['view']}: {row['protection']}." for row in parties),
    } | _select_fields(stated, "release_type", "data_source_type", "access_type")


def _composition(report: Mapping[str, Any]) -> str:
    rounds, curve = report["mechanism"]["scheme"]["rounds"], report["claim"]["epsilon"]
    return f"{rounds} adaptive rounds, composed exactly: {sentence(curve['method'])}."


def _implementation(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, str]:
    mechanism, software = report["mechanism"], report["evidence"]["software"]
    facts = {name: value for name, value in mechanism["scheme"].items() if name != "type"}
    versions = ", ".join(f"{name} {version}" for name, version in software.items())
    told = [
        f"{mechanism['scheme']['type']}: {', '.join(f'{name} {value}' for name, value in facts.items())}.",
        f"Standard deviation of the noise on each noisy sum: {mechanism['noise_stddev']}.",
        f"Software: {versions}.",
        *report["limits"][3:5],
    ]
    found = {"mechanisms": "\n".join(f"- {line}" for line in told)}
    if "tuning" in stated:
        found["preprocessing_and_hyperparameter_tuning"] = stated["tuning"]
    return found | _select_fields(stated, "justification")
