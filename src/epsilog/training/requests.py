"""What a server asks a client for whose rows lie with itself, and what of the answer each scheme lets it see."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum, auto
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from epsilog.schemes import (
    ClientLevelAdaptiveClip,
    ClientLevelBufferedNoise,
    ClientLevelCentral,
    ClientLevelClientSide,
    ClientLevelCorrelatedNoise,
    ExampleLevelClientSide,
    Scheme,
)
from epsilog.schemes.cohorts import (
    BallsInBinsSampler,
    CappedSampler,
    Cohorts,
    FixedSizeSampler,
    PoissonSampler,
    RoundRobinSampler,
)
from epsilog.terms import CheckError, codec
from epsilog.training.task import LocalTraining

__all__ = ["UPLOADS", "SimulatedDraws", "TrainRequest"]

Vector = NDArray[np.float64]
LOCAL = ("learning_rate", "local_steps", "batch_size", "nominal_examples", "example_cap")
"""Settings of a training that clients go by; the others are the server's."""


class UploadKind(Enum):
    """What leaves a client."""

    RAW_UPDATE = auto()
    NOISY_UPDATE = auto()
    NOISY_RUN = auto()

    @property
    def is_noisy(self) -> bool:
        """Whether it carries the client's own noise, and one padding coordinate more than the model."""
        return self is not UploadKind.RAW_UPDATE


UPLOADS: dict[type[Scheme], UploadKind] = {
    ClientLevelCentral: UploadKind.RAW_UPDATE,
    ClientLevelAdaptiveClip: UploadKind.RAW_UPDATE,
    ClientLevelBufferedNoise: UploadKind.RAW_UPDATE,
    ClientLevelCorrelatedNoise: UploadKind.RAW_UPDATE,
    ClientLevelClientSide: UploadKind.NOISY_UPDATE,
    ExampleLevelClientSide: UploadKind.NOISY_RUN,
}
"""By scheme; one that is not here must not show a server single uploads."""


def get_upload_kind(scheme: Scheme) -> UploadKind:
    """What leaves a client under a scheme.

    Raises:
        CheckError: a scheme whose guarantee fails as soon as anybody sees one client's upload.
    """
    if type(scheme) not in UPLOADS:
        kinds = ", ".join(kind.kind for kind in UPLOADS)
        raise CheckError("scheme", f"one that lets a server see single uploads ({kinds})", repr(scheme.kind))
    return UPLOADS[type(scheme)]


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

    It holds no clip norm and no noise of its own: a client goes by the scheme that its ledger has booked.

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
        """Everything but the model, as JSON values."""
        training = {name: getattr(self.training, name) for name in LOCAL}
        draws = self.draws and {
            "batches": f"{self.draws.batches:032x}",
            "noise": f"{self.draws.noise:032x}",
            "noise_factor": self.draws.noise_factor,
        }
        return {"run": self.run, "scheme": codec.to_json(self.scheme), "training": training, "draws": draws}

    @classmethod
    def from_json(cls, document: dict[str, object], model: Vector) -> TrainRequest:
        """Reads what ``to_json`` wrote; nothing in it is trusted.

        Raises:
            ValueError, TypeError, KeyError: anything else than an order.
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


def hash_scheme(scheme: Scheme) -> str:
    """SHA-256 of a scheme's canonical JSON: what a client's ledger binds a run to."""
    return hashlib.sha256(codec.encode_canonical(codec.to_json(scheme))).hexdigest()


def count_max_participations(scheme: Scheme) -> int:
    """The most rounds of the schedule that one client takes part in."""
    return _most(scheme.cohorts, scheme.rounds)


@singledispatch
def _most(cohorts: Cohorts, rounds: int) -> int:  # noqa: ARG001
    raise TypeError(f"no cap is known for {type(cohorts).__name__}")


@_most.register
def _(cohorts: PoissonSampler | FixedSizeSampler, rounds: int) -> int:  # noqa: ARG001
    return rounds


@_most.register
def _(cohorts: CappedSampler, rounds: int) -> int:
    return min(cohorts.max_participations, rounds)


@_most.register
def _(cohorts: RoundRobinSampler | BallsInBinsSampler, rounds: int) -> int:
    return -(-rounds // cohorts.cycle_length)
