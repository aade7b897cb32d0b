"""Our accountant as Opacus uses it: registered by name, stepped by its optimizers, saved and restored."""

import opacus
import pytest
import torch
from opacus.accountants import IAccountant, PRVAccountant, RDPAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.schedulers import ExponentialGradClip
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch.utils.data import DataLoader, TensorDataset

import epsilog as ep
from epsilog.adapters.opacus import CertifiedAccountant, register
from epsilog.terms import CheckError

DELTA = 1e-5
EXAMPLES, BATCH = 400, 20  # 20 batches an epoch


@pytest.fixture(autouse=True)
def _registered():
    register()


def private(*, norms=1.0, **options):
    """A small model with its engine, made private by our accountant; seeded."""
    torch.manual_seed(5)
    inputs = torch.randn(EXAMPLES, 6)
    data = TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())
    model = torch.nn.Linear(6, 2)
    engine = opacus.PrivacyEngine(accountant="epsilog")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    goal = {"noise_multiplier": 1.1} if "target_epsilon" not in options else {}
    make = engine.make_private if goal else engine.make_private_with_epsilon
    loader = DataLoader(data, batch_size=BATCH)
    return engine, *make(module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=norms, **goal, **options)


def train(model, optimizer, loader, steps=None):
    for step, (inputs, labels) in enumerate(loader):
        if steps is not None and step == steps:
            break
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def test_it_is_an_opacus_accountant():
    accountant = create_accountant("epsilog")
    assert isinstance(accountant, CertifiedAccountant)
    assert issubclass(CertifiedAccountant, IAccountant)
    assert (accountant.mechanism(), accountant.history, len(accountant)) == ("epsilog", [], 0)
    assert accountant.get_epsilon(DELTA) == 0
    assert opacus.PrivacyEngine(accountant="epsilog").get_epsilon(DELTA) == 0


def test_training_is_priced_between_what_must_be_lost_and_what_opacus_says():
    engine, model, optimizer, loader = private()
    for _ in range(2):
        train(model, optimizer, loader)
    assert engine.accountant.history == [(1.1, 1 / 20, 40)]
    assert len(engine.accountant) == 40
    interval = engine.accountant.interval(DELTA)
    schedule = ep.Repeated(ep.PoissonSampled(ep.Gaussian(1.1), 1 / 20), 40)
    assert interval == ep.epsilon(ep.Composed([schedule]), delta=DELTA)
    assert engine.get_epsilon(DELTA) == interval.upper
    prv, rdp = PRVAccountant(), RDPAccountant()
    prv.history = rdp.history = list(engine.accountant.history)
    assert interval.lower <= prv.get_epsilon(DELTA, eps_error=0.01)  # an upper bound, at most 0.02 above the truth
    assert prv.get_epsilon(DELTA, eps_error=0.01) - 0.02 <= interval.upper <= rdp.get_epsilon(DELTA)


def test_a_large_batch_taken_in_pieces_is_one_step():
    engine, model, optimizer, loader = private()
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as pieces:
        train(model, optimizer, pieces)
    assert engine.accountant.history == [(1.1, 1 / 20, 20)]


def test_batches_summed_before_one_noise_are_refused_before_the_model_moves():
    engine, model, optimizer, loader = private(poisson_sampling=False)
    before = [p.detach().clone() for p in model.parameters()]
    batches = iter(loader)
    for _ in range(2):
        inputs, labels = next(batches)
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    with pytest.raises(ep.UnsupportedMechanismError, match="BatchMemoryManager"):
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(before, model.parameters(), strict=True))
    assert engine.accountant.history == []


def test_a_noise_schedule_is_priced_step_by_step():
    engine, model, optimizer, loader = private()
    train(model, optimizer, loader, steps=3)
    optimizer.noise_multiplier = 0.9
    train(model, optimizer, loader, steps=2)
    assert engine.accountant.history == [(1.1, 1 / 20, 3), (0.9, 1 / 20, 2)]
    assert engine.get_epsilon(DELTA) > 0


def test_opacus_calibration_through_us_is_ours():
    ours = get_noise_multiplier(
        target_epsilon=2.0,
        target_delta=DELTA,
        sample_rate=0.01,
        steps=1000,
        accountant="epsilog",
        epsilon_tolerance=1e-3,
    )
    theirs = get_noise_multiplier(
        target_epsilon=2.0, target_delta=DELTA, sample_rate=0.01, steps=1000, accountant="rdp"
    )
    make = lambda noise: ep.Repeated(ep.PoissonSampled(ep.Gaussian(noise), 0.01), 1000)  # noqa: E731
    assert ours == pytest.approx(ep.calibrate(make, epsilon=2.0, delta=DELTA), rel=5e-3)
    assert ours < theirs


def test_a_checkpoint_brings_the_privacy_loss_back(tmp_path):
    engine, model, optimizer, loader = private()
    train(model, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    again, model, optimizer, loader = private()
    again.load_checkpoint(path=tmp_path / "run.pt", module=model, optimizer=optimizer)
    assert again.accountant.history == engine.accountant.history
    train(model, optimizer, loader)
    assert len(again.accountant) == 40
    assert again.get_epsilon(DELTA) > engine.get_epsilon(DELTA)


ADAPTS = {"target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 8.0, "min_clipbound": 0.1}


def test_a_step_whose_clip_norm_adapts_is_not_taken():
    """Opacus counts it as one of fixed norm: its accountants say so, and its own count adds to what is shown."""
    engine, model, optimizer, loader = private(clipping="adaptive", unclipped_num_std=2.0, **ADAPTS)
    before = [one.detach().clone() for one in model.parameters()]
    with pytest.raises(CheckError, match="optimizer must be one with a fixed clip norm"):
        train(model, optimizer, loader, steps=1)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    assert len(engine.accountant) == 0


def test_a_step_whose_noise_is_scaled_by_a_smaller_norm_is_not_taken():
    """A scheduler moves the norm that scales the noise; with clipping by layer, gradients are clipped to others."""
    engine, model, optimizer, loader = private(clipping="per_layer", norms=[0.7, 0.7])
    train(model, optimizer, loader, steps=2)
    assert len(engine.accountant) == 2
    scheduler = ExponentialGradClip(optimizer, gamma=0.5)
    scheduler.step()
    with pytest.raises(CheckError, match=r"max_grad_norm must be at least the norm 0\.98"):
        train(model, optimizer, loader, steps=1)
    assert len(engine.accountant) == 2
