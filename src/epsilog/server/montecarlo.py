"""Monte Carlo runs in the background: start, watch, pause, resume, cancel, download the evidence.

Every run has a journal with its entropy, written before the first draw. Pausing ends the work at the next
shard; resuming continues from the journal, also on a later server with the same folder. They hold public facts
alone and belong to no scope: every holder may read them, spenders and owners start and control them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from epsilog import durable_io
from epsilog.accounting.montecarlo import (
    AdjacencyType,
    BernoulliTrial,
    DeltaBoundPlan,
    bound_delta,
    compute_balls_in_bins_delta,
    compute_running_interval,
    plan_from_json,
    strategies,
)
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    CyclicPoissonParticipation,
    Gaussian,
    MatrixMechanism,
    MinSepParticipation,
    Release,
    ToeplitzStrategy,
)
from epsilog.server.authorization import authorize
from epsilog.server.jobs import Job, JobRegistry, stream_job_events
from epsilog.server.routes import RequestModel
from epsilog.terms import CheckError, codec

router = APIRouter(tags=["montecarlo"], dependencies=[Depends(authorize)])

MAX_RUNNING = 2
MAX_SEQUENTIAL_ROUNDS = 4096  # rounds with losses that are drawn in sequence; each draw holds them all
_LOOK_SPACING = 1.08  # draws between two looks that are kept, as a factor
_NAME = re.compile(r"[0-9a-f]{16}")
_SOFTWARE = f"epsilog {version('epsilog')}"


class MonteCarloRequest(RequestModel):
    """A run of ``bins * epochs`` rounds: participation, noise, and the epsilon at which delta is bounded."""

    participation: Literal["balls-in-bins", "b-min-sep", "cyclic-poisson"] = "balls-in-bins"
    strategy: Literal["independent", "square-root", "optimal"] = Field(
        "independent", description="the matrix C: identity, or Toeplitz with `bands`, its columns of norm 1"
    )
    bands: int = Field(8, ge=1, le=512, description="entries in a column of C; ignored for independent noise")
    bins: int = Field(16, ge=1, le=1024, description="rounds in an epoch; b of b-min-sep and of cyclic Poisson")
    epochs: int = Field(1, ge=1, le=100)
    probability: float = Field(
        0.5, gt=0, le=1, description="probability of joining when allowed; not for balls-in-bins"
    )
    noise_multiplier: float = Field(1.0, gt=0, le=1000, description="noise of Z over the clip norm")
    epsilon: float = Field(1.0, ge=0, le=100)
    failure: float = Field(1e-6, gt=0, lt=1, description="probability over the draws that the interval is wrong")
    samples: int = Field(1_000_000, ge=1000, le=50_000_000, description="draws for each adjacency type")

    def release(self) -> Release:
        """Return the run in the library's words."""
        if self.participation == "balls-in-bins" and self.strategy == "independent":
            return BallsInBins(Gaussian(self.noise_multiplier), bins=self.bins, epochs=self.epochs)
        rounds = self.bins * self.epochs
        if rounds > MAX_SEQUENTIAL_ROUNDS:
            raise CheckError("epochs", f"at most {MAX_SEQUENTIAL_ROUNDS // self.bins} here", f"{self.epochs}")
        return MatrixMechanism(self._strategy(rounds), self._participation(), rounds, self.noise_multiplier)

    def _strategy(self, rounds: int) -> ToeplitzStrategy:
        if self.strategy == "independent":
            return ToeplitzStrategy((1.0,))
        if self.strategy == "square-root":
            return strategies.build_square_root_column(min(self.bands, rounds))
        return strategies.optimize_banded_column(self.bands, rounds)

    def _participation(self) -> BallsInBinsParticipation | MinSepParticipation | CyclicPoissonParticipation:
        if self.participation == "balls-in-bins":
            return BallsInBinsParticipation(self.bins)
        if self.participation == "b-min-sep":
            return MinSepParticipation(self.bins, self.probability)
        return CyclicPoissonParticipation(self.bins, self.probability)

    def exact(self) -> float | None:
        """Delta where it is known without draws."""
        if self.participation != "balls-in-bins" or self.strategy != "independent":
            return None
        return max(
            compute_balls_in_bins_delta(
                bins=self.bins,
                noise_stddev=self.noise_multiplier,
                epsilon=self.epsilon,
                direction=direction,
                epochs=self.epochs,
            ).value
            for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD)
        )


