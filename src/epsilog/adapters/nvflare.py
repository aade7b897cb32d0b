"""NVIDIA FLARE as the network of a run (nvflare >= 2.9): our rounds, sampler, noise, ledger and resume, its tasks.

On the sites, in the module that the job's client configuration names:

    Answering = executor(lambda context: Site(from_task(my_task(context)), ...))

On the server, in the module that the job's server configuration names, under a charge of one's own ledger:

    def main(job):
        train(job, PaidRun(scheme, charge, Randomness.from_os()), task, folder=folder, run="one", reply_seconds=600)

    Training = controller(main)

Who a client is, is the name in the certificate that its site was provisioned with. FLARE is imported where it is used.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilog.terms import CheckError, RoundRecord, check
from epsilog.train import PaidRun, Task, Trained, run_rounds
from epsilog.train.engines.grid import on_grid
from epsilog.train.orders import Order
from epsilog.train.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from nvflare.apis.controller_spec import Task as FlareTask
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.impl.controller import Controller
    from nvflare.apis.shareable import Shareable
    from nvflare.apis.signal import Signal

__all__ = ["ORDER", "FlareCourier", "FlareJob", "controller", "executor", "train"]

ORDER = "epsilog"
"""What FLARE's configuration calls the task that sites take."""
LOOK_SECONDS = 0.25
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlareJob:
    """What FLARE hands to a controller's control flow.

    Attributes:
        controller: sends tasks.
        context: FLARE's own, at the server.
        abort: triggered when the job is to stop.
    """

    controller: Controller
    context: FLContext
    abort: Signal


def controller(main: Callable[[FlareJob], object]) -> type[Controller]:
    """A controller's class for FLARE's server configuration: its control flow is ``main``.

    What ``main`` raises ends the job; the run can be resumed by another job.
    """
    from nvflare.apis.impl.controller import Controller

    class Running(Controller):  # type: ignore[misc]
        """Our rounds as FLARE's control flow."""

        def start_controller(self, fl_ctx: FLContext) -> None:
            """Nothing is prepared: the ledger and the run's folder know where a run stands."""

        def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
            """Runs ``main``."""
            main(FlareJob(self, fl_ctx, abort_signal))

        def stop_controller(self, fl_ctx: FLContext) -> None:
            """Nothing is left to stop."""

        def process_result_of_unknown_task(self, client: Any, *_: object) -> None:
            """An answer that nobody waits for any more."""
            log.info("an answer of %s came too late", client.name)

    return Running


def train(
    job: FlareJob,
    paid: PaidRun,
    task: Task,
    *,
    folder: Path,
    run: str,
    reply_seconds: float,
    progress: Callable[[RoundRecord], None] | None = None,
) -> Trained:
    """Runs the rounds that are due over FLARE's sites; see ``run_rounds``, which it calls.

    Args:
        job: what ``controller`` hands on.
        paid: the scheme, the charge that pays for it, and where its draws come from.
        task: what is trained, with ``Federation.elsewhere(names)`` as its clients, named as their sites are.
        folder: the run's own folder, at the server and outside the job's.
        run: the run's key, under which sites book it; the same when a killed run goes on.
        reply_seconds: how long a round waits for answers; who is later is silent.
        progress: called with the public record of every round.

    Raises:
        CheckError: a scheme that must not show a server single uploads, clients none of whom is registered, or a run
            that is no simulation where FLARE authenticates nobody.
    """
    courier = FlareCourier(job, reply_seconds)
    courier.require(task.clients.names, simulation=paid.randomness.is_simulated)
    engine = on_grid(courier, paid.scheme, run)
    return run_rounds(paid, task, folder=folder, progress=progress, engine=engine)


