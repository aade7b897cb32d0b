"""Documents that a third party redraws: an honest one agrees, and every forgery we could think of is noticed."""

import json

import pytest

from epsilog.accounting import montecarlo
from epsilog.accounting.montecarlo import recompute
from epsilog.accounting.montecarlo.payoff import BesideProfile
from epsilog.terms import BallsInBins, BinnedParticipation, Gaussian, MatrixMechanism, ToeplitzStrategy, codec

BINS = BallsInBins(Gaussian(1.0), bins=16)
BANDED = MatrixMechanism(ToeplitzStrategy((0.9, 0.4, 0.2)), BinnedParticipation(6), 18, 1.5)


def as_read(found):
    return json.loads(json.dumps(found.to_json()))


@pytest.fixture(scope="module")
def document():
    found = montecarlo.sweep(BANDED, epsilon=1.0, delta=1e-2, slack=0.3, seed=21, noises=(3.0, 2.0, 1.5, 1.0))
    return as_read(found)


def test_a_third_party_recomputes_everything(document):
    assert montecarlo.check_document(document) == ()
    assert document["claim"]["delta"] <= 1e-2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["evidence"][0]["hits"].__setitem__(0, d["evidence"][0]["hits"][0] + 1), "hits recorded"),
        (lambda d: d.update(chosen=d["chosen"] + 1), "chosen"),
        (lambda d: d.update(noise=d["noise"] * 0.9), "noise"),
        (lambda d: d["claim"].update(delta=d["claim"]["delta"] * 0.9), "claim"),
        (lambda d: d["claim"].update(delta=float("nan")), "claim"),
        (lambda d: d["checks"][-1][0].update(passes=d["checks"][-1][0]["samples"]), "claim"),
        (lambda d: d["evidence"][2].update(hits=d["evidence"][2]["hits"][:-1] or [0]), "hits"),
        (lambda d: d["evidence"][1].update(log_bound=d["evidence"][1]["log_bound"] - 0.5), "not proven"),
        (lambda d: d.update(seed=str(int(d["seed"]) + 1)), "drawn"),
        (lambda d: d.update(evidence=d["evidence"][:2]), "never tested"),
    ],
)
def test_any_change_is_noticed(document, change, says):
    changed = json.loads(json.dumps(document))
    change(changed)
    assert any(says in line for line in montecarlo.check_document(changed))


def both_epsilons(d, epsilon):
    """Tests everything at another epsilon than the one claimed."""
    for pair in d["checks"]:
        for part in pair:
            part["payoff"]["epsilon"] = epsilon
    for part in d["evidence"]:
        part["payoff"]["epsilon"] = epsilon


def kinder_adding(d, bins):
    """Tests the direction add with another release."""
    for pair in d["checks"]:
        pair[1]["release"]["participation"]["cycle_length"] = bins
    for part in d["evidence"][1::2]:
        part["release"]["participation"]["cycle_length"] = bins


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: both_epsilons(d, 3.0), "epsilon"),
        (lambda d: kinder_adding(d, 18), "one release"),
        (lambda d: d["claim"].update(relation="replace-one"), "relation"),
        (lambda d: d["claim"].update(delta=d["claim"]["delta"] * (1 - 1e-9)), "claim"),
        (lambda d: d.update(bound="better"), "bound"),
        (lambda d: d.update(assumptions=[]), "assumptions"),
        (lambda d: d["evidence"].append(d["evidence"][-1]), "more of it"),
        (lambda d: d["noises"].__setitem__(0, 9.0), "one release"),
    ],
)
def test_a_sweep_that_tested_something_else_is_noticed(document, change, says):
    changed = json.loads(json.dumps(document))
    change(changed)
    assert any(says in line for line in montecarlo.check_document(changed, shards=1))


@pytest.fixture(scope="module")
def certificate():
    return as_read(montecarlo.certify(BINS, epsilon=1.0, samples=40_000, seed=5))


def test_a_certificate_is_recomputed(certificate):
    assert montecarlo.check_document(certificate) == ()
    assert 6.876e-4 in codec.decode(certificate["interval"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["interval"].update(upper=d["interval"]["upper"] * 0.99), "interval"),
        (lambda d: d["interval"].update(lower=d["interval"]["lower"] * 1.01), "interval"),
        (lambda d: d["interval"].update(assumptions=[]), "interval"),
        (lambda d: d["interval"]["given"][0].__setitem__(1, 0.5), "interval"),
        (lambda d: d["interval"].update(relation="replace-one"), "interval"),
        (lambda d: d.update(failure=0.3), "interval"),
        (lambda d: d["evidence"].pop(0), "both directions"),
        (lambda d: d["evidence"].reverse(), "both directions"),
        (lambda d: d["evidence"].__setitem__(0, d["evidence"][1]), "both directions"),
        (lambda d: d["evidence"][0]["payoff"].update(epsilon=4.0), "one epsilon"),
        (lambda d: d["evidence"][1]["release"].update(bins=64), "one release"),
        (lambda d: d["evidence"][0]["hits"].pop(), "stopped early"),
        (lambda d: d["evidence"][0].update(log_bound=d["evidence"][0]["log_bound"] - 1e-8), "not proven"),
    ],
)
def test_a_forged_certificate_is_noticed(certificate, change, says):
    changed = json.loads(json.dumps(certificate))
    change(changed)
    assert any(says in line for line in montecarlo.check_document(changed))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(kind="montecarlo-whatever"),
        lambda d: d.update(v=1),
        lambda d: d.update(stream="other"),
        lambda d: d.pop("seed"),
        lambda d: d.update(seed=str(2**128)),
        lambda d: d.update(simulation="no"),
        lambda d: d.update(evidence=7),
        lambda d: d["evidence"][0].update(tilt=1e9),
        lambda d: d["evidence"][0].update(hits=[0.0] * 3),
        lambda d: d["evidence"][0].update(hits=[-5, *d["evidence"][0]["hits"][1:]]),
        lambda d: d["evidence"][0].update(hits=[*d["evidence"][0]["hits"], 0]),
    ],
)
def test_what_is_no_document_is_refused(certificate, change):
    changed = json.loads(json.dumps(certificate))
    change(changed)
    with pytest.raises(ValueError, match=r"must|unknown"):
        montecarlo.check_document(changed)


def test_spot_checks_are_not_predictable(monkeypatch, certificate):
    """A forger who knows which shards are drawn again forges the others: the choice comes from fresh entropy."""
    drawn = set()
    monkeypatch.setattr(recompute, "count_hits", lambda _, __, shard: drawn.add(shard) or 0)
    for _ in range(60):
        montecarlo.check_document(certificate, shards=1)
    assert drawn == {0, 1, 2}  # of three shards, one is missed with probability 3 (2 / 3)^120 < 1e-20


def test_a_composition_states_what_it_takes_from_outside():
    table = BesideProfile(1.0, (-1.0, 0.0, 1.0, 2.0), (0.7, 0.1, 0.01, 0.0))
    document = as_read(montecarlo.certify(BINS, epsilon=1.0, beside=(table, table), samples=20_000, seed=6))
    assert any("beside" in line for line in document["interval"]["assumptions"])
    assert montecarlo.check_document(document) == ()
