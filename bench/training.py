"""Client updates a CPU second of a round with fresh noise, on one core, as Markdown; beside Opacus where it is there.

    python bench/training.py [--repeats 7]

Client level: 100 clients a round, 64 examples each, batches of 16, 4 local steps, clip and central noise.
Example level: 64 examples, expected batch 16, 4 noisy steps; the draws of noise and batches are timed too.
Uneven clients: all of 1,000 clients in a round, one of them with 16 or with 20,000 examples, the others with 16.
Compilation is not timed. Opacus runs in its own environment (``scripts/peer-environments``): example-level DP-SGD of
the same shape, its module wrapped once for all clients; its noise is PyTorch's own and not cryptographic.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

from typing import Any

import numpy as np

from epsilog.terms import ClientLevelCentral, ExampleLevelClientSide
from epsilog.train import Federation, Randomness, Task, Training
from epsilog.train.engines.compiled import CompiledEngine
from epsilog.train.models import Model, build
from epsilog.train.rounds import begin, next_round

CLIENTS, EXAMPLES, COHORT, STEPS = 200, 64, 100, 4
MODELS = {
    "MLP 784-128-10": build("mlp", inputs=784, classes=10, hidden=(128,)),
    "MLP 64-64-10": build("mlp", inputs=64, classes=10, hidden=(64,)),
    "linear 784-10": build("linear", inputs=784, classes=10),
    "linear 3-1": build("linear", inputs=3, classes=None),
}


def synthetic(model: Model, *, unit_is_client: bool, sizes: tuple[int, ...] = (EXAMPLES,) * CLIENTS) -> Task:
    draws = np.random.default_rng(1)
    shape = (sum(sizes),)
    classes = model.classes
    targets = draws.integers(0, classes, shape) if classes else draws.standard_normal(shape)
    features = draws.standard_normal((*shape, model.inputs)).astype(np.float32)
    return Task(
        name="synthetic",
        unit="client" if unit_is_client else "example",
        unit_is_client=unit_is_client,
        model=model,
        training=Training(0.05, local_steps=STEPS, batch_size=16, nominal_examples=EXAMPLES),
        clients=Federation(features, targets if classes else targets.astype(np.float32), np.array(sizes)),
        test_features=features[:EXAMPLES],
        test_targets=targets[:EXAMPLES],
        facts={},
    )


def updates_per_second(model: Model, *, unit_is_client: bool, repeats: int) -> float:
    if unit_is_client:
        scheme = ClientLevelCentral(CLIENTS, COHORT / CLIENTS, repeats, 1.0, 1.0)
    else:
        scheme = ExampleLevelClientSide(CLIENTS, COHORT, repeats, repeats, 1 / STEPS, 1, 1.0, 1.0)
    engine = CompiledEngine(synthetic(model, unit_is_client=unit_is_client))
    state = next_round(scheme, engine, begin(engine.task), Randomness.from_os()).state
    rates = []
    for _ in range(repeats):
        began = time.process_time()
        outcome = next_round(scheme, engine, state, Randomness.from_os())
        rates.append(len(outcome.custody.participants) / (time.process_time() - began))
    return statistics.median(rates)


def uneven(model: Model, largest: int, *, repeats: int) -> float:
    """CPU seconds of a round in which a thousand clients take part, and one has more examples than the others."""
    engine = CompiledEngine(synthetic(model, unit_is_client=True, sizes=(*(16,) * 999, largest)))
    scheme = ClientLevelCentral(1000, 1.0, repeats + 1, 1.0, 1.0)
    state, times = next_round(scheme, engine, begin(engine.task), Randomness.from_os()).state, []
    for _ in range(repeats):
        began = time.process_time()
        next_round(scheme, engine, state, Randomness.from_os())
        times.append(time.process_time() - began)
    return statistics.median(times)


OPACUS = Path(__file__).resolve().parent.parent / ".venvs" / "opacus" / "bin" / "python"
OPACUS_SCRIPT = """
import json, statistics, sys, time, warnings
import torch
from opacus import GradSampleModule, __version__
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer
warnings.simplefilter("ignore")
torch.set_num_threads(1)
examples, steps, clients, repeats, models = json.loads(sys.argv[1])

def rate(inputs, hidden):
    layers = [torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)]
    module = GradSampleModule(torch.nn.Sequential(*layers))
    start = {name: value.clone() for name, value in module.state_dict().items()}
    data = [
        torch.utils.data.TensorDataset(torch.randn(examples, inputs), torch.randint(0, 10, (examples,)))
        for _ in range(clients)
    ]
    total = {name: torch.zeros_like(value) for name, value in start.items()}
    rates = []
    for _ in range(repeats + 1):
        began = time.process_time()
        for one in data:
            module.load_state_dict(start)
            optimizer = DPOptimizer(
                torch.optim.SGD(module.parameters(), lr=0.05),
                noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=examples / steps,
            )
            loader = DPDataLoader.from_data_loader(torch.utils.data.DataLoader(one, batch_size=examples // steps))
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(module(x), y).backward()
                optimizer.step()
            for name, value in module.state_dict().items():
                total[name] += value - start[name]
        rates.append(clients / (time.process_time() - began))
    return statistics.median(rates[1:])

print(json.dumps({"version": __version__, "torch": torch.__version__, "rates": [rate(*one) for one in models]}))
"""


def opacus(repeats: int) -> dict[str, Any] | None:
    """What Opacus makes of the two dense models; None where it is not installed."""
    if not OPACUS.exists():
        return None
    told = json.dumps([EXAMPLES, STEPS, 20, repeats, [[784, 128], [64, 64]]])
    done = subprocess.run(
        [OPACUS, "-W", "ignore", "-c", OPACUS_SCRIPT, told], capture_output=True, check=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    import jax

    print(f"Python {platform.python_version()}, jax {jax.__version__}, numpy {np.__version__}, one core; ", end="")
    print(f"client updates a CPU second, median of {repeats} rounds\n")
    print("| model | parameters | client level, central noise | example level, client-side noise |\n|---|---|---|---|")
    for name, model in MODELS.items():
        rates = [updates_per_second(model, unit_is_client=unit, repeats=repeats) for unit in (True, False)]
        print(f"| {name} | {model.size:,} | {rates[0]:,.0f} | {rates[1]:,.0f} |", flush=True)
    peer = opacus(repeats)
    if peer is not None:
        told = ", ".join(f"{rate:,.0f} ({name})" for rate, name in zip(peer["rates"], MODELS, strict=False))
        print(f"\nOpacus {peer['version']}, torch {peer['torch']}, example level: {told}")
    even, odd = (uneven(MODELS["MLP 64-64-10"], largest, repeats=repeats) for largest in (16, 20_000))
    print(f"\nUneven clients, MLP 64-64-10: {even:.3f} s with 16 examples each, {odd:.3f} s with one of 20,000")


if __name__ == "__main__":
    main()
