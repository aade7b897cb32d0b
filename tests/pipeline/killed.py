"""A run that dies at a chosen point, in a process of its own. Not a test itself."""

import multiprocessing
import os
from pathlib import Path

from epsilog.ledger.ledger import Ledger
from epsilog.pipeline import run
from epsilog.terms import EpsilogError

DIED = 137


def driven(die_at: int, path: Path, runs: Path, told: Path) -> int:
    """How a run ended that dies at a point; what it told is in a file."""
    child = start(drive, die_at, path, runs, told)
    child.join(300)
    return child.exitcode


def start(target, *args):
    """A process forked where everything is imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["epsilog.training.engines.compiled", "epsilog.pipeline", "epsilog.ledger.sqlite"])
    child = context.Process(target=target, args=args)
    child.start()
    return child


def both_at_once(path: Path, runs: Path, folder: Path) -> list[str]:
    """What each of two runs of one config says that begin at once: nothing if it finished, or why it was refused."""
    told = [folder / name for name in ("one", "two")]
    both = [start(attempt, path, runs, each) for each in told]
    for child in both:
        child.join(300)
    return [each.read_text() for each in told]


def attempt(path: Path, runs: Path, told: Path) -> None:
    """Runs a config, and writes the refusal."""
    try:
        run(path, runs=runs)
    except EpsilogError as refusal:
        told.write_text(str(refusal))
    else:
        told.write_text("")


def drive(die_at: int, path: Path, runs: Path, told: Path) -> None:
    """Counts the moments before and after everything that lasts; at one of them the process is gone."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    count = 0

    def passed():
        nonlocal count
        count += 1
        if count == die_at:
            os._exit(DIED)

    def counted(real):
        def call(*args, **kwargs):
            passed()
            result = real(*args, **kwargs)
            passed()
            return result

        return call

    os.fsync, os.replace, Path.replace = counted(os.fsync), counted(os.replace), counted(Path.replace)
    Ledger.execute = counted(Ledger.execute)
    outcome = run(path, runs=runs)
    told.write_text(f"{count} {outcome.report['result']['model_hash']}")
