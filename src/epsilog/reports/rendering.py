"""Renderings of a report, from its JSON alone: HTML to verify, Markdown, a page for lay readers, and PDF by Typst.

The HTML fetches nothing and prints well; its only script checks the certificate. It contains the JSON, and only this
rendering can be verified. The others quote the report's SHA-256. Typst never reads quoted text as markup.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog.plan.sentences import list_group_rows, write_attacks, write_copies
from epsilog.reports import figures
from epsilog.reports.figure_sources import (
    LEDGER,
    OWNER,
    WRITER,
    get_figure_source,
    list_descriptions,
    list_report_parts,
)
from epsilog.reports.figures import draw_report_plots
from epsilog.reports.first_page import answer, build_first_page, format_verdict
from epsilog.reports.hazards import count_answered, list_hazard_rows
from epsilog.reports.proof import build_proof
from epsilog.reports.publication_fields import merge_publication_fields
from epsilog.reports.statements import MODEL_NOTE
from epsilog.terms import RecordError, codec
from epsilog.terms.charts import make_standalone
from epsilog.terms.extras import install_command
from epsilog.terms.legible import legible
from epsilog.terms.messages import KINDS, sentence

if TYPE_CHECKING:
    from jinja2 import Environment

    from epsilog.verification import Playbook, Verification


TEMPLATES = Path(__file__).parent / "templates"
COMPARED = {"report": "Records against plan and ledger", "log-report": "Logs against the claim"}


def render_html(report: dict[str, Any]) -> str:
    """Render a report as a page that contains it, so that the page alone can be verified.

    A verifier takes the document out of the page, renders it, and compares every byte.
    """
    page = _environment().get_template("page.html.j2")
    return page.render(build_context(report, {}), document=codec.encode_canonical(report).decode())


def render_markdown(report: dict[str, Any], about: Mapping[str, str] | None = None, *, kind: str = "markdown") -> str:
    """Render a report as Markdown in which all quoted text is plain.

    Args:
        report: the document.
        about: publication fields that the report leaves blank.
        kind: "markdown" for all of it, "summary" for lay readers.
    """
    template = "page.md.j2" if kind == "markdown" else f"{kind}.md.j2"
    return fill_markdown_template(template, **build_context(report, about or {}))


def build_context(report: dict[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    """Return what every rendering shows of a report, with further publication fields."""
    claim, risks = report["claim"], report["risk_metrics"] or {}
    stated, findings = merge_publication_fields(report, about), report["verification"]["findings"]
    epsilon = claim["epsilon"]
    assumptions = [sentence(one) for one in epsilon["assumptions"]]
    playbooks = [(one["code"], one["playbook"]) for one in findings if "playbook" in one]
    return {
        "report": report,
        "of_run": report["kind"] == "report",
        "date": report["evidence"].get("provenance", {}).get("date", ""),
        "claim": claim | {"epsilon": {**epsilon, "method": sentence(epsilon["method"]), "assumptions": assumptions}},
        "compared": COMPARED[report["kind"]],
        "is_supported": figures.is_fully_supported(report),
        "figures": figures.list_key_figures(report),
        "hashes": figures.list_hashes(report),
        "odds": figures.format_report_odds(report),
        "risk_rows": figures.format_risk_rows(report),
        "group_rows": list_group_rows(report["risk_metrics"]),
        "group_note": f"{write_copies(1.0)} {MODEL_NOTE}",
        "attack_note": f"{write_attacks(claim['guarantee']['privacy_unit'])} {MODEL_NOTE}",
        "proof": build_proof(report),
        "settings": figures.list_settings(report),
        "data": figures.list_data_rows(report),
        "provenance": figures.list_provenance(report),
        "audit": (report.get("audit") or {}).get("messages", []),
        "plots": draw_report_plots(report),
        "steps": [(code, step) for code, playbook in playbooks for step in playbook["steps"]],
        "playbook": playbooks[0][1]["sha256"] if playbooks else "",
        "fingerprint": codec.hash_canonical(report),
        "sources": describe_sources(report),
        "verdict": answer(report) | {"message": format_verdict(report)},
        "page": build_first_page(report, stated),
        "false_alarm_rate": figures.show_upper(report["verification"]["false_alarm_rate"]),
        "findings": figures.list_finding_rows(report),
        "hazards": list(list_hazard_rows(report)),
        "hazards_answered": count_answered(report),
        "stated": [(figures.format_name(name), value) for name, value in stated.items()],
        "blank": [
            (figures.format_name(one["field"]), f"{one['description']} (for {one['required_by']})")
            for one in report["publication"]["blank"]
            if one["field"] not in stated
        ],
        "attack": next(reversed(risks.get("attack", [])), None),
        "group": next((point for point in risks.get("groups", []) if point["units"] > 1), None),
        "prior_releases": stated.get("prior_releases"),
    }


def describe_sources(report: Mapping[str, Any]) -> list[str]:
    """Return which figures are attested, by whom, and which are recomputed or unknown, a sentence each."""
    parts = list_report_parts(report)
    attested = [
        f"{source.label.capitalize()}, copied and not recomputed: {', '.join(list_descriptions(parts, source))}."
        for source in (OWNER, LEDGER, WRITER)
        if list_descriptions(parts, source)
    ]
    evidence = "the logs and their mapping" if report["kind"] == "log-report" else "these"
    return [
        *attested,
        f"Recomputed from {evidence}: every other figure.",
        "Unknown: what is not stated or not checked.",
    ]


def render_verdict(outcome: Verification, *, title: str, playbook: Playbook | None = None) -> str:
    """Render a verification as Markdown: of a run, a report, a ledger, or logs of another framework.

    Args:
        outcome: the verification.
        title: what was verified.
        playbook: steps to name where a finding triggers them.
    """
    steps = [] if playbook is None else [(one.code, s) for one in outcome.findings for s in playbook.steps_for(one)]
    return fill_markdown_template(
        "verdict.md.j2",
        outcome=outcome,
        title=title,
        steps=steps,
        playbook="" if playbook is None else playbook.sha256,
        files=sorted(outcome.files.items()),
    )


def fill_markdown_template(template: str, **context: Any) -> str:
    """Fill a Markdown template, with one blank line between its parts."""
    text = _environment(markdown=True).get_template(template).render(context)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _environment(*, markdown: bool = False) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=not markdown,  # noqa: S701 - Markdown has other escapes, see _escape_markdown
        finalize=_escape_markdown if markdown else _escape_value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=markdown,
    )
    environment.filters |= {
        "number": figures.format_number,
        "upper": figures.show_upper,
        "percent": KINDS["percent"],
    }
    environment.globals["source"] = lambda report, path: get_figure_source(report, path.split("/")).label
    return environment


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


def _escape_markdown(value: Any) -> str:
    r"""Escape each character that Markdown, or HTML within it, interprets; on one line. Bare URLs stay links.

    >>> _escape_markdown("a|b <i>\n# c")
    'a\\|b \\<i\\> \\# c'
    """
    return _SPECIAL.sub(r"\\\1", legible(" ".join(str(value).split())))


def _escape_value(value: Any) -> Any:
    """Make the text of a page legible; the document's own JSON keeps its meaning."""
    if not isinstance(value, str) or (shown := legible(value, keep="\n")) == value:
        return value
    return type(value)(shown)  # markup stays markup


