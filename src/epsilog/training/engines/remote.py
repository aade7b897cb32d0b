"""Clients elsewhere: a round's cohort is asked over a network, and summed here.

What crosses the network is a courier's business (``adapters.flower_app`` has one). Whatever
comes back, or does not, is a zero update at worst: never an error, never another draw. A fixed denominator and a clip
at the server keep the claim as it was, whoever is silent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import Scheme
from epsilog.terms import CheckError
from epsilog.training import clipping
from epsilog.training.engines.base import (
    ClientStreams,
    ClippedSum,
    Engine,
    LocalDPSGD,
    RoundInputs,
    Vector,
    sum_clipped,
)
from epsilog.training.federation import Federation
from epsilog.training.requests import LOCAL, SimulatedDraws, TrainRequest, get_upload_kind
from epsilog.training.sampling import Ids
from epsilog.training.task import LocalTraining, Task

__all__ = ["ClientTransport", "make_remote_engine", "make_simulated_remote_engine"]

TAIL = 12.0  # by how many standard deviations noise may be longer than expected before it is taken for something else


class ClientTransport(Protocol):
    """Whoever carries orders to named clients, and brings back what they answer in time."""

    def carry(self, orders: Mapping[str, TrainRequest], /) -> Iterable[tuple[str, Any]]:
        """Yields who answered, and with what; who is silent, late or fails is left out.

        What is yielded need not be of any form: the engine takes the first answer of each client that was asked and
        that is an array of doubles of the right size. An error of the network itself is raised, and ends the run, which
        can be resumed.
        """


def make_remote_engine(courier: ClientTransport, scheme: Scheme, run: str) -> Callable[[Task], Engine]:
    """What ``run_rounds`` takes as its engine where clients are elsewhere.

    Args:
        courier: reaches the clients that the task's ``Federation.elsewhere`` names.
        scheme: the one that is paid for.
        run: the run's key, under which clients book it; the charge's own key is a good one.

    Raises:
        CheckError: a scheme that must not show a server single uploads.
    """
    get_upload_kind(scheme)
    return lambda task: RemoteEngine(task, courier, scheme, run, task.clients.names)


def make_simulated_remote_engine(
    courier: ClientTransport, scheme: Scheme, run: str, task: Task
) -> Callable[[Task], Engine]:
    """The same for a simulation, whose rows are known here and at whoever computes for the clients.

    Clients are named by their numbers.

    Args:
        courier: reaches who computes for each client.
        scheme: the one that is paid for.
        run: the run's key.
        task: what is trained on what; of any other, such as a rehearsal's, nobody is asked.

    Raises:
        CheckError: a scheme that must not show a server single uploads.
    """
    get_upload_kind(scheme)
    if task.canaries is not None:
        raise CheckError("canaries", "absent where clients compute elsewhere", f"{task.canaries.count}")
    names = tuple(map(str, range(task.clients.count)))
    return lambda one: RemoteEngine(one, courier, scheme, run, names if one is task else ())


class RemoteEngine:
    """A task whose clients compute elsewhere; see ``base.Engine``.

    Where no clients are named, as in a rehearsal, there is nobody to ask: everybody is silent.

    Attributes:
        task: what is trained; outside a simulation it holds nobody's rows.
    """

    def __init__(self, task: Task, courier: ClientTransport, scheme: Scheme, run: str, names: Sequence[str]) -> None:
        self.task = task
        self._courier, self._scheme, self._run, self._names = courier, scheme, run, names

    def unusable(self, cohort: Ids) -> int:
        """Those that lie here: only clients see their own."""
        clients = self.task.clients
        return sum(int((~self._usable[clients.rows_of(client)]).sum()) for client in cohort.tolist())

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        return self.task.clients.usable(self.task.model)

    def sum_of_updates(self, now: RoundInputs, *, clip_norm: float) -> ClippedSum:
        """As ``base.Engine`` says; updates come as they are, and are clipped here."""
        answers = self._answers(now, noise=now.batches, sizes={now.model.size})
        clipped = sum_clipped(answers, clip_norm, size=now.model.size)
        return dataclasses.replace(clipped, silent=now.cohort.size - len(answers))

    def sum_of_noisy_updates(self, now: RoundInputs, *, clip_norm: float, noise_stddev: float) -> ClippedSum:
        """As ``base.Engine`` says; each client clips and adds noise where its rows lie."""
        self._require(clip_norm=clip_norm, noise_stddev=noise_stddev)
        longest = clip_norm + noise_stddev * (np.sqrt(now.model.size + 1) + TAIL)  # longer once in e^72 honest answers
        answers = self._answers(now, noise=now.noise, sizes={now.model.size + 1})
        return _noisy_sum(answers, now, longest)

    def sum_of_noisy_runs(self, now: RoundInputs, runs: LocalDPSGD) -> ClippedSum:
        """As ``base.Engine`` says; each client runs DP-SGD where its rows lie."""
        self._require(clip_norm=runs.clip_norm, noise_stddev=runs.noise_stddev)
        answers = self._answers(now, noise=now.noise, sizes={now.model.size, now.model.size + 1})
        return _noisy_sum(answers, now, clipping.get_largest_trainable(self.task.clients.features.dtype))

    def evaluate(self, model: Vector) -> tuple[float, float]:
        """Returns mean loss and score on the public test set, which lies here."""
        return self._here.evaluate(model)

    @cached_property
    def _here(self) -> Engine:
        from epsilog.training.engines import make_engine

        known = self.task.clients
        nobody = Federation(known.features[:0], known.targets[:0], np.zeros(1, np.int64))
        return make_engine(None, dataclasses.replace(self.task, clients=nobody, population=self.task.units))

    def _require(self, **asked: float) -> None:
        """Refuses settings that clients would not go by: they know the scheme, and nothing else."""
        for name, value in asked.items():
            if value != getattr(self._scheme, name):
                raise CheckError(name, f"{getattr(self._scheme, name)!r}, as clients have booked", repr(value))

    def _answers(self, now: RoundInputs, *, noise: ClientStreams, sizes: set[int]) -> list[Vector]:
        """Asks a cohort; what came of the right form, in the order of ids, so that sums are the same every time."""
        asked = {self._names[client]: client for client in now.cohort.tolist()} if self._names else {}
        local = {name: getattr(self.task.training, name) for name in LOCAL}
        training = LocalTraining(**local | {"learning_rate": now.pace * self.task.training.learning_rate})
        orders = {
            name: TrainRequest(self._run, self._scheme, training, now.model, _draws(now.batches(client), noise(client)))
            for name, client in asked.items()
        }
        came: dict[int, Vector] = {}
        for name, answer in self._courier.carry(orders) if orders else ():
            if isinstance(name, str) and name in asked and asked[name] not in came and _is_vector(answer, sizes):
                came[asked[name]] = np.array(answer, dtype=np.float64)
        return [came[client] for client in sorted(came)]


def _is_vector(answer: Any, sizes: set[int]) -> bool:
    return (
        type(answer) is np.ndarray and answer.dtype.str in ("<f8", ">f8") and answer.ndim == 1 and answer.size in sizes
    )


def _noisy_sum(answers: list[Vector], now: RoundInputs, longest: float) -> ClippedSum:
    """Sums what clients have made noisy; what an answer has beyond the model is padding."""
    with np.errstate(over="ignore", invalid="ignore"):
        kept = [answer for answer in answers if np.linalg.norm(answer) <= longest]
    size = now.model.size
    total = sum((answer[:size] for answer in kept), np.zeros(size))
    padding = np.concatenate([np.zeros(0), *(answer[size:] for answer in kept)])
    dropped, silent = len(answers) - len(kept), now.cohort.size - len(answers)
    return ClippedSum(total, None, 0, dropped, len(answers), padding, silent)


def _draws(batches: Any, noise: Any) -> SimulatedDraws | None:
    """What a simulated client draws from; a real one opens streams of its own."""
    if batches.key is None or noise.key is None:
        return None
    return SimulatedDraws(batches.key, noise.key, noise.noise_factor)
