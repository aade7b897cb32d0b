"""Jobs by themselves: watchers see progress while they run, and every way to end is one of three."""

import asyncio
import json
import threading
import time

import pytest
from starlette.exceptions import HTTPException

from epsilog.mechanisms import Gaussian
from epsilog.server.jobs import Job, JobRegistry, stream_job_events
from epsilog.terms import RecordError, UnsupportedMechanismError


def until(seen):
    for _ in range(6000):
        if seen():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")


class Steps:
    """Work in steps that the test lets happen one by one."""

    def __init__(self):
        self.may, self.begun, self.done = threading.Semaphore(0), 0, []

    def __call__(self, job):
        self.begun += 1
        while len(self.done) < 3:
            assert self.may.acquire(timeout=300)
            job.report_progress(checked=len(self.done) + 1)
            self.done.append(len(self.done) + 1)
        return {"sound": True}

    def go(self, job, steps):
        for _ in range(steps):
            before = len(self.done)
            self.may.release()
            until(lambda: len(self.done) > before or job.is_finished)  # noqa: B023


def test_progress_is_seen_while_it_runs_and_stays_when_it_is_over():
    steps = Steps()
    job = Job(steps, checked=0)
    assert (job.snapshot, job.is_running, job.is_finished) == ({"state": "paused", "checked": 0}, False, False)
    job.begin()
    assert job.snapshot == {"state": "running", "checked": 0}
    for step in (1, 2):
        before = job.snapshot
        steps.go(job, 1)
        assert job.snapshot == {"state": "running", "checked": step}
        assert before["checked"] == step - 1  # a watcher's snapshot never changes under it
    steps.go(job, 1)
    until(lambda: job.is_finished)
    assert job.snapshot == {"state": "done", "checked": 3, "sound": True}
    assert not job.is_running
    for late in (job.begin, lambda: job.stop("cancelled")):
        late()
        assert job.snapshot["state"] == "done"
    assert steps.begun == 1


def test_a_pause_keeps_what_was_told_and_going_on_starts_the_work_anew():
    steps = Steps()
    job = Job(steps, checked=0)
    job.begin()
    job.begin()  # running already
    steps.go(job, 1)
    job.stop("paused")
    assert job.snapshot == {"state": "paused", "checked": 1}
    assert not job.is_finished
    job.begin()  # before the work that was stopped has taken another breath
    steps.may.release()  # which ends it
    until(lambda: steps.begun == 2)
    assert job.is_running
    steps.go(job, 1)
    job.stop("cancelled")
    steps.may.release()
    until(lambda: not job._thread.is_alive())
    assert job.snapshot == {"state": "cancelled", "checked": 2}  # and nothing more
    job.begin()
    assert steps.begun == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RecordError("line 3 is torn"), "line 3 is torn"),
        (ValueError("x" * 900), "x" * 500),
        (UnsupportedMechanismError(Gaussian(1.0), method="RDP"), "Gaussian"),
        (RuntimeError("a path of ours"), "internal error; see the server's log"),
    ],
)
def test_a_failure_says_what_may_be_said(error, says):
    def work(job):
        raise error

    job = Job(work)
    job.begin()
    until(lambda: job.is_finished)
    assert job.snapshot["state"] == "failed"
    assert says in job.snapshot["message"]
    assert "path of ours" not in job.snapshot["message"]
    assert len(job.snapshot["message"]) <= 500
    until(lambda: not job._thread.is_alive())  # or what it raised were noticed in another test


def test_a_shelf_runs_so_many_at_once_and_forgets_the_oldest_that_are_over():
    shelf, waits = JobRegistry(what="checks", at_once=2, kept=3), threading.Event()

    def job():
        return Job(lambda _: waits.wait(300) and {})

    first, second, third = job(), job(), job()
    shelf.begin(first)
    shelf.begin(second)
    shelf.begin(second)  # at work already: no third
    with pytest.raises(HTTPException, match="2 checks are running") as refused:
        shelf.begin(third)
    assert refused.value.status_code == 429
    assert shelf.jobs() == [first, second]
    waits.set()
    until(lambda: first.is_finished and second.is_finished and not first.is_active and not second.is_active)
    more = [job() for _ in range(3)]
    for one in more:
        shelf.begin(one)
        until(lambda: one.is_finished and not one.is_active)  # noqa: B023
    assert shelf.jobs() == more
    assert shelf.job(more[0].id) is more[0]
    with pytest.raises(HTTPException, match="not found among the checks") as unknown:
        shelf.job(first.id)
    assert unknown.value.status_code == 404


class Listener:
    """A request that hangs up when told."""

    gone = False

    async def is_disconnected(self):
        return self.gone


def test_a_stream_tells_each_snapshot_once_and_ends_with_the_job():
    steps = Steps()
    job = Job(steps, checked=0)
    job.begin()

    async def told(listener):
        seen = []
        async for line in stream_job_events(job, listener).body_iterator:
            assert line.startswith("data: ")
            assert line.endswith("\n\n")
            seen.append(json.loads(line[6:]))
            if seen[-1]["state"] == "running":
                await asyncio.to_thread(steps.go, job, 1)
            if len(seen) == 2 and isinstance(listener.gone, int):
                listener.gone = listener.hasty
        return seen

    listener = Listener()
    listener.hasty = True
    assert [one["checked"] for one in asyncio.run(told(listener))] == [0, 1]  # hung up
    listener = Listener()
    listener.hasty = False
    seen = asyncio.run(told(listener))
    assert [one["checked"] for one in seen] == [2, 3]
    assert [one["state"] for one in seen] == ["running", "done"]
    assert stream_job_events(job, listener).media_type == "text/event-stream"


def test_begun_and_stopped_work_does_not_pile_up():
    go, begun, shelf = threading.Event(), threading.Semaphore(0), JobRegistry(what="jobs", at_once=1, kept=1)

    def work(job):
        begun.release()
        go.wait()
        job.report_progress()
        return {}

    stopped = [Job(work) for _ in range(2)]
    for state, job in zip(("cancelled", "paused"), stopped, strict=True):
        shelf.begin(job)
        begun.acquire()  # else it would not begin at all
        job.stop(state)
    third = Job(work)
    for _ in range(3):
        with pytest.raises(HTTPException, match="running"):
            shelf.begin(third)
    assert [job.is_active for job in (*stopped, third)] == [True, True, False]
    go.set()
    for job in stopped:
        job._thread.join(300)
    shelf.begin(third)
    third._thread.join(300)
    assert third.snapshot["state"] == "done"


def test_a_shelf_that_is_full_forgets_all_that_are_over_and_too_many_the_oldest_first():
    shelf = JobRegistry(what="checks", at_once=1, kept=3)
    first = [Job(lambda _: {}) for _ in range(6)]
    for one in first:
        shelf.keep(one)
    assert shelf.jobs() == first  # what is not over is never forgotten
    for one in first[:2] + first[3:5]:
        one.stop("cancelled")
    last = Job(lambda _: {})
    shelf.keep(last)
    assert shelf.jobs() == [first[2], first[5], last]
    more = Job(lambda _: {})
    shelf.keep(more)
    assert shelf.jobs() == [first[2], first[5], last, more]
