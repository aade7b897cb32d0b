"""`epsilog plan`: the two calculators, what a loop of DP-SGD costs as it is, and what a printed algorithm spends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from epsilog.cli.account import list_tuning_rows, read_document
from epsilog.cli.app import NOT_VERIFIED, REFUSED, Json, Relation, option_from_parameter, plan_app, print_json
from epsilog.cli.show import format_interval, print_figures, print_notice, print_table, style_bold
from epsilog.mechanisms import TRIAL_FORMATS, parse_trials
from epsilog.terms import CheckError, DeltaPolicy, NeighboringRelation, parameters
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message
from epsilog.terms.numerals import read_number

if TYPE_CHECKING:
    from epsilog.accounting import GaussianDPFit
    from epsilog.plan import TuningCost

Cap = Annotated[float, option_from_parameter("delta_cap", parameters.DELTA_CAP, "0 for no cap")]


@plan_app.command("federated")
def plan_federated_command(
    population: Annotated[int, option_from_parameter("population", parameters.POPULATION, short="-N")],
    cohort_size: Annotated[int, option_from_parameter("cohort_size", parameters.COHORT_SIZE, short="-m")],
    rounds: Annotated[int, option_from_parameter("rounds", parameters.ROUNDS, short="-T")],
    noise_multiplier: Annotated[
        float | None, option_from_parameter("noise_multiplier", parameters.NOISE_MULTIPLIER, short="-z")
    ] = None,
    epsilon: Annotated[
        float | None, option_from_parameter("epsilon", parameters.EPSILON, "the noise is calibrated to it")
    ] = None,
    delta: Annotated[float | None, option_from_parameter("delta", parameters.DELTA)] = None,
    delta_cap: Cap = 1e-6,
    sampling: Annotated[str, option_from_parameter("sampling", parameters.SAMPLING)] = "poisson",
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: Annotated[str, option_from_parameter("privacy_unit", parameters.PRIVACY_UNIT)] = "client",
    releases_per_period: Annotated[
        int, option_from_parameter("releases_per_period", parameters.RELEASES_PER_PERIOD)
    ] = 1,
    group: Annotated[int, typer.Option("--group", help="The most units that one person holds: adds that price.")] = 1,
    trials: Annotated[
        str | None,
        typer.Option(
            "--trials", help=f"The best of a secret number of runs: adds that price. {', '.join(TRIAL_FORMATS)}."
        ),
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
        noise_multiplier = plan.calibrate_noise(
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
        trials=None if trials is None else parse_trials(trials),
    )
    if as_json:
        return print_json(priced.to_json())
    q = priced.schedule.sampling_probability
    print_figures(
        "Federated plan",
        [
            ("sampling", f"{sampling}, q = m/N = {q:.6g} ({q:.3%})"),
            ("noise multiplier", format_upper(noise_multiplier, 6)),
            ("delta", f"{priced.delta.delta:g} ({priced.delta.rationale})"),
            ("relation, unit", f"{relation}, one {privacy_unit}"),
            (style_bold("epsilon, certified"), style_bold(format_interval(priced.epsilon))),
            ("method", str(priced.epsilon.method)),
            ("participation known", format_interval(priced.unamplified)),
            ("closed form (estimate)", f"{priced.formula.total:.4f}"),
            ("  root term", f"{priced.formula.root_term:.4f}" + _larger(priced.formula.dominant_term == "root")),
            ("  linear term", f"{priced.formula.linear_term:.4f}" + _larger(priced.formula.dominant_term == "linear")),
            *_together(releases_per_period, format_interval(priced.cumulative)),
            *([] if priced.person is None else [(f"holder of up to {group}", format_interval(priced.person))]),
            *_swept(priced.sweep),
            *([] if priced.fit is None else [("mu of Gaussian DP", _fit_text(priced.fit))]),
        ],
    )
    warned = (finding.says for finding in priced.delta.findings)
    further = [priced.person, priced.sweep.best if priced.sweep else None]
    assumed = dict.fromkeys(line for one in (priced.epsilon, *further) if one is not None for line in one.assumptions)
    for line in (str(priced.verdict), *warned, *(f"Assumes: {a}" for a in assumed)):
        print_notice(line)
    return None


def _swept(found: TuningCost | None) -> list[tuple[str | Text, str | Text]]:
    if found is None:
        return []
    first = (style_bold("this sweep costs"), style_bold(format_interval(found.best)))
    return [first, *((f"  {name}", text) for name, text in list_tuning_rows(found))]


def _fit_text(fit: GaussianDPFit) -> str:
    """A mu with both its errors, each rounded up."""
    if fit.error == 0:
        return format_upper(fit.mu, 4)
    errors = Message.of("gdp/fit-errors", mu=fit.mu, beyond=fit.beyond, regret=fit.regret)
    return f"approximately {errors}"


def _together(releases: int, cumulative: str) -> list[tuple[str, str]]:
    return [(f"{releases} releases together", cumulative)] if releases > 1 else []


def _larger(dominates: bool) -> str:
    return "  (the larger)" if dominates else ""


@plan_app.command("queries")
def plan_queries_command(
    epsilon: Annotated[float, option_from_parameter("epsilon", parameters.TOTAL_EPSILON, short="-e")],
    number: Annotated[int, option_from_parameter("queries", parameters.QUERIES, short="-Q")],
    sensitivity: Annotated[float, option_from_parameter("sensitivity", parameters.SENSITIVITY, short="-s")] = 1.0,
    mechanism: Annotated[str, option_from_parameter("mechanism", parameters.MECHANISM)] = "laplace",
    delta: Annotated[float | None, option_from_parameter("delta", parameters.TOTAL_DELTA)] = None,
    queries_used: Annotated[int, option_from_parameter("queries_used", parameters.QUERIES_USED, short="-u")] = 0,
    population: Annotated[int | None, option_from_parameter("population", parameters.UNITS, short="-N")] = None,
    delta_cap: Cap = 1e-6,
    weights: Annotated[str | None, option_from_parameter("weights", parameters.WEIGHTS, "for example 3,1,1")] = None,
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
                *(format_upper(noise.scale, 6) for noise in (s.classic, s.exact, s.optimal)),
                f"{s.optimal.error_95:.4g}",
            ]
            for s in dict.fromkeys(priced.shares)
        ]
        headings = ["weight", "epsilon", f"classic {name}", "exact", "optimal", "95% error (optimal)"]
        print_table("Noise of one query", headings, rows)
        print_figures(
            "Budget",
            [
                ("used", f"{queries_used} of {number} queries; {priced.queries_left} more fit"),
                ("consumed, optimal noise", format_interval(priced.consumed.optimal)),
                ("consumed, classic noise", format_interval(priced.consumed.classic)),
                ("consumed, classic split", f"{priced.consumed.split:.6g} of {epsilon:g} (bookkeeping, no bound)"),
                ("remaining, optimal noise", f"{format_lower(priced.remaining, 6)}, for pure releases"),
                ("delta", "none: pure DP" if priced.delta is None else f"{priced.delta.delta:g}"),
                ("saving", f"{priced.noise_reduction:.3g} times less noise when composed optimally"),
            ],
        )
        for finding in priced.findings:
            print_notice(finding.says)
    if not priced.covers_used_queries:
        raise typer.Exit(REFUSED)


@plan_app.command("preflight")
def preflight_command(
    file: Annotated[Path, typer.Argument(help="A TOML or JSON file that describes the loop.")],
    delta: Annotated[float, option_from_parameter("delta", parameters.DELTA, "of both figures")],
    as_json: Json = False,
) -> None:
    """Price a loop of DP-SGD as it is, and say where that is not what its own accountant counts.

    Exit code 4 says that the loop costs more than its accountant will say, or that nothing is proved of it.

    Example: epsilog plan preflight loop.toml --delta 1e-6
    """
    from epsilog import plan

    found = plan.preflight(plan.TrainingLoop.parse(read_document(file)), delta=delta)
    if as_json:
        print_json(found.to_json())
    else:
        print_figures(
            "Preflight",
            [
                ("what its accountant will say", format_upper(found.believed.upper)),
                (style_bold("what is proved of the loop"), style_bold(format_interval(found.cost))),
                ("relation", str(found.cost.relation)),
                ("method", str(found.cost.method)),
            ],
        )
        rows = [[one.verdict.value, one.code, one.says] for one in found.findings]
        print_table("Findings", ["", "code", "what was found"], rows)
        for line in found.cost.assumptions:
            print_notice(f"Assumes: {line}")
    if not found.holds:
        raise typer.Exit(NOT_VERIFIED)


@plan_app.command("algorithm-2")
def algorithm_2_command(
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

    found = plan.account_algorithm_2(
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
    print_figures(
        "Algorithm 2, as printed",
        [
            ("noise multiplier of a step", f"{format_lower(found.noise_multiplier, 6)} (sigma p n / C)"),
            ("epsilon, E in epochs", format_interval(found.epochs)),
            ("epsilon, E in iterations", format_interval(found.iterations)),
            ("epsilon if sigma were the multiplier", format_interval(found.mistaken)),
        ],
    )
    print_notice("For a neighbour with nothing in one example's place: the divisor must not change with the data.")
    return None


def _numbers(text: str) -> list[float]:
    try:
        return [float(read_number("weights", part)) for part in text.split(",")]
    except ValueError as error:
        raise CheckError("weights", "numbers joined by commas", repr(text)) from error