class MonteCarloService:
    """The Monte Carlo runs of a server, in the registry and in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = JobRegistry(what="Monte Carlo runs", at_once=MAX_RUNNING)
        for path in sorted(folder.glob("*.ask.json"), key=lambda path: path.stat().st_mtime):
            self._revive(path)

    def ask(self, ask: MonteCarloRequest) -> Job:
        """Put a run in the registry and set it to work."""
        job = self._make_job(ask)
        self._write(job, "ask", {"software": _SOFTWARE, "ask": ask.model_dump()})
        try:
            self.registry.begin(job)
        except HTTPException:
            self._file(job, "ask").unlink()
            raise
        return job

    def _make_job(self, ask: MonteCarloRequest, *, name: str | None = None, **more: Any) -> Job:
        """Return the job of a run, in which wrong values are refused by name."""
        release, exact = ask.release(), ask.exact()
        news = {"ask": ask.model_dump(), "of": ask.samples, "exact": exact, "born": None, "directions": {}} | more
        return Job(self._work(ask, release), name=name, **news)

    def cancel(self, job: Job) -> None:
        """Ends it for good."""
        job.stop("cancelled")
        self._file(job, "ask").unlink(missing_ok=True)

    def evidence(self, job: Job) -> dict[str, Any]:
        """The evidence with which a third party redraws every shard."""
        if job.snapshot["state"] != "done":
            raise HTTPException(409, "The run is not complete")
        document: dict[str, Any] = json.loads(self._file(job, "evidence").read_text())
        return document

    def _file(self, job: Job, kind: str) -> Path:
        return self.folder / f"{job.id}.{kind}.json"

    def _write(self, job: Job, kind: str, document: dict[str, Any]) -> None:
        durable_io.write_atomically(self._file(job, kind), json.dumps(document).encode())

    def _work(self, ask: MonteCarloRequest, release: Release) -> Callable[[Job], dict[str, Any]]:
        def draw(job: Job) -> dict[str, Any]:
            journal = self._file(job, "journal")
            ways: dict[str, dict[str, Any]] = {}

            def progress(trial: BernoulliTrial, draws: int, hits: int) -> None:
                way = str(trial.tilt.direction)
                ways[way] = _look(ways.get(way), trial, draws, hits, ask.failure)
                job.report_progress(directions=dict(ways), born=job.snapshot["born"] or _read_origin(journal))

            found = bound_delta(
                release,
                epsilon=ask.epsilon,
                failure=ask.failure,
                samples=ask.samples,
                journal=journal,
                progress=progress,
            )
            self._write(job, "evidence", found.to_json())
            return {"interval": codec.encode(found.interval)}

        return draw

    def _revive(self, path: Path) -> None:
        """Take up a run of an earlier server, as it was left; one of another release is left alone."""
        name = path.name.removesuffix(".ask.json")
        try:
            kept = json.loads(path.read_text())
            ask = MonteCarloRequest(**kept["ask"])
            if not _NAME.fullmatch(name) or kept["software"] != _SOFTWARE:
                return
            news: dict[str, Any] = {}
            finished = path.with_name(f"{name}.evidence.json")
            if finished.is_file():
                document = json.loads(finished.read_text())
                born = {"provenance": document["source"]["provenance"], "plan": document["commitment"]}
                news = {"state": "done", "interval": document["interval"], "born": born}
                news["directions"] = _build_looks(document, ask.failure)
            self.registry.keep(self._make_job(ask, name=name, **news))
        except (OSError, ValueError, KeyError, TypeError):
            return


def _look(
    before: dict[str, Any] | None, trial: BernoulliTrial, draws: int, hits: int, failure: float
) -> dict[str, Any]:
    """What is known of a direction by now, with the looks before it, of which those are kept that lie apart.

    Half of the failure goes to each direction, so both hold at all looks at once except with probability ``failure``.
    """
    low, high = compute_running_interval(trial, draws, hits, failure / 2)
    look = {"draws": draws, "hits": hits, "lower": low, "upper": high, "estimate": hits / draws * trial.bound}
    trail = [] if before is None else before["trail"]
    if not trail or draws >= _LOOK_SPACING * trail[-1]["draws"] or draws == trial.samples:
        trail = [*trail, look]
    return look | {"trail": trail}


def _build_looks(document: dict[str, Any], failure: float) -> dict[str, Any]:
    """Return the looks at a run that is finished, from the hits of its shards."""
    ways: dict[str, dict[str, Any]] = {}
    shard = int(document["plan"]["shard"])
    plan = plan_from_json(document["plan"])
    if not isinstance(plan, DeltaBoundPlan):
        raise TypeError("the evidence of another kind of run")
    for trial, counts in zip(plan.trials, document["hits"], strict=True):
        way, seen = str(trial.tilt.direction), None
        draws = hits = 0
        for count in counts:
            draws, hits = min(draws + shard, trial.samples), hits + count
            if seen is None or draws >= _LOOK_SPACING * seen["trail"][-1]["draws"] or draws == trial.samples:
                seen = _look(seen, trial, draws, hits, failure)
        if seen is not None:
            ways[way] = seen
    return ways


def _read_origin(journal: Path) -> dict[str, str]:
    """Where the randomness came from, and for which plan: the journal's first line, on disk before the first draw."""
    with journal.open() as lines:
        head = json.loads(next(lines))
    return {"provenance": head["provenance"], "plan": head["run"]}


