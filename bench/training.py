"""Client updates a CPU second of a round with fresh noise, on one core, as Markdown; beside peers where they are there.

    python bench/training.py [--repeats 7]

Client level: 100 clients a round, 64 examples each, batches of 16, 4 local steps, clip and central noise.
Example level: 64 examples, expected batch 16, 4 noisy steps; the draws of noise and batches are timed too.
Uneven clients: all of 1,000 clients in a round, one of them with 16 or with 20,000 examples, the others with 16.

"Whole round" is one of ``run_rounds`` under a ledger on disk: it samples, trains, clips, draws noise, and writes
checkpoint, records and books with their syncs. "Plain training" is what is left without privacy: the same rows and
steps in a loop of JAX, summed in float32, with neither clip, noise, doubles, records nor books; "DP and books" is how
much longer the whole round takes. The limit of matrix products is what an update could do if nothing cost anything
but the products of its dense layers, forward and backward (2 x rows x inputs x outputs each; none for the slopes of
the features): their FLOPs over the FLOPs a second that ``numpy.matmul`` (OpenBLAS, one thread) makes of these very
shapes on this machine. The "share" is what a whole round reaches of it.

Of these, one round or as much work is done after the other, so that all meet the same neighbors on a shared machine.
"Compiling" is the CPU seconds of a first round beyond those of a second; it is in no other figure, and what it made is
kept between runs where ``keep_compilations`` says so.

Peers run in environments of their own and are skipped where those are not there: ``.venvs/opacus`` (made by
``scripts/peer-environments``), ``.venvs/pfl`` (pfl 0.6 and PyTorch), ``.venvs/flower-simulation`` (flwr[simulation] and
PyTorch). Opacus is example-level DP-SGD, pfl and Flower are federated averaging with central clip and noise, all of the
shapes above; what each is spared stands in ``bench/peers``. Their noise is not cryptographic, and none keeps books.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

from typing import Any

import numpy as np

from epsilog.ledger import open_ledger
from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide, Scheme
from epsilog.terms import CustodyRecord
from epsilog.training import AuthorizedRun, Federation, LocalTraining, Randomness, Task, run_rounds
from epsilog.training.checkpoints import read_records
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.models import Model, build_model
from epsilog.training.models.layers import Dense
from epsilog.training.rounds import compute_next_round, make_initial_state

CLIENTS, EXAMPLES, COHORT, STEPS, BATCH = 200, 64, 100, 4, 16
MODELS = {
    "MLP 784-128-10": build_model("mlp", inputs=784, classes=10, hidden=(128,)),
    "MLP 64-64-10": build_model("mlp", inputs=64, classes=10, hidden=(64,)),
    "linear 784-10": build_model("linear", inputs=784, classes=10),
    "linear 3-1": build_model("linear", inputs=3, classes=None),
}
SHAPES = [[784, 128], [64, 64]]  # of the first two, as peers are told them
ENVIRONMENTS = Path(__file__).resolve().parent.parent / ".venvs"
PEERS = {
    "opacus": ("with_opacus.py", "example level", 20, 7),
    "pfl": ("with_pfl.py", "client level", COHORT, 7),
    "flower-simulation": ("with_flower.py", "client level", COHORT, 2),
}
"""By environment: the script, what it does, clients a round, and the most rounds that it is asked for."""


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
        training=LocalTraining(0.05, local_steps=STEPS, batch_size=BATCH, expected_examples=EXAMPLES),
        clients=Federation(features, targets if classes else targets.astype(np.float32), np.array(sizes)),
        test_features=features[:EXAMPLES],
        test_targets=targets[:EXAMPLES],
        facts={},
    )


def scheme_of(rounds: int, *, unit_is_client: bool) -> Scheme:
    if unit_is_client:
        return ClientLevelCentral(CLIENTS, COHORT / CLIENTS, rounds, 1.0, 1.0)
    return ExampleLevelClientSide(CLIENTS, COHORT, rounds, rounds, 1 / STEPS, 1, 1.0, 1.0)


Work = Callable[[], int]
"""Does something for a number of client updates, and says for how many."""


def engine_round(task: Task, scheme: Scheme) -> Work:
    """A round without records or books."""
    engine = CompiledEngine(task)

    def work() -> int:
        outcome = compute_next_round(scheme, engine, make_initial_state(task), Randomness.from_os())
        return len(outcome.custody.participants)

    return work


def plain_round(model: Model) -> Work:
    """A round that protects nobody and keeps no books: a loop of JAX in float32."""
    import jax
    import jax.numpy as jnp

    clients = synthetic(model, unit_is_client=True).clients
    features, targets = jnp.asarray(clients.features), jnp.asarray(clients.targets)
    start = model.unflatten(jnp.asarray(model.start, jnp.float32))

    @jax.jit
    def cohort_sum(picks: Any) -> Any:
        def loss(params: Any, rows: Any) -> Any:
            return model.losses(model.apply(params, features[rows]), targets[rows]).mean()

        def step(mine: Any, index: Any, params: Any) -> Any:
            return jax.tree.map(lambda old, slope: old - 0.05 * slope, params, jax.grad(loss)(params, mine[index]))

        def add(client: Any, total: Any) -> Any:
            end = jax.lax.fori_loop(0, STEPS, partial(step, picks[client]), start)
            return jax.tree.map(lambda whole, new, old: whole + (new - old), total, end, start)

        return jax.lax.fori_loop(0, COHORT, add, jax.tree.map(jnp.zeros_like, start))

    draws = np.random.default_rng()

    def work() -> int:
        cohort = np.sort(draws.choice(CLIENTS, COHORT, replace=False))
        order = draws.permuted(np.tile(np.arange(EXAMPLES), (COHORT, 1)), axis=1) + EXAMPLES * cohort[:, None]
        jax.block_until_ready(cohort_sum(order.reshape(COHORT, STEPS, BATCH)))
        return COHORT

    return work


def products(model: Model) -> tuple[int, Work]:
    """The FLOPs of an update's matrix products, and these products for a cohort, by OpenBLAS."""
    draws, flops, pairs = np.random.default_rng(1), 0, []
    for place, layer in enumerate(layer for layer in model.layers if isinstance(layer, Dense)):
        shapes = [(BATCH, layer.inputs, layer.outputs), (layer.inputs, BATCH, layer.outputs)]
        for rows, inner, columns in shapes + [(BATCH, layer.outputs, layer.inputs)] * (place > 0):
            sizes = (rows, inner), (inner, columns), (rows, columns)
            pairs.append([draws.standard_normal(size).astype(np.float32) for size in sizes])
            flops += STEPS * 2 * rows * inner * columns

    def work() -> int:
        for one, other, room in pairs:
            for _ in range(STEPS * COHORT):
                np.matmul(one, other, out=room)
        return COHORT

    return flops, work


