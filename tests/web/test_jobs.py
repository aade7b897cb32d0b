"""Work in threads: what was stopped still works until its next breath, and counts until then."""

import threading

import pytest
from starlette.exceptions import HTTPException

from epsilog.web.jobs import Job, Shelf


def test_begun_and_stopped_work_does_not_pile_up():
    go, shelf = threading.Event(), Shelf(what="jobs", at_once=1, kept=1)

    def work(job):
        go.wait()
        job.breathe()
        return {}

    stopped = [Job(work) for _ in range(2)]
    for state, job in zip(("cancelled", "paused"), stopped, strict=True):
        shelf.begin(job)
        job.stop(state)
    third = Job(work)
    for _ in range(3):
        with pytest.raises(HTTPException, match="running"):
            shelf.begin(third)
    assert [job.busy for job in (*stopped, third)] == [True, True, False]
    go.set()
    for job in stopped:
        job._thread.join(5)
    shelf.begin(third)
    third._thread.join(5)
    assert third.snapshot["state"] == "done"
