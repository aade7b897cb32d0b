"""`epsilog run`, `train`, `predict`, `init`, `report` and `study`: from a run config to a report."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from epsilog.cli.app import (
    NOT_VERIFIED,
    RESUMABLE,
    Json,
    Output,
    app,
    is_standard,
    on_stop,
    print_json,
    rename_field,
    require_new,
    write_output,
)
from epsilog.cli.ledger import DEFAULT_LEDGER, redact_address
from epsilog.cli.show import (
    LEAKED,
    VERDICT_STYLE,
    format_interval,
    make_progress,
    print_figures,
    print_notice,
    print_table,
    style,
    write,
)
from epsilog.terms import CheckError, EpsilogError, RecordError, RunArtifact, check, codec
from epsilog.terms.formatting import format_upper
from epsilog.terms.legible import legible

EMBEDDED, FLOWER = "embedded", "flower"
RunsFolder = Annotated[Path, typer.Option("--runs", help="The folder of run folders.")]
RunLedger = Annotated[str | None, typer.Option("--ledger", "-l", help="The ledger; if omitted: RUNS/ledger.db.")]


@app.command("run")
def run_command(
    configs: Annotated[list[Path], typer.Argument(help="Run configs (TOML).")],
    runs: RunsFolder = Path("runs"),
    ledger: RunLedger = None,
    engine: Annotated[str, typer.Option(help="Where rounds are computed: embedded, or flower.")] = EMBEDDED,
    superlink: Annotated[
        str | None, typer.Option(help="HOST:PORT of Flower's SuperLink; if omitted: one is started here.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of Flower nodes to start or to wait for.")] = 2,
    only_check: Annotated[
        bool, typer.Option("--check", help="Only check the configs and their cost: no data, no charge, no training.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run configs from plan to report; resumes a run that was stopped.

    Example: epsilog run examples/central.toml examples/local.toml
    """
    if only_check:
        return _check(configs, as_json=as_json)
    engine = check.one_of((EMBEDDED, FLOWER))(engine=engine)
    if superlink is not None:
        _require_address(superlink, engine)
    from epsilog.cli.flower import train_on_flower
    from epsilog.ledger import parse_address
    from epsilog.ledger.factory import is_remote_address
    from epsilog.pipeline import run as run_config
    from epsilog.training.engines import enable_compilation_cache

    enable_compilation_cache()
    on_stop(RESUMABLE)
    summaries: list[dict[str, Any]] = []
    failed = False
    for path in configs:
        with _RunWatcher(quiet=as_json) as watcher:
            address: str | Path = parse_address(ledger) if ledger else runs / "ledger.db"
            if engine == FLOWER:
                train_on_flower(path, runs=runs, ledger=address, observer=watcher, superlink=superlink, nodes=nodes)
            outcome = run_config(path, runs=runs, ledger=address, observer=watcher)
        failed |= outcome.verification.status == "failed"
        summaries.append({"folder": str(outcome.folder), "report": outcome.report})
        if not as_json:
            _show_summary(outcome.report, outcome.folder)
    if as_json:
        print_json(summaries)
    else:
        if len(summaries) > 1:
            _show_side_by_side([summary["report"] for summary in summaries])
        served = is_remote_address(parse_address(ledger)) if ledger else False
        options = [] if served else ["--ledger", redact_address(ledger or str(runs / "ledger.db"))]
        command = shlex.join(["epsilog", "serve", "--runs", str(runs), *options])
        write(f"\nTo browse it: {command}", soft_wrap=True)  # one line, so that it can be copied
    if failed:
        raise typer.Exit(NOT_VERIFIED)
    return None


def _check(configs: list[Path], *, as_json: bool) -> None:
    """Print the claim and the cost of each run config."""
    from epsilog.pipeline import check_config

    found = [(path, check_config(path)) for path in configs]
    if as_json:
        return print_json(
            [{"file": str(path), "whole": one.is_complete, "plan": one.plan.to_json()} for path, one in found]
        )
    for path, one in found:
        plan = one.plan
        print_figures(
            str(path),
            [
                (style("epsilon, certified"), style(format_interval(plan.epsilon))),
                ("budget", f"{plan.budget['epsilon']} at delta {plan.budget['delta']}, of {plan.budget['scope']}"),
                ("noise multiplier", format_upper(plan.scheme.noise_multiplier, 6)),
                (LEAKED, format_interval(plan.unamplified)),
            ],
        )
        if not one.is_complete:
            print_notice("Only its claim was checked; to run it, add [data], [model] and [training].")
    return None


