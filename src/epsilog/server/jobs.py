"""Jobs that outlast a request: each in its own thread, watched by server-sent events, and stoppable."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, final

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from epsilog.server.problems import shorten_unsupported
from epsilog.terms import EpsilogError, UnsupportedMechanismError

POLL_SECONDS = 0.15
OVER = frozenset({"done", "failed", "cancelled"})

Work = Callable[["Job"], Mapping[str, Any]]


class JobStoppedError(Exception):
    """The job was paused or cancelled."""


@final
class Job:
    """Calls ``work``, which calls ``report_progress`` often and returns the last news; a stopped job calls it again."""

    def __init__(self, work: Work, *, name: str | None = None, **news: Any) -> None:
        self.id = name or secrets.token_hex(8)
        self.snapshot: Mapping[str, Any] = {"state": "paused"} | news
        self._work, self._lock = work, threading.Lock()
        self._stopped = False
        self._thread: threading.Thread | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.snapshot["state"] in OVER

    @property
    def is_running(self) -> bool:
        """Whether its state is running."""
        return bool(self.snapshot["state"] == "running")

    @property
    def is_active(self) -> bool:
        """Whether its thread still works: a stopped job runs until its next breath."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Start it, or resume it where it was stopped."""
        with self._lock:
            if self.is_finished or self.is_running:
                return
            self._publish(state="running")
            before = self._thread
            self._thread = threading.Thread(target=self._run, args=(before,), name=f"job-{self.id}", daemon=True)
            self._thread.start()

    def stop(self, state: str) -> None:
        """Stop the work at its next breath, as ``paused`` or ``cancelled``."""
        with self._lock:
            if not self.is_finished:
                self._stopped = True
                self._publish(state=state)

    def report_progress(self, **news: Any) -> None:
        """Publish news; called by the work, which a ``JobStoppedError`` from here ends."""
        with self._lock:
            if self._stopped:
                raise JobStoppedError
            self._publish(**news)

    def _publish(self, **news: Any) -> None:
        self.snapshot = {**self.snapshot, **news}

    def _run(self, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        with self._lock:
            if not self.is_running:  # stopped again, or done, while the earlier work ended
                return
            self._stopped = False
        try:
            self._end(state="done", **self._work(self))
        except JobStoppedError:
            pass
        except UnsupportedMechanismError as error:
            self._end(state="failed", message=shorten_unsupported(error))
        except (EpsilogError, ValueError) as error:
            self._end(state="failed", message=str(error)[:500])
        except BaseException:
            self._end(state="failed", message="internal error; see the server's log")
            raise

    def _end(self, **news: Any) -> None:
        with self._lock:
            if not self.is_finished:
                self._publish(**news)


class JobRegistry:
    """The jobs of one kind that a server remembers, oldest first."""

    def __init__(self, *, what: str, at_once: int, kept: int = 16) -> None:
        self._what, self._at_once, self._kept = what, at_once, kept
        self._jobs: dict[str, Job] = {}
        self._active: list[Job] = []  # that may still work, remembered or not
        self._lock = threading.Lock()

    def jobs(self) -> list[Job]:
        """Return all remembered jobs."""
        return list(self._jobs.values())

    def keep(self, job: Job) -> None:
        """Remember a job, and drop the oldest that are over."""
        for old in [old for old in self.jobs() if old.is_finished][: max(0, len(self._jobs) - self._kept + 1)]:
            self._jobs.pop(old.id, None)
        self._jobs[job.id] = job

    def begin(self, job: Job) -> None:
        """Start a job and remember it, unless too many run."""
        with self._lock:
            others = [other for other in self._active if other is not job]
            running, busy = sum(other.is_running for other in others), sum(other.is_active for other in others)
            if (running >= self._at_once or busy >= 2 * self._at_once) and not job.is_running:
                raise HTTPException(429, f"{self._at_once} {self._what} are running; cancel one or wait")
            self._active = [*(other for other in others if other.is_active or other.is_running), job]
            job.begin()
            self.keep(job)

    def job(self, name: str) -> Job:
        """Return the job of a name."""
        found = self._jobs.get(name)
        if found is None:
            raise HTTPException(404, f"Job not found among the {self._what}")
        return found


def stream_job_events(job: Job, request: Request) -> StreamingResponse:
    """Server-sent events, each the whole snapshot; ends when the job does."""

    async def stream() -> AsyncIterator[str]:
        sent: Mapping[str, Any] | None = None
        while not await request.is_disconnected():
            seen = job.snapshot
            if seen is not sent:
                yield f"data: {json.dumps(seen)}\n\n"
                sent = seen
            if seen["state"] in OVER:
                return
            await asyncio.sleep(POLL_SECONDS)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
