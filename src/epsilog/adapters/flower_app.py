"""Run the rounds over Flower's nodes (flwr >= 1.41); ``run_rounds`` samples, adds noise, charges and resumes.

On the nodes, in the module that the app names:

    app = build_site_client_app(lambda context: Site(make_task_site_engine(my_task(context)), ...))

On the server, inside the main function of a ``ServerApp``, under a charge of the ledger of the server:

    authorized = AuthorizedRun(scheme, charge, Randomness.from_os())
    train_over_flower(grid, authorized, task, folder=folder, run=charge.key, reply_seconds=600)

The public key of its node identifies a client; nothing that a client sends does.

A simulation spreads its clients over the nodes instead, since every node has the public data of every client:
``build_simulation_client_app`` on the nodes, and ``FlowerSimulationTransport`` on the server. Such nodes keep no
ledger, since a simulation spends no privacy budget. Flower is imported on first use.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from epsilog.terms import CheckError, RoundRecord, check
from epsilog.training import AuthorizedRun, Task, TrainingResult, run_rounds
from epsilog.training.engines import make_engine
from epsilog.training.engines.remote import TrainRequest, make_remote_engine
from epsilog.training.site import Site, compute_upload

__all__ = [
    "FlowerSimulationTransport",
    "build_simulation_client_app",
    "build_site_client_app",
    "name_clients",
    "train_over_flower",
]

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

Key = TypeVar("Key")
REFUSED = 1  # code of an error reply; the reason stays in the log of the node
PULL_SECONDS = 0.25
LOOKUP_SECONDS = 0.5  # between two lookups of the connected nodes
MAX_ATTEMPTS = 4  # per simulated client and round, before it counts as a non-responder
UNAVAILABLE, CRASHED = (3, 4, 5), 8  # Flower's error codes: of a lost message, reply or node; of a crashed app
log = logging.getLogger(__name__)


def name_public_key(public_key: bytes) -> str:
    """Return the name of a client: the SHA-256 of its node's public key, 64 hex digits.

    Args:
        public_key: in PEM or OpenSSH form, as in the file of the key; both give the same name.

    Raises:
        ValueError: this is no public key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as forms

    load = forms.load_ssh_public_key if public_key.startswith((b"ssh-", b"ecdsa-")) else forms.load_pem_public_key
    try:
        der = load(public_key).public_bytes(forms.Encoding.DER, forms.PublicFormat.SubjectPublicKeyInfo)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    return hashlib.sha256(der).hexdigest()


def name_clients(keys: Sequence[Path]) -> tuple[str, ...]:
    """Return the client names for ``Federation.remote_clients`` from files of public keys, in their order."""
    return tuple(name_public_key(path.read_bytes()) for path in keys)


def train_over_flower(
    grid: Grid,
    authorized: AuthorizedRun,
    task: Task,
    *,
    folder: Path,
    run: str,
    reply_seconds: float,
    on_round: Callable[[RoundRecord], object] | None = None,
) -> TrainingResult:
    """Run the remaining rounds over Flower's nodes, by ``run_rounds``.

    Args:
        grid: the grid of a ``ServerApp``.
        authorized: the scheme, its charge and its randomness.
        task: what is trained, with ``Federation.remote_clients(name_clients(...))`` as its clients.
        folder: the folder of the run at the server.
        run: the key under which sites charge the run; a resumed run keeps it.
        reply_seconds: how long a round waits for replies; later ones count as none.
        on_round: as in ``run_rounds``.

    Raises:
        CheckError: the scheme must not show single uploads to a server, or no client is connected.
    """
    transport = FlowerTransport(grid, reply_seconds)
    transport.require_connected(task.clients.names)
    engine = make_remote_engine(transport, authorized.scheme, run)
    return run_rounds(authorized, task, folder=folder, on_round=on_round, engine=engine)


@dataclass(frozen=True)
class FlowerTransport:
    """Carries each request to the node of its client.

    Attributes:
        grid: the grid of a ``ServerApp``.
        reply_seconds: how long replies are awaited, and how long a request is valid.
    """

    grid: Grid
    reply_seconds: float

    def __post_init__(self) -> None:
        check.positive()(reply_seconds=self.reply_seconds)

    def list_nodes(self) -> dict[str, int]:
        """Return the connected nodes by the names of their keys, without keys of several nodes."""
        found: dict[str, list[int]] = {}
        for node in self.grid.get_nodes():
            with contextlib.suppress(ValueError):  # an invalid key names no client
                found.setdefault(name_public_key(node.public_key), []).append(node.node_id)
        return {name: ids[0] for name, ids in found.items() if len(ids) == 1}

    def require_connected(self, names: Sequence[str]) -> None:
        """Refuse to begin while no client is connected, or if clients are not named by their keys."""
        if not names:
            raise CheckError("clients", "elsewhere, named by their nodes' public keys", "rows that lie here")
        if not set(names) & set(self.list_nodes()):
            bound = "connected, one of them at least"
            raise CheckError(
                "clients", bound, "no connected node with one of the names; start nodes or correct the names"
            )

    def carry(self, requests: Mapping[str, TrainRequest]) -> Iterator[tuple[str, Any]]:
        """Carry requests as ``ClientTransport`` does; clients that are not connected are skipped at once."""
        nodes, seconds = self.list_nodes(), self.reply_seconds
        sent = {name: encode_message(one, nodes[name], seconds) for name, one in requests.items() if name in nodes}
        for name, reply in exchange_messages(self.grid, sent, seconds):
            yield name, decode_array(reply, "upload")


