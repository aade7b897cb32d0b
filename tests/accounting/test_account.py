"""One walk over the methods: a release is read once, searches and claims ask the same, and the docs list them all."""

from __future__ import annotations

import importlib
import math
import pkgutil
from functools import partial
from pathlib import Path

import pytest

from epsilog import accounting, mechanisms, numerics
from epsilog.accounting import calibrate, calibration, delta, epsilon, max_rounds
from epsilog.accounting.account import METHODS, PURE, compute_interval, run_methods
from epsilog.accounting.methods import Method
from epsilog.mechanisms import (
    BallsInBins,
    Composed,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    ZeroConcentratedDP,
    composition,
)
from epsilog.mechanisms.composition import Composition
from epsilog.numerics.questions import Bounds, DeltaAt, EpsilonAt
from epsilog.terms import CalibrationError, NeighboringRelation
from epsilog.terms.messages import Message

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SGD = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
CERTIFIED = Path(__file__).parents[2] / "docs" / "accounting" / "certified-bounds.md"


def counted(monkeypatch, module, name):
    """What each first argument was, wherever in mechanisms, numerics and the accountant the function is called."""
    seen, real = [], getattr(module, name)

    def counting(*args, **kwargs):
        seen.append(args[0])
        return real(*args, **kwargs)

    for package in (accounting, mechanisms, numerics):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            where = importlib.import_module(found.name)
            if getattr(where, name, None) is real:
                monkeypatch.setattr(where, name, counting)
    return seen


@pytest.mark.parametrize("ask", [partial(epsilon, delta=1e-5), partial(delta, epsilon=1.0)])
def test_a_release_is_read_once(monkeypatch, ask):
    flattened = counted(monkeypatch, composition, "flatten")
    ordered = counted(monkeypatch, numerics.pairs, "build_dominating_pairs")
    largest = counted(monkeypatch, numerics.pairs, "bound_max_loss")
    ask(SGD)
    assert flattened.count(SGD) == 1
    assert len(ordered) == 1
    assert len(largest) == len(set(largest)) <= 4  # both orders, from above and below


