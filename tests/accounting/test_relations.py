"""A relation may be given by its name, everywhere, and means the same; what is no relation is refused."""

import math

import numpy as np
import pytest

import epsilog as ep
from epsilog import plan
from epsilog.accounting import calibrate, max_rounds, renyi_delta, renyi_epsilon
from epsilog.accounting.calibration import epsilon_curve
from epsilog.accounting.privacy_profile import mu, profile, rho
from epsilog.accounting.renyi import rdp
from epsilog.terms import Guarantee, Interval, NeighboringRelation

GAUSSIAN = ep.Gaussian(2.0)
ORDERS = np.array([2.0, 8.0])
SCHEDULE = {"population": 1000, "cohort_size": 10, "rounds": 5, "sampling": "fixed-size", "delta": 1e-6}
QUESTIONS = {
    "epsilon": lambda relation: ep.epsilon(GAUSSIAN, delta=1e-5, relation=relation),
    "delta": lambda relation: ep.delta(GAUSSIAN, epsilon=1.0, relation=relation),
    "profile": lambda relation: profile(GAUSSIAN, relation=relation).advantage(),
    "tpr": lambda relation: profile(GAUSSIAN, relation=relation).tpr(0.1),
    "group": lambda relation: profile(GAUSSIAN, relation=relation).group_delta(units=2, epsilon=1.0),
    "mu": lambda relation: mu(GAUSSIAN, relation),
    "rho": lambda relation: rho(GAUSSIAN, relation),
    "rdp": lambda relation: rdp(GAUSSIAN, ORDERS, relation=relation).tolist(),
    "renyi_epsilon": lambda relation: renyi_epsilon(GAUSSIAN, delta=1e-5, relation=relation),
    "renyi_delta": lambda relation: renyi_delta(GAUSSIAN, epsilon=1.0, relation=relation),
    "calibrate": lambda relation: calibrate(ep.Gaussian, epsilon=1.0, delta=1e-5, relation=relation),
    "rounds": lambda relation: max_rounds(ep.Gaussian(40.0), epsilon=1.0, delta=1e-5, relation=relation),
    "curve": lambda relation: epsilon_curve(GAUSSIAN, [1, 2], delta=1e-5, relation=relation),
    "mix": lambda relation: plan.plan_composition([GAUSSIAN, ep.Laplace(3.0)], delta=1e-5, relation=relation),
    "view": lambda relation: plan.compute_profile_view(GAUSSIAN, delta=1e-5, relation=relation, points=3),
    "federated": lambda relation: plan.plan_federated(**SCHEDULE, noise_multiplier=2.0, relation=relation).to_json(),
    "noise_for": lambda relation: plan.calibrate_noise(**SCHEDULE, epsilon=1.0, relation=relation),
    "sensitivity": lambda relation: plan.compute_query_sensitivity("sum", low=-1.0, high=3.0, relation=relation),
    "guarantee": lambda relation: Guarantee(1.0, 1e-5, relation, "person", 10),
    "interval": lambda relation: Interval(1.0, 2.0, "a method", relation),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_name_means_the_relation(question):
    ask = QUESTIONS[question]
    member = ask(NeighboringRelation.REPLACE_ONE)
    assert ask("replace-one") == member
    with pytest.raises(
        ValueError, match="relation must be one of add-or-remove-one, replace-one, zero-out, got 'replace'"
    ):
        ask("replace")
    if question not in {"federated", "noise_for"}:  # a fixed size is replace-one's alone
        assert ask("add-or-remove-one") != member  # the control: the relation matters to every question here


def test_the_name_does_not_halve_the_price():
    assert math.isclose(mu(GAUSSIAN, "replace-one"), 1.0)
    assert rdp(GAUSSIAN, ORDERS, relation="replace-one").tolist() == pytest.approx([1.0, 4.0])
