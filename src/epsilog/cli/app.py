"""The application, its exit codes and its errors, which every command shares.

Exit codes: 0 success, 2 invalid input, 3 refused by the budget, 4 verification failed, 5 not everything required was
checked, 6 a file cannot be used, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CalibrationError,
    CheckError,
    ConfigError,
    EpsilogError,
    LedgerIntegrityError,
    NeighboringRelation,
    StorageError,
    parameters,
)
from epsilog.terms.fields import Field
from epsilog.terms.legible import legible
from epsilog.terms.numerals import require_one_reading

if TYPE_CHECKING:
    from epsilog.mechanisms import Release

OK, BAD_INPUT, REFUSED, NOT_VERIFIED, NOT_ALL_CHECKED, UNUSABLE, STOPPED = 0, 2, 3, 4, 5, 6, 130
EXIT_CODES: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((BatchRefusedError, BudgetExceededError, CalibrationError), REFUSED),
    ((LedgerIntegrityError,), NOT_VERIFIED),
    ((StorageError,), UNUSABLE),
    ((EpsilogError, ValueError), BAD_INPUT),
    ((OSError,), UNUSABLE),  # a folder that cannot be written, a full disk
)
MODULES = (
    *("run", "account", "montecarlo", "plan", "query"),
    *("ledger", "ledger_copies", "signing", "verify", "certify", "serve"),
)
ENOUGH = {
    "account": ("account",),
    "plan": ("plan",),
    "ledger": ("ledger", "ledger_copies", "signing"),
    "verify": ("verify",),
    "--help": ("run", "query", "signing", "verify", "certify", "serve"),  # the groups below have their help
}
"""The modules that a frequent command needs; each other one needs all."""


# ---- commands that name options in errors ----------------------------------------------------------------------------


def name_option(error: CheckError, options: Sequence[Any]) -> CheckError:
    """Return an error about an argument as one about the option that sets it."""
    name, *rest = re.split(r"(?=[.\[])", error.field, maxsplit=1)
    for option in options:
        if option.name == name and option.param_type_name == "option":
            typed = {argument.partition("=")[0] for argument in sys.argv}
            flag = max(option.opts, key=lambda each: (each in typed and each.startswith("--"), len(each)))
            return CheckError(flag + "".join(rest), error.bound, error.value, error.verb)
    return error


@contextmanager
def rename_field(given: str, name: str) -> Iterator[None]:
    """Call an argument of the library by its name in the command line, in errors."""
    try:
        yield
    except CheckError as error:
        if error.field != given:
            raise
        raise CheckError(name, error.bound, error.value, error.verb) from error


_NUMERALS = {int: r"[+-]?\d{1,15}", float: r"[+-]?\d{1,17}(\.\d{0,17})?([eE][+-]?\d{1,3})?"}


class _PlainValue:
    """Reads a plain word, number or path; leaves anything else to the framework, which loads pydantic for it."""

    def __init__(self, parameter: Any) -> None:
        described = parameter.type_descriptor.annotation
        self._is_list = get_origin(described) is list
        self._kind: Any = get_args(described)[0] if self._is_list else described
        self._least, self._most = (getattr(parameter.type_descriptor.parameter_info, name) for name in ("min", "max"))

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of a parameter, as the framework would."""
        if value is None:
            return () if self._is_list else None
        found = [self._read(each) for each in (value if self._is_list else (value,))]
        if None in found:
            param._runtime_param = None
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        return found if self._is_list else found[0]

    def _read(self, value: Any) -> Any:
        """Return a value; None where the framework decides what it is."""
        kind = self._kind
        if kind in _NUMERALS and isinstance(value, str) and re.fullmatch(_NUMERALS[kind], value, re.ASCII):
            value = kind(value)
        elif kind is Path and isinstance(value, str) and (os.access(value, os.R_OK) or not os.path.lexists(value)):
            value = Path(value)
        elif isinstance(kind, type) and issubclass(kind, Enum) and value in [one.value for one in kind]:
            value = kind(value)
        if type(value) is not kind and not (kind is Path and isinstance(value, Path)):
            return None
        inside = (self._least is None or value >= self._least) and (self._most is None or value <= self._most)
        return value if inside else None


