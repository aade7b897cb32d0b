"""Frozen verification: findings of altered runs and logs by code and status, and figures of reports by path.

Runs are drawn from seeds as ``tests/reports`` draws them, and altered here; logs are altered as
``tests/verification/logs`` alters them. Keys, times and hashes are new each time and are left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.frozen.plain import plain
from tests.reports.drawn import audit_of, central, drawn, finish, local, make_plan, scored, train
from tests.verification.logs.damaged import CLAIMS, DISHONEST, ONLY_CLIENTS, ONLY_ROUNDS, ONLY_SIZES, ROWS
from tests.verification.logs.simulated import honest, save

import epsilog as ep
from epsilog import reports
from epsilog.ledger import read_ledger
from epsilog.pipeline import run as run_program
from epsilog.terms import EVIDENCE_KINDS, NeighboringRelation, RecordError, codec
from epsilog.verification import LedgerReader, parse_evidence, read_run_folder, verify_evidence
from epsilog.verification.logs import verify_logs

FILE = "verification.jsonl"
EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 6  # values of a list that are kept; of a longer one its ends and a hash
NEW_EACH_TIME = re.compile(r"(?<![0-9a-f])[0-9a-f]{16,}(?![0-9a-f])|\d{4}-\d{2}-\d{2}(T[0-9:.+Z]+)?")
SOFTWARE = ("| date |", "| software |", "| source commit |", "| engine |", "| noise generator |")
ZERO = NeighboringRelation.ZERO_OUT
CANARIES = ep.terms.Canaries(100, "5c" * 32)
Files = dict[str, bytes]


def client_side(z: float) -> Any:
    return ep.schemes.ClientLevelClientSide(20, 4, 3, 2, 1.0, z)


def faint(z: float) -> Any:
    return central(z / 5)


RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # the plan, and how its rounds are drawn
    "central": ({}, {}),
    "central, zero-out": ({"relation": ZERO}, {}),
    "central, no simulation": ({"simulation": False}, {}),
    "central, best of several": ({"trials": ep.mechanisms.BinomialTrialCount(10, 0.5)}, {}),
    "central, eight trials": ({"trials": ep.mechanisms.BinomialTrialCount(8, 1.0)}, {}),
    "central, faint noise": ({"scheme_for": faint}, {}),
    "central, rounds begun again": ({}, {"begun": (2, 3)}),
    "central, another seed": ({}, {"seed": 7}),
    "examples": ({"scheme_for": local}, {}),
    "examples, zero-out": ({"scheme_for": local, "relation": ZERO}, {}),
    "client side": ({"scheme_for": client_side, "relation": ZERO}, {}),
    "canaries": (audit_of(CANARIES, guesses=((50, 50),)), {"scores": scored(CANARIES, 0.0)}),
    "canaries, leaking": (audit_of(CANARIES, guesses=((50, 50),)), {"scores": scored(CANARIES, 9.0)}),
    "little is said": ({"identity": {"name": "bare"}, "reporting": {}, "references": {}}, {}),
    "weak noise": ({}, {"share": 0.3}),
    "a round is missing": ({}, {"cut": 1}),
}
OTHERS = ("weak noise", "a round is missing")  # dishonest from the start, and committed so


@cache
def finished(name: str) -> tuple[Files, LedgerReader]:
    """The files of a run and its ledger."""
    about, how = RUNS[name]
    about, how = dict(about), dict(how)
    plan = make_plan(about.pop("scheme_for", central), **about)
    if name in OTHERS:
        public, private = drawn(plan.scheme, 1, share=how.pop("share", 1.0))
        how = {"records": (public[: len(public) - how.pop("cut", 0)], private)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        (train if name in OTHERS else finish)(path, Path(folder) / "ledger.db", plan, **how)
        return read_run_folder(path), LedgerReader.read(Path(folder) / "ledger.db")


def findings(found: Any) -> dict[str, Any]:
    """Codes and statuses, and which claim stands."""
    told = {"status": found.status.value}
    told["findings"] = [f"{one.code}: {one.status.value}" for one in found.findings]
    return told | ({"stands": found.claim} if found.claim else {})


def examined(files: Mapping[str, bytes], books: LedgerReader | None, **options: Any) -> dict[str, Any]:
    """What a third party finds, or why nothing can be read."""
    try:
        return findings(reports.verify_run(files, books, **options))
    except RecordError as error:
        return {"error": type(error).__name__, "says": NEW_EACH_TIME.sub("#", str(error))}


def _lines(change: Callable[[list[bytes]], list[bytes]], name: str) -> Callable[[Files], Files]:
    return lambda files: files | {name: b"".join(change(files[name].splitlines(keepends=True)))}


def _at(name: str, *place: str | int, value: Any) -> Callable[[Files], Files]:
    """Another value at a place of a document, written as such documents are."""

    def change(files: Files) -> Files:
        document = codec.parse_json(files[name])
        inner = document
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value(inner[place[-1]]) if callable(value) else value
        return files | {name: codec.encode_canonical(document) + b"\n"}

    return change


def _without(*names: str) -> Callable[[Files], Files]:
    return lambda files: {name: content for name, content in files.items() if name not in names}


def _round(name: str, value: Any) -> Callable[[Files], Files]:
    def change(lines: list[bytes]) -> list[bytes]:
        record = json.loads(lines[1])
        record["term"][name] = value(record["term"][name]) if callable(value) else value
        return [lines[0], codec.encode_canonical(record) + b"\n", *lines[2:]]

    return _lines(change, "rounds.jsonl")


ALTERED_FILES: dict[str, Callable[[Files], Files]] = {
    "nothing": lambda files: files,
    "no custody": _without("custody.jsonl"),
    "no key": _without("custody.key"),
    "no owner": _without("owner.json"),
    "no report": _without("report.json", "report.html"),
    "no page": _without("report.html"),
    "no plan": _without("plan.json"),
    "no rounds": _without("rounds.jsonl"),
    "a round is removed": _lines(lambda lines: lines[:-1], "rounds.jsonl"),
    "a round twice": _lines(lambda lines: [*lines, lines[-1]], "rounds.jsonl"),
    "rounds in another order": _lines(lambda lines: [lines[1], lines[0], *lines[2:]], "rounds.jsonl"),
    "rounds without a newline": lambda files: files | {"rounds.jsonl": files["rounds.jsonl"][:-1]},
    "rounds are no JSON": lambda files: files | {"rounds.jsonl": b"x\n"},
    "a blank in a round": _lines(lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]], "rounds.jsonl"),
    "a custody row is removed": _lines(lambda lines: lines[1:], "custody.jsonl"),
    "less noise is stated": _round("noise_stddev", lambda value: value / 2),
    "another clip": _round("clip_norm", lambda value: value * 2),
    "another model": _round("output_hash", "0" * 64),
    "weaker padding": _round("padding", lambda values: [each / 10 for each in values]),
    "no padding": _round("padding", []),
    "a lower epsilon": _at("plan.json", "guarantee", "epsilon", value=lambda value: value / 2),
    "a slightly lower epsilon": _at("plan.json", "guarantee", "epsilon", value=lambda value: value * (1 - 1e-6)),
    "a larger delta": _at("plan.json", "guarantee", "delta", value=0.5),
    "another population": _at("plan.json", "guarantee", "population", value=1000),
    "another relation": _at("plan.json", "guarantee", "relation", value="replace-one"),
    "another scheme": _at("plan.json", "scheme", "clients", value=151),
    "another budget": _at("plan.json", "budget", "epsilon", value="31"),
    "a simulation or not": _at("plan.json", "simulation", value=lambda value: not value),
    "an unknown field": _at("plan.json", "name", value=""),
    "the owner's control": _at("owner.json", "utility", value=None),
    "the report's statement": _at("report.json", "claim", "statement", value="Everybody is anonymous."),
    "the report's epsilon": _at("report.json", "claim", "epsilon", "upper", value=lambda value: value / 2),
    "the report's simulation": _at("report.json", "simulation", value=lambda value: not value),
    "the page": lambda files: files | {"report.html": files["report.html"].replace(b"epsilon", b"Epsilon", 1)},
    "no page at all": lambda files: files | {"report.html": b"no page"},
    "files of another run": lambda files: (
        files | {"rounds.jsonl": finished("central, another seed")[0]["rounds.jsonl"]}
    ),
}
ALTERED_WORDS: dict[str, dict[str, Any]] = {  # of the ledger, once it was read
    "torn": {"sound": False, "trouble": "torn"},
    "unknown": {"key": None},
    "an attempt": {"attempts": {1: 2}},
    "nothing released": {"released": {}},
    "no evidence": {"evidence": {}},
    "not committed": {"evidence": None},
    "reserved": {"state": "reserved"},
    "started": {"state": "started"},
    "another scope": {"scope": "other"},
    "another charge beside it": {"other_charges": 1},
    "little paid": {"amounts": {"approximate": {"epsilon": "0.5", "delta": "0.00001"}}},
    "a higher cap": {"cap": {"epsilon": "31"}},
    "nothing left": {"spent_or_reserved": {"epsilon": "30", "delta": "0"}},
}


def _altered_runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, change in ALTERED_FILES.items():
        yield (
            f"run, {name}",
            lambda change=change: examined(change(dict(finished("central")[0])), finished("central")[1]),
        )
    for name in RUNS:
        yield f"as it is, {name}", lambda name=name: examined(*finished(name))
    yield "run, no ledger", lambda: examined(finished("central")[0], None)
    yield "run, another ledger", lambda: examined(finished("central")[0], finished("examples")[1])
    yield "run, everything required", lambda: examined(*finished("central"), required=EVIDENCE_KINDS)
    for name, altered in ALTERED_WORDS.items():

        def of_word(altered: Any = altered) -> Any:
            run = parse_evidence(*finished("central"))
            return findings(verify_evidence(replace(run, ledger=replace(run.ledger, **altered))))  # type: ignore[type-var]

        yield f"ledger, {name}", of_word


def _altered_logs() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "logs as they are", lambda: _of_logs(honest())
    for name, (run, _) in DISHONEST.items():
        yield f"logs, {name}", lambda run=run: _of_logs(run)
    for name, (changes, _) in ROWS.items():
        yield f"logs, {name}", lambda changes=changes: _of_logs(honest(), **changes)
    for name, mapping in {"clients": ONLY_CLIENTS, "rounds": ONLY_ROUNDS, "sizes": ONLY_SIZES}.items():
        yield f"logs, {name} alone", lambda mapping=mapping: _of_logs(honest(), mapping=mapping)
    for name, (value, _) in CLAIMS.items():
        yield f"logs, another {name}", lambda name=name, value=value: _of_logs(_claiming(name, value))


def _claiming(name: str, value: Any) -> Any:
    run = honest()
    run.claim |= {name: value}
    return run


def _of_logs(run: Any, **changes: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return findings(verify_logs(save(run, Path(folder), **changes)))


def _reports() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in RUNS:
        yield f"report, {name}", lambda name=name: figures(_report(name))
    for name in ("central", "examples"):
        yield f"report without custody, {name}", lambda name=name: figures(_report(name, without=("custody.jsonl",)))
        yield f"report without a ledger, {name}", lambda name=name: figures(_report(name, ledger=False))
    for name in ("noise a tenth low", "cut off", "an attempt", "more people"):
        yield f"report of logs, {name}", lambda name=name: figures(_logs_report(DISHONEST[name][0]))
    for name, changes in {
        "as they are": {},
        "rounds alone": {"mapping": ONLY_ROUNDS},
        "public": {"head": "public = true\n"},
    }.items():
        yield f"report of logs, {name}", lambda changes=changes: figures(_logs_report(honest(), **changes))
    for name, value in (("epsilon", 1.9), ("delta", 1e-6)):
        yield (
            f"report of logs, another {name}",
            lambda name=name, value=value: figures(_logs_report(_claiming(name, value))),
        )
    for name in ("central", "canaries", "client side"):
        for kind in ("markdown", "summary"):
            yield (
                f"{kind} of a report, {name}",
                lambda name=name, kind=kind: _text(reports.render_markdown(_report(name), kind=kind)),
            )


def _report(name: str, *, without: Collection[str] = (), ledger: bool = True) -> dict[str, Any]:
    files, books = finished(name)
    run = parse_evidence({key: each for key, each in files.items() if key not in without}, books if ledger else None)
    return reports.build_report(verify_evidence(run))


def _logs_report(run: Any, **changes: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return reports.build_report(verify_logs(save(run, Path(folder), **changes)))


def _text(text: str) -> list[str]:
    """Lines of a rendering, but for those on when and with what it was made."""
    return [line for line in NEW_EACH_TIME.sub("#", text).splitlines() if not line.startswith(SOFTWARE)]


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """The figures of a report; what it carries of its evidence is left out, and long lists are abridged."""
    reports.check_schema(report)
    told = {name: _abridged(value) for name, value in plain(report).items() if name != "evidence"}
    for name in ("provenance", "software"):
        told.get("owner", {}).pop(name, None)
    for finding in told["verification"]["findings"]:
        del finding["message"]  # renderings hold the sentences
    return told


def _abridged(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _abridged(each) for name, each in value.items()}
    if isinstance(value, list):
        listed = [_abridged(each) for each in value]
        if len(listed) <= LONGEST or isinstance(value[0], str) or (isinstance(value[0], dict) and "code" in value[0]):
            return listed
        inside = json.dumps(listed, sort_keys=True).encode()
        return {
            "length": len(listed),
            "first": listed[0],
            "last": listed[-1],
            "sha256": hashlib.sha256(inside).hexdigest(),
        }
    return NEW_EACH_TIME.sub("#", value) if isinstance(value, str) else value


TRAINED = {  # short programs on the data that examples bring, and what is changed in them
    "central.toml": {"rounds = 60": "rounds = 4", "rounds_per_release = 60": "rounds_per_release = 4"},
    "local.toml": {},
}


def _trained(name: str) -> dict[str, Any]:
    """A program from plan to proof: what the ledger and the verification say, and no figure of the model."""
    source = EXAMPLES / name
    text = source.read_text()
    text = re.sub(r"(?m)^comparison_(budgets|seeds) = .*\n", "", text)
    for old, new in TRAINED[name].items():
        assert old in text, old
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "program.toml").write_text(text)
        runs = Path(folder) / "runs"
        outcome = run_program(Path(folder) / "program.toml", runs=runs)
        with read_ledger(runs / "ledger.db") as ledger:
            verbs = [entry.verb.value for entry in ledger.history()]
        found = examined(read_run_folder(outcome.folder), LedgerReader.read(runs / "ledger.db"))
        told = figures(outcome.report)
        files = sorted(path.name for path in outcome.folder.iterdir())
    return found | {"verbs": verbs, "files": files} | {name: told[name] for name in ("claim", "mechanism", "budget")}


def calls() -> dict[str, Callable[[], Any]]:
    """What is verified and reported, by name."""
    trained = ((f"trained, {name}", partial(_trained, name)) for name in TRAINED)
    return dict([*_altered_runs(), *_altered_logs(), *_reports(), *trained])


def answers(names: Collection[str] | None = None) -> dict[str, Any]:
    """Today's findings and figures: of these names, or all."""
    return {name: call() for name, call in calls().items() if names is None or name in names}
