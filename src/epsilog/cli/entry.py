"""The entry point: every command in its place, and every error as a message with its exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import typer

from epsilog.cli import (
    account,
    answers,
    audit,
    backups,
    cycles,
    ledger,
    ledger_verify,
    montecarlo,
    plan,
    programme,
    proving,
    service,
    signing,
    study,
    tokens,
)
from epsilog.cli.app import BAD_INPUT, NOT_VERIFIED, REFUSED, STOPPED, UNUSABLE, app, exit_on_interrupt, exit_with_error
from epsilog.terms import BudgetExceededError, CalibrationError, EpsilogError, LedgerIntegrityError, StorageError
from epsilog.terms.numerals import require_one_reading

COMMANDS = (
    account,
    answers,
    audit,
    backups,
    cycles,
    ledger,
    ledger_verify,
    montecarlo,
    plan,
    programme,
    proving,
    service,
    signing,
    study,
    tokens,
)  # importing them fills the application


def main() -> None:
    """Runs the command line."""
    try:
        _refuse_typed_groups(sys.argv[1:])
        _run()
    except (BudgetExceededError, CalibrationError) as error:
        exit_with_error(error, REFUSED)
    except LedgerIntegrityError as error:
        exit_with_error(error, NOT_VERIFIED)
    except StorageError as error:
        exit_with_error(error, UNUSABLE)
    except (EpsilogError, ValueError) as error:
        exit_with_error(error, BAD_INPUT)
    except OSError as error:  # a folder that cannot be written, a full disk
        exit_with_error(error, UNUSABLE)
    except (KeyboardInterrupt, typer.Abort):
        exit_on_interrupt()
    except SystemExit as end:
        if end.code == STOPPED:  # the framework has caught Ctrl-C, and says nothing
            exit_on_interrupt()
        raise


def _run() -> None:
    """Runs the application; where JSON was asked for, an error in usage is JSON too."""
    if "--json" not in sys.argv:
        app()
        return
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # of the framework, which keeps its classes to itself
            exit_with_error(error, BAD_INPUT)
        raise
    if isinstance(code, int) and code:
        raise SystemExit(code)


def _refuse_typed_groups(words: Sequence[str]) -> None:
    """Refuses 50.000, which some readers of options take for fifty: an option's value, joined to its name or not."""
    name = "argument"
    for word in words:
        option, value = _split_option(word)
        name = option or name
        require_one_reading(name, value)
        name = option if option and not value else "argument"


def _split_option(word: str) -> tuple[str, str]:
    """An option's name and the value that is joined to it, "" for none; a word that is no option is a value."""
    if word.startswith("--"):
        option, _, value = word.partition("=")
        return option, value
    short = re.match("-[A-Za-z]", word)
    return (short[0], word[2:]) if short else ("", word)
