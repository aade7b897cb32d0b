"""What FLARE's tasks carry, and what not: a reason, a stranger's answer, or anything that cannot be read.

The server's side is FLARE's own (``WFCommServer``), in this process; clients ask it as FLARE's runners do.
"""

import json
import logging
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from nvflare.apis.client import Client
from nvflare.apis.controller_spec import TaskCompletionStatus
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContextManager
from nvflare.apis.impl.wf_comm_server import WFCommServer
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.apis.utils.decomposers import flare_decomposers
from nvflare.fuel.utils import fobs

from epsilog.adapters.nvflare import ORDER, FlareCourier, FlareJob, controller, executor
from epsilog.terms import CheckError, ClientLevelCentral
from epsilog.train import Training
from epsilog.train.orders import Draws, Order

WIRED = Order("one", ClientLevelCentral(3, 1.0, 2, 0.2, 1.0), Training(0.1), np.arange(3.0), Draws(1, 2**127))


class Flare:
    """A job at FLARE's server, and its registered sites."""

    def __init__(self, *names, secure=True):
        self.clients = {name: Client(name, f"token-{name}") for name in names}
        engine = SimpleNamespace(get_clients=lambda: list(self.clients.values()), fire_event=lambda *_: None)
        self.manager = FLContextManager(engine=engine, identity_name="server", job_id="job")
        engine.new_context = self.manager.new_context
        self.communicator, self.abort = WFCommServer(), Signal()
        with self.manager.new_context() as context:
            context.set_prop(FLContextKey.SECURE_MODE, secure, private=True, sticky=True)
            self.communicator.initialize_run(context)
            self.context = context
        running = controller(lambda job: job)()
        running.set_communicator(self.communicator)
        self.job = FlareJob(running, self.context, self.abort)

    def fetched(self, name):
        """The task that is there for a site, within some seconds."""
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with self.manager.new_context() as context:
                task, letter, data = self.communicator.process_task_request(self.clients[name], context)
            if task:
                assert task == ORDER
                return letter, fobs.loads(fobs.dumps(data))
            time.sleep(0.01)
        raise AssertionError(f"nothing for {name}")

    def submit(self, name, letter, reply):
        with self.manager.new_context() as context:
            self.communicator.process_submission(self.clients[name], ORDER, letter, reply, context)

    def end(self):
        with self.manager.new_context() as context:
            self.communicator.finalize_run(context)
        self.communicator._task_monitor.join()


@pytest.fixture(name="flare")
def _flare():
    flare_decomposers.register()  # as its processes begin
    made = Flare("site-1", "site-2", "site-3", "site-4")
    yield made
    made.end()


def carried(flare, names, clients, seconds=20.0):
    """What a courier brings back while ``clients`` is at work in another thread."""
    thread = threading.Thread(target=clients)
    thread.start()
    try:
        return list(FlareCourier(flare.job, seconds).carry(dict.fromkeys(names, WIRED)))
    finally:
        thread.join()


def upload(array, code=ReturnCode.OK):
    reply = make_reply(code)
    reply["upload"] = np.asarray(array, "<f8").tobytes()
    return reply


def test_only_a_sites_own_answer_in_time_is_carried_back(flare):
    def clients():
        (first, _), (second, _), (third, _) = (flare.fetched(f"site-{one}") for one in (1, 2, 3))
        flare.submit("site-2", first, upload([9.0] * 3))  # another's task
        flare.submit("site-1", first, upload([1.0] * 3))
        flare.submit("site-1", first, upload([7.0] * 3))  # and once more
        flare.submit("site-2", second, upload([2.0] * 3, ReturnCode.EXECUTION_EXCEPTION))
        flare.submit("site-3", third, make_reply(ReturnCode.OK))
        (fourth,) = (task for task in flare.communicator._tasks if task.targets == ["site-4"])
        flare.communicator.cancel_task(fourth, TaskCompletionStatus.CLIENT_DEAD)

    names = ["site-1", "site-2", "site-3", "site-4", "site-5"]  # the last is not registered
    began = time.monotonic()
    came = carried(flare, names, clients)
    assert [(name, array.tolist()) for name, array in came] == [("site-1", [1.0] * 3)]
    assert time.monotonic() - began < 15, "nobody is waited for who has refused, is dead or is not there"


def test_who_is_late_is_silent_and_its_answer_goes_nowhere(flare):
    late = []
    came = carried(flare, ["site-1", "site-2"], lambda: late.append(flare.fetched("site-1")), seconds=2.0)
    assert came == []

    def clients():
        letter, _ = flare.fetched("site-1")  # another than before, at once
        flare.submit("site-1", late[0][0], upload([1.0] * 3))
        flare.submit("site-1", letter, upload([2.0] * 3))
        late.append((letter, None))

    assert [array.tolist() for _, array in carried(flare, ["site-1"], clients)] == [[2.0] * 3]
    assert late[0][0] != late[1][0]


def test_a_job_that_is_aborted_ends_the_round(flare):
    with pytest.raises(ConnectionError, match="aborted the job"):
        carried(flare, ["site-1"], lambda: flare.abort.trigger(value=True))


