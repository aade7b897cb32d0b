"""Results of a study as tables, plots and sentences, which state measurements alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from epsilog.reports import PlotSeries, draw_line_plot, make_standalone
from epsilog.study.membership import ATTACKS
from epsilog.study.protocol import UTILITY, Condition, StudyProtocol, is_clean_metric
from epsilog.terms.formatting import format_upper

THREE = 3.0  # standard errors that count as beyond chance
Cell = Callable[[Condition], str]


class ResultTable(NamedTuple):
    """A table with one row per condition: medians over the seeds, with minimum and maximum."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def build_tables(conditions: Sequence[Condition]) -> list[ResultTable]:
    """Return one table for each kind of measurement."""
    found = []
    for title, columns in _columns(conditions).items():
        rows = []
        for one in conditions:
            cells = [cell(one) for cell in columns.values()]
            if any(cells):
                budget = "no DP" if one.epsilon is None else f"{one.epsilon:g}"
                noise = "" if one.noise_multiplier is None else format_upper(one.noise_multiplier, 4)
                rows.append((one.subject, budget, noise, *cells))
        if rows:
            found.append(ResultTable(title, ("scheme", "epsilon", "noise", *columns), tuple(rows)))
    return found


def _columns(conditions: Sequence[Condition]) -> dict[str, dict[str, Cell]]:
    """Return the columns of each table by title."""

    def shows(attack: str, name: str) -> Cell:
        return lambda one: _spread(one.of(attack, name))

    backdoors: dict[str, Cell] = {}
    for name in _backdoors(conditions):
        backdoors |= {f"{name} works": shows(name, "success"), f"score, {name}": shows(name, "score")}
        backdoors[is_clean_metric(name)] = shows(UTILITY, is_clean_metric(name))
    membership: dict[str, Cell] = {}
    for attack in ATTACKS:
        membership[f"AUC, {attack}"] = shows(attack, "auc")
    for rate in _rates(conditions):
        for attack in ATTACKS:
            membership[f"TPR at FPR {rate}, {attack}"] = shows(attack, f"tpr_at_{rate}")
        membership[f"bound at FPR {rate}"] = lambda one, rate=rate: _upper(one.largest_tprs.get(rate))  # type: ignore[misc]
    canaries = {
        "estimate, last model": shows("canaries", "last_model"),
        "estimate, all models": shows("canaries", "all_models"),
        "control": shows("canaries", "control"),
    }
    titles: dict[str, dict[str, Cell]] = {
        "utility": {"score": shows(UTILITY, "score")},
        "backdoors": backdoors,
        "membership": membership,
        "property": {"AUC over rounds": shows("property", "auc")},
        "canaries": canaries,
    }
    return {
        title: kept
        for title, columns in titles.items()
        if (kept := {name: cell for name, cell in columns.items() if any(map(cell, conditions))})
    }


def _backdoors(conditions: Sequence[Condition]) -> list[str]:
    """Return the names of all backdoors, in the order of the protocol."""
    names = [
        name for one in conditions for run in one.runs for name, found in run.items() if "success" in (found or {})
    ]
    return list(dict.fromkeys(names))


def _rates(conditions: Sequence[Condition]) -> list[str]:
    """Return all false positive rates of the membership attacks."""
    prefix, suffix = "tpr_at_", "_beyond_chance"
    names = [name for one in conditions for run in one.runs for found in run.values() for name in found or {}]
    rates = [each.removeprefix(prefix) for each in names if each.startswith(prefix) and not each.endswith(suffix)]
    return list(dict.fromkeys(rates))


def write_conclusions(conditions: Sequence[Condition], protocol: StudyProtocol) -> list[str]:
    """Return sentences on the measurements; the last ones state what these do not show."""
    sentences = []
    for subject, group in groupby(conditions, key=lambda one: one.subject):
        sentences += [*_of_utility(subject, list(group))]
    for one in conditions:
        sentences += [*_of_backdoors(one), *_of_membership(one), *_of_property(one), *_of_canaries(one)]
    sentences.append(
        f"All numbers are medians of {len(protocol.seeds)} seeded runs on one data set, with minimum and maximum in "
        "parentheses. They are measurements of these models and these attacks."
    )
    if protocol.experiments:
        sentences.append(
            "An attack that finds nothing does not exclude other attacks. The bound on true positives holds for all "
            "attacks on one unit. Measured rates share one model among all units, and can exceed the bound by chance."
        )
    if protocol.canaries is not None:
        sentences.append(
            "Canaries give an estimate of epsilon against an attacker who knows their directions; it is no bound."
        )
    return sentences


def _of_utility(subject: str, group: Sequence[Condition]) -> Iterator[str]:
    none = group[0].of(UTILITY, "score")
    for one in group[1:]:
        score = one.of(UTILITY, "score")
        if none is None or score is None:
            yield f"{subject}: {one.where} at least one run diverged."
        elif score[1] <= none[2] and none[1] <= score[2]:
            yield f"{subject}: {one.where} the score is within the range of the seeds without DP."
        else:
            yield f"{subject}: {one.where} the score is {_spread(score)}; without DP {_spread(none)}."


