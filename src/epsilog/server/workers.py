"""The worker pool: a few processes that answer questions, with a deadline for each question.

A question has a process to itself. When its time is up, or its client has disconnected, the process is killed and
another takes its place: nothing else stops a computation half-way. The server's own process answers everything else.

Slow questions have their own processes at low priority, so that a question of a few milliseconds waits neither for a
slow one's process nor for its core. Each client may have a few of them at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.responses import (
    Response,  # and nothing of FastAPI: a server starts its first process before it loads that
)

if TYPE_CHECKING:
    from epsilog.server.routes import RequestModel, Route

TIMEOUT_SECONDS = 20.0  # of work for one question
QUICK_SECONDS = 0.4  # seconds of work, at most about, of a question that is not slow
MAX_WORK_SECONDS = 60.0  # of a question that is accepted at all
MAX_QUEUED = 64  # questions of either kind that may wait
WORKERS = max(2, min(4, os.cpu_count() or 1))
SLOW_WORKERS = max(1, WORKERS - 1)
MAX_SLOW_PER_CLIENT = 16  # slow questions of one client, running or waiting: three pages
NICENESS = 10  # of processes with slow questions: a tenth of a core that another process wants
_GRACE_SECONDS = 2.0  # for abandoned work: about what the start of another process takes under load
_MAX_LINE = 2**24  # bytes of one answer
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
_SCHEDULE = {"population": 50_000, "cohort_size": 500, "rounds": 200, "noise_multiplier": 1.2}
FIRST_QUESTIONS = (("/federated", _SCHEDULE), ("/queries", {"epsilon": 1.0, "queries": 100, "delta": 1e-6}))
COMMAND = (sys.executable, "-P", "-m", "epsilog.server.worker")


class WorkerPool:
    """Answers questions in its own processes; see ``open`` and ``close``."""

    def __init__(
        self,
        *,
        workers: int = WORKERS,
        slow: int = SLOW_WORKERS,
        deadline: float = TIMEOUT_SECONDS,
        max_queued: int = MAX_QUEUED,
        max_slow_per_client: int = MAX_SLOW_PER_CLIENT,
        niceness: int = NICENESS,
        command: Sequence[str] = COMMAND,
        reused: bool = True,  # a process that answers one question alone gives its memory back at its end
    ) -> None:
        self.deadline, self._max_slow_per_client = deadline, max_slow_per_client
        self._quick = _WorkerQueue([_Worker(command) for _ in range(workers)], max_queued, reused)
        self._slow = _WorkerQueue([_Worker(command, niceness=niceness) for _ in range(slow)], max_queued, reused)
        self._slow_per_client: Counter[str] = Counter()

    async def open(self, *, at_once: bool = True) -> None:
        """Start the processes, without waiting until they are ready; or each when there is a question for it."""
        await self._quick.open(at_once=at_once)
        await self._slow.open(at_once=at_once)

    async def warm(self) -> None:
        """Wait until each process for quick questions has answered those that a visitor asks first."""
        for path, ask in FIRST_QUESTIONS:
            line = json.dumps({"path": path, "ask": ask}).encode() + b"\n"
            await asyncio.gather(*(worker.ask(line) for worker in self._quick.workers))

    async def close(self) -> None:
        """Kill the processes."""
        await self._quick.close()
        await self._slow.close()

    async def answer(self, route: Route, ask: RequestModel, *, client: str | None = None) -> Response:
        """Return the answer as a response, or a problem document: too much work, or too many that wait."""
        work = route.work(ask)
        if work > MAX_WORK_SECONDS:
            return _refuse_work(f"The estimated computation time exceeds {MAX_WORK_SECONDS:g} s.")
        line = json.dumps({"path": route.path, "ask": ask.model_dump(mode="json")}).encode() + b"\n"
        if work <= QUICK_SECONDS:
            return await self._ask_worker(self._quick, line)
        if client is None:
            return await self._ask_worker(self._slow, line)
        if self._slow_per_client[client] >= self._max_slow_per_client:
            detail = (
                f"{self._max_slow_per_client} long requests from your address are running. Retry when one has ended."
            )
            return _refuse(429, "too-many", "Too many long requests", detail)
        self._slow_per_client[client] += 1
        try:
            return await self._ask_worker(self._slow, line)
        finally:
            self._slow_per_client[client] -= 1
            if not self._slow_per_client[client]:
                del self._slow_per_client[client]  # the table does not grow with clients that are gone

    async def _ask_worker(self, queue: _WorkerQueue, line: bytes) -> Response:
        if queue.is_full:
            return _refuse(503, "busy", "Server busy", "Retry in a few seconds.")
        try:
            status, media_type, body = json.loads(await queue.ask(line, self.deadline))
        except TimeoutError:
            return _refuse_work(f"The computation exceeded {self.deadline:g} s.")
        return Response(body, status, media_type=media_type)


def _refuse_work(reason: str) -> Response:
    detail = f"{reason} Request fewer or simpler parts, or use the library."
    return _refuse(422, "too-much-work", "Computation too long", detail)


def _refuse(status: int, kind: str, title: str, detail: str) -> Response:
    from epsilog.server.problems import make_problem_response

    return make_problem_response(status, kind, title, detail, retry_after=None if status == 422 else 5)


class _WorkerQueue:
    """Processes, and the questions that wait for one."""

    def __init__(self, workers: Sequence[_Worker], max_queued: int, reused: bool = True) -> None:
        self.workers, self._max_queued, self._queued, self._reused = workers, max_queued, 0, reused
        self._free: asyncio.PriorityQueue[tuple[bool, int, _Worker]] = asyncio.PriorityQueue()
        self._turns, self._answers = itertools.count(), set[asyncio.Task[bytes]]()

    @property
    def is_full(self) -> bool:
        """Whether no further question may wait."""
        return self._queued >= self._max_queued

    async def open(self, *, at_once: bool) -> None:
        """Make all available; the first, which is ready before the others, is used first."""
        self._free = asyncio.PriorityQueue()
        for worker in self.workers if at_once else ():
            await worker.start()
        for worker in reversed(self.workers):
            self.release(worker)

    async def close(self) -> None:
        """Kill all."""
        for answer in self._answers:
            answer.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)
        for worker in self.workers:
            await worker.end()

    async def ask(self, line: bytes, deadline: float) -> bytes:
        """Wait for a process and its answer; abandoned work ends about as soon as another process would start."""
        self._queued += 1
        try:
            *_, worker = await self._free.get()
        finally:
            self._queued -= 1
        answer = asyncio.get_running_loop().create_task(self._answer(worker, line, deadline))
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:  # the client has disconnected
            asyncio.get_running_loop().call_later(_GRACE_SECONDS, answer.cancel)
            raise

    async def _answer(self, worker: _Worker, line: bytes, deadline: float) -> bytes:
        try:
            async with asyncio.timeout(deadline):
                return await worker.ask(line)
        except BaseException:  # too late, abandoned, or the process broke
            worker.kill()
            raise
        finally:
            if not self._reused:
                worker.kill()
            self.release(worker)

    def release(self, worker: _Worker) -> None:
        """A process that runs is used first, the last used one before others; a killed one must start again."""
        self._free.put_nowait((not worker.is_running, -next(self._turns), worker))


class _Worker:
    """One process, started again when it is asked after its end."""

    def __init__(self, command: Sequence[str], *, niceness: int = 0) -> None:
        self._command, self._niceness = command, niceness
        self._process: asyncio.subprocess.Process | None = None
        self._exits: set[asyncio.Task[None]] = set()

    @property
    def is_running(self) -> bool:
        """Whether its process runs, and was not killed."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process if it does not run."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_ONE_THREAD | os.environ,
                limit=_MAX_LINE,
                # the server handles interrupts; in its own session Linux would ignore niceness
                process_group=0,
            )
            if self._niceness and hasattr(os, "setpriority"):  # before it loads: a start costs as much as a question
                with contextlib.suppress(OSError):  # it has ended already
                    priority = os.getpriority(os.PRIO_PROCESS, 0) + self._niceness
                    os.setpriority(os.PRIO_PROCESS, self._process.pid, priority)
        return self._process

    async def ask(self, line: bytes) -> bytes:
        """Send one question and wait for its answer."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        await process.stdin.drain()
        found = await process.stdout.readline()
        if not found.endswith(b"\n"):
            raise RuntimeError("a worker ended before it answered")
        return found

    def kill(self) -> None:
        """End the process at once; the next question starts another."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            ended = asyncio.get_running_loop().create_task(_wait_for_exit(self._process))
            self._exits.add(ended)
            ended.add_done_callback(self._exits.discard)
            self._process = None

    async def end(self) -> None:
        """Kill the process and wait until it is gone."""
        self.kill()
        await asyncio.gather(*self._exits)


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Wait until a killed process is gone and its pipes are closed."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.communicate()