def whole_rounds(task: Task, scheme: Scheme, beside: dict[str, Work]) -> dict[str, float]:
    """CPU seconds of a client update: "whole" in rounds under a ledger on disk, and of other work after each of them.

    The first time of each is left out. Turn by turn they meet the same neighbors on a shared machine.
    """
    spent: dict[str, list[float]] = {"whole": [], **{name: [] for name in beside}}
    began = time.process_time()

    def between(_: Any) -> None:
        nonlocal began
        spent["whole"].append(time.process_time() - began)
        for name, work in beside.items():
            began = time.process_time()
            count = work()
            spent[name].append((time.process_time() - began) / count)
        began = time.process_time()

    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as place, open_ledger(f"{place}/books.db") as ledger:
        terms = {"privacy_unit": task.unit, "relation": scheme.relations[0]}
        ledger.create_budget("bench", kind="approximate", epsilon="100000", delta="1e-5", **terms)
        charge = ledger.reserve("bench", scheme.release(), key="one", delta="1e-5", rounds=scheme.rounds)
        folder = Path(place) / "run"
        run_rounds(AuthorizedRun(scheme, charge, Randomness.from_os()), task, folder=folder, on_round=between)
        counts = [len(record.participants) for record in read_records(folder / "custody.jsonl", CustodyRecord)]
    spent["whole"] = [seconds / count for seconds, count in zip(spent["whole"], counts, strict=True)]
    return {name: statistics.median(times[1:]) for name, times in spent.items()}


def compiling(work: Work) -> float:
    """CPU seconds of a first round beyond a second."""
    return max(0.0, cpu_seconds(work) - cpu_seconds(work))


