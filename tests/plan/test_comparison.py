"""Two releases side by side: the words follow from certified numbers, and name the right one."""

from types import SimpleNamespace

import pytest

from epsilog import plan
from epsilog.mechanisms import Gaussian, PoissonSampled
from epsilog.plan.composition import ReleaseComparison
from epsilog.terms import NeighboringRelation
from epsilog.terms.messages import catalogue

PLAIN, RARE = Gaussian(0.85), PoissonSampled(Gaussian(0.3), 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_the_smaller_epsilon_can_be_the_weaker_promise(turned):
    both = plan.compare_releases(*((RARE, PLAIN) if turned else (PLAIN, RARE)), delta=1e-6, fpr=0.01)
    small, other = ("second", "first") if turned else ("first", "second")
    assert both.found.outcome == "neither"
    assert both.at_delta.better == small
    assert getattr(both.at_delta, small).upper == pytest.approx(5.8855, abs=1e-4)  # docs/how-to/plan-a-schedule.md
    assert both.at_fpr.better == other
    cross, weaker = both.messages
    assert cross.id == "compare/neither"
    assert f"the {small} has the smaller epsilon: at most 5.886, against at least 8.245" in str(weaker)
    assert (
        f"Wrongly accusing 1%, the best attack picks out at least 0.1245 on it, at most 0.01084 on the {other}"
        in str(weaker)
    )
    assert both.fits[turned].mu == pytest.approx(1 / 0.85)


def test_each_figure_of_a_weaker_promise_is_the_end_that_its_words_need():
    """Small epsilon: at most, against at least. Best attack on it: at least, and at most on the other."""

    def point(better, first, second):
        ends = (SimpleNamespace(lower=low, upper=high, given=(("at", 0.01),)) for low, high in (first, second))
        return SimpleNamespace(better=better, **dict(zip(("first", "second"), ends, strict=True)))

    at_delta, at_fpr = point("first", (1.0, 2.0), (4.0, 5.0)), point("second", (0.3, 0.4), (0.1, 0.2))
    both = ReleaseComparison(SimpleNamespace(outcome="neither", at_delta=at_delta), at_delta, at_fpr, (None, None))
    told = dict(both.messages[1].params)
    assert [told[name] for name in ("upper", "lower", "least", "most")] == [2.0, 4.0, 0.3, 0.2]


def test_where_one_is_better_everywhere_nothing_is_said_of_a_weaker_promise():
    both = plan.compare_releases(Gaussian(2.0), Gaussian(1.0), delta=1e-5, fpr=0.02)
    assert [line.to_json() for line in both.messages] == [["compare/first", {"tolerance": 0.005}]]
    assert [each.first.given[0][1] for each in both.found.at_deltas] == [0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10]
    assert both.at_fpr.first.given[0] == ("fpr", 0.02)
    alike = plan.compare_releases(Gaussian(2.0), Gaussian(2.0), delta=1e-5, fpr=0.02)
    assert [line.to_json() for line in alike.messages] == [["compare/alike", {"tolerance": 0.005}]]


def test_every_verdict_has_words():
    for verdict in ("first", "second", "neither", "alike", "open"):
        assert {f"better/{verdict}", f"compare/{verdict}"} <= set(catalogue())
    replaced = plan.compare_releases(PLAIN, PLAIN, delta=1e-6, fpr=0.01, relation=NeighboringRelation.REPLACE_ONE)
    assert replaced.at_delta.first.relation is NeighboringRelation.REPLACE_ONE
