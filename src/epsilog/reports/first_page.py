"""The first page of a report: what a board, a data-protection officer and a journalist read in a minute; and its card.

Every number on it comes from the report's JSON. A bound is rounded up, what is left of a budget down. The sentences
stand in ``terms/en.json`` under ``page/``. The figures are for 1,000 units, beside what a blind guess finds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, NamedTuple

from epsilog.plan.verdict import FPR, GUESSED, OF, count_units, pluralize, write_banner, write_found, write_guessing
from epsilog.reports.figure_sources import get_finding_source
from epsilog.reports.schema import check_schema
from epsilog.terms import CheckError, Finding, Status, codec
from epsilog.terms.messages import Message
from epsilog.verification import VERDICT_BASIS, Verification, write_answer

_PER_ROW, _SPACING = 40, 10

Row = tuple[str, str]


class Dots(NamedTuple):
    """The picture: how many of 1,000 units each color has.

    Attributes:
        guessed: those that a blind guess finds.
        found: further ones that the best attack may find.
        leaked: further ones that it may find if participation becomes known.
    """

    guessed: int
    found: int
    leaked: int

    @property
    def safe(self) -> int:
        """Those that no attack finds, even then."""
        return OF - sum(self)

    def paths(self) -> list[Row]:
        """Name and SVG path of each part: a dot is a line without length, with a round end."""
        ends, start = [], 0
        for name, count in zip(("guessed", "found", "leaked", "safe"), (*self, self.safe), strict=True):
            at = (divmod(one, _PER_ROW) for one in range(start, start + count))
            dots = "".join(f"M{column * _SPACING + 5} {row * _SPACING + 5}h0" for row, column in at)
            ends.append((name, dots))
            start += count
        return ends


def build_first_page(report: Mapping[str, Any], stated: Mapping[str, str]) -> dict[str, Any]:
    """Return what the first page shows.

    Args:
        report: the document.
        stated: the publisher's statements.
    """
    dots, guarantee = count_dots(report), report["claim"]["guarantee"]
    unit = pluralize(guarantee["privacy_unit"])
    provenance = report["evidence"].get("provenance", {})
    software = report["evidence"]["software"]
    return {
        "banner": [str(one) for one in write_banner(simulation=report["simulation"])],
        "headline": str(_write_headline(report, dots)),
        "beside": "" if dots is None else str(write_guessing(guarantee["privacy_unit"])),
        "dots": None if dots is None else dots.paths(),
        "key": [] if dots is None else _list_key(dots),
        "units": unit,
        "verdict": answer(report),
        "recomputed": list(_list_recomputed(report)),
        "attested": list(_list_attested(report)),
        "unknown": list(_list_unknown(report, stated)),
        "budget": _list_budget(report),
        "unprotected": _list_unprotected(report),
        "made": [
            one
            for one in (
                provenance.get("engine"),
                provenance.get("generator"),
                f"epsilog {software['epsilog']}" if "epsilog" in software else None,
                f"commit {provenance['commit'][:12]}" if "commit" in provenance else None,
            )
            if one
        ],
    }


def list_evidence_kinds(outcome: Verification, report: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """List what a verification recomputed, what rests on somebody's word, what is unknown and what is contradicted.

    Args:
        outcome: the verification.
        report: the document that was verified, if its figures were recomputed; None for another artifact.
    """
    passed, unseen = (
        list(dict.fromkeys(one.check for one in outcome.findings if one.status is status))
        for status in (Status.PASSED, Status.NOT_CHECKED)
    )
    found = {
        "recomputed": [str(Message.of("page/passed", checks=", ".join(passed)))] if passed else [],
        "attested": [],
        "unknown": [str(Message.of("page/not-checked", check=", ".join(unseen)))] if unseen else [],
        "contradicted": [_shorten(one) for one in outcome.findings if one.status is Status.FAILED],
    }
    if report is None or "report" not in passed or outcome.failed:
        return found
    ledger = str(Message("page/ledger"))
    attested, unknown = list(_list_attested(report)), list(_list_unknown(report, report["publication"]["stated"]))
    bound = "ledger" in passed
    return found | {
        "recomputed": [
            *_list_recomputed(report),
            *([ledger] if bound else []),
            *([str(Message("page/charged"))] if bound and "charge" in passed else []),
        ],
        "attested": [line for line in attested if line != ledger],
        "unknown": unknown if bound else [str(Message("page/unbound")), *unknown],
    }


def _shorten(finding: Finding) -> str:
    """Return what a failed check found, without the list of differences that its message ends with."""
    return f"{finding.check}: {finding.message.partition(': ')[0].rstrip('.')}."


def write_meaning(report: Mapping[str, Any]) -> str:
    """Write what the claim means, in one or two sentences."""
    dots = count_dots(report)
    found = [_write_headline(report, dots)]
    if dots is not None:
        found.append(write_guessing(report["claim"]["guarantee"]["privacy_unit"]))
    return " ".join(map(str, found))


def count_dots(report: Mapping[str, Any]) -> Dots | None:
    """Count the units that the best attack may pick out of 1,000; None if no bound is proven or supported."""
    metrics = report["risk_metrics"] or {}
    found, leaked = (_find_rate(metrics.get(name, ())) for name in ("attack", "unamplified_attack"))
    if found is None:
        return None
    every = found if leaked is None else max(found, leaked)
    return Dots(GUESSED, found - GUESSED, every - found)


def _find_rate(attack: Iterable[Mapping[str, float]]) -> int | None:
    """The true positive rate at the page's false positive rate, of 1,000, rounded up."""
    rates = [point["tpr"] for point in attack if point["fpr"] == FPR]
    return count_units(rates[0]) if rates else None


