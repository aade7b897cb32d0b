"""Draw the figures of docs/learn, other than those of how-a-certificate-proves.md.

python scripts/learn_figures.py
"""

from __future__ import annotations

import math
from pathlib import Path

from scipy.integrate import quad
from scipy.stats import chi2, norm

import epsilog as ep
from epsilog.accounting import federated_closed_form, profile
from epsilog.reports import PlotSeries, draw_line_plot, make_standalone

IMAGES = Path(__file__).parents[1] / "docs/images"


def rounds(q: float = 0.01, sigma: float = 1.0) -> ep.mechanisms.Release:
    """A thousand rounds of DP-SGD."""
    return ep.Repeated(ep.PoissonSampled(ep.Gaussian(sigma), q), 1_000)


def draw_attacker() -> str:
    """TPR at FPR of the best attack."""
    rates = [k / 80 for k in range(41)]
    lines = [
        PlotSeries(
            f"epsilon {epsilon}",
            tuple((100 * fpr, 100 * profile(ep.PureDP(epsilon)).tpr(fpr=fpr).upper) for fpr in rates),
        )
        for epsilon in (3, 1, 0.5)
    ]
    lines.append(PlotSeries("guessing", ((0.0, 0.0), (50.0, 50.0))))
    return draw_line_plot(
        lines, title="The best attack", x_label="false positive rate, %", y_label="true positive rate, %"
    )


def draw_two_formulas() -> str:
    """The closed form and the certified bound, over the noise."""
    noises = [0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5]
    certified = tuple((z, ep.epsilon(rounds(sigma=z), delta=1e-5).upper) for z in noises)
    popular = tuple(
        (z, federated_closed_form(sampling_probability=0.01, noise_multiplier=z, rounds=1_000, delta=1e-5).total)
        for z in noises
    )
    return draw_line_plot(
        [PlotSeries("certified", certified), PlotSeries("closed form", popular)],
        title="1,000 rounds at q 0.01, delta 1e-5",
        x_label="noise multiplier",
        y_label="epsilon",
    )


def draw_queries() -> str:
    """Noise of each of several queries."""
    counts = [1, 3, 10, 30, 100]
    gaussian = ep.calibrate(ep.Gaussian, epsilon=1, delta=1e-6)
    laplace = {k: ep.calibrate(lambda b, k=k: ep.Repeated(ep.Laplace(b), k), epsilon=1, delta=1e-6) for k in counts}
    return draw_line_plot(
        [
            PlotSeries("Gaussian", tuple((k, gaussian * math.sqrt(k)) for k in counts)),
            PlotSeries("Laplace", tuple((k, math.sqrt(2) * scale) for k, scale in laplace.items())),
        ],
        title="Noise of each query at epsilon 1, delta 1e-6",
        x_label="queries",
        y_label="standard deviation",
        log_x=True,
    )


def draw_profiles() -> str:
    """Delta over epsilon, for Laplace and Gaussian noise."""
    epsilons = [k / 20 for k in range(27)]
    same = ep.Gaussian(ep.calibrate(ep.Gaussian, epsilon=1, delta=1e-2))
    return draw_line_plot(
        [
            PlotSeries("Gaussian", tuple((e, ep.delta(same, epsilon=e).upper) for e in epsilons)),
            PlotSeries("Laplace", tuple((e, ep.delta(ep.Laplace(1.0), epsilon=e).upper) for e in epsilons)),
        ],
        title="Laplace noise of scale 1, and a Gaussian of epsilon 1 at delta 0.01",
        x_label="epsilon",
        y_label="delta",
    )


def draw_joining() -> str:
    """Epsilon over the sampling probability."""
    chances = [0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03]
    joining = tuple((q, ep.epsilon(rounds(q), delta=1e-5).upper) for q in chances)
    planned = joining[2][1]
    return draw_line_plot(
        [
            PlotSeries("certified", joining, markers=True),
            PlotSeries("in proportion", ((0.002, planned / 5), (0.03, 3 * planned))),
        ],
        title="1,000 rounds at noise multiplier 1, delta 1e-5",
        x_label="sampling probability",
        y_label="epsilon",
        mark=("planned at 0.01", planned),
    )