class Tricky(bytes):
    """Bytes of some other kind."""


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"upload": 1},
        {"upload": "text"},
        {"upload": b"7 bytes"},
        {"upload": Tricky(8)},
        {"upload": np.ones(3)},
        None,
    ],
    ids=["nothing", "a number", "text", "no doubles", "other bytes", "an array", "no reply at all"],
)
def test_what_cannot_be_read_is_no_answer(flare, content):
    reply = make_reply(ReturnCode.OK)
    reply.update(content or {})
    if content is None:
        reply.set_return_code(7)

    def clients():
        letter, _ = flare.fetched("site-1")
        flare.submit("site-1", letter, reply)

    assert carried(flare, ["site-1"], clients) == []


def test_names_must_prove_something_where_people_are_behind_them(flare):
    courier = FlareCourier(flare.job, 1.0)
    courier.require(["site-1", "site-9"], simulation=False)
    with pytest.raises(CheckError, match="registered, one of them at least"):
        courier.require(["site-9"], simulation=False)
    with pytest.raises(CheckError, match="elsewhere, named as their sites"):
        courier.require([], simulation=True)
    with pytest.raises(CheckError, match="reply_seconds"):
        FlareCourier(flare.job, 0.0)
    open_to_all = Flare("site-1", secure=False)
    try:
        courier = FlareCourier(open_to_all.job, 1.0)
        courier.require(["site-1"], simulation=True)
        with pytest.raises(CheckError, match="a simulation where FLARE authenticates nobody"):
            courier.require(["site-1"], simulation=False)
    finally:
        open_to_all.end()


def answer_of(site, tmp_path, *, streams=False, secure=True, simulator=False, letter=None, task=ORDER):
    """What a site's executor answers, under the settings of its own ``resources.json``."""
    (tmp_path / "local").mkdir(exist_ok=True)
    (tmp_path / "startup").mkdir(exist_ok=True)
    (tmp_path / "local" / "resources.json").write_text(json.dumps({} if streams else {"allow_log_streaming": False}))
    manager = FLContextManager(engine=None, identity_name="site-1", job_id="job")
    with manager.new_context() as context:
        context.set_prop(FLContextKey.WORKSPACE_ROOT, str(tmp_path))
        context.set_prop(FLContextKey.SECURE_MODE, secure, private=True, sticky=True)
        context.set_prop(FLContextKey.SIMULATE_MODE, simulator, private=True, sticky=True)
        return executor(site)().execute(task, letter or Shareable(), context, Signal())


def sent(flare):
    """An order as a site gets it."""
    sent = []

    def clients():
        letter, data = flare.fetched("site-1")
        sent.append(data)
        flare.submit("site-1", letter, make_reply(ReturnCode.OK))

    assert carried(flare, ["site-1"], clients) == []
    return sent[0]


class Answering:
    """A site that answers whatever it is asked."""

    def __init__(self, *, simulation=True):
        self.simulation, self.read = simulation, []

    def answer(self, order):
        self.read.append(order)
        return 2 * order.model


def test_an_order_arrives_whole(flare, tmp_path):
    site = Answering()
    names = []
    reply = answer_of(lambda context: names.append(context.get_identity_name()) or site, tmp_path, letter=sent(flare))
    assert reply.get_return_code() == ReturnCode.OK
    assert np.frombuffer(reply["upload"]).tolist() == [0.0, 2.0, 4.0]
    (order,) = site.read
    assert (order.run, order.scheme, order.draws) == (WIRED.run, WIRED.scheme, WIRED.draws)
    assert order.training.learning_rate == 0.1
    assert names == ["site-1"]


def test_no_reason_leaves_the_site(flare, tmp_path):
    class Site(Answering):
        def answer(self, _):
            raise ValueError("row 17: 41 years, positive")

    def broken(_):
        raise FileNotFoundError("/srv/rows/anna.csv")

    letter = sent(flare)
    replies = [
        answer_of(lambda _: Site(), tmp_path, letter=letter),
        answer_of(broken, tmp_path, letter=letter),
        answer_of(lambda _: Answering(), tmp_path),
        answer_of(lambda _: Answering(), tmp_path, letter=letter, task="another"),
        answer_of(lambda _: Answering(simulation=False), tmp_path, letter=letter, secure=False),
    ]
    assert replies == [make_reply(ReturnCode.EXECUTION_EXCEPTION)] * 5
    real = answer_of(lambda _: Answering(simulation=False), tmp_path, letter=letter)
    assert real.get_return_code() == ReturnCode.OK


def test_a_site_whose_logs_the_server_reads_says_nothing_even_there(flare, tmp_path, caplog):
    """As FLARE provisions sites, what goes into their error log is sent to the server."""
    asked = []

    def broken(context):
        asked.append(context)
        raise FileNotFoundError("/srv/rows/anna.csv")

    letter = sent(flare)
    with caplog.at_level(logging.DEBUG):
        reply = answer_of(broken, tmp_path, streams=True, letter=letter)
    assert reply == make_reply(ReturnCode.EXECUTION_EXCEPTION)
    assert asked == []
    assert "allow_log_streaming must be false" in caplog.text
    assert "anna" not in caplog.text
    assert answer_of(broken, tmp_path, streams=True, simulator=True, letter=letter) == reply
    assert len(asked) == 1
