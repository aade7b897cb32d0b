"""Remote clients: a transport asks the cohort of a round over a network, and the server sums the answers.

``adapters.flower_app`` has a transport. A missing or invalid answer is a zero update: never an error, never another
draw. The fixed divisor and the clip at the server keep the guarantee for any number of silent clients.
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
    "TrainRequest",
    "make_remote_engine",
    "make_simulated_remote_engine",
]

LOCAL = ("learning_rate", "local_steps", "batch_size", "expected_examples", "example_cap")
"""Settings of local training; the others apply at the server."""
TAIL = 12.0  # standard deviations by which the norm of an answer may exceed its expectation before it is dropped


@dataclass(frozen=True, slots=True)
class SimulatedDraws:
    """Keys of the draws of a simulated client in one round. They would undo all noise; a real run has none.

    Attributes:
        batches: key of the stream that shuffles or samples rows.
        noise: key of the stream of normals.
        noise_factor: multiplies each normal; 1 except in a control that a verifier must reject.
    """

    batches: int
    noise: int
    noise_factor: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class TrainRequest:
    """A request to a client for one round. Nothing in it is private.

    It states neither clip norm nor noise: a client follows the scheme that its ledger has charged.

    Attributes:
        run: the key of the run in the ledger of the client.
        scheme: the protection.
        training: the local training, with the learning rate of this round.
        model: the global model; shape (d,).
        draws: keys of a simulation; None if clients draw from their operating systems.
    """

    run: str
    scheme: Scheme
    training: LocalTraining
    model: Vector
    draws: SimulatedDraws | None = None

    def to_json(self) -> dict[str, object]:
        """Return all fields except the model, as JSON values."""
        training = {name: getattr(self.training, name) for name in LOCAL}
        draws = self.draws and {
            "batches": f"{self.draws.batches:032x}",
            "noise": f"{self.draws.noise:032x}",
            "noise_factor": self.draws.noise_factor,
        }
        return {"run": self.run, "scheme": codec.to_json(self.scheme), "training": training, "draws": draws}

    @classmethod
    def from_json(cls, document: dict[str, object], model: Vector) -> TrainRequest:
        """Return the request of a document from ``to_json``; nothing in it is trusted.

        Raises:
            ValueError, TypeError, KeyError: the document is no request.
        """
        run, training, draws = document["run"], document["training"], document["draws"]
        scheme = codec.from_json(document["scheme"])
        if not isinstance(run, str) or not isinstance(scheme, Scheme) or not isinstance(training, dict):
            raise TypeError("a request must hold run, scheme and training")
        opened = None
        if draws is not None:
            if not isinstance(draws, dict):
                raise TypeError("draws of a request must be an object or null")
            keys = {name: int(draws[name], 16) for name in ("batches", "noise")}
            opened = SimulatedDraws(**keys, noise_factor=float(draws["noise_factor"]))
        return cls(run, scheme, LocalTraining(**{name: training[name] for name in LOCAL}), model, opened)


def require_visible_uploads(scheme: Scheme) -> Upload:
    """Return the upload of a scheme; its guarantee must hold if the server sees single uploads.

    Raises:
        CheckError: the guarantee of the scheme fails if anyone sees one client's upload.
    """
    if not scheme.uploads_are_visible:
        kinds = ", ".join(kind for kind, one in SCHEMES.items() if one.uploads_are_visible)
        raise CheckError("scheme", f"one that lets a server see single uploads ({kinds})", repr(scheme.kind))
    return scheme.upload


class ClientTransport(Protocol):
    """Carries requests to named clients, and returns their answers."""

    def carry(self, requests: Mapping[str, TrainRequest], /) -> Iterable[tuple[str, Any]]:
        """Yield the name and the answer of each client that answers in time.

        Answers may be anything: the engine takes the first answer of each asked client that is a float64 array of the
        right size. An error of the network is raised and ends the run, which can be resumed.
        """


def make_remote_engine(transport: ClientTransport, scheme: Scheme, run: str) -> Callable[[Task], Engine]:
    """Return the ``engine`` argument of ``run_rounds`` for remote clients.

    Args:
        transport: reaches the clients of the ``Federation.remote_clients`` of the task.
        scheme: the scheme of the charge.
        run: the key under which clients charge the run, such as the key of the server's charge.

    Raises:
        CheckError: the server must not see single uploads under this scheme.
    """
    require_visible_uploads(scheme)
    return lambda task: RemoteEngine(task, transport, scheme, run, task.clients.names)


def make_simulated_remote_engine(
    transport: ClientTransport, scheme: Scheme, run: str, task: Task
) -> Callable[[Task], Engine]:
    """Return the same for a simulation; the server and the computing processes have its rows.

    The names of clients are their numbers.

    Args:
        transport: reaches the process that computes for each client.
        scheme: the scheme of the charge.
        run: the key of the run.
        task: the training task; clients are not asked for another one, such as that of a smoke test.

    Raises:
        CheckError: the server must not see single uploads under this scheme.
    """
    require_visible_uploads(scheme)
    if task.canaries is not None:
        raise CheckError("canaries", "absent if clients compute remotely", f"{task.canaries.count}")
    names = tuple(map(str, range(task.clients.count)))
    return lambda one: RemoteEngine(one, transport, scheme, run, names if one is task else ())


class RemoteEngine(Engine):
    """A task with remote clients.

    Without names, as in a smoke test, all clients are silent.

    Attributes:
        task: the training task; outside a simulation it holds no rows.
    """

    def __init__(self, task: Task, transport: ClientTransport, scheme: Scheme, run: str, names: Sequence[str]) -> None:
        self.task = task
        self._transport, self._scheme, self._run, self._names = transport, scheme, run, names

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of uploads; the server clips raw updates, and clients clip noisy ones."""
        size, stated = now.model.size, self._scheme.upload
        if isinstance(upload, RawUpdate):
            answers = self._ask(now, {size})
            clipped = sum_clipped(answers, upload.clip_norm, size=size)
            return dataclasses.replace(clipped, silent=now.cohort.size - len(answers))
        for name in ("clip_norm", "noise_stddev"):  # clients know the scheme alone
            asked, charged = getattr(upload, name), getattr(stated, name)
            if asked != charged:
                raise CheckError(name, f"{charged!r}, as clients have charged", repr(asked))
        if isinstance(upload, NoisyUpdate):  # an honest answer exceeds this norm with probability e^-72
            longest = upload.clip_norm + upload.noise_stddev * (np.sqrt(size + 1) + TAIL)
            return _sum_noisy(self._ask(now, {size + 1}), now, longest)
        longest = clipping.get_largest_trainable(self.task.clients.features.dtype)
        return _sum_noisy(self._ask(now, {size, size + 1}), now, longest)

    def unusable(self, cohort: Ids) -> int:
        """Return the number of unusable rows at the server; clients alone know about theirs."""
        clients = self.task.clients
        return sum(int((~self._usable[clients.rows_of(client)]).sum()) for client in cohort.tolist())

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        return self.task.clients.usable(self.task.model)

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Return loss and score on the test set, which the server holds."""
        return self._evaluator.evaluate(model)

    @cached_property
    def _evaluator(self) -> Engine:
        from epsilog.training.engines import make_engine

        clients = self.task.clients
        empty = Federation(clients.features[:0], clients.targets[:0], np.zeros(1, np.int64))
        return make_engine(None, dataclasses.replace(self.task, clients=empty, population=self.task.units))

    def _ask(self, now: RoundInputs, sizes: set[int]) -> list[Vector]:
        """Return the readable answers of a cohort in the order of ids, so that sums are deterministic."""
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
        """Return the keys of a simulated client; None for a real one, which has its own randomness."""
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
    """Return the sum of noisy answers; their entries beyond the model are padding."""
    with np.errstate(over="ignore", invalid="ignore"):
        kept = [answer for answer in answers if np.linalg.norm(answer) <= longest]
    size = now.model.size
    total = sum((answer[:size] for answer in kept), np.zeros(size))
    padding = np.concatenate([np.zeros(0), *(answer[size:] for answer in kept)])
    dropped, silent = len(answers) - len(kept), now.cohort.size - len(answers)
    return ClippedSum(total, None, 0, dropped, len(answers), padding, silent)
