"""Arrays in, arrays out: the same numbers as one by one, in the shape asked for, and frames and plots of them."""

import math
import re
import sys
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest

import epsilog as ep
from epsilog.accounting import Intervals, account, delta_curve, epsilon_curve, profile
from epsilog.mechanisms import Gaussian, Laplace, PoissonSampled, Repeated
from epsilog.mechanisms.composition import Composition
from epsilog.terms import EpsilogError, Interval, NeighboringRelation
from epsilog.terms.extras import install_command

REPLACE = NeighboringRelation.REPLACE_ONE
GAUSSIAN = Gaussian(2.0)
CURVE = profile(GAUSSIAN)

# what is asked about a series, about one number, and three numbers to ask about
ASKED = {
    "epsilon": (lambda at: ep.epsilon(GAUSSIAN, delta=at), (1e-9, 1e-5, 0.25)),
    "delta": (lambda at: ep.delta(GAUSSIAN, epsilon=at), (0.0, 1.0, 30.0)),
    "group": (lambda at: ep.epsilon(GAUSSIAN, delta=at, group_size=3, relation=REPLACE), (1e-9, 1e-5, 0.25)),
    "profile epsilon": (CURVE.epsilon, (1e-9, 1e-5, 0.25)),
    "profile delta": (CURVE.delta, (0.0, 1.0, 30.0)),
    "tpr": (CURVE.tpr, (0.0, 0.125, 1.0)),
    "tradeoff": (CURVE.tradeoff, (0.0, 0.125, 1.0)),
}


@pytest.mark.parametrize("name", ASKED)
def test_each_number_of_a_series_is_answered_as_it_would_be_alone(name):
    ask, numbers = ASKED[name]
    alone = tuple(map(ask, numbers))
    found = ask(list(numbers))
    assert (found.points, found.shape, len(found)) == (alone, (3,), 3)
    assert found.lower.tolist() == [one.lower for one in alone]
    assert found.upper.tolist() == [one.upper for one in alone]
    assert (found.quantity, found.relation) == (alone[0].quantity, alone[0].relation)
    assert set(found.assumptions) == {line for one in alone for line in one.assumptions}


@pytest.mark.parametrize(
    ("series", "shape"),
    [
        ((0.25, 0.5), (2,)),
        ([Decimal("0.25"), Fraction(1, 2)], (2,)),
        (np.array([0.25, 0.5], dtype=np.float16), (2,)),
        (np.array([[0.25], [0.5]]), (2, 1)),
        ([[0.25, 0.5]], (1, 2)),
        ([np.array([0.25]), np.array([0.5])], (2, 1)),
        ((at for at in (0.25, 0.5)), (2,)),
        (pd.Series([0.25, 0.5], index=[7, 3]), (2,)),
        (pl.Series([0.25, 0.5]), (2,)),
    ],
    ids=["tuple", "exact", "half", "column", "row", "arrays", "iterator", "pandas", "polars"],
)
def test_an_answer_has_the_shape_of_its_question(series, shape):
    found = ep.epsilon(GAUSSIAN, delta=series)
    assert found.lower.shape == found.upper.shape == found.shape == shape
    assert [at.given for at in found.points] == [(("delta", 0.25),), (("delta", 0.5),)]


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ([0.1, math.nan], r"delta\[1\] must be in \[0, 1\), got nan"),
        (np.array([[0.1], [1.5]]), r"delta\[1, 0\] must be in \[0, 1\), got .*1\.5"),
        ([0.1, "0.2"], r"delta\[1\] must be a number, got '0\.2'"),
        ([0.1, True], r"delta\[1\] must be a number, got True"),
        ([[0.1], [0.1, 0.2]], r"delta\[0\] must be a number, got \[0\.1\]"),
        ([0.1, None], r"delta\[1\] must be a number, got None"),
        (np.ma.masked_array([0.1, 0.2], [False, True]), r"delta\[1\] must be a number"),
        (pl.Series([0.1, None]), r"delta\[1\] must be in \[0, 1\), got .*nan"),
        (np.array([0.1j]), r"delta\[0\] must be a number"),
        ([], r"delta must hold at least one number, got \[\]"),
        (np.empty((0, 3)), "delta must hold at least one number"),
        (np.array("0.1"), "delta must be a number, got array"),
        ({0.1}, "delta must be a number"),
        ("0.1", "delta must be a number, got '0.1'"),
    ],
)
def test_what_is_no_series_of_deltas_is_refused_by_its_place(series, says, monkeypatch):
    monkeypatch.setattr(account, "build_interval", None)  # nothing is asked before all are known to be good
    with pytest.raises(ValueError, match=says):
        ep.epsilon(GAUSSIAN, delta=series)


@pytest.mark.parametrize("kind", [np.array, jnp.asarray, np.float32])
def test_a_number_without_an_axis_is_one_question(kind):
    assert ep.epsilon(GAUSSIAN, delta=kind(0.25)) == ep.epsilon(GAUSSIAN, delta=0.25)


def test_a_release_is_read_once(monkeypatch):
    seen, real = [], Composition.of
    monkeypatch.setattr(Composition, "of", lambda *given: seen.append(given) or real(*given))
    assert ep.epsilon(GAUSSIAN, delta=[1e-5] * 9).shape == (9,)
    assert len(seen) == 1
    epsilon_curve(GAUSSIAN, [[1], [2], [1]], delta=[1e-5, 1e-6])
    assert len(seen) == 1 + 2