class _NodeMonitor:
    """Notes which nodes of a simulation are lost, with few lookups."""

    def __init__(self, grid: Any, node_of: Mapping[tuple[str, ...], int]) -> None:
        self._grid, self._node_of, self._connected, self._until = grid, node_of, frozenset[int](), -math.inf
        self.retry, self.lost = list[str](), set[int]()

    def is_lost(self, names: tuple[str, ...]) -> bool:
        """Return whether the node of these clients is lost, and note them if so."""
        if time.monotonic() >= self._until:
            self._connected = frozenset(node.node_id for node in self._grid.get_nodes())
            self._until = time.monotonic() + LOOKUP_SECONDS
        if self._node_of[names] in self._connected:
            return False
        self._note_lost(names)
        return True

    def note_refusal(self, names: tuple[str, ...], reply: Message | None) -> None:
        """Note clients with a lost node or message, by Flower's error code."""
        if reply is None or not reply.has_error():
            return
        if reply.error.code in UNAVAILABLE:
            self._note_lost(names)
        elif reply.error.code == CRASHED:  # the node is still there and starts the app again
            self.retry.extend(names)

    def _note_lost(self, names: tuple[str, ...]) -> None:
        self.retry.extend(names)
        self.lost.add(self._node_of[names])


@dataclass(frozen=True)
class FlowerSimulationTransport(FlowerTransport):
    """Carries the requests of many simulated clients as one message to each node.

    The clients of a lost node go to the nodes that are left: every node has the rows of every client, and equal draws
    give equal uploads.

    Attributes:
        notify: receives messages about lost nodes and about waiting.
    """

    notify: Callable[[str], None] = lambda _message: None

    def carry(self, requests: Mapping[str, TrainRequest]) -> Iterator[tuple[str, Any]]:
        """Carry requests as ``ClientTransport`` does, spread over the connected nodes.

        Raises:
            ConnectionError: no node connected within ``reply_seconds``.
        """
        left, until, lost = list(requests), time.monotonic() + self.reply_seconds, set[int]()
        for _ in range(MAX_ATTEMPTS):
            nodes = self._await_nodes(until, lost)
            parts = [left[place :: len(nodes)] for place in range(len(nodes))]
            node_of = {tuple(names): node for names, node in zip(parts, nodes, strict=True) if names}
            sent = {names: self._encode({n: requests[n] for n in names}, node) for names, node in node_of.items()}
            monitor, seconds = _NodeMonitor(self.grid, node_of), max(0.0, until - time.monotonic())
            replies = exchange_messages(
                self.grid, sent, seconds, is_lost=monitor.is_lost, on_refusal=monitor.note_refusal
            )
            for names, reply in replies:
                uploads = decode_array(reply, "upload")
                if getattr(uploads, "ndim", 0) == 2 and len(uploads) == len(names):
                    yield from zip(names, map(np.array, uploads), strict=True)
            left = monitor.retry
            if not left:
                return
            lost |= monitor.lost
            self.notify(f"a node was lost; {len(left)} clients are computed again")

    def _await_nodes(self, until: float, lost: Collection[int]) -> list[int]:
        """Return the connected nodes without the lost ones, as soon as there is one."""
        waiting = False
        while not (found := sorted({node.node_id for node in self.grid.get_nodes()} - {*lost})):
            if time.monotonic() > until:
                raise ConnectionError(
                    f"no node of Flower connected within {self.reply_seconds:g} seconds; start a SuperNode"
                )
            if not waiting:
                self.notify("no node is connected; waiting for one")
                waiting = True
            time.sleep(LOOKUP_SECONDS)
        return found

    def _encode(self, requests: Mapping[str, TrainRequest], node: int) -> Message:
        """Return one message for requests that differ in their draws alone."""
        draws = {name: request.to_json()["draws"] for name, request in requests.items()}
        return encode_message(next(iter(requests.values())), node, self.reply_seconds, clients=json.dumps(draws))