@router.post("/montecarlo", summary="Start a Monte Carlo run", status_code=201)
def start_montecarlo_route(ask: MonteCarloRequest, request: Request) -> dict[str, Any]:
    """Start drawing; at most two run at a time. The reply has delta where it is known without draws."""
    job = _service(request).ask(ask)
    return {"id": job.id, **job.snapshot}


@router.get("/montecarlo", summary="List Monte Carlo runs")
def list_montecarlo_route(request: Request) -> dict[str, Any]:
    """Newest first, including those of an earlier server on the same folder."""
    return {"runs": [{"id": job.id, **job.snapshot} for job in _service(request).registry.jobs()][::-1]}


@router.get("/montecarlo/{name}", summary="State of a Monte Carlo run")
def get_montecarlo_route(name: str, request: Request) -> dict[str, Any]:
    """The running interval of each adjacency type; it is valid at all times together."""
    return dict(_service(request).registry.job(name).snapshot)


@router.get("/montecarlo/{name}/events", summary="Watch a Monte Carlo run", response_class=StreamingResponse)
async def stream_montecarlo_events_route(name: str, request: Request) -> StreamingResponse:
    """Server-sent events, each the whole state; the stream ends with the job."""
    return stream_job_events(_service(request).registry.job(name), request)


@router.post("/montecarlo/{name}/{verb}", summary="Pause, resume or cancel a Monte Carlo run")
def control_montecarlo_route(name: str, verb: Literal["pause", "resume", "cancel"], request: Request) -> dict[str, Any]:
    """A paused run resumes with the entropy of its start."""
    service = _service(request)
    job = service.registry.job(name)
    if verb == "cancel":
        service.cancel(job)
    elif verb == "pause":
        job.stop("paused")
    else:
        service.registry.begin(job)
    return dict(job.snapshot)


@router.get("/montecarlo/{name}/evidence.json", summary="Download the evidence")
def download_montecarlo_evidence_route(name: str, request: Request) -> JSONResponse:
    """The evidence with which a third party redraws every shard."""
    service = _service(request)
    document = service.evidence(service.registry.job(name))
    return JSONResponse(document, headers={"Content-Disposition": f'attachment; filename="montecarlo-{name}.json"'})


def _service(request: Request) -> MonteCarloService:
    found: MonteCarloService = request.app.state.montecarlo
    return found
