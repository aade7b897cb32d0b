"""The entry point: every command in its place, and every error as a message with its exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from epsilog.cli import (
    account,
    answers,
    audit,
    backups,
    charges,
    cycles,
    ledger,
    marking,
    montecarlo,
    owners,
    plan,
    programme,
    proving,
    service,
    signing,
    stretches,
    study,
    tokens,
)
from epsilog.cli.app import BAD_INPUT, NOT_VERIFIED, REFUSED, STOPPED, UNUSABLE, app, fail
from epsilog.terms import BudgetExceededError, CalibrationError, EpsilogError, LedgerIntegrityError, StorageError
from epsilog.terms.numerals import require_one_reading

COMMANDS = (
    account,
    answers,
    audit,
    backups,
    charges,
    cycles,
    ledger,
    marking,
    montecarlo,
    owners,
    plan,
    programme,
    proving,
    service,
    signing,
    stretches,
    study,
    tokens,
)  # importing them fills the application


def main() -> None:
    """Runs the command line."""
    try:
        _refuse_typed_groups(sys.argv[1:])
        app()
    except (BudgetExceededError, CalibrationError) as error:
        fail(error, REFUSED)
    except LedgerIntegrityError as error:
        fail(error, NOT_VERIFIED)
    except StorageError as error:
        fail(error, UNUSABLE)
    except (EpsilogError, ValueError) as error:
        fail(error, BAD_INPUT)
    except OSError as error:  # a folder that cannot be written, a full disk
        fail(error, UNUSABLE)
    except KeyboardInterrupt:
        _stopped()
    except SystemExit as end:
        if end.code == STOPPED:  # the framework has caught Ctrl-C, and says nothing
            _stopped()
        raise


def _refuse_typed_groups(words: Sequence[str]) -> None:
    """Refuses 50.000, which some readers of options take for fifty: an option's value, joined to its name or not."""
    for word in words:
        value = word.partition("=")[2] if word.startswith("--") else re.sub("^-[A-Za-z]", "", word)
        require_one_reading("argument", value)


def _stopped() -> NoReturn:
    typer.secho("\nepsilog: stopped; the same command goes on from here", err=True, fg=typer.colors.YELLOW)
    raise SystemExit(STOPPED) from None
