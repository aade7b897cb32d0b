"""A tracker is shown what is public of every round, and epsilon so far from above."""

import pytest

from epsilog.adapters.trackers import tracked
from epsilog.plan import price
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


def record(number, *, loss=0.5):
    return RoundRecord(number, "ab" * 32, 1.0, 0.5, (0.1,), loss, None if loss is None else 0.75)


@pytest.mark.slow
@pytest.mark.parametrize("tracker", [Writer, Flow])
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


def test_what_cannot_be_told_is_refused():
    with pytest.raises(ValueError, match="tracker must be something with add_scalar or log_metric, got a list"):
        tracked([], SCHEME, delta=1e-5)
    with pytest.raises(ValueError, match="delta must be in"):
        tracked(Writer(), SCHEME, delta=0)
