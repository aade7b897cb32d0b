"""Checks a document without trusting who made it: draws its shards again, and redoes its choice and its claim.

What no recomputation can see: whether the seed came fresh from an operating system, and whether this was the only run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from epsilog.accounting.montecarlo.candidates import plan_from_json
from epsilog.accounting.montecarlo.certificates import Certificate
from epsilog.accounting.montecarlo.evidence import Evidence, evidence_from_json
from epsilog.accounting.montecarlo.run import Source, entropy
from epsilog.accounting.montecarlo.shards import count_hits, is_proven
from epsilog.accounting.montecarlo.sweeps import SweepResult
from epsilog.terms import CalibrationError, Interval, codec

_ROUND_OFF = 1e-11  # relative, between two versions of the libraries; the numbers are rounded up by more than that


def check_document(document: dict[str, Any], *, shards: int | None = None) -> tuple[str, ...]:
    """Recomputes a certificate's or sweep's evidence, choice and claim; lists what does not agree.

    Args:
        document: what ``to_json`` made, after a round trip through JSON.
        shards: how many shards of each trial to draw again, picked at random here and now; by default all.

    Returns:
        A sentence per disagreement; empty if all agrees.

    Raises:
        ValueError: not a document of ours, or of another version or stream format.
    """
    kinds: dict[Any, Callable[[dict[str, Any], Source, tuple[Evidence, ...]], list[str]]] = {
        "montecarlo-certificate": _certificate,
        "montecarlo-sweep": _sweep,
    }
    try:
        if document["v"] != 0 or document["kind"] not in kinds:
            raise ValueError(f"kind must be one of {', '.join(kinds)} (v 0), got {document['kind']!r}")
        source, evidence = evidence_from_json(document)
        found = kinds[document["kind"]](document, source, evidence)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"document must be as certify or sweep wrote it, got one that is not: {error!r}") from error
    return (*found, *_redrawn(source, evidence, shards))


def _redrawn(source: Source, evidence: tuple[Evidence, ...], shards: int | None) -> list[str]:
    """The shards whose hits differ when drawn again."""
    found = []
    for part in evidence:
        place = f"candidate {part.trial.candidate} {part.trial.tilt.direction}"
        if not is_proven(part.trial):
            found.append(f"{place}: its bound M is not proven")
            continue
        chosen: Sequence[int] = range(len(part.hits))
        if shards is not None and shards < len(part.hits):  # at random, or a forger would know which are safe
            rng = np.random.default_rng(entropy())
            chosen = sorted(map(int, rng.choice(len(part.hits), size=shards, replace=False)))
        for shard in chosen:
            again = count_hits(part.trial, source.seed, shard)
            if again != part.hits[shard]:
                found.append(f"{place} shard {shard}: {part.hits[shard]} hits recorded, {again} drawn")
    return found


def _certificate(document: dict[str, Any], source: Source, evidence: tuple[Evidence, ...]) -> list[str]:
    try:
        again = Certificate(source, document["failure"], evidence).interval
    except (ValueError, CalibrationError) as error:
        return [f"evidence: {error}"]
    stated = codec.decode(document["interval"])
    if not isinstance(stated, Interval) or stated.estimate is None or again.estimate is None:
        return [f"interval: {document['interval']!r} is none with an estimate"]
    same = (stated.method, stated.relation, stated.assumptions, stated.quantity, stated.given) == (
        again.method,
        again.relation,
        again.assumptions,
        again.quantity,
        again.given,
    )
    near = abs(stated.estimate - again.estimate) <= _ROUND_OFF * again.estimate
    inside = stated.lower <= again.lower * (1 + _ROUND_OFF) and stated.upper >= again.upper * (1 - _ROUND_OFF)
    return [] if same and near and inside else [f"interval: {stated}, recomputed {again}"]


def _sweep(document: dict[str, Any], source: Source, evidence: tuple[Evidence, ...]) -> list[str]:
    try:
        plan = plan_from_json(document)
    except ValueError as error:
        return [f"plan: {error}"]
    stated, claim = document["claim"], plan.claim
    found = []
    if not stated["delta"] >= claim * (1 - _ROUND_OFF) or stated["epsilon"] != plan.epsilon:
        found.append(f"claim: delta {stated['delta']!r} at {stated['epsilon']!r}, recomputed {claim!r}")
    try:
        result = SweepResult(plan, source, evidence)
    except ValueError as error:
        return [*found, str(error)]
    again = result.to_json()
    if document["chosen"] != result.chosen:
        found.append(f"chosen: {document['chosen']!r}, the evidence says {result.chosen!r}")
    if document["noise"] != result.noise:
        found.append(f"noise: {document['noise']!r}, candidate {result.chosen!r} has {result.noise!r}")
    if stated["relation"] != again["claim"]["relation"]:
        found.append(f"claim: relation {stated['relation']!r}, proven for {again['claim']['relation']!r}")
    found += [
        f"{name}: not as this version states it" for name in ("bound", "assumptions") if document[name] != again[name]
    ]
    return found
