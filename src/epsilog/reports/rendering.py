"""Renderings of a report, from its JSON alone: HTML to verify by, Markdown, a page for laymen.

The HTML has no scripts, fetches nothing, and is readable on paper; it holds the JSON, and is the one rendering that
``verify`` takes. The others quote the report's SHA-256.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epsilog.plan.sentences import list_group_rows, list_risk_rows, write_attacks, write_copies, write_odds
from epsilog.reports.kinds import LEDGER, OWNER, WRITER, Attested, kind_at, kind_of_finding, parts_of, words_of
from epsilog.reports.publication_fields import merge_publication_fields
from epsilog.reports.statements import OF_MODEL
from epsilog.terms import COMMITMENT, Status, codec
from epsilog.terms.charts import PlotSeries, draw_line_plot
from epsilog.terms.formatting import format_lower, format_upper
from epsilog.terms.legible import legible
from epsilog.terms.messages import KINDS, sentence
from epsilog.verification.audits import GAUSSIAN

if TYPE_CHECKING:
    from jinja2 import Environment

    from epsilog.verification import Playbook, Verification

TEMPLATES = Path(__file__).parent / "templates"


def render_html(report: dict[str, Any]) -> str:
    """Renders a report document; the document itself is embedded, so that the page alone can be verified.

    Whoever verifies a page takes the document out of it, renders that, and compares every byte.
    """
    page = _environment().get_template(f"{TEMPLATE[report['kind']]}.html.j2")
    return page.render(build_context(report), label=_labels(report), document=codec.encode_canonical(report).decode())


def _labels(report: Mapping[str, Any]) -> Callable[[str], str]:
    """Who vouches for a part of the report, by its place."""
    return lambda place: kind_at(report, place.split("/")).label


TEMPLATE = {"report": "report", "log-report": "logs"}
COMPARED = {"report": "Records against plan and ledger", "log-report": "Logs against the claim"}


def _in_words(interval: Mapping[str, Any]) -> dict[str, Any]:
    assumed = [sentence(one) for one in interval["assumptions"]]
    return {**interval, "method": sentence(interval["method"]), "assumptions": assumed}


def build_context(report: dict[str, Any]) -> dict[str, Any]:
    """What every rendering shows of a report."""
    return {
        "report": report,
        "claim": report["claim"] | {"epsilon": _in_words(report["claim"]["epsilon"])},
        "compared": COMPARED[report["kind"]],
        "whole": is_fully_supported(report),
        "certified": get_certified_epsilon(report),
        "figures": list_key_figures(report),
        "hashes": list_hashes(report),
        "odds": format_report_odds(report),
        "readings": format_risk_rows(report),
        "group_rows": format_group_rows(report),
        "group_note": f"{write_copies(1.0)} {OF_MODEL}",
        "attack_note": f"{write_attacks(report['claim']['guarantee']['privacy_unit'])} {OF_MODEL}",
        "facts": list_facts(report),
        "filters": filters(report),
        "made": list_provenance(report),
        "lower_bound": format_audit_bound(report),
        "tuned": list_tuning_figures(report),
        "counted": list_noisy_counts(report),
        "attacked": (report.get("audit") or {}).get("messages", []),
        "plots": draw_report_plots(report),
        "triggered": list_playbook_steps(report),
        "playbook": next(iter(_playbooks(report)), ""),
        "fingerprint": codec.hash_canonical(report),
        "words": words(report),
        "verdict_told": format_verdict(report),
        "findings": list_finding_rows(report),
    }


def words(report: Mapping[str, Any]) -> list[str]:
    """Who vouches for what on this page, a sentence each."""
    parts = parts_of(report)
    told = [
        f"By the {kind.by}'s word, which verification copies and does not work out: {', '.join(words_of(parts, kind))}."
        for kind in (OWNER, LEDGER, WRITER)
        if words_of(parts, kind)
    ]
    source = "logs and mapping" if report["kind"] == "log-report" else "them, and from plan and records"
    return [*told, f"Every other figure is worked out again from {source}."]


def list_finding_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each finding with how it ended in words, and the look of that: only what is recomputed looks passed."""
    found = []
    for one in report["verification"]["findings"]:
        kind = kind_of_finding(one)
        attested = isinstance(kind, Attested)
        told = f"{one['status']} ({kind.label})" if attested else one["status"]
        look = "attested" if attested and one["status"] == Status.PASSED else one["status"].split(" ")[0]
        found.append({**one, "verdict_told": told, "look": look})
    return found


