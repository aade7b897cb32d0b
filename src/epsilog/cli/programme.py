"""`epsilog run` and what belongs to it: a programme from plan to proof, its training alone, and its model asked."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from epsilog.cli.app import GOES_ON, NOT_VERIFIED, Json, app, on_stop, print_json
from epsilog.cli.ledger import redact_address
from epsilog.cli.show import (
    console,
    format_interval,
    format_status,
    print_figures,
    print_notice,
    print_table,
    style_bold,
)
from epsilog.terms import CheckError, RunArtifact, check, codec
from epsilog.terms.formatting import format_upper

EMBEDDED, FLOWER = "embedded", "flower"


@app.command("run")
def run_command(
    programmes: Annotated[list[Path], typer.Argument(help="Programme files (TOML).")],
    runs: Annotated[Path, typer.Option("--runs", help="Where run folders are kept.")] = Path("runs"),
    ledger: Annotated[str | None, typer.Option("--ledger", "-l", help="The ledger; RUNS/ledger.db if blank.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="Where rounds are computed: embedded, or flower.")] = EMBEDDED,
    superlink: Annotated[
        str | None, typer.Option("--superlink", help="HOST:PORT of Flower's SuperLink; one is started here if blank.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Flower's nodes to start, or to wait for.")] = 2,
    only_check: Annotated[
        bool, typer.Option("--check", help="Only read and price them: no data, no charge, no training.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take programmes from plan to proof; a run that was killed goes on where it stopped.

    Example: epsilog run examples/central.toml examples/local.toml
    """
    if only_check:
        return _check(programmes, as_json=as_json)
    engine = check.one_of((EMBEDDED, FLOWER))(engine=engine)
    if superlink is not None:
        _require_address(superlink, engine)
    from epsilog.cli.flower import train_on_flower
    from epsilog.ledger import is_remote_address, parse_address
    from epsilog.pipeline import run as run_programme
    from epsilog.training.engines import enable_compilation_cache

    enable_compilation_cache()
    on_stop(GOES_ON)
    summaries: list[dict[str, Any]] = []
    failed = False
    for path in programmes:
        with _Watcher(quiet=as_json) as watcher:
            books: str | Path = parse_address(ledger) if ledger else runs / "ledger.db"
            if engine == FLOWER:
                train_on_flower(path, runs=runs, ledger=books, observer=watcher, superlink=superlink, nodes=nodes)
            outcome = run_programme(path, runs=runs, ledger=books, observer=watcher)
        failed |= outcome.reconciliation.verdict == "failed"
        summaries.append({"folder": str(outcome.folder), "report": outcome.report})
        if not as_json:
            _summary(outcome.report, outcome.folder)
    if as_json:
        print_json(summaries)
    else:
        if len(summaries) > 1:
            _side_by_side([summary["report"] for summary in summaries])
        served = is_remote_address(parse_address(ledger)) if ledger else False
        books_of = [] if served else ["--ledger", redact_address(ledger or str(runs / "ledger.db"))]
        command = shlex.join(["epsilog", "serve", "--runs", str(runs), *books_of])
        console.print(f"\nTo look around: {command}", soft_wrap=True)  # one line, so that it can be copied
    if failed:
        raise typer.Exit(NOT_VERIFIED)
    return None


def _check(programmes: list[Path], *, as_json: bool) -> None:
    """What each programme promises and costs."""
    from epsilog.pipeline import check_config

    found = [(path, check_config(path)) for path in programmes]
    if as_json:
        return print_json([{"file": str(path), "whole": one.whole, "plan": one.plan.to_json()} for path, one in found])
    for path, one in found:
        plan = one.plan
        print_figures(
            str(path),
            [
                (style_bold("epsilon, certified"), style_bold(format_interval(plan.epsilon))),
                ("budget", f"{plan.budget['epsilon']} at delta {plan.budget['delta']}, of {plan.budget['scope']}"),
                ("noise multiplier", format_upper(plan.scheme.noise_multiplier, 6)),
                ("participation known", format_interval(plan.unamplified)),
            ],
        )
        if not one.whole:
            print_notice("It promises, and is priced; to run it, add [data], [model] and [training].")
    return None


