"""Flower's simulation (Ray): a round of FedAvg with its server-side clip and noise, the clients on PyTorch.

    python bench/peers/with_flower.py '{"examples": 64, "steps": 4, "cohort": 100, "repeats": 7, "shapes": [[64, 64]]}'

CPU seconds are those of the whole tree of processes; starting it is not counted. Every client is asked in every round,
holds its rows in memory already, trains on tensors without a loader, and sends nothing but its model.
"""

import itertools
import json
import os
import statistics
import sys
from pathlib import Path

os.environ.update(
    RAY_DISABLE_IMPORT_WARNING="1", RAY_DEDUP_LOGS="0", FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0"
)

import flwr
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation


def spent():
    """CPU seconds of this process and of all that it started, directly or not."""
    used, parents = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(folder.name)
        parents[pid], used[pid] = int(told[1]), sum(map(int, told[11:13])) / os.sysconf("SC_CLK_TCK")
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(used.get(pid, 0.0) for pid in family)


class Clocked(DifferentialPrivacyServerSideFixedClipping):
    """Keeps what had been spent when each round was aggregated."""

    def __init__(self, *arguments, times, **named):
        super().__init__(*arguments, **named)
        self.times = times

    def aggregate_train(self, server_round, replies):
        made = super().aggregate_train(server_round, replies)
        self.times.append(spent())
        return made


def network(inputs, hidden):
    return torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))


def client(told, inputs, hidden):
    """An app whose clients all hold made-up rows of the same shape."""
    app, kept = ClientApp(), {}

    @app.train()
    def train(message, _):
        torch.set_num_threads(1)
        if not kept:
            kept["net"] = network(inputs, hidden)
            kept["rows"] = torch.randn(told["examples"], inputs), torch.randint(0, 10, (told["examples"],))
        net, (x, y) = kept["net"], kept["rows"]
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        descent, batch = torch.optim.SGD(net.parameters(), lr=0.05), told["examples"] // told["steps"]
        for rows in torch.randperm(told["examples"]).split(batch):
            descent.zero_grad()
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            descent.step()
        content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
        return Message(content=RecordDict(content), reply_to=message)

    return app


def rate(told, inputs, hidden):
    """Client updates a CPU second."""
    server, times = ServerApp(), []

    @server.main()
    def main(grid, _):
        plain = FedAvg(fraction_evaluate=0.0, min_train_nodes=told["cohort"], min_available_nodes=told["cohort"])
        strategy = Clocked(plain, 1.0, 1.0, told["cohort"], times=times)
        start = ArrayRecord(network(inputs, hidden).state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=told["repeats"] + 1)

    settings = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 1, "include_dashboard": False}}
    run_simulation(server, client(told, inputs, hidden), told["cohort"], backend_config=settings)
    return statistics.median(told["cohort"] / (after - before) for before, after in itertools.pairwise(times))


told = json.loads(sys.argv[1])
rates = [rate(told, *shape) for shape in told["shapes"]]
print(json.dumps({"version": f"Flower {flwr.__version__} on Ray, torch {torch.__version__}", "rates": rates}))
