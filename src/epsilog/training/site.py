"""A site holds one client's rows: it answers train requests, and its own ledger refuses costs beyond its budget.

A site trusts no statement of a request about protection. Before it first takes part, it reserves the scheme's whole
cost under the run's key. It clips and adds noise as that scheme states, and counts every answer before it leaves. The
site's operator creates its ledger and its budget, never a request.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epsilog.ledger import Charge, Ledger, open_ledger
from epsilog.schemes import LocalDPSGD, NoisyUpdate, RawUpdate, Scheme, Upload
from epsilog.terms import CheckError, ConflictError, codec
from epsilog.training import clipping
from epsilog.training.engines import Engine, make_engine
from epsilog.training.engines.base import ClientStreams, ClippedSum, RoundInputs, Summing, Vector, sum_clipped
from epsilog.training.engines.remote import TrainRequest, require_visible_uploads
from epsilog.training.federation import Federation
from epsilog.training.noise import Randomness, RandomStream
from epsilog.training.sampling import Ids
from epsilog.training.task import LocalTraining, Task

__all__ = ["Site", "compute_upload", "make_function_site_engine", "make_task_site_engine"]

ALONE = np.zeros(1, dtype=np.int64)  # a site's cohort: its one client
log = logging.getLogger(__name__)


MakeSiteEngine = Callable[[LocalTraining], Summing]
"""Makes what computes a client's raw updates and DP-SGD, for the training that the server states."""


def make_task_site_engine(task: Task, engine: Callable[[Task], Engine] | None = None) -> MakeSiteEngine:
    """Compute with an engine on the rows of one client; None for the compiled engine, on JAX.

    An update that fails counts as zero, and a noisy run that fails is sent as one without rows: the server must not
    learn from a refusal what the rows are. An example whose gradient fails is left out by the engine itself.

    Raises:
        CheckError: a task of more clients than one.
    """
    if task.clients.count != 1 or task.clients.names:
        raise CheckError("clients", "one, with its rows here", f"{task.clients.count}")
    rows = task.clients
    nobody = Federation(rows.features[:0], rows.targets[:0], np.zeros(1, np.int64))

    def computing(training: LocalTraining) -> Summing:
        stated = dataclasses.replace(task, training=training)
        return _TaskEngine(
            make_engine(engine, stated),
            lambda: make_engine(engine, dataclasses.replace(stated, clients=nobody, population=None)),
        )

    return computing


def make_function_site_engine(
    update: Callable[[Vector, LocalTraining], Any] | None = None,
    noisy_run: Callable[[Vector, LocalDPSGD, LocalTraining], Any] | None = None,
) -> MakeSiteEngine:
    """Compute with plain functions, written with any library.

    Args:
        update: (model, training) -> the model's change; both float64 of shape (d,). Where the training has an
            ``example_cap``, it comes multiplied by the site's weight (``training.weights``). The site clips it and,
            where the scheme says so, adds the noise. A result that fails or is not finite counts as a zero
            update, noise and all, so that it cannot be recognized.
        noisy_run: (model, runs, training) -> the model's change after DP-SGD as ``runs`` says, under
            ``example-level-client-side``: this function clips and adds noise itself, as with Opacus. Where it fails,
            the site sends the noise of a run without rows. The claim does not cover a function that fails because of
            a row, since without that row it would have sent something else.
    """
    return lambda training: _FunctionEngine(training, update, noisy_run)


