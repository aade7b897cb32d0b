"""Seconds and memory to reconcile ten million rows of who took part, as Markdown.

    python bench/logs.py [--rows 10000000] [--cores 2]

1,000 rounds, each client by its own coin of 1%, a norm and a time in every row; clients have names, and the log
of rounds has sizes, clip norms, noise and padding. Each format is read by a process of its own, whose highest resident
set is told. Writing the logs is not timed.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROUNDS, RATE, Z = 1000, 0.01, 1.0
START = 1_767_225_600  # 2026, in seconds since 1970
MAPPING = """
[claim]
delta = 1e-7
relation = "add-or-remove-one"
privacy_unit = "client"
population = {clients}
rounds = {rounds}
sampling = "poisson"
sampling_probability = {rate}
clip_norm = 1.0
noise_multiplier = {z}
divisor = {divisor}

[rounds]
file = "rounds.csv"
format = "csv"
first_round = 1
[rounds.columns]
round = "round"
cohort = "clients"
clip_norm = "clip"
noise = {{ column = "noise", unit = "clip norms", on = "sum" }}
divisor = "divisor"
padding = {{ column = "padding", unit = "absolute", on = "sum" }}
ended = {{ column = "ended", unit = "s" }}

[participation]
file = "clients.{format}"
format = "{format}"
first_round = 1
[participation.columns]
round = "round"
client = "client"
norm = "norm"
time = {{ column = "time", unit = "s" }}
"""


def write(folder: Path, rows: int) -> None:
    """Logs of an honest run, in both formats."""
    import polars as pl

    rng, clients = np.random.default_rng(1), round(rows / ROUNDS / RATE)
    sizes = rng.binomial(clients, RATE, ROUNDS)
    drawn = [rng.choice(clients, size, replace=False) for size in sizes]
    number = np.repeat(np.arange(1, ROUNDS + 1), sizes)
    frame = pl.DataFrame(
        {
            "round": number.astype(np.int32),
            "client": np.concatenate(drawn).astype(np.int32),
            "norm": np.minimum(rng.exponential(0.7, number.size), 1.0).astype(np.float32),
            "time": (START + number * 60 - rng.integers(0, 60, number.size)).astype(np.int64),
        }
    ).with_columns(pl.format("device-{}", "client").alias("client"))
    frame.write_csv(folder / "clients.csv")
    frame.write_parquet(folder / "clients.parquet")
    padding = rng.normal(0, Z, (ROUNDS, 64))
    pl.DataFrame(
        {
            "round": np.arange(1, ROUNDS + 1),
            "clients": sizes,
            "clip": np.ones(ROUNDS),
            "noise": np.full(ROUNDS, Z),
            "divisor": np.full(ROUNDS, clients * RATE),
            "padding": [" ".join(map(repr, row)) for row in padding.tolist()],
            "ended": START + np.arange(1, ROUNDS + 1) * 60,
        }
    ).write_csv(folder / "rounds.csv")
    for kind in ("csv", "parquet"):
        text = MAPPING.format(clients=clients, rounds=ROUNDS, rate=RATE, z=Z, divisor=clients * RATE, format=kind)
        (folder / f"{kind}.toml").write_text(text)


def reconcile(mapping: Path) -> None:
    from epsilog.verification.logs import verify_logs

    began = time.perf_counter()
    found = verify_logs(mapping)
    wall, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    failed = [one.code for one in found.outcome.findings if one.verdict not in ("passed", "not checked")]
    print(f"{wall:.1f} | {used.ru_utime + used.ru_stime:.1f} | {used.ru_maxrss / 1024:.0f} | {failed or 'nothing'}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--mapping", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.mapping:
        return reconcile(asked.mapping)
    if asked.write:
        return write(asked.write, asked.rows)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: asked.cores]))
    environment = os.environ | {"POLARS_MAX_THREADS": str(asked.cores), "OPENBLAS_NUM_THREADS": "1"}
    print(f"{asked.rows:,} rows, {asked.cores} cores, Python {platform.python_version()}\n")
    print("| format | MB | seconds | CPU seconds | MB at most | found wrong |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        # a child's highest resident set begins at its parent's: so this process stays small
        subprocess.run([sys.executable, __file__, "--write", name, "--rows", str(asked.rows)], check=True)
        for kind in ("csv", "parquet"):
            size = (Path(name) / f"clients.{kind}").stat().st_size / 1e6
            command = [sys.executable, __file__, "--mapping", str(Path(name) / f"{kind}.toml")]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            print(f"| {kind} | {size:.0f} | {done.stdout.strip()} |", flush=True)
    return None


if __name__ == "__main__":
    main()