def _of_backdoors(one: Condition) -> Iterator[str]:
    for name in _backdoors([one]):
        if (works := one.of(name, "success")) is not None:
            sentence = f"{one.subject}: {one.where} {name} works on {_share(works)}"
            alone = one.of(UTILITY, is_clean_metric(name))
            yield f"{sentence}." if alone is None else f"{sentence}; without attackers, on {_share(alone)}."


def _of_membership(one: Condition) -> Iterator[str]:
    for attack in ATTACKS:
        if (auc := one.of(attack, "auc")) is None:
            continue
        prefix = f"{one.subject}: {one.where} {attack} identif" + ("ies" if attack == "LiRA" else "y")
        yield f"{prefix} members beyond chance in {_seeds(one, attack, 'auc')} (AUC {_spread(auc)})."
        for rate in _rates([one]):
            tpr, seeds = one.of(attack, f"tpr_at_{rate}"), _seeds(one, attack, f"tpr_at_{rate}")
            if tpr is not None and seeds != "no seed":
                bound = one.largest_tprs.get(rate)
                most = (
                    "there is no bound" if bound is None else f"the bound for an attack on one unit is {_upper(bound)}"
                )
                yield f"{prefix} {_spread(tpr)} of members at an FPR of {rate}, beyond chance in {seeds}; {most}."


def _of_property(one: Condition) -> Iterator[str]:
    if (auc := one.of("property", "auc")) is not None:
        seeds = _seeds(one, "property", "auc")
        together = "beyond chance" if pool_z_score(one) > THREE else "not beyond chance"
        yield (
            f"{one.subject}: {one.where} updates identify rounds with the property beyond chance in {seeds}; all seeds "
            f"together are {together} (AUC {_spread(auc)})."
        )


def pool_z_score(one: Condition) -> float:
    """Return the standard errors by which the AUC of property inference exceeds 0.5, over all seeds together.

    One seed has few rounds. The Mann-Whitney statistics of the seeds are summed, and so are their variances.
    """
    names = ("auc", "rounds_with", "rounds_without")
    seeds = list(zip(*(one.values("property", name) for name in names), strict=True))
    known = [(a, m, n) for a, m, n in seeds if a is not None and m is not None and n is not None]
    variance = sum(m * n * (m + n + 1) / 12 for _, m, n in known)
    return sum(m * n * (a - 0.5) for a, m, n in known) / math.sqrt(variance) if known else 0.0


def _of_canaries(one: Condition) -> Iterator[str]:
    last, each, control = (one.of("canaries", name) for name in ("last_model", "all_models", "control"))
    if last is not None and each is not None:
        yield (
            f"{one.subject}: {one.where} canaries estimate epsilon at {_spread(last)} from the last model and at "
            f"{_spread(each)} from all models; with directions that no client sent, at {_spread(control)}."
        )


def _seeds(one: Condition, attack: str, name: str) -> str:
    """Return in words the number of seeds in which a number is beyond chance."""
    beyond = sum(bool(value) for value in one.values(attack, f"{name}_beyond_chance"))
    return {0: "no seed", len(one.runs): "every seed"}.get(beyond, f"{beyond} of {len(one.runs)} seeds")


def draw_study_plots(conditions: Sequence[Condition]) -> dict[str, str]:
    """Return SVG plots by name: medians over epsilon, one line per scheme, with bars from minimum to maximum."""
    wanted = {
        "score": ("score on the public test set", UTILITY, "score"),
        "losses": ("AUC of the membership attack on losses", "losses", "auc"),
        "lira": ("AUC of LiRA", "LiRA", "auc"),
        "property": ("AUC of property inference over rounds", "property", "auc"),
        "canaries": ("epsilon that canaries estimate from all models", "canaries", "all_models"),
    }
    for place, name in enumerate(_backdoors(conditions), start=1):
        wanted[f"backdoor-{place}"] = (f"fraction of rows on which {name} works", name, "success")
    found = {}
    for file, (label, attack, name) in wanted.items():
        lines = [_line(subject, [*group], attack, name) for subject, group in groupby(conditions, lambda c: c.subject)]
        if any(line.points for line in lines):
            drawn = draw_line_plot(lines, title=label, x_label="epsilon", y_label=label, log_x=True)
            found[file] = make_standalone(drawn)
    return found


def _line(subject: str, conditions: Sequence[Condition], attack: str, name: str) -> PlotSeries:
    points = [(one.epsilon, one.of(attack, name)) for one in conditions]
    known = [(epsilon, spread) for epsilon, spread in points if epsilon is not None and spread is not None]
    return PlotSeries(
        subject,
        tuple((epsilon, spread[0]) for epsilon, spread in known),
        markers=True,
        bars=tuple((spread[1], spread[2]) for _, spread in known),
    )


def _spread(values: tuple[float, float, float] | None) -> str:
    return "" if values is None else f"{values[0]:.3f} ({values[1]:.3f} to {values[2]:.3f})"


def _share(values: tuple[float, float, float]) -> str:
    return f"{values[0]:.0%} of rows ({values[1]:.0%} to {values[2]:.0%})"


def _upper(value: float | None) -> str:
    return "" if value is None else format_upper(value, 3)
