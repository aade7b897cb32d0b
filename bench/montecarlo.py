"""Prints the bars of the Monte Carlo part as Markdown, beside jax-privacy 2.0.0 where that runs.

    python bench/montecarlo.py [--quick] [--no-reference]

The reference runs in its own environment, ``.venvs/jax-privacy``, made on first use. Timings are CPU time, medians of
repeats, one process, one BLAS thread.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import bounds, delta_bound, noise_search, normals, shards, tilt
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.strategies import build_square_root_column
from epsilog.accounting.montecarlo.tilt import HockeyStick
from epsilog.mechanisms import (
    BallsInBins,
    BallsInBinsParticipation,
    CyclicPoissonParticipation,
    Gaussian,
    MatrixMechanism,
    ToeplitzStrategy,
)
from epsilog.numerics.roots import find_last_integer

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / ".venvs" / "jax-privacy"
CASE = MatrixMechanism(build_square_root_column(32), BallsInBinsParticipation(100), 1000, 3.0)
CYCLIC = MatrixMechanism(ToeplitzStrategy((1.0,)), CyclicPoissonParticipation(16, 0.5), 160, 1.5)
PATIENCE = normals.PATIENCE
DEEP = MatrixMechanism(build_square_root_column(1000), BallsInBinsParticipation(200), 1000, 4.0)

REFERENCE_SCRIPT = """
import importlib, json, pkgutil, time
from importlib import metadata
import numpy as np
from jax_privacy.experimental import monte_carlo as package
parts = [m.name for m in pkgutil.iter_modules(getattr(package, "__path__", [])) if not m.name.endswith("_test")]
modules = [package] + [importlib.import_module(package.__name__ + "." + name) for name in parts]
names = {n: getattr(m, n) for m in modules for n in dir(m) if not n.startswith("_")}
out = {"version": metadata.version("jax-privacy")}
def timed(call):
    started = time.process_time()
    answer = call()
    return answer, time.process_time() - started
out["minimum_tenth"] = timed(lambda: names["minimum_samples_to_calibrate"](9e-6, 1e-5))
cases = ((10**18, 1e-12), (10**15, 1e-14))
out["overall"] = {f"{n},{b}": names["get_overall_delta"](n, b) for n, b in cases}
try:
    from jax_privacy.batch_selection import BallsInBinsSampling
    strategy = BallsInBinsSampling(iterations=1000, cycle_length=100)
    draw = names["get_privacy_loss_sample"]
    column = np.array([1.0])
    draw(strategy, 3.0, column, seed=0)
    took = sorted(timed(lambda: [draw(strategy, 3.0, column, seed=s) for s in range(100)])[1] for _ in range(7))[3]
    out["draws_per_second"] = 100 / took
except Exception as error:
    out["draws_error"] = repr(error)
