"""The report as one HTML file: no scripts, nothing to fetch, readable on paper, rendered from the JSON alone."""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog.prove.plots import Series, line_plot
from epsilog.terms import codec
from epsilog.terms.digits import lower_text, upper_text

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def render_html(report: dict[str, Any]) -> str:
    """Renders a report document; the document itself is embedded, so that the page alone can be verified.

    Whoever verifies a page takes the document out of it, renders that, and compares every byte.
    """
    page = _environment().get_template("report.html.j2")
    return page.render(
        report=report,
        plots=plots(report),
        document=codec.canonical(report).decode(),
        fingerprint=codec.fingerprint(report),
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=select_autoescape(default=True, default_for_string=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "upper": _upper, "lower": _lower, "sentence": _sentence}
    return environment


OPEN, CLOSE = b'<pre id="document">', b"</pre>"


def document_of(page: bytes) -> bytes | None:
    """The document that a page holds; None if it is no page of ours. That they agree is for the caller to check."""
    start = page.find(OPEN)
    end = page.find(CLOSE, start)
    if start < 0 or end < 0:
        return None
    return html.unescape(page[start + len(OPEN) : end].decode("utf-8", "replace")).encode()


def plots(report: dict[str, Any]) -> dict[str, str]:
    """The report's figures, by name; a figure without data is left out."""
    drawn = {}
    curve = [(float(p["round"]), float(p["lower"]), float(p["upper"])) for p in report["accounting"]["curve"]]
    if curve:
        sides = [Series("certified upper", tuple((r, up) for r, _, up in curve))]
        if any(low > 0 for _, low, _ in curve):
            sides.append(Series("lower bound", tuple((r, low) for r, low, _ in curve)))
        cap = float(report["budget"]["epsilon"])
        drawn["epsilon"] = line_plot(
            sides, title="Epsilon by round", x_label="round", y_label="epsilon", mark=("budget", cap)
        )
    rounds = report["rounds"]
    if scored := _scores(rounds, "round"):
        lines = [Series("with DP", scored)]
        bare = (report["utility"] or {}).get("without_dp", [])
        if bare:
            lines.append(Series("without DP", _scores(bare, "round")))
        drawn["score"] = line_plot(
            lines, title="Score by round", x_label="round", y_label=report["result"]["score_name"].split(" on ")[0]
        )
    study = (report["utility"] or {}).get("study", [])
    if points := _scores(study, "epsilon"):
        without = report["utility"]["without_dp"]
        drawn["study"] = line_plot(
            [Series("with DP", points, markers=True)],
            title="Score by budget",
            x_label="epsilon of the whole run (each point a run of its own)",
            y_label=report["result"]["score_name"].split(" on ")[0],
            log_x=True,
            mark=("without DP", without[-1]["test_score"])
            if without and without[-1]["test_score"] is not None
            else None,
        )
    return drawn


def _scores(points: list[dict[str, Any]], over: str) -> tuple[tuple[float, float], ...]:
    """Scores to draw; where training diverged there is none."""
    return tuple((float(p[over]), p["test_score"]) for p in points if p["test_score"] is not None)


def number(value: Any) -> str:
    """A figure at four significant digits; text and None as they are.

    >>> number(0.000012345), number(31022), number(None), number("inf")
    ('1.234e-05', '31,022', '-', 'inf')
    """
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _upper(value: float | str) -> str:
    return upper_text(float(value))


def _lower(value: float | str) -> str:
    return lower_text(float(value))


def _sentence(value: str) -> str:
    """A field name as words."""
    return value.replace("_", " ").replace("-", " ")
