"""DP-SGD at a site on Opacus' gradients: the steps of our own engine, and noise of the size that was asked for."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from opacus.layers import DPLSTM
from torch import nn

from epsilog.adapters.opacus import run_dp_sgd
from epsilog.ledger import open_ledger
from epsilog.schemes import ExampleLevelClientSide, LocalDPSGD
from epsilog.terms import CheckError, NeighboringRelation
from epsilog.training import Federation, LocalTraining, Task
from epsilog.training.engines import RoundInputs
from epsilog.training.engines.remote import TrainRequest
from epsilog.training.engines.torch_engine import TorchEngine
from epsilog.training.models import from_torch
from epsilog.training.noise import Randomness
from epsilog.training.site import Site, make_function_site_engine

TRAINING = LocalTraining(0.3, expected_examples=10)
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
    (features, targets), net, runs = data(dtype), module(dtype), LocalDPSGD(3, 1.0, clip_norm, 0.0)
    ours = run_dp_sgd(net, each_loss, features, targets)(start(net), runs, TRAINING)
    clients = Federation(features.numpy(), targets.numpy(), np.array([ROWS]))
    task = Task("x", "row", False, from_torch(net, "cross-entropy", classes=3), TRAINING, clients, None, None)
    draws = Randomness.from_seed(1)
    streams = [lambda client, name=name: draws.stream(name, 1, client) for name in ("batches", "noise")]
    theirs = TorchEngine(task).sum_uploads(RoundInputs(start(net), np.array([0]), *streams), runs).total
    assert ours.any()
    assert ours == pytest.approx(theirs, abs=tolerance)


def test_noise_is_of_the_size_that_was_asked_for_and_never_the_same():
    """One step, no batch: the change is noise alone. 5,000 normals: 4 standard errors of their spread are 0.04."""
    net, (features, targets) = nn.Linear(999, 5).double(), (torch.zeros(3, 999).double(), torch.zeros(3).long())
    run = run_dp_sgd(net, each_loss, features, targets)
    runs = LocalDPSGD(1, 1e-12, 1.0, 2.0)
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
    runs = LocalDPSGD(1, 1.0, 0.5, 0.0)
    rate = TRAINING.learning_rate / TRAINING.expected_examples
    alone = run_dp_sgd(net, each_loss, features[:1], targets[:1])(start(net), runs, TRAINING)
    assert 0 < np.linalg.norm(alone) <= rate * 0.5
    whole = run_dp_sgd(net, each_loss, features, targets)(start(net), runs, TRAINING)
    others = run_dp_sgd(net, each_loss, features[2:], targets[2:])(start(net), runs, TRAINING)
    assert whole - others == pytest.approx(alone, abs=1e-12)  # a row of NaN counts for nothing


def test_what_opacus_knows_is_taken():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = DPLSTM(2, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, rows):
            return self.out(self.cell(rows.reshape(-1, 3, 2))[0][:, -1])

    (features, targets), runs = data(torch.float32), LocalDPSGD(2, 0.5, 1.0, 0.1)
    words = Recurrent()
    before = start(words)
    change = run_dp_sgd(words, each_loss, features, targets)(before, runs, TRAINING)
    assert np.isfinite(change).all()
    assert np.array_equal(start(words), before)  # the user's module is left alone
    with pytest.raises(CheckError, match="module must be one of 7 parameters"):
        run_dp_sgd(words, each_loss, features, targets)(np.zeros(7), runs, TRAINING)


class Own(nn.Module):
    """A linear layer behind what a test says; float64."""

    def __init__(self, before=lambda rows: rows, outputs=3):
        super().__init__()
        self.inner, self.before = nn.Linear(6, outputs).double(), before
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))

    def forward(self, rows):
        return self.inner(self.before(rows))


class Counting(Own):
    def forward(self, rows):
        self.seen += rows.detach().sum()
        return self.inner(rows) + self.seen


class Unused(Own):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(2, 2).double()


def scattered(rows):
    held = torch.zeros_like(rows)
    held.copy_(rows)
    return held if bool(held.sum() > -1e9) else -held


def quarrel(rows):
    """Looks at rows from outside of any tensor."""
    return rows * (1.0 if rows.detach().flatten().tolist()[0] > -1e9 else 2.0)


NORMED = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()
DROPPED = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)).double()
MIXES = "a function of each row alone"
ASKS = "the same steps whatever rows hold"
REFUSED = {
    "a mean over the batch": (Own(lambda rows: rows - rows.mean(0)), MIXES),
    "a mean over the batch, cut off": (Own(lambda rows: rows - rows.mean(0).detach()), MIXES),
    "a very little of the mean": (Own(lambda rows: rows - 1e-13 * rows.mean(0)), MIXES),
    "a little of the mean, cut off": (Own(lambda rows: rows - 1e-7 * rows.mean(0).detach()), MIXES),
    "the largest of the batch": (Own(lambda rows: rows / rows.abs().max()), MIXES),
    "the row before": (Own(lambda rows: rows + rows.roll(1, 0)), MIXES),
    "rows in another order": (Own(lambda rows: rows.flip(0)), MIXES),
    "how many rows there are": (Own(lambda rows: rows * len(rows)), MIXES),
    "attention over the batch": (Own(lambda rows: (rows @ rows.T).softmax(1) @ rows), MIXES),
    "a running sum": (Counting(), MIXES),
    "BatchNorm": (NORMED, MIXES),
    "BatchNorm in eval()": (copy.deepcopy(NORMED).eval(), "module must"),
    "Dropout": (DROPPED, "the same function each time"),
    "dropout by hand": (Own(lambda rows: nn.functional.dropout(rows, 0.5)), "the same function each time"),
    "an if over values": (Own(lambda rows: rows if rows.sum() > -1e9 else -rows), ASKS),
    "an if over one value": (Own(lambda rows: rows * (1 if rows[0, 0].item() > -1e9 else 2)), ASKS),
    "an if over a list": (Own(quarrel), ASKS),
    "an if over a copy": (Own(scattered), ASKS),
    "eval()": (Own().eval(), "module must be one that Opacus|have a gradient|a gradient of each row"),
    "a parameter that is not used": (Unused(), "a gradient of each row for each parameter"),
    "all frozen": (Own().requires_grad_(False), "with a parameter to train"),
    "no module": (lambda rows: rows, "a torch.nn.Module"),
    "another width": (nn.Linear(5, 3).double(), "have a gradient for each row"),
    "another precision": (nn.Linear(6, 3), "have a gradient for each row"),
}


@pytest.mark.parametrize(("net", "says"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_gradient_of_a_row_alone_is_refused_before_a_site_has_it(net, says):
    with pytest.raises(CheckError, match=says):
        run_dp_sgd(net, each_loss, *data())


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (nn.CrossEntropyLoss(), "loss must give one number for each example"),
        (lambda out, goal: each_loss(out, goal) - each_loss(out, goal).mean(), MIXES),
        (lambda out, goal: each_loss(out - out.mean(0).detach(), goal), MIXES),
        (lambda out, goal: each_loss(out, goal) * torch.rand(()), "the same function each time"),
        (lambda out, goal: each_loss(out, goal) * (1 if (goal < 9).all() else 2), ASKS),
    ],
)
def test_a_loss_of_other_rows_is_refused_as_well(loss, says):
    with pytest.raises(CheckError, match=says):
        run_dp_sgd(module(), loss, *data())


def test_rows_are_not_looked_at_before_they_are_trained_on():
    features, targets = data()
    run_dp_sgd(module(), each_loss, torch.full_like(features, torch.nan), torch.full_like(targets, 99))
    with pytest.raises(CheckError, match="ids must be given where features are whole numbers"):
        run_dp_sgd(module(), each_loss, features.long(), targets)
    with pytest.raises(CheckError, match="targets must be one for each row"):
        run_dp_sgd(module(), each_loss, features, targets[1:])


class Words(nn.Module):
    """Of real or whole numbers; on a word that it does not know, it fails after its first layer."""

    def __init__(self):
        super().__init__()
        self.first, self.words, self.out = nn.Linear(6, 4), nn.Embedding(10, 4), nn.Linear(4, 3)
        self.double()

    def forward(self, rows):
        return self.out(self.first(rows.double()) + self.words(rows.long()).sum(1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8])
@pytest.mark.parametrize("wrong", [0, 3, 7])
def test_an_example_on_which_the_module_fails_counts_as_zero_and_the_others_as_ever(dtype, wrong):
    rows = torch.from_numpy(np.random.default_rng(2).integers(0, 10, (8, 6))).to(dtype)
    goals, others = torch.arange(8) % 3, torch.arange(8) != wrong
    net, runs = Words(), LocalDPSGD(3, 1.0, 0.5, 0.0)
    failing = rows.clone()
    failing[wrong, 2] = 11
    whole, without = (
        run_dp_sgd(net, each_loss, part, part_goals, ids=10)(start(net), runs, TRAINING)
        for part, part_goals in ((failing, goals), (rows[others], goals[others]))
    )
    assert without.any()
    assert whole == pytest.approx(without, abs=1e-14)
    nothing = run_dp_sgd(net, each_loss, failing[[wrong]], goals[[wrong]], ids=10)(start(net), runs, TRAINING)
    assert not nothing.any()


def test_a_site_answers_with_it_under_a_ledger_of_its_own(tmp_path):
    scheme = ExampleLevelClientSide(3, 2, 3, 2, 0.5, 1, 0.5, 2.0)
    with open_ledger(tmp_path / "site.db") as books:
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        books.create_budget(
            "site", kind="approximate", relation=relation, privacy_unit="row", epsilon="50", delta="0.01"
        )
    (features, targets), net = data(), module()
    site = Site(
        make_function_site_engine(noisy_run=run_dp_sgd(net, each_loss, features, targets)),
        "row",
        False,
        tmp_path / "site.db",
        "site/runs",
        "1e-6",
    )
    order = TrainRequest("one", scheme, TRAINING, start(net))
    answer = site.answer(order)
    assert answer.shape == order.model.shape
    assert np.isfinite(answer).all()
    with open_ledger(tmp_path / "site.db") as books:
        assert len(books.find("one").rounds_released) == 1
    with pytest.raises(ValueError, match="model"):
        site.answer(dataclasses.replace(order, model=order.model[None]))
