"""Finished runs with drawn instead of trained rounds: all that a third party gets, in a second."""

import hashlib
from decimal import Decimal
from pathlib import Path

import numpy as np
from tests.verification.checked import check_noise

from epsilog.durable_io import write_atomically
from epsilog.ledger import open_ledger
from epsilog.pipeline.preparation import write_json
from epsilog.pipeline.steps import commit_charge, reserve_plan
from epsilog.plan import build_registered_plan
from epsilog.reports import build_report, render_html
from epsilog.schemes import ClientLevelCentral, ExampleLevelClientSide
from epsilog.terms import CustodyRecord, NeighboringRelation, RoundRecord, record_line
from epsilog.verification import CanaryScores, SimulatedUtility, read_evidence, verify_evidence
from epsilog.verification.audits import PLANNED, AuditProtocol, PlannedAudit

EVIL = 'x|y <script>alert(1)</script> [a](javascript:b)\n# head `c` *d* _e_ ${f} #eval("g") "h" \\'


def central(z):
    return ClientLevelCentral(clients=150, sampling_probability=0.2, rounds=4, clip_norm=0.5, noise_multiplier=z)


def local(z):
    return ExampleLevelClientSide(
        clients=20,
        cohort_size=4,
        rounds=3,
        max_participations=2,
        batch_probability=0.5,
        epochs=1,
        clip_norm=1.0,
        noise_multiplier=z,
    )


def make_plan(
    scheme_for=central,
    *,
    simulation=True,
    name="drawn",
    relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    trials=None,
    scope="acme/2026",
    **details,
):
    return build_registered_plan(
        scheme_for,
        name=name,
        noise_multiplier=3.0,
        budget_epsilon=Decimal(30),
        delta=Decimal("1e-5"),
        relation=relation,
        privacy_unit="school",
        population=150,
        budget={"scope": scope, "epsilon": "30", "delta": "1e-5", "delta_rationale": "policy cap"},
        simulation=simulation,
        trials=trials,
        details={
            "settings": hashlib.sha256(name.encode()).hexdigest(),
            "identity": {"name": name, "purpose": "a test", "owner": "somebody@example.org"},
            "training": {"model": "linear", "learning_rate": 0.1},
            "data": {"units": 150, "score": "R squared on the test set"},
            "coverage": {"participation": "poisson", "adaptive_clip": False},
            "reporting": {"period": "2026-Q4"},
            "references": {"playbook": "a" * 64},
        }
        | details,
    )


def drawn(scheme, seed, *, share=1.0):
    """Records of a run that keeps to its scheme; with ``share`` below 1, all but its noise."""
    rng = np.random.default_rng(seed)
    public, private, taken = [], [], np.zeros(scheme.clients, int)
    for number in range(1, scheme.rounds + 1):
        if isinstance(scheme, ClientLevelCentral):
            ids = np.flatnonzero(rng.random(scheme.clients) < scheme.sampling_probability)
        else:
            free = np.flatnonzero(taken < scheme.max_participations)
            ids = np.sort(rng.choice(free, min(scheme.cohort_size, free.size), replace=False))
        taken[ids] += 1
        padding = tuple(rng.normal(0, share * scheme.noise_stddev, 16).tolist())
        model = hashlib.sha256(f"{seed} {number}".encode()).hexdigest()
        facts = (scheme.noise_stddev, scheme.clip_norm, padding, 1 / number, 0.1 * number)
        public.append(RoundRecord(number, model, *facts))
        private.append(CustodyRecord(number, tuple(ids.tolist()), 0.9 * scheme.clip_norm, 0.25))
    return public, private


def lines(records):
    return b"".join(map(record_line, records))


def finish(folder: Path, ledger: Path, plan, **drawn_as):
    """Trains as ``train`` does, and reports."""
    train(folder, ledger, plan, **drawn_as)
    evidence = read_evidence(folder, ledger)
    report = build_report(verify_evidence(evidence))
    write_json(folder / "report.json", report)
    write_atomically(folder / "report.html", render_html(report).encode())
    return report


def audit_of(canaries, *, guesses=()):
    """What a plan says of an audit by these canaries, for its details."""
    protocol = AuditProtocol(canaries.count, 1e-5, guesses=guesses)
    stated = PlannedAudit.create(protocol, canaries, unit_is_client=True).to_json()
    data = {"units": 150, "canaries": canaries.count, "score": "R squared on the test set"}
    return {PLANNED: stated, "data": data}


def scored(canaries, leak, *, seed=1):
    """Cosines that are ``leak`` standard deviations higher for included canaries."""
    drawn_ = np.random.default_rng(seed).normal(size=canaries.count) + leak * canaries.included
    return CanaryScores(canaries.secret, tuple((drawn_ / 100).tolist()))


def train(folder: Path, ledger: Path, plan, *, seed=1, records=None, begun=(), scores=None, make_budget=True):
    """Charges a plan, writes records and commits, as ``run`` does; ``begun`` rounds start twice."""
    public, private = records or drawn(plan.scheme, seed)
    with open_ledger(ledger) as books:
        if make_budget and plan.budget["scope"] not in {one.scope for one in books.budgets()}:
            books.create_budget(
                plan.budget["scope"],
                kind="approximate",
                relation=plan.guarantee.relation,
                privacy_unit="school",
                simulation=plan.simulation,
                epsilon="30",
                delta="1e-3",
            )
        charge = reserve_plan(books, plan, folder)
        charge.start()
        for record in public:
            for _ in range(2 if record.round in begun else 1):
                charge.round_started(record.round)
            charge.round_released(record.round, output_hash=record.output_hash)
        write_atomically(folder / "rounds.jsonl", lines(public))
        write_atomically(folder / "custody.jsonl", lines(private))
        if scores is not None:
            write_json(folder / "canaries.json", scores.to_json())
        weak, _ = drawn(plan.scheme, seed + 1, share=0.3)
        control = check_noise(weak, noise_stddev=plan.scheme.noise_stddev).to_json()
        shown = SimulatedUtility("R squared", ((0.5, 0.25), (0.25, 0.5)), ((1.0, 4.0, 0.75, 0.125),), control)
        commit_charge(charge, folder, shown if plan.simulation else None)
