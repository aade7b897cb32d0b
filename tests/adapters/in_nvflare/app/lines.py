"""Three sites that fit a line, one with JAX and two with NumPy, and the server that trains it under a charge.

In the environment, ``LINES`` is the folder where the ledgers lie, at the sites and at the server, and ``REAL`` says
that this is no simulation.
"""

import os
import signal
from pathlib import Path

import numpy as np

from epsilog.adapters.nvflare import FlareCourier, controller, executor, train
from epsilog.spend import open_ledger
from epsilog.terms import ClientLevelCentral, NeighboringRelation
from epsilog.train import Federation, PaidRun, Randomness, Task, Training
from epsilog.train.models import build
from epsilog.train.site import Site, from_functions, from_task

NAMES, SEED, DELTA = ("site-1", "site-2", "site-3"), 4, "1e-6"
SCHEME = ClientLevelCentral(len(NAMES), 1.0, 3, 0.2, 1.0)
SECONDS = 60.0
SIMULATION = "REAL" not in os.environ


def folder():
    return Path(os.environ["LINES"])


def rows_of(name):
    draws = np.random.default_rng(NAMES.index(name))
    return draws.standard_normal((4, 2)), draws.standard_normal(4)


def update(name):
    """Plain least squares on the rows of one site."""
    features, targets = rows_of(name)
    features = np.column_stack([features, np.ones(4)])

    def change(model, training):
        return -training.learning_rate * features.T @ (features @ model - targets) / 4

    return change


def computing(name):
    """The last site has the compiled engine, the others plain functions."""
    if name != NAMES[-1]:
        return from_functions(update(name))
    features, targets = rows_of(name)
    clients = Federation(features, targets, np.array([4]))
    model = build("linear", inputs=2, classes=None)
    return from_task(Task("lines", "site", True, model, Training(1.0), clients, None, None))


def books_of(path, epsilon="50"):
    """A site's ledger, made by whoever answers for the site."""
    with open_ledger(path) as books:
        books.create_budget(
            "site",
            kind="approximate",
            relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            privacy_unit="site",
            simulation=SIMULATION,
            epsilon=epsilon,
            delta="0.01",
        )


def site_at(name, where):
    ledger = where / f"{name}.db"
    return Site(computing(name), "site", True, ledger, "site/runs", DELTA, trusts_server=True, simulation=SIMULATION)


def task_of(names):
    model = build("linear", inputs=2, classes=None)
    clients = Federation.elsewhere(names, width=2)
    return Task("lines", "site", True, model, Training(0.1), clients, None, None, {})


def paid_from(books):
    """The server's own charge: made at first, found again when a killed run goes on."""
    kind = {"simulation": SIMULATION}
    books.create_budget("lines", kind="approximate", privacy_unit="site", epsilon="50", delta="0.01", **kind)
    charge = books.reserve("lines", SCHEME.release(), key="one", delta=DELTA, rounds=SCHEME.rounds, **kind)
    return PaidRun(SCHEME, charge, Randomness.simulated(SEED) if SIMULATION else Randomness.from_os())


def heard(carry):
    """Notes of each round who was heard; a simulation's server dies in the second, once somebody has answered."""

    def noted(courier, orders):
        with (folder() / "heard").open("a") as lines:
            lines.write("\n")
        for name, upload in carry(courier, orders):
            with (folder() / "heard").open("a") as lines:
                lines.write(f"{name} ")
            if SIMULATION and (folder() / "heard").read_text().count("\n") == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            yield name, upload

    return noted


def main(job):
    FlareCourier.carry = heard(FlareCourier.carry)
    with open_ledger(folder() / "server.db") as books:
        paid = paid_from(books)
        trained = train(job, paid, task_of(NAMES), folder=folder() / "run", run="one", reply_seconds=SECONDS)
        paid.charge.commit()
    np.save(folder() / "model.tmp.npy", trained.model)
    (folder() / "model.tmp.npy").rename(folder() / "model.npy")


def site(context):
    return site_at(context.get_identity_name(), folder())


Rounds, Answering = controller(main), executor(site)
