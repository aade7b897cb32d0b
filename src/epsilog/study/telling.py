"""What a study found, as rows and sentences: comforting or not, and never more than was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from epsilog.prove import Series, line_plot
from epsilog.study.measuring import Condition, Measured, Protocol
from epsilog.terms.digits import upper_text

HEADINGS = (
    "scheme",
    "epsilon",
    "noise",
    "score",
    "score, attacked",
    "backdoor works",
    "membership AUC",
    "true positives",
    "bound",
)


def summary(conditions: Sequence[Condition]) -> list[list[str]]:
    """A row for each condition under ``HEADINGS``: medians over the seeds, with the least and the greatest."""
    return [
        [
            one.subject,
            "no DP" if one.epsilon is None else f"{one.epsilon:g}",
            "" if one.noise_multiplier is None else upper_text(one.noise_multiplier, 4),
            _spread(one.of(_score)),
            _spread(one.of(_attacked)),
            _spread(one.of(_success)),
            _spread(one.of(_auc)),
            _spread(one.of(_tpr)),
            "" if one.largest_tpr is None else upper_text(one.largest_tpr, 3),
        ]
        for one in conditions
    ]


def sentences(conditions: Sequence[Condition], protocol: Protocol) -> list[str]:
    """What the numbers say, in the order in which a reader asks."""
    told = [f"All numbers are medians of {len(protocol.seeds)} seeded runs, with the least and the greatest."]
    for subject, group in groupby(conditions, key=lambda one: one.subject):
        told += _of_subject(subject, list(group), protocol)
    if protocol.fpr is not None:
        told.append(
            "An attack that finds nothing is one attack that found nothing; the bounds hold against all of them."
        )
    return told


def _of_subject(subject: str, conditions: list[Condition], protocol: Protocol) -> Iterator[str]:
    bare, private = conditions[0], conditions[1:]
    for one in private:
        if (score := one.of(_score)) is None:
            yield f"{subject}: at epsilon {one.epsilon:g} some run diverged, and there is no score."
        elif (without := bare.of(_score)) is not None:
            says = f"{subject}: at epsilon {one.epsilon:g} the score is {_spread(score)}; without DP {_spread(without)}"
            yield says + (", within the spread of the seeds." if score[2] >= without[1] else ".")
    if protocol.backdoor is not None:
        for one in conditions:
            if (works := one.of(_success)) is not None:
                at = "without DP" if one.epsilon is None else f"at epsilon {one.epsilon:g}"
                span = f"{works[0]:.0%} of rows ({works[1]:.0%} to {works[2]:.0%})"
                yield f"{subject}: {at} the backdoor works on {span}."
    for one in conditions:
        yield from _of_membership(one)


def _of_membership(one: Condition) -> Iterator[str]:
    if (auc := one.of(_auc)) is None:
        return
    at = "without DP" if one.epsilon is None else f"at epsilon {one.epsilon:g}"
    beyond = sum(run.membership is not None and run.membership.beyond_chance for run in one.runs)
    seeds = {0: "no seed", len(one.runs): "every seed"}.get(beyond, f"{beyond} of {len(one.runs)} seeds")
    yield f"{one.subject}: {at} losses tell members from others beyond chance in {seeds} (AUC {_spread(auc)})."


def plots(conditions: Sequence[Condition]) -> dict[str, str]:
    """An SVG for each thing that was measured at every budget, by name: median against epsilon, a line a scheme."""
    wanted: dict[str, tuple[str, Callable[[Measured], float | None]]] = {
        "score": ("score on the public test set", _score),
        "backdoor": ("share of rows on which the backdoor works", _success),
        "membership": ("AUC of the membership attack", _auc),
    }
    found = {}
    for name, (label, what) in wanted.items():
        lines = [
            Series(subject, tuple(_points(list(group), what)), markers=True)
            for subject, group in groupby(conditions, key=lambda one: one.subject)
        ]
        if any(line.points for line in lines):
            found[name] = line_plot(lines, title=label, x_label="epsilon", y_label=label, log_x=True)
    return found


def _points(conditions: list[Condition], what: Callable[[Measured], float | None]) -> Iterator[tuple[float, float]]:
    for one in conditions:
        if one.epsilon is not None and (spread := one.of(what)) is not None:
            yield one.epsilon, spread[0]


def _spread(values: tuple[float, float, float] | None) -> str:
    return "" if values is None else f"{values[0]:.3f} ({values[1]:.3f} to {values[2]:.3f})"


def _score(run: Measured) -> float | None:
    return run.score


def _attacked(run: Measured) -> float | None:
    return run.attacked_score


def _success(run: Measured) -> float | None:
    return run.success


def _auc(run: Measured) -> float | None:
    return None if run.membership is None else run.membership.auc


def _tpr(run: Measured) -> float | None:
    return None if run.membership is None else run.membership.tpr
