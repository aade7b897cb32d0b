"""Where questions are worked out: a few processes, a deadline for each question, and nobody's work but the asker's.

A question has a process to itself while it is worked out. When its time is up, or nobody waits for it any more, the
process is ended and another takes its place: that is the only way to stop a transform half-way. Pages, files and the
ledger are served by the server's own process and never wait for any of this.

Heavy questions have processes of their own, which give way to all others: where cores are short, a question of a few
milliseconds waits neither for a heavy one's process nor for its core. One asker has a few of them at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from starlette.responses import (
    Response,
)  # of what FastAPI brings: a server begins its first process before it loads that

if TYPE_CHECKING:
    from epsilog.server.asks import RequestModel
    from epsilog.server.routes import Route

TIMEOUT_SECONDS = 20.0  # seconds of work for one question
QUICK = 0.4  # seconds of work, at most about, of a question that is no heavy one
MOST_WORK = 60.0  # of a question that is taken at all
MAX_QUEUED = 64  # questions of either kind that may wait for their turn
WORKERS = max(2, min(4, os.cpu_count() or 1))  # for questions that are no heavy ones
SLOW_WORKERS = max(1, WORKERS - 1)
MAX_SLOW_PER_CLIENT = 16  # heavy questions of one asker, at work or waiting: three pages of his
NICENESS = 10  # of processes with heavy questions: of a core that another wants, too, they have a tenth
_SPARED = 2.0  # seconds for work that nobody waits for: about what the start of another process takes under load
_LONGEST_LINE = 2**24  # bytes of one answer
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
COMMAND = (sys.executable, "-P", "-m", "epsilog.server.worker")


class WorkerPool:
    """Answers questions in processes of its own; see ``open`` and ``close``.

    Args:
        workers: how many questions that are not heavy are worked out at a time.
        heavy: how many heavy ones beside them.
        deadline: seconds of work for one question, its waiting not counted.
        waiting: how many more of either kind may wait; the next is turned away.
        heavy_from_one: how many heavy ones an asker may have here at a time; the next is turned away.
        manners: how much the processes with heavy questions give way, as in ``nice``.
        command: starts one process that speaks as ``epsilog.server.worker`` does.
    """

    def __init__(
        self,
        *,
        workers: int = WORKERS,
        heavy: int = SLOW_WORKERS,
        deadline: float = TIMEOUT_SECONDS,
        waiting: int = MAX_QUEUED,
        heavy_from_one: int = MAX_SLOW_PER_CLIENT,
        manners: int = NICENESS,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._deadline, self._heavy_from_one = deadline, heavy_from_one
        self._quick = _WorkerQueue([_Worker(command) for _ in range(workers)], waiting)
        self._heavy = _WorkerQueue([_Worker(command, manners=manners) for _ in range(heavy)], waiting)
        self._here: Counter[str] = Counter()  # heavy questions, by who asked

    async def begin(self) -> None:
        """Starts one process for questions that are not heavy, ahead of the others; ``open`` puts it up for use."""
        await self._quick.begin()

    async def open(self, *, at_once: bool = True) -> None:
        """Starts the processes, without waiting until they are ready; or each when there is a question for it."""
        await self._quick.open(at_once=at_once)
        await self._heavy.open(at_once=at_once)

    async def close(self) -> None:
        """Ends the processes, and what they are at."""
        await self._quick.close()
        await self._heavy.close()

    async def answer(self, route: Route, ask: RequestModel, *, asker: str | None = None) -> Response:
        """The answer as a response, or a problem document: too much work, or too many who wait.

        Args:
            route: which question.
            ask: what.
            asker: whose heavy questions are counted together; None counts none.
        """
        work = route.work(ask)
        if work > MOST_WORK:
            return _too_much(f"This takes more than {MOST_WORK:g} s of work.")
        line = json.dumps({"path": route.path, "ask": ask.model_dump(mode="json")}).encode() + b"\n"
        if work <= QUICK:
            return await self._ask_worker(self._quick, line)
        if asker is None:
            return await self._ask_worker(self._heavy, line)
        if self._here[asker] >= self._heavy_from_one:
            detail = f"{self._heavy_from_one} long questions from your address are being worked out. Ask again then."
            return _build_retry_response(429, "too-many", "Too many long questions at a time", detail)
        self._here[asker] += 1
        try:
            return await self._ask_worker(self._heavy, line)
        finally:
            self._here[asker] -= 1
            if not self._here[asker]:
                del self._here[asker]  # the table holds nobody who is gone

    async def _ask_worker(self, room: _WorkerQueue, line: bytes) -> Response:
        if room.full:
            return _build_retry_response(503, "busy", "Too many questions wait", "Ask again in a few seconds.")
        async with room.process() as worker:
            try:
                async with asyncio.timeout(self._deadline):
                    return await worker.ask(line)
            except TimeoutError:
                worker.kill()
                return _too_much(f"No answer within {self._deadline:g} s.")


def _too_much(why: str) -> Response:
    from epsilog.server.problems import make_problem_response

    detail = f"{why} Ask for fewer or simpler parts, or use the library."
    return make_problem_response(422, "too-much-work", "This takes too long here", detail)


def _build_retry_response(status: int, kind: str, title: str, detail: str) -> Response:
    from epsilog.server.problems import make_problem_response

    refusal = make_problem_response(status, kind, title, detail)
    refusal.headers["Retry-After"] = "5"
    return refusal


class _WorkerQueue:
    """Processes, and those who wait for one.

    Args:
        workers: the processes.
        most: how many may wait.
    """

    def __init__(self, workers: Sequence[_Worker], most: int) -> None:
        self._workers, self._most, self._waiting = workers, most, 0
        self._free: asyncio.PriorityQueue[tuple[bool, int, _Worker]] = asyncio.PriorityQueue()
        self._turns = itertools.count()

    @property
    def full(self) -> bool:
        """Whether nobody else may wait."""
        return self._waiting >= self._most

    async def begin(self) -> None:
        """Starts the first process."""
        await self._workers[0].start()

    async def open(self, *, at_once: bool) -> None:
        """Puts all up for use; the first, which is ready before the others, is taken first."""
        for worker in self._workers if at_once else ():
            await worker.start()
        for worker in reversed(self._workers):
            self.give_back(worker)

    async def close(self) -> None:
        """Ends all."""
        for worker in self._workers:
            await worker.end()

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[_Worker]:
        """Waits for a process and has it alone; what it is at when it is left behind ends soon."""
        self._waiting += 1
        try:
            *_, worker = await self._free.get()
        finally:
            self._waiting -= 1
        try:
            yield worker
        except asyncio.CancelledError:  # nobody waits any more
            worker.spare(then=lambda: self.give_back(worker))
            raise
        except BaseException:  # the process broke
            worker.kill()
            self.give_back(worker)
            raise
        self.give_back(worker)

    def give_back(self, worker: _Worker) -> None:
        """One that runs is taken first, the last that was used before others; one that was ended must start anew."""
        self._free.put_nowait((not worker.runs, -next(self._turns), worker))


class _Worker:
    """One process, started anew when it is asked after its end."""

    def __init__(self, command: Sequence[str], *, manners: int = 0) -> None:
        self._command, self._manners = command, manners
        self._process: asyncio.subprocess.Process | None = None
        self._owes = False  # an answer, to a question that it was sent
        self._ending: set[asyncio.Task[None]] = set()
        self._sparing: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether its process does, and was not told to end."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> asyncio.subprocess.Process:
        """Starts the process if it does not run."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_ONE_THREAD | os.environ,
                limit=_LONGEST_LINE,
                # an interrupt is the server's to act on; in a session of its own Linux would count no manners
                process_group=0,
            )
            self._owes = False
            self._give_way(self._process.pid)
        return self._process

    def _give_way(self, pid: int) -> None:
        """Before it loads anything: a start costs as much as a question."""
        if self._manners and hasattr(os, "setpriority"):
            with contextlib.suppress(OSError):  # it is gone already
                os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + self._manners)

    async def ask(self, line: bytes) -> Response:
        """Sends one question and waits for its answer."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._owes = True
        process.stdin.write(line)
        await process.stdin.drain()
        status, media, body = json.loads(await self._read(process))
        return Response(body, status, media_type=media)

    async def _read(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None
        found = await process.stdout.readline()
        if not found.endswith(b"\n"):
            raise RuntimeError("a worker ended before it answered")
        self._owes = False
        return found

    def spare(self, *, then: Callable[[], None]) -> None:
        """Lets the process end what nobody waits for in about the time that another would take to start, or ends it."""
        process = self._process
        if process is None or not self._owes:
            then()
            return

        async def finish() -> None:
            try:
                async with asyncio.timeout(_SPARED):
                    await self._read(process)
            except (TimeoutError, RuntimeError, ValueError):  # too long; it broke; or its answer is too long
                self.kill()
            then()

        self._sparing = self._schedule(finish())

    def kill(self) -> None:
        """Ends the process, whatever it is at; the next question starts another."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._schedule(_wait_for_exit(self._process))
            self._process = None

    def _schedule(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        ending = asyncio.get_running_loop().create_task(work)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return ending

    async def end(self) -> None:
        """Ends the process and waits until it is gone."""
        if self._sparing is not None:
            self._sparing.cancel()
            await asyncio.gather(self._sparing, return_exceptions=True)
        self.kill()
        await asyncio.gather(*self._ending)


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    """Waits for a process that was ended, and for its pipes to be closed."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.communicate()