class _PlainValueParameters:
    """Lets parameters read plain values by themselves, where the framework asks an object of its own."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "_runtime_param", one) is None:
                one._runtime_param = _PlainValue(one)
        return found


class _Command(_PlainValueParameters, TyperCommand):
    """A command that names options in errors as they are typed."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CheckError as error:
            raise name_option(error, self.params) from error


class _Group(_PlainValueParameters, TyperGroup):
    """A group that names its options in errors as they are typed; a command below it has named its own."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CheckError as error:
            if ctx.invoked_subcommand:
                raise
            raise name_option(error, self.params) from error


class _DerivedGroup(_Group):
    """A group with further commands, which ``build`` of ``module`` derives when a command is looked up."""

    module = ""
    _given: dict[str, Any]
    _loaded = False

    @property  # type: ignore[override]
    def commands(self) -> dict[str, Any]:
        if not self._loaded:
            self._loaded = True
            derived = cast(TyperGroup, typer.main.get_command(importlib.import_module(self.module).build()))
            self._given = {**derived.commands, **self._given}
        return self._given

    @commands.setter
    def commands(self, given: dict[str, Any]) -> None:
        self._given = given


class Application(typer.Typer):
    """An application of commands that name options in errors, with help as plain text."""

    def __init__(self, **given: Any) -> None:
        defaults = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "cls": _Group}
        super().__init__(**defaults | given)

    def command(self, *words: Any, **given: Any) -> Callable[..., Any]:
        """Add a command."""
        return super().command(*words, **{"cls": _Command} | given)


def _derive(module: str) -> type[_DerivedGroup]:
    return type("_Derived", (_DerivedGroup,), {"module": module})


app = Application(name="epsilog", no_args_is_help=True, context_settings={"max_content_width": 100})
plan_app = Application(
    help="Plan a schedule or a set of queries before a run.", no_args_is_help=True, cls=_derive("epsilog.cli.plan")
)
ledger_app = Application(
    help="Manage the append-only ledger of privacy budgets.",
    no_args_is_help=True,
    cls=_derive("epsilog.cli.ledger_commands"),
)
key_app = Application(help="Manage signing keys.", no_args_is_help=True)
token_app = Application(help="Manage access tokens of a server of `epsilog serve`.", no_args_is_help=True)
account_app = Application(
    short_help="Bound the privacy cost of a release: epsilon or delta.", cls=_derive("epsilog.cli.account")
)
montecarlo_app = Application(help="Bound the privacy cost of a release by simulation.", no_args_is_help=True)
app.add_typer(account_app, name="account")
app.add_typer(plan_app, name="plan")
app.add_typer(ledger_app, name="ledger")
app.add_typer(key_app, name="key")
app.add_typer(token_app, name="token")
account_app.add_typer(montecarlo_app, name="montecarlo")


def load(command: str = "") -> typer.Typer:
    """Return the application with all commands, or with what one of them needs."""
    for module in ENOUGH.get(command, MODULES):
        importlib.import_module(f"epsilog.cli.{module}")
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"epsilog {version('epsilog')}")
        raise typer.Exit


@app.callback()
def epsilog_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Plan, charge, verify and report differential-privacy budgets."""


# ---- options that several commands share -----------------------------------------------------------------------------


def option_from_parameter(name: str, field: Field, note: str = "", *, short: str | None = None) -> Any:
    """Return the option for a field, with its description as help."""
    flag = f"--{name.replace('_', '-')}"
    flag += f"/--no-{flag[2:]}" if field.default is True else ""
    return typer.Option(flag, *filter(None, (short,)), help=describe_field(field, note))


