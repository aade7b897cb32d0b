"""`epsilog run`, `epsilog verify` and `epsilog report`: a programme from plan to proof, and what a third party does."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import NOT_ALL_CHECKED, NOT_VERIFIED, Json, app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, shown
from epsilog.cli.show import console, figures, interval_text, note, table, verdict_text
from epsilog.terms import EVIDENCE, LOG_EVIDENCE, CheckError, Finding, RecordsError, RunFile, Verdict, check, codec
from epsilog.terms.digits import upper_text

if TYPE_CHECKING:
    from epsilog.signing import VerifierKey
    from epsilog.verify import Brought, Playbook

EMBEDDED, FLOWER = "embedded", "flower"


@app.command("run")
def run(
    programmes: Annotated[list[Path], typer.Argument(help="Programme files (TOML).")],
    runs: Annotated[Path, typer.Option("--runs", help="Where run folders are kept.")] = Path("runs"),
    ledger: Annotated[str | None, typer.Option("--ledger", "-l", help="The ledger; RUNS/ledger.db if blank.")] = None,
    engine: Annotated[str, typer.Option("--engine", help="Where rounds are computed: embedded, or flower.")] = EMBEDDED,
    superlink: Annotated[
        str | None, typer.Option("--superlink", help="HOST:PORT of Flower's SuperLink; one is started here if blank.")
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Flower's nodes to start, or to wait for.")] = 2,
    as_json: Json = False,
) -> None:
    """Take programmes from plan to proof; a run that was killed goes on where it stopped.

    Example: epsilog run examples/central.toml examples/local.toml
    """
    engine = check.one_of((EMBEDDED, FLOWER))(engine=engine)
    if superlink is not None:
        _require_address(superlink, engine)
    from epsilog.cli.flower import train_on_flower
    from epsilog.programme import run as run_programme
    from epsilog.spend import located
    from epsilog.train.engines import keep_compilations

    keep_compilations()
    summaries: list[dict[str, Any]] = []
    failed = False
    for path in programmes:
        with _Watcher(quiet=as_json) as watcher:
            books: str | Path = located(ledger) if ledger else runs / "ledger.db"
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
        command = shlex.join(
            ["epsilog", "serve", "--runs", str(runs), "--ledger", shown(ledger or str(runs / "ledger.db"))]
        )
        console.print(f"\nTo look around: {command}", soft_wrap=True)  # one line, so that it can be copied
    if failed:
        raise typer.Exit(NOT_VERIFIED)


def _require_address(superlink: str, engine: str) -> None:
    host, _, port = superlink.rpartition(":")
    if engine != FLOWER:
        raise CheckError("superlink", f"absent without --engine {FLOWER}", repr(superlink))
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CheckError("superlink", "HOST:PORT", repr(superlink))


@app.command("train")
def train(
    programme: Annotated[Path, typer.Argument(help="A programme file (TOML).")],
    runs: Annotated[Path, typer.Option("--runs", help="Where run folders are kept.")] = Path("runs"),
    ledger: Annotated[str | None, typer.Option("--ledger", "-l", help="The ledger; RUNS/ledger.db if blank.")] = None,
) -> None:
    """Train a programme's model and stop there: booked like any run, with no comparison, check or report yet.

    `epsilog run` on the same file goes on from there, and trains nothing again.

    Example: epsilog train examples/central.toml
    """
    from epsilog.programme import train_only
    from epsilog.spend import located
    from epsilog.train.engines import keep_compilations

    keep_compilations()
    with _Watcher(quiet=False, lines=True) as watcher:
        books = None if ledger is None else located(ledger)
        model, folder = train_only(programme, runs=runs, ledger=books, observer=watcher)
    where = ["--runs", str(runs), *(["--ledger", shown(ledger)] if ledger else [])]
    figures("trained", [("model", f"{folder / RunFile.MODEL} ({model.vector.size:,} parameters)")])
    console.print(f"\nTo verify and report: {shlex.join(['epsilog', 'run', str(programme), *where])}", soft_wrap=True)


@app.command("predict")
def predict(
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

    from epsilog.programme import load
    from epsilog.programme import predict as predicted

    found = predicted(programme, model, rows)
    heading = getattr(load(programme).data, "target", "prediction")
    with contextlib.nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([heading])
        lines.writerows([["" if value is None else value] for value in found])
    if output is not None:
        blank = sum(value is None for value in found)
        console.print(f"wrote {output}: {len(found):,} rows, {blank:,} of them blank", soft_wrap=True)


@app.command("init")
def init(
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
    from epsilog.programme import draft

    text = draft(data, client=client, target=target, row=row, level=protect, beside=output.parent)
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
            facts += f"  epsilon <= {upper_text(plan.epsilon_after(done).upper)}"
        told = f"round {done} of {rounds}"
        if self._lines:
            console.print(f"{told}  {facts}", soft_wrap=True)
            return
        if self._bar is None:
            self._bar = self._progress.add_task("round", total=rounds, facts="")
        self._progress.update(self._bar, completed=done, facts=facts, description=told)


def _summary(report: dict[str, Any], folder: Path) -> None:
    from epsilog.prove import lower_bound

    claim, result, budget = report["claim"], report["result"], report["budget"]
    utility, none = report["utility"] or {}, _unscored(result)
    bare = utility.get("without_dp") or []
    figures(
        f"{report['identity']['name']}" + (" (simulation)" if report["simulation"] else ""),
        [
            ("claim", claim["statement"]),
            ("budget", f"epsilon {budget['epsilon']}, delta {budget['delta']} in {budget['scope']}"),
            ("epsilon, certified", interval_text(codec.decode(claim["epsilon"]))),
            *((name, f"{value}, {what}") for name, value, what in lower_bound(report)),
            ("closed form (estimate)", _figure(report["accounting"]["formula"]["total"], "none")),
            ("participation known", upper_text(float(claim["unamplified"]["upper"]))),
            (
                result["score_name"],
                _figure(result["test_score"], none)
                + (f" (without DP {_figure(bare[-1]['test_score'], none)})" if bare else ""),
            ),
            ("records against plan and ledger", verdict_text(report["verification"]["verdict"])),
            ("report", str(folder / RunFile.PAGE)),
        ],
    )
    if utility.get("study"):
        points = "  ".join(f"{p['epsilon']:g}: {_figure(p['test_score'], none)}" for p in utility["study"])
        note(f"Score at other budgets (epsilon: score)  {points}")
    note(report["accounting"]["formula"]["verdict"])
    for finding in report["verification"]["findings"]:
        if finding["verdict"] in ("failed", "warned"):
            note(f"{finding['check']}: {finding['says']}")


def _side_by_side(reports: list[dict[str, Any]]) -> None:
    """Whom each programme protects, against whom, and what that costs."""
    rows = []
    for report in reports:
        guarantee, bare = report["claim"]["guarantee"], (report["utility"] or {}).get("without_dp")
        none = _unscored(report["result"])
        server = next(row["protected_by"] for row in report["claim"]["parties"] if row["party"] == "Server")
        rows.append(
            [
                report["identity"]["name"],
                f"one {guarantee['privacy_unit']} of {guarantee['population']:,}",
                server,
                upper_text(guarantee["epsilon"]),
                _figure(report["result"]["test_score"], none),
                _figure(bare[-1]["test_score"], none) if bare else "-",
            ]
        )
    headings = ["programme", "protects", "against the server", "epsilon", "score", "without DP"]
    table("Side by side (epsilons of different units do not compare)", headings, rows)


def _unscored(result: dict[str, Any]) -> str:
    """What stands for a score that is not there: training diverged, or there is no test set."""
    return "diverged" if result["diverged"] or result["test_score"] is not None else "none"


def _figure(value: float | str | None, none: str) -> str:
    """Four digits, or the word for no figure."""
    if value is None:
        return none
    return f"{value:.4g}" if isinstance(value, (int, float)) else value


@app.command("verify")
def verify(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="A run folder, a report (JSON or HTML), a ledger, a bundle of one, a checkpoint or a receipt: told "
            "apart by content. A ledger may be a postgresql:// URL.",
        ),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            "--logs",
            help="A mapping (TOML) of the logs of any other run: to check those, or the report of those at PATH.",
        ),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option("--ledger", "-l", help="The ledger that a run was charged to, or a bundle of it.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            help="Evidence that must be here: report, ledger, custody, page, signature; if blank the first three, and "
            "a signature where --key is given or the path is of a kind that is signed. "
            f"Of logs: {', '.join(LOG_EVIDENCE)}; all but the last two if blank.",
        ),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", help="An entry's hash that you kept: the ledger must still hold it.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="A checkpoint that you kept: the ledger must begin with its entries."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", "-k", help="Whose signature counts: the public line NAME+ID+KEY, or a file with it."),
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", help="The report's signature; REPORT.intoto.jsonl beside it if blank."),
    ] = None,
    playbook: Annotated[
        Path | None,
        typer.Option("--playbook", help="A TOML file of steps, by the findings that trigger them."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the verdict as Markdown, to this file.")
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option("--watch", min=0.1, help="Look every so many seconds, and verify again whenever a file changes."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a run against plan and ledger, build its report again, work a ledger out again, or check logs.

    Exit code 0 says that all that is required was checked and passed; 4 that something failed; 5 that something that is
    required was not checked, or that there is a warning to read. With --watch it ends when something fails.

    Example: epsilog verify runs/exam-scores-central-1a2b3c4d
    """
    from epsilog.spend import located

    path, books = (None if said is None else located(said) for said in (place, ledger))
    if path is None and logs is None:
        raise CheckError("path", "given, or --logs", "neither")
    rules = _rules(playbook, logs)
    if logs is not None:
        for name, value in {"ledger": ledger and shown(ledger), "head": head, "checkpoint": checkpoint}.items():
            if value is not None:
                raise CheckError(name, "absent with --logs, which no ledger binds", repr(str(value)))
        for name, told in {"key": key, "signature": signature}.items():
            if told and path is None:
                raise CheckError(name, "absent without a report, which alone can be signed", repr(str(told)))

    def look() -> Verdict:
        brought = _brought(head, checkpoint, key)
        found = _found(path, logs, books, require, brought, signature)
        title = Path("ledger") if isinstance(path, str) else path or logs or Path()
        _tell(*found, title=title, rules=rules, output=output, as_json=as_json)
        verdict: Verdict = found[0].verdict
        return verdict

    places = [each for each in (path, logs, books) if isinstance(each, Path)]
    verdict = look() if watch is None else _watched(look, watch, places)
    if verdict != "passed":
        raise typer.Exit(NOT_VERIFIED if verdict == "failed" else NOT_ALL_CHECKED)


