"""Times questions that are hard to answer, each in CPU seconds, and shows how wide the answers are; prints Markdown.

No question should take more than about four seconds of one quiet core: OMP_NUM_THREADS=1 python bench/questions.py
[word ...] asks those whose names contain one of the words. A question that takes over a minute is given up.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

from epsilog import plan
from epsilog.accounting import delta, epsilon, profile
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    Repeated,
)
from epsilog.plan.composition import ProfileView
from epsilog.terms import EpsilogError, Interval, NeighboringRelation

LIMIT = 60.0  # seconds of CPU after which a question is given up
REPLACE = NeighboringRelation.REPLACE_ONE
SGD = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
EXPONENTIALS = [ExponentialMechanism(0.1 * (i + 1)) for i in range(4)]
SAMPLED_LAPLACES = [Repeated(PoissonSampled(Laplace(1.0 + 0.3 * i), 0.01 * (i + 1)), 20 + i) for i in range(4)]
STATED = [ApproximateDP(0.05 * (i + 1), 1e-9) for i in range(6)]
BINS = BallsInBins(Gaussian(2.0), bins=100)
MIX: list[Release] = [
    *(Repeated(PoissonSampled(Gaussian(0.8 + 0.1 * i), 0.01 + 0.002 * i), 100 * (i + 1)) for i in range(5)),
    *(Gaussian(4.0 + i) for i in range(4)),
    *(Laplace(5.0 + i) for i in range(4)),
    *(PureDP(0.02 * (i + 1)) for i in range(4)),
    *(RandomizedResponse(0.5 + 0.1 * i, 2 + i) for i in range(3)),
]  # fmt: skip

Work = Callable[[], object]


def sampled(noise: float, share: float, rounds: int) -> Release:
    return Repeated(PoissonSampled(Gaussian(noise), share), rounds)


def price(release: Release, at: float = 1e-6, relation: NeighboringRelation | None = None) -> Work:
    return lambda: epsilon(release, delta=at, **({} if relation is None else {"relation": relation}))


def chance(release: Release, at: float) -> Work:
    return lambda: delta(release, epsilon=at)


def rate(release: Release, fpr: float, relation: NeighboringRelation | None = None) -> Work:
    return lambda: profile(release, **({} if relation is None else {"relation": relation})).tpr(fpr)


QUESTIONS: dict[str, Work] = {
    "rare samples: q 1e-12, T 1e6, noise .02": price(sampled(0.02, 1e-12, 10**6)),
    "rare samples: q 1e-9, T 1e6, noise .02": price(sampled(0.02, 1e-9, 10**6)),
    "rare samples: q 1e-6, T 1e4, noise .05": price(sampled(0.05, 1e-6, 10**4)),
    "replace-one: q 1e-12, T 1e12": price(sampled(1.0, 1e-12, 10**12), relation=REPLACE),
    "q 1e-12, T 1e12": price(sampled(1.0, 1e-12, 10**12)),
    "replace-one: q .01, T 1e3": price(sampled(1.0, 0.01, 1000), relation=REPLACE),
    "exponential 700 beside SGD": price(Composed([ExponentialMechanism(700.0), SGD])),
    "exponential 700 beside SGD, delta at 300": chance(Composed([ExponentialMechanism(700.0), SGD]), 300.0),
    "exponential 100 beside SGD": price(Composed([ExponentialMechanism(100.0), SGD])),
    "four exponentials, sampled Laplace": price(Composed([*EXPONENTIALS, *SAMPLED_LAPLACES])),
    "four exponentials, sampled Laplace, delta at 2": chance(Composed([*EXPONENTIALS, *SAMPLED_LAPLACES]), 2.0),
    "forty exponentials": price(Composed([ExponentialMechanism(0.05 * (i + 1)) for i in range(40)])),
    "one exponential, sampled Laplace": price(Composed([EXPONENTIALS[2], SAMPLED_LAPLACES[0]])),
    "exponential x 1000": price(Repeated(ExponentialMechanism(0.1), 1000)),
    "balls-in-bins, delta at 30": chance(BINS, 30.0),
    "balls-in-bins noise 1, delta at 30": chance(BallsInBins(Gaussian(1.0), bins=100), 30.0),
    "balls-in-bins noise .5, delta at 100": chance(BallsInBins(Gaussian(0.5), bins=1000), 100.0),
    "balls-in-bins, epsilon": price(BINS),
    "balls-in-bins beside SGD": price(Composed([BINS, SGD])),
    "statements": price(Composed([*STATED, *SAMPLED_LAPLACES[:2]])),
    "statements at delta 1e-8": price(Composed([*STATED, SGD]), 1e-8),
    "statements at delta 1e-100": price(Composed([ApproximateDP(1.0, 1e-200), SGD]), 1e-100),
    "statements, sampled": price(Repeated(PoissonSampled(ApproximateDP(20.0, 1e-12), 1e-3), 10**4)),
    "sampled Laplace x 1e6": price(Repeated(PoissonSampled(Laplace(0.5), 1e-3), 10**6)),
    "sampled Laplace, noise .05": price(Repeated(PoissonSampled(Laplace(0.05), 1e-4), 1000)),
    "TPR: fixed-size samples": rate(Repeated(FixedSizeSampled(Gaussian(1.0), 10, 1000), 100), 0.01, REPLACE),
    "TPR: exponential mechanisms": rate(Composed([EXPONENTIALS[3], Repeated(ExponentialMechanism(0.3), 5)]), 0.01),
    "TPR: SGD": rate(SGD, 0.01),
    "TPR: exponential beside SGD": rate(Composed([EXPONENTIALS[3], SGD]), 0.01),
    "TPR: sampled Laplace": rate(SAMPLED_LAPLACES[1], 0.01),
    "TPR: balls-in-bins": rate(BINS, 0.01),
    "one discrete Gaussian, deviation 1e4": price(DiscreteGaussian(1e4)),
    "one discrete Gaussian, deviation 2e4, shift 100": price(DiscreteGaussian(2e4, 100)),
    "discrete Gaussians x 10, deviation 1e4": price(Repeated(DiscreteGaussian(1e4), 10)),
    "sampled discrete Gaussians": price(Repeated(PoissonSampled(DiscreteGaussian(1000.0, 1000), 0.01), 1000)),
    "discrete Laplace of a large shift": price(Repeated(DiscreteLaplace(1e5, 10**6), 10)),
    "plan.mix of 20": lambda: plan.plan_composition(MIX, delta=1e-6, relation=REPLACE),
    "plan.profile_view of 20": lambda: plan.compute_profile_view(Composed(MIX), delta=1e-6, relation=REPLACE),
    "plan.mix of 17": lambda: plan.plan_composition(MIX[:17], delta=1e-6),
    "plan.profile_view of 17": lambda: plan.compute_profile_view(Composed(MIX[:17]), delta=1e-6),
}


class OverTimeError(Exception):
    """A question took longer than the limit."""


def _over(*_: object) -> None:
    raise OverTimeError


def width(found: object) -> str:
    """An interval with its relative width; of many the widest."""
    if isinstance(found, Interval):
        return f"[{found.lower:.6g}, {found.upper:.6g}]: {found.relative_width:.0e}"
    if isinstance(found, plan.CompositionPlan):
        alone = max(part.alone.relative_width for part in found.parts)
        without = max(part.without.relative_width for part in found.parts)
        return f"{width(found.epsilon)}; alone {alone:.0e}, without {without:.0e}"
    if isinstance(found, ProfileView):
        return f"at most {max(one.relative_width for one in found.deltas):.0e}"
    return type(found).__name__


def main(words: list[str]) -> None:
    signal.signal(signal.SIGPROF, _over)
    print("| question | CPU seconds | answer and relative width |\n| --- | --- | --- |")
    for name, work in QUESTIONS.items():
        if words and not any(word in name for word in words):
            continue
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            shown = width(work())
        except (EpsilogError, ValueError, OverTimeError) as problem:
            shown = f"{type(problem).__name__}: {problem}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        print(f"| {name} | {time.process_time() - started:.2f} | {shown} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
