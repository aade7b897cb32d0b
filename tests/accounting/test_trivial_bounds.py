"""No answer exceeds a trivially valid bound, no question raises anything but the project's errors, no bound jumps."""

from __future__ import annotations

import math
import os
import sys
import warnings
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from tests import generators
from tests.extent import amount

from epsilog.accounting import delta, epsilon, profile, renyi_epsilon, rho
from epsilog.accounting.composing import add_epsilons
from epsilog.mechanisms import (
    ApproximateDP,
    BallsInBins,
    BestOfTrials,
    BinomialTrialCount,
    Composed,
    DiscreteGaussian,
    FixedSizeSampled,
    Gaussian,
    Grouped,
    Laplace,
    MixtureOfGaussians,
    PoissonSampled,
    PureDP,
    Release,
    Repeated,
    Shuffled,
    TruncatedPoissonSampled,
    ZeroConcentratedDP,
)
from epsilog.mechanisms.composition import Composition, flatten
from epsilog.terms import EpsilogError, NeighboringRelation

ADD, REPLACE, ZERO = NeighboringRelation
EXAMPLES = int(os.environ.get("EPSILOG_EXAMPLES", amount(3, 25)))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
RELATIVE_WIDTH = 0.02
SLACK = 1.01 + RELATIVE_WIDTH  # both numbers are bounds of their own


def upper(release: Release, at: float, relation: NeighboringRelation) -> float:
    """The answer, or infinity where it is refused."""
    try:
        return epsilon(release, delta=at, relation=relation, relative_width=RELATIVE_WIDTH).upper
    except EpsilogError:
        return math.inf


def unsampled(release: Release, relation: NeighboringRelation) -> Release | None:
    """The same with every unit in every sample; None where that need not cost more."""
    match release:
        case PoissonSampled(release=inner):
            return None if _shuffles(inner) else unsampled(inner, relation)
        case BallsInBins(release=inner, epochs=epochs):
            inner_whole = None if _shuffles(inner) else unsampled(inner, relation)
            return None if inner_whole is None else Repeated(inner_whole, epochs)
        case FixedSizeSampled(release=inner):
            return unsampled(inner, relation) if relation is REPLACE and not _shuffles(inner) else None
        case TruncatedPoissonSampled(release=inner):
            whole = None if _shuffles(inner) else unsampled(inner, relation)
            return whole if whole is None or relation is not ADD else Grouped(whole, 2)
        case Shuffled(release=inner):
            return inner if relation is REPLACE else None
        case Repeated(release=inner, count=count):
            whole = unsampled(inner, relation)
            return None if whole is None else Repeated(whole, count)
        case Composed(releases=parts):
            all_parts = [unsampled(part, relation) for part in parts]
            return None if None in all_parts else Composed(all_parts)
        case Grouped(release=inner, units=units):
            whole = unsampled(inner, relation)
            return None if whole is None else Grouped(whole, units)
        case BestOfTrials(release=inner, trials=law):
            whole = unsampled(inner, relation)
            return None if whole is None else BestOfTrials(whole, law)
        case _:
            return release


def _shuffles(release: Release) -> bool:
    return any(isinstance(part, Shuffled) or _shuffles(part) for part in _inner(release))


def _inner(release: Release) -> list[Release]:
    if isinstance(release, Shuffled):
        return [release]
    return [one for one in flatten(release) if one is not release] + (
        [release.release] if hasattr(release, "release") else []
    )