def _watched(look: Callable[[], Verdict], seconds: float, places: list[Path]) -> Verdict:
    """Looks again whenever something there has changed, until something fails; half-written files are waited for."""
    while True:
        seen = _stamps(places)
        try:
            verdict = look()
        except RecordsError as error:  # of a run that is being written, perhaps
            note(f"not yet: {error}")
        else:
            if verdict == "failed":
                return verdict
        while _stamps(places) == seen:
            time.sleep(seconds)


def _stamps(places: list[Path]) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all files at some places, or beside the mapping or ledger that lies there."""
    found = []
    for place in places:
        for file in sorted((place if place.is_dir() else place.parent).iterdir()):
            with contextlib.suppress(OSError):  # gone while we looked
                facts = file.stat()
                found.append((str(file), facts.st_size, facts.st_mtime_ns))
    return found


def _found(
    path: str | Path | None,
    logs: Path | None,
    ledger: str | Path | None,
    require: list[str] | None,
    brought: Brought,
    signature: Path | None,
) -> tuple[Any, str, Mapping[str, str]]:
    """What was found, which claim stands, and the hashes of the logs that were read."""
    if logs is not None:
        return _of_logs(None if path is None else Path(path), logs, require, brought, signature)
    assert path is not None
    return *_examined(path, ledger, require, brought, signature), {}


def _tell(
    outcome: Any,
    stands: str,
    files: Mapping[str, str],
    *,
    title: Path,
    rules: Playbook | None,
    output: Path | None,
    as_json: bool,
) -> None:
    if output is not None:
        from epsilog.prove import render_verdict

        written = render_verdict(outcome, title=title.name, stands=stands, playbook=rules, files=files)
        output.write_text(written, encoding="utf-8")
    if as_json:
        return print_json(outcome.to_json(rules) | {"stands": stands, "required": sorted(outcome.required)})
    rows = [[f.check, verdict_text(f.verdict), f.says] for f in outcome.findings]
    table(str(title), ["check", "verdict", "what was found"], rows)
    for what_if in outcome.what_ifs:
        note(what_if.says)
    if rules is not None:
        _triggered(outcome.findings, rules)
    console.print(f"\n{stands}" if stands else "", "\n", verdict_text(outcome.verdict), sep="")
    return None


SIGNED = ("bundle", "checkpoint", "receipt")  # what is made to be signed


def _examined_ledger(
    where: str | Path, kind: str, ledger: str | Path | None, require: list[str] | None, brought: Brought
) -> Any:
    """What a whole ledger shows, or a bundle of one."""
    from epsilog import verify as checks

    if ledger is not None:
        raise CheckError("ledger", f"absent for a {kind}", repr(str(ledger)))
    required = _required(("ledger", *(("signature",) if kind in SIGNED else ())), require, brought)
    return checks.Reconciliation(checks.check_chain(where, brought), required=required)


def _examined(
    path: str | Path, ledger: str | Path | None, require: list[str] | None, brought: Brought, signature: Path | None
) -> tuple[Any, str]:
    """What was found, and which claim stands ("" for a ledger, which makes none)."""
    from epsilog import prove
    from epsilog import verify as checks

    for name in require or ():
        check.one_of(EVIDENCE)(require=name)
    if isinstance(path, str):
        return _examined_ledger(path, "ledger", ledger, require, brought), ""
    kind = checks.identify(path)
    if kind in ("run", "report", "page"):
        required = _required(prove.REQUIRED, require, brought)
        signed = checks.read_signed(path, brought.keys, signature=signature)
        given: dict[str, Any] = {"required": required, "brought": brought, "signed": signed}
        if kind == "run":
            beside = path.resolve().parent / Path(DEFAULT_LEDGER).name
            ledger = ledger or (beside if beside.exists() else None)
        books = checks.Books.read(ledger) if ledger else None
        if kind == "run":
            found = prove.examine(checks.read_folder(path), books, **given)
        else:
            found = prove.examine_report(checks.read_file(path), books, **given)
        return found.outcome, found.stands
    if signature is not None:
        raise CheckError("signature", f"absent for a {kind}, which carries its own", repr(str(signature)))
    if kind in ("ledger", "bundle"):
        return _examined_ledger(path, kind, ledger, require, brought), ""
    required = _required(("ledger", *(("signature",) if kind in SIGNED else ())), require, brought)
    books = checks.Books.read(ledger) if ledger else None
    return checks.Reconciliation(checks.check_note(path, kind, books, brought), required=required), ""


def _required(default: Sequence[str], require: list[str] | None, brought: Brought) -> tuple[str, ...]:
    """The evidence that must be here; whoever gives a key wants a signature."""
    required = default if require is None else require
    return tuple(dict.fromkeys((*required, *(("signature",) if brought.keys else ()))))


def _brought(head: str | None, checkpoint: Path | None, keys: list[str] | None) -> Brought:
    """What whoever verifies has kept elsewhere."""
    from epsilog.verify import Brought, read_checkpoint

    kept = None if checkpoint is None else read_checkpoint(checkpoint)
    return Brought(head, kept, tuple(_verifier(key) for key in keys or ()))


def _verifier(key: str) -> VerifierKey:
    """A public key, told as its line or as a file that holds it."""
    from epsilog.signing import VerifierKey

    file = Path(key)
    if not file.is_file():
        return VerifierKey.parse(key)
    try:
        return VerifierKey.parse(file.read_text(encoding="ascii"))
    except ValueError:  # whose words may hold what the file holds, and that may be a private key
        raise CheckError("key", "a file of one public line, NAME+ID+KEY", key) from None


def _rules(playbook: Path | None, logs: Path | None) -> Playbook | None:
    """The playbook that is given, or else the one that the mapping of the logs names."""
    from epsilog.verify import Playbook

    if playbook is not None or logs is None:
        return None if playbook is None else Playbook.read(playbook)
    from epsilog.verify.logs import playbook_of

    return playbook_of(logs)


def _triggered(findings: Sequence[Finding], rules: Playbook) -> None:
    for finding in findings:
        for step in rules.steps_for(finding):
            note(f"{finding.code} triggers: {step} (playbook {rules.sha256[:16]}...)")


def _of_logs(
    path: Path | None, mapping: Path, require: list[str] | None, brought: Brought, signature: Path | None
) -> tuple[Any, str, Mapping[str, str]]:
    """What logs show, and the report of them at ``path`` if there is one; which claim is left; hashes of the logs."""
    from epsilog import prove
    from epsilog.verify import read_file, read_signed
    from epsilog.verify.logs import REQUIRED, examine_logs

    required = tuple(REQUIRED if require is None else require)
    for name in required:
        check.one_of(LOG_EVIDENCE)(require=name)
    found = examine_logs(mapping, required=required)
    if path is None:
        return found.outcome, prove.logs_statement(found), found.files
    signed = read_signed(path, brought.keys, signature=signature)
    compared = prove.examine_logs_report(read_file(path), found, brought=brought, signed=signed)
    return compared.outcome, compared.stands, found.files


@app.command("report")
def report(
    folder: Annotated[Path | None, typer.Argument(help="A run folder that `epsilog run` has finished.")] = None,
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Instead of a folder: a mapping (TOML) of the logs of any other run.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; beside the report, or the mapping, if blank.")
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", "-f", help="html, markdown, pdf, json, registry, card or summary.")
    ] = "html",
    about: Annotated[
        Path | None, typer.Option("--about", help="A TOML file of fields that the report leaves blank.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Render a run's report: as HTML, Markdown, PDF, JSON, registry record, model card or plain summary.

    Of a run that epsilog trained, from its JSON. Of any other, from its logs: then there is neither record nor card.

    Example: epsilog report runs/exam-scores-central-1a2b3c4d --format summary -o summary.md
    """
    from epsilog.prove import check_schema, read_about

    if (folder is None) == (logs is None):
        raise CheckError("folder", "given, or --logs, and not both", repr(str(folder)) if folder else "neither")
    kind = check.one_of(tuple(RENDERED if logs is None else OF_LOGS))(format=kind)
    document = _built(logs) if logs is not None else _stored(folder or Path())
    check_schema(document)
    if as_json:
        return print_json(document)
    content = _rendered(document, kind, {} if about is None else read_about(about))
    target = output or (logs.parent if logs is not None else folder or Path()) / RENDERED[kind]
    target.write_bytes(content)
    console.print(f"wrote {target}", soft_wrap=True)
    return None


