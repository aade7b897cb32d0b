"""`epsilog verify` and `epsilog report`: what a third party does, and what it is given to read."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from epsilog.cli.app import NOT_ALL_CHECKED, NOT_VERIFIED, Json, app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, redact_address
from epsilog.cli.show import console, format_status, print_notice, print_table
from epsilog.terms import (
    EVIDENCE_KINDS,
    LOG_EVIDENCE_KINDS,
    CheckError,
    EpsilogError,
    Finding,
    RecordError,
    RunArtifact,
    Status,
    check,
    codec,
)
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from epsilog.signing import VerifierKey
    from epsilog.verification import Playbook, TrustAnchors


@app.command("verify")
def verify_command(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="A run folder, a report (JSON or HTML), a ledger, a bundle of one, a checkpoint, a receipt or a "
            "calculator's record: told apart by content. A ledger may be a postgresql:// or https:// URL.",
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
            f"Of logs: {', '.join(LOG_EVIDENCE_KINDS)}; all but the last two if blank.",
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
    rigorous: Annotated[
        bool,
        typer.Option(
            "--rigorous",
            help="Also prove the claim again in ball arithmetic, where special functions, transforms and rounding are "
            "the library's (extra `rigorous`).",
        ),
    ] = False,
    cells: Annotated[
        int, typer.Option("--cells", min=2048, help="The most cells of a lattice with --rigorous: more prove more.")
    ] = 1 << 17,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the verdict as Markdown, to this file.")
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", help="Of a stamped calculation: NAME=FILE, a file that it names by its SHA-256."),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option("--watch", min=0.1, help="Look every so many seconds, and verify again whenever a file changes."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a run against plan and ledger, build its report again, work a ledger or a calculation again, or check logs.

    Exit code 0 says that all that is required was checked and passed; 4 that something failed; 5 that something that is
    required was not checked, or that there is a warning to read. With --watch it ends when something fails.

    Example: epsilog verify runs/exam-scores-central-1a2b3c4d
    """
    from epsilog.ledger import parse_address

    files = _references(reference)
    path, books = (None if said is None else parse_address(said) for said in (place, ledger))
    if path is None and logs is None:
        raise CheckError("path", "given, or --logs", "neither")
    rules = _rules(playbook, logs)
    if logs is not None:
        for name, value in {
            "ledger": ledger and redact_address(ledger),
            "head": head,
            "checkpoint": checkpoint,
        }.items():
            if value is not None:
                raise CheckError(name, "absent with --logs, which no ledger binds", repr(str(value)))
        for name, told in {"key": key, "signature": signature}.items():
            if told and path is None:
                raise CheckError(name, "absent without a report, which alone can be signed", repr(str(told)))

    def look() -> Status:
        brought = _build_trust_anchors(head, checkpoint, key)
        found = _find_evidence(path, logs, books, require, brought, signature, cells if rigorous else None, files)
        title = Path("ledger") if isinstance(path, str) else path or logs or Path()
        _print_outcome(*found, title=title, rules=rules, output=output, as_json=as_json)
        verdict: Status = found[0].verdict
        return verdict

    places = [each for each in (path, logs, books) if isinstance(each, Path)]
    verdict = look() if watch is None else _watch(look, watch, places)
    if verdict != "passed":
        raise typer.Exit(NOT_VERIFIED if verdict == "failed" else NOT_ALL_CHECKED)


def _watch(look: Callable[[], Status], seconds: float, places: list[Path]) -> Status:
    """Looks again whenever something there has changed, until something fails; half-written files are waited for."""
    while True:
        seen = _stamps(places)
        try:
            verdict = look()
        except RecordError as error:  # of a run that is being written, perhaps
            print_notice(f"not yet: {error}")
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


def _find_evidence(
    path: str | Path | None,
    logs: Path | None,
    ledger: str | Path | None,
    require: list[str] | None,
    brought: TrustAnchors,
    signature: Path | None,
    cells: int | None,
    references: Mapping[str, str] | None,
) -> tuple[Any, str, Mapping[str, str]]:
    """What was found, which claim stands, and digests of the logs that were read."""
    if logs is not None:
        _without(references, "logs")
        return _of_logs(None if path is None else Path(path), logs, require, brought, signature, cells)
    assert path is not None
    return *_verify_path(path, ledger, require, brought, signature, cells, references or {}), {}


def _without(references: Mapping[str, str] | None, kind: str) -> None:
    """Refuses files of a calculator's record beside anything else."""
    if references:
        raise CheckError("reference", f"absent for {kind}", ", ".join(references))


def _of_calculation(path: Path, files: Mapping[str, str]) -> Any:
    """What a stamped calculation shows by itself, and beside the files that it names."""
    from epsilog import reports
    from epsilog.verification import Reconciliation, read_file

    found = reports.check_calculation(codec.parse_json(read_file(path)), files=files)
    return Reconciliation(found, required=())


