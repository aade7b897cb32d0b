"""A site holds the rows of one client, answers train requests, and charges them to its own ledger.

A site trusts no statement of a request about protection. Before it first takes part, it reserves the full cost of the
scheme under the key of the run. It clips and adds noise as that scheme states, and counts each answer before it leaves.
The operator of the site creates its ledger and its budget; no request does.
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

ALONE = np.zeros(1, dtype=np.int64)  # the cohort of a site: its one client
log = logging.getLogger(__name__)


MakeSiteEngine = Callable[[LocalTraining], Summing]
"""Makes the engine of a client for the local training that the server states."""


def make_task_site_engine(task: Task, engine: Callable[[Task], Engine] | None = None) -> MakeSiteEngine:
    """Return a factory that computes with an engine on the rows of one client; None for the default engine.

    After a failure, a raw update is zero, and DP-SGD is that of a client without rows: a refusal would tell the server
    about the rows. The engine itself leaves out an example that has no gradient.

    Raises:
        CheckError: the task has other than one client, or its rows are not here.
    """
    if task.clients.count != 1 or task.clients.names:
        raise CheckError("clients", "one, with its rows here", f"{task.clients.count}")
    rows = task.clients
    without_rows = Federation(rows.features[:0], rows.targets[:0], np.zeros(1, np.int64))

    def make(training: LocalTraining) -> Summing:
        stated = dataclasses.replace(task, training=training)
        return _TaskEngine(
            make_engine(engine, stated),
            lambda: make_engine(engine, dataclasses.replace(stated, clients=without_rows, population=None)),
        )

    return make


def make_function_site_engine(
    update: Callable[[Vector, LocalTraining], Any] | None = None,
    noisy_run: Callable[[Vector, LocalDPSGD, LocalTraining], Any] | None = None,
) -> MakeSiteEngine:
    """Return a factory that computes with plain functions, written with any library.

    Args:
        update: (model, training) -> change of the model; both float64 of shape (d,). If the training has an
            ``example_cap``, the function multiplies the change by the weight of the site (``training.weights``). The
            site clips it and adds noise if the scheme states so. A failure or a result that is not finite counts as a
            zero update, with the usual noise, so that it cannot be recognized.
        noisy_run: (model, runs, training) -> change of the model after DP-SGD with the settings ``runs``, for
            ``example-level-client-side``: this function clips and adds noise itself, as Opacus does. After a failure,
            the site sends the noise of a run without rows. The claim does not cover a function that fails because of
            one row, since its output without that row would be different.
    """
    return lambda training: _FunctionEngine(training, update, noisy_run)


@dataclass(frozen=True, slots=True)
class Site:
    """One client and its own budget.

    Attributes:
        computing: the factory from ``make_task_site_engine`` or ``make_function_site_engine``.
        unit: the privacy unit, in the word of the data and of the site's budget.
        unit_is_client: whether the unit is this whole client; else it is one of its examples.
        ledger: the existing ledger of the site.
        scope: the scope of the charges; a budget at or above it must have their cost available.
        delta: the delta that each run is charged.
        trusts_server: whether the server may see raw updates of this client, as central noise requires.
        simulation: whether the data are not real; only then may a server choose the draws.
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
        """Return the upload for a request, of shape (d,), or (d + 1,) with padding noise.

        A second request for a raw update of the same global model is computed again and counted once: a round of the
        trusted server was killed. Each upload with noise of the client counts.

        Raises:
            CheckError: this site refuses the request.
            BudgetExceededError: the full cost of the scheme exceeds the budget of the site.
            ConflictError: the run was charged with another scheme, or has no participation left.
        """
        upload = require_visible_uploads(order.scheme)
        self._require(order, upload)
        is_noisy = not isinstance(upload, RawUpdate)
        again = hashlib.sha256(order.model.astype("<f8").tobytes()).hexdigest()
        mark = secrets.token_hex(32) if is_noisy else again  # never a hash of private values
        if not self.ledger.is_file():
            raise CheckError("ledger", "an existing ledger of the site", str(self.ledger))
        with open_ledger(self.ledger) as ledger:
            charge = self._reserve_charge(ledger, order.scheme, order.run)
            released = charge.rounds_released
            if mark in released.values():
                return compute_upload(order, self.computing(order.training), ALONE)
            charge.round_started(len(released) + 1)
            if is_noisy:  # count before computing, since the server also sees a failure
                charge.round_released(len(released) + 1, output_hash=mark)
            answer = compute_upload(order, self.computing(order.training), ALONE)
            if not is_noisy:
                charge.round_released(len(released) + 1, output_hash=mark)
        return answer

    def _require(self, order: TrainRequest, upload: Upload) -> None:
        if isinstance(upload, RawUpdate) and not self.trusts_server:
            raise CheckError(
                "scheme", "one with noise at the client, since this site does not trust the server", order.scheme.kind
            )
        if order.scheme.unit_is_client != self.unit_is_client:
            raise CheckError("scheme", f"one that protects the unit {self.unit!r}", repr(order.scheme.kind))
        if self.simulation != (order.draws is not None):
            bound = (
                "given, since this site is a simulation" if self.simulation else "absent, since this site has real data"
            )
            raise CheckError("draws", bound, "None" if order.draws is None else "draws")
        if order.training.example_cap is not None and not self.unit_is_client:
            raise CheckError(
                "example_cap",
                "absent, since it would disclose the number of rows of this site",
                f"{order.training.example_cap}",
            )
        if not order.scheme.noise_multiplier > 0:
            raise CheckError("noise_multiplier", "above 0", repr(order.scheme.noise_multiplier))
        check_range = clipping.SMALLEST_CLIP <= order.scheme.clip_norm <= clipping.LARGEST_CLIP
        if not check_range or not clipping.SMALLEST_CLIP <= order.scheme.noise_stddev <= clipping.LARGEST_CLIP:
            raise CheckError(
                "clip_norm",
                "such that clip and noise are in the range of reliable arithmetic",
                repr(order.scheme.clip_norm),
            )
        model = order.model
        if model.ndim != 1 or model.dtype != np.float64 or not 1 <= model.size <= clipping.LARGEST_MODEL:
            raise CheckError("model", "float64 of shape (d,)", f"{model.dtype} {model.shape}")
        if not np.isfinite(model).all():
            raise CheckError("model", "finite", "a number that is not")

    def _reserve_charge(self, ledger: Ledger, scheme: Scheme, run: str) -> Charge:
        """Return the started charge for the whole schedule, as it was first reserved."""
        for budget in ledger.budgets_above(self.scope):
            if budget.relation not in scheme.relations:
                supported = " or ".join(relation.value for relation in scheme.relations)
                raise CheckError("relation", f"{supported} for {scheme.kind}", budget.relation.value)
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
    """Return the upload of one client for a request, protected as the scheme states; shape (d,) or (d + 1,).

    Args:
        order: the request; its scheme determines clipping and noise.
        computing: the engine with the rows of the client.
        client: the number of the client in that engine, of shape (1,).
    """
    upload = require_visible_uploads(order.scheme)
    batches, noise = (_streams(order, purpose) for purpose in ("batches", "noise"))
    now = RoundInputs(order.model.copy(), client, batches, noise)
    if isinstance(upload, LocalDPSGD):
        ran = computing.sum_uploads(now, upload)
        return np.concatenate([ran.total, ran.padding])
    if isinstance(upload, NoisyUpdate):  # this function adds the noise, whatever computes the update
        update = computing.sum_uploads(now, RawUpdate(upload.clip_norm)).total
        return np.append(update, 0.0) + upload.noise_stddev * noise(0).normals((update.size + 1,))
    return computing.sum_uploads(now, RawUpdate(np.inf)).total


