"""`epsilog run --engine flower`: the rounds of a simulation on Flower's nodes; all else of the run is as ever."""

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
description = "the rounds of a programme"
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
    programme: Path,
    *,
    runs: Path,
    ledger: str | Path,
    observer: RunObserver,
    superlink: str | None = None,
    nodes: int = 2,
    reply_seconds: float = 600.0,
) -> None:
    """Trains a programme over Flower, or goes on where a killed run stopped; `run` goes on from there to the proof.

    Args:
        programme: the programme file, of a simulation.
        runs: where run folders live.
        ledger: the ledger that is charged; a password in it is not passed on, and must be known there otherwise.
        observer: told of stages.
        superlink: HOST:PORT of a SuperLink that sees the same files, with its own nodes; None starts both here.
        nodes: SuperNodes that are started, or waited for.
        reply_seconds: how long a round waits for a node.

    Raises:
        ConfigError: no simulation, Flower is not installed, or training fails there.
    """
    _require_simulation(programme)
    if isinstance(ledger, str):  # Flower keeps what an app is told, and hands it to every node
        from epsilog.ledger import redact_password

        ledger = redact_password(ledger)
    with (
        tempfile.TemporaryDirectory(prefix="epsilog-flower-") as place,
        FlowerProcesses(Path(place), superlink, tell=observer.stage) as flower,
    ):
        folder = Path(place)
        settings = {"programme": programme, "runs": runs, "ledger": ledger, "told": folder / "told"}
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
        said = _ServerOutput(folder / "told", observer, is_here=superlink is None)
        flower.wait(said.begun, "the server app to begin")
        flower.wait(said.finished, "the rounds", None)


class _ServerOutput:
    """What the server app has said so far, line by line; it begins with its process id."""

    def __init__(self, told: Path, observer: RunObserver, *, is_here: bool) -> None:
        self._told, self._observer, self._read, self._is_here = told, observer, 0, is_here

    def begun(self) -> bool:
        """Whether it has said anything."""
        return bool(self._lines())

    def finished(self) -> bool:
        """Tells the observer what is new.

        Raises:
            ConfigError: the app has failed, or is gone without a word.
        """
        gone = self._is_here and not is_running(self._lines()[0]["pid"])  # asked first: it may just be ending
        lines = self._lines()
        for line in lines[self._read :]:
            if "error" in line:
                raise ConfigError("Flower", [line["error"]])
            if "stage" in line:
                self._observer.stage(f"on Flower: {line['stage']}")
        self._read = len(lines)
        done = "done" in lines[-1]
        if gone and not done:
            raise ConfigError("Flower", ["the server app was killed; the same command goes on from there"])
        return done

    def _lines(self) -> list[dict[str, Any]]:
        text = self._told.read_text(encoding="utf-8") if self._told.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]


class _Teller:
    """What the server app says, for the process that started it; see ``programme.Observer``."""

    def __init__(self, told: Path) -> None:
        self._told = told

    def stage(self, says: str) -> None:
        self.line(stage=says)

    def round(self, record: RoundRecord, plan: RegisteredPlan) -> None:
        self.line(stage=f"round {record.round} of {plan.scheme.rounds}")

    def line(self, **what: object) -> None:
        with self._told.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")


def write_flower_app(folder: Path, settings: dict[str, str | float]) -> None:
    """Writes the app that Flower ships to its nodes: names of functions here, and the settings of one run."""
    (folder / "rounds").mkdir(parents=True)
    (folder / "rounds" / "__init__.py").touch()
    (folder / "rounds" / "apps.py").write_text(MODULE, encoding="utf-8")
    stated = {name: quote_toml(one) if isinstance(one, str) else repr(one) for name, one in settings.items()}
    lines = [f"{name} = {one}\n" for name, one in stated.items()]
    (folder / "pyproject.toml").write_text(APP + "".join(lines), encoding="utf-8")


def run_server_app() -> Any:
    """A ``ServerApp`` that trains the programme of its run's settings."""
    from flwr.serverapp import ServerApp

    end_with_owner()
    app = ServerApp()

    def main(grid: Any, context: Any) -> None:
        settings, told = context.run_config, _Teller(Path(str(context.run_config["told"])))
        told.line(pid=os.getpid())
        try:
            _train(grid, settings, told)
        except Exception as error:
            told.line(error=f"{type(error).__name__}: {error}" if not isinstance(error, EpsilogError) else str(error))
            raise
        told.line(done=True)

    app.main()(main)
    return app


def run_client_app() -> Any:
    """A ``ClientApp`` that computes for any clients of the programme of its run's settings."""
    from epsilog.adapters.flower_simulation import build_simulation_client_app
    from epsilog.training.engines import enable_compilation_cache

    end_with_owner()
    enable_compilation_cache()
    return build_simulation_client_app(lambda context: _public(Path(str(context.run_config["programme"]))))


def _public(programme: Path) -> Task:
    """The task of a simulation, whose data anybody may see; of no other is anything told."""
    _require_simulation(programme)
    return prepare_config(programme).task


def _require_simulation(programme: Path) -> None:
    if not load_run_config(programme).run.simulation:
        bound = "true for --engine flower; real clients keep their rows, and have an app of their own"
        raise ConfigError(str(programme), [CheckError("run.simulation", bound, "false")])


def _train(grid: Any, settings: Any, told: _Teller) -> None:
    from epsilog.adapters.flower_simulation import FlowerSimulationTransport
    from epsilog.training.engines import enable_compilation_cache
    from epsilog.training.engines.remote import make_simulated_remote_engine

    enable_compilation_cache()
    from epsilog.ledger import parse_address

    _require_simulation(Path(str(settings["programme"])))
    courier = FlowerSimulationTransport(grid, float(settings["reply-seconds"]), told.stage)
    until = time.monotonic() + courier.reply_seconds
    while len(list(grid.get_nodes())) < int(settings["nodes"]):
        if time.monotonic() > until:
            raise ConnectionError(f"fewer than {settings['nodes']} nodes of Flower are connected")
        time.sleep(0.5)
    train_only(
        Path(str(settings["programme"])),
        runs=Path(str(settings["runs"])),
        ledger=parse_address(str(settings["ledger"])),
        observer=told,
        engine=lambda scheme, run, task: make_simulated_remote_engine(courier, scheme, run, task),
    )
