"""A simulation spread over Flower's nodes: every node can compute for every client, since the data is public.

On the nodes, in the module that the app names:

    app = host_app(lambda context: my_task())

On the server, inside a ``ServerApp``'s main:

    run_rounds(paid, task, folder=folder, engine=on_hosts(FlowerSimulationTransport(grid, 600), scheme, run, task))

What a client sends, and what the server makes of it, is as in ``flower_app``; a node answers for many clients at once,
and keeps no books of theirs: a simulation spends nobody's privacy. Flower is imported where it is used.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilog.adapters.flower_app import (
    GridSender,
    build_client_app,
    decode_array,
    decode_request,
    encode_message,
    exchange_messages,
)
from epsilog.terms import CheckError
from epsilog.training import Task
from epsilog.training.engines import make_engine
from epsilog.training.engines.remote import TrainRequest
from epsilog.training.site import compute_upload

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

__all__ = ["FlowerSimulationTransport", "build_simulation_client_app"]

LOOKS = 0.5  # seconds between two looks at which nodes are connected
ATTEMPTS = 4  # to compute a client in a round; one that fails so often is silent
UNAVAILABLE, CRASHED = (3, 4, 5), 8  # Flower's codes: of a message, a reply or a node; of an app


class _Watched:
    """What becomes of the nodes that compute: asked for only once in a while.

    Attributes:
        again: clients that are to be computed again.
        gone: nodes that are not there any more.
    """

    def __init__(self, grid: Any, node_of: Mapping[tuple[str, ...], int]) -> None:
        self._grid, self._node_of, self._found, self._until = grid, node_of, frozenset[int](), -math.inf
        self.again, self.gone = list[str](), set[int]()

    def is_lost(self, names: tuple[str, ...]) -> bool:
        """Whether the node that computes for these clients is no longer connected; they are noted then."""
        if time.monotonic() >= self._until:
            self._found = frozenset(node.node_id for node in self._grid.get_nodes())
            self._until = time.monotonic() + LOOKS
        if self._node_of[names] in self._found:
            return False
        self._note_lost(names)
        return True

    def refused(self, names: tuple[str, ...], reply: Message | None) -> None:
        """Notes clients whose node, by Flower's word, is gone or has lost the message."""
        if reply is None or not reply.has_error():
            return
        if reply.error.code in UNAVAILABLE:
            self._note_lost(names)
        elif reply.error.code == CRASHED:  # the node is there, and starts the app again
            self.again.extend(names)

    def _note_lost(self, names: tuple[str, ...]) -> None:
        self.again.extend(names)
        self.gone.add(self._node_of[names])


@dataclasses.dataclass(frozen=True)
class FlowerSimulationTransport(GridSender):
    """Orders of many clients as one message to each node.

    A node that is lost while it computes is told of. Its clients are dealt out again, to the nodes that are connected
    by then: every node has every client's rows, and the same draws give the same answer.

    Attributes:
        tell: is told of nodes that are lost, and of a wait for one.
    """

    tell: Callable[[str], None] = lambda _says: None

    def carry(self, orders: Mapping[str, TrainRequest]) -> Iterator[tuple[str, Any]]:
        """As ``Courier`` says; clients are dealt out to the nodes that are connected.

        Raises:
            ConnectionError: no node was connected within ``reply_seconds``.
        """
        left, until, gone = list(orders), time.monotonic() + self.reply_seconds, set[int]()
        for _ in range(ATTEMPTS):
            nodes = self._nodes(until, gone)
            parts = [left[place :: len(nodes)] for place in range(len(nodes))]
            node_of = {tuple(names): node for names, node in zip(parts, nodes, strict=True) if names}
            sent = {names: self._letter({n: orders[n] for n in names}, node) for names, node in node_of.items()}
            watched, seconds = _Watched(self.grid, node_of), max(0.0, until - time.monotonic())
            for names, reply in exchange_messages(
                self.grid, sent, seconds, lost=watched.is_lost, refused=watched.refused
            ):
                uploads = decode_array(reply, "upload")
                if getattr(uploads, "ndim", 0) == 2 and len(uploads) == len(names):
                    yield from zip(names, map(np.array, uploads), strict=True)
            left = watched.again
            if not left:
                return
            gone |= watched.gone
            self.tell(f"a node was lost; {len(left)} clients are computed again")

    def _nodes(self, until: float, gone: Collection[int]) -> list[int]:
        """The nodes that are connected, but for those that are gone, once there is one."""
        told = False
        while not (found := sorted({node.node_id for node in self.grid.get_nodes()} - {*gone})):
            if time.monotonic() > until:
                raise ConnectionError(f"no node of Flower is connected, after {self.reply_seconds:g} seconds")
            if not told:
                self.tell("no node is connected; waiting for one")
                told = True
            time.sleep(LOOKS)
        return found

    def _letter(self, orders: Mapping[str, TrainRequest], node: int) -> Message:
        """One message: the orders differ in nothing but their draws."""
        draws = {name: order.to_json()["draws"] for name, order in orders.items()}
        return encode_message(next(iter(orders.values())), node, self.reply_seconds, clients=json.dumps(draws))


def build_simulation_client_app(task: Callable[[Context], Task]) -> ClientApp:
    """A ``ClientApp`` that answers TRAIN messages for any clients of a simulation.

    Args:
        task: makes the whole task, as the server has it.
    """
    return build_client_app(lambda message, context: _uploads(message, task(context)))


def _uploads(message: Message, task: Task) -> Any:
    """A row for each client: what it would send."""
    whole, asked = decode_request(message), json.loads(str(message.content["order"]["clients"]))
    if whole.draws is None or None in asked.values():
        raise CheckError("draws", "given, as in a simulation", "None")
    engine = make_engine(None, dataclasses.replace(task, training=whole.training))
    orders = {
        int(name): TrainRequest.from_json({**whole.to_json(), "draws": draws}, whole.model)
        for name, draws in asked.items()
    }
    return np.stack([compute_upload(order, engine, np.array([client])) for client, order in orders.items()])
