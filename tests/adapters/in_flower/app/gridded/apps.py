"""Three sites that fit a line, one with JAX and two with NumPy, and the server that trains it under a charge."""

import os
import signal
import time
from pathlib import Path

import numpy as np
from flwr.serverapp import ServerApp

from epsilog.adapters.flower_app import build_site_client_app, name_clients, train_over_flower
from epsilog.ledger import open_ledger
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import NeighboringRelation
from epsilog.training import AuthorizedRun, Federation, LocalTraining, Randomness, Task
from epsilog.training.models import build_model
from epsilog.training.site import Site, make_function_site_engine, make_task_site_engine

SITES, SEED, DELTA = 3, 4, "1e-6"
SCHEME = ClientLevelCentral(SITES, 1.0, 3, 0.2, 1.0)


def rows_of(site):
    draws = np.random.default_rng(site)
    return draws.standard_normal((4, 2)), draws.standard_normal(4)


def update(site):
    """Plain least squares on the rows of one site."""
    features, targets = rows_of(site)
    features = np.column_stack([features, np.ones(4)])

    def change(model, training):
        return -training.learning_rate * features.T @ (features @ model - targets) / 4

    return change


def computing(site):
    """Site 0 has the compiled engine, the others plain functions."""
    if site:
        return make_function_site_engine(update(site))
    features, targets = rows_of(site)
    clients = Federation(features, targets, np.array([4]))
    model = build_model("linear", inputs=2, classes=None)
    return make_task_site_engine(Task("lines", "site", True, model, LocalTraining(1.0), clients, None, None))


def books_of(path):
    """A site's ledger, made by whoever answers for the site."""
    with open_ledger(path) as books:
        books.create_budget(
            "site",
            kind="approximate",
            relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            privacy_unit="site",
            simulation=True,
            epsilon="50",
            delta="0.01",
        )


def site_at(number, folder):
    ledger = Path(folder) / f"site-{number}.db"
    return Site(computing(number), "site", True, ledger, "site/runs", DELTA, trusts_server=True, simulation=True)


def task_of(names):
    model = build_model("linear", inputs=2, classes=None)
    clients = Federation.remote_clients(names, width=2)
    return Task("lines", "site", True, model, LocalTraining(0.1), clients, None, None, {})


def late(message, context, call_next):
    """Site 2 computes its first answer, and sends it when nobody waits for it any more."""
    reply, folder = call_next(message, context), Path(str(context.node_config["folder"]))
    (folder / f"node-{context.node_config['site']}").write_text(str(context.node_id))
    if context.node_config["site"] == 2 and not (folder / "was-late").exists():
        (folder / "was-late").touch()
        time.sleep(float(context.run_config["reply-seconds"]) + 1)
    return reply


client = build_site_client_app(
    lambda context: site_at(int(context.node_config["site"]), str(context.node_config["folder"])), mods=[late]
)
server = ServerApp()


class Dying:
    """A grid whose server dies in round 2, once its messages are out; it notes which nodes it heard of, and when."""

    def __init__(self, grid, folder):
        self.grid, self.folder = grid, folder

    def __getattr__(self, name):
        return getattr(self.grid, name)

    def push_messages(self, messages):
        ids = self.grid.push_messages(messages)
        with (self.folder / "pushed").open("a") as lines:
            lines.write(f"{len(messages)}\n")
        if self.pushed() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return ids

    def pushed(self):
        return len((self.folder / "pushed").read_text().splitlines())

    def pull_messages(self, ids):
        replies = list(self.grid.pull_messages(ids))
        with (self.folder / "heard").open("a") as lines:
            lines.writelines(f"{self.pushed()} {one.metadata.src_node_id}\n" for one in replies if one.has_content())
        return replies


def paid_from(books):
    """The server's own charge: made at first, found again when a killed run goes on."""
    books.create_budget("lines", kind="approximate", privacy_unit="site", epsilon="50", delta="0.01", simulation=True)
    charge = books.reserve("lines", SCHEME.release(), key="one", delta=DELTA, rounds=SCHEME.rounds, simulation=True)
    return AuthorizedRun(SCHEME, charge, Randomness.from_seed(SEED))


@server.main()
def main(grid, context):
    folder = Path(str(context.run_config["folder"]))
    task = task_of(name_clients(sorted(folder.glob("site-*.pub"))))
    with open_ledger(folder / "server.db") as books:
        paid = paid_from(books)
        seconds = float(context.run_config["reply-seconds"])
        trained = train_over_flower(
            Dying(grid, folder), paid, task, folder=folder / "run", run="one", reply_seconds=seconds
        )
        paid.charge.commit()
    np.save(folder / "model.tmp.npy", trained.model)
    (folder / "model.tmp.npy").rename(folder / "model.npy")