def describe_field(field: Field, note: str = "") -> str:
    """Return the help text of a field: its meaning, unit, allowed words and what a blank means."""
    choices = "" if isinstance(field.default, NeighboringRelation) else ", ".join(field.choices)
    blank = f"if omitted: {field.none_means}" if field.none_means and not note else ""
    meaning = ", ".join(filter(None, (field.help, field.unit)))
    text = "; ".join(filter(None, (meaning, choices, blank, note)))
    return f"{text[0].upper()}{text[1:]}."


JSON_OPTION = typer.Option("--json", help="Print one JSON document, also for an error.")
Json = Annotated[bool, JSON_OPTION]
ReleaseFile = Annotated[Path, typer.Argument(help="One release, as a JSON or TOML file; - for standard input.")]
Relation = Annotated[NeighboringRelation, option_from_parameter("relation", parameters.RELATION)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write; - or omitted: standard output.")]


# ---- files and text --------------------------------------------------------------------------------------------------


# An input is an argument, or an option where the command has another subject; ``-`` is standard input where one
# document is read. ``--output`` is a new file where its content is precious; ``-`` is standard output where it is text.


def read_bytes(file: Path, name: str = "file") -> bytes:
    """Read the file that an argument or option names, or standard input for ``-``.

    Raises:
        CheckError: the file cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise CheckError(name, "readable", f"{file}: {error.strerror}") from error


def hash_file(file: Path, name: str) -> str:
    """Return the SHA-256 of the file that an argument or option names.

    Raises:
        CheckError: the file cannot be read.
    """
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise CheckError(name, "readable", f"{file}: {error.strerror}") from error


def read_document(file: Path, name: str = "file") -> Any:
    """Read a JSON or TOML file, or JSON from standard input for ``-``, as plain values."""
    import tomllib

    from epsilog.terms import codec

    data = read_bytes(file, name)
    try:
        return tomllib.loads(data.decode("utf-8")) if file.suffix == ".toml" else codec.parse_json(data)
    except (ValueError, RecursionError) as error:
        raise CheckError(name, "JSON or TOML", f"{file}: {error}") from error


def read_release(file: Path, name: str = "file") -> Release:
    """Read one release from a JSON or TOML file: a bare term, an envelope, or what `account --json` printed."""
    from epsilog.mechanisms import Release
    from epsilog.terms import codec

    document = read_document(file, name)
    if isinstance(document, dict) and "release" in document and "type" not in document:
        document = document["release"]
    try:
        term = codec.from_json(document) if isinstance(document, dict) and "v" in document else codec.decode(document)
    except CheckError as error:
        raise error.under(str(file)) from error
    if not isinstance(term, Release):
        raise CheckError(name, "a release", f"{type(term).__name__}", verb="hold")
    return term


def is_standard(output: Path | None) -> bool:
    """Return whether a command writes its result to standard output."""
    return output is None or str(output) == "-"


def require_new(output: Path | None) -> None:
    """Refuse to overwrite a file whose content cannot be made again.

    Raises:
        CheckError: there is such a file.
    """
    if output is not None and os.path.lexists(output):
        raise CheckError("output", "a new file", repr(str(output)))


def require_file(output: Path) -> None:
    """Refuse standard output, where a command writes what is no text for a terminal.

    Raises:
        CheckError: the output is ``-``.
    """
    if is_standard(output):
        raise CheckError("output", "a file", repr(str(output)))


def write_output(content: str | bytes, output: Path | None, note: str = "", *, quiet: bool = False) -> None:
    """Write to a file and say so unless ``quiet``, or to standard output for None and ``-``."""
    data = content.encode() if isinstance(content, str) else content
    if output is None or is_standard(output):
        return typer.echo(data, nl=not data.endswith(b"\n"))
    from epsilog import durable_io

    durable_io.write_atomically(output, data)
    return None if quiet else echo(f"wrote {output}{note}")


def print_json(document: Any) -> None:
    """Print plain JSON values, indented."""
    echo(json.dumps(document, indent=2, ensure_ascii=False))


def echo(text: str) -> None:
    """Print text for programs and people, with characters escaped that a terminal would act upon."""
    typer.echo(legible(text, keep="\n"))


# ---- the end of a command --------------------------------------------------------------------------------------------

RESUMABLE = "run the same command again to resume"
_after_stop = {"note": "completed writes are kept"}


def on_stop(note: str) -> None:
    """Set what Ctrl-C says from here on about what was written."""
    _after_stop["note"] = note


def main() -> None:
    """Run the command line; every error becomes a message with its exit code."""
    try:
        _refuse_grouped_digits(sys.argv[1:])
        _run()
    except (EpsilogError, ValueError, OSError) as error:
        exit_with_error(error, find_exit_code(error))
    except (KeyboardInterrupt, typer.Abort):
        exit_on_interrupt()
    except SystemExit as end:
        if end.code == STOPPED:  # the framework has caught Ctrl-C silently
            exit_on_interrupt()
        raise


def _run() -> None:
    """Run the application; under ``--json`` a usage error is JSON too."""
    commands = load("" if "montecarlo" in sys.argv else (sys.argv[1:2] or ["--help"])[0])
    if "--json" not in sys.argv:
        commands()
        return
    try:
        code = commands(standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # the framework keeps its error classes private
            exit_with_error(error, BAD_INPUT)
        raise
    if isinstance(code, int) and code:
        raise SystemExit(code)


def find_exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    return next(code for kinds, code in EXIT_CODES if isinstance(error, kinds))


def exit_on_interrupt() -> NoReturn:
    """Exit after Ctrl-C, and say what was kept."""
    note = f"stopped; {_after_stop['note']}"
    if "--json" in sys.argv:
        print_json({"error": {"type": "KeyboardInterrupt", "message": note}})
    else:
        typer.secho(f"\nepsilog: {note}", err=True, fg=typer.colors.YELLOW)
    raise SystemExit(STOPPED) from None


def _wrap_on_terminal(text: str) -> str:
    """Return a message wrapped between words on a terminal; as it is where it is captured."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n"))
    return "\n".join("\n".join(parts) for parts in lines)


