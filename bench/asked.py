"""Questions that practitioners ask, beside dp-accounting in one process; CPU seconds, one call each. Prints Markdown.

Truncated batches (DP-SGD as large models run it) and the best of a random number of trials: OMP_NUM_THREADS=1 python
bench/asked.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import dp_accounting as dp
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from epsilog.accounting import epsilon, expected_trials
from epsilog.mechanisms import (
    BestOfTrials,
    Gaussian,
    NegativeBinomialTrialCount,
    PoissonSampled,
    PoissonTrialCount,
    Repeated,
    TrialDistribution,
    TruncatedPoissonSampled,
)
from epsilog.terms import Interval

RATE, EXAMPLES, UPDATES, DELTA = 1024 / 100_000, 100_000, 1000, 1e-6
GAUSSIAN, SGD = Gaussian(2.0), Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
SGD_EVENT = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 1000)
TUNINGS = [
    (
        "Gaussian, noise 2, geometric, 10 trials",
        GAUSSIAN,
        dp.GaussianDpEvent(2.0),
        NegativeBinomialTrialCount(1.0, 0.1),
    ),
    (
        "Gaussian, noise 2, logarithmic, stops .01",
        GAUSSIAN,
        dp.GaussianDpEvent(2.0),
        NegativeBinomialTrialCount(0.0, 0.01),
    ),
    ("Gaussian, noise 2, Poisson, 10 trials", GAUSSIAN, dp.GaussianDpEvent(2.0), PoissonTrialCount(10.0)),
    ("SGD a1, geometric, 10 trials", SGD, SGD_EVENT, NegativeBinomialTrialCount(1.0, 0.1)),
    ("SGD a1, logarithmic, stops .01", SGD, SGD_EVENT, NegativeBinomialTrialCount(0.0, 0.01)),
]


def timed(work: Callable[[], object]) -> tuple[object, float]:
    begun = time.process_time()
    return work(), time.process_time() - begun


def row(name: str, ours: Callable[[], Interval], theirs: Callable[[], float]) -> None:
    ours()  # what is made once
    found, took = timed(ours)
    assert isinstance(found, Interval)
    peer, longer = timed(theirs)
    print(f"| {name} | [{found.lower:.6g}, {found.upper:.6g}] | {took:.3f} | {peer:.6g} | {longer:.2f} |")


def shape_of(trials: TrialDistribution) -> float:
    return trials.shape if isinstance(trials, NegativeBinomialTrialCount) else math.inf


def main() -> None:
    print("| question | epsilog: interval | s | dp-accounting | s |\n| --- | --- | --- | --- | --- |")
    for most in (1024, 1060, 1120, 1160, 1200, 1300):
        cut = Repeated(TruncatedPoissonSampled(Gaussian(1.0), RATE, EXAMPLES, most), UPDATES)
        event = dp.TruncatedSubsampledGaussianDpEvent(EXAMPLES, RATE, most, 1.0)
        row(
            f"batches of 1024 cut to {most}",
            lambda cut=cut: epsilon(cut, delta=DELTA),
            lambda event=event: PLDAccountant().compose(event, UPDATES).get_epsilon(DELTA),
        )
    for name, release, event, trials in TUNINGS:
        best = BestOfTrials(release, trials)
        theirs = RepeatAndSelectDpEvent(event, expected_trials(trials), shape_of(trials))
        row(
            name,
            lambda best=best: epsilon(best, delta=DELTA),
            lambda theirs=theirs: RdpAccountant().compose(theirs).get_epsilon(DELTA),
        )


if __name__ == "__main__":
    main()
