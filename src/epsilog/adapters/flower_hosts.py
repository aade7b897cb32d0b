"""A simulation spread over Flower's nodes: every node can compute for every client, since the data is public.

On the nodes, in the module that the app names:

    app = host_app(lambda context: my_task())

On the server, inside a ``ServerApp``'s main:

    run_rounds(paid, task, folder=folder, engine=on_hosts(HostCourier(grid, 600), scheme, run, task))

What a client sends, and what the server makes of it, is as in ``flower_app``; a node answers for many clients at once,
and keeps no books of theirs: a simulation spends nobody's privacy. Flower is imported where it is used.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from epsilog.adapters.flower_app import OverGrid, answering, array_of, exchanged, message_of, order_of
from epsilog.terms import CheckError
from epsilog.train import Task
from epsilog.train.engines import made
from epsilog.train.orders import Order
from epsilog.train.site import computed

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

__all__ = ["HostCourier", "host_app"]


class HostCourier(OverGrid):
    """Orders of many clients as one message to each node."""

    __slots__ = ()

    def carry(self, orders: Mapping[str, Order]) -> Iterator[tuple[str, Any]]:
        """As ``Courier`` says; clients are dealt out to the nodes that are connected now."""
        nodes = sorted(node.node_id for node in self.grid.get_nodes())
        if not nodes:
            raise ConnectionError("no node of Flower is connected")
        parts = [list(orders)[place :: len(nodes)] for place in range(len(nodes))]
        sent = {
            tuple(names): self._letter({name: orders[name] for name in names}, node)
            for names, node in zip(parts, nodes, strict=True)
            if names
        }
        for names, reply in exchanged(self.grid, sent, self.reply_seconds):
            uploads = array_of(reply, "upload")
            if getattr(uploads, "ndim", 0) == 2 and len(uploads) == len(names):
                yield from zip(names, map(np.array, uploads), strict=True)

    def _letter(self, orders: Mapping[str, Order], node: int) -> Message:
        """One message: the orders differ in nothing but their draws."""
        draws = {name: order.to_json()["draws"] for name, order in orders.items()}
        return message_of(next(iter(orders.values())), node, self.reply_seconds, clients=json.dumps(draws))


def host_app(task: Callable[[Context], Task]) -> ClientApp:
    """A ``ClientApp`` that answers TRAIN messages for any clients of a simulation.

    Args:
        task: makes the whole task, as the server has it.
    """
    return answering(lambda message, context: _uploads(message, task(context)))


def _uploads(message: Message, task: Task) -> Any:
    """A row for each client: what it would send."""
    whole, asked = order_of(message), json.loads(str(message.content["order"]["clients"]))
    if whole.draws is None or None in asked.values():
        raise CheckError("draws", "given, as in a simulation", "None")
    engine = made(None, dataclasses.replace(task, training=whole.training))
    orders = {
        int(name): Order.from_json({**whole.to_json(), "draws": draws}, whole.model) for name, draws in asked.items()
    }
    return np.stack([computed(order, engine, np.array([client])) for client, order in orders.items()])
