"""Checks a document without trusting who made it: builds it again from its plan and draws, and compares every field.

What no recomputation can see is what the provenance of its seed leaves open: ``docs/montecarlo/evidence.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from epsilog.accounting.montecarlo.delta_bound import DeltaBoundPlan, MonteCarloEvidence, delta_bound_plan_from_json
from epsilog.accounting.montecarlo.documents import VERSION, TrialEvidence, source_from_json
from epsilog.accounting.montecarlo.noise_search import NoiseSearchPlan, NoiseSearchResult, noise_search_plan_from_json
from epsilog.accounting.montecarlo.run import NONCE, RandomnessSource, draw_entropy
from epsilog.accounting.montecarlo.shards import BernoulliTrial, count_hits, is_proven
from epsilog.terms import CalibrationError, CheckError, UnsupportedMechanismError, check

_ROUND_OFF = 1e-11  # relative, between two versions of the libraries; the numbers are rounded up by more than that
_ROUNDED = {"/interval/lower", "/interval/upper", "/interval/estimate", "/claim/delta"}
_MALFORMED = (KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError)
_PLANS: dict[Any, Callable[[dict[str, Any]], DeltaBoundPlan | NoiseSearchPlan]] = {
    "montecarlo-delta-bound": delta_bound_plan_from_json,
    "montecarlo-noise-search": noise_search_plan_from_json,
}


def plan_from_json(data: dict[str, Any]) -> DeltaBoundPlan | NoiseSearchPlan:
    """Return the plan of a document from its ``to_json``.

    Raises:
        ValueError: not a plan of ours, or of another version or stream format, or not as we would write it.
    """
    try:
        if type(data["v"]) is not int or data["v"] != VERSION or data["kind"] not in _PLANS:
            raise CheckError("kind", f"one of {', '.join(_PLANS)} (v {VERSION})", repr(data["kind"]))
        plan = _PLANS[data["kind"]](data)
    except CheckError:
        raise  # it names its field
    except (*_MALFORMED, ValueError, UnsupportedMechanismError) as error:
        raise ValueError(f"plan must be as plan_delta_bound or plan_noise_search wrote it, got: {error!r}") from error
    if found := [*_differences(data, plan.to_json(), "")]:
        raise ValueError(f"plan must be as plan_delta_bound or plan_noise_search wrote it: {found[0]}")
    return plan


def recompute_document(
    document: dict[str, Any], *, shards: int | None = None, commitment: str | None = None, nonce: str | None = None
) -> tuple[str, ...]:
    """Build Monte Carlo evidence again from its plan and its draws, and return the differences.

    Args:
        document: what ``to_json`` made, after a round trip through JSON.
        shards: how many shards of each trial to draw again, picked at random here and now; by default all.
        commitment: the plan's fingerprint as you saw it published, before the nonce was known.
        nonce: as its public source gives it.

    Returns:
        A sentence per disagreement; empty if all agrees.

    Raises:
        ValueError: not a document of ours, or of another version or stream format.
    """
    shards = check.optional(check.integer(1))(shards=shards)
    try:
        plan = plan_from_json(document["plan"])
        source = source_from_json(document["source"])
        counts = [tuple(found) for found in document["hits"]]
        evidence = tuple(TrialEvidence(trial, hits) for trial, hits in zip(_trials(plan), counts, strict=False))
        if len(counts) > len(evidence):
            raise CheckError("hits", f"of at most {len(evidence)} trials", f"{len(counts)}")
        result = _result(plan, source, evidence)
    except _MALFORMED as error:
        raise CheckError(
            "document", "as bound_delta or search_noise wrote it", f"one that is not: {error!r}"
        ) from error
    found = [result] if isinstance(result, str) else [*_differences(document, result.to_json(), "")]
    if commitment is not None and commitment != plan.commitment:
        found.append(f"/commitment: {commitment} was published, this plan's is {plan.commitment}")
    if nonce is not None and source != RandomnessSource(NONCE, nonce):
        found.append(f"/source: the public nonce is {nonce!r}, this has {source.provenance} {source.value!r}")
    return (*found, *_redrawn(evidence, source.seed(plan.commitment), shards))


def describe_seed_provenance(document: dict[str, Any]) -> str:
    """Return the origin of the seed of a checked document, and what it leaves unproven."""
    source = source_from_json(document["source"])
    return f"{source.assumption} ({source.provenance} {source.value!r}, plan {document['commitment']})"


def _trials(plan: DeltaBoundPlan | NoiseSearchPlan) -> tuple[BernoulliTrial, ...]:
    if isinstance(plan, DeltaBoundPlan):
        return plan.trials
    return tuple(test.trial for pair in plan.checks for test in pair)


def _result(
    plan: DeltaBoundPlan | NoiseSearchPlan, source: RandomnessSource, evidence: tuple[TrialEvidence, ...]
) -> MonteCarloEvidence | NoiseSearchResult | str:
    """Return the evidence or the noise search of the draws, or the reason why it failed."""
    try:
        if isinstance(plan, DeltaBoundPlan):
            return MonteCarloEvidence(plan, source, evidence)
        return NoiseSearchResult(plan, source, evidence)
    except (ValueError, CalibrationError, UnsupportedMechanismError) as error:
        return f"/hits: {error}"


def _differences(stated: Any, again: Any, path: str) -> Iterator[str]:
    """Return where a document differs from the expected one, and what is expected; all numbers compare as numbers."""
    if isinstance(again, dict) and isinstance(stated, dict):
        for name in sorted({*stated, *again}, key=str):
            if name not in stated:
                yield f"{path}/{name}: missing"
            elif name not in again:
                yield f"{path}/{name}: nothing that this version states"
            else:
                yield from _differences(stated[name], again[name], f"{path}/{name}")
    elif isinstance(again, list) and isinstance(stated, list) and len(again) == len(stated):
        for place, (one, other) in enumerate(zip(stated, again, strict=True)):
            yield from _differences(one, other, f"{path}/{place}")
    elif not _same(stated, again, _ROUND_OFF if path in _ROUNDED else 0.0):
        yield f"{path}: {stated!r}, recomputed {again!r}"


def _same(stated: Any, again: Any, round_off: float) -> bool:
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, again)]
    if all(numbers):
        return bool(stated == again or (abs(stated) < 1e300 and abs(stated - again) <= round_off * abs(again)))
    return type(stated) is type(again) and bool(stated == again)


def _redrawn(evidence: tuple[TrialEvidence, ...], seed: int, shards: int | None) -> list[str]:
    """Return the shards with other hits when drawn again."""
    found = []
    for part in evidence:
        place = f"candidate {part.trial.candidate} {part.trial.tilt.direction}"
        chosen: Sequence[int] = range(len(part.hits))
        if shards is not None and shards < len(part.hits):  # at random, or a forger would know which are safe
            rng = np.random.default_rng(draw_entropy())
            chosen = sorted(map(int, rng.choice(len(part.hits), size=shards, replace=False)))
        try:
            if not is_proven(part.trial):
                found.append(f"{place}: its bound M is not proven")
                continue
            for shard in chosen:
                again = count_hits(part.trial, seed, shard)
                if again != part.hits[shard]:
                    found.append(f"{place} shard {shard}: {part.hits[shard]} hits recorded, {again} drawn")
        except (UnsupportedMechanismError, ArithmeticError, MemoryError) as error:
            found.append(f"{place}: cannot be drawn again: {error}")
    return found
