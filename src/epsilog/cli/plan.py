"""`epsilog plan`: the calculators' questions, a preflight check of a training loop, and a published algorithm."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli import derive
from epsilog.cli.account import list_tuning_rows
from epsilog.cli.app import (
    NOT_VERIFIED,
    Application,
    Json,
    option_from_parameter,
    plan_app,
    print_json,
    read_bytes,
    read_document,
)
from epsilog.cli.show import LEAKED, format_interval, print_figures, print_notice, print_table, style, write
from epsilog.terms import CheckError, parameters
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.messages import Message

if TYPE_CHECKING:
    from epsilog.accounting import GaussianDPFit
    from epsilog.plan import DPSGDPlan, FederatedPlan, QueryPlan, TuningCost


def build() -> Application:
    """Return a command for each question, named by its address, but for those that have one elsewhere."""
    from epsilog.plan.questions import QUESTIONS, DPSGDQuestion, FederatedQuestion, QueriesQuestion, VerdictQuestion

    app = Application()
    app.command("dp-sgd")(derive.make_plan_command(DPSGDQuestion, _show_dp_sgd, _DP_SGD))
    app.command("federated")(derive.make_command(_plan_federated, _list_federated(), _FEDERATED))
    app.command("queries")(
        derive.make_plan_command(QueriesQuestion, _show_queries, _QUERIES, lambda plan: not plan.covers_used_queries)
    )
    asked = derive.list_parameters(VerdictQuestion)
    app.command("verdict")(derive.make_command(_plan_verdict, [*asked, _REPORT, derive.JSON_PARAMETER], _VERDICT))
    for path, question in QUESTIONS.items():
        name = path.removeprefix("/").replace("/", "-")
        elsewhere = path.startswith("/account") or path == "/certificate"  # `epsilog certify`
        if question not in (DPSGDQuestion, FederatedQuestion, QueriesQuestion, VerdictQuestion) and not elsewhere:
            app.command(name)(derive.make_question_command(question, f"epsilog plan {name}"))
    return app


# ---- the DP-SGD calculator -------------------------------------------------------------------------------------------

_DP_SGD = """Bound the epsilon of a DP-SGD run, or find its noise.

Give epochs or steps, and a noise multiplier or a target epsilon. The figure of the other loader is always printed.

Example: epsilog plan dp-sgd -N 60000 -B 256 -E 60 -z 1.1 --delta 1e-5
"""


def _show_dp_sgd(plan: DPSGDPlan) -> None:
    run, relation = plan.run, plan.relation
    drawn = f"{run.sampler}, used once an epoch" if run.sampler == "shuffled" else f"{run.sampler}, q = B/N"
    print_figures(
        "DP-SGD run",
        [
            (style("epsilon, certified"), style(format_interval(plan.epsilon))),
            ("delta", f"{plan.delta:g}"),
            ("relation, unit", f"{relation}, one example"),
            ("noise multiplier", format_upper(run.noise_multiplier, 6)),
            ("loader", drawn),
            ("steps", f"{run.updates:,}"),
            (f"epsilon, {plan.other.sampler} batches", f"{format_interval(plan.other_epsilon)}, {plan.other_relation}"),
            ("method", str(plan.epsilon.method)),
        ],
    )
    assumptions = (f"Assumes: {line}" for line in plan.epsilon.assumptions)
    for line in (*plan.write_meaning(plan.count_found()), plan.loader_note, *assumptions):
        print_notice(str(line))


# ---- the federated calculator ----------------------------------------------------------------------------------------

_FEDERATED = """Bound the epsilon of a federated schedule.

Also prints the closed form that is widely quoted, as an estimate.