def _require_address(superlink: str, engine: str) -> None:
    host, _, port = superlink.rpartition(":")
    if engine != FLOWER:
        raise CheckError("superlink", f"absent without --engine {FLOWER}", repr(superlink))
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CheckError("superlink", "HOST:PORT", repr(superlink))


@app.command("train")
def train_command(
    config: Annotated[Path, typer.Argument(help="A run config (TOML).")],
    runs: RunsFolder = Path("runs"),
    ledger: RunLedger = None,
) -> None:
    """Train the model of a run config, and stop before the report.

    The charge is booked as in any run. `epsilog run` on the same file makes the report and does not train again.

    Example: epsilog train examples/central.toml
    """
    from epsilog.ledger import parse_address
    from epsilog.pipeline import train_only
    from epsilog.training.engines import enable_compilation_cache

    enable_compilation_cache()
    on_stop(RESUMABLE)
    with _RunWatcher(quiet=False, lines=True) as watcher:
        address = None if ledger is None else parse_address(ledger)
        model, folder = train_only(config, runs=runs, ledger=address, observer=watcher)
    where = ["--runs", str(runs), *(["--ledger", redact_address(ledger)] if ledger else [])]
    write(style("\ntrained"))  # the model in one line, so that it can be copied
    write(f"model   {folder / RunArtifact.MODEL} ({model.vector.size:,} parameters)", soft_wrap=True)
    write(f"\nTo verify and report: {shlex.join(['epsilog', 'run', str(config), *where])}", soft_wrap=True)


@app.command("predict")
def predict_command(
    config: Annotated[Path, typer.Argument(help="The run config of the model.")],
    model: Annotated[Path, typer.Argument(help="The released model: model.npz in the run folder.")],
    rows: Annotated[Path, typer.Argument(help="A file with the feature columns.")],
    output: Output = None,
) -> None:
    """Predict the target of each row with a released model.

    A row with a missing or unlisted value is left blank.

    Example: epsilog predict clinics.toml runs/long-stays-clinics-c04a69ec/model.npz visits.csv -o predictions.csv
    """
    import csv

    from epsilog.pipeline import load_run_config, predict_targets

    found = predict_targets(config, model, rows)
    heading = getattr(load_run_config(config).data, "target", "prediction")
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([[heading], *(["" if one is None else one] for one in found)])
    blank = sum(value is None for value in found)
    write_output(table.getvalue(), output, f": {len(found):,} rows, {blank:,} of them blank")


@app.command("init")
def init_command(
    data: Annotated[Path, typer.Argument(help="Your data: CSV, Parquet, NPZ, or a folder of NPY files.")],
    client: Annotated[
        str, typer.Option("--client", prompt=True, help="The column that identifies the client of a row.")
    ],
    target: Annotated[str, typer.Option("--target", prompt=True, help="The column to predict.")],
    row: Annotated[str, typer.Option("--row-name", prompt="Noun for one row", help="A noun for one row.")],
    privacy_unit: Annotated[str, typer.Option(help="The privacy unit: client or row.")] = "client",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New file, the run config; - for standard output.")
    ] = Path("run.toml"),
    as_json: Json = False,
) -> None:
    """Write a run config for your data.

    A "?" marks what you must fill in. The names and types of columns are read, but no row: you state ranges, categories
    and counts.

    Example: epsilog init visits.csv --client clinic --target long_stay --row-name visit
    """
    from epsilog.pipeline import write_config_template

    require_new(output)
    with rename_field("path", "data"):
        text = write_config_template(
            data, client=client, target=target, row=row, level=privacy_unit, base=output.parent
        )
    if is_standard(output):
        return write_output(text, output)
    write_output(text, output, quiet=True)
    if as_json:
        return print_json({"file": str(output)})
    return write(f'wrote {output}; fill in each "?", and then: epsilog run {shlex.quote(str(output))}', soft_wrap=True)


