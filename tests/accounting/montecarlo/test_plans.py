"""What is no plan of ours is refused, whatever is wrong with it; a certificate asks one thing in both directions."""

import copy
import json
from dataclasses import replace

import pytest

from epsilog.accounting import montecarlo
from epsilog.mechanisms import BallsInBins, Gaussian


@pytest.fixture(scope="module")
def plan():
    return montecarlo.plan_certificate(BallsInBins(Gaussian(1.0), 4), epsilon=1.0, seed=3, samples=100)


def test_a_plan_is_read_as_it_was_written(plan):
    document = json.loads(json.dumps(plan.to_json()))
    assert montecarlo.plan_from_json(document) == plan
    assert montecarlo.plan_from_json(document).commitment == plan.commitment


@pytest.mark.parametrize(
    "wrong", [{}, {"v": 0}, {"kind": "montecarlo-certificate"}, {"v": 0, "kind": []}, [], None, 7, "v"]
)
def test_what_is_no_plan_is_refused_in_words(wrong):
    with pytest.raises(ValueError, match=r"plan must be as plan_certificate or plan_sweep wrote|kind must be one of"):
        montecarlo.plan_from_json(wrong)


@pytest.mark.parametrize("field", ["failure", "trials"])
@pytest.mark.parametrize("kind", ["montecarlo-certificate", "montecarlo-sweep"])
def test_a_plan_without_a_field_or_with_another_kind_of_value_is_refused(plan, field, kind):
    document = json.loads(json.dumps(plan.to_json())) | {"kind": kind}
    for value in (None, "x", [], {}, [None], -1, [[]], [{}]):
        with pytest.raises(ValueError, match="must"):
            montecarlo.plan_from_json(document | {field: value})
    with pytest.raises(ValueError, match="must"):
        montecarlo.plan_from_json({name: value for name, value in document.items() if name != field})


def test_any_field_of_a_trial_that_is_missing_or_of_no_release_is_refused(plan):
    document = json.loads(json.dumps(plan.to_json()))
    for name in document["trials"][0]:
        for value in (None, "x", {}, [], -1):
            other = copy.deepcopy(document)
            other["trials"][0][name] = value
            if other != document and (name, value) != ("log_bound", -1):  # any number may be one
                with pytest.raises(ValueError, match="must"):
                    montecarlo.plan_from_json(other)
        del other["trials"][0][name]
        with pytest.raises(ValueError, match="must"):
            montecarlo.plan_from_json(other)


@pytest.mark.parametrize("version", [1, -1, 0.0, True, False, "0", None])
@pytest.mark.parametrize("where", ["plan", "document"])
def test_another_version_is_refused(plan, version, where):
    document = json.loads(json.dumps(plan.to_json()))
    if where == "plan":
        with pytest.raises(ValueError, match="must"):
            montecarlo.plan_from_json(document | {"v": version})
    else:
        with pytest.raises(ValueError, match="must"):
            montecarlo.check_document({"plan": document | {"v": version}, "source": {}, "hits": []})


def test_a_certificate_is_of_one_release_at_one_epsilon_in_both_directions(plan):
    one, other = plan.trials
    elsewhere = montecarlo.plan_certificate(BallsInBins(Gaussian(1.5), 4), epsilon=1.0, seed=3, samples=100).trials[1]
    at_two = montecarlo.plan_certificate(BallsInBins(Gaussian(1.0), 4), epsilon=2.0, seed=3, samples=100).trials[1]
    for wrong in (elsewhere, at_two):
        with pytest.raises(ValueError, match="trials must be of one release at one epsilon"):
            replace(plan, trials=(one, wrong))
    for trials in ((), (one,), (one, one), (other, one), (one, other, one)):
        with pytest.raises(ValueError, match="trials must be of both directions"):
            replace(plan, trials=trials)
    for failure in (0.0, 1.0, -1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match="failure must be"):
            replace(plan, failure=failure)
