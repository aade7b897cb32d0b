"""What every registered mechanism keeps, whatever its hooks say: a new one is taken along by its description."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests import generators
from tests.extent import ALL, amount

import epsilog as ep
from epsilog.accounting import delta, epsilon, renyi_epsilon
from epsilog.mechanisms import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse as Response,
    Release,
    Repeated,
)
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, codec

MECHANISMS = sorted(tag for tag, kind in codec.type_of.items() if issubclass(kind, Release))
ADD, REPLACE, ZERO = RELATIONS = list(NeighboringRelation)
RELATIVE_WIDTH = 0.02
few = settings(max_examples=amount(2, 20), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def answered(ask, data):
    """The answers under the relations that a mechanism has a proof for, one at least; at each change one of them."""
    found = {}
    for relation in data.draw(st.permutations(RELATIONS)):
        with suppress(UnsupportedMechanismError):
            found[relation] = ask(relation)
            if not ALL:
                break
    assert found
    return found


@pytest.mark.parametrize("tag", MECHANISMS)
@settings(few, max_examples=amount(8, 25))
@given(data=st.data())
def test_its_json_is_itself(tag, data):
    release = data.draw(generators.described(tag))
    document = json.loads(codec.encode_canonical(release.to_json()))
    assert codec.from_json(document) == release
    assert document["term"]["type"] == tag


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("tag", MECHANISMS)
@few
@given(data=st.data(), at=st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_its_answers_hold_together(tag, data, at):
    release = data.draw(generators.described(tag))
    for relation, found in answered(
        lambda one: epsilon(release, delta=at, relation=one, relative_width=RELATIVE_WIDTH), data
    ).items():
        common = {"relation": relation, "relative_width": RELATIVE_WIDTH}
        assert 0 <= found.lower <= found.upper
        if (loss := release.pure_loss(relation)) is not None:
            assert found.upper <= float(loss) * (1 + 1e-12)
        for more in (Repeated(release, 2), Composed([release, release])):
            assert epsilon(more, delta=at, **common).upper >= found.lower
        assert epsilon(release, delta=at, group_size=2, **common).upper >= found.lower
        assert epsilon(release, delta=10 * at, **common).lower <= found.upper
        with suppress(UnsupportedMechanismError):
            assert renyi_epsilon(release, delta=at, relation=relation) >= found.lower
        with suppress(UnsupportedMechanismError):
            sampled = epsilon(PoissonSampled(release, 0.3), delta=at, **common)
            assert sampled.lower <= found.upper
            assert release.is_sample or sampled.upper <= found.upper * (1 + 2 * RELATIVE_WIDTH)


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("tag", MECHANISMS)
@few
@given(data=st.data(), at=st.floats(0.0, 2.0))
def test_its_delta_falls_in_epsilon(tag, data, at):
    release = data.draw(generators.described(tag))
    for relation, found in answered(
        lambda one: delta(release, epsilon=at, relation=one, relative_width=RELATIVE_WIDTH), data
    ).items():
        assert 0 <= found.lower <= found.upper <= 1
        assert delta(release, epsilon=at + 0.5, relation=relation, relative_width=RELATIVE_WIDTH).lower <= found.upper
        if 1e-100 < found.upper < 0.5:
            assert epsilon(
                release, delta=found.upper * 1.0001, relation=relation, relative_width=RELATIVE_WIDTH
            ).lower <= at * (1 + 1e-9)


TREE = ep.mechanisms.MatrixMechanism(
    ep.mechanisms.TreeAggregationStrategy(), ep.mechanisms.BoundedParticipation(2), 8, 1.0
)
BANDED = ep.mechanisms.ToeplitzStrategy((1.0, 0.5))
TOLD = [  # a sample, and the relation under which its mechanism has no pair
    *(
        (PoissonSampled(one, 0.1), REPLACE)
        for one in (ep.mechanisms.GaussianDP(1.0), ep.mechanisms.ExponentialMechanism(1.0), TREE)
    ),
    (PoissonSampled(Composed([Gaussian(1.0), Laplace(1.0)]), 0.1), REPLACE),
    (PoissonSampled(Repeated(ep.mechanisms.DiscreteLaplace(1.0), 2), 0.1), REPLACE),
    (PoissonSampled(ep.mechanisms.Staircase(1.0), 0.1), REPLACE),
    (PoissonSampled(Repeated(Laplace(1.0), 17), 0.1), ADD),
    (PoissonSampled(Composed([Gaussian(1.0), ep.mechanisms.ZeroConcentratedDP(0.1)]), 0.1), ADD),
    (PoissonSampled(Composed([Gaussian(1.0), ep.mechanisms.ExponentialMechanism(0.1)]), 0.1), ZERO),
    (ep.mechanisms.BallsInBins(Gaussian(1.0), 10), REPLACE),
    (ep.mechanisms.BallsInBins(Laplace(1.0), 10, 2), ADD),
    (ep.mechanisms.BallsInBins(TREE, 4), REPLACE),
    (FixedSizeSampled(TREE, 1, 4), REPLACE),
    (ep.mechanisms.Shuffled(Gaussian(1.0), 9), REPLACE),
    (ep.mechanisms.Shuffled(ep.ApproximateDP(1.0, 1e-9), 9), REPLACE),
]


NESTED = {  # the sample inside hides nothing either
    ep.mechanisms.BallsInBins(PoissonSampled(Gaussian(1.0), 0.1), 10): Gaussian(1.0),
    PoissonSampled(Composed([Laplace(1.0), PoissonSampled(Gaussian(1.0), 0.1)]), 0.1): Composed(
        [Laplace(1.0), Gaussian(1.0)]
    ),
}


@pytest.mark.parametrize(("sample", "relation"), [*TOLD, *((one, ADD) for one in NESTED)])
def test_a_sample_without_a_pair_costs_what_it_costs_to_know_who_is_in_it(sample, relation):
    told = NESTED.get(sample, Repeated(sample.release, getattr(sample, "epochs", 1)))
    for count in (1, 3):
        found, known = (epsilon(Repeated(one, count), delta=1e-6, relation=relation) for one in (sample, told))
        assert found.upper == pytest.approx(known.upper, rel=0.003)
        assert "no amplification by sampling" in str(found.method)


@pytest.mark.parametrize(
    ("release", "relation"),
    [
        (FixedSizeSampled(Gaussian(1.0), 1, 10), ADD),
        (ep.mechanisms.BallsInBins(FixedSizeSampled(Gaussian(1.0), 1, 10), 10), ADD),
        (Response(0.5), ADD),
        (ep.mechanisms.Grouped(Response(0.5), 2), ADD),
        (ep.mechanisms.BestOfTrials(Response(0.5), ep.mechanisms.PoissonTrialCount(2.0)), ADD),
        *((ep.mechanisms.Shuffled(PureDP(1.0), 9), relation) for relation in (ADD, ZERO)),
        (ep.mechanisms.Shuffled(ep.mechanisms.Shuffled(PureDP(1.0), 9), 9), REPLACE),
        (ep.mechanisms.Shuffled(FixedSizeSampled(PureDP(1.0), 1, 9), 9), REPLACE),
        (ep.mechanisms.Shuffled(PoissonSampled(PureDP(1.0), 0.1), 9), REPLACE),
        (FixedSizeSampled(ep.mechanisms.Shuffled(PureDP(1.0), 9), 9, 90), REPLACE),
        (FixedSizeSampled(Repeated(ep.mechanisms.Shuffled(PureDP(1.0), 9), 2), 9, 90), REPLACE),
        (PoissonSampled(ep.mechanisms.Shuffled(PureDP(1.0), 9), 0.1), REPLACE),
        *(
            (ep.mechanisms.MatrixMechanism(BANDED, ep.mechanisms.BallsInBinsParticipation(4), 8, 1.0), relation)
            for relation in (ADD, REPLACE)
        ),
        (ep.mechanisms.MatrixMechanism(BANDED, ep.mechanisms.MinSepParticipation(4, 0.1), 8, 1.0), ADD),
        (
            ep.mechanisms.MatrixMechanism(
                ep.mechanisms.TreeAggregationStrategy(), ep.mechanisms.CyclicPoissonParticipation(4, 0.1), 8, 1.0
            ),
            ADD,
        ),
        (ep.mechanisms.MatrixMechanism(BANDED, ep.mechanisms.BoundedParticipation(2**25, 1), 2**26, 1.0), ADD),
    ],
)
def test_what_has_no_proof_is_refused_alone_and_beside_others(release, relation):
    for asked in (release, Composed([release, Gaussian(1.0)])):
        with pytest.raises(UnsupportedMechanismError, match="no proven"):
            epsilon(asked, delta=1e-6, relation=relation)
