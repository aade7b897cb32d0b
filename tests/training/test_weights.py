"""Clients that count by their rows: nobody counts more than whole, and sizes show only where they are public."""

import dataclasses

import numpy as np
import pytest
from tests.training.test_engine import COHORT, noisy_runs, updates

from epsilog.schemes import ClientLevelCentral, ClientLevelClientSide, ExampleLevelClientSide
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.training import AuthorizedRun, LocalTraining, Randomness, train_without_charge
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.reference import ReferenceEngine

EXAMPLES = {"unit_is_client": False, "sizes_are_public": True}
RUNS = ExampleLevelClientSide(12, 5, 3, 2, 0.5, 1, 0.2, 1.0)


def test_a_client_counts_by_its_rows_and_never_more_than_whole():
    rows = np.array([0, 1, 3, 4, 1000])
    assert LocalTraining(0.1).weights(rows).tolist() == [1.0] * 5
    assert LocalTraining(0.1, example_cap=4).weights(rows).tolist() == [0.0, 0.25, 0.75, 1.0, 1.0]
    with pytest.raises(CheckError, match="example_cap"):
        LocalTraining(0.1, example_cap=0)


@pytest.mark.parametrize("engine", [CompiledEngine, ReferenceEngine], ids=lambda engine: engine.__name__)
def test_a_change_is_multiplied_by_its_weight(small_task, engine):
    """An update before it is clipped; a noisy run with the noise that it holds, and its padding stays as it is."""
    plain, task = small_task(), small_task(example_cap=4)
    weights = task.training.weights(task.clients.sizes)
    assert {0.0, 1.0} < set(weights[COHORT]), "some count whole, some in part, one not at all"
    for client in COHORT:
        alone = np.array([client])
        whole, part = (updates(engine(one), np.inf, alone).total for one in (plain, task))
        assert part == pytest.approx(weights[client] * whole, abs=1e-12)
        clipped = updates(engine(task), 0.05, alone)
        length = np.linalg.norm(weights[client] * whole)
        assert np.linalg.norm(clipped.total) == pytest.approx(min(length, 0.05), rel=1e-6)
        assert clipped.clipped == (length > 0.05)
        runs, weighed = (noisy_runs(engine(small_task(**EXAMPLES, **t)), 0.3, alone) for t in ({}, {"example_cap": 4}))
        assert weighed.total == pytest.approx(weights[client] * runs.total, abs=1e-12)
        assert np.array_equal(weighed.padding, runs.padding)


@pytest.mark.slow
def test_a_row_that_cannot_be_used_counts_for_its_clients_size(small_task):
    """How many rows can be used is not public, not even where sizes are."""

    def spoil(features, *_):
        features[2, 0, 0] = np.nan

    spoilt = CompiledEngine(small_task(change=spoil, example_cap=6, **EXAMPLES))
    assert spoilt.unusable(COHORT) == 1
    client = np.array([2])
    plain = CompiledEngine(small_task(change=spoil, **EXAMPLES))
    size = int(plain.task.clients.sizes[2])
    assert noisy_runs(spoilt, cohort=client).total == pytest.approx(size / 6 * noisy_runs(plain, cohort=client).total)


@pytest.mark.parametrize(
    "scheme", [ClientLevelCentral(12, 0.5, 2, 0.2, 1.0), ClientLevelClientSide(12, 5, 2, 2, 0.2, 1.0)]
)
def test_at_the_client_level_weights_change_the_model_and_no_price(small_task, scheme):
    seeded = Randomness.from_seed(3)
    plain, weighed = (train_without_charge(scheme, small_task(example_cap=cap), randomness=seeded) for cap in (None, 6))
    assert not np.array_equal(plain.model, weighed.model)
    assert [record.padding for record in plain.records] == [record.padding for record in weighed.records]
    assert "client_sizes" not in small_task(example_cap=6).describe()


def test_examples_count_only_where_sizes_are_public_and_neighbors_keep_them(small_task, charge_for):
    with pytest.raises(
        CheckError, match="example_cap must be absent, or sizes_are_public true, if the unit is an exam"
    ):
        small_task(unit_is_client=False, example_cap=4)
    task = small_task(example_cap=4, **EXAMPLES)
    assert task.describe()["client_sizes"] == "public"
    charge = charge_for(RUNS, "example")
    assert charge.request.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    paid = AuthorizedRun(RUNS, charge, Randomness.from_seed(1))
    with pytest.raises(CheckError, match="example_cap must be absent unless the charge has the relation zero-out"):
        paid.require_unit(task)
    paid.require_unit(small_task(**EXAMPLES))
    charge.request = dataclasses.replace(charge.request, relation=NeighboringRelation.ZERO_OUT)
    paid.require_unit(task)
