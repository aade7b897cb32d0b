"""`epsilog plan`: the two calculators, what a loop of DP-SGD costs as it is, and what a printed algorithm spends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from epsilog.cli.account import read_document, sweep_rows
from epsilog.cli.app import NOT_VERIFIED, REFUSED, Json, Relation, plan_app, print_json, told
from epsilog.cli.show import bold, figures, interval_text, note, table
from epsilog.mechanisms import LAWS, read_trials
from epsilog.terms import CheckError, DeltaPolicy, NeighboringRelation, parameters
from epsilog.terms.digits import lower_text, upper_text
from epsilog.terms.messages import Message
from epsilog.terms.numerals import read_number

if TYPE_CHECKING:
    from epsilog.accounting import GaussianFit
    from epsilog.plan import Sweep

Cap = Annotated[float, told("delta_cap", parameters.DELTA_CAP, "0 for no cap")]


@plan_app.command("federated")
def federated(
    population: Annotated[int, told("population", parameters.POPULATION, short="-N")],
    cohort_size: Annotated[int, told("cohort_size", parameters.COHORT_SIZE, short="-m")],
    rounds: Annotated[int, told("rounds", parameters.ROUNDS, short="-T")],
    noise_multiplier: Annotated[float | None, told("noise_multiplier", parameters.NOISE_MULTIPLIER, short="-z")] = None,
    epsilon: Annotated[float | None, told("epsilon", parameters.EPSILON, "the noise is calibrated to it")] = None,
    delta: Annotated[float | None, told("delta", parameters.DELTA)] = None,
    delta_cap: Cap = 1e-6,
    sampling: Annotated[str, told("sampling", parameters.SAMPLING)] = "poisson",
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: Annotated[str, told("privacy_unit", parameters.PRIVACY_UNIT)] = "client",
    releases_per_period: Annotated[int, told("releases_per_period", parameters.RELEASES_PER_PERIOD)] = 1,
    group: Annotated[int, typer.Option("--group", help="The most units that one person holds: adds that price.")] = 1,
    trials: Annotated[
        str | None,
        typer.Option("--trials", help=f"The best of a secret number of runs: adds that price. {', '.join(LAWS)}."),
    ] = None,
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
    stated = {"population": population, "cohort_size": cohort_size, "rounds": rounds}
    if noise_multiplier is None:
        assert epsilon is not None
        noise_multiplier = plan.noise_for(
            epsilon=epsilon, delta=delta, policy=policy, sampling=sampling, relation=relation, **stated
        )
    priced = plan.federated(
        **stated,
        noise_multiplier=noise_multiplier,
        delta=delta,
        policy=policy,
        sampling=sampling,
        relation=relation,
        privacy_unit=privacy_unit,
        releases_per_period=releases_per_period,
        group=group,
        fit=True,
        trials=None if trials is None else read_trials(trials),
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
            (bold("epsilon, certified"), bold(interval_text(priced.epsilon))),
            ("method", str(priced.epsilon.method)),
            ("participation known", interval_text(priced.unamplified)),
            ("closed form (estimate)", f"{priced.formula.total:.4f}"),
            ("  root term", f"{priced.formula.root_term:.4f}" + _larger(priced.formula.dominates == "root")),
            ("  linear term", f"{priced.formula.linear_term:.4f}" + _larger(priced.formula.dominates == "linear")),
            *_together(releases_per_period, interval_text(priced.cumulative)),
            *([] if priced.person is None else [(f"holder of up to {group}", interval_text(priced.person))]),
            *_swept(priced.sweep),
            *([] if priced.fit is None else [("mu of Gaussian DP", _fit_text(priced.fit))]),
        ],
    )
    warned = (finding.says for finding in priced.delta.findings)
    further = [priced.person, priced.sweep.best if priced.sweep else None]
    assumed = dict.fromkeys(line for one in (priced.epsilon, *further) if one is not None for line in one.assumptions)
    for line in (str(priced.verdict), *warned, *(f"Assumes: {a}" for a in assumed)):
        note(line)
    return None


def _swept(found: Sweep | None) -> list[tuple[str | Text, str | Text]]:
    if found is None:
        return []
    first = (bold("this sweep costs"), bold(interval_text(found.best)))
    return [first, *((f"  {name}", text) for name, text in sweep_rows(found))]


def _fit_text(fit: GaussianFit) -> str:
    """A mu with both its errors, each rounded up."""
    if fit.error == 0:
        return upper_text(fit.mu, 4)
    errors = Message.of("gdp/fit-errors", mu=fit.mu, beyond=fit.beyond, regret=fit.regret)
    return f"approximately {errors}"


def _together(releases: int, cumulative: str) -> list[tuple[str, str]]:
    return [(f"{releases} releases together", cumulative)] if releases > 1 else []


def _larger(dominates: bool) -> str:
    return "  (the larger)" if dominates else ""


@plan_app.command("queries")
def queries(
    epsilon: Annotated[float, told("epsilon", parameters.TOTAL_EPSILON, short="-e")],
    number: Annotated[int, told("queries", parameters.QUERIES, short="-Q")],
    sensitivity: Annotated[float, told("sensitivity", parameters.SENSITIVITY, short="-s")] = 1.0,
    mechanism: Annotated[str, told("mechanism", parameters.MECHANISM)] = "laplace",
    delta: Annotated[float | None, told("delta", parameters.TOTAL_DELTA)] = None,
    queries_used: Annotated[int, told("queries_used", parameters.QUERIES_USED, short="-u")] = 0,
    population: Annotated[int | None, told("population", parameters.UNITS, short="-N")] = None,
    delta_cap: Cap = 1e-6,
    weights: Annotated[str | None, told("weights", parameters.WEIGHTS, "for example 3,1,1")] = None,
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
        for finding in priced.findings:
            note(finding.says)
    if not priced.compatible:
        raise typer.Exit(REFUSED)


@plan_app.command("preflight")
def preflight(
    file: Annotated[Path, typer.Argument(help="A TOML or JSON file that describes the loop.")],
    delta: Annotated[float, told("delta", parameters.DELTA, "of both figures")],
    as_json: Json = False,
) -> None:
    """Price a loop of DP-SGD as it is, and say where that is not what its own accountant counts.

    Exit code 4 says that the loop costs more than its accountant will say, or that nothing is proved of it.

    Example: epsilog plan preflight loop.toml --delta 1e-6
    """
    from epsilog import plan

    found = plan.preflight(plan.TrainingSetup.parse(read_document(file)), delta=delta)
    if as_json:
        print_json(found.to_json())
    else:
        figures(
            "Preflight",
            [
                ("what its accountant will say", upper_text(found.believed.upper)),
                (bold("what is proved of the loop"), bold(interval_text(found.cost))),
                ("relation", str(found.cost.relation)),
                ("method", str(found.cost.method)),
            ],
        )
        rows = [[one.verdict.value, one.code, one.says] for one in found.findings]
        table("Findings", ["", "code", "what was found"], rows)
        for line in found.cost.assumptions:
            note(f"Assumes: {line}")
    if not found.holds:
        raise typer.Exit(NOT_VERIFIED)


@plan_app.command("algorithm-2")
def algorithm_2(
    sigma: Annotated[float, typer.Option("--sigma", help="The printed noise magnitude.")],
    batch_probability: Annotated[float, typer.Option("--batch-probability", "-p", help="Chance to join a batch.")],
    examples: Annotated[int, typer.Option("--examples", "-n", help="Examples of the client.")],
    participations: Annotated[int, typer.Option("--participations", "-R", help="Rounds the client takes part in.")],
    epochs: Annotated[int, typer.Option("--epochs", "-E", help="E, as printed.")] = 1,
    clip_norm: Annotated[float, typer.Option("--clip-norm", "-C", help="Clip norm of a gradient.")] = 1.0,
    delta: Annotated[float, typer.Option("--delta", help="Failure probability.")] = 1e-5,
    as_json: Json = False,
) -> None:
    """Price Algorithm 2 of Naseri et al. (NDSS 2022) as it is printed, with the noise outside the divisor.

    Example: epsilog plan algorithm-2 --sigma 1 -p 0.1 -n 64 -R 10
    """
    from epsilog import plan

    found = plan.algorithm_two(
        sigma=sigma,
        batch_probability=batch_probability,
        examples=examples,
        clip_norm=clip_norm,
        epochs=epochs,
        participations=participations,
        delta=delta,
    )
    if as_json:
        return print_json(found.to_json())
    figures(
        "Algorithm 2, as printed",
        [
            ("noise multiplier of a step", f"{lower_text(found.noise_multiplier, 6)} (sigma p n / C)"),
            ("epsilon, E in epochs", interval_text(found.epochs)),
            ("epsilon, E in iterations", interval_text(found.iterations)),
            ("epsilon if sigma were the multiplier", interval_text(found.mistaken)),
        ],
    )
    note("For a neighbour with nothing in one example's place: the divisor must not change with the data.")
    return None


def _numbers(text: str) -> list[float]:
    try:
        return [float(read_number("weights", part)) for part in text.split(",")]
    except ValueError as error:
        raise CheckError("weights", "numbers joined by commas", repr(text)) from error