def draw_groups() -> str:
    """Epsilon if noise is scaled to one of several groups that are clipped separately."""
    points = tuple((g, ep.epsilon(rounds(sigma=1 / math.sqrt(g)), delta=1e-5).upper) for g in (1, 2, 3, 4, 6, 8))
    return draw_line_plot(
        [PlotSeries("for one group", points, markers=True)],
        title="1,000 rounds at q 0.01: noise is scaled to one group's norm",
        x_label="groups clipped separately",
        y_label="epsilon",
        mark=("for all", ep.epsilon(rounds(), delta=1e-5).upper),
    )


def draw_power() -> str:
    """Probability that a check detects noise that is too weak."""

    def caught(share: float, n: int) -> float:
        low, high = chi2.ppf([5e-7, 1 - 5e-7], n)
        return 100 * (chi2.cdf(low / share**2, n) + chi2.sf(high / share**2, n))

    values = [20, 40, 60, 80, 100, 130, 160, 200, 300, 400, 600, 960]
    return draw_line_plot(
        [PlotSeries(f"{100 * (1 - s):.0f}% too weak", tuple((n, caught(s, n)) for n in values)) for s in (0.7, 0.85)],
        title="A check that rejects one sound run in a million",
        x_label="padding values",
        y_label="detected, %",
    )


def draw_tilt() -> str:
    """Draws for a small delta, plain and tilted."""
    mu = 0.5

    def moments(epsilon: float, shift: float) -> list[float]:
        start = (epsilon - mu**2 / 2) / mu

        def gain(x: float) -> float:
            return -math.expm1(epsilon - mu**2 / 2 - mu * x)

        def second(x: float) -> float:
            return gain(x) ** 2 * math.exp(shift**2 / 2 - shift * x)

        return [
            quad(lambda x, f=f: f(x) * norm.pdf(x), start, start + 30, epsabs=0, epsrel=1e-9, limit=200)[0]
            for f in (gain, second)
        ]

    points = []
    for epsilon in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        mean, plain = moments(epsilon, 0.0)
        _, tilted = moments(epsilon, (epsilon - 0.125) / 0.5 + 1)
        points.append([-math.log10(mean), *(math.log10(100 * (second / mean**2 - 1)) for second in (plain, tilted))])
    return draw_line_plot(
        [
            PlotSeries("plain", tuple((d, n) for d, n, _ in points), markers=True),
            PlotSeries("tilted", tuple((d, n) for d, _, n in points), markers=True),
        ],
        title="Draws for a relative standard error of a tenth",
        x_label="x of delta = 1e-x",
        y_label="y of draws = 1ey",
    )


def draw_crowd() -> str:
    """Relative error of a count over the number of people."""
    people = [25, 35, 50, 75, 100, 150, 200]
    return draw_line_plot(
        [
            PlotSeries(f"epsilon {e}", tuple((n, 100 * math.log(20) / e / n) for n in people))
            for e in (0.5, 1, 3)  # Laplace noise of scale 1 / e is larger than ln(20) / e one time in twenty
        ],
        title="A count with Laplace noise",
        x_label="people counted",
        y_label="error, % (95% of the time)",
        log_x=True,
    )


FIGURES = {
    "attacker": draw_attacker,
    "two-formulas": draw_two_formulas,
    "queries": draw_queries,
    "profiles": draw_profiles,
    "joining": draw_joining,
    "groups": draw_groups,
    "power": draw_power,
    "tilt": draw_tilt,
    "crowd": draw_crowd,
}


if __name__ == "__main__":
    for name, draw in FIGURES.items():
        (IMAGES / f"learn-{name}.svg").write_text(make_standalone(draw()) + "\n", encoding="utf-8")