def _require_address(superlink: str, engine: str) -> None:
    host, _, port = superlink.rpartition(":")
    if engine != FLOWER:
        raise CheckError("superlink", f"absent without --engine {FLOWER}", repr(superlink))
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CheckError("superlink", "HOST:PORT", repr(superlink))


@app.command("train")
def train_command(
    programme: Annotated[Path, typer.Argument(help="A programme file (TOML).")],
    runs: Annotated[Path, typer.Option("--runs", help="Where run folders are kept.")] = Path("runs"),
    ledger: Annotated[str | None, typer.Option("--ledger", "-l", help="The ledger; RUNS/ledger.db if blank.")] = None,
) -> None:
    """Train a programme's model and stop there: booked like any run, with no comparison, check or report yet.

    `epsilog run` on the same file goes on from there, and trains nothing again.

    Example: epsilog train examples/central.toml
    """
    from epsilog.ledger import parse_address
    from epsilog.pipeline import train_only
    from epsilog.training.engines import enable_compilation_cache

    enable_compilation_cache()
    on_stop(GOES_ON)
    with _Watcher(quiet=False, lines=True) as watcher:
        books = None if ledger is None else parse_address(ledger)
        model, folder = train_only(programme, runs=runs, ledger=books, observer=watcher)
    where = ["--runs", str(runs), *(["--ledger", redact_address(ledger)] if ledger else [])]
    console.print(style_bold("\ntrained"))  # the model in one line, so that it can be copied
    console.print(
        f"model   {folder / RunArtifact.MODEL} ({model.vector.size:,} parameters)", soft_wrap=True, highlight=False
    )
    console.print(f"\nTo verify and report: {shlex.join(['epsilog', 'run', str(programme), *where])}", soft_wrap=True)


@app.command("predict")
def predict_command(
    programme: Annotated[Path, typer.Argument(help="The programme file that the model was trained under.")],
    model: Annotated[Path, typer.Argument(help="The released model: model.npz of the run's folder.")],
    rows: Annotated[Path, typer.Argument(help="A file with the columns of the features.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The CSV file to write, a line a row; the screen if blank.")
    ] = None,
) -> None:
    """Predict the target of every row of a file with a model that a run released.

    A row that the model cannot use, since something is missing or not listed, is left blank.

    Example: epsilog predict clinics.toml runs/long-stays-clinics-c04a69ec/model.npz visits.csv -o predictions.csv
    """
    import csv

    from epsilog.pipeline import load_run_config
    from epsilog.pipeline import predict_targets as predicted

    found = predicted(programme, model, rows)
    heading = getattr(load_run_config(programme).data, "target", "prediction")
    with contextlib.nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([heading])
        lines.writerows([["" if value is None else value] for value in found])
    if output is not None:
        blank = sum(value is None for value in found)
        console.print(f"wrote {output}: {len(found):,} rows, {blank:,} of them blank", soft_wrap=True)


@app.command("init")
def init_command(
    data: Annotated[Path, typer.Argument(help="Your data: CSV, Parquet, NPZ, or a folder of NPY files.")],
    client: Annotated[str, typer.Option("--client", prompt=True, help="The column that says whose a row is.")],
    target: Annotated[str, typer.Option("--target", prompt=True, help="The column to predict.")],
    row: Annotated[str, typer.Option("--row", prompt="What is one row, in one word", help="What one row is.")],
    protect: Annotated[str, typer.Option("--protect", help="Who is protected: a whole client, or one row.")] = "client",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The programme file to write; must not be there yet.")
    ] = Path("programme.toml"),
) -> None:
    """Write a programme file for your own data, with a marked blank wherever you have to say something.

    It reads the names and types of columns, and no row: ranges, lists and counts are yours to state.

    Example: epsilog init visits.csv --client clinic --target long_stay --row visit
    """
    from epsilog.pipeline import write_config_template

    text = write_config_template(data, client=client, target=target, row=row, level=protect, beside=output.parent)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CheckError("output", "a file that is not there yet", repr(str(output))) from None
    console.print(f'wrote {output}; fill in each "?", and then: epsilog run {shlex.quote(str(output))}', soft_wrap=True)


