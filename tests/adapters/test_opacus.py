"""Opacus histories and our terms mean the same; nothing here needs torch. The accountant itself: ``in_opacus``."""

import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import epsilog as ep
from epsilog.adapters import make_class_on_demand, opacus, opacus_loop
from epsilog.adapters.opacus import _CertifiedOpacusAccountant, from_history, to_history
from epsilog.terms import CheckError

HISTORIES = [[], [(1.0, 0.01, 300)], [(1.0, 0.01, 300), (0.8, 0.01, 5), (0.8, 0.02, 1)], [(2.0, 1.0, 7)]]


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_round_trip(history):
    assert to_history(from_history(history)) == history
    restored = from_history(to_history(from_history(history)))
    assert ep.epsilon(restored, delta=1e-5) == ep.epsilon(from_history(history), delta=1e-5)


@pytest.mark.parametrize(
    "release",
    [
        ep.Laplace(1.0),
        ep.Repeated(ep.PoissonSampled(ep.Laplace(1.0), 0.1), 3),
        ep.mechanisms.FixedSizeSampled(ep.Gaussian(1.0), 3, 9),
    ],
    ids=repr,
)
def test_what_opacus_has_no_words_for_is_refused(release):
    with pytest.raises(ep.UnsupportedMechanismError, match="Opacus history"):
        to_history(release)


class Optimizer:
    """What Opacus hands to the hook."""

    def __init__(self, accumulated, noise=1.0):
        self.accumulated_iterations, self.noise_multiplier = accumulated, noise


def test_one_batch_a_step_is_counted_and_summed_batches_are_refused():
    accountant = _CertifiedOpacusAccountant()
    hook = accountant.get_optimizer_hook_fn(0.02)
    for noise in (1.0, 1.0, 2.0):
        hook(Optimizer(1, noise))
    assert accountant.history == [(1.0, 0.02, 2), (2.0, 0.02, 1)]
    assert len(accountant) == 3
    for batches in (0, 2, 5):
        with pytest.raises(ep.UnsupportedMechanismError, match=f"{batches} batches were summed before one noise"):
            hook(Optimizer(batches))
    with pytest.raises(ValueError, match="must be"):
        hook(Optimizer(1, -1.0))
    assert len(accountant) == 3


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {"history": [(1.0, 0.02, 1)]},
        {"mechanism": "epsilog"},
        {"history": [(1.0, 0.02, 0)], "mechanism": "epsilog"},
        {"history": [(1.0, 0.02, 1)], "mechanism": "rdp"},
        {"history": [(1.0, 0.02, 1), (1.0, 2.0, 1)], "mechanism": "epsilog"},
    ],
    ids=str,
)
def test_a_state_that_cannot_be_priced_changes_nothing(state):
    accountant = _CertifiedOpacusAccountant()
    accountant.step(noise_multiplier=3.0, sample_rate=0.5)
    with pytest.raises(ValueError, match="must"):
        accountant.load_state_dict(state)
    assert accountant.history == [(3.0, 0.5, 1)]
    accountant.load_state_dict({"history": [(1.0, 0.02, 1), (1.0, 0.02, 4)], "mechanism": "epsilog"})
    assert accountant.history == [(1.0, 0.02, 5)]


def test_the_accountant_is_a_class_of_this_module_under_opacus_own_base(monkeypatch):
    """With a base of the test's own: pickles and help find the class where it is imported from."""

    class IAccountant:
        def __init__(self):
            self.history = []

    package, accountants = ModuleType("opacus"), ModuleType("opacus.accountants")
    accountants.IAccountant = package.IAccountant = IAccountant
    for name, module in (("opacus", package), ("opacus.accountants", accountants)):
        monkeypatch.setitem(sys.modules, name, module)
    made = make_class_on_demand(_CertifiedOpacusAccountant, "opacus.accountants:IAccountant")("CertifiedAccountant")
    assert issubclass(made, IAccountant)
    assert issubclass(made, _CertifiedOpacusAccountant)
    assert (made.__name__, made.__module__) == ("CertifiedAccountant", "epsilog.adapters.opacus")
    assert made.__doc__ == _CertifiedOpacusAccountant.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'Accountant'"):
        _ = opacus.Accountant


@pytest.mark.parametrize(
    "history",
    [
        *([(1.0, 0.1, 3), entry] for entry in ((-1.0, 0.1, 1), (math.nan, 0.1, 1), ("1.0", 0.1, 3), (1.0, 1.5, 1))),
        *([entry] for entry in ((1.0, -0.1, 1), (1.0, "0.1", 3), (1.0, 0.1), (1.0, 0.1, 0), (1.0, 0.1, 2.5), 5)),
        [(1.0, 0.1, True)],
        5,
        None,
        "abc",
    ],
    ids=repr,
)
def test_a_history_that_is_none_is_refused(history):
    with pytest.raises(CheckError, match="must"):
        from_history(history)


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), math.nan, True, "1"], ids=repr)
def test_a_field_of_opacus_that_holds_no_number_is_refused_by_name(value):
    """Of the optimizer, of its sampler, and of what the accountant's hook is handed."""
    norms = {"noise_multiplier": 1.0, "max_grad_norm": 1.0}
    for field in norms:
        optimizer = SimpleNamespace(**norms | {field: value})
        with pytest.raises(CheckError, match=f"^{field} must be"):
            opacus_loop._read_noise_schedule(optimizer, "DPOptimizer", (), 10)
    held = {"num_samples": 100, "sample_rate": 0.5, "num_replicas": 1}
    for field in held:
        sampler = type("UniformWithReplacementSampler", (), held | {field: value})()
        with pytest.raises(CheckError, match=f"^{'rows' if field == 'num_samples' else field} must be"):
            opacus_loop._read_sampler(SimpleNamespace(batch_sampler=sampler, batch_size=None), 100)
    with pytest.raises(CheckError, match="accumulated_iterations must be"):
        _CertifiedOpacusAccountant().get_optimizer_hook_fn(0.02)(Optimizer(value))


@pytest.mark.parametrize("rows", [99, 101, 200])
def test_a_sampler_of_other_rows_than_the_data_set_is_refused(rows):
    """With more rows, one example may be in a batch twice."""
    inner = type("RandomSampler", (), {"replacement": False, "__len__": lambda _: rows})()
    drawn = type("BatchSampler", (), {"sampler": inner})()
    poisson = type("UniformWithReplacementSampler", (), {"num_samples": rows, "sample_rate": 0.5})()
    for sampler in (drawn, poisson):
        with pytest.raises(CheckError, match="loader must be one with a sampler of all 100 examples, each once"):
            opacus_loop._read_sampler(SimpleNamespace(batch_sampler=sampler, batch_size=40), 100)
