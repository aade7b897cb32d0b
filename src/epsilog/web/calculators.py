"""The two calculators over HTTP: each answer is one call of ``epsilog.plan``."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from typing import Any

from epsilog import plan
from epsilog.terms import NeighboringRelation, codec
from epsilog.web import answers
from epsilog.web.asks import (
    CrossoverAsk,
    FederatedAsk,
    FederatedGoal,
    FederatedSchedule,
    QueriesAsk,
    SensitivityAsk,
)
from epsilog.web.questions import Questions

questions = Questions("calculators")


@questions.add("/federated", answers.FederatedAnswer, summary="What a federated schedule costs")
def federated(ask: FederatedAsk) -> dict[str, Any]:
    """The certified interval, the popular closed form term by term, the delta verdict and the limits."""
    return _answer(ask)


@questions.add("/federated/curve", answers.CurveAnswer, summary="Epsilon over rounds")
def federated_curve(ask: FederatedSchedule) -> dict[str, Any]:
    """Certified bounds and the closed form at up to 16 numbers of rounds."""
    points = plan.curve(plan.federated(**ask.arguments()))
    return {
        "points": [
            {
                "rounds": point.rounds,
                "lower": codec.encode(point.epsilon.lower),
                "upper": codec.encode(point.epsilon.upper),
                "formula": codec.encode(point.formula),
            }
            for point in points
        ]
    }


@questions.add("/federated/noise", answers.NoiseAnswer, summary="The least noise for a target epsilon")
def federated_noise(ask: FederatedGoal) -> dict[str, float]:
    """On the certified side; the schedule's own noise is ignored."""
    return {"noise_multiplier": plan.noise_for(**_without(ask, "noise_multiplier"))}


@questions.add("/federated/rounds", answers.RoundsAnswer, summary="The most rounds for a target epsilon")
def federated_rounds(ask: FederatedGoal) -> dict[str, int]:
    """On the certified side; the schedule's own rounds are ignored."""
    return {"rounds": plan.rounds_for(**_without(ask, "rounds"))}


@questions.add("/federated/record", answers.Stamped, summary="A calculation as a stamped record")
def federated_record(ask: FederatedAsk) -> dict[str, Any]:
    """The question and its answer, with the SHA-256 of their canonical JSON (RFC 8785)."""
    return _stamped("federated-calculation", ask.model_dump(), _answer(ask))


@questions.add("/queries", answers.QueriesAnswer, summary="A budget split over queries")
def queries(ask: QueriesAsk) -> dict[str, Any]:
    """Noise the classic way, exactly and optimally; what is consumed and what remains."""
    return _queries(ask)


@questions.add("/queries/record", answers.Stamped, summary="A query plan as a stamped record")
def queries_record(ask: QueriesAsk) -> dict[str, Any]:
    """The question and its answer, with the SHA-256 of their canonical JSON (RFC 8785)."""
    return _stamped("query-calculation", ask.model_dump(), _queries(ask))


@questions.add("/queries/crossover", answers.CrossoverAnswer, summary="Laplace against Gaussian")
def queries_crossover(ask: CrossoverAsk) -> dict[str, Any]:
    """95% errors at unit sensitivity over the number of queries, and where Gaussian noise becomes the smaller."""
    return dataclasses.asdict(plan.crossover(epsilon=ask.epsilon, delta=ask.delta))


@questions.add("/sensitivity", answers.SensitivityAnswer, summary="The sensitivity of a count, a bounded sum or a mean")
def sensitivity(ask: SensitivityAsk) -> dict[str, Any]:
    """The most one privacy unit can move the answer, and why."""
    given = ask.model_dump() | {"relation": NeighboringRelation(ask.relation)}
    return dataclasses.asdict(plan.sensitivity(given.pop("query"), **given))


def _answer(ask: FederatedAsk) -> dict[str, Any]:
    answer = plan.federated(**ask.arguments())
    grade, sentence = plan.delta_sentence(answer.delta.delta, ask.population)
    limits = plan.limits(
        sampling=ask.sampling,
        without_replacement=ask.without_replacement,
        rounds_per_release=ask.rounds_per_release,
        adaptive_clip=ask.adaptive_clip,
        privacy_unit=ask.privacy_unit,
        late_replies=ask.late_replies,
    )
    return answer.to_json() | {
        "delta_grade": grade,
        "delta_sentence": sentence,
        "limits": [limit.to_json() for limit in limits],
    }


def _queries(ask: QueriesAsk) -> dict[str, Any]:
    answer = plan.queries(**ask.arguments())
    verdict: dict[str, Any] = {"delta_grade": None, "delta_sentence": None}
    if answer.delta is not None and ask.population is not None:
        grade, sentence = plan.delta_sentence(answer.delta.delta, ask.population)
        verdict = {"delta_grade": grade, "delta_sentence": sentence}
    return answer.to_json() | verdict


def _without(ask: FederatedGoal, name: str) -> dict[str, Any]:
    given = ask.arguments()
    for other in (name, "clip_norm", "privacy_unit", "releases_per_period"):
        del given[other]
    return given


def _stamped(kind: str, question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    record = {"v": 0, "kind": kind, "software": f"epsilog {version('epsilog')}", "question": question, "answer": answer}
    return {"record": record, "sha256": codec.fingerprint(record)}