def exchange_messages(
    grid: Grid,
    sent: Mapping[Key, Message],
    seconds: float,
    *,
    is_lost: Callable[[Key], bool] = lambda _: False,
    on_refusal: Callable[[Key, Message | None], None] = lambda _, __: None,
) -> Iterator[tuple[Key, Message]]:
    """Send messages and yield the replies in time, without errors and unreadable ones.

    Args:
        grid: the grid of a ``ServerApp``.
        sent: the messages by key.
        seconds: how long replies are awaited.
        is_lost: whether the reply to a message is no longer awaited.
        on_refusal: receives an error reply, or None for an unreadable one.
    """
    ids = list(grid.push_messages(list(sent.values()))) if sent else []
    if len(ids) != len(sent):
        raise ConnectionError(f"Flower took {len(ids)} of {len(sent)} messages; the model may be too large for one")
    waiting = {message_id: key for message_id, key in zip(ids, sent, strict=True) if message_id is not None}
    until = time.monotonic() + seconds
    while waiting and time.monotonic() < until:
        for message_id, key in list(waiting.items()):
            for reply in _pull_replies(grid, message_id):
                del waiting[message_id]
                if reply is not None and reply.metadata.reply_to_message_id == message_id and reply.has_content():
                    yield key, reply
                else:
                    on_refusal(key, reply)
                break
            else:
                if is_lost(key):
                    del waiting[message_id]
        if waiting:
            time.sleep(PULL_SECONDS)


def _pull_replies(grid: Grid, message_id: str) -> list[Message | None]:
    """Return the replies to one message; None for one that Flower cannot read."""
    try:
        return list(grid.pull_messages([message_id]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        log.warning("an answer could not be read")
        return [None]


def build_site_client_app(site: Callable[[Context], Site], *, mods: Sequence[Any] = ()) -> ClientApp:
    """Build a ``ClientApp`` that answers TRAIN messages for one client.

    Args:
        site: makes the site from the context of the node (``context.node_config``), never from a message.
        mods: Flower's mods.
    """
    return _build_client_app(lambda message, context: site(context).answer(decode_request(message)), mods)


def build_simulation_client_app(task: Callable[[Context], Task]) -> ClientApp:
    """Build a ``ClientApp`` that answers TRAIN messages for any clients of a simulation.

    Args:
        task: makes the whole task, equal to the task of the server.
    """
    return _build_client_app(lambda message, context: _compute_uploads(message, task(context)))


def _build_client_app(compute: Callable[[Message, Context], Any], mods: Sequence[Any] = ()) -> ClientApp:
    """Build a ``ClientApp`` that answers TRAIN messages with an array.

    Every failure is an error reply without details, since Flower would send the text of an exception, which may hold a
    row. The log of the node has the reason.
    """
    from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=list(mods))

    def answer(message: Message, context: Context) -> Message:
        try:
            upload = compute(message, context)
            content = RecordDict({"upload": ArrayRecord({"upload": Array(upload)})})
        except Exception:  # the server learns of the refusal alone
            log.exception("no answer is sent")
            return Message(Error(REFUSED, "refused"), reply_to=message)
        return Message(content, reply_to=message)

    app.train()(answer)
    return app


def _compute_uploads(message: Message, task: Task) -> Any:
    """Return the uploads of simulated clients, one row each."""
    shared, draws_of = decode_request(message), json.loads(str(message.content["order"]["clients"]))
    if shared.draws is None or None in draws_of.values():
        raise CheckError("draws", "given, as in a simulation", "None")
    engine = make_engine(None, dataclasses.replace(task, training=shared.training))
    requests = {
        int(name): TrainRequest.from_json({**shared.to_json(), "draws": draws}, shared.model)
        for name, draws in draws_of.items()
    }
    return np.stack([compute_upload(request, engine, np.array([client])) for client, request in requests.items()])


def encode_message(request: TrainRequest, node: int, seconds: float, **more: str) -> Message:
    """Return a request as a message to a node, with further text."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

    content = RecordDict(
        {
            "order": ConfigRecord({"order": json.dumps(request.to_json()), **more}),
            "model": ArrayRecord({"model": Array(request.model)}),
        }
    )
    return Message(content, node, MessageType.TRAIN, ttl=seconds)


def decode_request(message: Message) -> TrainRequest:
    """Read a request; anything else raises an error of some kind."""
    model = decode_array(message, "model")
    return TrainRequest.from_json(json.loads(str(message.content["order"]["order"])), model)


def decode_array(message: Message, name: str) -> Any:
    """Return the one array of a message; None if there is no readable one."""
    try:
        content: Any = message.content
        return content[name][name].numpy()
    except Exception:  # noqa: BLE001 - a sender may send anything
        return None
