"""What both calculators answer, without a server: a stamped calculation is verified with the base install only."""

from __future__ import annotations

from typing import Any

from epsilog import plan
from epsilog.terms import Finding
from epsilog.web.asks import FederatedAsk, QueriesAsk


def federated_answer(ask: FederatedAsk) -> dict[str, Any]:
    """What a federated schedule costs, with its delta verdict and its limits, as plain JSON values."""
    answer = plan.federated(**ask.arguments())
    grade, sentence = plan.delta_sentence(answer.delta.delta, ask.population)
    return answer.to_json() | {
        "delta_grade": grade,
        "delta_sentence": sentence,
        "limits": [limit.to_json() for limit in claim_limits(ask)],
    }


def claim_limits(ask: FederatedAsk) -> tuple[Finding, ...]:
    """What a federated calculation covers, and what it does not."""
    return plan.limits(
        sampling=ask.sampling,
        without_replacement=ask.without_replacement,
        rounds_per_release=ask.rounds_per_release,
        adaptive_clip=ask.adaptive_clip,
        privacy_unit=ask.privacy_unit,
        late_replies=ask.late_replies,
    )


def queries_answer(ask: QueriesAsk) -> dict[str, Any]:
    """How a budget is split over queries, with its delta verdict, as plain JSON values."""
    answer = plan.queries(**ask.arguments())
    verdict: dict[str, Any] = {"delta_grade": None, "delta_sentence": None}
    if answer.delta is not None and ask.population is not None:
        grade, sentence = plan.delta_sentence(answer.delta.delta, ask.population)
        verdict = {"delta_grade": grade, "delta_sentence": sentence}
    return answer.to_json() | verdict


def answer_again(kind: str, question: Any) -> Any:
    """Works out what the question of a stamped calculation is answered with.

    Args:
        kind: that of the record.
        question: as it stands there.

    Raises:
        ValueError: it is no such question.
    """
    if kind == "federated-calculation":
        return federated_answer(FederatedAsk.model_validate(question))
    return queries_answer(QueriesAsk.model_validate(question))
