"""Models of PyTorch: the sums of the compiled engine from the same draws; what has no gradient of a row is refused."""

import dataclasses
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from epsilog.schemes import ClientLevelCentral, LocalDPSGD, NoisyUpdate, RawUpdate
from epsilog.terms import CheckError
from epsilog.training import (
    Federation,
    LocalTraining,
    Randomness,
    Task,
    add_canary_slots,
    canaries,
    compute_canary_scores,
    draw_canaries,
    insert_canaries,
    train_without_charge,
)
from epsilog.training.engines import RoundInputs, make_engine, torch_engine
from epsilog.training.engines.compiled import CompiledEngine
from epsilog.training.engines.torch_engine import TorchEngine
from epsilog.training.models import build_model, from_torch

COHORT = np.array([0, 2, 3, 5])
ROOT = Path(__file__).parents[3]


class Cnn(nn.Module):
    """The shipped ``cnn`` kind with one convolution, in PyTorch: pixels line by line, channels last."""

    def __init__(self, filters=3, kernel=3, side=8, classes=2):
        super().__init__()
        self.kernels = nn.Parameter(torch.zeros(kernel * kernel, filters))
        self.biases = nn.Parameter(torch.zeros(filters))
        inner = ((side - kernel + 1) // 2) ** 2 * filters
        self.weights = nn.Parameter(torch.zeros(inner, classes))
        self.offsets = nn.Parameter(torch.zeros(classes))
        self.kernel, self.side = kernel, side

    def forward(self, rows):
        filters = self.kernels.T.reshape(-1, 1, self.kernel, self.kernel)
        seen = nn.functional.conv2d(rows.reshape(-1, 1, self.side, self.side), filters, self.biases)
        halved = nn.functional.max_pool2d(seen, 2).relu()
        return halved.permute(0, 2, 3, 1).flatten(1) @ self.weights + self.offsets


class Mlp(nn.Module):
    """The shipped ``mlp`` kind."""

    def __init__(self, *widths):
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.parts = nn.ParameterList([torch.zeros(shape) for pair in pairs for shape in (pair, pair[1:])])

    def forward(self, rows):
        for place in range(0, len(self.parts), 2):
            rows = rows.relu() if place else rows
            rows = rows @ self.parts[place] + self.parts[place + 1]
        return rows


MODELS = {
    "linear": (build_model("linear", inputs=4, classes=None), lambda: from_torch(Mlp(4, 1), "half-squared-error")),
    "mlp": (
        build_model("mlp", inputs=4, classes=3, hidden=(5,)),
        lambda: from_torch(Mlp(4, 5, 3), "cross-entropy", classes=3),
    ),
    "cnn": (
        build_model("cnn", inputs=64, classes=2, filters=(3,), kernel=3, hidden=()),
        lambda: from_torch(Cnn(), "cross-entropy", classes=2),
    ),
}


def task_of(model, width, dtype="float64", **training):
    draws = np.random.default_rng(3)
    sizes = np.array([4, 1, 6, 0, 3, 5, 2, 3])
    rows, count = draws.standard_normal((sizes.sum() + 20, width)).astype(dtype), int(sizes.sum())
    goals = draws.standard_normal(len(rows)) if model.classes is None else draws.integers(0, model.classes, len(rows))
    rows[2, 0] = np.nan  # nobody's row that a step could use
    return Task(
        "small",
        "client",
        True,
        model,
        LocalTraining(0.2, **{"local_steps": 3, "expected_examples": 4} | training),
        Federation(rows[:count], goals[:count], sizes),
        rows[count:],
        goals[count:],
    )


def both(kind, dtype="float64", **training):
    """The same task for both engines."""
    ours, theirs = MODELS[kind][1](), MODELS[kind][0]
    width = {"cnn": 64}.get(kind, 4)
    return TorchEngine(task_of(ours, width, dtype, **training)), CompiledEngine(
        task_of(theirs, width, dtype, **training)
    )


def start(engine):
    return 0.5 * np.random.default_rng(1).standard_normal(engine.task.model.size)


def now(engine, cohort=COHORT):
    streams = Randomness.from_seed(7)
    return RoundInputs(
        start(engine),
        cohort,
        lambda client: streams.stream("batches", 1, client),
        lambda client: streams.stream("noise", 1, client),
        learning_rate_factor=0.5,
    )


def updates(engine, clip_norm=0.3, cohort=COHORT):
    return engine.sum_uploads(now(engine, cohort), RawUpdate(clip_norm))


def noisy_updates(engine, clip_norm=0.3, cohort=COHORT):
    return engine.sum_uploads(now(engine, cohort), NoisyUpdate(clip_norm, 0.1))


def noisy_runs(engine, clip_norm=0.3, cohort=COHORT):
    return engine.sum_uploads(now(engine, cohort), LocalDPSGD(3, 0.5, clip_norm, 0.1))


@pytest.mark.parametrize("sums", [updates, noisy_updates, noisy_runs])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("clip_norm", [0.3, np.inf])
def test_sums_are_those_of_the_compiled_engine(kind, dtype, tolerance, sums, clip_norm):
    for training in ({}, {"batch_size": 2, "example_cap": 4}):
        ours, theirs = (sums(engine, clip_norm) for engine in both(kind, dtype, **training))
        assert ours.total.dtype == np.float64
        assert ours.total.any()
        assert ours.total == pytest.approx(theirs.total, abs=tolerance * max(1.0, np.abs(theirs.total).max()))
        assert ours.padding == pytest.approx(theirs.padding, abs=1e-15)
        assert ours.largest_norm == pytest.approx(theirs.largest_norm, rel=10 * tolerance)
        assert (ours.clipped, ours.dropped, ours.count) == (theirs.clipped, theirs.dropped, theirs.count)


def test_an_update_or_a_gradient_that_is_not_finite_counts_as_zero():
    class Bursts(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(4, dtype=torch.float64))

        def forward(self, rows):
            return (rows @ self.w).exp()

    task = task_of(from_torch(Bursts(), "half-squared-error"), 4)
    features = np.array(task.clients.features)
    features[-1] = 1e3  # overflows: of the last client
    spoilt = TorchEngine(dataclasses.replace(task, clients=dataclasses.replace(task.clients, features=features)))
    for sums in (updates, noisy_runs):
        ours, without = sums(spoilt, 0.3, np.array([0, 2, 7])), sums(spoilt, 0.3, np.array([0, 2]))
        assert np.isfinite(ours.total).all()
        if sums is updates:
            assert ours.total == pytest.approx(without.total, abs=0)
            assert ours.dropped == without.dropped + 1
        else:
            assert ours.dropped >= without.dropped


class Words(nn.Module):
    """Ten words, of whose rows nobody has said that they are ids: of another one it raises."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(10, 3), nn.Linear(3, 3)
        self.double()

    def forward(self, rows):
        return self.out(self.words(rows.abs().long()).mean(1))


def words_task(**rows):
    """Eight clients' words; ``rows`` are clients, and a word of their first row."""
    task = task_of(from_torch(Words(), "cross-entropy", classes=3), 4)
    features = np.random.default_rng(4).integers(0, 10, task.clients.features.shape).astype(np.float64)
    for client, word in rows.items():
        features[task.clients.rows_of(int(client[1:])).start, 1] = word
    return dataclasses.replace(task, clients=dataclasses.replace(task.clients, features=features))


@pytest.mark.parametrize("word", [11, 1e18])
def test_a_client_on_whose_rows_the_module_fails_counts_as_zero(word, caplog):
    whole = updates(TorchEngine(words_task(c2=word)), cohort=np.array([0, 2, 5]))
    assert "the update of a client failed" in caplog.text
    assert (whole.count, whole.dropped) == (3, 1)
    assert np.array_equal(whole.total, updates(TorchEngine(words_task()), cohort=np.array([0, 5])).total)
    alone = noisy_updates(TorchEngine(words_task(c2=word)), cohort=np.array([2]))
    assert np.array_equal(alone.total, 0.1 * now(TorchEngine(words_task())).noise(2).normals((10 * 3 + 13,))[:-1])


@pytest.mark.parametrize("formed", [1, 100, torch_engine.FORMED])
def test_an_example_on_which_the_module_fails_is_dropped_and_no_other(monkeypatch, formed):
    monkeypatch.setattr(torch_engine, "FORMED", formed)
    engine, runs = TorchEngine(words_task(c2=11)), LocalDPSGD(1, 1.0, 0.3, 0.1)
    task = words_task()
    lies = task.clients.rows_of(2).start
    fewer = Federation(
        np.delete(task.clients.features, lies, 0),
        np.delete(task.clients.targets, lies, 0),
        task.clients.sizes - (np.arange(8) == 2),
    )
    without = TorchEngine(dataclasses.replace(task, clients=fewer))
    ours, theirs = (one.sum_uploads(now(one), runs) for one in (engine, without))
    assert ours.total == pytest.approx(theirs.total, abs=1e-14)
    assert np.array_equal(ours.padding, theirs.padding)
    assert (ours.dropped, ours.count) == (theirs.dropped + 1, theirs.count + 1)


@pytest.mark.parametrize("kind", [MemoryError, KeyboardInterrupt])
def test_what_is_of_the_machine_or_of_the_user_ends_a_run(monkeypatch, kind):
    engine = TorchEngine(words_task())

    def stop(*_):
        raise kind

    monkeypatch.setattr(torch_engine, "compute_torch_gradients", stop)
    monkeypatch.setattr(TorchEngine, "_slope", stop)
    for sums in (updates, noisy_runs):
        with pytest.raises(kind):
            sums(engine)


def plain(*layers):
    return nn.Sequential(nn.Linear(4, 6), *layers, nn.Linear(6, 3))


class Drawing(nn.Module):
    def __init__(self, train):
        super().__init__()
        self.inner, self.train_always = plain(), train

    def forward(self, rows):
        return self.inner(nn.functional.dropout(rows, 0.5, training=self.train_always))


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()

    def forward(self, rows):
        return self.inner(rows - rows.mean(dim=0))


class Deciding(Mixing):
    def forward(self, rows):
        return self.inner(rows) if rows.sum() > -1e9 else self.inner(-rows)


class Counting(Mixing):
    """Writes into a buffer in place, and reads it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, rows):
        self.seen += rows.detach().sum()
        return self.inner(rows) + self.seen


REFUSED = {
    "BatchNorm": (plain(nn.BatchNorm1d(6)), "module must be a function of each row alone .* BatchNorm1d 1"),
    "BatchNorm without statistics": (plain(nn.BatchNorm1d(6, track_running_stats=False)), "BatchNorm1d 1"),
    "Dropout": (plain(nn.Dropout(0.2)), "module must be the same function each time .* Dropout 1"),
    "dropout by hand": (Drawing(train=True), "apply must be the same function each time"),
    "a mean over the batch": (Mixing(), "apply must be a function of each row alone"),
    "a running sum": (Counting(), "apply must be a function of each row alone"),
    "an if over values": (Deciding(), r"apply must have a gradient for each row \(torch.func\)"),
    "another width": (nn.Linear(5, 3), "apply must take rows of 4 features"),
    "another number of classes": (nn.Linear(4, 2), "apply must give 3 outputs for each row"),
    "nothing to train": (nn.Flatten(), "init must make at least one parameter"),
    "all frozen": (plain().requires_grad_(False), "init must make at least one parameter"),
    "complex weights": (nn.Linear(4, 3, dtype=torch.complex64), "init must make arrays of real numbers alone"),
    "no module": (lambda rows: rows, "module must be a torch.nn.Module, got a function"),
}


@pytest.mark.parametrize(("module", "says"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_gradient_of_a_row_is_refused_before_anything_is_spent(module, says):
    with pytest.raises(CheckError, match=says):
        task_of(from_torch(module, "cross-entropy", classes=3), 4)


@pytest.mark.parametrize(
    "module",
    [plain(nn.BatchNorm1d(6)).eval(), plain(nn.Dropout(0.5)).eval(), plain(nn.Dropout(0.0)), plain(nn.LayerNorm(6)),
     plain(nn.ReLU(inplace=True)), Drawing(train=False)],
)  # fmt: skip
def test_what_is_a_function_of_each_row_is_taken(module):
    module[1].running_mean.fill_(0.5) if hasattr(module, "__getitem__") and hasattr(module[1], "running_mean") else None
    engine = make_engine(None, task_of(from_torch(module, "cross-entropy", classes=3), 4))
    assert isinstance(engine, TorchEngine)
    for sums in (updates, noisy_runs):
        whole = sums(engine, 0.3, COHORT).total
        alone = sum(sums(engine, 0.3, np.array([client])).total for client in COHORT)
        assert whole == pytest.approx(alone, abs=1e-6)


def test_a_loss_is_one_of_those_with_names_or_gives_a_number_for_each_example():
    ours = from_torch(nn.Linear(4, 1), nn.HuberLoss(reduction="none"))
    assert task_of(from_torch(Mlp(4, 1), lambda out, goal: (out[:, 0] - goal).abs()), 4).model.size == 5
    with pytest.raises(CheckError, match=r"loss must give one number for each example"):
        task_of(ours, 4)  # (n, 1) against (n,)
    with pytest.raises(CheckError, match=r"loss must give one number for each example, got shape \(\)"):
        task_of(from_torch(nn.Linear(4, 1), nn.MSELoss()), 4)
    with pytest.raises(CheckError, match="classes must be given for cross-entropy"):
        from_torch(nn.Linear(4, 1), "cross-entropy")
    with pytest.raises(CheckError, match="loss must be one of"):
        from_torch(nn.Linear(4, 1), "hinge")


def test_what_is_not_trained_stays_and_is_told_and_the_users_module_is_left_alone():
    inner = plain(nn.LayerNorm(6))
    inner[0].requires_grad_(False)
    before = {name: one.clone() for name, one in inner.state_dict().items()}
    model = from_torch(inner, "cross-entropy", classes=3)
    assert (model.size, model.names) == (12 + 21, ("1.weight", "1.bias", "2.weight", "2.bias"))
    told = model.describe()
    assert (told["framework"], told["untrained"]["numbers"], told["loss"]) == ("torch", 30, "cross-entropy")
    inner[0].weight.data += 1
    assert from_torch(inner, "cross-entropy", classes=3).describe()["untrained"] != told["untrained"]
    inner[0].weight.data.copy_(before["0.weight"])  # less 1 is another number where it is small
    task = task_of(model, 4)
    train_without_charge(ClientLevelCentral(8, 1.0, 2, 1.0, 0.1), task, randomness=Randomness.from_seed(1))
    assert all(torch.allclose(one, before[name]) for name, one in inner.state_dict().items())
    assert [one.requires_grad for one in inner.parameters()] == [False, False, True, True, True, True]


def test_the_page_on_pytorch_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, names = (ROOT / "docs/how-to/train-with-pytorch.md").read_text(encoding="utf-8"), {}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "train-with-pytorch.md", "exec"), names)  # noqa: S102 - the docs are ours
    outcome = names["outcome"]
    assert outcome.verification.status == "passed"
    assert outcome.report["result"]["test_score"] > 0.9
    assert outcome.plan.details["model"]["framework"] == "torch"
    rows = torch.from_numpy(names["images"][names["test"]])
    assert np.array_equal(names["cnn"](rows).argmax(dim=1).numpy(), outcome.model.predict(rows.numpy()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_canaries_lose_as_much_as_on_the_compiled_engine(dtype):
    losses, scores = [], []
    for engine in both("mlp", dtype):
        task = dataclasses.replace(engine.task, unit="row", unit_is_client=False)
        task = insert_canaries(add_canary_slots(task, 9), draw_canaries(9, Randomness.from_seed(3)))
        make_engine(None, task)
        losses.append(task.model.compute_losses(start(engine), *canaries.make_canary_rows(task.canaries, task)))
        scores.append(compute_canary_scores(task, start(engine)))
    assert np.allclose(*losses, rtol=1e-4 if dtype == "float32" else 1e-9)
    assert [np.unique(each).size for each in (*losses, *scores)] == [9] * 4
