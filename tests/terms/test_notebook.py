"""What a notebook shows of answers, plans, balances and verdicts: bounds on their own side, and all text escaped."""

import dataclasses
import html
import math
import random
import re
from decimal import Decimal
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import epsilog as ep
from epsilog import plan
from epsilog.accounting.montecarlo import bound_delta
from epsilog.ledger import open_ledger
from epsilog.mechanisms import BallsInBins, Gaussian, Laplace
from epsilog.pipeline.runner import RunResult
from epsilog.plan import build_registered_plan
from epsilog.queries import Count, Histogram, Mean, MostCommonCategory, QueryResult, run_query
from epsilog.schemes import ClientLevelCentral
from epsilog.terms import Finding, NeighboringRelation, Status
from epsilog.terms.charts import CLAIM, ESTIMATE, OVER, SPENT, draw_band_plot, draw_budget_gauge, draw_interval_bar
from epsilog.terms.formatting import format_upper
from epsilog.verification import Verification
from epsilog.verification.audits import AuditProtocol, audit_one_run

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def registered():
    return build_registered_plan(
        lambda z: ClientLevelCentral(50, 0.1, 3, 1.0, z),
        name=EVIL,
        noise_multiplier=2.0,
        budget_epsilon=Decimal(30),
        delta=Decimal("1e-5"),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit=EVIL,
        population=50,
        budget={"scope": EVIL, "epsilon": "30", "delta": "1e-5", "delta_rationale": "a cap"},
        simulation=True,
        details={},
    )


TABLE, DRAWING = {"table", "caption", "tr", "th", "td"}, {"svg", "title", "path", "rect", "text"}


