"""The report: one JSON document that holds everything a third party needs to recompute the claim.

Every rendering (HTML, terminal) is made from this document alone. Fields that nobody filled are listed as empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from epsilog.plan import RegisteredPlan, formula_sentence
from epsilog.prove.narrative import LIMITS, supported_statement, who_sees_what
from epsilog.terms import codec
from epsilog.verify import Evidence, Reconciliation, Verdict

VERSION = 0
CURVE_POINTS = 40


@dataclass(frozen=True, slots=True)
class Utility:
    """What a simulation shows beside the run: never measured on private data of a real programme.

    Attributes:
        score_name: what the score is, e.g. "R squared on the public test set".
        without_dp: loss and score after each round without clip and noise; None each where training diverged.
        study: (epsilon, noise multiplier, final loss, final score) for other budgets; likewise.
        control: what the verifier said of a run whose noise was 30% too low.
    """

    score_name: str
    without_dp: tuple[tuple[float | None, float | None], ...] = ()
    study: tuple[tuple[float, float, float | None, float | None], ...] = ()
    control: dict[str, Any] = field(default_factory=dict)


def build_report(
    evidence: Evidence, outcome: Reconciliation, *, score_name: str, utility: Utility | None
) -> dict[str, Any]:
    """Writes the report of one run.

    Args:
        evidence: what the run left behind.
        outcome: what the checks said of it.
        score_name: what the public score measures.
        utility: what a simulation shows beside it; None for a real run.
    """
    plan, word = evidence.plan, evidence.ledger
    details = plan.details
    failed = {finding.check for finding in outcome.findings if finding.verdict is Verdict.FAILED}
    last = evidence.records[-1] if evidence.records else None
    return {
        "v": VERSION,
        "kind": "report",
        "identity": details.get("programme", {"name": plan.name})
        | {"period": details.get("reporting", {}).get("period", "")},
        "simulation": plan.simulation,
        "claim": {
            "statement": supported_statement(plan.guarantee, unamplified=plan.unamplified.upper, failed=failed),
            "guarantee": codec.encode(plan.guarantee),
            "epsilon": codec.encode(plan.epsilon),
            "unamplified": codec.encode(plan.unamplified),
            "delta_rationale": plan.budget.get("delta_rationale", ""),
            "boundary": details.get("boundary", {}),
            "parties": who_sees_what(
                plan.scheme,
                unit=plan.guarantee.privacy_unit,
                epsilon=plan.epsilon.upper,
                unamplified=plan.unamplified.upper,
            ),
        },
        "mechanism": {
            "scheme": codec.encode(plan.scheme),
            "release": codec.encode(plan.scheme.release()),
            "noise_stddev": plan.scheme.noise_stddev,
            "training": details.get("training", {}),
            "data": details.get("data", {}),
        },
        "accounting": {
            "formula": {
                "root_term": _number(plan.formula.root_term),
                "linear_term": _number(plan.formula.linear_term),
                "total": _number(plan.formula.total),
                "dominates": plan.formula.dominates,
                "side": "estimate",
                "verdict": formula_sentence(plan.formula.total, plan.epsilon),
            },
            "curve": epsilon_curve(plan, len(evidence.records)),
        },
        "budget": plan.budget | ({"charged": dict(word.amounts), "state": word.state} if word and word.key else {}),
        "rounds": [
            {"round": record.round, "test_loss": record.test_loss, "test_score": record.test_score}
            for record in evidence.records
        ],
        "result": {
            "rounds": len(evidence.records),
            "diverged": bool(last and last.diverged),
            "score_name": score_name,
            "test_loss": last.test_loss if last else None,
            "test_score": last.test_score if last else None,
            "model_hash": last.output_hash if last else None,
        },
        "utility": None if utility is None else _utility(utility),
        "verification": outcome.to_json(),
        "evidence": {
            "plan_hash": plan.hash,
            "files": dict(evidence.hashes),
            "ledger": None if word is None else {"entries": word.count, "head": word.head, "charge": word.key},
            "references": details.get("references", {}),
            "software": {name: metadata.version(name) for name in ("epsilog", "numpy", "scipy")},
            "recompute": "epsilog verify <run folder> --ledger <ledger file>",
        },
        "limits": list(LIMITS),
    }


def epsilon_curve(plan: RegisteredPlan, rounds: int) -> list[dict[str, Any]]:
    """Certified epsilon after rounds 1 .. ``rounds``, at about 40 of them, the last one included."""
    count = min(rounds, CURVE_POINTS)
    chosen = sorted({1 + round(k * (rounds - 1) / max(1, count - 1)) for k in range(count)})
    curve = []
    for one in chosen:
        interval = plan.epsilon_after(one)
        curve.append({"round": one, "lower": _number(interval.lower), "upper": _number(interval.upper)})
    return curve


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def _utility(utility: Utility) -> dict[str, Any]:
    keys = ("epsilon", "noise_multiplier", "test_loss", "test_score")
    return {
        "score_name": utility.score_name,
        "without_dp": [{"round": i, "test_loss": a, "test_score": b} for i, (a, b) in enumerate(utility.without_dp, 1)],
        "study": [dict(zip(keys, point, strict=True)) for point in utility.study],
        "control": utility.control,
    }
