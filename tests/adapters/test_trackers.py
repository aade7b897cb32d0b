"""A tracker is shown what is public of every round, and epsilon so far from above."""

import logging
from unittest import mock

import pytest
from opentelemetry import metrics

from epsilog.adapters.trackers import Tracked, tracked
from epsilog.plan import price, register
from epsilog.terms import ClientLevelCentral, NeighboringRelation, RoundRecord

SCHEME = ClientLevelCentral(100, 0.1, 120, 0.5, 2.0)


class Writer:
    def __init__(self):
        self.seen = {}

    def add_scalar(self, name, value, step):
        self.seen[name, step] = value


class Flow:
    def __init__(self):
        self.seen = {}

    def log_metric(self, key, value, step=None):
        self.seen[key, step] = value


class Run:
    """As Weights & Biases has it."""

    def __init__(self):
        self.seen, self.summary = {}, {}

    def log(self, data, step=None):
        self.seen |= {(name, step): value for name, value in data.items()}


class Meter:
    """As OpenTelemetry has it (opentelemetry-api 1.23, ``Meter.create_gauge`` and ``_Gauge.set``)."""

    def __init__(self):
        self.made, self.values = [], {}

    def create_gauge(self, name, unit="", description=""):
        self.made.append((name, unit, description))
        return Gauge(self.values, name)


class Gauge:
    def __init__(self, values, name):
        self.values, self.name = values, name

    def set(self, amount):
        self.values[self.name] = amount


def record(number, *, loss=0.5):
    return RoundRecord(number, "ab" * 32, 1.0, 0.5, (0.1,), loss, None if loss is None else 0.75)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("tracker", [Writer, Flow, Run])
def test_every_round_is_shown_with_what_is_left_and_what_it_cost(tracker):
    shown = tracker()
    show = tracked(shown, SCHEME, delta=1e-5)
    for number in range(1, 121):
        show(record(number))
    assert shown.seen["test/loss", 7] == 0.5
    assert shown.seen["test/score", 120] == 0.75
    assert shown.seen["dp/rounds_left", 20] == 100
    assert shown.seen["dp/clip_norm", 3] == 0.5
    costs = {step: value for (name, step), value in shown.seen.items() if name == "dp/epsilon"}
    assert {1, 120} <= set(costs)
    assert 30 <= len(costs) <= 60
    assert list(costs.values()) == sorted(costs.values())
    assert costs[120] == price(SCHEME, 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE).upper


def test_a_diverged_round_shows_no_number_for_what_it_has_not():
    shown = Writer()
    tracked(shown, SCHEME, delta=1e-5)(record(3, loss=None))
    assert ("test/loss", 3) not in shown.seen
    assert shown.seen["dp/rounds_left", 3] == 117


def test_gauges_of_a_meter_hold_the_last_round_and_are_made_once():
    meter = Meter()
    show = tracked(meter, SCHEME, delta=1e-5)
    for number in (1, 2, 3):
        show(record(number, loss=1 / number))
    assert meter.values["epsilog.test.loss"] == 1 / 3
    assert meter.values["epsilog.dp.rounds_left"] == 117
    assert meter.values["epsilog.dp.epsilon"] > 0
    assert sorted(name for name, _, _ in meter.made) == sorted(meter.values)
    assert {unit for _, unit, _ in meter.made} == {"1"}
    assert all(says for _, _, says in meter.made)


def test_the_interface_of_opentelemetry_itself_is_met():
    show = tracked(mock.create_autospec(metrics.Meter, instance=True), SCHEME, delta=1e-5)
    show(record(3))
    tracked(metrics.NoOpMeter("epsilog"), SCHEME, delta=1e-5)(record(3))
    mock.create_autospec(metrics.NoOpMeter("epsilog").create_gauge("x"), instance=True).set(0.5)


def test_a_whole_programme_is_shown_at_the_delta_and_the_relation_of_its_plan():
    scheme = ClientLevelCentral(100, None, 12, 0.5, 2.0, sampling="cyclic", cycle_length=4)
    plan = register(
        lambda _: scheme,
        name="one",
        noise_multiplier=2.0,
        budget_epsilon=100,
        delta=1e-3,
        relation=NeighboringRelation.ZERO_OUT,
        privacy_unit="clinic",
        population=100,
        budget={},
        simulation=True,
        details={},
    )
    shown = Writer()
    watcher = Tracked(shown)
    watcher.stage("training")
    for number in (1, 5, 12):
        watcher.round(record(number), plan)
    assert shown.seen["dp/rounds_left", 5] == 7
    assert shown.seen["dp/epsilon", 12] == plan.guarantee.epsilon
    assert shown.seen["dp/epsilon", 1] < shown.seen["dp/epsilon", 5] < shown.seen["dp/epsilon", 12]
    with pytest.raises(ValueError, match="tracker must be something with add_scalar"):
        Tracked(3)


@pytest.mark.parametrize("other", [[], logging.getLogger("epsilog")])
def test_what_cannot_be_told_is_refused(other):
    with pytest.raises(ValueError, match="tracker must be something with add_scalar, log_metric, create_gauge, or log"):
        tracked(other, SCHEME, delta=1e-5)
    with pytest.raises(ValueError, match="delta must be in"):
        tracked(Writer(), SCHEME, delta=0)