def _references(given: list[str] | None) -> dict[str, str]:
    """SHA-256 of files by the names that a record has for them."""
    found = {}
    for each in given or ():
        name, _, file = each.partition("=")
        if not name or not file:
            raise CheckError("reference", "NAME=FILE", repr(each))
        try:
            with Path(file).open("rb") as opened:
                found[name] = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise CheckError("reference", "a file that can be read", f"{file}: {error.strerror}") from error
    return found


def _print_outcome(
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
        from epsilog.reports import render_verdict

        written = render_verdict(outcome, title=title.name, stands=stands, playbook=rules, files=files)
        output.write_text(written, encoding="utf-8")
    if as_json:
        return print_json(outcome.to_json(rules) | {"stands": stands, "required": sorted(outcome.required)})
    rows = [[f.check, format_status(f.verdict), f.says] for f in outcome.findings]
    print_table(str(title), ["check", "verdict", "what was found"], rows)
    for what_if in outcome.what_ifs:
        print_notice(what_if.says)
    if rules is not None:
        _run_playbook(outcome.findings, rules)
    console.print(f"\n{legible(stands)}" if stands else "", "\n", _format_status(outcome), sep="")
    return None


def _format_status(outcome: Any) -> Text:
    """The verdict on all that is required; green only where nothing else was left unchecked."""
    left = [one.check for one in outcome.findings if one.verdict is Status.NOT_CHECKED]
    if outcome.verdict is Status.PASSED and left:
        return Text(f"passed, as far as was required; not checked: {', '.join(left)}")
    return format_status(outcome.verdict)


SIGNED = ("bundle", "checkpoint", "receipt")  # what is made to be signed


def _examined_ledger(
    where: str | Path, kind: str, ledger: str | Path | None, require: list[str] | None, brought: TrustAnchors
) -> Any:
    """What a whole ledger shows, or a bundle of one."""
    from epsilog import verification as checks

    if ledger is not None:
        raise CheckError("ledger", f"absent for a {kind}", repr(str(ledger)))
    required = _list_required(("ledger", *(("signature",) if kind in SIGNED else ())), require, brought)
    return checks.Reconciliation(checks.check_ledger_chain(where, brought), required=required)


def _verify_path(
    path: str | Path,
    ledger: str | Path | None,
    require: list[str] | None,
    brought: TrustAnchors,
    signature: Path | None,
    cells: int | None,
    references: Mapping[str, str],
) -> tuple[Any, str]:
    """What was found, and which claim stands ("" for a ledger, which makes none)."""
    from epsilog import reports
    from epsilog import verification as checks

    for name in require or ():
        check.one_of(EVIDENCE_KINDS)(require=name)
    kind = "ledger" if isinstance(path, str) else checks.identify_artifact(path)
    if kind == "calculation":
        return _of_calculation(Path(path), references), ""
    _without(references, f"a {kind}")
    if cells is not None and kind not in ("run", "report", "page"):
        raise CheckError("rigorous", f"absent for a {kind}, which claims nothing of one schedule", "given")
    if isinstance(path, str):
        return _examined_ledger(path, "ledger", ledger, require, brought), ""
    if kind in ("run", "report", "page"):
        required = _list_required(reports.REQUIRED_EVIDENCE, require, brought)
        signed = checks.read_signed(path, brought.keys, signature=signature)
        given: dict[str, Any] = {"required": required, "brought": brought, "signed": signed}
        if cells is not None:
            given["cells"] = cells
        if kind == "run":
            beside = path.resolve().parent / Path(DEFAULT_LEDGER).name
            ledger = ledger or (beside if beside.exists() else None)
        books = checks.LedgerReader.read(ledger) if ledger else None
        if kind == "run":
            found = reports.verify_run(checks.read_run_folder(path), books, **given)
        else:
            found = reports.verify_report(checks.read_file(path), books, **given)
        return found.outcome, found.stands
    if signature is not None:
        raise CheckError("signature", f"absent for a {kind}, which carries its own", repr(str(signature)))
    if kind in ("ledger", "bundle"):
        return _examined_ledger(path, kind, ledger, require, brought), ""
    required = _list_required(("ledger", *(("signature",) if kind in SIGNED else ())), require, brought)
    books = checks.LedgerReader.read(ledger) if ledger else None
    return checks.Reconciliation(checks.check_note(path, kind, books, brought), required=required), ""


def _list_required(default: Sequence[str], require: list[str] | None, brought: TrustAnchors) -> tuple[str, ...]:
    """The evidence that must be here; whoever gives a key wants a signature."""
    required = default if require is None else require
    return tuple(dict.fromkeys((*required, *(("signature",) if brought.keys else ()))))


def _build_trust_anchors(head: str | None, checkpoint: Path | None, keys: list[str] | None) -> TrustAnchors:
    """What whoever verifies has kept elsewhere."""
    from epsilog.verification import TrustAnchors, read_checkpoint

    kept = None if checkpoint is None else read_checkpoint(checkpoint)
    return TrustAnchors(head, kept, tuple(verifier_key(key) for key in keys or ()))


def verifier_key(key: str) -> VerifierKey:
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
    from epsilog.verification import Playbook

    if playbook is not None or logs is None:
        return None if playbook is None else Playbook.read(playbook)
    from epsilog.verification.logs import read_playbook

    return read_playbook(logs)


def _run_playbook(findings: Sequence[Finding], rules: Playbook) -> None:
    for finding in findings:
        for step in rules.steps_for(finding):
            print_notice(f"{finding.code} triggers: {step} (playbook {rules.sha256[:16]}...)")


def _of_logs(
    path: Path | None,
    mapping: Path,
    require: list[str] | None,
    brought: TrustAnchors,
    signature: Path | None,
    cells: int | None,
) -> tuple[Any, str, Mapping[str, str]]:
    """What logs show, and the report of them at ``path`` if there is one; which claim is left; digests of the logs."""
    from epsilog import reports
    from epsilog.verification import check_rigorous, read_file, read_signed
    from epsilog.verification.logs import REQUIRED, verify_logs

    required = tuple(REQUIRED if require is None else require)
    for name in required:
        check.one_of(LOG_EVIDENCE_KINDS)(require=name)
    found = verify_logs(mapping, required=required)
    again = () if cells is None else (check_rigorous(found.claim.guarantee, found.claim.scheme.release(), cells=cells),)
    if path is None:
        return found.outcome.with_findings(again), reports.format_log_statement(found), reports.log_digests(found)
    signed = read_signed(path, brought.keys, signature=signature)
    compared = reports.verify_log_report(read_file(path), found, brought=brought, signed=signed)
    return compared.outcome.with_findings(again), compared.stands, reports.log_digests(found)


@app.command("report")
def report_command(
    folder: Annotated[Path | None, typer.Argument(help="A run folder that `epsilog run` has finished.")] = None,
    logs: Annotated[
        Path | None, typer.Option("--logs", help="Instead of a folder: a mapping (TOML) of the logs of any other run.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; beside the report, or the mapping, if blank.")
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", "-f", help="html, markdown, pdf, json, registry or summary.")
    ] = "html",
    about: Annotated[
        Path | None, typer.Option("--about", help="A TOML file of fields that the report leaves blank.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Render a run's report: as HTML, Markdown, PDF, JSON, registry record or plain summary.

    Of a run that epsilog trained, from its JSON. Of any other, from its logs: then there is no record.

    Example: epsilog report runs/exam-scores-central-1a2b3c4d --format summary -o summary.md
    """
    from epsilog.reports import check_schema, read_publication_file

    if (folder is None) == (logs is None):
        raise CheckError("folder", "given, or --logs, and not both", repr(str(folder)) if folder else "neither")
    kind = check.one_of(tuple(RENDERED if logs is None else OF_LOGS))(format=kind)
    document = _build_log_report(logs) if logs is not None else _read_stored_report(folder or Path())
    check_schema(document)
    if as_json:
        return print_json(document)
    said = {} if about is None else read_publication_file(about)
    try:
        content = _render_document(document, kind, said)
    except (EpsilogError, ValueError, OSError):
        raise
    except Exception as error:  # whatever a document of the right shape and wrong names does to a template
        raise RecordError(f"the report cannot be rendered: {error!r}") from error
    target = output or (logs.parent if logs is not None else folder or Path()) / RENDERED[kind]
    target.write_bytes(content)
    console.print(f"wrote {target}", soft_wrap=True)
    return None


def _read_stored_report(folder: Path) -> Any:
    source = folder / RunArtifact.REPORT
    try:
        return codec.parse_json(source.read_bytes())
    except OSError as error:
        raise RecordError(f"{source} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{source} is not JSON: {error}") from error


def _build_log_report(mapping: Path) -> dict[str, Any]:
    from epsilog.reports import build_log_report
    from epsilog.verification.logs import verify_logs

    return build_log_report(verify_logs(mapping))


RENDERED = {
    "html": RunArtifact.PAGE,
    "markdown": "report.md",
    "pdf": "report.pdf",
    "json": RunArtifact.REPORT,
    "registry": "registry.yaml",
    "summary": "summary.md",
}
OF_LOGS = tuple(kind for kind in RENDERED if kind != "registry")


def _render_document(document: dict[str, Any], kind: str, about: dict[str, str]) -> bytes:
    from epsilog import reports

    if kind in ("html", "json"):
        if about:
            raise CheckError("about", f"absent for {kind}, which is made from the report alone", "a file")
        return reports.render_html(document).encode() if kind == "html" else codec.encode_canonical(document) + b"\n"
    if kind == "pdf":
        return reports.render_pdf(document, about)
    if kind == "registry":
        return reports.render_record(reports.build_registry_record(document, about)).encode()
    return reports.render_markdown(document, about, kind=kind).encode()
