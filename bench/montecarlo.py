"""Prints the bars of the Monte Carlo part as Markdown, beside jax-privacy 2.0.0 where that runs.

    python bench/montecarlo.py [--quick] [--no-reference]

The reference runs in its own environment, ``.venvs/jax-privacy``, made on first use. Timings are medians of repeats,
one process, one BLAS thread.
"""

from __future__ import annotations

import argparse
import json
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
from epsilog.accounting.montecarlo import bounds, certificates, planning, shards, sweeps, tilt
from epsilog.accounting.montecarlo.oracle import DIRECTIONS
from epsilog.accounting.montecarlo.payoff import HockeyStick
from epsilog.accounting.montecarlo.strategies import square_root
from epsilog.terms import BallsInBins, BinnedParticipation, Gaussian, MatrixMechanism

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / ".venvs" / "jax-privacy"
CASE = MatrixMechanism(square_root(32), BinnedParticipation(100), 1000, 3.0)
DEEP = MatrixMechanism(square_root(1000), BinnedParticipation(200), 1000, 4.0)

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
    started = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - started
out["minimum_tenth"] = timed(lambda: names["minimum_samples_to_calibrate"](9e-6, 1e-5))
cases = ((10**18, 1e-12), (10**15, 1e-14))
out["overall"] = {f"{n},{b}": names["get_overall_delta"](n, b) for n, b in cases}
try:
    from jax_privacy.batch_selection import BallsInBinsSampling
    strategy = BallsInBinsSampling(iterations=1000, cycle_length=100)
    draw = names["get_privacy_loss_sample"]
    column = np.array([1.0])
    _, took = timed(lambda: [draw(strategy, 3.0, column, seed=s) for s in range(300)])
    out["draws_per_second"] = 300 / took
except Exception as error:
    out["draws_error"] = repr(error)
print("RESULT" + json.dumps(out, default=float))
"""


def median(call, repeats=5):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
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


def plain_draws_per_second(direction):
    """Naive balls-in-bins draws, T = 1000, b = 100, C = I, through the whole path of a certificate."""
    release = BallsInBins(Gaussian(3.0), bins=100, epochs=10)
    trial = shards.Trial(release, HockeyStick(2.0), tilt.Tilt(direction), 0.0, shards.SHARD)
    shards.count_hits(trial, 1, 0)
    return shards.SHARD / median(lambda: shards.count_hits(trial, 1, 0), 25)


def private_fallback_certificate(delta):
    """One candidate in both directions with 10% slack: (k + 1) M / (N + 1) <= 1.1 delta."""
    plan = planning.plan_sweep(CASE, epsilon=2.0, target_delta=1.1 * delta, seed=1, noises=(3.0,))
    found = sweeps.run_sweep(plan, seed=int(np.random.default_rng().integers(2**60)))
    return found.chosen == 0, plan.claim, [test.trial.samples for test in plan.checks[0]]


def deep_certificate():
    """Delta near 1.6e-13, to 5%, by Clopper-Pearson at failure 1e-6."""
    started = time.perf_counter()
    found = certificates.certify(DEEP, epsilon=4.0, failure=1e-6, gap=0.05, seed=3, workers=2)
    return found.interval, time.perf_counter() - started


def row(bar, theirs, ours):
    print(f"| {bar} | {theirs} | {ours} |")


def statistics_rows(them):
    goal = {"target_delta": 1e-5}
    slack = "samples for 10% slack at 1e-5"
    tenth = them.get("minimum_tenth")
    row(
        f"{slack}: two-point",
        f"{tenth[0]:,}" if tenth else "-",
        f"{montecarlo.minimum_samples(base_delta=9e-6, **goal):,}",
    )
    row(f"{slack}: integrated", "-", f"{bounds.fewest_samples_integrated(base_delta=9e-6, **goal):,}")
    same = bounds.fewest_samples(base_share=0.9, fallback_share=0.9, **goal)
    row(f"{slack}: binomial, same fallback", "-", f"{same:,}")
    row(f"{slack}: fallback reveals nothing", "-", f"{bounds.fewest_samples(base_share=0.9, **goal):,}")
    schemes = {
        "two-point": lambda n, k: montecarlo.overall_delta(samples=n, base_delta=max(k, 0.5) / n),
        "integrated": lambda n, k: bounds.integrated_delta(samples=n, base_delta=max(k, 0.5) / n),
        "binomial, same fallback": lambda n, k: bounds.binomial_delta(samples=n, hits=k, fallback_delta=9e-6),
        "fallback reveals nothing": None,
    }
    for name, scheme in schemes.items():
        samples, hits = bounds.samples_for_power(candidate_delta=9e-6, power=0.9, scheme=scheme, **goal)
        row(f"samples for 90% power 10% below 1e-5: {name}", "-", f"{samples:,} (k = {hits:,})")
    ours = median(lambda: montecarlo.minimum_samples(base_delta=9e-6, **goal), 50)
    row("minimum_samples, one call", f"{1e3 * tenth[1]:.0f} ms" if tenth else "-", f"{1e3 * ours:.2f} ms")
    for samples, base in ((10**18, 1e-12), (10**15, 1e-14)):
        value = them.get("overall", {}).get(f"{samples},{base}", "-")
        row(f"overall_delta({samples:.0e}, {base})", value, montecarlo.overall_delta(samples=samples, base_delta=base))


def simulation_rows(them, *, quick):
    theirs = f"{them['draws_per_second']:,.0f}" if "draws_per_second" in them else them.get("draws_error", "-")
    for direction in DIRECTIONS:
        row(f"plain draws/s, T=1000, b=100, C=I, {direction}", theirs, f"{plain_draws_per_second(direction):,.0f}")
    estimate = certificates.certify(CASE, epsilon=2.0, gap=0.05, seed=2).interval.estimate
    took = median(lambda: private_fallback_certificate(estimate), 3)
    runs = [private_fallback_certificate(estimate) for _ in range(20)]
    passed, (_, claim, draws) = sum(run[0] for run in runs), runs[0]
    ours = f"{took:.2f} s, {passed}/20 passed, claim {claim:.3e}, draws {draws}"
    row("case, 10% slack, fallback reveals nothing, both directions", "6-9 h (estimated)", ours)
    started = time.perf_counter()
    interval = certificates.certify(CASE, epsilon=2.0, failure=1e-6, gap=0.1).interval
    took = time.perf_counter() - started
    row("case, Clopper-Pearson at 1e-6", "-", f"{took:.2f} s, {interval.lower:.3e} .. {interval.upper:.3e}")
    if not quick:
        interval, took = deep_certificate()
        ours = f"{took:.1f} s, {interval.lower:.3e} .. {interval.upper:.3e}"
        row("delta near 1.6e-13 to 5%, two processes", "about 1e-4 in 10 s", ours)


def oracle_row():
    exact = {0.5: 1.23158183785586557e-2, 1.0: 6.87625191183830599e-4, 2.0: 3.30405199324208e-6}
    ask = montecarlo.balls_in_bins_delta
    worst = max(abs(ask(bins=16, noise_stddev=1.0, epsilon=e).value / value - 1) for e, value in exact.items())
    took = median(lambda: ask(bins=16, noise_stddev=1.0, epsilon=1.0))
    row("exact C = I", "-", f"worst relative error {worst:.0e}, {1e3 * took:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-reference", action="store_true")
    parser.add_argument("--quick", action="store_true", help="skip the deep certificate")
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
