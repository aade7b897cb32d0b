"""Draw the figures of docs/learn/how-a-certificate-proves.md from the numbers of the maker and of the checker.

python scripts/certificate_figures.py
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from epsilog import Gaussian, PoissonSampled, Repeated
from epsilog.certificates import certificate, find_checker
from epsilog.certificates.lines import UNIT
from epsilog.reports import PlotSeries, draw_line_plot, make_standalone

IMAGES = Path(__file__).parents[1] / "docs/images"
RUN = Repeated(PoissonSampled(Gaussian(1.0), 0.01), 1000)
DELTA = 1e-5


def open_checker() -> dict[str, Any]:
    """Execute the checker as anyone may: one file."""
    found: dict[str, Any] = {"__name__": "dp_certificate"}
    exec(find_checker("dp_certificate.py").read_text(encoding="utf-8"), found)  # noqa: S102  (the project's own file)
    return found


def draw_cells() -> str:
    """The privacy profile of one Gaussian release, and the chords between its points at four edges."""
    checker = open_checker()
    checker.update(B=128, ONE=1 << 128, work=0)
    one = checker["ONE"]

    def points(grid: list[int]) -> list[tuple[float, float]]:
        return [(x / one, y / one) for x, y in checker["gaussian"](one, Fraction(1), 1, False, grid)]

    coarse = sorted(points([0, -1, 1, 3]))
    curve = [point for point in points([6, -320, 4, 150]) if point[0] <= coarse[-1][0]]
    lines = [
        PlotSeries("bound from 4 edges", ((0.0, 1.0), *coarse[1:]), markers=True),
        PlotSeries("true profile", ((0.0, 1.0), *sorted(curve)[1:])),
    ]
    title = "The bound joins points of the true profile by chords, which lie above it"
    return draw_line_plot(lines, title=title, x_label="ratio: e to the power of epsilon", y_label="delta")


def read_line(slack: float) -> tuple[dict[str, Any], np.ndarray, np.ndarray, list[int]]:
    """The checker's losses and masses of one round in the line for removing a unit, and the hints of that line."""
    made = json.loads(certificate(RUN, delta=DELTA, slack=slack).text)
    claim, proof = made["claim"], made["proof"]
    checker = open_checker()
    checker.update(B=proof["bits"], ONE=1 << proof["bits"], work=0)
    ((parts, q, _, _),), _ = checker["read_releases"](claim["releases"], claim["relation"], claim["group"])
    grids, *hints = proof["lines"][0]
    distribution, _ = checker["distribution"](parts, q, "remove", iter(grids))
    one = checker["ONE"]
    return made, np.array([loss / one for _, loss in distribution]), np.array([m / one for m, _ in distribution]), hints


def draw_terms() -> str:
    """The terms of the inversion integral that the checker sums, and the curve between them."""
    made, losses, masses, (tilt, step, smoothing, _) = read_line(0.01)
    epsilon, t, h, v = float(made["claim"]["epsilon"]), tilt / UNIT, step / UNIT, smoothing / UNIT

    def term(w: float) -> float:
        z = complex(t, w)
        moment = (np.exp(z * losses) @ masses) / (np.exp(t * losses) @ masses)
        wave = moment**1000 * np.exp(-1j * w * epsilon + v * (z * (z + 1) - t * (t + 1)) / 2)
        return float((wave * t * (t + 1) / (z * (z + 1))).real)

    last = 6  # the others are too small to be seen
    curve = tuple((w / h, term(w)) for w in np.linspace(0, last * h, 20 * last + 1).tolist())
    stems = tuple((float(m), height) for m in range(last + 1) for height in (0.0, term(m * h), 0.0))
    lines = [PlotSeries("terms of the sum", stems), PlotSeries("integrand", curve)]
    title = "The integrand along the line, and the terms that are summed"
    return draw_line_plot(lines, title=title, x_label="number of the term", y_label="share of the first term")


def draw_work() -> str:
    """Cells and terms over the slack of the claim."""
    found = []
    for slack in (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05):
        grids, *_, terms = json.loads(certificate(RUN, delta=DELTA, slack=slack).text)["proof"]["lines"][0]
        found.append((100 * slack, sum(grids[0][3::2]), terms))
    lines = [
        PlotSeries("terms", tuple((slack, float(terms)) for slack, _, terms in found), markers=True),
        PlotSeries("cells", tuple((slack, float(cells)) for slack, cells, _ in found), markers=True),
    ]
    title = "A tighter claim takes more cells and more terms"
    return draw_line_plot(lines, title=title, x_label="slack of the claimed epsilon, %", y_label="number", log_x=True)


def draw_hints() -> str:
    """The checker's bound over the step of the line, for a true claim and for one that is 1% too low."""
    made = json.loads(certificate(RUN, delta=DELTA).text)
    true = made["claim"]["epsilon"]
    lines = []
    for label, epsilon in (("1% too low", f"{0.99 * float(true):.9g}"), ("true claim", true)):
        found = []
        for factor in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5):
            altered = json.loads(json.dumps(made))
            altered["claim"]["epsilon"] = epsilon
            line = altered["proof"]["lines"][0]
            line[2], line[4] = round(line[2] * factor), math.ceil(line[4] / factor)
            checker = open_checker()
            found.append((factor, checker["check"](altered) / checker["ONE"]))
        lines.append(PlotSeries(label, tuple(found), markers=True))
    title = "No step makes a claim pass that is 1% too low"
    return draw_line_plot(
        lines,
        title=title,
        x_label="step, as a multiple of the maker's",
        y_label="bound over the claimed delta",
        from_zero=False,
        mark=("must not exceed", 1.0),
    )


FIGURES = {"cells": draw_cells, "terms": draw_terms, "work": draw_work, "hints": draw_hints}


if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (IMAGES / f"certificate-{name}.svg").write_text(make_standalone(draw()) + "\n", encoding="utf-8")
