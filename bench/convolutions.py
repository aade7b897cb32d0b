"""Examples a CPU second of DP-SGD steps on the shipped CNN (29,994 parameters), on one core, beside Opacus; Markdown.

    python bench/convolutions.py [--repeats 15] [--batch 256]

A step forms, clips and sums the gradients of a batch, draws noise and moves the model. Ours is the compiled engine at
the example level, with noise from the operating system's keys; Opacus has PyTorch's own noise. Measurements are taken
turn by turn, so that all meet the same neighbors on a shared machine; a ratio is the median over turns. Opacus needs
``.venvs/opacus`` (made by ``scripts/peer-environments``) and is left out where that is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import numpy as np

from epsilog.schemes import LocalDPSGD
from epsilog.training import Federation, LocalTraining, Randomness, Task
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.models import build_model

STEPS = 4
PEER = Path(__file__).parent / "peers" / "convolutions_with_opacus.py"
PYTHON = Path(__file__).resolve().parent.parent / ".venvs" / "opacus" / "bin" / "python"
Timed = Callable[[], float]
"""Takes the steps once; CPU seconds."""


def our_steps(batch: int) -> Timed:
    """Steps of the compiled engine."""
    draws, model = np.random.default_rng(1), build_model("cnn", inputs=784, classes=10)
    features = draws.standard_normal((batch, 784)).astype(np.float32)
    task = Task(
        name="synthetic",
        unit="example",
        unit_is_client=False,
        model=model,
        training=LocalTraining(1e-3, expected_examples=batch),
        clients=Federation(features, draws.integers(0, 10, batch), np.array([batch])),
        test_features=features[:10],
        test_targets=np.arange(10),
        facts={},
    )
    engine, randomness = CompiledEngine(task), Randomness.from_os()

    def take() -> float:
        began = time.process_time()
        now = RoundInputs(
            model.start,
            np.array([0]),
            lambda client: randomness.stream("batches", 1, client),
            lambda client: randomness.stream("noise", 1, client),
        )
        engine.sum_uploads(now, LocalDPSGD(STEPS, 1.0, clip_norm=1.0, noise_stddev=1.0))
        return time.process_time() - began

    take()  # compiles
    return take


@contextmanager
def opacus(batch: int) -> Iterator[tuple[str, dict[str, Timed]]]:
    """Its version, and its steps by each way; none where it is not installed."""
    if not PYTHON.exists():
        yield "no Opacus", {}
        return
    command = [str(PYTHON), "-W", "ignore", str(PEER), json.dumps({"batch": batch, "steps": STEPS})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(way: str) -> float:
            asked.write(f"{way}\n")
            asked.flush()
            return float(answers.readline())

        version = json.loads(answers.readline())
        yield version, {f"Opacus, {way}": lambda way=way: ask(way) for way in ("hooks", "ghost")}  # type: ignore[misc]
        asked.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--batch", type=int, default=256)
    told = parser.parse_args()
    with opacus(told.batch) as (version, peers):
        ways = {"epsilog": our_steps(told.batch), **peers}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(told.repeats):
            for name, take in ways.items():
                taken[name].append(take())
    print(
        f"Python {platform.python_version()}, jax {jax.__version__}, {version}; batch {told.batch}, one core; ", end=""
    )
    print(f"medians of {told.repeats} turns of {STEPS} steps\n")
    print("| | examples a CPU second | epsilog makes |\n| --- | --- | --- |")
    for name, seconds in taken.items():
        rate = told.batch * STEPS / statistics.median(seconds)
        ratio = statistics.median(theirs / ours for theirs, ours in zip(seconds, taken["epsilog"], strict=True))
        print(f"| {name} | {rate:,.0f} | {ratio:.2f} times as many |")


if __name__ == "__main__":
    main()
