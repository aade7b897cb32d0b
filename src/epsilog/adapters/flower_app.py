"""Flower as the network of a run (flwr >= 1.41): our rounds, sampler, noise, ledger and resume, its messages and nodes.

On the nodes, in the module that the app names:

    app = client_app(lambda context: Site(from_task(my_task(context)), ...))

On the server, inside a ``ServerApp``'s main, under a charge of one's own ledger:

    train(grid, AuthorizedRun(scheme, charge, Randomness.from_os()), task, folder=folder, reply_seconds=600)

Who a client is, is its node's public key and nothing that it says. Flower is imported where it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from epsilog.terms import CheckError, RoundRecord, check
from epsilog.training import AuthorizedRun, Task, TrainingResult, run_rounds
from epsilog.training.engines.remote import TrainRequest, make_remote_engine
from epsilog.training.site import Site

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

Key = TypeVar("Key")
REFUSED = 1  # the code of an error reply; why stays in the node's own log
PULL_SECONDS = 0.25
log = logging.getLogger(__name__)


def name_public_key(public_key: bytes) -> str:
    """What a client is called: SHA-256 of its node's public key, 64 hex digits.

    Args:
        public_key: in PEM or OpenSSH form, as in the key's file; both give the same name.

    Raises:
        ValueError: no public key.
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
    """What ``Federation.elsewhere`` calls the clients whose nodes have these public keys, in the order of the list."""
    return tuple(name_public_key(path.read_bytes()) for path in keys)


def train_over_flower(
    grid: Grid,
    paid: AuthorizedRun,
    task: Task,
    *,
    folder: Path,
    run: str,
    reply_seconds: float,
    on_round: Callable[[RoundRecord], object] | None = None,
) -> TrainingResult:
    """Runs the rounds that are due over Flower's nodes; see ``run_rounds``, which it calls.

    Args:
        grid: what Flower hands to a ``ServerApp``.
        paid: the scheme, the charge that pays for it, and where its draws come from.
        task: what is trained, with ``Federation.elsewhere(client_names(...))`` as its clients.
        folder: the run's own folder, at the server.
        run: the run's key, under which sites book it; the same when a killed run goes on.
        reply_seconds: how long a round waits for answers; who is later is silent.
        on_round: as in ``run_rounds``.

    Raises:
        CheckError: a scheme that must not show a server single uploads, or a client that no node is known for.
    """
    courier = FlowerTransport(grid, reply_seconds)
    courier.require(task.clients.names)
    engine = make_remote_engine(courier, paid.scheme, run)
    return run_rounds(paid, task, folder=folder, on_round=on_round, engine=engine)


@dataclass(frozen=True, slots=True)
class GridSender:
    """What carries orders as Flower's TRAIN messages.

    Attributes:
        grid: what Flower hands to a ``ServerApp``.
        reply_seconds: how long answers are waited for, and how long an order is valid.
    """

    grid: Grid
    reply_seconds: float

    def __post_init__(self) -> None:
        check.positive()(reply_seconds=self.reply_seconds)


class FlowerTransport(GridSender):
    """Orders as messages, one to each client's own node."""

    __slots__ = ()

    def nodes(self) -> dict[str, int]:
        """Nodes that are connected, by the names of their keys; a key that two nodes show is nobody's."""
        found: dict[str, list[int]] = {}
        for node in self.grid.get_nodes():
            with contextlib.suppress(ValueError):  # a key that is none is nobody's
                found.setdefault(name_public_key(node.public_key), []).append(node.node_id)
        return {name: ids[0] for name, ids in found.items() if len(ids) == 1}

    def require(self, names: Sequence[str]) -> None:
        """Refuses to begin while none of the clients is connected, or where they are not named by their keys."""
        if not names:
            raise CheckError("clients", "elsewhere, named by their nodes' public keys", "rows that lie here")
        if not set(names) & set(self.nodes()):
            raise CheckError(
                "clients", "connected, one of them at least", "none of the names is a connected node's key"
            )

    def carry(self, orders: Mapping[str, TrainRequest]) -> Iterator[tuple[str, Any]]:
        """As ``Courier`` says. Who is not connected is silent at once."""
        nodes = self.nodes()
        sent = {
            name: encode_message(order, nodes[name], self.reply_seconds)
            for name, order in orders.items()
            if name in nodes
        }
        for name, reply in exchange_messages(self.grid, sent, self.reply_seconds):
            yield name, decode_array(reply, "upload")


