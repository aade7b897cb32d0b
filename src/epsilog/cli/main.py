"""The entry point: every command in its place, and every error as a message with its exit code."""

from __future__ import annotations

import typer

from epsilog.cli import account, ledger, montecarlo, plan, programme, service
from epsilog.cli.app import BAD_INPUT, NOT_VERIFIED, REFUSED, app, fail
from epsilog.terms import BudgetExceededError, CalibrationError, EpsilogError, LedgerIntegrityError

COMMANDS = (account, ledger, montecarlo, plan, programme, service)  # importing them fills the application


def main() -> None:
    """Runs the command line."""
    try:
        app()
    except (BudgetExceededError, CalibrationError) as error:
        fail(error, REFUSED)
    except LedgerIntegrityError as error:
        fail(error, NOT_VERIFIED)
    except (EpsilogError, ValueError) as error:
        fail(error, BAD_INPUT)
    except KeyboardInterrupt:
        typer.secho("\nepsilog: stopped; the same command goes on from here", err=True, fg=typer.colors.YELLOW)
        raise SystemExit(130) from None
