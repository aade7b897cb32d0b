"""`epsilog run --engine flower`: the rounds of a simulation on Flower's nodes."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog.adapters.flower_processes import FlowerProcesses, end_with_owner, is_running
from epsilog.pipeline import load_run_config, prepare_config, train_only
from epsilog.terms import CheckError, ConfigError, EpsilogError
from epsilog.terms.codec import quote_toml

if TYPE_CHECKING:
    from epsilog.pipeline import RunObserver
    from epsilog.plan import RegisteredPlan
    from epsilog.terms import RoundRecord
    from epsilog.training import Task

APP = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "epsilog-rounds"
version = "1.0.0"
description = "the rounds of a run config"
license = "Apache-2.0"
dependencies = ["flwr>=1.41"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "epsilog"

[tool.flwr.app.components]
serverapp = "rounds.apps:server"
clientapp = "rounds.apps:client"

[tool.flwr.app.config]
"""
MODULE = """\
from epsilog.cli.flower import run_client_app, run_server_app

server = run_server_app()
client = run_client_app()
"""


def train_on_flower(
    config: Path,
    *,
    runs: Path,
    ledger: str | Path,
    observer: RunObserver,
    superlink: str | None = None,
    nodes: int = 2,
    reply_seconds: float = 600.0,
) -> None:
    """Train a run config over Flower, or resume a stopped run; `run` then makes the report.

    Args:
        config: the run config, of a simulation.
        runs: the folder of run folders.
        ledger: the ledger that is charged; a password in it is not passed on, and must be known there otherwise.
        observer: receives the stages.
        superlink: HOST:PORT of a SuperLink that sees the same files, with its own nodes; None starts both here.
        nodes: the number of SuperNodes to start or to wait for.
        reply_seconds: how long a round waits for a node.

    Raises:
        ConfigError: no simulation, Flower is not installed, or training fails there.
    """
    _require_simulation(config)
    if isinstance(ledger, str):  # Flower keeps the settings of an app, and sends them to every node
        from epsilog.ledger.factory import redact_password

        ledger = redact_password(ledger)
    with (
        tempfile.TemporaryDirectory(prefix="epsilog-flower-") as place,
        FlowerProcesses(Path(place), superlink, notify=observer.stage) as flower,
    ):
        folder = Path(place)
        settings = {"config": config, "runs": runs, "ledger": ledger, "output": folder / "output"}
        texts: dict[str, str | float] = {
            name: str(place.resolve() if isinstance(place, Path) else place) for name, place in settings.items()
        }
        write_flower_app(folder / "app", {**texts, "nodes": nodes, "reply-seconds": float(reply_seconds)})
        observer.stage(f"starting Flower: {nodes} nodes" if superlink is None else f"asking {superlink}")
        if superlink is None:
            flower.superlink()
            for number in range(nodes):
                flower.supernode(number)
        flower.run(folder / "app")
        output = _ServerOutput(folder / "output", observer, is_local=superlink is None)
        flower.wait(output.has_begun, "the server app to begin")
        flower.wait(output.has_finished, "the rounds", None)


class _ServerOutput:
    """The lines that the server app has written so far; the first holds its process id."""

    def __init__(self, file: Path, observer: RunObserver, *, is_local: bool) -> None:
        self._file, self._observer, self._read, self._is_local = file, observer, 0, is_local

    def has_begun(self) -> bool:
        """Return whether the app has written anything."""
        return bool(self._lines())

    def has_finished(self) -> bool:
        """Return whether the app has finished, and pass new stages to the observer.

        Raises:
            ConfigError: the app has failed, or was killed.
        """
        gone = self._is_local and not is_running(self._lines()[0]["pid"])  # before reading: it may just be ending
        lines = self._lines()
        for line in lines[self._read :]:
            if "error" in line:
                raise ConfigError("Flower", [line["error"]])
            if "stage" in line:
                self._observer.stage(f"on Flower: {line['stage']}")
        self._read = len(lines)
        done = "done" in lines[-1]
        if gone and not done:
            raise ConfigError("Flower", ["the server app was killed; run the same command again to resume"])
        return done

    def _lines(self) -> list[dict[str, Any]]:
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]


class _OutputWriter:
    """Writes the stages of the server app for the process that started it; a ``RunObserver``."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def stage(self, text: str) -> None:
        self.line(stage=text)

    def comparison(self, done: int, total: int) -> None:
        """Ignore it: comparisons are made by the process that started the app."""

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        self.line(stage=f"round {record.round} of {plan.scheme.rounds}")

    def line(self, **content: object) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(content) + "\n")


def write_flower_app(folder: Path, settings: dict[str, str | float]) -> None:
    """Write the app that Flower sends to its nodes: names of functions here, and the settings of one run."""
    (folder / "rounds").mkdir(parents=True)
    (folder / "rounds" / "__init__.py").touch()
    (folder / "rounds" / "apps.py").write_text(MODULE, encoding="utf-8")
    stated = {name: quote_toml(one) if isinstance(one, str) else repr(one) for name, one in settings.items()}
    lines = [f"{name} = {one}\n" for name, one in stated.items()]
    (folder / "pyproject.toml").write_text(APP + "".join(lines), encoding="utf-8")


def run_server_app() -> Any:
    """Return a ``ServerApp`` that trains the run config in its settings."""
    from flwr.serverapp import ServerApp

    end_with_owner()
    app = ServerApp()

    def main(grid: Any, context: Any) -> None:
        settings, output = context.run_config, _OutputWriter(Path(str(context.run_config["output"])))
        output.line(pid=os.getpid())
        try:
            _train(grid, settings, output)
        except Exception as error:
            output.line(error=f"{type(error).__name__}: {error}" if not isinstance(error, EpsilogError) else str(error))
            raise
        output.line(done=True)

    app.main()(main)
    return app


def run_client_app() -> Any:
    """Return a ``ClientApp`` that computes for any clients of the run config in its settings."""
    from epsilog.adapters.flower_app import build_simulation_client_app
    from epsilog.training.engines import enable_compilation_cache

    end_with_owner()
    enable_compilation_cache()
    return build_simulation_client_app(lambda context: _prepare_simulation(Path(str(context.run_config["config"]))))


def _prepare_simulation(config: Path) -> Task:
    """Return the task of a simulation, which uses public data; refuse any other config."""
    _require_simulation(config)
    return prepare_config(config).task


def _require_simulation(config: Path) -> None:
    if not load_run_config(config).run.simulation:
        bound = "true for --engine flower; real clients keep their rows, and use their own app"
        raise ConfigError(str(config), [CheckError("run.simulation", bound, "false")])


def _train(grid: Any, settings: Any, output: _OutputWriter) -> None:
    from epsilog.adapters.flower_app import FlowerSimulationTransport
    from epsilog.training.engines import enable_compilation_cache
    from epsilog.training.engines.remote import make_simulated_remote_engine

    enable_compilation_cache()
    from epsilog.ledger import parse_address

    _require_simulation(Path(str(settings["config"])))
    courier = FlowerSimulationTransport(grid, float(settings["reply-seconds"]), output.stage)
    until = time.monotonic() + courier.reply_seconds
    while len(list(grid.get_nodes())) < int(settings["nodes"]):
        if time.monotonic() > until:
            raise ConnectionError(f"fewer than {settings['nodes']} nodes of Flower are connected")
        time.sleep(0.5)
    train_only(
        Path(str(settings["config"])),
        runs=Path(str(settings["runs"])),
        ledger=parse_address(str(settings["ledger"])),
        observer=output,
        engine=lambda scheme, run, task: make_simulated_remote_engine(courier, scheme, run, task),
    )