Example: epsilog plan federated -N 50000 -m 500 -T 200 -z 1.2
"""


def _list_federated() -> list[Any]:
    from epsilog.plan.questions import FederatedQuestion

    goal = option_from_parameter("epsilon", parameters.EPSILON, "calibrates the noise multiplier, instead of it")
    asked = derive.list_parameters(FederatedQuestion, optional=["noise_multiplier"])
    sought = derive.make_parameter("epsilon", float, goal, None)
    return [*asked, sought, derive.CERTIFICATE_PARAMETER, derive.JSON_PARAMETER]


def _plan_federated(*, epsilon: float | None, **given: Any) -> None:
    from epsilog.plan.questions import FederatedNoise, FederatedQuestion
    from epsilog.terms import fields

    if (given["noise_multiplier"] is None) == (epsilon is None):
        found = "neither" if epsilon is None else "both"
        raise CheckError("noise_multiplier", "given, or else --epsilon", found)
    if epsilon is not None:
        goal = {name: given[name] for name in fields.list_fields(FederatedNoise) if name in given}
        asked = derive.read_question(FederatedNoise, goal | {"epsilon": epsilon})
        given["noise_multiplier"] = asked.answer()["noise_multiplier"]
    show = partial(_show_federated, calibrated=epsilon is not None)
    derive.print_plan(FederatedQuestion, given, show, fit=True)


def _show_federated(plan: FederatedPlan, *, calibrated: bool) -> None:
    q, formula, releases = plan.schedule.sampling_probability, plan.closed_form, plan.releases_per_period
    noise = ("noise multiplier", format_upper(plan.schedule.noise_multiplier, 6))
    print_figures(
        "Federated plan",
        [
            *([(style(noise[0]), style(noise[1]))] if calibrated else []),
            (style("epsilon, certified"), style(format_interval(plan.epsilon))),
            *([(style("meaning"), meaning)] if (meaning := _write_meaning(plan)) else []),
            ("delta", f"{plan.delta.delta:g} ({plan.delta.rationale})"),
            ("relation, unit", f"{plan.relation}, one {plan.privacy_unit}"),
            (LEAKED, format_interval(plan.unamplified)),
            *([(f"{releases} releases together", format_interval(plan.cumulative))] if releases > 1 else []),
            *(
                []
                if plan.group_interval is None
                else [(f"holder of up to {plan.group_size}", format_interval(plan.group_interval))]
            ),
            *([] if plan.tuning_cost is None else _list_tuning_cost_rows(plan.tuning_cost)),
            ("sampling", f"{plan.schedule.sampling}, q = m/N = {q:.6g} ({q:.3%})"),
            *([] if calibrated else [noise]),
            ("method", str(plan.epsilon.method)),
            ("closed form (estimate)", f"{formula.total:.4f}"),
            ("  root term", f"{formula.root_term:.4f}" + _mark_larger(formula.dominant_term == "root")),
            ("  linear term", f"{formula.linear_term:.4f}" + _mark_larger(formula.dominant_term == "linear")),
            *([] if plan.fit is None else [("mu of Gaussian DP", _format_fit(plan.fit))]),
        ],
    )
    further = [plan.group_interval, plan.tuning_cost.best if plan.tuning_cost else None]
    assumptions = dict.fromkeys(line for one in (plan.epsilon, *further) if one is not None for line in one.assumptions)
    warnings = (finding.message for finding in plan.delta.findings)
    for line in (str(plan.closed_form_note), *warnings, *(f"Assumes: {each}" for each in assumptions)):
        print_notice(line)


def _write_meaning(plan: FederatedPlan) -> str:
    """Write how many units the best attack could pick out; nothing where no bound is proven."""
    from epsilog.plan import bound_attack
    from epsilog.reports import write_meaning

    delta = plan.delta.delta
    attack = bound_attack(plan.release, delta=delta, relation=plan.relation) if plan.schedule.noise_multiplier else []
    if not attack:
        return ""
    guarantee = {"privacy_unit": plan.privacy_unit, "relation": str(plan.relation)}
    return write_meaning({"claim": {"guarantee": guarantee}, "risk_metrics": {"attack": attack}})


def _list_tuning_cost_rows(cost: TuningCost) -> list[tuple[Any, Any]]:
    rows = [(f"  {name}", text) for name, text in list_tuning_rows(cost)]
    return [(style("tuning cost"), style(format_interval(cost.best))), *rows]


def _format_fit(fit: GaussianDPFit) -> str:
    """Return a mu with both its errors, each rounded up."""
    if fit.error == 0:
        return format_upper(fit.mu, 4)
    errors = Message.of("gdp/fit-errors", mu=fit.mu, slack=fit.slack, regret=fit.regret)
    return f"approximately {errors}"


def _mark_larger(dominates: bool) -> str:
    return "  (the larger)" if dominates else ""


# ---- the query calculator --------------------------------------------------------------------------------------------

_QUERIES = """Split a budget over queries, with optimal noise.

Exit code 3: more queries were answered than the budget covers.

