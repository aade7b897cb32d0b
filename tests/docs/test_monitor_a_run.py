"""Each recipe of the page runs as it stands, against a stand-in with the tracker's own signatures."""

import re
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
from opentelemetry import metrics

from epsilog.plan import bound_schedule_epsilon
from epsilog.terms import NeighboringRelation, RoundRecord
from epsilog.training.checkpoints import read_records

PAGE = Path(__file__).parents[2] / "docs/how-to/monitor-a-run.md"
FIGURES = {"test/loss", "test/score", "dp/clip_norm", "dp/epsilon"}


class Shown(dict):
    """What a tracker was shown, by name and step; it opens and closes as a writer or a run does."""

    closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


class Writer(Shown):
    """TensorBoard's ``SummaryWriter``."""

    def add_scalar(self, tag, scalar_value, global_step=None):
        self[tag, global_step] = scalar_value


class Board(Shown):
    """A run of Weights & Biases: steps only grow."""

    def log(self, data, step=None):
        assert all(step >= earlier for _, earlier in self)
        self.update({(name, step): value for name, value in data.items()})


def module(monkeypatch, name, **content):
    made = ModuleType(name)
    vars(made).update(content)
    monkeypatch.setitem(sys.modules, name, made)


def tensorboard(monkeypatch):
    shown = Writer()
    for parent in ("torch", "torch.utils"):
        module(monkeypatch, parent)
    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=lambda _: shown)
    return shown


def mlflow(monkeypatch):
    shown = Shown()

    def log_metrics(metrics, step=None):
        shown.update({(name, step): value for name, value in metrics.items()})

    module(monkeypatch, "mlflow", start_run=lambda: shown, log_metrics=log_metrics)
    return shown


def wandb(monkeypatch):
    shown = Board()
    module(monkeypatch, "wandb", init=lambda **_: shown)
    return shown


def opentelemetry(monkeypatch):
    """The library's own interface: gauges have no steps, so each setting counts as the next."""
    shown, times = Shown(), {}
    meter = mock.create_autospec(metrics.Meter, instance=True)

    def create_gauge(name, unit="", description=""):
        gauge = mock.create_autospec(metrics.NoOpMeter("epsilog").create_gauge("x"), instance=True)
        figure = name.removeprefix("epsilog.").replace(".", "/", 1)

        def put(amount, *_):
            times[figure] = times.get(figure, 0) + (5 if figure == "dp/epsilon" else 1)
            shown[figure, times[figure]] = amount

        gauge.set.side_effect = put
        return gauge

    meter.create_gauge.side_effect = create_gauge
    monkeypatch.setattr(metrics, "get_meter", lambda _: meter)
    shown.closed = True  # nothing to close
    return shown


RECIPES = {"TensorBoard": tensorboard, "MLflow": mlflow, "Weights & Biases": wandb, "OpenTelemetry": opentelemetry}


def blocks():
    """The code of each section, by its heading; what all share is under the first."""
    parts = re.split(r"^##+ (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        head: code
        for head, text in zip(*[iter(parts)] * 2, strict=True)
        if (code := re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    }


def test_every_recipe_is_tried():
    shared, *recipes = blocks()
    assert set(recipes) == set(RECIPES)
    assert shared == "Monitor a run"
    assert all(len(code) == 1 for code in blocks().values())


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_shows_what_was_released(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown, names = RECIPES[recipe](monkeypatch), {}
    (shared, *_), (code,) = next(iter(blocks().values())), blocks()[recipe]
    for block in (shared, code):
        exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102 - the docs are ours
    records = read_records(tmp_path / "run" / "rounds.jsonl", RoundRecord)
    expected = {}
    for one in records:
        expected |= {("test/loss", one.round): one.test_loss, ("test/score", one.round): one.test_score}
        expected["dp/clip_norm", one.round] = one.clip_norm
        if one.round % 5 == 0:
            so_far = bound_schedule_epsilon(
                names["scheme"], 1e-5, NeighboringRelation.ADD_OR_REMOVE_ONE, rounds=one.round
            )
            expected["dp/epsilon", one.round] = so_far.upper
    assert len(records) == 20
    assert dict(shown) == expected
    assert {name for name, _ in shown} == FIGURES
    assert shown.closed