def _streams(order: TrainRequest, purpose: str) -> ClientStreams:
    """Return the draws of the client: those of its operating system, or of a simulation."""
    if order.draws is None:
        return lambda _: Randomness.from_os().stream(purpose, 0)
    key, factor = getattr(order.draws, purpose), order.draws.noise_factor
    return lambda _: RandomStream.from_key(key, factor)


@dataclass(frozen=True, slots=True)
class _TaskEngine:
    """An engine that hides its failures.

    Attributes:
        engine: the engine with the rows of the client.
        make_without_rows: makes an engine for a client without rows.
    """

    engine: Summing
    make_without_rows: Callable[[], Summing]

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Return the sum of the engine; after a failure, a zero update or the DP-SGD of a client without rows."""
        try:
            return self.engine.sum_uploads(now, upload)
        except Exception:  # the server must not learn that rows make it fail
            log.exception("the engine of the client failed; its upload is that of a client without rows")
        if isinstance(upload, LocalDPSGD):
            return self.make_without_rows().sum_uploads(now, upload)
        return sum_clipped([np.full_like(now.model, np.nan)], upload.clip_norm, size=now.model.size)


@dataclass(frozen=True, slots=True)
class _FunctionEngine:
    """Plain functions as the engine of a site."""

    training: LocalTraining
    update: Callable[[Vector, LocalTraining], Any] | None
    noisy_run: Callable[[Vector, LocalDPSGD, LocalTraining], Any] | None

    def sum_uploads(self, now: RoundInputs, upload: Upload) -> ClippedSum:
        """Clip the result of ``update``, or return that of ``noisy_run``, which has no padding.

        After a failure, return a zero update, or the noise of a client without rows.
        """
        update, noisy_run, model, training = self.update, self.noisy_run, now.model, self.training
        if isinstance(upload, LocalDPSGD):
            if noisy_run is None:
                raise CheckError("noisy_run", "a function, for schemes that protect examples", "None")
            total = _call_function(lambda: noisy_run(model.copy(), upload, training), model)
            if not np.isfinite(total).all():
                step = training.learning_rate / (upload.batch_probability * training.expected_examples)
                total = -step * upload.noise_stddev * now.noise(0).normals((upload.steps, model.size)).sum(axis=0)
            return ClippedSum(total, None, 0, 0, 0)
        if update is None:
            raise CheckError("update", "a function, for schemes that protect whole clients", "None")
        change = _call_function(lambda: update(model.copy(), training), model)
        return sum_clipped([change], upload.clip_norm, size=model.size)


def _call_function(run: Callable[[], Any], model: Vector) -> Vector:
    """Return the change of the model that a function computes; NaN if it fails or has another shape."""
    try:
        change = np.array(run(), dtype=np.float64)
        if change.shape != model.shape:
            raise CheckError("change", f"shape {model.shape}", f"{change.shape}", verb="have")
        return change
    except Exception:  # the server must not learn that rows make it fail
        log.exception("the function of the client failed; its upload is that of a client without rows")
    return np.full_like(model, np.nan)