def format_verdict(report: Mapping[str, Any]) -> dict[str, str]:
    """The verdict on the whole, with what of it is somebody's word, and its look."""
    verdict, checks = report["verification"]["status"], dict[str, list[str]]()
    for one in report["verification"]["findings"]:
        kind = kind_of_finding(one)
        if one["status"] == Status.PASSED and isinstance(kind, Attested):
            checks.setdefault(kind.label, []).append(one["check"])
    if verdict != Status.PASSED or not checks:
        return {"message": verdict, "look": verdict.split(" ")[0]}
    told = [f"{', '.join(names)} by {label}" for label, names in checks.items()]
    return {"message": "; ".join([verdict, *told]), "look": "attested"}


def _playbooks(report: Mapping[str, Any]) -> list[str]:
    return [one["playbook"]["sha256"] for one in report["verification"]["findings"] if "playbook" in one]


def list_playbook_steps(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Steps of a playbook that findings trigger, each with the finding's code."""
    found = report["verification"]["findings"]
    return [(one["code"], step) for one in found if "playbook" in one for step in one["playbook"]["steps"]]


def render_markdown(report: dict[str, Any], about: Mapping[str, str] | None = None, *, kind: str = "markdown") -> str:
    """Renders a report as Markdown, in which whatever it quotes is plain text.

    Args:
        report: the document.
        about: fields that the report leaves blank; see ``publication``.
        kind: "markdown" for all of it, "summary" for people who do not know epsilon.
    """
    stated, reading = merge_publication_fields(report, about or {}), report["risk_metrics"] or {}
    return fill_markdown_template(
        f"{TEMPLATE[report['kind']] if kind == 'markdown' else kind}.md.j2",
        **build_context(report),
        label=_labels(report),
        stated=stated,
        blank=[item for item in report["publication"]["blank"] if item["field"] not in stated],
        attack=next(reversed(reading.get("attack", [])), None),
        group=next((point for point in reading.get("groups", []) if point["units"] > 1), None),
        prior=_prior(stated),
    )


def fill_markdown_template(template: str, **told: Any) -> str:
    """Fills a template of Markdown, with one blank line between its parts."""
    text = _environment(markdown=True).get_template(template).render(told)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def render_verdict(outcome: Verification, *, title: str, playbook: Playbook | None = None) -> str:
    """Render what verification found as Markdown: of a run, a report, a ledger, or logs of any other framework.

    Args:
        outcome: what was found.
        title: what was verified.
        playbook: whose steps are named where a finding triggers them.
    """
    steps = [] if playbook is None else [(one.code, s) for one in outcome.findings for s in playbook.steps_for(one)]
    return fill_markdown_template(
        "verdict.md.j2",
        outcome=outcome,
        title=title,
        stands=outcome.claim,
        triggered=steps,
        playbook="" if playbook is None else playbook.sha256,
        files=sorted(outcome.files.items()),
    )


def _prior(stated: Mapping[str, str]) -> str:
    told = stated.get("prior_releases")
    return f"Before it: {told}" if told else "What was released about the same people before is not stated."


def list_key_figures(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures that a reader looks for first: name, value, and what it is."""
    claim = report["claim"]
    known = ("epsilon, participation known", _upper(claim["unamplified"]["upper"]), "no amplification by sampling")
    supported = math.isfinite(float(claim["supported"]))
    first = ("epsilon", _upper(get_certified_epsilon(report)), _what_epsilon_is(report))
    return [
        first,
        *([known] if supported else []),
        *list_tuning_figures(report),
        *list_noisy_counts(report),
        *_of_the_run(report),
    ]


def list_noisy_counts(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The noisy counts beside the model, as figures; nothing where there are none."""
    named = {"usable": "rows that can be used", "evaluation": "right on rows trained on"}
    found = []
    for one in (report.get("owner") or {}).get("counts", ()):
        charged = ", ".join(f"{name} {each}" for amounts in one["charged"].values() for name, each in amounts.items())
        value = f"{format_number(one['value'])} ({format_number(one['lower'])} to {format_number(one['upper'])})"
        found.append((named.get(one["name"], one["name"]), value, f"noisy, with 95% confidence; charged {charged}"))
    return found


def list_tuning_figures(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What the sweep was that the run is the best of, as figures; nothing where one run was made."""
    tuning = report.get("tuning")
    if tuning is None:
        return []
    law, expected = tuning["trial_distribution"], format_number(tuning["expected"])
    told = f"best of {law}: {expected} trials expected, how many stays hidden"
    figures = [
        ("this sweep costs", _upper(tuning["best"]["upper"]), f"charged before the first trial; {told}"),
        ("epsilon of one trial", _upper(tuning["single_run"]["upper"]), "what it would be without choosing"),
    ]
    if tuning["all_released"] is not None:
        every = _upper(tuning["all_released"]["upper"])
        figures.append((f"epsilon of {tuning['count']:,} trials shown", every, "what it would be if all were told"))
    chosen = report["owner"].get("selected_settings")
    if chosen:
        settings = ", ".join(f"{name} = {value}" for name, value in chosen.items())
        figures.append(("settings that won", settings, "the owner's word"))
    return figures


def get_certified_epsilon(report: Mapping[str, Any]) -> float:
    """The epsilon that the records support; where they support the claim, at least the bound that was worked out."""
    claim = report["claim"]
    supported = float(claim["supported"])
    return max(supported, float(claim["epsilon"]["upper"])) if is_fully_supported(report) else supported


def _what_epsilon_is(report: Mapping[str, Any]) -> str:
    claim, of_logs = report["claim"], report["kind"] == "log-report"
    at = f"at delta {_upper(claim['guarantee']['delta'])}"
    if is_fully_supported(report):
        return f"certified upper bound {at}; lower bound {_lower(claim['epsilon']['lower'])}"
    stated = _upper(claim["guarantee"]["epsilon"])
    return f"{at}: what the {'logs' if of_logs else 'records'} support, where {stated} was " + (
        "claimed" if of_logs else "planned"
    )


def _of_the_run(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Budget, closed form and score, where there are any."""
    if report["kind"] == "log-report":
        return []
    result = report["result"]
    return [
        (
            "budget",
            report["budget"]["epsilon"],
            f"of {report['budget']['scope']}{binding_budget(report)}; {OWNER.label}",
        ),
        (
            "closed form",
            format_number(report["accounting"]["closed_form"]["total"]),
            "an estimate, no bound, never charged",
        ),
        *format_audit_bound(report),
        (
            result["score_name"],
            format_number(result["test_score"]),
            f"after {result['rounds']} rounds; {kind_at(report, ('result', 'test_score')).label}",
        ),
    ]


def binding_budget(report: Mapping[str, Any]) -> str:
    """The budget that binds, with its cap and what stood against it before the charge; blank without a ledger."""
    if (found := report["budget"].get("binding")) is None:
        return ""
    whose = "the cap that the plan states" if found["source"] == "plan" else "the ledger's cap"
    cap, held = found["caps"]["epsilon"], found["spent_or_reserved"]["epsilon"]
    return f"; {whose} for {found['scope']} binds: {cap}, of which {held} was spent or reserved before"


def format_audit_bound(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What an attack has shown, as a figure; none where there was no audit."""
    audit = report.get("audit") or {}
    bound = audit.get("bound")
    if bound is None:
        return []
    told = f"by attack, at confidence {bound['confidence']:g}, from coins and scores by {OWNER.label}"
    if audit["planned"]["method"] == GAUSSIAN:
        told += ", if the mechanism is Gaussian"
    return [("epsilon, empirical lower bound", _lower(bound["epsilon"]), f"{told}; it promises nothing")]


KEYED = ", HMAC-SHA-256 under the curator's key"


def list_hashes(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the evidence is bound by: name and SHA-256."""
    evidence, named = report["evidence"], [("the report that this shows", codec.hash_canonical(report))]
    if report["kind"] == "log-report":
        keyed = [(f"{name}, under the salt of the mapping", digest) for name, digest in evidence["hmac_files"].items()]
        loose = [
            (name, "not public, and the mapping has no salt: nothing binds it") for name in evidence["unhashed_files"]
        ]
        return [*evidence["files"].items(), *keyed, *loose, *named]
    ledger = evidence["ledger"]
    head = [(f"ledger head after {ledger['count']} entries", ledger["head"])] if ledger else []
    return [
        ("plan", evidence["plan_hash"]),
        *((f"{name}{KEYED if name == COMMITMENT else ''}", digest) for name, digest in evidence["files"].items()),
        *head,
        *evidence["references"].items(),
        *named,
    ]


def filters(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which rows of which log were not looked at, a log each; none of a run that epsilog trained."""
    return [
        (
            f"rows of {one['file']} that {one['section']} leaves out",
            f"{_count(one['rows_left_out'])}: all without "
            + " and ".join(f"{column} = {value!r}" for column, value in one["where"].items()),
        )
        for one in report.get("observed", {}).get("filters", [])
    ]


def _count(rows: int | None) -> str:
    return "a number that is not public" if rows is None else f"{rows:,}"


def is_fully_supported(report: Mapping[str, Any]) -> bool:
    """Whether the records support all of what was planned, or the logs all of what was claimed."""
    return bool(report["claim"]["supported"] == report["claim"]["guarantee"]["epsilon"])


def format_report_odds(report: Mapping[str, Any]) -> str:
    """How far odds move, in a sentence; blank where no claim stands, and of older reports, which do not tell it."""
    reading, guarantee = report["risk_metrics"] or {}, report["claim"]["guarantee"]
    if (moved := reading.get("log_odds_factor")) is None:
        return ""
    unit, relation = guarantee["privacy_unit"], guarantee["relation"]
    return str(write_odds(float(moved), guarantee["delta"], unit, relation, simulation=report["simulation"]))


def format_risk_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the claim means, as label and figure; nothing where none stands."""
    return [(str(label), figure) for label, figure in list_risk_rows(report["risk_metrics"])]


def format_group_rows(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What is left for somebody who holds several units, or for a record of several copies: units, and both bounds."""
    return list_group_rows(report["risk_metrics"])


def list_facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Mechanism, training, coverage and data, one fact a row; of logs, which rows were left out."""
    mechanism = report["mechanism"]
    scheme = {name: value for name, value in mechanism["scheme"].items() if name != "type"}
    told = {
        "scheme": mechanism["scheme"]["type"],
        **scheme,
        "noise stddev on each noisy sum": mechanism["noise_stddev"],
        "divisor of noisy sums": mechanism.get("divisor"),
    }
    parts = (told, mechanism.get("training", {}), report["claim"].get("coverage", {}), mechanism.get("data", {}))
    rows = [(_sentence(name), _flat(value)) for part in parts for name, value in part.items() if value is not None]
    return [*rows, *filters(report), *list_provenance(report)]


def list_provenance(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """When and from what a run was made, by its owner's word; nothing where that is not stated."""
    said = report["evidence"].get("provenance", {})
    return [(MADE[name], f"{value} ({OWNER.label})") for name, value in said.items()]


MADE = {"date": "date", "commit": "source commit", "engine": "engine", "generator": "noise generator"}


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{_sentence(name)}: {_flat(inner)}" for name, inner in value.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list) else format_number(value)


@cache
def _environment(*, markdown: bool = False) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=not markdown,  # noqa: S701 - Markdown has escapes of its own, see _plain
        finalize=_plain if markdown else _escape_value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=markdown,
    )
    environment.filters |= {
        "number": format_number,
        "upper": _upper,
        "lower": _lower,
        "sentence": _sentence,
        "share": KINDS["percent"],
    }
    environment.filters["binding_budget"] = binding_budget
    return environment


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


def _plain(value: Any) -> str:
    r"""Text with no character in it that Markdown, or HTML within it, acts upon; on one line. Bare URLs stay links.

    >>> _plain("a|b <i>\n# c")
    'a\\|b \\<i\\> \\# c'
    """
    return _SPECIAL.sub(r"\\\1", legible(" ".join(str(value).split())))


def _escape_value(value: Any) -> Any:
    """What stands in a page: text becomes legible, and the document's own JSON keeps what it means."""
    if not isinstance(value, str) or (told := legible(value, keep="\n")) == value:
        return value
    return type(value)(told)  # markup stays markup


OPEN, CLOSE = b'<pre id="document">', b"</pre>"


def extract_document(page: bytes) -> bytes | None:
    """The document that a page holds; None if it is no page of ours. That they agree is for the caller to check."""
    start = page.find(OPEN)
    end = page.find(CLOSE, start)
    if start < 0 or end < 0:
        return None
    return html.unescape(page[start + len(OPEN) : end].decode("utf-8", "replace")).encode()


def draw_report_plots(report: dict[str, Any]) -> dict[str, str]:
    """The report's figures, by name; a figure without data is left out."""
    if report["kind"] == "log-report":
        return _plots_of_logs(report)
    drawn = {}
    curve = [(float(p["round"]), float(p["lower"]), float(p["upper"])) for p in report["accounting"]["curve"]]
    if curve:
        sides = [PlotSeries("certified upper", tuple((r, up) for r, _, up in curve))]
        if any(low > 0 for _, low, _ in curve):
            sides.append(PlotSeries("lower bound", tuple((r, low) for r, low, _ in curve)))
        cap = float(report["budget"]["epsilon"])
        drawn["epsilon"] = draw_line_plot(
            sides, title="Epsilon by round", x_label="round", y_label="epsilon", mark=("budget", cap)
        )
    rounds = report["rounds"]
    if scored := _scores(rounds, "round"):
        lines = [PlotSeries("with DP", scored)]
        bare = (report["utility"] or {}).get("baseline_rounds", [])
        if bare:
            lines.append(PlotSeries("without DP", _scores(bare, "round")))
        drawn["score"] = draw_line_plot(
            lines, title="Score by round", x_label="round", y_label=report["result"]["score_name"].split(" on ")[0]
        )
    study = (report["utility"] or {}).get("study", [])
    if points := _scores(study, "epsilon"):
        without = report["utility"]["baseline_rounds"]
        drawn["study"] = draw_line_plot(
            [PlotSeries("with DP", points, markers=True)],
            title="Score by budget",
            x_label="epsilon of the whole run (each point a run of its own)",
            y_label=report["result"]["score_name"].split(" on ")[0],
            log_x=True,
            mark=("without DP", without[-1]["test_score"])
            if without and without[-1]["test_score"] is not None
            else None,
        )
    return drawn


def _plots_of_logs(report: Mapping[str, Any]) -> dict[str, str]:
    """Who took part, where the logs are public."""
    if not (cohorts := report["observed"]["cohorts"]):
        return {}
    seen, last = (
        PlotSeries("seen", tuple((float(i), float(size)) for i, size in enumerate(cohorts, 1))),
        float(len(cohorts)),
    )
    limits = [
        PlotSeries(f"{name} limit", ((1.0, float(limit)), (last, float(limit))))
        for name, limit in zip(("lower", "upper"), report["observed"]["control_limits"] or (), strict=False)
    ]
    return {"cohorts": draw_line_plot([seen, *limits], title="Cohorts", x_label="round", y_label="took part")}


def _scores(points: list[dict[str, Any]], over: str) -> tuple[tuple[float, float], ...]:
    """Scores to draw; where training diverged there is none."""
    return tuple((float(p[over]), p["test_score"]) for p in points if p["test_score"] is not None)


def format_number(value: Any) -> str:
    """A figure at four significant digits; text and None as they are.

    >>> format_number(0.000012345), format_number(31022), format_number(None), format_number("inf")
    ('1.234e-05', '31,022', '-', 'inf')
    """
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _upper(value: float | str) -> str:
    return format_upper(float(value))


def _lower(value: float | str) -> str:
    return format_lower(float(value))


def _sentence(value: str) -> str:
    """A field name as words."""
    return value.replace("_", " ").replace("-", " ")