print("RESULT" + json.dumps(out, default=float))
"""


def median(call, repeats=5):
    times = []
    for _ in range(repeats):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return statistics.median(times)


def reference():
    """What jax-privacy 2.0.0 answers, or why it does not."""
    python = REFERENCE / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(REFERENCE)], check=True)
        made = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "jax-privacy==2.0.0"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            return {"error": made.stderr.strip().splitlines()[-1]}
    ran = subprocess.run([str(python), "-c", REFERENCE_SCRIPT], capture_output=True, text=True, check=False)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    return json.loads(lines[0][6:]) if lines else {"error": (ran.stderr.strip().splitlines() or ["no answer"])[-1]}


def plain_draws_per_second(direction, *, compiled):
    """Naive balls-in-bins draws, T = 1000, b = 100, C = I, through the whole path of evidence."""
    normals.PATIENCE = -1 if compiled else 10**18
    release = BallsInBins(Gaussian(3.0), bins=100, epochs=10)
    trial = shards.BernoulliTrial(release, HockeyStick(2.0), tilt.Tilt(direction), 0.0, shards.SHARD)
    shards.count_hits(trial, 1, 0)
    return shards.SHARD / median(lambda: shards.count_hits(trial, 1, 0), 201)


def bound_small_delta(release, epsilon):
    """Delta to 5%, by Clopper-Pearson at failure 1e-6, in one process."""
    started = time.process_time()
    found = delta_bound.bound_delta(release, epsilon=epsilon, failure=1e-6, relative_width=0.05, seed=3)
    return found.interval, time.process_time() - started


def search_private_fallback(delta):
    """One candidate in both directions with 10% slack: (k + 1) M / (N + 1) <= 1.1 delta."""
    plan = noise_search.plan_noise_search(CASE, epsilon=2.0, target_delta=1.1 * delta, seed=1, noises=(3.0,))
    found = noise_search.run_noise_search(plan, seed=int(np.random.default_rng().integers(2**60)))
    return found.chosen == 0, plan.claim, [test.trial.samples for test in plan.checks[0]]


def row(bar, theirs, ours):
    print(f"| {bar} | {theirs} | {ours} |")


def fewest(enough, above=0):
    """The first number above one that is enough."""
    return find_last_integer(lambda count: not enough(count), start=above + 1, low=above, limit=2**80) + 1


def fewest_at(share, fallback, *, target_delta):
    """The least N from which on the promise holds at each start of a tooth, where that share of the target passes."""
    unit = share * target_delta

    def holds(hits):
        samples = math.ceil(hits / unit)
        promise = bounds.binomial_delta(samples=samples, hits=hits, fallback_delta=fallback * target_delta)
        return promise <= target_delta * (1 + 1e-12)

    return math.ceil(fewest(holds) / unit)


def fewest_for_power(promise, *, target_delta, candidate_delta=9e-6, power=0.9):
    """The least draws, and the hits that pass, with which a candidate of that delta passes often enough."""

    def draws(hits):
        return fewest(lambda samples: promise(samples, hits) <= target_delta, max(hits, 1) - 1)

    def strong(hits):
        return bounds.binomial_cdf(np.array([candidate_delta]), draws(hits), hits)[0] >= power

    hits = find_last_integer(lambda hits: not strong(hits), low=-1) + 1
    return draws(hits), hits


def statistics_rows(them):
    goal = {"target_delta": 1e-5}
    slack = "samples for 10% slack at 1e-5"
    tenth = them.get("minimum_tenth")
    row(
        f"{slack}: two-point",
        f"{tenth[0]:,}" if tenth else "-",
        f"{montecarlo.minimum_samples(base_delta=9e-6, **goal):,}",
    )
    same = fewest_at(0.9, 0.9, **goal)
    row(f"{slack}: binomial, same fallback", "-", f"{same:,}")
    row(f"{slack}: fallback reveals nothing", "-", f"{fewest_at(0.9, 0.0, **goal):,}")
    schemes = {
        "two-point": lambda n, k: montecarlo.overall_delta(samples=n, base_delta=max(k, 0.5) / n),
        "binomial, same fallback": lambda n, k: bounds.binomial_delta(samples=n, hits=k, fallback_delta=9e-6),
        "fallback reveals nothing": lambda n, k: bounds.binomial_delta(samples=n, hits=k),
        "a list of ten, draws of their own": lambda n, k: bounds.bound_listed_delta([(n, k, 1.0)] * 10, cells=1000),
    }
    for name, scheme in schemes.items():
        samples, hits = fewest_for_power(scheme, **goal)
        row(f"samples for 90% power 10% below 1e-5: {name}", "-", f"{samples:,} (k = {hits:,})")
    ours = median(lambda: montecarlo.minimum_samples(base_delta=9e-6, **goal), 50)
    row("minimum_samples, one call", f"{1e3 * tenth[1]:.0f} ms" if tenth else "-", f"{1e3 * ours:.2f} ms")
    for samples, base in ((10**18, 1e-12), (10**15, 1e-14)):
        value = them.get("overall", {}).get(f"{samples},{base}", "-")
        row(f"overall_delta({samples:.0e}, {base})", value, montecarlo.overall_delta(samples=samples, base_delta=base))


def simulation_rows(them, *, quick):
    theirs = f"{them['draws_per_second']:,.0f}" if "draws_per_second" in them else them.get("draws_error", "-")
    for direction in DIRECTIONS:
        for compiled, name in ((False, "NumPy"), (True, "numba")):
            ours = plain_draws_per_second(direction, compiled=compiled)
            row(f"plain draws/s, T=1000, b=100, C=I, {direction}, {name}", theirs, f"{ours:,.0f}")
    normals.PATIENCE = PATIENCE
    estimate = delta_bound.bound_delta(CASE, epsilon=2.0, relative_width=0.05, seed=2).interval.estimate
    took = median(lambda: search_private_fallback(estimate), 5)
    runs = [search_private_fallback(estimate) for _ in range(20)]
    passed, (_, claim, draws) = sum(run[0] for run in runs), runs[0]
    ours = f"{took:.2f} s, {passed}/20 passed, claim {claim:.3e}, draws {draws}"
    row("case, 10% slack, fallback reveals nothing, both directions", "6-9 h (estimated)", ours)
    started = time.process_time()
    interval = delta_bound.bound_delta(CASE, epsilon=2.0, failure=1e-6, relative_width=0.1).interval
    took = time.process_time() - started
    row("case, Clopper-Pearson at 1e-6", "-", f"{took:.2f} s, {interval.lower:.3e} .. {interval.upper:.3e}")
    if not quick:
        for name, release, epsilon in (
            ("T=1000, b=200, dense, s=4", DEEP, 4.0),
            ("cyclic Poisson, 16 slots, p=0.5, T=160, C=I, s=1.5", CYCLIC, 4.0),
        ):
            interval, took = bound_small_delta(release, epsilon)
            middle = f"{interval.lower:.3e} .. {interval.upper:.3e}"
            row(f"small delta to 5%, {name}, epsilon {epsilon:g}", "about 1e-4 in 10 s", f"{took:.1f} s, {middle}")


def oracle_row():
    exact = {0.5: 1.23158183785586557e-2, 1.0: 6.87625191183830599e-4, 2.0: 3.30405199324208e-6}
    ask = montecarlo.compute_balls_in_bins_delta
    worst = max(abs(ask(bins=16, noise_stddev=1.0, epsilon=e).value / value - 1) for e, value in exact.items())
    took = median(lambda: ask(bins=16, noise_stddev=1.0, epsilon=1.0))
    row("exact C = I", "-", f"worst relative error {worst:.0e}, {1e3 * took:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-reference", action="store_true")
    parser.add_argument("--quick", action="store_true", help="skip the smallest delta")
    arguments = parser.parse_args()
    them = {"error": "not run"} if arguments.no_reference else reference()
    versions = f"epsilog {metadata.version('epsilog')}, numpy {np.__version__}"
    print(f"{versions}, jax-privacy {them.get('version', them.get('error'))}\n")
    print("| bar | jax-privacy | epsilog |\n| --- | --- | --- |")
    statistics_rows(them)
    simulation_rows(them, quick=arguments.quick)
    oracle_row()


if __name__ == "__main__":
    main()
