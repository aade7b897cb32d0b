"""States of Flower's accountants are read without Flower, and nothing in them is trusted. The rest: ``in_flower``."""

import copy
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

import epsilog as ep
from epsilog.adapters.flower import CertifiedAccountant, from_state
from epsilog.terms import CheckError

STATE = {
    "schema_version": 1,
    "backend": "rdp",
    "config": {
        "target_delta": 1e-5,
        "population_size": 1000,
        "neighboring_relation": "add-or-remove-one",
        "sampling_method": "poisson",
        "max_epsilon": 3.0,
    },
    "orders": [2.0, 4.0],
    "compositions": [
        {"event": {"noise_multiplier": 1.0, "sample_size": 10, "population_size": 1000}, "count": 100},
        {"event": {"noise_multiplier": 0.8, "sample_size": 20, "population_size": 1000}, "count": 1},
    ],
}
ENTRIES = [(1.0, 10, 100), (0.8, 20, 1)]  # the same: noise multiplier, sample size, count


def changed(value, *path):
    state = copy.deepcopy(STATE)
    place = state
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return state


def test_poisson():
    run = from_state(json.loads(json.dumps(STATE)))
    assert run.release == ep.Composed(
        [
            ep.Repeated(ep.PoissonSampled(ep.Gaussian(1.0), 0.01), 100),
            ep.Repeated(ep.PoissonSampled(ep.Gaussian(0.8), 0.02), 1),
        ]
    )
    assert (run.relation, run.delta, run.population, run.max_epsilon) == ("add-or-remove-one", 1e-5, 1000, 3.0)
    assert run.interval() == ep.epsilon(run.release, delta=1e-5)
    assert run.interval(1e-6).lower > run.interval(1e-4).upper


@pytest.mark.slow
def test_without_replacement_a_replaced_client_moves_the_sum_twice_as_far():
    state = changed("without-replacement", "config", "sampling_method")
    state["config"]["neighboring_relation"] = "replace-one"
    run = from_state(state)
    assert run.release.releases[0] == ep.Repeated(ep.mechanisms.FixedSizeSampled(ep.Gaussian(1.0), 10, 1000), 100)
    assert run.relation is ep.NeighboringRelation.REPLACE_ONE
    halved = ep.Composed([ep.Repeated(ep.PoissonSampled(ep.Gaussian(n / 2), m / 1000), c) for n, m, c in ENTRIES])
    assert run.interval().upper >= ep.epsilon(halved, delta=1e-5).lower > from_state(STATE).interval().upper


def test_without_amplification_the_sample_size_buys_nothing_and_the_assumption_is_said():
    run = from_state(changed("no-amplification", "config", "sampling_method"))
    assert run.release == ep.Composed([ep.Repeated(ep.Gaussian(1.0), 100), ep.Repeated(ep.Gaussian(0.8), 1)])
    assert "absent client is a zero update" in str(run.interval().assumptions[-1])
    assert run.interval().upper == pytest.approx(ep.epsilon(run.release, delta=1e-5).upper)


@pytest.mark.parametrize(
    "state",
    [
        {},
        changed(2, "schema_version"),
        changed("prv", "backend"),
        changed(None, "config"),
        changed(0.0, "config", "target_delta"),
        changed("1e-5", "config", "target_delta"),
        changed(0, "config", "population_size"),
        changed(math.nan, "config", "max_epsilon"),
        changed("zero-out", "config", "neighboring_relation"),
        changed("replace-one", "config", "neighboring_relation"),
        changed("shuffled", "config", "sampling_method"),
        changed(None, "compositions"),
        changed(0.0, "compositions", 0, "event", "noise_multiplier"),
        changed(math.nan, "compositions", 0, "event", "noise_multiplier"),
        changed(2000, "compositions", 0, "event", "sample_size"),
        changed(0, "compositions", 0, "event", "sample_size"),
        changed(999, "compositions", 0, "event", "population_size"),
        changed(0, "compositions", 1, "count"),
        changed(True, "compositions", 1, "count"),
        changed(1.5, "compositions", 1, "count"),
        changed({}, "compositions", 1),
    ],
    ids=str,
)
def test_a_state_that_says_anything_else_is_an_error(state):
    with pytest.raises(ValueError, match=r"must|is not"):
        from_state(state)


def accountant(**changes):
    config = STATE["config"] | changes
    words = {"neighboring_relation", "sampling_method"}
    return CertifiedAccountant(
        SimpleNamespace(
            **{name: SimpleNamespace(value=value) if name in words else value for name, value in config.items()}
        )
    )


def event(noise=1.0, size=10, population=1000):
    return SimpleNamespace(noise_multiplier=noise, sample_size=size, population_size=population)


def test_the_accountant_counts_what_was_released():
    found = accountant()
    found.compose(event(), 60)
    found.compose(event(0.8, 20))
    found.compose(event(), 40)
    assert found.num_releases == 101
    assert from_state(found.state_dict()) == from_state(STATE)
    assert found.get_epsilon(1e-5) == from_state(STATE).interval().upper
    again = accountant()
    again.load_state_dict(STATE)
    assert again.state_dict() == found.state_dict()


@pytest.mark.slow
def test_what_would_exceed_the_limit_is_said_before_it_is_released():
    found = accountant(max_epsilon=None)
    found.compose(event(), 3)
    limit = found.get_epsilon(1e-5)
    strict = accountant(max_epsilon=limit)
    assert [strict.would_exceed(event(), count=count) for count in (1, 3, 4)] == [False, False, True]
    assert strict.num_releases == 0
    strict.compose(event(), 3)
    assert strict.would_exceed(event())
    assert not strict.would_exceed(event(), max_epsilon=2 * limit)
    with pytest.raises(ValueError, match="max_epsilon must be given"):
        found.would_exceed(event())


def test_numbers_of_numpy_are_stored_as_pythons_own_and_do_not_overflow():
    found = accountant()
    for _ in range(2):
        found.compose(event(np.float32(1.5), np.int16(10), np.int64(1000)), np.int8(100))
    (entry,) = json.loads(json.dumps(found.state_dict()))["compositions"]
    assert entry["count"] == found.num_releases == 200
    assert entry["event"] == {"noise_multiplier": 1.5, "sample_size": 10, "population_size": 1000}
    state = found.state_dict()
    state["compositions"] = [entry | {"count": np.int8(100)} for _ in range(2)]
    found.load_state_dict(state)
    assert found.num_releases == 200


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), math.nan, True, "1", np.array(["1"])], ids=repr)
@pytest.mark.parametrize("field", ["noise_multiplier", "sample_size", "population_size", "count"])
def test_a_field_of_an_event_that_holds_no_number_is_refused_by_name_and_changes_nothing(field, value):
    found = accountant()
    one, count = event(), value if field == "count" else 1
    if field != "count":
        setattr(one, field, value)
    with pytest.raises(CheckError, match=f"^{field} must be"):
        found.compose(one, count)
    assert found.num_releases == 0