class _RunWatcher:
    """Shows stages and bars on a terminal, on standard error; with ``lines`` and no terminal, a line for each tenth."""

    def __init__(self, *, quiet: bool, lines: bool = False) -> None:
        from rich.progress import TaskID

        self._progress = make_progress(quiet=quiet)
        self._lines = lines and self._progress.disable
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> _RunWatcher:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, text: str) -> None:
        if self._lines:
            write(f"{text} ...", style="dim")
        elif not self._progress.disable:
            self._progress.console.print(f"{legible(text)} ...", style="dim")

    def comparison(self, done: int, total: int) -> None:
        if not self._progress.disable:
            self._draw("comparisons", done, total)

    def _draw(self, name: str, done: int, total: int, facts: str = "") -> None:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total, facts=facts)
        bar = self._bars[name]
        self._progress.update(bar, completed=done)
        if facts:
            self._progress.update(bar, facts=facts)

    def round(self, record: Any, plan: Any) -> None:
        if self._progress.disable and not self._lines:
            return
        done, rounds = record.round, plan.scheme.rounds
        if self._lines and done * 10 // rounds == (done - 1) * 10 // rounds:
            return
        none = "diverged" if record.diverged else "none"
        facts = f"loss {_format_figure(record.test_loss, none)}  score {_format_figure(record.test_score, none)}"
        if self._lines or done % 5 == 0 or done == rounds:
            facts += f"  epsilon <= {format_upper(plan.epsilon_after(done).upper)}"
        if self._lines:
            write(f"round {done} of {rounds}  {facts}", soft_wrap=True)
        else:
            self._draw("rounds", done, rounds, facts)


def _show_summary(report: dict[str, Any], folder: Path) -> None:
    from epsilog.reports import (
        format_audit_bound,
        format_verdict,
        list_noisy_counts,
        list_tuning_figures,
        write_meaning,
        write_score_cost,
    )

    claim, result, budget = report["claim"], report["result"], report["budget"]
    verified: str = report["verification"]["status"]
    utility, none = report["utility"] or {}, _format_missing_score(result)
    print_figures(
        f"{report['identity']['name']}" + (" (simulation)" if report["simulation"] else ""),
        [
            (style("verdict"), style(format_verdict(report), {**VERDICT_STYLE, "passed": "bold"}[verified])),
            (style("meaning"), write_meaning(report)),
            (style(result["score_name"]), f"{_format_figure(result['test_score'], none)}{_format_baseline(report)}"),
            *([(style("cost of privacy"), cost)] if (cost := write_score_cost(report)) else []),
            *_list_other_budgets(utility, none),
            ("claim", claim["statement"]),
            ("budget", f"epsilon {budget['epsilon']}, delta {budget['delta']} in {budget['scope']}"),
            ("epsilon, certified", format_interval(codec.decode(claim["epsilon"]))),
            (LEAKED, format_upper(float(claim["unamplified"]["upper"]))),
            *((name, f"{value}: {what}") for name, value, what in list_tuning_figures(report)),
            *((name, f"{value}: {what}") for name, value, what in list_noisy_counts(report)),
            *((name, f"{value}, {what}") for name, value, what in format_audit_bound(report)),
            ("report", str(folder / RunArtifact.PAGE)),
        ],
    )
    print_notice(report["accounting"]["closed_form"]["note"])
    for finding in report["verification"]["findings"]:
        if finding["status"] in ("failed", "warned"):
            print_notice(f"{finding['check']}: {finding['message']}")


def _format_baseline(report: dict[str, Any]) -> str:
    """Return the score without DP, where a simulation measured it."""
    bare = (report["utility"] or {}).get("baseline_rounds") or []
    none = _format_missing_score(report["result"])
    return f" ({_format_figure(bare[-1]['test_score'], none)} without DP)" if bare else ""


def _list_other_budgets(utility: dict[str, Any], none: str) -> list[tuple[str, str]]:
    """Return the scores at other epsilons, where a simulation measured them."""
    points = [
        f"{_format_figure(p['test_score'], none)} at epsilon {p['epsilon']:g}" for p in utility.get("study") or ()
    ]
    return [("at other budgets", ", ".join(points))] if points else []


def _show_side_by_side(reports: list[dict[str, Any]]) -> None:
    """Print what each run protects, against whom, and at what cost."""
    rows = []
    for report in reports:
        guarantee, bare = report["claim"]["guarantee"], (report["utility"] or {}).get("baseline_rounds")
        none = _format_missing_score(report["result"])
        server = next(row["protection"] for row in report["claim"]["parties"] if row["party"] == "Server")
        rows.append(
            [
                report["identity"]["name"],
                f"one {guarantee['privacy_unit']} of {guarantee['population']:,}",
                server,
                format_upper(guarantee["epsilon"]),
                _format_figure(report["result"]["test_score"], none),
                _format_figure(bare[-1]["test_score"], none) if bare else "-",
            ]
        )
    headings = ["run", "protects", "against the server", "epsilon", "score", "without DP"]
    print_table("Side by side (epsilons of different units do not compare)", headings, rows)