def exit_with_error(error: Exception, code: int) -> NoReturn:
    """Print an error, as JSON under ``--json``, and exit with ``code``."""
    if "--json" in sys.argv:
        print_json({"error": error_to_json(error)})
    else:
        text = legible(
            str(error), keep="\n" if isinstance(error, ConfigError) else ""
        )  # a ConfigError has several lines
        typer.secho(_wrap_on_terminal(f"epsilog: {text}"), err=True, fg=typer.colors.RED)
    raise SystemExit(code)


def error_to_json(error: Exception) -> dict[str, Any]:
    """Return an error as plain JSON values: type and message, and what programs use of some types."""
    details: dict[str, Any] = {}
    if isinstance(error, CheckError):
        details = error.to_json()
    if isinstance(error, BudgetExceededError):
        details = {"refusal": error.to_json()}
    if isinstance(error, BatchRefusedError):
        details = {"index": error.index, "key": error.key, "refusal": error_to_json(error.refusal)}
    if isinstance(error, ConfigError):
        details = {"findings": [_finding_to_json(each) for each in error.findings]}
    message = getattr(error, "format_message", error.__str__)()  # usage errors format their own
    return details | {"type": type(error).__name__, "message": message}


def _finding_to_json(found: CheckError | str) -> dict[str, str]:
    return found.to_json() if isinstance(found, CheckError) else {"message": found}


def _refuse_grouped_digits(arguments: Sequence[str]) -> None:
    """Refuse 50.000, which an option's parser reads as fifty, as a separate or a joined value."""
    name = "argument"
    for argument in arguments:
        option, value = _split_option(argument)
        name = option or name
        require_one_reading(name, value)
        name = option if option and not value else "argument"


def _split_option(argument: str) -> tuple[str, str]:
    """Return an option's name and the value joined to it, "" for none; anything else is a value."""
    if argument.startswith("--"):
        option, _, value = argument.partition("=")
        return option, value
    short = re.match("-[A-Za-z]", argument)
    return (short[0], argument[2:]) if short else ("", argument)