Example: epsilog plan queries -e 1 -Q 100 --queries-used 40
"""


def _show_queries(plan: QueryPlan) -> None:
    typical = abs(plan.magnitude) if plan.magnitude else None
    error = (
        []
        if typical is None
        else [("95% error", f"{plan.shares[0].optimal.error_95 / typical:.3%} of a typical answer")]
    )
    print_figures(
        "Budget",
        [
            ("used", f"{plan.queries_used} of {plan.queries} queries; {plan.queries_left} more fit"),
            ("consumed, optimal noise", format_interval(plan.consumed.optimal)),
            ("consumed, classic noise", format_interval(plan.consumed.classic)),
            ("consumed, classic split", f"{plan.consumed.split:.6g} of {plan.epsilon:g} (bookkeeping, no bound)"),
            ("remaining, optimal noise", f"{format_lower(plan.remaining, 6)}, for pure releases"),
            ("delta", "none: pure DP" if plan.delta is None else f"{plan.delta.delta:g}"),
            ("saving", f"{plan.noise_reduction:.3g} times less noise when composed optimally"),
            *error,
        ],
    )
    name = "scale b" if plan.mechanism == "laplace" else "standard deviation"
    rows = [
        [
            f"{share.weight:g}",
            f"{share.epsilon:.6g}",
            *(format_upper(noise.scale, 6) for noise in (share.classic, share.exact, share.optimal)),
            f"{share.optimal.error_95:.4g}",
        ]
        for share in dict.fromkeys(plan.shares)
    ]
    headings = ["weight", "epsilon", f"classic {name}", "exact", "optimal", "95% error (optimal)"]
    print_table("Noise of one query", headings, rows)
    for finding in plan.findings:
        print_notice(finding.message)


# ---- the verdict card ------------------------------------------------------------------------------------------------

_VERDICT = """Say what an epsilon means, out of 1,000 people.

Prints one card with the SHA-256 of its text. Of a report, figures come from its mechanism's full curve.

Example: epsilog plan verdict --epsilon 4 --delta 1e-5
"""
_REPORT = derive.make_parameter(
    "file", Path, typer.Option("--from-report", help="A report.json, instead of what it states."), None
)


def _plan_verdict(*, file: Path | None, as_json: bool, **given: Any) -> None:
    from epsilog.plan.questions import VerdictQuestion

    given["date"] = given["date"] or f"{dt.datetime.now(dt.UTC):%Y-%m-%d}"
    if file is not None:
        from epsilog.reports import read_card_question

        given |= read_card_question(read_bytes(file))
    card = derive.read_question(VerdictQuestion, given).answer()
    if as_json:
        return print_json(card)
    return write(f"{card['text']}SHA-256 {card['sha256']}", soft_wrap=True)


# ---- loops and algorithms of others ----------------------------------------------------------------------------------


@plan_app.command("preflight")
def preflight_command(
    file: Annotated[Path, typer.Argument(help="The loop, as a TOML or JSON file; - for standard input.")],
    delta: Annotated[float, option_from_parameter("delta", parameters.DELTA, "of both figures")],
    as_json: Json = False,
) -> None:
    """Compare the cost of a DP-SGD loop with its accountant.

    Exit code 4: the loop costs more than its accountant reports, or no bound is proven.

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
                ("epsilon that its accountant reports", format_upper(found.accountant_epsilon.upper)),
                (style("certified epsilon of the loop"), style(format_interval(found.cost))),
                ("relation", str(found.cost.relation)),
                ("method", str(found.cost.method)),
            ],
        )
        rows = [[one.status.value, one.code, one.message] for one in found.findings]
        print_table("Findings", ["", "code", "what was found"], rows)
        for line in found.cost.assumptions:
            print_notice(f"Assumes: {line}")
    if not found.passed:
        raise typer.Exit(NOT_VERIFIED)


@plan_app.command("naseri-algorithm-2")
def algorithm_2_command(
    sigma: Annotated[float, typer.Option(help="Noise magnitude, as printed.")],
    batch_probability: Annotated[
        float, typer.Option("--batch-probability", "-p", help="Probability that an example joins a batch.")
    ],
    examples: Annotated[int, typer.Option("--examples", "-n", help="Examples of the client.")],
    max_participations: Annotated[
        int, typer.Option("--max-participations", "-R", help="Largest number of rounds that the client takes part in.")
    ],
    epochs: Annotated[int, typer.Option("--epochs", "-E", help="E, as printed.")] = 1,
    clip_norm: Annotated[float, typer.Option("--clip-norm", "-C", help="L2 clip norm of a gradient.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Failure probability.")] = 1e-5,
    as_json: Json = False,
) -> None:
    """Bound epsilon of Algorithm 2 of Naseri et al. 2022.

    As printed, the noise is added outside the divisor.

    Example: epsilog plan naseri-algorithm-2 --sigma 1 -p 0.1 -n 64 -R 10
    """
    from epsilog import plan

    found = plan.account_algorithm_2(
        sigma=sigma,
        batch_probability=batch_probability,
        examples=examples,
        clip_norm=clip_norm,
        epochs=epochs,
        max_participations=max_participations,
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
    print_notice("For a neighbor with nothing in one example's place: the divisor must not change with the data.")
    return None
