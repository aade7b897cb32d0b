"""Work is bounded: deadlines, hanging up, crashes and crowds, with a worker of the test's own and with the real one."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from epsilog.server import create_app, workers
from epsilog.server.jobs import Job
from epsilog.server.responses import ResponseModel
from epsilog.server.routes import RequestModel, Route
from epsilog.server.worker import answer_request
from epsilog.server.workers import MAX_WORK_SECONDS, QUICK_SECONDS, WorkerPool, _Worker, _WorkerQueue

WORKER = """
import json, os, sys, time
for line in sys.stdin:
    ask = json.loads(line)["ask"]
    if ask["begins"]: open(ask["begins"], "w").close()
    if ask["dies"]: os._exit(3)
    time.sleep(ask["sleeps"])
    told = {"pid": os.getpid(), "echo": ask["echo"]}
    told |= {"nice": os.nice(0), "session": os.getsid(0), "group": os.getpgid(0)}
    print(json.dumps([200, "application/json", json.dumps(told)]), flush=True)
"""


class Order(RequestModel):
    sleeps: float = 0.0
    echo: int = 0
    dies: bool = False
    begins: str = ""


LIGHT = Route("/light", "", Order, ResponseModel, dict, lambda _: QUICK_SECONDS)
HEAVY = Route("/heavy", "", Order, ResponseModel, dict, lambda _: MAX_WORK_SECONDS)
DEAR = Route("/dear", "", Order, ResponseModel, dict, lambda _: MAX_WORK_SECONDS + 1)


def with_desk(story, **options):
    async def whole():
        desk = WorkerPool(command=(sys.executable, "-c", WORKER), **options)
        await desk.open()
        try:
            return await asyncio.wait_for(story(desk), 600)
        finally:
            await desk.close()

    return asyncio.run(whole())


def test_a_first_visitor_meets_processes_that_have_answered_before(monkeypatch):
    """A process that still loads had let a first question wait for seconds."""
    asked = (("federated", Order(echo=1).model_dump()), ("queries", Order(echo=2).model_dump()))
    monkeypatch.setattr(workers, "FIRST_QUESTIONS", asked)
    answers = []

    async def ask(worker, line):
        answers.append((worker, json.loads(line)["ask"]["echo"], json.loads(await asked_before(worker, line))[0]))
        return b""

    asked_before = _Worker.ask
    monkeypatch.setattr(_Worker, "ask", ask)

    async def story():
        desk = WorkerPool(command=(sys.executable, "-c", WORKER), workers=3, slow=1)
        await desk.open()
        try:
            await desk.warm()
            begun = [each._process for each in desk._quick.workers]
            await desk.open()  # by the application
            assert [each._process for each in desk._quick.workers] == begun
            return desk._quick.workers
        finally:
            await desk.close()

    quick = asyncio.run(story())
    assert {(worker, echo) for worker, echo, _ in answers} == {(worker, echo) for worker in quick for echo in (1, 2)}
    assert {status for *_, status in answers} == {200}


@pytest.mark.parametrize(("path", "ask"), workers.FIRST_QUESTIONS)
def test_what_warms_a_process_is_a_question_that_has_an_answer(path, ask):
    assert answer_request(path, ask)[0] == 200


def told(response):
    return json.loads(bytes(response.body))


def pid_of(response):
    return told(response)["pid"]


def is_gone(pid):
    for _ in range(6000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


async def begun(*marks):
    """Wait until the worker has begun the work that makes each of these files."""
    for _ in range(30_000):
        if all(Path(mark).exists() for mark in marks):
            return
        await asyncio.sleep(0.01)
    pytest.fail("the work did not begin")


@pytest.mark.slow
def test_a_deadline_ends_the_work_and_the_next_question_is_answered():
    async def story(desk):
        first = pid_of(await desk.answer(LIGHT, Order()))
        desk.deadline = 1.0
        late = await desk.answer(LIGHT, Order(sleeps=600))
        desk.deadline = 300.0
        return first, late, pid_of(await desk.answer(LIGHT, Order()))

    first, late, second = with_desk(story, workers=1, deadline=300.0)
    assert late.status_code == 422
    assert json.loads(bytes(late.body))["type"] == "/problems/too-much-work"
    assert first != second
    assert is_gone(first)


def test_hanging_up_ends_the_work(tmp_path):
    async def story(desk):
        first = pid_of(await desk.answer(LIGHT, Order()))
        asked = asyncio.create_task(desk.answer(LIGHT, Order(sleeps=6000, begins=str(tmp_path / "begun"))))
        await begun(tmp_path / "begun")
        asked.cancel()
        return first, pid_of(await desk.answer(LIGHT, Order()))

    first, second = with_desk(story, workers=1, deadline=6000.0)
    assert first != second
    assert is_gone(first)


@pytest.mark.parametrize("question", [LIGHT, HEAVY])
def test_short_work_that_nobody_waits_for_keeps_its_process(question, tmp_path):
    """To end it would cost more: another has to start."""

    async def story(desk):
        first = pid_of(await desk.answer(question, Order()))
        asked = asyncio.create_task(desk.answer(question, Order(sleeps=0.1, begins=str(tmp_path / "begun"))))
        await begun(tmp_path / "begun")
        asked.cancel()
        second = told(await desk.answer(question, Order(echo=7)))
        return first, second["pid"], second["echo"]

    first, second, echo = with_desk(story, workers=1, slow=1)
    assert (second, echo) == (first, 7)  # and the answer is its own, not that of the one before


def test_a_process_that_dies_is_an_error_once():
    async def story(desk):
        with pytest.raises(RuntimeError, match="ended before"):
            await desk.answer(LIGHT, Order(dies=True))
        return pid_of(await desk.answer(LIGHT, Order()))

    assert with_desk(story, workers=1) > 0


def test_a_process_that_dies_while_nobody_asks_is_replaced_without_an_error():
    async def story(desk):
        first = pid_of(await desk.answer(LIGHT, Order()))
        os.kill(first, signal.SIGKILL)
        await asyncio.sleep(0.3)
        return first, pid_of(await desk.answer(LIGHT, Order()))

    first, second = with_desk(story, workers=1)
    assert first != second


def test_a_process_that_is_not_reused_ends_with_its_answer():
    async def story(desk):
        return [pid_of(await desk.answer(LIGHT, Order())) for _ in range(2)]

    first, second = with_desk(story, workers=1, reused=False)
    assert first != second
    assert is_gone(first)


def test_what_is_too_much_work_is_refused_before_any():
    async def story(desk):
        refused = await desk.answer(DEAR, Order())
        return refused, [each._process for room in (desk._quick, desk._slow) for each in room.workers]

    async def unopened():
        return await story(WorkerPool(command=("false",)))

    refused, processes = asyncio.run(unopened())
    assert refused.status_code == 422
    assert told(refused)["code"] == "too-much-work"
    assert "exceeds 60 s" in told(refused)["detail"]
    assert not any(processes)


def test_heavy_questions_leave_a_process_free(tmp_path):
    async def story(desk):
        marks = [tmp_path / str(i) for i in range(5)]
        heavy = [asyncio.create_task(desk.answer(HEAVY, Order(sleeps=600, begins=str(mark)))) for mark in marks]
        await begun(*marks[:2])  # the others wait for a process
        answered = pid_of(await desk.answer(LIGHT, Order()))
        for each in heavy:
            each.cancel()
        return answered

    assert with_desk(story, workers=1, slow=2, max_queued=3, deadline=300.0) > 0


def test_heavy_questions_give_way_to_all_others():
    """In the server's session: Linux weighs processes of another one by the session, and ignores niceness."""

    async def story(desk):
        return told(await desk.answer(LIGHT, Order())), told(await desk.answer(HEAVY, Order()))

    light, heavy = with_desk(story, workers=1, slow=1, niceness=3)
    assert light["nice"] == os.nice(0)
    assert heavy["nice"] == min(19, os.nice(0) + 3)
    assert {light["session"], heavy["session"]} == {os.getsid(0)}
    assert os.getpgid(0) not in {light["group"], heavy["group"]}  # an interrupt is the server's to act on


