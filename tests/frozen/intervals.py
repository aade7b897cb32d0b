"""Frozen intervals: what the accountant answers to each stored question, to the last bit, refusals included."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tests.frozen.records import DATA

import epsilog as ep
from epsilog import accounting
from epsilog.terms import NeighboringRelation, codec

QUESTIONS = DATA / "questions.jsonl.gz"
ANSWERS = DATA / "intervals.jsonl"


def questions() -> dict[str, dict[str, Any]]:
    """The stored questions by number."""
    with gzip.open(QUESTIONS, "rt", encoding="utf-8") as file:
        return {f"{number:04d}": json.loads(line) for number, line in enumerate(file, start=1)}


def save_questions(drawn: Iterable[Mapping[str, Any]]) -> None:
    """Writes questions; they are many and alike, and change only when they are drawn anew."""
    text = "".join(f"{json.dumps(one)}\n" for one in drawn)
    QUESTIONS.write_bytes(gzip.compress(text.encode(), mtime=0))


def answers(asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Today's answers to some of the questions."""
    return {name: answer(question) for name, question in asked.items()}


def answer(question: Mapping[str, Any]) -> Any:
    """Today's answer, its numbers as ``float.hex``; a refusal by its class and message."""
    asked = {name: value for name, value in question.items() if name not in ("ask", "family", "release")}
    if "release" in question:
        try:
            asked["release"] = ep.from_json({"v": 1, "term": question["release"]})
        except codec.UNREADABLE as error:
            return {"error": type(error).__name__, "says": str(error)}
    try:
        return _plain(ASK[question["ask"]](**asked))
    except (ep.EpsilogError, ValueError) as error:
        return {"error": type(error).__name__, "says": str(error)}


def _plain(value: Any) -> Any:
    if isinstance(value, ep.Interval):
        said = {"lower": value.lower.hex(), "upper": value.upper.hex(), "method": value.method.code}
        said |= {
            "relation": value.relation.value,
            "quantity": value.quantity,
            "assumptions": [one.code for one in value.assumptions],
        }
        return said | {
            "given": [[name, float(at).hex()] for name, at in value.given],
            "estimate": _plain(value.estimate),
        }
    if isinstance(value, accounting.Intervals):
        return {"lower": _plain(value.lower), "upper": _plain(value.upper)}
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value.ravel().tolist()]
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


def _curve(name: str) -> Any:
    def ask(release: ep.mechanisms.Release, relation: str = "add-or-remove-one", **at: float) -> Any:
        return getattr(ep.profile(release, relation=relation), name)(*at.values())  # type: ignore[arg-type]

    return ask


def _related(function: Any) -> Any:
    """Some take the relation as a term alone."""

    def ask(release: ep.mechanisms.Release, relation: str, **more: Any) -> Any:
        if "orders" in more:
            more["orders"] = np.array(more["orders"])
        return function(release, relation=NeighboringRelation(relation), **more)

    return ask


def _assumptions(release: ep.mechanisms.Release, relation: str) -> Any:
    del relation
    return [one.code for one in accounting.list_assumptions(release)]


def _repeatable(function: Any) -> Any:
    def ask(release: ep.mechanisms.Release, **more: Any) -> Any:
        return function(release, **more)

    return ask


def _calibrated(sampling: float, rounds: int, **goal: Any) -> float:
    def make(noise: float) -> ep.mechanisms.Release:
        return ep.Repeated(ep.PoissonSampled(ep.Gaussian(noise), sampling), rounds)

    return ep.calibrate(make, **goal)


def _formula(**given: Any) -> list[Any]:
    found = accounting.federated_closed_form(**given)
    return [found.total, found.root_term, found.linear_term, found.dominant_term]


ASK: dict[str, Any] = {
    "epsilon": ep.epsilon,
    "delta": ep.delta,
    "advantage": _curve("advantage"),
    "tpr": _curve("tpr"),
    "tradeoff": _curve("tradeoff"),
    "mu": _related(accounting.mu),
    "rho": _related(accounting.rho),
    "rdp": _related(accounting.rdp),
    "rdp_attained": _related(accounting.rdp_lower_bound),
    "renyi_epsilon": _related(accounting.renyi_epsilon),
    "renyi_delta": _related(accounting.renyi_delta),
    "assumptions": _assumptions,
    "count_max_rounds": _repeatable(accounting.max_rounds),
    "epsilon_curve": _repeatable(ep.epsilon_curve),
    "delta_curve": _repeatable(ep.delta_curve),
    "calibrate": _calibrated,
    "fl_formula": _formula,
    "classic_gaussian_stddev": accounting.classic_gaussian_stddev,
    "laplace_scale": accounting.laplace_scale,
    "even_split": accounting.split_epsilon_evenly,
    "gaussian_epsilon": accounting.gaussian_epsilon,
    "gaussian_delta": accounting.gaussian_delta,
}


def load() -> dict[str, Any]:
    """The stored answers by number; each text is stored once, and answers name its position."""
    with ANSWERS.open(encoding="utf-8") as file:
        texts = json.loads(next(file))
        return {name: _told(said, texts) for name, said in map(json.loads, file)}


def save(found: Mapping[str, Any]) -> None:
    texts: dict[str, int] = {}
    lines = [json.dumps([name, _interned(said, texts)], separators=(",", ":")) for name, said in found.items()]
    table = json.dumps(list(texts), ensure_ascii=False)
    ANSWERS.write_text("".join(f"{line}\n" for line in [table, *lines]), encoding="utf-8")


def _interned(said: Any, texts: dict[str, int]) -> Any:
    if not isinstance(said, dict) or "method" not in said:
        return said
    at = [texts.setdefault(text, len(texts)) for text in (said["method"], *said["assumptions"])]
    return [said["lower"], said["upper"], at[0], at[1:], *(said[name] for name in BESIDE)]


def _told(said: Any, texts: list[str]) -> Any:
    if not isinstance(said, list) or len(said) != 4 + len(BESIDE) or not isinstance(said[3], list):
        return said
    lower, upper, method, assumed, *beside = said
    told = {"lower": lower, "upper": upper, "method": texts[method], "assumptions": [texts[at] for at in assumed]}
    return told | dict(zip(BESIDE, beside, strict=True))


BESIDE = ("relation", "quantity", "given", "estimate")
