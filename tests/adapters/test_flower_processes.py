"""Whatever Flower started ends with whoever started Flower, whatever it waits for."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from epsilog.adapters import flower_app, flower_processes
from epsilog.adapters.flower_app import FlowerSimulationTransport
from epsilog.adapters.flower_processes import MAX_STARTS, OWNER, FlowerProcesses, is_running
from epsilog.terms import ConfigError

APP = """
import threading
from epsilog.adapters.flower_processes import end_with_owner
end_with_owner()
print("begun", flush=True)
threading.Lock().acquire() and threading.Event().wait()
"""


@pytest.fixture
def owner():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def begun(environment):
    app = subprocess.Popen([sys.executable, "-c", APP], env=os.environ | environment, stdout=subprocess.PIPE)
    assert app.stdout.readline() == b"begun\n"
    return app


@pytest.mark.slow
def test_an_app_that_waits_for_ever_ends_with_its_owner_and_no_sooner(owner):
    with begun({OWNER: str(owner.pid)}) as app, begun({OWNER: ""}) as free:
        try:
            time.sleep(1.2)  # it has looked twice
            assert is_running(app.pid)
            owner.kill()  # and nobody asks for its exit code: what is left of it owns nothing
            app.wait(timeout=60)
            assert free.poll() is None  # the control: nobody's app goes on
        finally:
            app.kill()
            free.kill()


warns_of_jax = pytest.mark.filterwarnings("ignore:os.fork")  # where other tests have used it in this process


def started(processes, monkeypatch, name, script):
    """A process in the place of one of Flower's, that Flower's tool would have been."""
    monkeypatch.setattr(flower_processes, "_tool", lambda _: sys.executable)
    start = processes._start
    monkeypatch.setattr(processes, "_start", lambda kind, tool, *_: start(kind, tool, "-c", script))
    processes.supernode(0) if name == "supernode" else processes.superlink()


@pytest.mark.slow
@warns_of_jax
def test_a_supernode_that_died_is_told_of_started_again_and_waited_for(tmp_path, monkeypatch):
    told = []
    with FlowerProcesses(tmp_path, "127.0.0.1:1", notify=told.append) as flower:
        started(flower, monkeypatch, "supernode", "import time; time.sleep(600)")
        first = flower._running["supernode-0"]
        first.kill()
        flower.wait(lambda: first is not flower._running["supernode-0"], "another SuperNode", 60)
        assert told == ["supernode-0 ended with exit code -9; it is started again, and waited for"]
        assert is_running(flower._running["supernode-0"].pid)


@pytest.mark.slow
@warns_of_jax
def test_a_supernode_that_keeps_dying_ends_the_run_with_its_log(tmp_path, monkeypatch):
    told = []
    with FlowerProcesses(tmp_path, "127.0.0.1:1", notify=told.append) as flower:
        started(flower, monkeypatch, "supernode", "print('no module'); raise SystemExit(3)")
        with pytest.raises(ConfigError, match=r"supernode-0 ended.*no module"):
            flower.wait(lambda: False, "the rounds", None)
    assert len(told) == MAX_STARTS - 1


@warns_of_jax
def test_a_superlink_that_died_ends_the_run(tmp_path, monkeypatch):
    with FlowerProcesses(tmp_path, "127.0.0.1:1") as flower:
        monkeypatch.setattr(flower, "_accepts_connections", lambda: True)
        started(flower, monkeypatch, "superlink", "raise SystemExit(3)")
        with pytest.raises(ConfigError, match="superlink ended"):
            flower.wait(lambda: False, "the rounds", None)


class Letter:
    def __init__(self, names, node):
        self.names, self.node = names, node
        self.metadata = SimpleNamespace(reply_to_message_id=None)


class Grid:
    """Nodes by id; one that is dead takes a message and answers none, until it is no longer among the connected."""

    def __init__(self, alive, dead=(), gone_after=0, failing=()):
        self.failing = dict(failing)  # nodes whose first answer is an error of Flower's, by its code
        self.alive, self.dead, self.looks, self.gone_after, self.letters = alive, dead, 0, gone_after, {}

    def get_nodes(self):
        self.looks += 1
        there = [*self.alive, *(self.dead if self.looks <= self.gone_after else ())]
        return [SimpleNamespace(node_id=one) for one in there]

    def push_messages(self, letters):
        ids = [f"{len(self.letters) + place}" for place in range(len(letters))]
        self.letters |= dict(zip(ids, letters, strict=True))
        return ids

    def pull_messages(self, ids):
        letter = self.letters[ids[0]]
        if letter.node not in self.alive:
            return []
        if letter.node in self.failing:
            code = self.failing.pop(letter.node)
            answer = SimpleNamespace(has_content=lambda: False, has_error=lambda: True)
            answer.error = SimpleNamespace(code=code)
        else:
            answer = SimpleNamespace(names=letter.names, has_content=lambda: True)
        answer.metadata = SimpleNamespace(reply_to_message_id=ids[0])
        return [answer]


@pytest.fixture
def courier(monkeypatch):
    monkeypatch.setattr(flower_app, "LOOKUP_SECONDS", 0.01)
    monkeypatch.setattr("epsilog.adapters.flower_app.PULL_SECONDS", 0.01)
    monkeypatch.setattr(FlowerSimulationTransport, "_encode", lambda _, orders, node: Letter(list(orders), node))
    monkeypatch.setattr(flower_app, "decode_array", lambda reply, _: np.array([[float(one)] for one in reply.names]))
    told = []

    def courier(grid, seconds=60.0):
        return FlowerSimulationTransport(grid, seconds, told.append)

    courier.told = told
    return courier


def test_clients_of_a_node_that_died_are_computed_by_the_others(courier):
    grid = Grid(alive=[1, 2], dead=[3], gone_after=4)
    found = dict(courier(grid).carry({str(one): None for one in range(9)}))
    assert {name: value.tolist() for name, value in found.items()} == {str(one): [one] for one in range(9)}
    assert courier.told == ["a node was lost; 3 clients are computed again"]


@pytest.mark.parametrize(("code", "again"), [(3, True), (4, True), (5, True), (8, True), (2, False)])
def test_what_flower_says_of_a_node_that_is_gone_is_believed(courier, code, again):
    """It still lists the node for a while; an app's own error is the app's, and its clients are silent."""
    found = dict(courier(Grid(alive=[1, 2], failing={2: code})).carry({str(one): None for one in range(4)}))
    assert sorted(found) == (["0", "1", "2", "3"] if again else ["0", "2"])
    assert courier.told == (["a node was lost; 2 clients are computed again"] if again else [])


def test_a_node_is_waited_for_where_none_is_left(courier):
    grid = Grid(alive=[])
    nodes = grid.get_nodes

    def back():
        grid.alive = [7] if grid.looks > 3 else []
        return nodes()

    grid.get_nodes = back
    assert len(dict(courier(grid).carry({"0": None}))) == 1
    assert courier.told == ["no node is connected; waiting for one"]
    with pytest.raises(ConnectionError, match=r"no node of Flower connected within 0\.05 seconds"):
        dict(courier(Grid(alive=[]), 0.05).carry({"0": None}))