OPEN, CLOSE = b'<pre id="document">', b"</pre>"


def extract_document(page: bytes) -> bytes | None:
    """Return the document in a page, or None without one. The caller checks that page and document agree."""
    start = page.find(OPEN)
    end = page.find(CLOSE, start)
    if start < 0 or end < 0:
        return None
    return html.unescape(page[start + len(OPEN) : end].decode("utf-8", "replace")).encode()


COLORS = {"guessed": "#1d2326", "found": "#a3480c", "leaked": "#5a4b9a", "safe": "#dfdbd2"}


def render_pdf(report: dict[str, Any], about: Mapping[str, str] | None = None) -> bytes:
    """Render a report as a PDF.

    Args:
        report: the document.
        about: publication fields that the report leaves blank.

    Raises:
        RecordError: the extra ``pdf`` is not installed.
    """
    try:
        import typst
    except ImportError as error:
        raise RecordError(f"a PDF needs Typst: {install_command('pdf')}") from error
    context = build_context(report, about or {})
    context["picture"] = _draw(context["page"]["dots"]) if context["page"]["dots"] else None
    context["plots"] = {name: make_standalone(plot) for name, plot in context["plots"].items()}
    content = (TEMPLATES / "report.typ").read_bytes()
    return bytes(typst.compile(content, sys_inputs={"context": json.dumps(_make_legible(context))}))


def _draw(dots: list[tuple[str, str]]) -> str:
    """The picture of 1,000 units as an SVG with its colors."""
    line = '<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-linecap="round"/>'
    parts = [line.format(path, COLORS[name], 8) for name, path in dots if path]
    parts += [line.format(path, "#ffffff", 4.6) for name, path in dots if name == "leaked" and path]
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 250">{"".join(parts)}</svg>'


def _make_legible(value: Any) -> Any:
    """Return the same JSON values, with text that has a glyph for each character."""
    if isinstance(value, Mapping):
        return {legible(str(name)): _make_legible(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_make_legible(inner) for inner in value]
    return legible(str(value), keep="\n") if isinstance(value, str) else value
