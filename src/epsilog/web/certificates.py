"""Monte Carlo certificates in the background: start, watch through server-sent events, pause, cancel, download.

A job draws in its own thread and waits inside its progress report while it is paused, so that a certificate keeps its
fresh entropy; nothing outlives the server. Evidence comes from ``accounting.montecarlo`` as it is.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from epsilog.accounting.montecarlo import balls_in_bins_delta, certify, narrowing
from epsilog.accounting.montecarlo.shards import Trial
from epsilog.terms import BallsInBins, EpsilogError, Gaussian, codec
from epsilog.web.asks import Ask

router = APIRouter(tags=["certificates"])

RUNNING_AT_ONCE = 2
KEPT = 16  # finished jobs that are remembered
LONGEST_PAUSE = 600.0  # seconds, then a paused job ends
LOOK = 0.15  # seconds between two looks at a job


class CertificateAsk(Ask):
    """Balls-in-bins over independent Gaussian noise."""

    bins: int = Field(16, ge=1, le=1024, description="rounds in an epoch")
    epochs: int = Field(1, ge=1, le=100)
    noise_multiplier: float = Field(1.0, gt=0, le=1000)
    epsilon: float = Field(1.0, ge=0, le=100)
    failure: float = Field(1e-6, gt=0, lt=1, description="chance over the draws that the interval is wrong")
    samples: int = Field(1_000_000, ge=1000, le=50_000_000, description="draws in each direction")


class CancelledError(Exception):
    """The watcher wanted no more."""


class Job:
    """One certificate in the making. ``snapshot`` is what watchers see; it is replaced whole, never changed."""

    def __init__(self, ask: CertificateAsk) -> None:
        self.ask, self.id = ask, secrets.token_urlsafe(9)
        self.going, self.cancelled = threading.Event(), False
        self.going.set()
        self.certificate: dict[str, Any] | None = None
        self.snapshot: dict[str, Any] = {"state": "running", "of": ask.samples, "directions": {}}
        self.thread = threading.Thread(target=self._work, name=f"certificate-{self.id}", daemon=True)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.snapshot["state"] in {"done", "failed", "cancelled"}

    def steer(self, *, to: str) -> None:
        """Pauses, goes on or cancels."""
        if to == "cancel":
            self.cancelled = True
        if to == "pause":
            self.going.clear()
            self._tell(state="paused")
        else:
            self.going.set()
            self._tell(state="running")

    def _tell(self, **news: Any) -> None:
        if not self.over:
            self.snapshot = self.snapshot | news

    def _work(self) -> None:
        ask = self.ask
        release = BallsInBins(Gaussian(ask.noise_multiplier), bins=ask.bins, epochs=ask.epochs)
        try:
            found = certify(
                release, epsilon=ask.epsilon, failure=ask.failure, samples=ask.samples, progress=self._progress
            )
        except CancelledError:
            self._tell(state="cancelled")
        except (EpsilogError, ValueError) as error:
            self._tell(state="failed", says=str(error)[:500])
        except BaseException:
            self._tell(state="failed", says="an error of ours; the server's log says more")
            raise
        else:
            self.certificate = found.to_json()
            self._tell(state="done", interval=codec.encode(found.interval))

    def _progress(self, trial: Trial, draws: int, hits: int) -> None:
        if not self.going.wait(LONGEST_PAUSE) or self.cancelled:
            raise CancelledError
        low, high = narrowing(trial, draws, hits, self.ask.failure / 2)
        seen = {"draws": draws, "hits": hits, "lower": low, "upper": high}
        self._tell(directions=self.snapshot["directions"] | {trial.tilt.direction: seen})


@router.post("/certificates", summary="Start a certificate", status_code=201)
def begin(ask: CertificateAsk, request: Request) -> dict[str, Any]:
    """Starts drawing; at most two certificates run at a time. The exact value is known here and stands beside."""
    jobs = _jobs(request)
    if sum(not job.over for job in jobs.values()) >= RUNNING_AT_ONCE:
        raise HTTPException(429, f"{RUNNING_AT_ONCE} certificates are running; cancel one or wait")
    for old in [job for job in jobs.values() if job.over][: max(0, len(jobs) - KEPT + 1)]:
        del jobs[old.id]
    job = Job(ask)
    jobs[job.id] = job
    exact = [
        balls_in_bins_delta(
            bins=ask.bins, noise_stddev=ask.noise_multiplier, epsilon=ask.epsilon, direction=way, epochs=ask.epochs
        )
        for way in ("remove", "add")
    ]
    job.thread.start()
    return {"id": job.id, "exact": max(each.value for each in exact)}


@router.get("/certificates/{name}", summary="Where a certificate stands")
def look(name: str, request: Request) -> dict[str, Any]:
    """The running interval of each direction, valid however often one looks."""
    return _job(request, name).snapshot


@router.get("/certificates/{name}/events", summary="Watch a certificate", response_class=StreamingResponse)
async def events(name: str, request: Request) -> StreamingResponse:
    """Server-sent events, each the whole state; ends when the job does."""
    job = _job(request, name)

    async def stream() -> AsyncIterator[str]:
        told: dict[str, Any] | None = None
        while not await request.is_disconnected():
            seen = job.snapshot
            if seen is not told:
                yield f"data: {json.dumps(seen)}\n\n"
                told = seen
            if job.over and told is job.snapshot:
                return
            await asyncio.sleep(LOOK)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.post("/certificates/{name}/{verb}", summary="Pause, resume or cancel a certificate")
def steer(name: str, verb: str, request: Request) -> dict[str, Any]:
    """``pause``, ``resume`` or ``cancel``."""
    if verb not in {"pause", "resume", "cancel"}:
        raise HTTPException(404, "There is no such verb")
    job = _job(request, name)
    if not job.over:
        job.steer(to=verb)
    return job.snapshot


@router.get("/certificates/{name}/evidence.json", summary="Download the evidence")
def evidence(name: str, request: Request) -> JSONResponse:
    """What a third party needs to draw every shard again."""
    job = _job(request, name)
    if job.certificate is None:
        raise HTTPException(409, "The certificate is not finished")
    name = f"montecarlo-{job.id}.json"
    return JSONResponse(job.certificate, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _jobs(request: Request) -> dict[str, Job]:
    jobs: dict[str, Job] = request.app.state.jobs
    return jobs


def _job(request: Request, name: str) -> Job:
    job = _jobs(request).get(name)
    if job is None:
        raise HTTPException(404, "There is no such certificate")
    return job