def charts(shown):
    """The drawings, well formed, each with its words; ``-inf``, ``nan`` and the like are nowhere in them."""
    found = [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", shown)]  # noqa: S314 - our own
    for drawing in found:
        assert drawing.get("role") == "img"
        assert drawing.get("aria-label") == drawing.findtext("title")
        assert not re.search(r"\b(nan|inf)\b", " ".join(value for part in drawing for value in part.attrib.values()))
    return found


def cells(shown):
    """The text of each cell; no tag but a table's or a drawing's is left."""
    charts(shown)
    assert set(re.findall(r"</?(\w+)", shown)) <= TABLE | DRAWING
    return [html.unescape(text) for text in re.findall(r"<t[hd][^>]*>([^<]*)<", shown)]


def test_plans_show_their_bounds(registered):
    shown = cells(registered._repr_html_())
    assert format_upper(registered.epsilon.upper) in shown
    assert format_upper(registered.unamplified.upper) in shown
    assert EVIL in " ".join(shown)
    federated = plan.plan_federated(population=1000, cohort_size=10, rounds=5, noise_multiplier=1.0, delta=1e-6)
    assert format_upper(federated.epsilon.upper) in cells(federated._repr_html_())
    queries = plan.queries(epsilon=1.0, queries=4, mechanism="laplace")
    assert f"{queries.shares[0].optimal.scale:.6g}" in cells(queries._repr_html_())


def test_a_balance_shows_what_is_left(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme", kind="gdp", mu_squared="2")
        books.charge("acme", Gaussian(1.0), key="k")
        (balance,) = books.budgets()
        shown = cells(balance._repr_html_())
    assert shown[-5:] == [
        "mu_squared",
        *(getattr(balance, part)["mu_squared"] for part in ("caps", "reserved", "spent", "available")),
    ]


def test_verdicts_runs_and_audits_are_shown(registered):
    found = Verification((Finding("noise/too-weak", Status.FAILED, EVIL),))
    assert cells(found._repr_html_())[-3:] == ["noise", "failed", EVIL]
    own = Verification((Finding("custody/passed", Status.PASSED, "7 lists"),))  # which the report does not repeat
    told = {"claim": {"statement": EVIL}, "verification": found.to_json()}
    outcome = RunResult(registered, own, told, None, SimpleNamespace())
    whole = cells(outcome._repr_html_())
    assert whole.count(EVIL) >= 2
    assert "7 lists" not in f"{outcome!r} {whole}"
    coins = np.arange(100) % 2
    audit = audit_one_run(coins.astype(float), coins, AuditProtocol(100, 1e-5))
    assert "it guarantees nothing" in audit._repr_html_()
    assert cells(audit._repr_html_())[1] != "0"


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("behind", ["#ffffff", "#14171a"])
@pytest.mark.parametrize("color", [CLAIM, ESTIMATE, SPENT, OVER])
def test_colors_stand_out_from_light_and_from_dark(color, behind):
    light, dark = sorted((luminance(color), luminance(behind)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3  # what WCAG asks of graphics; text has the color of the place


def edge(bar, color):
    """Where a tick of a bar stands."""
    (path,) = [part for part in bar if part.get("stroke") == color]
    return float(re.match(r"M([\d.]+)", path.get("d"))[1])


def test_a_bar_runs_from_the_lower_bound_of_what_it_shows_to_the_upper(registered):
    interval = dataclasses.replace(registered.epsilon, lower=6.0, upper=9.0, estimate=8.0)
    answer = QueryResult(10.0, 2.0, 7.0, 12.0, 0.0, {}, "k", "s", {}, b"")
    plan_shown = dataclasses.replace(registered, epsilon=interval)
    for shown, low, high, mark in ((interval, 6, 9, 8), (answer, 7, 12, 10), (plan_shown, 6, 9, 30)):
        (bar,) = charts(shown._repr_html_())
        (band,) = [part for part in bar if part.get("fill") == CLAIM]
        begin, width = float(band.get("x")), float(band.get("width"))
        caps = [
            float(re.match(r"M([\d.]+)", part.get("d"))[1]) for part in bar if part.get("stroke-dasharray") == "4 3"
        ]
        at = caps[0] if caps else edge(bar, ESTIMATE)
        assert (at - begin) / width == pytest.approx((mark - low) / (high - low), rel=0.02)
        assert f"between {low} and {high}" in bar.get("aria-label")


def test_a_bar_keeps_its_order_and_escapes_its_words():
    (bar,) = charts(draw_interval_bar(1.0, 2.0, title=EVIL, estimate=(EVIL, 1.5), cap=(EVIL, 3.0)))
    assert (
        edge(bar, ESTIMATE)
        < edge(bar, CLAIM)
        < max(float(part.get("d")[1:].split()[0]) for part in bar if part.get("stroke-dasharray") == "4 3")
    )
    band = next(part for part in bar if part.get("fill") == CLAIM)
    assert float(band.get("x")) < edge(bar, ESTIMATE)
    assert float(band.get("x")) + float(band.get("width")) == pytest.approx(edge(bar, CLAIM), abs=0.11)
    assert draw_interval_bar(1.0, math.inf, title="") == ""  # nothing is drawn of what has no end
    charts(draw_interval_bar(0.0, 0.0, title="") + draw_interval_bar(-3.0, -3.0, title="", from_zero=False))


def test_a_gauge_shows_what_is_over_and_by_how_much():
    def red(drawn):
        return [float(part.get("width")) for part in charts(drawn)[0] if part.get("fill") == OVER]

    assert red(draw_budget_gauge([("spent", 1.0), ("reserved", 1.0)], 2.0, title="")) == []
    (over,) = red(draw_budget_gauge([("spent", 3.0)], 2.0, title=""))
    violet = next(
        float(p.get("width"))
        for p in charts(draw_budget_gauge([("spent", 3.0)], 2.0, title=""))[0]
        if p.get("fill") == SPENT
    )
    assert over == pytest.approx(violet / 3, abs=0.2)
    charts(draw_budget_gauge([("spent", 0.0)], 0.0, title="") + draw_budget_gauge([("spent", math.inf)], 1.0, title=""))


@pytest.mark.parametrize("log", [False, True])
def test_a_band_has_its_upper_edge_above_its_lower_one(log):
    points = [(x, 1 / x, 2 / x) for x in (1.0, 10.0, 100.0)] + [(200.0, 0.1, math.inf), (math.nan, 1.0, 2.0)]
    (drawn,) = charts(draw_band_plot([(EVIL, points)], title=EVIL, x_label=EVIL, y_label=EVIL, log_x=log, log_y=log))
    band = next(part.get("d") for part in drawn if part.get("fill") == CLAIM)
    corners = [tuple(map(float, pair.split())) for pair in re.findall(r"[\d.]+ [\d.]+", band)]
    upper, lower = corners[:3], corners[:2:-1]
    assert len(corners) == 6
    assert all(a[0] == b[0] and a[1] < b[1] for a, b in zip(upper, lower, strict=True))  # y runs downwards
    assert "between 1 and 2 at 1; " in drawn.get("aria-label")
    assert draw_band_plot([("none", [(1.0, 1.0, math.inf)])], title="", x_label="", y_label="") == ""


def test_answers_about_releases_show_themselves(registered):
    found = ep.epsilon(Gaussian(1.0), delta=[1e-9, 1e-6, 1e-3])
    shown = cells(found._repr_html_())
    assert [format_upper(at.upper) for at in found] == shown[5::3]
    assert len(charts(found._repr_html_())) == 1
    one = ep.epsilon(Laplace(1.0), delta=1e-6)
    assert len(charts(one._repr_html_())) == 1
    unbounded = ep.epsilon(Gaussian(0.0), delta=1e-6)
    assert charts(unbounded._repr_html_()) == []
    assert "inf" in cells(unbounded._repr_html_())
    many = ep.epsilon(Gaussian(1.0), delta=[10.0**-k for k in range(1, 31)])
    assert "and 18 more" in cells(many._repr_html_())
    assert cells(registered.guarantee._repr_html_())[-1] == "50"
    assert EVIL in cells(registered.guarantee._repr_html_())


def test_monte_carlo_evidence_shows_how_it_closed():
    found = bound_delta(BallsInBins(Gaussian(1.0), bins=4), epsilon=1.0, samples=20_000, seed=7)
    bar, closing = charts(found._repr_html_())
    assert "not what is claimed" in closing.get("aria-label")
    assert edge(bar, CLAIM) > edge(bar, ESTIMATE)


def test_answers_about_data_show_themselves(tmp_path):
    frame = {"age": [20 + n % 60 for n in range(4_000)], "ward": [EVIL if n % 3 else "eye" for n in range(4_000)]}
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("clinic", kind="pure", epsilon="9", privacy_unit="patient", simulation=True)

        def put(query) -> QueryResult:
            paid = {"epsilon": "1", "simulation": True, "below": random.Random(2).randrange}  # noqa: S311 - a test
            return run_query(books, "clinic", query, frame, unit=None, key=str(query), keep=tmp_path / "kept", **paid)

        shown = [
            put(query)._repr_html_()
            for query in (
                Count(),
                Mean("age", bounds=(0, 100)),
                Histogram("ward", (EVIL, "eye")),
                MostCommonCategory("ward", (EVIL, "eye")),
            )
        ]
    assert [len(charts(text)) for text in shown] == [1, 1, 0, 0]
    assert all("epsilon 1 at clinic" in cells(text) for text in shown)
    assert cells(shown[2])[0] == EVIL
    assert EVIL in cells(shown[3])