class _Watcher:
    """Shows the stages, and the rounds as a progress bar; with ``lines``, every tenth part is a line elsewhere."""

    def __init__(self, *, quiet: bool, lines: bool = False) -> None:
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True)
        self._quiet, self._lines = quiet, lines and self._progress.disable
        self._bar: TaskID | None = None

    def __enter__(self) -> _Watcher:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, says: str) -> None:
        if not self._quiet:
            console.print(f"{says} ...", style="dim")

    def round(self, record: Any, plan: Any) -> None:
        if self._progress.disable and not self._lines:
            return
        done, rounds = record.round, plan.scheme.rounds
        if self._lines and done * 10 // rounds == (done - 1) * 10 // rounds:
            return
        none = "diverged" if record.diverged else "none"
        facts = f"loss {_figure(record.test_loss, none)}  score {_figure(record.test_score, none)}"
        if self._lines or done % 5 == 0 or done == rounds:
            facts += f"  epsilon <= {format_upper(plan.epsilon_after(done).upper)}"
        told = f"round {done} of {rounds}"
        if self._lines:
            console.print(f"{told}  {facts}", soft_wrap=True)
            return
        if self._bar is None:
            self._bar = self._progress.add_task("round", total=rounds, facts="")
        self._progress.update(self._bar, completed=done, facts=facts, description=told)


def _summary(report: dict[str, Any], folder: Path) -> None:
    from epsilog.reports import format_audit_bound, list_noisy_counts, list_tuning_figures

    claim, result, budget = report["claim"], report["result"], report["budget"]
    utility, none = report["utility"] or {}, _format_missing_score(result)
    bare = utility.get("without_dp") or []
    print_figures(
        f"{report['identity']['name']}" + (" (simulation)" if report["simulation"] else ""),
        [
            ("claim", claim["statement"]),
            ("budget", f"epsilon {budget['epsilon']}, delta {budget['delta']} in {budget['scope']}"),
            ("epsilon, certified", format_interval(codec.decode(claim["epsilon"]))),
            *((name, f"{value}: {what}") for name, value, what in list_tuning_figures(report)),
            *((name, f"{value}: {what}") for name, value, what in list_noisy_counts(report)),
            *((name, f"{value}, {what}") for name, value, what in format_audit_bound(report)),
            ("closed form (estimate)", _figure(report["accounting"]["formula"]["total"], "none")),
            ("participation known", format_upper(float(claim["unamplified"]["upper"]))),
            (
                result["score_name"],
                _figure(result["test_score"], none)
                + (f" (without DP {_figure(bare[-1]['test_score'], none)})" if bare else ""),
            ),
            ("records against plan and ledger", format_status(report["verification"]["verdict"])),
            ("report", str(folder / RunArtifact.PAGE)),
        ],
    )
    if utility.get("study"):
        points = "  ".join(f"{p['epsilon']:g}: {_figure(p['test_score'], none)}" for p in utility["study"])
        print_notice(f"Score at other budgets (epsilon: score)  {points}")
    print_notice(report["accounting"]["formula"]["verdict"])
    for finding in report["verification"]["findings"]:
        if finding["verdict"] in ("failed", "warned"):
            print_notice(f"{finding['check']}: {finding['says']}")


def _side_by_side(reports: list[dict[str, Any]]) -> None:
    """Whom each programme protects, against whom, and what that costs."""
    rows = []
    for report in reports:
        guarantee, bare = report["claim"]["guarantee"], (report["utility"] or {}).get("without_dp")
        none = _format_missing_score(report["result"])
        server = next(row["protected_by"] for row in report["claim"]["parties"] if row["party"] == "Server")
        rows.append(
            [
                report["identity"]["name"],
                f"one {guarantee['privacy_unit']} of {guarantee['population']:,}",
                server,
                format_upper(guarantee["epsilon"]),
                _figure(report["result"]["test_score"], none),
                _figure(bare[-1]["test_score"], none) if bare else "-",
            ]
        )
    headings = ["programme", "protects", "against the server", "epsilon", "score", "without DP"]
    print_table("Side by side (epsilons of different units do not compare)", headings, rows)


def _format_missing_score(result: dict[str, Any]) -> str:
    """What stands for a score that is not there: training diverged, or there is no test set."""
    return "diverged" if result["diverged"] or result["test_score"] is not None else "none"


def _figure(value: float | str | None, none: str) -> str:
    """Four digits, or the word for no figure."""
    if value is None:
        return none
    return f"{value:.4g}" if isinstance(value, (int, float)) else value