def trivial(release: Release, at: float, relation: NeighboringRelation) -> dict[str, float]:
    """Bounds that follow in one line, each by another question."""
    found: dict[str, float] = {}
    whole = unsampled(release, relation)
    if whole is not None and whole != release:
        found["unsampled"] = upper(whole, at, relation)
    bag = flatten(release)
    rounds = sum(bag.values())
    if rounds > 1:
        share = at / rounds * (1 - 1e-12)
        found["one by one"] = sum(count * upper(part, share, relation) for part, count in bag.items())
        parts = [Repeated(part, count) for part, count in bag.items()]
        if len(parts) > 1:
            found["kind by kind"] = sum(upper(part, at / len(parts) * (1 - 1e-12), relation) for part in parts)
    if not any(isinstance(part, Grouped | BestOfTrials) for part in bag):
        for name, bound in (("renyi", lambda: renyi_epsilon(release, delta=at, relation=relation)), ("zcdp", zcdp)):
            try:
                found[name] = bound() if name == "renyi" else zcdp(rho(release, relation), at)
            except (EpsilogError, ValueError):
                continue
    if all(isinstance(part, PureDP | ApproximateDP) for part in bag):
        missed = sum(Fraction(getattr(part, "delta", 0.0)) * count for part, count in bag.items())
        if missed <= Fraction(at):
            found["statement"] = float(
                min(sum(Fraction(part.epsilon) * n for part, n in bag.items()), Fraction(sys.float_info.max))
            )
    match release:
        case Grouped(release=inner, units=units) if units > 1:
            found["chain"] = chained(inner, units, at, relation)
        case BestOfTrials(release=inner, trials=BinomialTrialCount(most=most)):
            found["all shown"] = upper(Repeated(inner, most), at, relation)
    return found


def zcdp(total: float, at: float) -> float:
    return total + 2 * math.sqrt(total * -math.log(at))


def chained(inner: Release, units: int, at: float, relation: NeighboringRelation) -> float:
    """Dwork & Roth 2014, Theorem 2.2, at one epsilon of one unit."""
    best = math.inf
    for power in (1.0, 2.0, 4.0):
        one = upper(inner, at**power / units, relation)
        if one * units < 600 and units * math.exp((units - 1) * one) * at**power / units <= at:
            best = min(best, units * one)
    return best


BESIDE_A_CLAIM = {
    "trials": BestOfTrials(Gaussian(8.0), BinomialTrialCount(20, 0.5)),
    "rounds": Repeated(PoissonSampled(Gaussian(1.5), 0.02), 300),
    "statement": Composed([ApproximateDP(0.5, 1e-7), Laplace(2.0)]),
    "concentrated": ZeroConcentratedDP(0.05),
    "units": Grouped(Repeated(PoissonSampled(Gaussian(4.0), 0.02), 30), 3),
}


RARE = MixtureOfGaussians(30.0, (1.5, 14.0, 600.0), (0.875 - 1e-10, 0.125, 1e-10))


@pytest.mark.slow
@many
@given(
    release=generators.anything(),
    relation=st.sampled_from(list(NeighboringRelation)),
    at=st.sampled_from([1e-320, 1e-300, 1e-12, 1e-6, 1e-3, 0.3]),
)
@example(release=Repeated(PoissonSampled(Gaussian(1.0), 0.5), 2), relation=REPLACE, at=1e-320)
@example(release=PoissonSampled(Gaussian(0.5), 5e-324), relation=REPLACE, at=1e-320)
@example(release=BallsInBins(ApproximateDP(2.4, 5e-324), 2, 2), relation=REPLACE, at=1e-300)
@example(release=BallsInBins(ApproximateDP(1e-160, 1e-6), 51, 50), relation=ADD, at=0.3)
@example(release=TruncatedPoissonSampled(RARE, 0.6, 256, 3), relation=ZERO, at=1e-6)
@example(release=DiscreteGaussian(1e160, 14), relation=REPLACE, at=1e-300)
@example(release=Grouped(Repeated(RARE, 2), 2), relation=ZERO, at=1e-3)
def test_no_answer_exceeds_a_trivial_bound(release, relation, at):
    found = upper(release, at, relation)
    for name, bound in trivial(release, at, relation).items():
        assert found <= SLACK * bound + 1e-9, f"{name} says {bound}"


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("release", BESIDE_A_CLAIM.values(), ids=BESIDE_A_CLAIM)
def test_no_rate_exceeds_what_the_claim_leaves(release):
    fpr, at = 1e-3, 1e-4
    claimed = epsilon(release, delta=at).upper
    found = profile(release, relative_width=0.005).tpr(fpr)
    assert fpr <= found.lower <= found.upper <= (math.exp(claimed) * fpr + at) * 1.02