def exchange_messages(
    grid: Grid,
    sent: Mapping[Key, Message],
    seconds: float,
    *,
    lost: Callable[[Key], bool] = lambda _: False,
    refused: Callable[[Key, Message | None], None] = lambda _, __: None,
) -> Iterator[tuple[Key, Message]]:
    """Sends messages and yields what answers each in time; errors and what Flower itself cannot read are left out.

    Args:
        grid: what Flower hands to a ``ServerApp``.
        sent: the messages, each by what it is about.
        seconds: how long answers are waited for.
        lost: whether a message is not waited for any more.
        refused: is told of a message that an error, or nothing that can be read, has answered.
    """
    ids = list(grid.push_messages(list(sent.values()))) if sent else []
    if len(ids) != len(sent):
        raise ConnectionError(f"Flower took {len(ids)} of {len(sent)} messages; the model may be too large for one")
    waiting = {letter: name for letter, name in zip(ids, sent, strict=True) if letter is not None}
    until = time.monotonic() + seconds
    while waiting and time.monotonic() < until:
        for letter, name in list(waiting.items()):
            for reply in _pull_replies(grid, letter):
                del waiting[letter]
                if reply is not None and reply.metadata.reply_to_message_id == letter and reply.has_content():
                    yield name, reply
                else:
                    refused(name, reply)
                break
            else:
                if lost(name):
                    del waiting[letter]
        if waiting:
            time.sleep(PULL_SECONDS)


def _pull_replies(grid: Grid, letter: str) -> list[Message | None]:
    """What has come in answer to one message; None of what Flower itself cannot read."""
    try:
        return list(grid.pull_messages([letter]))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        log.warning("an answer could not be read")
        return [None]


def build_site_client_app(site: Callable[[Context], Site], *, mods: Sequence[Any] = ()) -> ClientApp:
    """A ``ClientApp`` that answers TRAIN messages for one client.

    Args:
        site: makes the site from the node's own context (``context.node_config``), never from a message.
        mods: Flower's mods.
    """
    return build_client_app(lambda message, context: site(context).answer(decode_request(message)), mods)


def build_client_app(upload_for: Callable[[Message, Context], Any], mods: Sequence[Any] = ()) -> ClientApp:
    """A ``ClientApp`` that answers TRAIN messages with an array.

    Whatever goes wrong is an error reply that says nothing: Flower would send an exception's text, and with it perhaps
    a row. Why is in the node's log.
    """
    from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=list(mods))

    def answer(message: Message, context: Context) -> Message:
        try:
            upload = upload_for(message, context)
            content = RecordDict({"upload": ArrayRecord({"upload": Array(upload)})})
        except Exception:  # the server learns that it was refused, and nothing else
            log.exception("no answer is sent")
            return Message(Error(REFUSED, "refused"), reply_to=message)
        return Message(content, reply_to=message)

    app.train()(answer)
    return app


def encode_message(order: TrainRequest, node: int, seconds: float, **more: str) -> Message:
    """An order as a message to a node, with more text beside it."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

    content = RecordDict(
        {
            "order": ConfigRecord({"order": json.dumps(order.to_json()), **more}),
            "model": ArrayRecord({"model": Array(order.model)}),
        }
    )
    return Message(content, node, MessageType.TRAIN, ttl=seconds)


def decode_request(message: Message) -> TrainRequest:
    """Reads an order; anything else is an error of some kind."""
    model = decode_array(message, "model")
    return TrainRequest.from_json(json.loads(str(message.content["order"]["order"])), model)


def decode_array(message: Message, name: str) -> Any:
    """The one array of a message; None where there is none that can be read."""
    try:
        content: Any = message.content
        return content[name][name].numpy()
    except Exception:  # noqa: BLE001 - whatever a sender may have put there
        return None
