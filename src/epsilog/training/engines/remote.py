"""Clients at other places: a round's cohort is asked over a network, and summed here.

A transport crosses the network (``adapters.flower_app`` has one). Whatever comes back, or does not, is a zero update at
worst: never an error, never another draw. A fixed denominator and a clip at the server keep the claim as it was,
however many are silent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import SCHEMES, NoisyUpdate, RawUpdate, Scheme, Upload
from epsilog.terms import CheckError, codec
from epsilog.training import clipping
from epsilog.training.engines.base import ClippedSum, Engine, RoundInputs, Vector, sum_clipped
from epsilog.training.federation import Federation
from epsilog.training.sampling import Ids
from epsilog.training.task import LocalTraining, Task

__all__ = [
    "ClientTransport",
    "SimulatedDraws",
    "TrainRequest",
    "make_remote_engine",
    "make_simulated_remote_engine",
    "require_visible_uploads",
]

LOCAL = ("learning_rate", "local_steps", "batch_size", "nominal_examples", "example_cap")
"""Settings of a training that clients go by; the others are the server's."""
TAIL = 12.0  # by how many standard deviations noise may be longer than expected before it is taken for something else


@dataclass(frozen=True, slots=True)
class SimulatedDraws:
    """What opens a simulated client's draws of one round. It undoes all noise, and no real run has it.

    Attributes:
        batches: key of the stream that shuffles or samples rows.
        noise: key of the stream of normals.
        noise_factor: multiplies every normal; 1 except in a control that must be caught.
    """

    batches: int
    noise: int
    noise_factor: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class TrainRequest:
    """A client's part of one round, as it is asked for. Nothing in it is private.

    It states neither clip norm nor noise: a client goes by the scheme that its ledger has booked.

    Attributes:
        run: the run's key, under which the client's own ledger books.
        scheme: how people are protected.
        training: how the update is computed, with this round's own learning rate.
        model: the global model; shape (d,).
        draws: of a simulation; None where clients draw from their own operating system.
    """

    run: str
    scheme: Scheme
    training: LocalTraining
    model: Vector
    draws: SimulatedDraws | None = None

    def to_json(self) -> dict[str, object]:
        """Return everything but the model, as JSON values."""
        training = {name: getattr(self.training, name) for name in LOCAL}
        draws = self.draws and {
            "batches": f"{self.draws.batches:032x}",
            "noise": f"{self.draws.noise:032x}",
            "noise_factor": self.draws.noise_factor,
        }
        return {"run": self.run, "scheme": codec.to_json(self.scheme), "training": training, "draws": draws}

    @classmethod
    def from_json(cls, document: dict[str, object], model: Vector) -> TrainRequest:
        """Read what ``to_json`` wrote; nothing in it is trusted.

        Raises:
            ValueError, TypeError, KeyError: anything else than a request.
        """
        run, training, draws = document["run"], document["training"], document["draws"]
        scheme = codec.from_json(document["scheme"])
        if not isinstance(run, str) or not isinstance(scheme, Scheme) or not isinstance(training, dict):
            raise TypeError("an order must hold a run, a scheme and a training")
        opened = None
        if draws is not None:
            if not isinstance(draws, dict):
                raise TypeError("an order's draws must be named")
            keys = {name: int(draws[name], 16) for name in ("batches", "noise")}
            opened = SimulatedDraws(**keys, noise_factor=float(draws["noise_factor"]))
        return cls(run, scheme, LocalTraining(**{name: training[name] for name in LOCAL}), model, opened)


def require_visible_uploads(scheme: Scheme) -> Upload:
    """Return what leaves a client under a scheme.

    Raises:
        CheckError: a scheme with a guarantee that fails once anyone sees one client's upload.
    """
    if not scheme.uploads_are_visible:
        kinds = ", ".join(kind for kind, one in SCHEMES.items() if one.uploads_are_visible)
        raise CheckError("scheme", f"one that lets a server see single uploads ({kinds})", repr(scheme.kind))
    return scheme.upload


class ClientTransport(Protocol):
    """Carries requests to named clients, and brings back what they answer in time."""

    def carry(self, requests: Mapping[str, TrainRequest], /) -> Iterable[tuple[str, Any]]:
        """Yield each client that answered, and its answer; one that is silent, late or fails is left out.

        What is yielded need not be of any form: the engine takes the first answer of each client that was asked and
        that is an array of doubles of the right size. An error of the network itself is raised, and ends the run, which
        can be resumed.
        """


def make_remote_engine(transport: ClientTransport, scheme: Scheme, run: str) -> Callable[[Task], Engine]:
    """Make what ``run_rounds`` takes as its engine where clients are at other places.

    Args:
        transport: reaches the clients that the task's ``Federation.remote_clients`` names.
        scheme: the one that is charged.
        run: the run's key, under which clients book it; the charge's own key is a good one.

    Raises:
        CheckError: a scheme that must not show a server single uploads.
    """
    require_visible_uploads(scheme)
    return lambda task: RemoteEngine(task, transport, scheme, run, task.clients.names)