@pytest.mark.parametrize(("whole", "parts"), [(3, 2), (7, 4), (1, 2), (2**10 + 1, 2**10)])
def test_shares_of_the_least_deltas_add_up_to_at_most_all(whole, parts):
    shares = []
    alone = Composition.of(Laplace(1.0))
    add_epsilons([(alone, parts)], whole * 5e-324, lambda _, at: shares.append(at.delta) or 0.0)
    assert shares[0] * parts <= whole * 5e-324


QUESTIONS = {
    "epsilon": lambda release, relation, at: epsilon(
        release, delta=at, relation=relation, relative_width=RELATIVE_WIDTH
    ),
    "epsilon at 0": lambda release, relation, _: epsilon(
        release, delta=0.0, relation=relation, relative_width=RELATIVE_WIDTH
    ),
    "delta": lambda release, relation, at: delta(
        release, epsilon=-math.log(at), relation=relation, relative_width=RELATIVE_WIDTH
    ),
    "delta at 0": lambda release, relation, _: delta(
        release, epsilon=0.0, relation=relation, relative_width=RELATIVE_WIDTH
    ),
    "tpr": lambda release, relation, at: profile(release, relation=relation, relative_width=RELATIVE_WIDTH).tpr(at),
    "group": lambda release, relation, at: epsilon(
        release, delta=at, relation=relation, relative_width=RELATIVE_WIDTH, group_size=300
    ),
    "rho": lambda release, relation, _: rho(release, relation),
    "mu": lambda release, relation, _: profile(release, relation=relation).mu(),
    "renyi": lambda release, relation, at: renyi_epsilon(release, delta=at, relation=relation),
}


@pytest.mark.slow
@many
@given(
    release=generators.anything(),
    relation=st.sampled_from(list(NeighboringRelation)),
    at=st.sampled_from([5e-324, 1e-320, 1e-300, 1e-12, 1e-6, 0.3, 1 - 2**-53]),
    question=st.sampled_from(sorted(QUESTIONS)),
)
def test_a_question_is_answered_or_refused(release, relation, at, question):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with suppress(EpsilogError):
            QUESTIONS[question](release, relation, at)


FAMILIES = {
    "rounds": lambda n: Repeated(PoissonSampled(Gaussian(4.0), 0.02), n),
    "trials": lambda n: BestOfTrials(Repeated(PoissonSampled(Gaussian(4.0), 0.01), 20), BinomialTrialCount(n, 1.0)),
    "trials by coins": lambda n: BestOfTrials(Laplace(20.0), BinomialTrialCount(n, 0.5)),
    "units": lambda n: Grouped(Repeated(PoissonSampled(Gaussian(8.0), 0.01), 20), n),
    "units of Laplace samples": lambda n: Grouped(PoissonSampled(Laplace(50.0), 0.1), n),
    "units of bins": lambda n: Grouped(BallsInBins(Gaussian(50.0), 20), n),
    "epochs": lambda n: BallsInBins(Gaussian(4.0), 20, n),
    "sensitivity": lambda n: DiscreteGaussian(900.0, n),
    "sensitivity of wide noise": lambda n: DiscreteGaussian(24_999.92, n),
    "largest batch": lambda n: TruncatedPoissonSampled(Gaussian(2.0), 0.1, 4096, 4097 - n),
    "population": lambda n: TruncatedPoissonSampled(Gaussian(2.0), 0.1, n, 100),
    "releases on a sample": lambda n: PoissonSampled(Repeated(Laplace(40.0), n), 0.1),
    "repeated best": lambda n: Repeated(BestOfTrials(Gaussian(30.0), BinomialTrialCount(3, 0.5)), n),
}
STEPS = tuple(n for n in generators.COUNTS[:: amount(6, 1)] if n <= 1000)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_bound_jumps_when_a_whole_number_grows_by_one(family):
    """Each step costs at most as much as going from the first to twice the first does, and no bound falls by it."""
    for n in STEPS:
        less, more = (upper(FAMILIES[family](k), 1e-6, ADD) for k in (n, n + 1))
        assert more >= less / SLACK or family in {"largest batch"}
        assert more <= SLACK * less * ((n + 1) / n) ** 2 + 1e-9 or more - less < 0.5, (n, less, more)