@dataclass(frozen=True, slots=True)
class FlareCourier:
    """Orders as FLARE's tasks, one to each client's own site.

    Attributes:
        job: what ``controller`` hands on.
        reply_seconds: how long answers are waited for, and how long an order is valid.
    """

    job: FlareJob
    reply_seconds: float

    def __post_init__(self) -> None:
        check.positive()(reply_seconds=self.reply_seconds)

    def sites(self) -> set[str]:
        """Names of the sites that are registered for the job."""
        return {client.name for client in self.job.context.get_engine().get_clients()}

    def require(self, names: Sequence[str], *, simulation: bool) -> None:
        """Refuses to begin where nobody can answer, or where names prove nothing and people are behind them."""
        if not names:
            raise CheckError("clients", "elsewhere, named as their sites were provisioned", "rows that lie here")
        if not simulation and not _is_secure(self.job.context):
            raise CheckError("run", "a simulation where FLARE authenticates nobody", "another")
        if not set(names) & self.sites():
            raise CheckError("clients", "registered, one of them at least", "none of the names is a site's")

    def carry(self, orders: Mapping[str, Order]) -> Iterator[tuple[str, Any]]:
        """As ``Courier`` says. Who is not registered is silent at once.

        Raises:
            ConnectionError: the job was aborted.
        """
        came: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        there, models = self.sites(), dict[int, bytes]()  # of one round: the same model for all
        waiting: dict[str, FlareTask] = {}
        try:
            for name, order in orders.items():
                if name in there:
                    model = models.setdefault(id(order.model), order.model.astype("<f8").tobytes())
                    waiting[name] = self._sent(name, order, model, came)
            yield from self._awaited(waiting, came)
        finally:
            for task in waiting.values():
                self.job.controller.cancel_task(task)

    def _sent(self, name: str, order: Order, model: bytes, came: queue.SimpleQueue[tuple[str, Any]]) -> FlareTask:
        """One task for one site; FLARE itself drops what any other site sends under its id."""
        from nvflare.apis.controller_spec import Task as FlareTask

        def received(client_task: Any, fl_ctx: FLContext) -> None:  # noqa: ARG001 - FLARE's names
            came.put((name, _upload_of(client_task.result)))

        seconds = math.ceil(self.reply_seconds)
        task = FlareTask(ORDER, _letter(order, model), timeout=seconds, result_received_cb=received)
        self.job.controller.send(task, self.job.context, targets=[name])
        return task

    def _awaited(
        self, sent: Mapping[str, FlareTask], came: queue.SimpleQueue[tuple[str, Any]]
    ) -> Iterator[tuple[str, Any]]:
        waiting, until = set(sent), time.monotonic() + self.reply_seconds
        while waiting and (left := until - time.monotonic()) > 0:
            if self.job.abort.triggered:
                raise ConnectionError("FLARE has aborted the job")
            over = {name for name in waiting if sent[name].completion_status is not None}  # an answer came before that
            for name, upload in _taken(came, 0.0 if over else min(left, LOOK_SECONDS)):
                waiting.discard(name)
                if upload is not None:
                    yield name, upload
            waiting -= over


def _taken(came: queue.SimpleQueue[tuple[str, Any]], seconds: float) -> Iterator[tuple[str, Any]]:
    """Everything that has come; the first is waited for."""
    with contextlib.suppress(queue.Empty):
        yield came.get(timeout=seconds)
        while True:
            yield came.get_nowait()


def executor(site: Callable[[FLContext], Site]) -> type[Any]:
    """An executor's class for FLARE's client configuration: it answers the task ``epsilog`` for one client.

    Whatever goes wrong is a return code that says nothing; why is in the site's own log. Outside FLARE's simulator that
    log must stay at the site: with ``"allow_log_streaming": true`` in its ``resources.json``, as FLARE provisions it,
    nothing is answered.

    Args:
        site: makes the site from what lies there (``context.get_identity_name()`` is its name), never from a message.
    """
    from nvflare.apis.executor import Executor

    class Answering(Executor):  # type: ignore[misc]
        """A site's part of our rounds."""

        def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:  # noqa: ARG002
            """Answers an order, or says that it did not."""
            return _answer(site, task_name, shareable, fl_ctx)

    return Answering


def _answer(site: Callable[[FLContext], Site], task_name: str, letter: Shareable, context: FLContext) -> Shareable:
    from nvflare.apis.fl_constant import FLContextKey, ReturnCode
    from nvflare.apis.shareable import make_reply
    from nvflare.app_common.logging.constants import is_log_streaming_allowed

    if context.get_prop(FLContextKey.SIMULATE_MODE) is not True and is_log_streaming_allowed(context):
        log.error(
            "no answer is sent: allow_log_streaming must be false in resources.json, or the server reads the logs"
        )
        return make_reply(ReturnCode.EXECUTION_EXCEPTION)
    try:
        if task_name != ORDER:
            raise CheckError("task", ORDER, repr(task_name))
        here = site(context)
        if not here.simulation and not _is_secure(context):
            raise CheckError("site", "a simulation where FLARE authenticates nobody", "another")
        upload = here.answer(_order_of(letter))
        reply = make_reply(ReturnCode.OK)
        reply["upload"] = upload.astype("<f8").tobytes()
    except Exception:  # the server learns that nothing came, and nothing else
        log.exception("no answer is sent")
        return make_reply(ReturnCode.EXECUTION_EXCEPTION)
    return reply


def _is_secure(context: FLContext) -> bool:
    """Whether names are those of certificates, and the other side's is known by its own."""
    from nvflare.apis.fl_constant import FLContextKey

    return context.get_prop(FLContextKey.SECURE_MODE) is True


def _letter(order: Order, model: bytes) -> Shareable:
    """An order as text and bytes, so that nothing of FLARE's has to be decoded into objects."""
    from nvflare.apis.shareable import Shareable

    letter = Shareable()
    letter["order"], letter["model"] = json.dumps(order.to_json()), model
    return letter


def _order_of(letter: Shareable) -> Order:
    """Reads an order; anything else is an error of some kind."""
    return Order.from_json(json.loads(letter["order"]), np.frombuffer(letter["model"], "<f8").astype(np.float64))


def _upload_of(result: Any) -> Any:
    """The doubles of an answer; None where there are none that can be read."""
    from nvflare.apis.fl_constant import ReturnCode

    try:
        if result.get_return_code(default=ReturnCode.OK) != ReturnCode.OK or type(result["upload"]) is not bytes:
            return None
        return np.frombuffer(result["upload"], "<f8")
    except Exception:  # noqa: BLE001 - whatever a sender may have put there
        return None
