"""What every registered mechanism keeps, whatever its hooks say: a new one is taken along by its description."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import generators
from tests.extent import amount

from epsilog.accounting import delta, epsilon, renyi_epsilon
from epsilog.mechanisms import Composed, PoissonSampled, Release, Repeated
from epsilog.terms import NeighboringRelation, UnsupportedMechanismError, codec

MECHANISMS = sorted(tag for tag, kind in codec.type_of.items() if issubclass(kind, Release))
RELATIONS = list(NeighboringRelation)
GAP = 0.02
few = settings(max_examples=amount(2, 20), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def answered(ask):
    """The answer under each relation that the mechanism has a proof for: one at least."""
    found = {}
    for relation in RELATIONS:
        with suppress(UnsupportedMechanismError):
            found[relation] = ask(relation)
    assert found
    return found


@pytest.mark.parametrize("tag", MECHANISMS)
@settings(few, max_examples=25)
@given(data=st.data())
def test_its_json_is_itself(tag, data):
    release = data.draw(generators.described(tag))
    document = json.loads(codec.canonical(release.to_json()))
    assert codec.from_json(document) == release
    assert document["term"]["type"] == tag


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("tag", MECHANISMS)
@few
@given(data=st.data(), at=st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_its_answers_hold_together(tag, data, at):
    release = data.draw(generators.described(tag))
    for relation, found in answered(lambda one: epsilon(release, delta=at, relation=one, gap=GAP)).items():
        common = {"relation": relation, "gap": GAP}
        assert 0 <= found.lower <= found.upper
        if (loss := release.pure_loss(relation)) is not None:
            assert found.upper <= float(loss) * (1 + 1e-12)
        for more in (Repeated(release, 2), Composed([release, release])):
            assert epsilon(more, delta=at, **common).upper >= found.lower
        assert epsilon(release, delta=at, group=2, **common).upper >= found.lower
        assert epsilon(release, delta=10 * at, **common).lower <= found.upper
        with suppress(UnsupportedMechanismError):
            assert renyi_epsilon(release, delta=at, relation=relation) >= found.lower
        with suppress(UnsupportedMechanismError):
            sampled = epsilon(PoissonSampled(release, 0.3), delta=at, **common)
            assert sampled.lower <= found.upper
            assert release.is_sample or sampled.upper <= found.upper * (1 + 2 * GAP)


@pytest.mark.slow
@pytest.mark.every(1)
@pytest.mark.parametrize("tag", MECHANISMS)
@few
@given(data=st.data(), at=st.floats(0.0, 2.0))
def test_its_delta_falls_in_epsilon(tag, data, at):
    release = data.draw(generators.described(tag))
    for relation, found in answered(lambda one: delta(release, epsilon=at, relation=one, gap=GAP)).items():
        assert 0 <= found.lower <= found.upper <= 1
        assert delta(release, epsilon=at + 0.5, relation=relation, gap=GAP).lower <= found.upper
        if 1e-100 < found.upper < 0.5:
            assert epsilon(release, delta=found.upper * 1.0001, relation=relation, gap=GAP).lower <= at * (1 + 1e-9)