@pytest.mark.parametrize(
    ("curve", "ask", "name", "numbers"),
    [(epsilon_curve, ep.epsilon, "delta", [1e-5, 0.1]), (delta_curve, ep.delta, "epsilon", [0.0, 2.0])],
)
def test_rounds_and_questions_go_together_as_arrays_do(curve, ask, name, numbers):
    rounds = np.array([[1], [3], [20]], dtype=np.uint8)
    found = curve(GAUSSIAN, rounds, **{name: numbers}, group_size=2)
    assert found.shape == (3, 2)
    for i, count in enumerate((1, 3, 20)):
        for j, number in enumerate(numbers):
            alone = ask(Repeated(GAUSSIAN, count), **{name: number}, group_size=2)
            assert (found[i, j].lower, found[i, j].upper) == (alone.lower, alone.upper)
            assert found[i, j].given == (("rounds", float(count)), *alone.given)
    beside = curve(GAUSSIAN, [1, 20], **{name: numbers}, group_size=2)
    assert beside.points == (found[0, 0], found[2, 1])
    assert curve(GAUSSIAN, [1, 20], **{name: numbers[0]}, group_size=2).points == (found[0, 0], found[2, 0])
    with pytest.raises(ValueError, match=r"rounds must be of a shape that goes with \(2,\), .* got \(3,\)"):
        curve(GAUSSIAN, [1, 2, 3], **{name: numbers})
    for wrong, says in (([1, 0], r"rounds\[1\] must be at least 1"), ([1.5], r"rounds\[0\] must be a whole number")):
        with pytest.raises(ValueError, match=says):
            curve(GAUSSIAN, wrong, **{name: numbers})


def test_an_index_picks_as_arrays_do():
    found = epsilon_curve(GAUSSIAN, [[1], [2], [3]], delta=[1e-5, 1e-3])
    assert isinstance(found[0, 1], Interval)
    assert found[-1].points == (found[2, 0], found[2, 1])
    assert found[:, 0].points == tuple(found[i, 0] for i in range(3))
    assert [row.shape for row in found] == [(2,)] * 3
    assert found[found.upper > found[1, 1].upper].upper.min() > found[1, 1].upper
    with pytest.raises(IndexError):
        found[3]
    assert str(found[0]).splitlines() == [str(found[0, 0]), str(found[0, 1])]


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_frames_take_columns_as_they_are(frame):
    found = epsilon_curve(GAUSSIAN, [[1], [20]], delta=[0.0, 1e-5])
    table = frame(found.columns())
    assert list(table.columns) == ["rounds", "delta", "epsilon_lower", "epsilon_upper", "method"]
    assert table["rounds"].to_list() == [1, 1, 20, 20]
    assert "int" in str(table["rounds"].dtype).lower()
    assert table["delta"].to_list() == [0.0, 1e-5] * 2
    assert table["epsilon_lower"].to_list() == found.lower.ravel().tolist()
    assert table["epsilon_upper"].to_list() == found.upper.ravel().tolist()
    assert table["method"].to_list() == [str(at.method) for at in found.points]


def test_intervals_of_several_questions_are_none():
    one, other = ep.epsilon(GAUSSIAN, delta=0.1), ep.delta(GAUSSIAN, epsilon=0.1)
    with pytest.raises(ValueError, match="points must answer one question"):
        Intervals((one, other), (2,))
    for points, shape in (((one,), (2,)), ((), (0,)), ((), ())):
        with pytest.raises(ValueError, match="shape"):
            Intervals(points, shape)
    with pytest.raises(ValueError, match=r"points\[0\] must be a Interval"):
        Intervals((1.0,), (1,))


class Axes:
    """Records what is drawn, as Matplotlib's axes are told it."""

    def __init__(self):
        self.lines, self.bands, self.told = [], [], {}

    def plot(self, x, y, label):
        self.lines.append((list(x), list(y), label))
        return (SimpleNamespace(get_color=lambda: "C0"),)

    def fill_between(self, x, low, high, **_):
        self.bands.append((list(x), list(low), list(high)))

    def __getattr__(self, name):
        return lambda *given: self.told.setdefault(name, given)


def test_a_plot_has_a_line_for_each_number_that_is_not_its_axis():
    found = epsilon_curve(PoissonSampled(Gaussian(1.0), 0.01), [[30], [10]], delta=[1e-5, 1e-6])
    axes = Axes()
    assert found.plot(axes) is axes
    assert [line[0] for line in axes.lines] == [[10, 30]] * 2  # in order, whatever was asked first
    assert [line[2] for line in axes.lines] == ["delta 1e-05", "delta 1e-06"]
    assert axes.lines[0][1] == [found[1, 0].upper, found[0, 0].upper]
    assert axes.bands[1] == ([10, 30], [found[i, 1].lower for i in (1, 0)], [found[i, 1].upper for i in (1, 0)])
    assert axes.told == {"set_xlabel": ("rounds",), "set_ylabel": ("epsilon, at most",), "legend": ()}
    axes = Axes()
    found[0].plot(axes)
    assert ([line[0] for line in axes.lines], axes.told["set_xscale"]) == ([[1e-6, 1e-5]], ("log",))
    assert "legend" not in axes.told
    axes = Axes()
    found.plot(axes, over="delta")
    assert [line[2] for line in axes.lines] == ["rounds 30", "rounds 10"]
    with pytest.raises(ValueError, match="over must be one of rounds, delta, got 'epsilon'"):
        found.plot(Axes(), over="epsilon")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(EpsilogError, match=re.escape(install_command("plot"))):
        ep.epsilon(Laplace(1.0), delta=[0.1, 0.2]).plot()


@pytest.mark.extended
def test_matplotlib_draws_it(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    found = epsilon_curve(GAUSSIAN, [[1], [20]], delta=[1e-6, 1e-5])
    axes = found.plot()
    assert axes is found.plot(axes)
    assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 20]] * 4
    axes.figure.savefig(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 0
