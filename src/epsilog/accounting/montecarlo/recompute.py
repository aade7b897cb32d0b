"""Checks a document without trusting who made it: draws its shards again, and redoes its choice and its claim."""

from __future__ import annotations

from typing import Any

from epsilog.accounting.montecarlo.evidence import mismatches, trial_from_json, trial_json
from epsilog.accounting.montecarlo.sweeps import Check, SweepPlan, renoised


def check_document(document: dict[str, Any], *, shards: int | None = None) -> tuple[str, ...]:
    """Recomputes a certificate's or sweep's evidence, choice and claim; lists what does not agree.

    Args:
        document: what ``to_json`` made, after a round trip through JSON.
        shards: how many shards of each trial to draw again; by default all.
    """
    found = list(mismatches(document, shards=shards))
    if document.get("kind") != "montecarlo-sweep":
        return tuple(found + _short(document))
    checks = tuple(
        (Check(trial_from_json(a), a["passes"]), Check(trial_from_json(b), b["passes"])) for a, b in document["checks"]
    )
    plan = SweepPlan(
        document["epsilon"], document["target_delta"], tuple(document["noises"]), checks, document["fallback_delta"]
    )
    if not document["claim"]["delta"] >= plan.claim * (1 - 1e-9) or document["claim"]["epsilon"] != plan.epsilon:
        found.append(f"claim: delta {document['claim']['delta']!r} at {plan.epsilon!r}, recomputed {plan.claim!r}")
    chosen: int | None = None
    entries = document["evidence"]
    for position, pair in enumerate(checks):
        parts = entries[2 * position : 2 * position + 2]
        if len(parts) < 2:
            found.append(f"evidence: candidate {position} was never tested, but none before it failed")
            break
        for test, part in zip(pair, parts, strict=True):
            if trial_json(test.trial) != {key: value for key, value in part.items() if key != "hits"}:
                found.append(f"evidence: candidate {position} was not tested as planned")
        failed = any(sum(part["hits"]) > test.hits for test, part in zip(pair, parts, strict=True))
        if failed:
            break
        if any(len(part["hits"]) != test.trial.shards for test, part in zip(pair, parts, strict=True)):
            found.append(f"evidence: candidate {position} passed before all its draws were made")
        chosen = position
    if chosen != document["chosen"]:
        found.append(f"chosen: {document['chosen']!r}, the evidence says {chosen!r}")
    named = None if document["chosen"] is None else document["noises"][document["chosen"]]
    if document["noise"] != named:
        found.append(f"noise: {document['noise']!r}, candidate {document['chosen']!r} has {named!r}")
    found += [
        f"noises: candidate {position} has another noise than its release"
        for position, pair in enumerate(checks)
        if any(test.trial.release != renoised(test.trial.release, plan.noises[position]) for test in pair)
    ]
    return tuple(found)


def _short(certificate: dict[str, Any]) -> list[str]:
    """A certificate has no right to stop early."""
    return [
        f"evidence: {entry['direction']} stopped before all its draws were made"
        for entry in certificate["evidence"]
        if len(entry["hits"]) != trial_from_json(entry).shards
    ]