def make_simulated_remote_engine(
    transport: ClientTransport, scheme: Scheme, run: str, task: Task
) -> Callable[[Task], Engine]:
    """Make the same for a simulation, whose rows are known here and where the clients' work is done.

    Clients are named by their numbers.

    Args:
        transport: reaches the process that computes for each client.
        scheme: the one that is charged.
        run: the run's key.
        task: what is trained on what; of any other, such as a smoke test's, no client is asked.

    Raises:
        CheckError: a scheme that must not show a server single uploads.
    """
    require_visible_uploads(scheme)
    if task.canaries is not None:
        raise CheckError("canaries", "absent where clients compute elsewhere", f"{task.canaries.count}")
    names = tuple(map(str, range(task.clients.count)))
    return lambda one: RemoteEngine(one, transport, scheme, run, names if one is task else ())


class RemoteEngine(Engine):
    """A task whose clients compute at other places.

    Where no clients are named, as in a smoke test, there is no client to ask: all are silent.

    Attributes:
        task: what is trained; outside a simulation it holds no rows.
    """

    def __init__(self, task: Task, transport: ClientTransport, scheme: Scheme, run: str, names: Sequence[str]) -> None:
        self.task = task
        self._transport, self._scheme, self._run, self._names = transport, scheme, run, names

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """As ``Engine`` says: raw updates are clipped here, noisy ones at the client, as the charged scheme says."""
        size, stated = now.model.size, self._scheme.upload
        if isinstance(upload, RawUpdate):
            answers = self._ask(now, {size})
            clipped = sum_clipped(answers, upload.clip_norm, size=size)
            return dataclasses.replace(clipped, silent=now.cohort.size - len(answers))
        for name in ("clip_norm", "noise_stddev"):  # clients know the scheme, and nothing else
            asked, charged = getattr(upload, name), getattr(stated, name)
            if asked != charged:
                raise CheckError(name, f"{charged!r}, as clients have booked", repr(asked))
        if isinstance(upload, NoisyUpdate):  # noise is longer than this once in e^72 honest answers
            longest = upload.clip_norm + upload.noise_stddev * (np.sqrt(size + 1) + TAIL)
            return _sum_noisy(self._ask(now, {size + 1}), now, longest)
        longest = clipping.get_largest_trainable(self.task.clients.features.dtype)
        return _sum_noisy(self._ask(now, {size, size + 1}), now, longest)

    def unusable(self, cohort: Ids) -> int:
        """Count those that lie here: only clients see their own."""
        clients = self.task.clients
        return sum(int((~self._usable[clients.rows_of(client)]).sum()) for client in cohort.tolist())

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        return self.task.clients.usable(self.task.model)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """As ``Engine`` says; the test set lies here."""
        return self._here.evaluate(model)

    @cached_property
    def _here(self) -> Engine:
        from epsilog.training.engines import make_engine

        known = self.task.clients
        empty = Federation(known.features[:0], known.targets[:0], np.zeros(1, np.int64))
        return make_engine(None, dataclasses.replace(self.task, clients=empty, population=self.task.units))

    def _ask(self, now: RoundInputs, sizes: set[int]) -> list[Vector]:
        """Ask a cohort; return the readable answers in the order of ids, so that sums are the same every time."""
        asked = {self._names[client]: client for client in now.cohort.tolist()} if self._names else {}
        local = {name: getattr(self.task.training, name) for name in LOCAL}
        training = LocalTraining(**local | {"learning_rate": now.learning_rate(self.task)})
        requests = {
            name: TrainRequest(self._run, self._scheme, training, now.model, self._get_draws(now, client))
            for name, client in asked.items()
        }
        came: dict[int, Vector] = {}
        for name, answer in self._transport.carry(requests) if requests else ():
            if isinstance(name, str) and name in asked and asked[name] not in came and _is_vector(answer, sizes):
                came[asked[name]] = np.array(answer, dtype=np.float64)
        return [came[client] for client in sorted(came)]

    def _get_draws(self, now: RoundInputs, client: int) -> SimulatedDraws | None:
        """Return what a simulated client draws from; a real one opens streams of its own."""
        batches = now.batches(client)
        noise = batches if isinstance(self._scheme.upload, RawUpdate) else now.noise(client)  # a raw update needs none
        if batches.key is None or noise.key is None:
            return None
        return SimulatedDraws(batches.key, noise.key, noise.noise_factor)


def _is_vector(answer: Any, sizes: set[int]) -> bool:
    return (
        type(answer) is np.ndarray and answer.dtype.str in ("<f8", ">f8") and answer.ndim == 1 and answer.size in sizes
    )


def _sum_noisy(answers: list[Vector], now: RoundInputs, longest: float) -> ClippedSum:
    """Sum what clients have made noisy; the entries of an answer beyond the model are padding."""
    with np.errstate(over="ignore", invalid="ignore"):
        kept = [answer for answer in answers if np.linalg.norm(answer) <= longest]
    size = now.model.size
    total = sum((answer[:size] for answer in kept), np.zeros(size))
    padding = np.concatenate([np.zeros(0), *(answer[size:] for answer in kept)])
    dropped, silent = len(answers) - len(kept), now.cohort.size - len(answers)
    return ClippedSum(total, None, 0, dropped, len(answers), padding, silent)
