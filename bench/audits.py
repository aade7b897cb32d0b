"""Lower bounds from one run's canaries beside JAX Privacy's, on the same scores; and false alarms on scores of nothing.

    python bench/audits.py [--runs 20]

Scores are normal, moved by mu for canaries that are in: what the best attack sees of mu-GDP, were canaries not to hide
each other. CPU seconds of one audit. JAX Privacy picks thresholds by Bonferroni (its default) or on a half (Split).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from jax_privacy import auditing

from epsilog.verification.audits import GAUSSIAN, ONE_RUN, AuditProtocol, audit_one_run

DELTA = 1e-5
THEIRS = {ONE_RUN: "epsilon_one_run", GAUSSIAN: "epsilon_one_run_fdp"}


def scored(seed: int, canaries: int, mu: float) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    coins = draws.random(canaries) < 0.5
    return draws.normal(size=canaries) + mu * coins, coins


def timed(ask: Callable[[], float]) -> tuple[float, float]:
    began = time.process_time()
    return ask(), time.process_time() - began


def shown(found: list[tuple[float, float]]) -> str:
    return f"{statistics.mean(e for e, _ in found):.2f} ({statistics.median(s for _, s in found):.2f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    print(f"Mean bound on epsilon at delta 1e-5, confidence .95, of {runs} sets of scores\n")
    print(
        "| canaries | mu | method | epsilog | JAX Privacy, Bonferroni | Split |\n| --- | --- | --- | --- | --- | --- |"
    )
    for canaries in (200, 1000, 5000):
        for mu in (1.0, 2.0, 4.0):
            for method, theirs in THEIRS.items():
                ours, all_of_them, half = [], [], []
                for seed in range(runs):
                    scores, coins = scored(seed, canaries, mu)
                    asked = AuditProtocol(canaries, DELTA, method=method)
                    ours.append(timed(lambda s=scores, c=coins, p=asked: audit_one_run(s, c, p).epsilon))
                    ask = getattr(auditing.CanaryScoreAuditor(scores[coins], scores[~coins]), theirs)
                    split = auditing.Split(seed=seed)
                    all_of_them.append(timed(lambda a=ask: a(0.05, DELTA)))
                    half.append(timed(lambda a=ask, s=split: a(0.05, DELTA, threshold_strategy=s)))
                rows = " | ".join(map(shown, (ours, all_of_them, half)))
                print(f"| {canaries} | {mu:g} | {method} | {rows} |", flush=True)
    for method in THEIRS:
        asked = AuditProtocol(200, DELTA, method=method)
        alarms = sum(audit_one_run(*scored(seed, 200, 0.0), asked).epsilon > 0 for seed in range(10_000))
        print(
            f"\n{method}: {alarms} of 10,000 audits of nothing, 200 canaries, said that something leaks (allowed: 500)"
        )


if __name__ == "__main__":
    main()