@dataclass(frozen=True, slots=True)
class Site:
    """One client and its own budget.

    Attributes:
        computing: made by ``make_task_site_engine`` or ``make_function_site_engine``.
        unit: the privacy unit, in the data's own word; that of the site's budget.
        unit_is_client: whether that is this whole client, or one of its examples.
        ledger: the site's ledger, which must be there.
        scope: where runs are booked in it; a budget at or above it must bear them.
        delta: the failure probability that each run is charged.
        trusts_server: whether the server may see this client's raw updates, as central noise has it.
        simulation: whether this is no real data: only then may a server hand out the draws.
    """

    computing: MakeSiteEngine
    unit: str
    unit_is_client: bool
    ledger: Path
    scope: str
    delta: str
    trusts_server: bool = False
    simulation: bool = False

    def answer(self, order: TrainRequest) -> Vector:
        """Take part in a round: what may leave the site, of shape (d,), or (d + 1,) with a padding of its own noise.

        An update that is asked for again from the same global model is computed again and counted once: a trusted
        server's round was killed. Whatever carries the client's own noise is counted every time.

        Raises:
            CheckError: an order that this site does not take.
            BudgetExceededError: the scheme's whole price does not fit the site's budget.
            ConflictError: another scheme than was booked under this run, or one participation too many.
        """
        upload = require_visible_uploads(order.scheme)
        self._require(order, upload)
        is_noisy = not isinstance(upload, RawUpdate)
        again = hashlib.sha256(order.model.astype("<f8").tobytes()).hexdigest()
        mark = secrets.token_hex(32) if is_noisy else again  # never a hash of what is private
        if not self.ledger.is_file():
            raise CheckError("ledger", "there before a site takes part", str(self.ledger))
        with open_ledger(self.ledger) as ledger:
            charge = self._reserve_charge(ledger, order.scheme, order.run)
            released = charge.rounds_released
            if mark in released.values():
                return compute_upload(order, self.computing(order.training), ALONE)
            charge.round_started(len(released) + 1)
            if is_noisy:  # counted before it is computed: that it fails would be seen as well
                charge.round_released(len(released) + 1, output_hash=mark)
            answer = compute_upload(order, self.computing(order.training), ALONE)
            if not is_noisy:
                charge.round_released(len(released) + 1, output_hash=mark)
        return answer

    def _require(self, order: TrainRequest, upload: Upload) -> None:
        if isinstance(upload, RawUpdate) and not self.trusts_server:
            raise CheckError("scheme", "one with noise at the client: this server is not trusted", order.scheme.kind)
        if order.scheme.unit_is_client != self.unit_is_client:
            raise CheckError("scheme", f"one that protects a {self.unit}", repr(order.scheme.kind))
        if self.simulation != (order.draws is not None):
            kind, bound = ("a simulation", "given") if self.simulation else ("no simulation", "absent")
            raise CheckError("draws", f"{bound}, as this site is {kind}", "another order")
        if order.training.example_cap is not None and not self.unit_is_client:
            raise CheckError(
                "example_cap", "absent: how many rows a site has would show", f"{order.training.example_cap}"
            )
        if not order.scheme.noise_multiplier > 0:
            raise CheckError("noise_multiplier", "above 0", repr(order.scheme.noise_multiplier))
        check_range = clipping.SMALLEST_CLIP <= order.scheme.clip_norm <= clipping.LARGEST_CLIP
        if not check_range or not clipping.SMALLEST_CLIP <= order.scheme.noise_stddev <= clipping.LARGEST_CLIP:
            raise CheckError("clip_norm", "such that clip and noise can be relied on", repr(order.scheme.clip_norm))
        model = order.model
        if model.ndim != 1 or model.dtype != np.float64 or not 1 <= model.size <= clipping.LARGEST_MODEL:
            raise CheckError("model", "float64 of shape (d,)", f"{model.dtype} {model.shape}")
        if not np.isfinite(model).all():
            raise CheckError("model", "finite", "others")

    def _reserve_charge(self, ledger: Ledger, scheme: Scheme, run: str) -> Charge:
        """The started charge for the whole schedule: as it was booked at first, or not at all."""
        for budget in ledger.budgets_above(self.scope):
            if budget.relation not in scheme.relations:
                priced = " or ".join(relation.value for relation in scheme.relations)
                raise CheckError("relation", f"{priced} for {scheme.kind}", budget.relation.value)
        charge = ledger.reserve(
            self.scope,
            scheme.release(),
            key=run,
            delta=self.delta,
            privacy_unit=self.unit,
            plan_hash=codec.hash_canonical(codec.to_json(scheme)),
            rounds=scheme.cohorts.count_max_participations(scheme.rounds),
            simulation=self.simulation,
        )
        if charge.state == "reserved":
            charge.start()
        if charge.state != "started":
            raise ConflictError(f"run {run!r} is {charge.state} at this site")
        return charge


