"""Plots span their frame, mark round numbers, leave out what is not finite, and say in words what they show."""

import itertools
import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, strategies as st

from epsilog.terms.charts import PlotSeries, choose_ticks, draw_line_plot


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
@example(879609.9999999999, 1e-06)  # hardly more than the numbers can tell
def test_ticks_are_round_and_inside(low, span):
    marks, slack = choose_ticks(low, low + span), 1e-6 * span + 4 * math.ulp(abs(low) + span)
    assert all(low - slack <= t <= low + span + slack for t in marks)
    assert len(marks) <= 12


def test_a_plot_is_well_formed_described_and_leaves_out_infinities():
    drawn = draw_line_plot(
        [PlotSeries("a <b>", ((1.0, 1.0), (2.0, math.inf), (3.0, 4.0)), markers=True)],
        title="T & t",
        x_label="round",
        y_label="epsilon",
        mark=("budget", 5.0),
    )
    root = ET.fromstring(drawn)  # noqa: S314 - our own text
    text = " ".join(root.itertext())
    assert "T & t" in text
    assert "a <b>: from 1 at 1 to 4 at 3" in text
    assert "inf" not in drawn
    assert "nan" not in drawn


LEFT_EDGE, RIGHT_EDGE, TOP_EDGE, FLOOR = 64.0, 508.0, 20.0, 254.0  # of the frame, in the drawing's unit


def drawn_plot(*series, **options):
    """The parsed plot and the places of its points."""
    text = draw_line_plot(series, title="t", x_label="x", y_label="y", **options)
    root = ET.fromstring(text)  # noqa: S314 - our own text
    spots = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter() if c.tag.endswith("circle")]
    return root, spots


def of_class(root, name):
    return [one for one in root.iter() if one.get("class") == name]


def ends_of(line):
    """A horizontal line's left end, height and right end."""
    return tuple(map(float, re.fullmatch(r"M([\d.]+) ([\d.]+)H([\d.]+)", line.get("d")).groups()))


def test_a_plot_spans_its_frame_from_zero_to_just_above_the_largest():
    root, spots = drawn_plot(PlotSeries("a", ((10.0, 1.0), (15.0, 3.0), (20.0, 4.0)), markers=True))
    assert [x for x, _ in spots] == pytest.approx([LEFT_EDGE, (LEFT_EDGE + RIGHT_EDGE) / 2, RIGHT_EDGE])
    unit = (FLOOR - TOP_EDGE) / 4.16  # 4% of room above the largest
    assert [y for _, y in spots] == pytest.approx([FLOOR - v * unit for v in (1, 3, 4)], abs=0.06)
    lines = [ends_of(one)[1] for one in of_class(root, "grid")]
    assert lines == pytest.approx([FLOOR - v * unit for v in range(5)], abs=0.06)
    assert all(ends_of(one)[::2] == (64, 508) for one in of_class(root, "grid"))


def test_a_mark_is_inside_and_every_line_counts():
    root, spots = drawn_plot(
        PlotSeries("a", ((0.0, 1.0), (1.0, 2.0)), markers=True),
        PlotSeries("b", ((0.5, 3.0), (2.0, 1.0)), markers=True),
        mark=("budget", 10.0),
    )
    assert min(x for x, _ in spots) == LEFT_EDGE
    assert max(x for x, _ in spots) == RIGHT_EDGE
    unit = (FLOOR - TOP_EDGE) / 10.4
    (mark,) = of_class(root, "mark")
    assert ends_of(mark)[1] == pytest.approx(FLOOR - 10 * unit, abs=0.06)
    assert [y for _, y in spots] == pytest.approx([FLOOR - v * unit for v in (1, 2, 3, 1)], abs=0.06)
    root, spots = drawn_plot(PlotSeries("a", ((0.0, 1.0), (1.0, 2.0)), markers=True), mark=("none", math.inf))
    assert not of_class(root, "mark")
    assert spots[-1][1] == pytest.approx(FLOOR - 2 * (FLOOR - TOP_EDGE) / 2.08, abs=0.06)


def test_powers_of_ten_are_evenly_apart_and_named():
    root, spots = drawn_plot(PlotSeries("a", ((0.1, 1.0), (1.0, 1.0), (100.0, 1.0)), markers=True), log_x=True)
    assert [x for x, _ in spots] == pytest.approx([LEFT_EDGE, LEFT_EDGE + 444 / 3, RIGHT_EDGE], abs=0.06)
    named = {one.text: float(one.get("x")) for one in root.iter() if one.get("y") == "272.0"}
    assert named == pytest.approx({"0.1": 64.0, "1": 212.0, "100": 508.0}, abs=0.06)


def test_a_plot_may_start_at_the_least_and_below_zero():
    for points, from_zero, heights in (
        (((0.0, 100.0), (1.0, 103.0)), False, [0, 3 / 3.12]),
        (((0.0, -2.0), (1.0, -1.0)), True, [0, 1 / 1.04]),
    ):
        _, spots = drawn_plot(PlotSeries("a", points, markers=True), from_zero=from_zero)
        assert [y for _, y in spots] == pytest.approx([FLOOR - h * (FLOOR - TOP_EDGE) for h in heights], abs=0.06)


def test_a_single_point_and_no_point_are_drawn_inside():
    _, spots = drawn_plot(PlotSeries("a", ((3.0, 0.0),), markers=True))
    assert spots == [(LEFT_EDGE, FLOOR)]
    root, spots = drawn_plot(PlotSeries("a", ((math.nan, 1.0),), markers=True))
    assert spots == []
    assert len(of_class(root, "grid")) > 2


def test_lines_are_told_apart_and_labels_do_not_cover_each_other():
    lines = [PlotSeries(f"line {i}", ((0.0, 1.0), (1.0, 1.0 + i / 100))) for i in range(5)]
    root, spots = drawn_plot(*lines)
    assert spots == []  # no markers were asked for
    paths = [one for one in root.iter() if one.get("stroke", "currentColor") != "currentColor"]
    looks = [(one.get("stroke"), one.get("stroke-dasharray")) for one in paths]
    assert len(set(looks)) == 4
    assert looks[4] == looks[0]
    labels = [one for one in root.iter() if one.get("x") == "514.0"]
    assert {one.text: one.get("fill") for one in labels} == {f"line {i}": looks[i][0] for i in range(5)}
    heights = [float(one.get("y")) for one in labels]
    assert heights == sorted(heights)
    assert min(b - a for a, b in itertools.pairwise(heights)) >= 15 - 0.1
