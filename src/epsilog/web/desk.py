"""Where questions are worked out: a few processes, a deadline for each question, and nobody's work but the asker's.

A question has a process to itself while it is worked out. When its time is up, or nobody waits for it any more, the
process is ended and another takes its place: that is the only way to stop a transform half-way. Pages, files and the
ledger are served by the server's own process and never wait for any of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Sequence

from fastapi.responses import Response

from epsilog.web.asks import Ask
from epsilog.web.problems import problem
from epsilog.web.questions import Question

DEADLINE = 20.0  # seconds of work for one question
WAITING = 64  # questions that may wait for their turn
WORKERS = max(2, min(4, os.cpu_count() or 1))  # one of them is always free of heavy questions
_LONGEST_LINE = 2**24  # bytes of one answer
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
COMMAND = (sys.executable, "-P", "-m", "epsilog.web.worker")


class Desk:
    """Answers questions in processes of its own; see ``open`` and ``close``.

    Args:
        workers: how many questions are worked out at a time.
        deadline: seconds of work for one question, its waiting not counted.
        waiting: how many more may wait; the next is turned away.
        command: starts one process that speaks as ``epsilog.web.worker`` does.
    """

    def __init__(
        self,
        *,
        workers: int = WORKERS,
        deadline: float = DEADLINE,
        waiting: int = WAITING,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._deadline, self._most, self._waiting = deadline, waiting, 0
        self._workers = [_Worker(command) for _ in range(workers)]
        self._free: asyncio.PriorityQueue[tuple[bool, int, _Worker]] = asyncio.PriorityQueue()
        self._turns = itertools.count()
        self._heavy = asyncio.Semaphore(max(1, workers - 1))

    async def open(self, *, at_once: bool = True) -> None:
        """Starts the processes, without waiting until they are ready; or each when there is a question for it."""
        for worker in self._workers:
            if at_once:
                await worker.start()
            self._give_back(worker)

    async def close(self) -> None:
        """Ends the processes, and what they are at."""
        for worker in self._workers:
            await worker.end()

    async def answer(self, question: Question, ask: Ask) -> Response:
        """The answer as a response, or a problem document: too much work, or too many who wait."""
        line = json.dumps({"path": question.path, "ask": ask.model_dump(mode="json")}).encode() + b"\n"
        if self._waiting >= self._most:
            refusal = problem(503, "busy", "Too many questions wait", "Ask again in a few seconds.")
            refusal.headers["Retry-After"] = "5"
            return refusal
        async with contextlib.AsyncExitStack() as turn:
            self._waiting += 1
            try:
                if question.heavy:
                    await turn.enter_async_context(self._heavy)
                *_, worker = await self._free.get()
            finally:
                self._waiting -= 1
            turn.callback(self._give_back, worker)
            try:
                async with asyncio.timeout(self._deadline):
                    return await worker.ask(line)
            except TimeoutError:
                worker.kill()
                detail = f"No answer within {self._deadline:g} s. Ask for fewer or simpler parts, or use the library."
                return problem(422, "too-much-work", "This takes too long here", detail)
            except BaseException:  # nobody waits any more, or the process broke: what it is at ends here
                worker.kill()
                raise

    def _give_back(self, worker: _Worker) -> None:
        """One that runs is taken first, the last that was used before others; one that was ended must start anew."""
        self._free.put_nowait((not worker.runs, -next(self._turns), worker))


class _Worker:
    """One process, started anew when it is asked after its end."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._ending: set[asyncio.Task[None]] = set()

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
                start_new_session=True,  # an interrupt is the server's to act on
            )
        return self._process

    async def ask(self, line: bytes) -> Response:
        """Sends one question and waits for its answer."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        await process.stdin.drain()
        found = await process.stdout.readline()
        if not found.endswith(b"\n"):
            raise RuntimeError("a worker ended before it answered")
        status, media, body = json.loads(found)
        return Response(body, status, media_type=media)

    def kill(self) -> None:
        """Ends the process, whatever it is at; the next question starts another."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            ending = asyncio.get_running_loop().create_task(_gone(self._process))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            self._process = None

    async def end(self) -> None:
        """Ends the process and waits until it is gone."""
        self.kill()
        await asyncio.gather(*self._ending)


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Waits for a process that was ended, and for its pipes to be closed."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.communicate()