@pytest.mark.parametrize(
    ("release", "relation"),
    [
        (SGD, ADD),
        pytest.param(SGD, REPLACE, marks=pytest.mark.slow),
        (Repeated(PoissonSampled(Laplace(1.0), 0.05), 200), ADD),
        (Repeated(FixedSizeSampled(Gaussian(1.0), 10, 1000), 100), REPLACE),
        (Repeated(ExponentialMechanism(0.1), 100), ADD),
        (Repeated(RandomizedResponse(0.8, 4), 50), REPLACE),
        (BallsInBins(Gaussian(2.0), bins=100), ADD),
        (Composed([ZeroConcentratedDP(0.02), Laplace(4.0)]), ADD),
        pytest.param(Composed([SGD, Laplace(3.0), BallsInBins(Gaussian(2.0), bins=20)]), ADD, marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_a_claim_is_no_more_than_its_upper_bound_alone(release, relation):
    for question in (EpsilonAt(1e-6), DeltaAt(0.5)):
        whole, above = (
            compute_interval(Composition.of(release, relation), question, above=above)[0] for above in (False, True)
        )
        assert whole.upper <= above.upper
        assert above.lower <= whole.upper


MADE = {
    "200 sampled Laplaces": (lambda z: Repeated(PoissonSampled(Laplace(z), 0.05), 200), ADD),
    "queries, replaced": (lambda z: Composed(Laplace(z * (1 + 0.1 * i)) for i in range(10)), REPLACE),
    "SGD": (lambda z: Repeated(PoissonSampled(Gaussian(z), 0.01), 1000), ADD),
    "SGD, replaced": (lambda z: Repeated(PoissonSampled(Gaussian(z), 0.01), 1000), REPLACE),
    "bins": (lambda z: BallsInBins(Gaussian(z), bins=50), ADD),
    "queries": (lambda z: Composed(Laplace(z * (1 + 0.1 * i)) for i in range(10)), ADD),
}


@pytest.mark.slow
@pytest.mark.every(6)
@pytest.mark.parametrize("name", MADE)
def test_what_calibration_accepts_is_met_by_the_claim(name):
    make, relation = MADE[name]
    for goal in (0.7, 1.5):
        noise = calibrate(make, epsilon=goal, delta=1e-6, relation=relation)
        found = epsilon(make(noise), delta=1e-6, relation=relation)
        assert (1 - 2e-3) * goal <= found.lower <= found.upper <= goal
    assert calibrate(make, epsilon=goal, delta=1e-6, relation=relation, digits=4) == pytest.approx(noise, rel=1e-3)


@pytest.mark.slow
def test_a_search_that_the_claim_contradicts_is_made_again_by_claims(monkeypatch):
    """No upper bound alone is below the claim's; were it so, the search would still return what the claim meets."""

    def too_hopeful(composition, question, relative_width, *, above=False):
        bounds, method = compute_interval(composition, question, relative_width)
        return (Bounds(0.0, 0.9 * bounds.upper) if above else bounds), method

    monkeypatch.setattr(calibration, "compute_interval", too_hopeful)
    assert epsilon(Gaussian(calibrate(Gaussian, epsilon=1.0, delta=1e-6)), delta=1e-6).upper <= 1.0
    assert max_rounds(Gaussian(10.0), epsilon=1.0, delta=1e-6) == 5
    with pytest.raises(CalibrationError, match="no value tried meets the goal"):
        calibrate(lambda q: PoissonSampled(Gaussian(0.05), q), epsilon=1.0, delta=1e-9, low=0.9)


def fixed(name, lower, upper, **others):
    return Method(Message(f"method/{name}@1"), lambda *_: Bounds(lower, upper), **others)


def test_methods_are_asked_until_the_interval_is_narrow_and_sides_are_named_after_who_moved_them():
    composition, question = Composition.of(SGD), EpsilonAt(1e-5)
    wide, narrow, never = fixed("renyi", 1.0, 2.0), fixed("inversion", 1.5, 1.501), fixed("lattice", 9.0, 9.0)
    assert run_methods((wide, narrow, never), composition, question, 0.01) == (Bounds(1.5, 1.501), narrow.name)
    both = run_methods((wide, fixed("lattice", 0.0, 1.8)), composition, question, 0.01)[1]
    assert both == Message.of("method/each-side@1", above=never.name, below=wide.name)
    nothing = run_methods((Method(wide.name, lambda *_: None),), composition, question, 0.01)[1]
    assert nothing.id == "method/nothing@1"
    assert run_methods((fixed("gaussian", 1.0, 1.1, enough=0.1), never), composition, question, 0.01)[0] == Bounds(
        1.0, 1.1
    )
    assert run_methods((fixed("renyi", 1.0, 9.0, last=True), never), composition, question, 0.01)[0] == Bounds(1.0, 9.0)
    for helps, upper in (True, 1.5), (False, 1.501):  # a method that may move a narrow interval is asked all the same
        helpful = fixed("lattice", 0.0, 1.5, helps=lambda *_, helps=helps: helps)
        assert run_methods((narrow, helpful), composition, question, 0.01)[0] == Bounds(1.5, upper)
        last = fixed("renyi", 1.0, 9.0, last=True)  # after it nothing is asked, whether it would help or not
        assert run_methods((last, helpful), composition, question, 0.01)[0] == Bounds(1.0, 9.0)


def test_an_upper_bound_alone_is_asked_of_methods_that_have_one():
    composition, question = Composition.of(SGD), DeltaAt(1.0)
    method = Method(PURE.name, lambda *_: Bounds(0.2, 0.3), above=lambda *_: Bounds(0.0, 0.4))
    assert run_methods((method,), composition, question, 0.01, above=True)[0] == Bounds(0.0, 0.4)
    assert run_methods((method,), composition, question, 0.01)[0] == Bounds(0.2, 0.3)


def test_an_answer_without_an_upper_end_is_asked_on():
    composition, question = Composition.of(SGD), EpsilonAt(1e-5)
    one_sided = Method(PURE.name, lambda *_: None, above=lambda *_: Bounds(0.0, math.inf))
    found = run_methods((one_sided, fixed("renyi", 0.0, 3.0)), composition, question, 0.01, above=True)
    assert found[0] == Bounds(0.0, 3.0)


def test_the_docs_list_the_methods_in_the_order_in_which_they_are_asked():
    section = CERTIFIED.read_text(encoding="utf-8").split("## 6. Methods and answers")[1].split("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")][2:]
    assert rows == list(dict.fromkeys(str(method.name) for method in METHODS))
