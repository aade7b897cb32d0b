"""Frozen ledgers: chains with every verb, byte for byte, with what each command answers and what leaves the ledger.

A step names a command and its arguments as data. ``ASK`` is the one place that knows how the library is asked.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.frozen.plain import plain, told

import epsilog as ep
from epsilog.ledger import (
    Checkpoint,
    Ledger,
    LedgerVerification,
    Verb,
    export_entries,
    iterate_verified_documents,
    open_ledger,
    prove_consistency,
    read_ledger,
    read_verified_entries,
    write_bundle,
    write_receipt,
)
from epsilog.signing import SigningKey
from epsilog.terms import NeighboringRelation

FILE = "ledgers.jsonl"
H, ANOTHER = "ab" * 32, "cd" * 32
REPLACE = NeighboringRelation.REPLACE_ONE.value
WHO = {"actor": "dpo", "reason": "as decided"}
PURE, GAUSSIAN = ep.PureDP(0.25), ep.Gaussian(4.0)
SGD = ep.Repeated(ep.PoissonSampled(ep.Gaussian(2.0), 0.05), 40)
SOON, LATE = datetime(2026, 1, 1, 1, 0, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")  # before the 32 bytes of an Ed25519 key
Step = tuple[str, dict[str, Any]]


class Clock:
    """A time that steps move, however often it is asked for."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def signer(folder: Path) -> SigningKey:
    """A key that everybody knows."""
    body = base64.b64encode(PKCS8 + bytes(range(32))).decode()
    path = folder / "key"
    path.touch(mode=0o600)
    path.write_text(f"Name: example.org/frozen\n-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
    return SigningKey.load(path)


def _of_charge(act: Callable[[Any, dict[str, Any]], Any]) -> Callable[[Ledger, dict[str, Any]], Any]:
    def ask(ledger: Ledger, given: dict[str, Any]) -> Any:
        found = ledger.find(given.pop("key"), scope=given.pop("scope"))
        if found is None:
            return "no such charge"
        act(found, given)
        return found.state

    return ask


def _of_key(name: str) -> Callable[[Ledger, dict[str, Any]], Any]:
    def ask(ledger: Ledger, given: dict[str, Any]) -> Any:
        return getattr(ledger, name)(given.pop("key"), **given)

    return ask


def _of_scope(name: str) -> Callable[[Ledger, dict[str, Any]], Any]:
    def ask(ledger: Ledger, given: dict[str, Any]) -> Any:
        found = getattr(ledger, name)(given.pop("scope"), *given.pop("args", ()), **given)
        if hasattr(found, "replayed"):
            return {"state": found.state, "replayed": found.replayed, "amounts": plain(found.amounts)}
        return found if found is None else found.document() if hasattr(found, "document") else plain(found)

    return ask


def _owned(ledger: Ledger, given: dict[str, Any]) -> Any:
    """The same, asked by somebody who owns nothing."""
    return ASK[given["step"][0]](ledger.on_behalf_of("sam", owns=lambda _: False), dict(given["step"][1]))


ASK: dict[str, Callable[[Ledger, dict[str, Any]], Any]] = {
    **{
        name: _of_scope(name)
        for name in (
            "create_budget", "declare_partition", "set_cap", "retire", "register_plan", "override_cost", "reserve",
            "charge",
        )
    },
    "start": _of_charge(lambda charge, _: charge.start()),
    "round_started": _of_charge(lambda charge, given: charge.round_started(given["number"])),
    "round_released": _of_charge(lambda charge, given: charge.round_released(given.pop("number"), **given)),
    "commit": _of_charge(lambda charge, given: charge.commit(given.get("evidence"))),
    "hold": _of_charge(lambda charge, given: charge.hold(given["until"])),
    "cancel": _of_charge(lambda charge, given: charge.cancel(given["reason"])),
    "expire": _of_key("expire"),
    "revoke": _of_key("revoke"),
    "abandon": _of_key("abandon"),
    "decommission": _of_key("decommission"),
    "mark_restored": lambda ledger, given: ledger.mark_restored(**given),
    "accept_restored": lambda ledger, given: ledger.accept_restored(**given),
    "as somebody": _owned,
}  # fmt: skip


def _life() -> Iterator[Step]:  # noqa: PLR0915 - one list of steps
    """Every verb, allowed and refused."""
    pure = {"kind": "pure", "privacy_unit": "client"}

    def reserve(key: str, scope: str = "acme", **more: Any) -> Step:
        return "reserve", {"scope": scope, "args": [PURE], "key": key, **more}

    def on(verb: str, key: str, scope: str = "acme", **more: Any) -> Step:
        return verb, {"scope": scope, "key": key, **more}

    yield "create_budget", {"scope": "acme", **pure, "epsilon": "8"}
    yield "create_budget", {"scope": "acme", **pure, "epsilon": "8"}  # the same again
    yield "create_budget", {"scope": "acme", **pure, "epsilon": "9"}
    yield "create_budget", {"scope": "acme//x", **pure, "epsilon": "9"}
    yield "create_budget", {"scope": "beta", "kind": "pure", "delta": "1"}
    yield "create_budget", {"scope": "beta", "kind": "money", "epsilon": "1"}
    yield "create_budget", {"scope": "acme/team", **pure, "quota": True, "epsilon": "2"}
    yield "create_budget", {"scope": "acme/large", **pure, "quota": True, "epsilon": "20"}
    yield "declare_partition", {"scope": "acme/blocks", **WHO, "epsilon": "1"}
    yield "declare_partition", {"scope": "nowhere/blocks", **WHO, "epsilon": "1"}
    yield "set_cap", {"scope": "acme/blocks", **WHO, "epsilon": "1.5"}
    yield "set_cap", {"scope": "acme/blocks", **WHO, "epsilon": "1"}
    yield "create_budget", {"scope": "acme/blocks/jan", **pure, "epsilon": "1"}
    yield "create_budget", {"scope": "acme/blocks/feb", **pure, "epsilon": "3"}
    yield reserve("b-1", "acme/blocks/jan")
    yield "set_cap", {"scope": "acme", **WHO, "epsilon": "9"}
    yield "set_cap", {"scope": "acme", **WHO, "epsilon": "9"}
    yield "set_cap", {"scope": "elsewhere", **WHO, "epsilon": "9"}
    yield "register_plan", {"scope": "acme", "args": [H], "key": "run-1"}
    yield "register_plan", {"scope": "acme", "args": [ANOTHER], "key": "run-1"}
    yield "register_plan", {"scope": "acme", "args": ["x"], "key": "run-2"}
    yield reserve("run-1", plan_hash=ANOTHER, rounds=2)
    yield reserve("run-1", plan_hash=H, rounds=2)
    yield reserve("run-1", plan_hash=H, rounds=2)
    yield reserve("run-1", plan_hash=H, rounds=3)
    yield reserve("run-1", "acme/team", plan_hash=H, rounds=2)
    yield on("round_started", "run-1", number=1)
    yield on("commit", "run-1")
    yield on("start", "run-1")
    yield on("start", "run-1")
    yield on("cancel", "run-1", reason="too late")
    yield on("round_started", "run-1", number=1)
    yield on("round_started", "run-1", number=1)
    yield on("round_released", "run-1", number=1, output_hash=H)
    yield on("round_released", "run-1", number=1, output_hash=H)
    yield on("round_released", "run-1", number=1, output_hash=ANOTHER)
    yield on("round_started", "run-1", number=3)
    yield on("round_started", "run-1", number=0)
    yield on("round_started", "run-1", number=2)
    yield on("commit", "run-1", evidence={"rounds.jsonl": H})
    yield on("round_released", "run-1", number=2, output_hash="x")
    yield on("round_released", "run-1", number=2, output_hash=H)
    yield on("round_started", "run-1", number=3)
    yield on("commit", "run-1", evidence={"rounds.jsonl": "x"})
    yield on("commit", "run-1", evidence={"rounds.jsonl": H, "plan.json": ANOTHER})
    yield on("commit", "run-1", evidence={"rounds.jsonl": H, "plan.json": ANOTHER})
    yield on("commit", "run-1", evidence={"rounds.jsonl": ANOTHER})
    yield on("decommission", "run-1", **WHO)
    yield on("decommission", "run-1", **WHO)
    yield on("decommission", "b-1", "acme/blocks/jan", **WHO)
    yield "charge", {"scope": "acme/team", "args": [PURE], "key": "q-1"}
    yield "charge", {"scope": "acme/team", "args": [PURE], "key": "q-1"}
    yield "charge", {"scope": "acme/team", "args": [ep.PureDP(5.0)], "key": "q-2"}
    yield "charge", {"scope": "acme", "args": [GAUSSIAN], "key": "q-3"}
    yield "charge", {"scope": "acme", "args": [PURE], "key": "q-4", "relation": REPLACE}
    yield "charge", {"scope": "acme", "args": [PURE], "key": "q-5", "privacy_unit": "row"}
    yield "charge", {"scope": "acme", "args": [PURE], "key": "q-6", "simulation": True}
    yield "charge", {"scope": "acme", "args": [PURE], "key": ""}
    yield "charge", {"scope": "acme", "args": [PURE], "key": "q-7", "amount": {"epsilon": "0.2"}}
    yield "charge", {"scope": "acme", "args": [PURE], "key": "q-8", "amount": {"epsilon": "0.3"}}
    yield "charge", {"scope": "unknown", "args": [PURE], "key": "q-9"}
    yield reserve("c-1")
    yield on("cancel", "c-1", reason="not needed")
    yield on("cancel", "c-1", reason="not needed")
    yield reserve("c-1")
    yield "charge", {"scope": "acme", "args": [PURE], "key": "left-open"}
    yield reserve("e-1", until=SOON)
    yield on("expire", "e-1")
    yield "wait", {"seconds": 3600}
    yield on("expire", "e-1")
    yield on("expire", "e-1")
    yield reserve("e-2")
    yield on("hold", "e-2", until=LATE)
    yield on("hold", "e-2", until=LATE)
    yield on("hold", "e-2", until=datetime(2026, 1, 1))
    yield on("expire", "e-2")
    yield on("revoke", "e-2", **WHO)
    yield on("revoke", "run-1", **WHO)
    yield on("expire", "nobody")
    yield reserve("a-1")
    yield on("abandon", "a-1", **WHO)
    yield reserve("a-2")
    yield on("start", "a-2")
    yield on("abandon", "a-2", **WHO)
    yield (
        "override_cost",
        {"scope": "acme", "args": [GAUSSIAN], "key": "o-1", "amount": {"epsilon": "1"}, "reason": "audited"},
    )
    yield (
        "override_cost",
        {"scope": "acme", "args": [GAUSSIAN], "key": "o-1", "amount": {"epsilon": "1"}, "reason": "audited"},
    )
    yield (
        "override_cost",
        {"scope": "acme", "args": [GAUSSIAN], "key": "run-1", "amount": {"epsilon": "1"}, "reason": "x"},
    )
    yield "charge", {"scope": "acme", "args": [GAUSSIAN], "key": "o-1", "amount": {"epsilon": "0.5"}}
    yield "charge", {"scope": "acme", "args": [GAUSSIAN], "key": "o-1", "amount": {"epsilon": "1"}}
    yield reserve("big", "acme/team", amount={"epsilon": "5"})
    for step in (
        ("set_cap", {"scope": "acme", **WHO, "epsilon": "10"}),
        ("retire", {"scope": "acme", **WHO}),
        reserve("sam-1"),
        on("revoke", "sam-1", **WHO),
        ("mark_restored", dict(WHO)),
    ):
        yield "as somebody", {"step": step}
    yield reserve("open")
    yield "mark_restored", dict(WHO)
    yield reserve("r-1")
    yield on("start", "open")
    yield "accept_restored", dict(WHO)
    yield "accept_restored", dict(WHO)
    yield on("start", "open")
    yield on("abandon", "open", **WHO)
    yield "retire", {"scope": "acme/team", **WHO}
    yield reserve("t-1", "acme/team")
    yield "retire", {"scope": "acme", **WHO}
    yield "retire", {"scope": "acme", **WHO}
    yield reserve("too-late")
    yield "set_cap", {"scope": "acme", **WHO, "epsilon": "11"}


def _kinds() -> Iterator[Step]:
    """Every kind of budget, with releases that it can and cannot pay for."""
    budgets: dict[str, dict[str, Any]] = {
        "pure": {"kind": "pure", "epsilon": "4"},
        "pure-replace": {"kind": "pure", "epsilon": "4", "relation": REPLACE},
        "approximate": {"kind": "approximate", "epsilon": "4", "delta": "1e-4"},
        "zcdp": {"kind": "zcdp", "rho": "0.5"},
        "gdp": {"kind": "gdp", "mu_squared": "0.5"},
        "rdp": {"kind": "rdp", "rdp_2": "1", "rdp_8": "3.5"},
        "zcdp-promise": {"kind": "zcdp", "epsilon": "4", "delta": "1e-5"},
        "gdp-promise": {"kind": "gdp", "epsilon": "4", "delta": "1e-5"},
        "rdp-promise": {"kind": "rdp", "epsilon": "4", "delta": "1e-5", "orders": ["2", "8", "32"]},
        "simulation": {"kind": "approximate", "epsilon": "4", "delta": "1e-4", "simulation": True},
    }
    releases = {
        "pure": PURE,
        "approximate": ep.ApproximateDP(0.3, 1e-7),
        "gaussian": GAUSSIAN,
        "laplace": ep.Repeated(ep.Laplace(10.0), 3),
        "training": SGD,
        "zcdp": ep.mechanisms.ZeroConcentratedDP(0.01),
        "gdp": ep.mechanisms.GaussianDP(0.2),
        "response": ep.mechanisms.RandomizedResponse(0.7, 3),
        "group": ep.mechanisms.Grouped(GAUSSIAN, 2),
        "tuned": ep.mechanisms.BestOfTrials(ep.PureDP(0.1), ep.mechanisms.BinomialTrialCount(4, 1.0)),
        "fixed": ep.mechanisms.FixedSizeSampled(GAUSSIAN, 5, 100),
        "nothing": ep.Composed(()),
        "no privacy": ep.Gaussian(0.0),
    }
    for scope, terms in budgets.items():
        yield "create_budget", {"scope": scope, **terms}
        for name, release in releases.items():
            delta = {"delta": "1e-6"} if terms["kind"] == "approximate" else {}
            simulation = {"simulation": True} if scope == "simulation" else {}
            yield "charge", {"scope": scope, "args": [release], "key": f"{scope} {name}", **delta, **simulation}
    for cap in ({"rho": "0.25"}, {"epsilon": "2", "delta": "1e-5"}):
        yield "set_cap", {"scope": "zcdp-promise", **WHO, **cap}
    yield "create_budget", {"scope": "mixed", "kind": "approximate", "epsilon": "2", "delta": "1e-5"}
    yield "create_budget", {"scope": "mixed/zcdp", "kind": "zcdp", "rho": "0.1"}
    yield "create_budget", {"scope": "mixed/zcdp/pure", "kind": "pure", "epsilon": "0.5"}
    for scope, release in (("mixed/zcdp", SGD), ("mixed/zcdp", GAUSSIAN), ("mixed/zcdp/pure", PURE), ("mixed", SGD)):
        for number in (1, 2, 3):
            key = f"{scope} {type(release).__name__} {number}"
            yield "reserve", {"scope": scope, "args": [release], "key": key, "delta": "2e-6", "rounds": 40}


CHAINS = {"every verb": _life, "every kind of budget": _kinds}


def answers() -> dict[str, Any]:
    """Today's chains: the outcome of each step, then every entry, then what leaves the ledger."""
    found: dict[str, Any] = {}
    for name, steps in CHAINS.items():
        with TemporaryDirectory() as folder:
            found |= {f"{name}: {key}": value for key, value in _chain(Path(folder), steps()).items()}
    return found


def _chain(folder: Path, steps: Iterator[Step]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    path = folder / "ledger.db"
    clock = Clock()
    with open_ledger(path, clock=clock) as ledger:
        for number, (verb, given) in enumerate(steps, start=1):
            clock.now += timedelta(**given) if verb == "wait" else timedelta(seconds=1)
            if verb == "wait":
                continue
            found[f"step {number:03d}, {verb}"] = {
                "given": {key: _shown(value) for key, value in given.items()},
                "outcome": told(lambda: ASK[verb](ledger, dict(given))),  # noqa: B023 - called at once
            }
        for balance in ledger.budgets():
            found[f"balance of {balance.scope}"] = balance.document()
        verified = ledger.verify()
        found["verified"] = {"count": verified.count, "head": verified.head}
        documents = list(iterate_verified_documents(ledger))
        entries = list(ledger.history())
    for number, document in enumerate(documents, start=1):
        found[f"entry {number:03d}"] = document
    return found | _exported(folder, path, verified, documents, entries)


def _shown(value: Any) -> Any:
    """An argument, for whoever reads the records."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list | tuple) else plain(value)


def _exported(
    folder: Path, path: Path, verified: LedgerVerification, documents: list[str], entries: list[Any]
) -> dict[str, Any]:
    """What leaves the house."""
    key = signer(folder)
    found: dict[str, Any] = {}
    write_bundle(documents, folder / "signed.bundle", origin="example.org/frozen", key=key)
    bundle = (folder / "signed.bundle").read_text()
    head, _, note_text = bundle.partition("\n\n")
    version, *inside = head.split("\n")
    assert inside == documents, "a bundle holds the entries as they are"
    assert read_verified_entries(folder / "signed.bundle").verified == verified
    found["bundle"] = {"version": version, "note": note_text}
    older = Checkpoint.over(documents[:5], origin="example.org/frozen")
    note = Checkpoint.over(documents, origin="example.org/frozen").note(key)
    found["consistency"] = str(prove_consistency(older, documents, note))
    last = next(entry for entry in reversed(entries) if entry.verb in (Verb.COMMITTED, Verb.CHARGED))
    of_charge = {"key": last.key, "scope": last.scope}
    found["receipt"] = str(write_receipt(documents, **of_charge, origin="example.org/frozen", signer=key))
    for suffix in (".csv", ".jsonl"):
        export_entries(iter(entries), folder / f"export{suffix}")
    found["csv"] = (folder / "export.csv").read_text().splitlines()[:40]
    assert (folder / "export.jsonl").read_text().splitlines() == documents
    with read_ledger(path) as again:
        assert [entry.document() for entry in again.history()] == documents
    return found
