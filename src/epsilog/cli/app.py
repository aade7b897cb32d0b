"""The application and its exit codes, which every command shares.

Exit codes: 0 ok, 2 bad input, 3 refused by the budget, 4 verification failed, 5 nothing failed, but not all was
checked and passed, 6 a file cannot be used, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from enum import Enum
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperGroup

from epsilog.terms import BudgetExceededError, CheckError, ConfigError, NeighboringRelation, parameters
from epsilog.terms.fields import Field
from epsilog.terms.legible import legible

OK, BAD_INPUT, REFUSED, NOT_VERIFIED, NOT_ALL_CHECKED, UNUSABLE, STOPPED = 0, 2, 3, 4, 5, 6, 130


class LedgerGroup(TyperGroup):
    """A group to which the ledger's own commands are added when one is looked for: they bring the ledger with them."""

    _given: dict[str, Any]
    _loaded = False

    @property  # type: ignore[override]
    def commands(self) -> dict[str, Any]:
        """Every command, by name."""
        if not self._loaded:
            from epsilog.cli.ledger_commands import build

            self._loaded, built = True, cast(TyperGroup, typer.main.get_command(build()))
            self._given = {**built.commands, **self._given}
        return self._given

    @commands.setter
    def commands(self, given: dict[str, Any]) -> None:
        self._given = given


app = typer.Typer(
    name="epsilog",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
plan_app = typer.Typer(help="What a schedule or a set of queries costs, before anything runs.", no_args_is_help=True)
ledger_app = typer.Typer(help="The append-only ledger of budgets.", no_args_is_help=True, cls=LedgerGroup)
key_app = typer.Typer(help="Keys that sign checkpoints, bundles, receipts and reports.", no_args_is_help=True)
token_app = typer.Typer(help="Tokens that let people into a server of `epsilog serve`.", no_args_is_help=True)
account_app = typer.Typer(help="What a release costs: a certified interval.")
montecarlo_app = typer.Typer(
    help="Certificates by simulation, where no closed form prices a release.", no_args_is_help=True
)
app.add_typer(plan_app, name="plan")
app.add_typer(ledger_app, name="ledger")
app.add_typer(key_app, name="key")
app.add_typer(token_app, name="token")
app.add_typer(account_app, name="account")
account_app.add_typer(montecarlo_app, name="montecarlo")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"epsilog {version('epsilog')}")
        raise typer.Exit


@app.callback()
def epsilog_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Plan, spend, verify and prove differential-privacy budgets."""


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def option_from_parameter(name: str, field: Field, note: str = "", *, short: str | None = None) -> Any:
    """An option for a field: its name, and what it means as the help text."""
    choices = (
        "" if isinstance(field.default, Enum) else ", ".join(field.choices)
    )  # typer names an enum's members itself
    blank = f"blank: {field.none_means}" if field.none_means and not note else ""
    text = "; ".join(filter(None, (field.help, choices, blank, note)))
    names = (f"--{name.replace('_', '-')}", *filter(None, (short,)))
    return typer.Option(*names, help=f"{text[0].upper()}{text[1:]}.")


Relation = Annotated[NeighboringRelation, option_from_parameter("relation", parameters.RELATION)]


def print_json(document: Any) -> None:
    """Prints plain JSON values, readable."""
    echo(json.dumps(document, indent=2, ensure_ascii=False))


def echo(text: str) -> None:
    """Prints text as it stands, for programs and people, with foreign characters that tell a terminal nothing."""
    typer.echo(legible(text, keep="\n"))


_stop = {"says": "what was written by then stays written"}


def on_stop(says: str) -> None:
    """Says what Ctrl-C leaves behind from here on; a command that says nothing leaves what it has written."""
    _stop["says"] = says


GOES_ON = "the same command goes on from here"


def exit_on_interrupt() -> NoReturn:
    """Ends after Ctrl-C, and says what is true of the command that ran."""
    typer.secho(f"\nepsilog: stopped; {_stop['says']}", err=True, fg=typer.colors.YELLOW)
    raise SystemExit(STOPPED) from None


def exit_with_error(error: Exception, code: int) -> NoReturn:
    """Says what went wrong, as JSON when JSON was asked for, and ends with ``code``."""
    if "--json" in sys.argv:
        message = getattr(error, "format_message", error.__str__)()  # of an error in usage
        told: dict[str, Any] = {"type": type(error).__name__, "message": message}
        if isinstance(error, CheckError):
            told = error.to_json() | told
        if isinstance(error, BudgetExceededError):
            told["refusal"] = error.to_json()
        if isinstance(error, ConfigError):
            told["findings"] = [_finding(each) for each in error.findings]
        print_json({"error": told})
    else:
        told_error = legible(str(error), keep="\n" if isinstance(error, ConfigError) else "")  # it has several lines
        typer.secho(f"epsilog: {told_error}", err=True, fg=typer.colors.RED)
    raise SystemExit(code)


def _finding(found: CheckError | str) -> dict[str, str]:
    return found.to_json() if isinstance(found, CheckError) else {"message": found}