def compute_upload(order: TrainRequest, computing: Summing, client: Ids) -> Vector:
    """What one client sends for an order: its update as the scheme lets it leave, of shape (d,) or (d + 1,).

    Args:
        order: whose scheme says what is clipped, and what noise is added.
        computing: has the client's rows.
        client: its number among those, of shape (1,).
    """
    upload = require_visible_uploads(order.scheme)
    batches, noise = (_streams(order, purpose) for purpose in ("batches", "noise"))
    now = RoundInputs(order.model.copy(), client, batches, noise)
    if isinstance(upload, LocalDPSGD):
        ran = computing.sum_uploads(now, upload)
        return np.concatenate([ran.total, ran.padding])
    if isinstance(upload, NoisyUpdate):  # the noise is this function's own, whatever computes the update
        update = computing.sum_uploads(now, RawUpdate(upload.clip_norm)).total
        return np.append(update, 0.0) + upload.noise_stddev * noise(0).normals((update.size + 1,))
    return computing.sum_uploads(now, RawUpdate(np.inf)).total


def _streams(order: TrainRequest, purpose: str) -> ClientStreams:
    """The client's draws: its operating system's, or a simulation's."""
    if order.draws is None:
        return lambda _: Randomness.from_os().stream(purpose, 0)
    key, factor = getattr(order.draws, purpose), order.draws.noise_factor
    return lambda _: RandomStream.from_key(key, factor)


@dataclass(frozen=True, slots=True)
class _TaskEngine:
    """An engine whose failures do not show.

    Attributes:
        engine: has the client's rows.
        make_without_rows: makes one for a client that has none.
    """

    engine: Summing
    make_without_rows: Callable[[], Summing]

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the engine's; after a failure a zero update, or the DP-SGD of a client without rows."""
        try:
            return self.engine.sum_uploads(now, upload)
        except Exception:  # whether one's rows make it fail must not show
            log.exception("the client's work failed and counts as that of a client without rows")
        if isinstance(upload, LocalDPSGD):
            return self.make_without_rows().sum_uploads(now, upload)
        return sum_clipped([np.full_like(now.model, np.nan)], upload.clip_norm, size=now.model.size)


@dataclass(frozen=True, slots=True)
class _FunctionEngine:
    """Plain functions as what a site computes with."""

    training: LocalTraining
    update: Callable[[Vector, LocalTraining], Any] | None
    noisy_run: Callable[[Vector, LocalDPSGD, LocalTraining], Any] | None

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Clip what the function returns, or trust its own DP-SGD, which can show no padding.

        After a failure, return a zero update, or the noise of a client without rows.
        """
        update, noisy_run, model, training = self.update, self.noisy_run, now.model, self.training
        if isinstance(upload, LocalDPSGD):
            if noisy_run is None:
                raise CheckError("noisy_run", "a function, for schemes that protect examples", "None")
            total = _call_function(lambda: noisy_run(model.copy(), upload, training), model)
            if not np.isfinite(total).all():
                step = training.learning_rate / (upload.batch_probability * training.nominal_examples)
                total = -step * upload.noise_stddev * now.noise(0).normals((upload.steps, model.size)).sum(axis=0)
            return ClippedSum(total, None, 0, 0, 0)
        if update is None:
            raise CheckError("update", "a function, for schemes that protect whole clients", "None")
        change = _call_function(lambda: update(model.copy(), training), model)
        return sum_clipped([change], upload.clip_norm, size=model.size)


def _call_function(run: Callable[[], Any], model: Vector) -> Vector:
    """Return the model's change that a function computes; NaN where it fails or has another shape."""
    try:
        change = np.array(run(), dtype=np.float64)
        if change.shape == model.shape:
            return change
    except Exception:  # whether one's rows make it fail must not show
        log.exception("the client's function failed and counts as that of a client without rows")
    return np.full_like(model, np.nan)