def _stored(folder: Path) -> Any:
    source = folder / RunFile.REPORT
    try:
        return codec.parse(source.read_bytes())
    except OSError as error:
        raise RecordsError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordsError(f"{source} is not JSON: {error}") from error


def _built(mapping: Path) -> dict[str, Any]:
    from epsilog.prove import build_logs_report
    from epsilog.verify.logs import examine_logs

    return build_logs_report(examine_logs(mapping))


RENDERED = {
    "html": RunFile.PAGE,
    "markdown": "report.md",
    "pdf": "report.pdf",
    "json": RunFile.REPORT,
    "registry": "registry.yaml",
    "card": "model-card.md",
    "summary": "summary.md",
}
OF_LOGS = tuple(kind for kind in RENDERED if kind not in ("registry", "card"))


def _rendered(document: dict[str, Any], kind: str, about: dict[str, str]) -> bytes:
    from epsilog import prove

    if kind in ("html", "json"):
        if about:
            raise CheckError("about", f"absent for {kind}, which is made from the report alone", "a file")
        return prove.render_html(document).encode() if kind == "html" else codec.canonical(document) + b"\n"
    if kind == "pdf":
        return prove.render_pdf(document, about)
    if kind == "registry":
        return prove.render_record(prove.registry_record(document, about)).encode()
    return prove.render_markdown(document, about, kind=kind).encode()