def test_an_asker_has_a_few_heavy_questions_at_a_time_and_others_have_theirs():
    async def story(desk):
        crowd = [asyncio.create_task(desk.answer(HEAVY, Order(sleeps=0.1), client="crowd")) for _ in range(2)]
        await asyncio.sleep(0.01)
        refused = await desk.answer(HEAVY, Order(), client="crowd")
        light = await desk.answer(LIGHT, Order(), client="crowd")
        other = await desk.answer(HEAVY, Order(), client="other")
        first = await asyncio.gather(*crowd)
        again = await desk.answer(HEAVY, Order(), client="crowd")
        return refused, [light, other, *first, again], desk._slow_per_client

    refused, answered, here = with_desk(story, workers=1, slow=1, max_slow_per_client=2)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert json.loads(bytes(refused.body))["type"] == "/problems/too-many"
    assert {each.status_code for each in answered} == {200}
    assert not here


def test_a_crowd_is_turned_away_and_told_when_to_come_back():
    async def story(desk):
        crowd = [asyncio.create_task(desk.answer(LIGHT, Order(sleeps=600))) for _ in range(4)]
        await asyncio.sleep(0.3)
        refused = await desk.answer(LIGHT, Order())
        for each in crowd:
            each.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        return refused, await desk.answer(LIGHT, Order())

    refused, answered = with_desk(story, workers=1, max_queued=3, deadline=300.0)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert answered.status_code == 200