def _write_headline(report: Mapping[str, Any], dots: Dots | None) -> Message:
    """The claim in one sentence."""
    guarantee = report["claim"]["guarantee"]
    unit = guarantee["privacy_unit"]
    if dots is None:
        supported = float(report["claim"]["supported"])
        if report["verification"]["status"] == Status.FAILED or not math.isfinite(supported):
            return Message("page/unsupported")
        return Message.of("page/epsilon", epsilon=supported, delta=guarantee["delta"], unit=unit)
    return write_found(dots.guessed + dots.found, unit, guarantee["relation"])


def _list_key(dots: Dots) -> list[tuple[str, str, str]]:
    """Color, count and meaning of each part of the picture; parts without a dot are left out."""
    rows = (
        ("guessed", dots.guessed, Message("page/key-guessed")),
        ("found", dots.found, Message("page/key-found")),
        ("leaked", dots.leaked, Message("page/key-leaked")),
        ("safe", dots.safe, Message("page/key-safe" if dots.leaked else "page/key-safe-alone")),
    )
    return [(name, f"{count:,}", str(meaning)) for name, count, meaning in rows if count]


def answer(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the verdict in a few words, what it rests on, and its style: only what is recomputed looks passed."""
    status, findings = report["verification"]["status"], report["verification"]["findings"]
    reasons = [one["check"] for one in findings if one["status"] in (status, Status.FAILED)]
    sources = {get_finding_source(report, one).attested_by for one in findings if one["status"] == Status.PASSED}
    sources |= {"writer"} if report["kind"] == "log-report" else set()
    basis = next((words for name, words in VERDICT_BASIS.items() if name in sources), "")
    found, note = write_answer(status, reasons, basis, simulation=report["simulation"])
    style = "attested" if status == Status.PASSED and basis else status.split(" ")[0]
    return {"answer": found, "note": note, "style": style}


def format_verdict(report: Mapping[str, Any]) -> str:
    """Return the verdict with what it rests on, in one line."""
    found = answer(report)
    return ", ".join(filter(None, (found["answer"], found["note"])))


def _list_checks(report: Mapping[str, Any], *statuses: Status) -> set[str]:
    """The checks that ended so."""
    return {one["check"] for one in report["verification"]["findings"] if one["status"] in statuses}


def _list_recomputed(report: Mapping[str, Any]) -> Iterator[str]:
    """What this document alone shows."""
    passed, claim = _list_checks(report, Status.PASSED), report["claim"]
    if "claim" in _list_checks(report, Status.PASSED, Status.WARNED) and math.isfinite(float(claim["supported"])):
        guarantee, epsilon = claim["guarantee"], float(claim["supported"])
        yield str(
            Message.of("page/epsilon-each", epsilon=epsilon, delta=guarantee["delta"], unit=guarantee["privacy_unit"])
        )
    if "rounds" in passed and report["kind"] == "report":
        yield str(Message.of("page/rounds", rounds=report["result"]["rounds"]))
    if "noise" in passed:
        yield str(Message("page/noise"))


def _list_attested(report: Mapping[str, Any]) -> Iterator[str]:
    """What rests on somebody's word."""
    guarantee, passed = report["claim"]["guarantee"], _list_checks(report, Status.PASSED)
    if (dots := count_dots(report)) is not None and dots.leaked:
        yield str(Message("page/secret"))
    if "norms" in passed or report["kind"] == "log-report":
        yield str(Message("page/clipped"))
    if guarantee["population"] is not None:
        unit = pluralize(guarantee["privacy_unit"])
        yield str(Message.of("page/population", population=guarantee["population"], units=unit))
    if report["evidence"].get("ledger"):
        yield str(Message("page/ledger"))


def _list_unknown(report: Mapping[str, Any], stated: Mapping[str, str]) -> Iterator[str]:
    """What nobody states, and what was not checked."""
    if "organization" not in stated:
        yield str(Message("page/publisher"))
    if "prior_releases" not in stated:
        yield str(Message("page/other-releases"))
    unseen = [one["check"] for one in report["verification"]["findings"] if one["status"] == Status.NOT_CHECKED]
    for check in dict.fromkeys(unseen):
        yield str(Message("page/no-proof") if check == "certificate" else Message.of("page/not-checked", check=check))


def _read_amount(text: Any) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # which is no ValueError
        raise ValueError(f"an amount of a budget must be a decimal number, got {text!r}"[:200]) from None


def _list_budget(report: Mapping[str, Any]) -> list[Row]:
    """Cap, spent before, this run and left, in epsilon of the binding budget; nothing without a ledger."""
    budget = report.get("budget", {})
    if "charged" not in budget:
        return []
    binding = budget.get("binding") or {"caps": budget, "spent_or_reserved": budget["earlier_spending"]}
    parts = (binding["caps"], binding["spent_or_reserved"], budget["charged"])
    cap, before, run = (_read_amount(one["epsilon"]) for one in parts)
    left = max(cap - before - run, Decimal(0))
    place = Decimal(1).scaleb(min(cap.adjusted() - 2, 0)) if cap else Decimal("0.01")
    amounts = ((cap, ROUND_FLOOR), (before, ROUND_CEILING), (run, ROUND_CEILING), (left, ROUND_FLOOR))
    shown = [f"{amount.quantize(place, rounding):,f}" for amount, rounding in amounts]
    return list(zip(("cap", "before", "this run", "left"), shown, strict=True))


def _list_unprotected(report: Mapping[str, Any]) -> list[str]:
    """What the claim does not protect."""
    units = pluralize(report["claim"]["guarantee"]["privacy_unit"])
    parties = [one["party"] for one in report["claim"].get("parties", ()) if not one["protected"]]
    seen = [Message.of("page/sees", party=f"{one[0].lower()}{one[1:]}".removeprefix("the ")) for one in parties]
    others = (Message.of("page/in-general", units=units), Message.of("page/several", units=units))
    return [str(one) for one in (*seen, *others)]


def read_card_question(data: bytes) -> dict[str, Any]:
    """Return the fields of a ``VerdictQuestion`` about a report.

    Figures come from the mechanism's full curve if the report supports all that it claims, else from the supported
    epsilon and delta alone.

    Args:
        data: the report's bytes, which the card names by their SHA-256.

    Raises:
        ValueError: this is no report.
        CheckError: a check failed, or the records support no epsilon.
    """
    report: dict[str, Any] = codec.parse_json(data)
    check_schema(report)
    claim, guarantee = report["claim"], report["claim"]["guarantee"]
    supported = float(claim["supported"])
    if report["verification"]["status"] == Status.FAILED or not math.isfinite(supported):
        raise CheckError("report", "one whose claim its records support", "another")
    stated = {
        "delta": guarantee["delta"],
        "relation": guarantee["relation"],
        "privacy_unit": guarantee["privacy_unit"],
        "simulation": report["simulation"],
        "name": (report["identity"].get("name") or "report")[:80],
        "report": hashlib.sha256(data).hexdigest(),
        "verdict": "Cannot tell" if report["verification"]["status"] == Status.NOT_CHECKED else format_verdict(report),
    }
    whole = report["kind"] == "report" and supported <= float(claim["epsilon"]["upper"])
    if whole:
        return stated | {"epsilon": None, "release": {"v": 1, "term": report["mechanism"]["release"]}}
    return stated | {"epsilon": supported}
