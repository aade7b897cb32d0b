"""`epsilog plan federated` and `epsilog plan queries`: the two calculators."""

from __future__ import annotations

from typing import Annotated

import typer

from epsilog.cli.app import REFUSED, Json, plan_app, print_json
from epsilog.cli.show import figures, interval_text, note, table
from epsilog.terms import DeltaPolicy, NeighboringRelation
from epsilog.terms.digits import lower_text, upper_text

Cap = Annotated[float, typer.Option("--delta-cap", help="The policy's largest delta; 0 for no cap.")]


@plan_app.command("federated")
def federated(
    population: Annotated[int, typer.Option("--population", "-N", help="Privacy units in all.")],
    cohort_size: Annotated[int, typer.Option("--cohort-size", "-m", help="Units expected in a round.")],
    rounds: Annotated[int, typer.Option("--rounds", "-T", help="Training rounds.")],
    noise_multiplier: Annotated[
        float | None, typer.Option("--noise-multiplier", "-z", help="Noise on the sum over the clip norm.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Calibrate the noise to this epsilon.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Blank: min(1/N, the policy's cap).")] = None,
    delta_cap: Cap = 1e-6,
    sampling: Annotated[str, typer.Option("--sampling", help="poisson, fixed-size or balls-in-bins.")] = "poisson",
    relation: Annotated[NeighboringRelation, typer.Option("--relation")] = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: Annotated[str, typer.Option("--privacy-unit", help="What one neighbour differs in.")] = "client",
    releases_per_period: Annotated[int, typer.Option("--releases-per-period", help="Models released in a period.")] = 1,
    as_json: Json = False,
) -> None:
    """Price a federated schedule: the closed form people know, and the certified interval beside it.

    Example: epsilog plan federated -N 50000 -m 500 -T 200 -z 1.2
    """
    from epsilog import plan

    if (noise_multiplier is None) == (epsilon is None):
        raise ValueError(
            f"noise_multiplier or epsilon must be given, and not both, got {noise_multiplier!r} and {epsilon!r}"
        )
    policy = DeltaPolicy(delta_cap or None)
    facts = {"population": population, "cohort_size": cohort_size, "rounds": rounds}
    if noise_multiplier is None:
        assert epsilon is not None
        noise_multiplier = plan.noise_for(
            epsilon=epsilon, delta=delta, policy=policy, sampling=sampling, relation=relation, **facts
        )
    priced = plan.federated(
        **facts,
        noise_multiplier=noise_multiplier,
        delta=delta,
        policy=policy,
        sampling=sampling,
        relation=relation,
        privacy_unit=privacy_unit,
        releases_per_period=releases_per_period,
    )
    if as_json:
        return print_json(priced.to_json())
    q = priced.schedule.sampling_probability
    figures(
        "Federated plan",
        [
            ("sampling", f"{sampling}, q = m/N = {q:.6g} ({q:.3%})"),
            ("noise multiplier", upper_text(noise_multiplier, 6)),
            ("delta", f"{priced.delta.delta:g} ({priced.delta.rationale})"),
            ("relation, unit", f"{relation}, one {privacy_unit}"),
            ("[bold]epsilon, certified[/bold]", f"[bold]{interval_text(priced.epsilon)}[/bold]"),
            ("method", priced.epsilon.method),
            ("participation known", interval_text(priced.unamplified)),
            ("closed form (estimate)", f"{priced.formula.total:.4f}"),
            ("  root term", f"{priced.formula.root_term:.4f}" + _larger(priced.formula.dominates == "root")),
            ("  linear term", f"{priced.formula.linear_term:.4f}" + _larger(priced.formula.dominates == "linear")),
            *_together(releases_per_period, interval_text(priced.cumulative)),
        ],
    )
    for line in (priced.verdict, *priced.delta.warnings, *(f"Assumes: {a}" for a in priced.epsilon.assumptions)):
        note(line)
    return None


def _together(releases: int, cumulative: str) -> list[tuple[str, str]]:
    return [(f"{releases} releases together", cumulative)] if releases > 1 else []


def _larger(dominates: bool) -> str:
    return "  (the larger)" if dominates else ""


@plan_app.command("queries")
def queries(
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The whole budget, in nats.")],
    number: Annotated[int, typer.Option("--queries", "-Q", help="Queries planned.")],
    sensitivity: Annotated[float, typer.Option("--sensitivity", "-s", help="The most one unit moves an answer.")] = 1.0,
    mechanism: Annotated[str, typer.Option("--mechanism", help="laplace or gaussian.")] = "laplace",
    delta: Annotated[float | None, typer.Option("--delta", help="Total failure probability.")] = None,
    queries_used: Annotated[int, typer.Option("--queries-used", "-u", help="Queries answered already.")] = 0,
    population: Annotated[int | None, typer.Option("--population", "-N", help="Units, for the delta policy.")] = None,
    delta_cap: Cap = 1e-6,
    weights: Annotated[str | None, typer.Option("--weights", help="Relative shares, e.g. 3,1,1.")] = None,
    as_json: Json = False,
) -> None:
    """Split a budget over queries: the classic noise, the exact one, and the best.

    Example: epsilog plan queries -e 1 -Q 100 --queries-used 40
    """
    from epsilog import plan

    priced = plan.queries(
        epsilon=epsilon,
        queries=number,
        sensitivity=sensitivity,
        mechanism=mechanism,
        delta=delta,
        queries_used=queries_used,
        weights=None if weights is None else _numbers(weights),
        population=population,
        policy=DeltaPolicy(delta_cap or None),
    )
    if as_json:
        print_json(priced.to_json())
    else:
        name = "scale b" if mechanism == "laplace" else "standard deviation"
        rows = [
            [
                f"{s.weight:g}",
                f"{s.epsilon:.6g}",
                *(upper_text(noise.scale, 6) for noise in (s.classic, s.exact, s.optimal)),
                f"{s.optimal.error_95:.4g}",
            ]
            for s in dict.fromkeys(priced.shares)
        ]
        headings = ["weight", "epsilon", f"classic {name}", "exact", "optimal", "95% error (optimal)"]
        table("Noise of one query", headings, rows)
        figures(
            "Budget",
            [
                ("used", f"{queries_used} of {number} queries; {priced.queries_left} more fit"),
                ("consumed, optimal noise", interval_text(priced.consumed.optimal)),
                ("consumed, classic noise", interval_text(priced.consumed.classic)),
                ("consumed, classic split", f"{priced.consumed.split:.6g} of {epsilon:g} (bookkeeping, no bound)"),
                ("remaining, optimal noise", f"{lower_text(priced.remaining, 6)}, for pure releases"),
                ("delta", "none: pure DP" if priced.delta is None else f"{priced.delta.delta:g}"),
                ("saving", f"{priced.saving:.3g} times less noise when composed optimally"),
            ],
        )
        for line in priced.findings:
            note(line)
    if not priced.compatible:
        raise typer.Exit(REFUSED)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"weights must be numbers joined by commas, got {text!r}") from error