ENDLESS = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if "profile" in asked["path"] or asked["ask"].get("weights"):
        with open(sys.argv[1], "a") as begun: begun.write("begun ")
        time.sleep(6000)
    print(json.dumps([200, "application/json", "{}"]), flush=True)
"""


@pytest.mark.slow
def test_abandoned_work_holds_nobody_up(serve_app, monkeypatch, tmp_path):
    """Endless work of clients that hung up is ended: otherwise the last question would find no process."""
    mark = tmp_path / "begun"
    command = (sys.executable, "-c", ENDLESS, str(mark))
    monkeypatch.setattr("epsilog.server.workers._GRACE_SECONDS", 0.05)
    weighted = {"epsilon": 1.0, "queries": 1000, "weights": [1 + i / 250 for i in range(1000)], "delta": 1e-6}
    part = {"mechanism": "laplace", "parameter": 2.0, "sampling_probability": 0.02, "count": 100}
    heavy = {"parts": [part | {"parameter": 2 + i / 7} for i in range(20)], "delta": 1e-6}
    with serve_app(create_app(workers=WorkerPool(deadline=6000.0, command=command))) as site:
        for number, (path, body) in enumerate([("account/profile", heavy), ("queries", weighted)] * 4, 1):
            data = json.dumps(body).encode()
            head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            with socket.create_connection((site.host, site.port), timeout=300) as connection:
                connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
                while not mark.exists() or mark.read_text().count("begun") < number:
                    time.sleep(0.01)
        assert site.post("queries", {"epsilon": 1.0, "queries": 3}).status == 200
        assert site.post("queries", {"epsilon": 1.0, "queries": 3}).status == 200


def test_a_server_that_ends_lets_no_process_and_no_job_go_on(serve_app, monkeypatch):
    closed, release = [], threading.Event()
    close = WorkerPool.close

    async def noted(desk):
        await close(desk)
        closed.append(desk)

    def work(job):
        while not release.wait(0.01):
            job.report_progress()
        return {}

    monkeypatch.setattr(WorkerPool, "close", noted)
    app, job = create_app(), Job(work)
    with serve_app(app):
        desk = app.state.workers
        app.state.ledger_checks.begin(job)
        assert (job.is_running, closed) == (True, [])
    assert desk in closed
    assert len(set(closed)) == len(closed) == 3  # the ledger and uploads have their own
    assert job.snapshot["state"] == "paused"
    job._thread.join(5)
    assert not job.is_active
    release.set()


def test_all_processes_begin_and_all_end_with_the_desk():
    pids = []

    async def story(desk):
        slow = [asyncio.create_task(desk.answer(LIGHT, Order(sleeps=0.3))) for _ in range(3)]
        pids.extend(pid_of(response) for response in await asyncio.gather(*slow))
        assert len(set(pids)) == 3

    with_desk(story, workers=3)
    assert all(is_gone(pid) for pid in pids)


def test_a_process_that_runs_is_taken_before_one_that_was_ended():
    """Whoever asks again while typing does not wait for a new process where another is free."""

    class Of:
        def __init__(self, is_running):
            self.is_running = is_running

    room = _WorkerQueue([], 1)
    idle, newest, ended = Of(True), Of(True), Of(False)
    for one in (idle, newest, ended):
        room.release(one)
    assert [room._free.get_nowait()[-1] for _ in range(3)] == [newest, idle, ended]
