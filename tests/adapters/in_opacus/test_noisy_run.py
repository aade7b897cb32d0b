"""DP-SGD at a site on Opacus' gradients: the steps of our own engine, and noise of the size that was asked for."""

import dataclasses

import numpy as np
import pytest
import torch
from opacus.layers import DPLSTM
from torch import nn

from epsilog.adapters.opacus import noisy_run
from epsilog.spend import open_ledger
from epsilog.terms import CheckError, ExampleLevelClientSide, NeighboringRelation
from epsilog.train import Federation, Task, Training
from epsilog.train.engines import NoisyRuns, Round
from epsilog.train.engines.torch_engine import TorchEngine
from epsilog.train.models import from_torch
from epsilog.train.noise import Randomness
from epsilog.train.orders import Order
from epsilog.train.site import Site, from_functions

TRAINING = Training(0.3, nominal_examples=10)
ROWS = 12


def data(dtype=torch.float64):
    draws = np.random.default_rng(1)
    features, targets = draws.standard_normal((ROWS, 6)), draws.integers(0, 3, ROWS)
    return torch.from_numpy(features).to(dtype), torch.from_numpy(targets)


def module(dtype=torch.float64):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)


def each_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def start(net):
    return np.concatenate([one.detach().double().reshape(-1).numpy() for one in net.parameters()])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("clip_norm", [0.05, 1.0, np.inf])
def test_steps_without_noise_are_those_of_our_engine(dtype, tolerance, clip_norm):
    (features, targets), net, runs = data(dtype), module(dtype), NoisyRuns(3, 1.0, clip_norm, 0.0)
    ours = noisy_run(net, each_loss, features, targets)(start(net), runs, TRAINING)
    clients = Federation(features.numpy(), targets.numpy(), np.array([ROWS]))
    task = Task("x", "row", False, from_torch(net, "cross-entropy", classes=3), TRAINING, clients, None, None)
    draws = Randomness.simulated(1)
    streams = [lambda client, name=name: draws.stream(name, 1, client) for name in ("batches", "noise")]
    theirs = TorchEngine(task).sum_of_noisy_runs(Round(start(net), np.array([0]), *streams), runs).total
    assert ours.any()
    assert ours == pytest.approx(theirs, abs=tolerance)


def test_noise_is_of_the_size_that_was_asked_for_and_never_the_same():
    """One step, no batch: the change is noise alone. 5,000 normals: 4 standard errors of their spread are 0.04."""
    net, (features, targets) = nn.Linear(999, 5).double(), (torch.zeros(3, 999).double(), torch.zeros(3).long())
    run = noisy_run(net, each_loss, features, targets)
    runs = NoisyRuns(1, 1e-12, 1.0, 2.0)
    spread = 0.3 / (1e-12 * 10) * 2.0
    one, two = (run(np.zeros(5000), runs, TRAINING) / spread for _ in range(2))
    for noise in (one, two):
        assert abs(noise.std() - 1) < 0.04
        assert abs(noise.mean()) < 0.06
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.06
    assert abs((0.7 * one).std() - 1) > 0.04  # the control: a spread 30% too small is seen


def test_no_row_moves_the_change_further_than_the_bound():
    (features, targets), net = data(), module()
    features[0] *= 1e12
    features[1] = np.nan
    runs = NoisyRuns(1, 1.0, 0.5, 0.0)
    rate = TRAINING.learning_rate / TRAINING.nominal_examples
    alone = noisy_run(net, each_loss, features[:1], targets[:1])(start(net), runs, TRAINING)
    assert 0 < np.linalg.norm(alone) <= rate * 0.5
    whole = noisy_run(net, each_loss, features, targets)(start(net), runs, TRAINING)
    others = noisy_run(net, each_loss, features[2:], targets[2:])(start(net), runs, TRAINING)
    assert whole - others == pytest.approx(alone, abs=1e-12)  # a row of NaN counts for nothing


def test_what_opacus_knows_is_taken_and_what_it_does_not_is_refused():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = DPLSTM(2, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, rows):
            return self.out(self.cell(rows.reshape(-1, 3, 2))[0][:, -1])

    (features, targets), runs = data(torch.float32), NoisyRuns(2, 0.5, 1.0, 0.1)
    words = Words()
    before = start(words)
    change = noisy_run(words, each_loss, features, targets)(before, runs, TRAINING)
    assert np.isfinite(change).all()
    assert np.array_equal(start(words), before)  # the user's module is left alone
    with pytest.raises(CheckError, match="module must be one of 7 parameters"):
        noisy_run(words, each_loss, features, targets)(np.zeros(7), runs, TRAINING)
    with pytest.raises(CheckError, match="loss must give one number for each example"):
        noisy_run(words, nn.CrossEntropyLoss(), features, targets)(before, NoisyRuns(1, 1.0, 1.0, 0.1), TRAINING)
    mixing = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    with pytest.raises(Exception, match="BatchNorm"):
        noisy_run(mixing, each_loss, features, targets)(start(mixing), runs, TRAINING)


def test_a_site_answers_with_it_under_a_ledger_of_its_own(tmp_path):
    scheme = ExampleLevelClientSide(3, 2, 3, 2, 0.5, 1, 0.5, 2.0)
    with open_ledger(tmp_path / "site.db") as books:
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        books.create_budget(
            "site", kind="approximate", relation=relation, privacy_unit="row", epsilon="50", delta="0.01"
        )
    (features, targets), net = data(), module()
    site = Site(
        from_functions(noisy_run=noisy_run(net, each_loss, features, targets)),
        "row",
        False,
        tmp_path / "site.db",
        "site/runs",
        "1e-6",
    )
    order = Order("one", scheme, TRAINING, start(net))
    answer = site.answer(order)
    assert answer.shape == order.model.shape
    assert np.isfinite(answer).all()
    with open_ledger(tmp_path / "site.db") as books:
        assert len(books.find("one").rounds_released) == 1
    with pytest.raises(ValueError, match="model"):
        site.answer(dataclasses.replace(order, model=order.model[None]))
