"""`epsilog run --engine flower`: the model and the books of a run in one process, also when everything is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.supercore.task_identity import TaskIdentity

from epsilog.adapters.flower_app import FlowerSimulationTransport
from epsilog.adapters.flower_processes import FlowerProcesses, is_running, list_descendants
from epsilog.cli import flower
from epsilog.ledger import read_ledger
from epsilog.pipeline.steps import make_charge_key
from epsilog.plan import RegisteredPlan
from epsilog.terms import CheckError, ConfigError

ROOT = Path(__file__).parents[3]
PATIENCE = 900  # seconds, for what takes some thirty on a quiet machine
ROUNDS = 3


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1, raising=False)


@pytest.fixture(name="config")
def _config(tmp_path):
    """An example, with fewer rounds and without its comparisons."""
    text = (ROOT / "examples/central.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^(rounds|rounds_per_release) = \d+", rf"\1 = {ROUNDS}", text)
    text = re.sub(r"(?m)^comparison_(budgets|seeds) = .*\n", "", text)
    file = tmp_path / "central.toml"
    file.write_text(text, encoding="utf-8")
    return file


def command(config, runs, *arguments):
    return [sys.executable, "-m", "epsilog", "run", str(config), "--runs", str(runs), "--json", *arguments]


def run(*given):
    done = subprocess.run(command(*given), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (summary,) = json.loads(done.stdout)
    return Path(summary["folder"]), summary["report"]


def lines(folder, name):
    file = folder / name
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def terms(folder, name):
    return [json.loads(line)["term"] for line in lines(folder, name)]


def wait_for(what):
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


def booked(runs, folder):
    """What the ledger says of a run."""
    plan = RegisteredPlan.from_json(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
    with read_ledger(runs / "ledger.db") as books:
        books.verify()
        charge = books.find(make_charge_key(plan))
        return charge.state, charge.request, sorted(charge.rounds_released)


@pytest.mark.slow
def test_a_run_on_flower_is_that_of_one_process_also_when_all_is_killed(config, tmp_path):
    apart = tmp_path / "apart"
    first = subprocess.Popen(command(config, apart, "--engine", "flower"), stdout=subprocess.DEVNULL)
    family = set()
    try:
        wait_for(lambda: any(lines(folder, "rounds.jsonl") for folder in apart.glob("*")))
        family = list_descendants(first.pid)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert len(family) > 3  # a SuperLink, its nodes, and what they started
    wait_for(lambda: not any(is_running(pid) for pid in family))

    with FlowerProcesses(tmp_path / "flower") as theirs:  # somebody's own, which is only asked
        theirs.superlink()
        theirs.supernode(0)
        folder, report = run(config, apart, "--engine", "flower", "--superlink", theirs.address, "--nodes", "1")
    here, other = run(config, tmp_path / "here")

    ours, theirs = (np.load(where / "model.npz") for where in (folder, here))
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], abs=1e-12)
    found = [[(one["check"], one["status"]) for one in each["verification"]["findings"]] for each in (report, other)]
    assert [one for one in found[0] if one[0] != "attempts"] == [one for one in found[1] if one[0] != "attempts"]
    assert "failed" not in dict(found[0]).values()
    assert report["claim"] == other["claim"]
    for name in ("rounds.jsonl", "custody.jsonl"):
        for one, two in zip(terms(folder, name), terms(here, name), strict=True):
            assert one.keys() == two.keys()
            for key in one.keys() - {"output_hash"}:
                assert one[key] == two[key] or one[key] == pytest.approx(two[key], abs=1e-12), key
    assert booked(apart, folder) == booked(tmp_path / "here", here)


@pytest.mark.slow
def test_what_flower_cannot_run_is_refused_before_anything_starts(config, tmp_path):
    real = config.read_text(encoding="utf-8").replace("simulation = true", "simulation = false")
    config.write_text(re.sub(r"(?m)^seed = .*\n", "", real), encoding="utf-8")
    for arguments, says in (
        (("--engine", "flower"), "run.simulation must be true for --engine flower"),
        (("--engine", "grpc"), "engine must be one of"),
        (("--superlink", "localhost:80"), "superlink must be absent without --engine flower"),
        (("--engine", "flower", "--superlink", "localhost"), "superlink must be HOST:PORT"),
    ):
        done = subprocess.run(
            command(config, tmp_path / "runs", *arguments),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env=os.environ | {"COLUMNS": "200"},
        )
        assert done.returncode == 2
        assert says in " ".join((done.stdout + done.stderr).split())
    assert not (tmp_path / "runs").exists()
    with pytest.raises(ConfigError, match=r"run\.simulation must be true"):
        flower._require_simulation(config)  # nor does a node compute anything for it


class Node:
    def __init__(self, node_id):
        self.node_id = node_id


def test_clients_are_dealt_out_to_the_nodes_that_are_there():
    class Grid:
        def __init__(self, *ids):
            self.ids, self.pushed = ids, []

        def get_nodes(self):
            return [Node(one) for one in self.ids]

        def push_messages(self, messages):
            self.pushed = messages
            return [None] * len(messages)

    from epsilog.schemes import ClientLevelCentral
    from epsilog.training import LocalTraining
    from epsilog.training.engines.remote import SimulatedDraws, TrainRequest

    scheme = ClientLevelCentral(12, 0.5, 3, 0.2, 1.0)
    orders = {
        str(one): TrainRequest("one", scheme, LocalTraining(0.1), np.zeros(2), SimulatedDraws(one, 100 + one))
        for one in range(5)
    }
    grid = Grid(30, 10, 20)
    assert list(FlowerSimulationTransport(grid, 1.0).carry(orders)) == []
    asked = [json.loads(str(message.content["order"]["clients"])) for message in grid.pushed]
    assert [list(each) for each in asked] == [["0", "3"], ["1", "4"], ["2"]]
    assert [message.metadata.dst_node_id for message in grid.pushed] == [10, 20, 30]
    assert asked[0]["3"]["batches"] == f"{3:032x}"
    with pytest.raises(ConnectionError, match="no node of Flower connected"):
        list(FlowerSimulationTransport(Grid(), 1.0).carry(orders))
    with pytest.raises(CheckError, match="reply_seconds"):
        FlowerSimulationTransport(grid, 0.0)


@pytest.mark.slow
def test_a_host_takes_simulations_alone_and_answers_for_each_client_in_turn(tmp_path):
    from epsilog.adapters.flower_app import _compute_uploads, encode_message
    from epsilog.schemes import ClientLevelClientSide
    from epsilog.training import Federation, LocalTraining, Task
    from epsilog.training.engines.remote import SimulatedDraws, TrainRequest
    from epsilog.training.models import build_model

    draws = np.random.default_rng(1)
    clients = Federation(draws.standard_normal((6, 2)), draws.standard_normal(6), np.array([2, 3, 1]))
    task = Task(
        "lines", "site", True, build_model("linear", inputs=2, classes=None), LocalTraining(0.1), clients, None, None
    )
    scheme = ClientLevelClientSide(3, 2, 3, 2, 0.2, 1.0)
    given = {"0": SimulatedDraws(1, 2), "2": SimulatedDraws(3, 4)}
    as_json = {
        name: TrainRequest("one", scheme, task.training, np.zeros(3), one).to_json()["draws"]
        for name, one in given.items()
    }
    order = TrainRequest("one", scheme, task.training, np.zeros(3), given["0"])
    both = _compute_uploads(encode_message(order, 1, 9.0, clients=json.dumps(as_json)), task)
    alone = _compute_uploads(encode_message(order, 1, 9.0, clients=json.dumps({"2": as_json["2"]})), task)
    assert both.shape == (2, 4)
    assert np.array_equal(both[1:], alone)
    for bad, of in ((order, {"0": None}), (TrainRequest("one", scheme, task.training, np.zeros(3)), as_json)):
        with pytest.raises(CheckError, match="draws must be given, as in a simulation"):
            _compute_uploads(encode_message(bad, 1, 9.0, clients=json.dumps(of)), task)
