"""The two calculators over HTTP: each answer is one call of ``epsilog.plan``."""

from __future__ import annotations

import dataclasses
from typing import Any

from epsilog import plan, prove
from epsilog.plan import wording
from epsilog.terms import CheckError, NeighboringRelation, codec, parameters
from epsilog.web import answers
from epsilog.web.asks import (
    CrossoverAsk,
    FederatedAsk,
    FederatedGoal,
    FederatedRecordAsk,
    FederatedSchedule,
    FederatedVerdictAsk,
    QueriesAsk,
    QueriesRecordAsk,
    QueriesVerdictAsk,
    SensitivityAsk,
)
from epsilog.web.calculations import claim_limits, federated_answer, queries_answer
from epsilog.web.questions import Questions

questions = Questions("calculators")
heavy = Questions("calculators", heavy=True)  # so that the bound itself always finds a process free
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@questions.add("/federated", answers.FederatedAnswer, summary="What a federated schedule costs")
def federated(ask: FederatedAsk) -> dict[str, Any]:
    """The certified interval, the popular closed form term by term, the delta verdict and the limits."""
    return federated_answer(ask)


@heavy.add("/federated/curve", answers.CurveAnswer, summary="Epsilon over rounds")
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


@heavy.add("/federated/noise", answers.NoiseAnswer, summary="The least noise for a target epsilon")
def federated_noise(ask: FederatedGoal) -> dict[str, float]:
    """On the certified side; the schedule's own noise is ignored."""
    return {"noise_multiplier": plan.noise_for(**_without(ask, "noise_multiplier"))}


@heavy.add("/federated/rounds", answers.RoundsAnswer, summary="The most rounds for a target epsilon")
def federated_rounds(ask: FederatedGoal) -> dict[str, int]:
    """On the certified side; the schedule's own rounds are ignored."""
    return {"rounds": plan.rounds_for(**_without(ask, "rounds"))}


@heavy.add("/federated/verdict", answers.VerdictAnswer, summary="What a schedule means for one person")
def federated_verdict(ask: FederatedVerdictAsk) -> dict[str, Any]:
    """Odds, several such runs together, delta at worst and room under a cap, of one run, in a report's sentences."""
    of_one = [] if ask.trials is None else [wording.OF_ONE_RUN]
    limits = [limit.says for limit in claim_limits(ask)]
    return _planned(ask).meaning(ask.cap).to_json() | {"limits": [*of_one, *limits]}


@heavy.add("/federated/risk", answers.RiskAnswer, summary="What attacks find, and what copies cost")
def federated_risk(ask: FederatedAsk) -> dict[str, Any]:
    """True positive rates, and epsilon for those who hold several units, of one run: a report's tables."""
    found = _planned(ask)
    held = ask.group if ask.group > 1 else None
    reading = plan.risk_reading(
        found.release,
        delta=found.delta.delta,
        relation=found.relation,
        known=found.schedule.unamplified(),
        held=held,
        fit=False,
    )
    return risk_answer(reading, ask.privacy_unit, found.delta.delta)


@questions.add("/federated/record", answers.Stamped, summary="A calculation as a stamped record")
def federated_record(ask: FederatedRecordAsk) -> dict[str, Any]:
    """The question, its answer and its owner's words, with the SHA-256 of their canonical JSON (RFC 8785)."""
    return _stamped("federated-calculation", ask, federated_answer(ask))


@questions.add("/queries", answers.QueriesAnswer, summary="A budget split over queries")
def queries(ask: QueriesAsk) -> dict[str, Any]:
    """Noise the classic way, exactly and optimally; what is consumed and what remains."""
    return queries_answer(ask)


@heavy.add("/queries/verdict", answers.VerdictAnswer, summary="What a query plan means for one person")
def queries_verdict(ask: QueriesVerdictAsk) -> dict[str, Any]:
    """Odds, several such plans together, delta at worst and room under a cap, of all answers: a report's sentences."""
    return plan.queries(**ask.arguments()).meaning(cap=ask.cap).to_json() | {"limits": []}


@heavy.add("/queries/risk", answers.RiskAnswer, summary="What attacks find, and what copies cost")
def queries_risk(ask: QueriesAsk) -> dict[str, Any]:
    """True positive rates, and epsilon for those who hold several units, of all answers: a report's tables."""
    found = plan.queries(**ask.arguments())
    delta, relation = found.delta.delta if found.delta else 0.0, NeighboringRelation.ADD_OR_REMOVE_ONE
    reading = plan.risk_reading(found.release, delta=delta, relation=relation, known=found.release, fit=False)
    return risk_answer(reading | {"unamplified_mu": None}, "person", delta)  # nobody is sampled


@questions.add("/queries/record", answers.Stamped, summary="A query plan as a stamped record")
def queries_record(ask: QueriesRecordAsk) -> dict[str, Any]:
    """The question, its answer and its owner's words, with the SHA-256 of their canonical JSON (RFC 8785)."""
    return _stamped("query-calculation", ask, queries_answer(ask))


@heavy.add("/queries/crossover", answers.CrossoverAnswer, summary="Laplace against Gaussian")
def queries_crossover(ask: CrossoverAsk) -> dict[str, Any]:
    """95% errors at unit sensitivity over the number of queries, and where Gaussian noise becomes the smaller."""
    more = () if ask.queries is None else (parameters.QUERIES.rule(int)(queries=ask.queries),)
    counts = sorted({*_COUNTS, *more})
    return dataclasses.asdict(plan.crossover(epsilon=ask.epsilon, delta=ask.delta, counts=counts))


@questions.add("/sensitivity", answers.SensitivityAnswer, summary="The sensitivity of a count, a bounded sum or a mean")
def sensitivity(ask: SensitivityAsk) -> dict[str, Any]:
    """The most one privacy unit can move the answer, and why."""
    given = ask.model_dump() | {"relation": NeighboringRelation(ask.relation)}
    return dataclasses.asdict(plan.sensitivity(given.pop("query"), **given))


def _planned(ask: FederatedAsk) -> plan.FederatedPlan:
    """The plan of one run of those who hold one unit, and of one release."""
    return plan.federated(**ask.arguments() | {"group": 1, "trials": None, "releases_per_period": 1})


def risk_answer(reading: dict[str, Any], privacy_unit: str, delta: float) -> dict[str, Any]:
    """What a reading of risk is answered with: a report's tables and sentences.

    Args:
        reading: what ``plan.risk_reading`` gives.
        privacy_unit: what one neighbour differs in.
        delta: the claim's.
    """
    return {
        "rows": wording.reading_rows(reading),
        "of_attacks": wording.of_attacks(privacy_unit),
        "copies": wording.copies_rows(reading),
        "of_copies": wording.of_copies(delta),
    }


def _without(ask: FederatedGoal, name: str) -> dict[str, Any]:
    given = ask.arguments()
    for other in (name, "clip_norm", "privacy_unit", "releases_per_period"):
        del given[other]
    return given


def _stamped(kind: str, ask: FederatedRecordAsk | QueriesRecordAsk, answer: dict[str, Any]) -> dict[str, Any]:
    references = []
    for i, one in enumerate(ask.references):
        try:
            references.append(prove.Reference(**one.model_dump()))
        except CheckError as error:
            raise error.under(f"references[{i}]") from error
    return prove.stamp(kind, ask.question(), answer, delta_reason=ask.delta_reason, references=references)
