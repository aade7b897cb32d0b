"""Draws the questions whose answers are frozen: every mechanism, relation, method and refusal, cheap ones alone.

The questions are stored, and tests ask those. They are drawn again by ``python -m tests.frozen draw``, which changes
what is frozen: the time that an answer takes decides whether a question is kept.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.frozen.intervals import answer

import epsilog as ep
from epsilog.terms import NeighboringRelation

SEED = 20261124
RELATIONS = [relation.value for relation in NeighboringRelation]
DEAREST = 0.4  # seconds of one answer
ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0)
WRONG: dict[str, list[Any]] = {
    "delta": [1.0, 1.5, -1e-9, "1e-5", None, True],
    "epsilon": [-0.1, "1", None],
    "relation": ["add-remove", "", None],
    "relative_width": [0.0, 1.0, -0.1],
    "group_size": [0, 1.5, -1],
}


class Draw:
    """Draws releases by kind; every choice comes from one seeded generator."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - no secrets here

    def among(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def log(self, low: float, high: float, digits: int | None = None) -> float:
        """A number evenly spread in its logarithm; sometimes a short one, as people write them."""
        value = low * (high / low) ** self.rng.random()
        short = self.rng.random() < 0.4 if digits is None else True
        return float(f"{value:.{digits or 2}g}") if short else value

    def noise(self) -> float:
        return self.among(
            self.log(0.4, 30),
            self.log(0.4, 30),
            self.log(0.4, 30),
            self.log(0.05, 500),
            0.0 if self.rng.random() < 0.1 else 1.0,
        )

    def share(self) -> float:
        return self.among(*[self.log(1e-4, 0.9)] * 6, 0.0, 1.0, 1e-12, 0.5)

    def count(self, most: int = 2000) -> int:
        return min(most, self.among(1, 2, 3, 8, 17, 64, 100, round(self.log(1, 2000)), round(self.log(1, 60))))

    def noisy(self) -> ep.mechanisms.Release:
        """Noise on a sum or a count."""
        sensitivity = self.among(1, 1, 2, 3)
        return self.among(
            lambda: ep.Gaussian(self.noise(), self.among(1.0, 1.0, 0.3)),
            lambda: ep.Laplace(self.noise(), self.among(1.0, 1.0, 7.0)),
            lambda: ep.mechanisms.DiscreteGaussian(self.log(0.5, 20), sensitivity),
            lambda: ep.mechanisms.DiscreteLaplace(self.log(0.5, 20), sensitivity),
        )()

    def selection(self) -> ep.mechanisms.Release:
        budget = self.log(0.01, 4)
        return self.among(
            lambda: ep.mechanisms.ExponentialMechanism(budget, self.among(True, False)),
            lambda: ep.mechanisms.ReportNoisyMax(
                budget, self.among("gumbel", "exponential", "laplace"), self.among(True, False)
            ),
            lambda: ep.mechanisms.SparseVector(
                self.noise(), self.noise(), self.among(1, 2, 5), self.among(True, False)
            ),
            lambda: ep.mechanisms.Staircase(
                budget, self.among(None, 0.0, 1.0, self.rng.random()), self.among(1.0, 2.5)
            ),
            lambda: ep.mechanisms.RandomizedResponse(
                self.among(0.0, 1.0, *[self.rng.random()] * 6), self.among(2, 2, 3, 10, 1000)
            ),
        )()

    def stated(self) -> ep.mechanisms.Release:
        budget = self.log(0.01, 4)
        return self.among(
            lambda: ep.PureDP(budget),
            lambda: ep.ApproximateDP(budget, self.among(0.0, 1e-9, 1e-6, 1e-5, 0.01)),
            lambda: ep.mechanisms.ZeroConcentratedDP(self.log(1e-3, 2)),
            lambda: ep.mechanisms.GaussianDP(self.log(0.01, 4)),
        )()

    def base(self) -> ep.mechanisms.Release:
        return self.among(self.noisy, self.noisy, self.selection, self.stated)()

    def poisson(self) -> ep.mechanisms.Release:
        base = self.among(self.noisy, self.noisy, self.noisy, self.selection, self.stated)()
        sampled = ep.PoissonSampled(base, self.share())
        return ep.PoissonSampled(sampled, self.share()) if self.rng.random() < 0.1 else sampled

    def sampled(self) -> ep.mechanisms.Release:
        """Samples of other kinds than Poisson's."""
        population = self.among(10, 100, 1000, 60_000)
        size = self.rng.randint(0, population)
        return self.among(
            lambda: ep.mechanisms.FixedSizeSampled(
                self.base(), self.among(0, size, max(1, population // 20), population), population
            ),
            lambda: ep.mechanisms.TruncatedPoissonSampled(self.noisy(), self.share(), population, max(1, size)),
            lambda: ep.mechanisms.TruncatedPoissonSampled(
                ep.Gaussian(self.log(0.5, 5)), 0.05, population, max(1, round(population * self.among(0.06, 0.1, 0.2)))
            ),
            lambda: ep.mechanisms.BallsInBins(
                self.among(ep.Gaussian, ep.Gaussian, ep.Laplace)(self.log(0.5, 10)),
                self.among(1, 2, 5, 20, 100),
                self.among(1, 1, 2, 5),
            ),
            lambda: ep.mechanisms.Shuffled(
                self.among(
                    ep.mechanisms.RandomizedResponse(self.rng.random(), self.among(2, 4)),
                    ep.PureDP(self.log(0.1, 4)),
                    ep.Laplace(self.log(0.5, 5)),
                    ep.ApproximateDP(1.0, 1e-9),
                ),
                self.among(1, 20, 1000, 100_000),
            ),
        )()

    def matrix(self) -> ep.mechanisms.Release:
        rounds = self.among(1, 4, 8, 20)
        strategy = self.among(
            lambda: ep.mechanisms.ToeplitzStrategy((1.0,)),
            lambda: ep.mechanisms.ToeplitzStrategy((1.0, 0.5, 0.375, 0.3125)[: self.among(2, 3, 4)]),
            lambda: ep.mechanisms.ToeplitzStrategy(
                ep.mechanisms.BufferedToeplitzStrategy((0.9, 0.3), (0.2, 0.1)).column(rounds)
            ),
            lambda: ep.mechanisms.DenseStrategy(
                tuple(tuple(1.0 if j == t else self.rng.random() for j in range(t + 1)) for t in range(rounds))
            ),
            ep.mechanisms.TreeAggregationStrategy,
        )()
        participation = self.among(
            ep.mechanisms.FullParticipation,
            lambda: ep.mechanisms.BoundedParticipation(self.among(1, 2, 3), self.among(1, 2, 5)),
            lambda: ep.mechanisms.BallsInBinsParticipation(self.among(1, 2, 4)),
            lambda: ep.mechanisms.MinSepParticipation(
                self.among(1, 2, 4), self.log(0.01, 1.0), self.among(True, False)
            ),
            lambda: ep.mechanisms.CyclicPoissonParticipation(self.among(1, 2, 4), self.log(0.01, 1.0)),
            lambda: ep.mechanisms.RandomAllocationParticipation(self.rng.randint(1, rounds)),
        )()
        return ep.mechanisms.MatrixMechanism(strategy, participation, rounds, self.noise())

    def repeated(self) -> ep.mechanisms.Release:
        return ep.Repeated(self.among(self.base, self.poisson)(), self.count())

    def training(self) -> ep.mechanisms.Release:
        """Training as it is usual: many rounds of one sampled Gaussian."""
        step = ep.PoissonSampled(ep.Gaussian(self.log(0.5, 8)), self.log(1e-3, 0.3))
        return ep.Repeated(step, self.among(1, 10, 100, 1000, 20_000, 10**6, 10**8, 10**9, 10**10))

    def many(self) -> ep.mechanisms.Release:
        parts = [
            ep.Repeated(self.among(self.base, self.poisson, self.poisson, self.sampled)(), self.count(300))
            for _ in range(self.rng.randint(0, 4))
        ]
        return ep.Composed(parts)

    def schedule(self) -> ep.mechanisms.Release:
        """Rounds at different sampling probabilities or noises: few and many distinct parts."""
        distinct = self.among(2, 3, 5, 12, 40)
        noise = self.log(0.6, 5)
        return ep.Composed(
            ep.Repeated(
                ep.PoissonSampled(ep.Gaussian(self.among(noise, self.log(0.6, 5))), self.log(0.002, 0.3)),
                self.count(200),
            )
            for _ in range(distinct)
        )

    def trials(self) -> ep.mechanisms.TrialDistribution:
        return self.among(
            lambda: ep.mechanisms.NegativeBinomialTrialCount(self.among(1.0, 0.0, -0.5, 3.0), self.log(1e-3, 0.9)),
            lambda: ep.mechanisms.PoissonTrialCount(self.log(0.1, 1000)),
            lambda: ep.mechanisms.BinomialTrialCount(self.among(1, 8, 100, 10_000), self.among(1.0, 0.5, 0.01)),
        )()

    def tuned(self) -> ep.mechanisms.Release:
        one = self.among(self.base, self.poisson, self.repeated, self.training, self.sampled, self.many)()
        return ep.mechanisms.BestOfTrials(one, self.trials())

    def grouped(self) -> ep.mechanisms.Release:
        one = self.among(
            self.base, self.poisson, self.poisson, self.repeated, self.training, self.sampled, self.tuned
        )()
        return ep.mechanisms.Grouped(one, self.among(1, 2, 3, 5, 20))

    def nested(self) -> ep.mechanisms.Release:
        """Whatever else can be said, most of it refused."""
        inner = self.among(self.tuned, self.grouped, self.many, self.matrix, self.repeated, self.sampled)()
        return self.among(
            lambda: ep.PoissonSampled(inner, self.share()),
            lambda: ep.Repeated(inner, self.count(20)),
            lambda: ep.Composed([inner, ep.Repeated(self.base(), self.count(20))]),
            lambda: ep.mechanisms.FixedSizeSampled(inner, 5, 100),
            lambda: ep.mechanisms.Shuffled(inner, 100),
            lambda: ep.mechanisms.BallsInBins(inner, 4, 2),
            lambda: ep.mechanisms.BestOfTrials(ep.mechanisms.Grouped(inner, 2), self.trials()),
        )()

    def scheme(self) -> ep.mechanisms.Release:
        """What a training scheme releases."""
        noise, cohort = self.log(0.5, 5), self.among(2, 5, 20)
        return self.among(
            lambda: ep.schemes.ClientLevelCentral(100, 0.1, self.among(1, 10, 100), 1.0, noise),
            lambda: ep.schemes.ClientLevelCentral(
                100, None, self.among(5, 12), 1.0, noise, sampling="balls-in-bins", cycle_length=5
            ),
            lambda: ep.schemes.ClientLevelCentral(
                100, None, self.among(5, 12), 1.0, noise, sampling="cyclic", cycle_length=5
            ),
            lambda: ep.schemes.ClientLevelCentral(100, None, 10, 1.0, noise, sampling="fixed-size", cohort_size=cohort),
            lambda: ep.schemes.ClientLevelAdaptiveClip(100, 0.1, 20, 1.0, 0.5, 0.2, self.log(1, 20), noise),
            lambda: ep.schemes.ClientLevelClientSide(100, cohort, 20, self.among(1, 3, 20), 1.0, noise),
            lambda: ep.schemes.ClientLevelDistributed(
                100, cohort, 1 + cohort // 2, 4, self.among(1, 3), 1.0, 1e-3, 32, noise
            ),
            lambda: ep.schemes.ClientLevelCorrelatedNoise(
                100, self.among(2, 4), 8, self.among(1, 2), 1.0, noise, sampling=self.among("cyclic", "balls-in-bins")
            ),
            lambda: ep.schemes.ClientLevelBufferedNoise(100, 4, 12, (0.9, 0.3), (0.2, 0.1), 1.0, noise),
            lambda: ep.schemes.ExampleLevelClientSide(
                20, cohort, 10, self.among(1, 3), self.log(0.01, 1), self.among(1, 2), 1.0, noise
            ),
        )().release()


FAMILIES: dict[str, tuple[int, Callable[[Draw], ep.mechanisms.Release]]] = {
    "noisy": (8, Draw.noisy),
    "selection": (10, Draw.selection),
    "stated": (7, Draw.stated),
    "poisson": (12, Draw.poisson),
    "sampled": (12, Draw.sampled),
    "matrix": (9, Draw.matrix),
    "repeated": (9, Draw.repeated),
    "training": (6, Draw.training),
    "many": (9, Draw.many),
    "schedule": (8, Draw.schedule),
    "tuned": (10, Draw.tuned),
    "grouped": (10, Draw.grouped),
    "nested": (6, Draw.nested),
    "scheme": (5, Draw.scheme),
}


def _asked(draw: Draw) -> dict[str, Any]:
    """What is asked of a release."""
    relation = {"relation": draw.among(*RELATIONS)}
    delta = draw.among(1e-5, 1e-6, 1e-9, 1e-12, 0.01, 0.5, 0.0, draw.log(1e-10, 0.1), draw.log(1e-10, 0.1))
    epsilon = draw.among(0.0, 0.1, 1.0, 5.0, draw.log(0.01, 20), draw.log(0.01, 20))
    more: dict[str, Any] = draw.among(
        {}, {}, {}, {"group_size": draw.among(2, 3, 7)}, {"relative_width": draw.among(0.02, 1e-4)}
    )
    if (at := draw.rng.random()) < 0.55:
        return {"ask": "epsilon", "delta": delta, **relation, **more}
    if at < 0.85:
        return {"ask": "delta", "epsilon": epsilon, **relation, **more}
    return draw.among(
        {"ask": "advantage", **relation},
        {"ask": "tpr", "fpr": draw.among(0.0, 0.001, 0.01, 0.1, 0.5, 1.0), **relation},
        {"ask": "tradeoff", "fpr": draw.among(0.001, 0.05, 0.3), **relation},
        {"ask": "mu", **relation},
        {"ask": "rho", **relation},
        {"ask": "rdp", "orders": list(ORDERS), **relation},
        {"ask": "rdp_attained", "orders": list(ORDERS), **relation},
        {"ask": "renyi_epsilon", "delta": delta, **relation},
        {"ask": "renyi_delta", "epsilon": epsilon, **relation},
        {"ask": "assumptions", **relation},
        {"ask": "count_max_rounds", "epsilon": draw.log(0.1, 10), "delta": draw.log(1e-8, 1e-3), **relation},
        {"ask": "epsilon_curve", "rounds": [1, 3, 10, 100], "delta": draw.log(1e-8, 1e-3), **relation},
        {"ask": "delta_curve", "rounds": [1, 5, 20], "epsilon": epsilon, **relation},
    )


def _calibrations(draw: Draw) -> Iterator[dict[str, Any]]:
    """Searches for the noise of a Gaussian, sampled and repeated or not, and closed forms."""
    for sampling in (1.0, 0.1, 0.01):
        for rounds in (1, 50):
            for goal in (
                {"epsilon": draw.log(0.2, 8), "delta": draw.log(1e-9, 1e-4)},
                {"advantage": draw.log(0.05, 0.6)},
                {"tpr": 0.1, "fpr": 0.01},
            ):
                yield {
                    "ask": "calibrate",
                    "sampling": sampling,
                    "rounds": rounds,
                    "relation": draw.among(*RELATIONS),
                    **goal,
                }
    for _ in range(12):
        cohort = {
            "sampling_probability": draw.log(1e-3, 1),
            "noise_multiplier": draw.log(0.5, 5),
            "rounds": draw.count(),
        }
        yield {"ask": "fl_formula", **cohort, "delta": draw.log(1e-8, 1e-3)}
        yield {"ask": "classic_gaussian_stddev", "epsilon": draw.log(0.05, 2), "delta": draw.log(1e-8, 1e-3)}
        yield {"ask": "laplace_scale", "epsilon": draw.log(0.05, 5), "sensitivity": draw.log(0.1, 10)}
        yield {"ask": "even_split", "epsilon": draw.log(0.05, 5), "queries": draw.count()}
        yield {"ask": "gaussian_epsilon", "mu": draw.log(0.01, 10), "delta": draw.log(1e-12, 0.5)}
        yield {"ask": "gaussian_delta", "mu": draw.log(0.01, 10), "epsilon": draw.log(0.01, 20)}


def _wrong(draw: Draw) -> Iterator[dict[str, Any]]:
    """Questions and releases that are no such thing."""
    release = ep.Gaussian(1.0).to_json()["term"]
    for name, values in WRONG.items():
        for value in values:
            asked = {"ask": "delta", "epsilon": 1.0} if name == "epsilon" else {"ask": "epsilon", "delta": 1e-5}
            yield {"release": release, "relation": "add-or-remove-one", **asked, name: value}
    for family in ("noisy", "selection", "stated", "poisson", "sampled", "matrix", "tuned", "grouped"):
        for _ in range(14):
            term = FAMILIES[family][1](draw).to_json()["term"]
            name = draw.among(*term)
            worse = draw.among(-1, -0.5, 1.5, 10**18, "x", None, True, [], {"type": "gaussian"})
            changed = draw.among(
                {**term, name: worse},
                {**term, name: worse},
                {**term, "extra": 1},
                {k: v for k, v in term.items() if k != name},
            )
            yield {"release": changed, "ask": "epsilon", "delta": 1e-5, "relation": "add-or-remove-one"}


def draw_questions(count: int = 3000) -> list[dict[str, Any]]:
    """So many questions about releases that are answered quickly, and searches, closed forms and errors."""
    draw = Draw(SEED)
    special = [one for one in [*_calibrations(draw), *_wrong(draw)] if _is_cheap(one)]
    kept: list[dict[str, Any]] = []
    names = [name for name, (weight, _) in FAMILIES.items() for _ in range(weight)]
    while len(kept) < count:
        family = draw.among(*names)
        question = {"family": family, "release": FAMILIES[family][1](draw).to_json()["term"], **_asked(draw)}
        if question not in kept and _is_cheap(question):
            kept.append(question)
    return [*kept, *special]


def _is_cheap(question: dict[str, Any]) -> bool:
    def stop(*_: object) -> None:
        raise _TooLongError

    before, previous = time.process_time(), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 4 * DEAREST)
    try:
        answer(question)
    except _TooLongError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return time.process_time() - before < DEAREST


class _TooLongError(BaseException):
    """An answer took too long; no answer is made of it."""
