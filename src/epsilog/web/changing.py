"""Schedules that change between rounds, over HTTP."""

from __future__ import annotations

from typing import Any

from epsilog import plan
from epsilog.plan import StretchedPlan
from epsilog.web import answers
from epsilog.web.asks import StretchesAsk
from epsilog.web.questions import Questions

questions = Questions("calculators", heavy=True)


@questions.add("/federated/stretches", answers.StretchesAnswer, summary="What a schedule that changes costs")
def stretches(ask: StretchesAsk) -> dict[str, Any]:
    """All stretches composed: the certified interval, each one's share, and where averaging would have led."""
    found = _priced(ask)
    grade, sentence = plan.delta_sentence(found.delta.delta, found.enrolled)
    return found.to_json() | {"delta_grade": grade, "delta_sentence": sentence}


@questions.add("/federated/stretches/curve", answers.StretchCurveAnswer, summary="Epsilon over a schedule that changes")
def stretches_curve(ask: StretchesAsk) -> dict[str, Any]:
    """Certified bounds after up to 12 numbers of rounds, at the ends of stretches first."""
    return {"points": [point.to_json() for point in plan.stretch_curve(_priced(ask), points=12)]}


def _priced(ask: StretchesAsk) -> StretchedPlan:
    given = ask.arguments()
    if ask.table is not None:
        return plan.stretches(plan.read_stretches(ask.table), **given)
    return plan.stretches(plan.stretches_of(_objects(ask.stretches)), **given)


def _objects(rows: Any) -> list[dict[str, Any]]:
    return [row.model_dump() for row in rows or ()]