def cpu_seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def square_products() -> float:
    """FLOPs a CPU second of one large product of float32."""
    one = np.random.default_rng(1).standard_normal((1024, 1024)).astype(np.float32)
    return 2 * 1024**3 / statistics.median(cpu_seconds(lambda: one @ one) for _ in range(7))


def uneven(model: Model, largest: int, *, repeats: int) -> float:
    """CPU seconds of a round in which a thousand clients take part, and one has more examples than the others."""
    engine = CompiledEngine(synthetic(model, unit_is_client=True, sizes=(*(16,) * 999, largest)))
    scheme = ClientLevelCentral(1000, 1.0, repeats + 1, 1.0, 1.0)
    times = [
        cpu_seconds(lambda: compute_next_round(scheme, engine, make_initial_state(engine.task), Randomness.from_os()))
        for _ in range(repeats + 1)
    ]
    return statistics.median(times[1:])


def peer(environment: str, repeats: int) -> dict[str, Any] | None:
    """What a peer makes of the first two models; None where it is not installed."""
    python = ENVIRONMENTS / environment / "bin" / "python"
    script, _, cohort, most = PEERS[environment]
    if not python.exists():
        return None
    told = {"examples": EXAMPLES, "steps": STEPS, "cohort": cohort, "repeats": min(repeats, most), "shapes": SHAPES}
    command = [python, "-W", "ignore", Path(__file__).parent / "peers" / script, json.dumps(told)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def tell_client_level(repeats: int) -> None:
    columns = (
        "engine | whole round, with ledger | plain training | DP and books | products, GFLOP/s | share of their limit"
    )
    tell_head("Client level, central noise", f"model | parameters | {columns} | compiling, s")
    for name, model in MODELS.items():
        task, scheme = synthetic(model, unit_is_client=True), scheme_of(repeats + 1, unit_is_client=True)
        flops, least = products(model)
        beside = {"engine": engine_round(task, scheme), "plain": plain_round(model), "products": least}
        compiled = compiling(beside["engine"])
        took = whole_rounds(task, scheme, beside)
        rates = [f"{1 / took[each]:,.0f}" for each in ("engine", "whole", "plain")]
        shares = f"{took['whole'] / took['plain'] - 1:.0%} | {flops / took['products'] / 1e9:.1f}"
        told = [name, f"{model.size:,}", *rates, shares, f"{took['products'] / took['whole']:.0%}", f"{compiled:.1f}"]
        print(f"| {' | '.join(told)} |", flush=True)


def tell_example_level(repeats: int) -> None:
    tell_head("Example level, client-side noise", "model | engine | whole round, with ledger | compiling, s")
    for name, model in MODELS.items():
        task, scheme = synthetic(model, unit_is_client=False), scheme_of(repeats + 1, unit_is_client=False)
        alone = engine_round(task, scheme)
        compiled = compiling(alone)
        took = whole_rounds(task, scheme, {"engine": alone})
        print(f"| {name} | {1 / took['engine']:,.0f} | {1 / took['whole']:,.0f} | {compiled:.1f} |", flush=True)


def tell_head(title: str, columns: str) -> None:
    print(f"\n{title}\n\n| {columns} |\n" + "|---" * len(columns.split("|")) + "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    import jax

    print(f"Python {platform.python_version()}, jax {jax.__version__}, numpy {np.__version__}, one core; ", end="")
    print(f"client updates a CPU second, median of {repeats} rounds; ", end="")
    print(f"a product of 1,024 x 1,024 at {square_products() / 1e9:.0f} GFLOP/s")
    tell_client_level(repeats)
    tell_example_level(repeats)
    for environment, (_, does, *_) in PEERS.items():
        if (found := peer(environment, repeats)) is not None:
            told = ", ".join(f"{rate:,.0f} ({name})" for rate, name in zip(found["rates"], MODELS, strict=False))
            print(f"\n{found['version']}, {does}: {told}", flush=True)
    even, odd = (uneven(MODELS["MLP 64-64-10"], largest, repeats=repeats) for largest in (16, 20_000))
    print(f"\nUneven clients, MLP 64-64-10: {even:.3f} s with 16 examples each, {odd:.3f} s with one of 20,000")


if __name__ == "__main__":
    main()