def _format_missing_score(result: dict[str, Any]) -> str:
    """Return the text for a missing score: training diverged, or there is no test set."""
    return "diverged" if result["diverged"] or result["test_score"] is not None else "none"


def _format_figure(value: float | str | None, none: str) -> str:
    """Return four digits, or the word for no figure."""
    if value is None:
        return none
    return f"{value:.4g}" if isinstance(value, (int, float)) else value


# ---- reports and studies ---------------------------------------------------------------------------------------------


@app.command("report")
def report_command(
    folder: Annotated[Path | None, typer.Argument(help="A finished run folder.")] = None,
    logs: Annotated[
        Path | None, typer.Option(help="Instead of a folder: a mapping (TOML) of the logs of any other run.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; - for standard output; if omitted: beside the report or mapping."
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", "-f", help="html, markdown, pdf, json, registry or summary.")
    ] = "html",
    publication_fields: Annotated[
        Path | None, typer.Option(help="A TOML file of publication fields that a report lacks.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Render a report in one of six formats.

    The report of a run of epsilog is read from its folder; with --logs it is built from the logs of any other run.

    Example: epsilog report runs/exam-scores-central-1a2b3c4d --format summary -o summary.md
    """
    from epsilog.reports import check_schema, read_publication_file

    if (folder is None) == (logs is None):
        raise CheckError("folder", "given, or --logs, and not both", repr(str(folder)) if folder else "neither")
    kind = check.one_of(tuple(FILES if logs is None else LOG_FORMATS))(format=kind)
    document = _build_log_report(logs) if logs is not None else _read_stored_report(folder or Path())
    check_schema(document)
    if as_json:
        return print_json(document)
    fields = {} if publication_fields is None else read_publication_file(publication_fields)
    try:
        content = _render_document(document, kind, fields)
    except (EpsilogError, ValueError, OSError):
        raise
    except Exception as error:  # a document of the right shape but with wrong names, in a template
        raise RecordError(f"the report cannot be rendered: {error!r}") from error
    target = output or (logs.parent if logs is not None else folder or Path()) / FILES[kind]
    return write_output(content, target)


def _read_stored_report(folder: Path) -> Any:
    source = folder / RunArtifact.REPORT
    try:
        return codec.parse_json(source.read_bytes())
    except OSError as error:
        raise RecordError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{source} is not JSON: {error}") from error


def _build_log_report(mapping: Path) -> dict[str, Any]:
    from epsilog.reports import build_report
    from epsilog.verification.logs import verify_logs

    return build_report(verify_logs(mapping))


FILES = {
    "html": RunArtifact.PAGE,
    "markdown": "report.md",
    "pdf": "report.pdf",
    "json": RunArtifact.REPORT,
    "registry": "registry.yaml",
    "summary": "summary.md",
}
LOG_FORMATS = tuple(kind for kind in FILES if kind != "registry")


def _render_document(document: dict[str, Any], kind: str, publication_fields: dict[str, str]) -> bytes:
    from epsilog import reports

    if kind in ("html", "json"):
        if publication_fields:
            raise CheckError("publication_fields", f"absent for {kind}, which shows the report alone", "a file")
        return reports.render_html(document).encode() if kind == "html" else codec.encode_canonical(document) + b"\n"
    if kind == "pdf":
        return reports.render_pdf(document, publication_fields)
    if kind == "registry":
        return reports.render_record(reports.build_registry_record(document, publication_fields)).encode()
    return reports.render_markdown(document, publication_fields, kind=kind).encode()


@app.command("study")
def study_command(
    file: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    runs: RunsFolder = Path("runs"),
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="The ledger that records the protocol before the first run.")
    ] = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Measure utility and attacks over schemes, budgets and seeds.

    It spends no privacy budget. A study that was stopped resumes after the last finished attack.

    Example: epsilog study examples/studies/schools.toml
    """
    from epsilog import study as studies
    from epsilog.ledger import parse_address

    loaded = studies.load_study(file)
    on_stop(RESUMABLE)
    document = studies.run_study(
        loaded,
        folder=runs,
        ledger=parse_address(ledger),
        on_progress=(lambda _: None) if as_json else lambda text: write(f"{text} ..."),
    )
    if as_json:
        return print_json(document)
    for one in studies.read_tables(document):
        print_table(f"{loaded.name}: {one.title}", list(one.headings), [list(row) for row in one.rows])
    for line in document["found"]:
        print_notice(line)
    return None
