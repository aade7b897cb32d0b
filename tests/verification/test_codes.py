"""Every code of a finding is in the reference, and every code of the reference is found where something is wrong."""

import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.reports.drawn import audit_of, drawn, local, make_plan, scored
from tests.signing.stated import envelope_of
from tests.verification.checked import check_noise, check_norms, check_participation, of_records
from tests.verification.counted import COUNTING, counted
from tests.verification.logs.damaged import every_finding
from tests.verification.test_hidden import lists_with
from tests.verification.test_statistics import CENTRAL, custody

from epsilog import npz, plan, reports
from epsilog.certificates import certificate
from epsilog.ledger import (
    Checkpoint,
    Receipt,
    StoredCheckpoint,
    iterate_verified_documents,
    merkle,
    open_ledger,
    prove_consistency,
    read_ledger,
    write_receipt,
)
from epsilog.mechanisms import BinomialTrialCount, Gaussian, PureDP
from epsilog.reports import verify_run
from epsilog.reports.verification import check_model, check_page, check_report
from epsilog.schemes import ClientLevelCorrelatedNoise, ClientLevelDistributed
from epsilog.schemes.cohorts import PoissonSampler
from epsilog.signing import Envelope, Note, SigningKey
from epsilog.terms import Canaries, CheckError, DeltaPolicy, Finding, Status, codec
from epsilog.verification import (
    Claim,
    LedgerExcerpt,
    LedgerReader,
    TrustAnchors,
    check_certificate_file,
    check_checkpoint,
    check_head,
    check_ledger_chain,
    check_note,
    check_private,
    check_signatures,
    get_certified_delta,
    publish,
    read_run_folder,
    read_signed,
    verify_evidence,
)
from epsilog.verification.artifacts import check_costs
from epsilog.verification.charge_checks import check_charge, check_files
from epsilog.verification.claim import certified_run, check_claim, check_claimed_certificate, check_plan
from epsilog.verification.hidden import RAREST
from epsilog.verification.owner_attestation import CUSTODY_CHECKS
from epsilog.verification.owner_checks import check_audit, check_control
from epsilog.verification.participation import compare_cohort_sizes
from epsilog.verification.rounds import check_rounds
from epsilog.verification.signatures import check_receipt

ROOT = Path(__file__).parents[2]
TABLE = re.findall(r"^\| `([a-z-]+/[a-z-]+)` \| ([^|]+) \|", (ROOT / "docs/reference/findings.md").read_text(), re.M)
TWIN = set(re.findall(r'finding\("([a-z-]+/[a-z-]+)"', (ROOT / "web/src/lib/browser-accountant/engine.ts").read_text()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.reports.drawn import finish

    path = tmp_path_factory.mktemp("codes") / "run"
    finish(path, path.parent / "ledger.db", make_plan())
    return path


def each(items, number, **changes):
    return tuple(replace(one, **changes) if one.round == number else one for one in items)


def of_plans():
    asked = {"epsilon": 2.0, "queries": 2, "mechanism": "gaussian"}
    yield from plan.queries(**asked, delta=0.01, population=50, policy=DeltaPolicy(None), queries_used=3).findings
    yield from plan.queries(**asked | {"epsilon": 20.0, "queries": 1}, delta=1e-5).findings
    for said in (True, False):
        yield from plan.list_limits(
            sampling="poisson",
            without_replacement=said,
            rounds_per_release=1,
            adaptive_clip=said,
            privacy_unit="client",
            late_replies="count-as-zero" if said else "close-early",
        )
    yield from plan.list_limits(
        sampling="poisson",
        without_replacement=True,
        rounds_per_release=1,
        adaptive_clip=False,
        privacy_unit="client",
        late_replies="replace",
    )


def of_calculations():
    asked = plan.QUESTIONS["/queries"].parse({"epsilon": 1.0, "queries": 3})
    made = reports.stamp_calculation(asked, references=[reports.FileReference("data", "visits", "0" * 64)])
    for files in ({}, {"visits": "0" * 64}, {"visits": "1" * 64}):
        yield from reports.check_calculation(made, files=files)
    for changed in ({"answer": {}}, {"question": {"epsilon": "a"}}, {"owner": {"delta": 1}}):
        yield from reports.check_calculation(made | {"record": made["record"] | changed})


def of_runs(run):
    """One thing is wrong in each of these."""
    four, word = run.records, run.ledger
    wrong = [
        {},
        {"records": four[:-1]},
        {"records": (four[1], four[0])},
        {"records": (*four, replace(four[-1], round=5))},
        {"records": each(four, 4, test_loss=None, test_score=None, diverged=True)},
        {"records": each(four, 4, aborted=True, padding=())},
        {"records": each(four, 2, clip_norm=0.4)},
        {"records": tuple(replace(one, padding=(1e-9,) * 16) for one in four)},
        {"records": tuple(replace(one, padding=(1e9, -1e9)) for one in four)},
        {"records": each(four, 2, padding=tuple(1e-9 * (i + 1) / 7 for i in range(16)))},
        {"records": ()},
        {"custody": None},
        {"owner": None},
        {"owner": replace(run.owner, utility=None)},
        {"ledger": None},
        {"ledger": LedgerExcerpt(sound=False, trouble="torn")},
        {"ledger": replace(word, key=None)},
        {"ledger": replace(word, attempts={1: 2})},
        {"ledger": replace(word, released={})},
        {"ledger": replace(word, evidence={})},
        {"claim": Claim.from_plan(replace(run.plan, epsilon=replace(run.plan.epsilon, assumptions=())))},
        {"claim": Claim.from_plan(replace(run.plan, guarantee=replace(run.plan.guarantee, delta=0.5)))},
        *({"custody": None, "owner": owner} for owner in words(run, Status.FAILED)),
        *({"owner": owner} for owner in words(run, Status.WARNED)),
    ]
    for changes in wrong:
        changed = replace(run, **changes)
        outcome = verify_evidence(changed)
        yield from outcome.findings
        yield from publish(outcome).findings


def of_curators(run):
    """What the curator's records show, before the owner's word is held against it."""
    for changes in (
        {"custody": run.custody[:-1]},
        {"custody": each(run.custody, 1, participants=(1, 1))},
        {"custody": each(run.custody, 1, withdrawn=run.custody[1].participants[:1])},
        {"records": each(run.records, 1, aborted=True, padding=())},
        {"custody": tuple(replace(one, participants=tuple(range(150))) for one in run.custody)},
        {"custody": each(run.custody, 1, largest_norm=0.51)},
    ):
        yield from check_private(replace(run, **changes))


def of_certificates(run):
    """Certificates that prove their claim, or do not, or are about something else, or are not here."""
    made = certificate(Gaussian(2.0), delta=1e-5).text
    yield check_certificate_file(made.encode())
    yield check_certificate_file(made.replace('"delta":"1e-5"', '"delta":"1e-6"').encode())
    yield check_claimed_certificate(run)
    yield check_claimed_certificate(replace(run, certificate=made.encode()))
    claim, delta = run.claim, get_certified_delta(run.claim)
    larger = certificate(claim.release, delta=delta, slack=0.05, relation=claim.guarantee.relation).text
    yield check_claimed_certificate(replace(run, certificate=larger.encode()))
    yield check_claimed_certificate(replace(run, ledger=replace(run.ledger, certificate="0" * 64)))
    yield check_claimed_certificate(replace(run, certificate=None))
    yield check_claimed_certificate(replace(run, certificate=None, ledger=None))


def of_shared_noise(run):
    """A first round that is given up, under the one scheme that gives rounds up."""
    scheme = ClientLevelDistributed(12, 4, 3, 4, 2, 0.2, 1e-3, 32, 1.0)
    first = replace(run.records[0], aborted=True, padding=())
    yield check_rounds(of_records(scheme, (first, *run.records[1:])))


def of_audits(run):
    """Canaries that tell nothing, a little, and all; others than were planned; and none."""
    canaries, claim = Canaries(100, "5c" * 32), run.plan.guarantee
    plan = make_plan(**audit_of(canaries, guesses=((50, 50),)))
    plan = replace(plan, guarantee=replace(claim, epsilon=0.5))
    other, word = Canaries(100, "5d" * 32), replace(run.ledger, evidence={"canaries.json": "0" * 64})
    for changes in (
        {"canaries": scored(canaries, 0.0)},
        {"canaries": scored(canaries, 1.4)},
        {"canaries": scored(canaries, 9.0)},
        {"canaries": scored(other, 0.0)},
        {"canaries": scored(canaries, 1e3)},
        {"canaries": None},
        {"canaries": None, "ledger": word},
    ):
        yield from check_audit(replace(run, claim=Claim.from_plan(plan), **changes))
    yield from check_audit(replace(run, canaries=scored(canaries, 0.0)))
    sought = Canaries(22, f"{2_301_051:064x}")  # all are in
    yield from check_audit(
        replace(run, claim=Claim.from_plan(make_plan(**audit_of(sought))), canaries=scored(sought, 0.0))
    )


def of_counts():
    for share in (0.3, 3.0):
        yield check_norms(*counted(share), COUNTING)


def words(run, told):
    return (replace(run.owner, custody_checks=dict(run.owner.custody_checks) | {name: told}) for name in CUSTODY_CHECKS)


def of_charges(run):
    word, little = run.ledger, {"approximate": {"epsilon": "0.5", "delta": "0.00001"}}
    for changes in (
        {"state": "reserved"},
        {"state": "started"},
        {"other_charges": 1},
        {"scope": "other"},
        {"amounts": little},
        {"cap": {"epsilon": "31"}},
        {"spent_or_reserved": {"epsilon": "30", "delta": "0"}},
    ):
        yield check_charge(replace(run, ledger=replace(word, **changes)))
    low = replace(run.plan.guarantee, epsilon=run.plan.guarantee.epsilon / 2)
    half = {"approximate": dict(word.charged) | {"epsilon": f"{low.epsilon + 1e-9:.12f}"}}
    less = replace(run.plan, guarantee=low)
    asked = dict(word.request) | {"plan_hash": less.hash}
    yield check_charge(replace(run, claim=Claim.from_plan(less), ledger=replace(word, amounts=half, request=asked)))
    again = certified_run(run.plan)
    yield check_claim(low.epsilon, again)
    swept = make_plan(trials=BinomialTrialCount(10, 1.0))
    known = swept.unamplified
    yield check_plan(replace(swept, unamplified=replace(known, upper=known.upper * (1 - 1e-6))))
    yield check_claim(run.plan.guarantee.epsilon * (1 - 1e-6), again)
    yield check_claim(low.epsilon, replace(again, upper=math.inf))
    yield check_files(replace(run, ledger=replace(word, evidence=None)))


def of_mixed_spread():
    """Noise that is weak in every other round and strong in the others, so that the mean is right."""
    draws = np.random.default_rng(5).normal(size=(60, 16)) * np.where(np.arange(60) % 2, 0.45, 1.34)[:, None]
    return [SimpleNamespace(round=t, padding=tuple(each), aborted=False) for t, each in enumerate(draws, start=1)]


def of_drift():
    """Half of a run is a little above what was planned, half a little below."""
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(600, 16)) * np.linspace(1.15, 0.85, 600)[:, None]
    rounds = [SimpleNamespace(round=t, padding=tuple(each), aborted=False) for t, each in enumerate(draws, start=1)]
    yield check_noise(rounds, noise_stddev=1.0)
    sizes = np.concatenate([rng.binomial(20_000, rate, 300) for rate in (0.0507, 0.0493)])
    yield compare_cohort_sizes(PoissonSampler(20_000, 0.05), sizes)


def of_samples(run):
    yield check_noise(run.records, noise_stddev=0.0)
    yield check_noise(of_mixed_spread(), noise_stddev=1.0)
    yield from of_drift()
    for numbers in ({"values": 960.0}, {"values": 48.0}):
        yield check_control(replace(run.owner.utility, control={"status": "passed", "values": numbers}))
    scheme = make_plan(local).scheme
    private = drawn(scheme, 3)[1]
    yield check_participation(each(private, 2, participants=(1,)), scheme)
    yield check_participation([replace(one, participants=(0, 1, 2, 3)) for one in private], scheme)
    in_turn = ClientLevelCorrelatedNoise(4, 2, 2, 1, 1.0, 1.0)
    yield check_participation(each(private, 2, participants=(0,)), in_turn)
    yield check_participation(custody(lists_with(32, np.random.default_rng(4))), CENTRAL, false_alarm_rate=RAREST)


def of_what_an_owner_says_of_a_ledger():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "restored.db"
        with open_ledger(path) as books:
            books.create_budget("acme", kind="pure", epsilon="1", privacy_unit="person-quarter")
            books.declare_partition("acme/quarters", epsilon="1", actor="dora", reason="a quarter each")
            books.mark_restored(actor="dora", reason="the disk is gone")
        yield from check_ledger_chain(path)


def of_documents(run, folder):
    ledger = folder.parent / "ledger.db"
    files, books = read_run_folder(folder), LedgerReader.read(ledger)
    yield from verify_run(files, books).findings
    public = {name: content for name, content in files.items() if name not in ("custody.jsonl", "report.json")}
    yield from verify_run(public, books).findings
    yield from verify_run(public, None).findings
    keyless = {name: content for name, content in files.items() if name != "custody.key"}
    yield from verify_run(keyless, books).findings
    yield from check_ledger_chain(ledger, TrustAnchors(books.heads[0]))
    yield from check_ledger_chain(ledger, TrustAnchors("0" * 64))
    yield from of_what_an_owner_says_of_a_ledger()
    yield from check_head(None, "0" * 64)
    for share in (0.5, 0.997):
        yield check_costs(charged(entry, share) for entry in books.entries)
    outcome = verify_evidence(run)
    yield check_report({"v": 0}, outcome)
    yield check_report({"v": 0}, replace(outcome, evidence=replace(run, owner=None)))
    yield check_page({"report.html": b"no page"}, {})
    stored = {"x": npz.encode_npz({"0.0": np.zeros(2)}), "y": b"nothing"}
    yield check_model({}, run)
    yield from (check_model({"model.npz": content}, run) for content in stored.values())
    last = replace(run.records[-1], output_hash=npz.hash_arrays({"0.0": np.zeros(2)}))
    yield check_model({"model.npz": stored["x"]}, replace(run, records=(last,)))
    yield check_page(files | {"report.html": b"no page"}, codec.parse_json(files["report.json"]))


def of_signed(folder):
    """A ledger, a checkpoint, a receipt and a report that are signed, and what is wrong with each."""
    pytest.importorskip("cryptography")
    key, other = SigningKey.create("one"), SigningKey.create("two")
    ledger, place = folder.parent / "ledger.db", folder.parent
    with read_ledger(ledger) as opened:
        documents = list(iterate_verified_documents(opened))
    books = LedgerReader.read(ledger)
    older, keys = Checkpoint.over(documents[:3], origin="o"), (key.verifier,)
    (place / "c").write_text(str(prove_consistency(older, documents, Checkpoint.over(documents, origin="o").note(key))))
    note = write_receipt(documents, key=books.entries[-1].key, origin="o", signer=key)
    forged = replace(Receipt.parse(note.text), index=0)
    for name, text in {"r": str(note), "forged": str(Note(str(forged)).signed_by(key))}.items():
        (place / name).write_text(text)
    less = replace(books, entries=books.entries[:2], leaves=books.leaves[:2])
    other_leaves = replace(books, leaves=books.leaves[::-1])
    empty, named = Checkpoint.over([], origin="o"), replace(older, origin="p")
    made = (older, replace(older, root=b"r" * 32), replace(older, size=4), empty, named)
    elsewhere = replace(books, note=Note(str(named)))
    for one in [None, *(StoredCheckpoint(Note(str(each))) for each in made)]:
        for found in (None, books, less, other_leaves, elsewhere):
            yield from check_checkpoint(found, one)
            for name, kind in {"c": "checkpoint", "r": "receipt", "forged": "receipt"}.items():
                yield from check_note(place / name, kind, found, TrustAnchors(checkpoint=one, keys=keys))
    report = folder / "report.json"
    envelope, said = Envelope.over("report.json", report.read_bytes(), key), ((other.verifier.label, b"s" * 64),)
    withdrawn = envelope_of(report.read_bytes(), key, predicate={"result": "withdrawn"})
    scanned = envelope_of(report.read_bytes(), key, predicateType="https://example.org/scan/v1")
    for both in (f"{envelope}\n{withdrawn}\n", f"{envelope}\n{scanned}\n"):
        (place / "s").write_text(both)
        yield from check_signatures(read_signed(report, keys, signature=place / "s"), keys)
    for signed in (envelope, Envelope.over("x", b"", key), replace(envelope, signatures=said)):
        (place / "s").write_text(f"{signed}\n")
        for given in ((), keys, (other.verifier,)):
            yield from check_signatures(read_signed(report, given, signature=place / "s"), given)
    yield from check_signatures((), keys)


def of_receipts(folder):
    """A reservation that was cancelled: after a receipt, and under one that keeps that back."""
    pytest.importorskip("cryptography")
    key = SigningKey.create("one")
    with open_ledger(folder / "receipts.db") as opened:
        opened.create_budget("acme", kind="pure", epsilon="1")
        charge = opened.reserve("acme", PureDP(0.25), key="q")
        before = list(iterate_verified_documents(opened))
        charge.cancel("not needed")
        documents = list(iterate_verified_documents(opened))
    was = Receipt.parse(write_receipt(before, key="q", origin="o", signer=key).text)
    spans = merkle.list_inclusion_ranges(was.index, len(documents))
    proof = tuple(merkle.compute_subtree_roots([merkle.hash_leaf(each.encode()) for each in documents], spans))
    books = LedgerReader.read(folder / "receipts.db")
    for receipt in (was, replace(was, checkpoint=Checkpoint.over(documents, origin="o"), proof=proof)):
        yield check_receipt(receipt, books)


def charged(entry, share):
    """An entry that was charged a share of what it was."""
    less = {
        kind: dict(amount) | {"epsilon": f"{float(amount['epsilon']) * share:.12f}"}
        for kind, amount in entry.amounts.items()
    }
    return replace(entry, amounts=less)


def of_loops():
    """Loops of DP-SGD, each with one difference from what accountants take for granted."""
    told = {"examples": 6000, "batch_size": 60, "updates": 100, "noise_multiplier": 1.0}
    for changes in (
        {},
        *({"sampler": name} for name in ("shuffled", "in-order", "fixed-size", "with-replacement", "weighted")),
        {"accumulation": 2},
        {"accumulation": 2, "noise_added": "batch"},
        {"clipped": "microbatch"},
        {"divisor": "realised"},
        {"max_batch_size": 65},
        {"max_batch_size": 600},
        {"noise_multiplier": 0.1},
        {"accountant_sampling_probability": 0.5},
        {"accountant_sampling_probability": 0.001},
        {"accountant_updates": 3},
        {"accountant_noise_multiplier": 0.5},
        {"accountant_noise_multiplier": 2.0},
        {"parameters": 3},
        {"parameters": 10**6},
    ):
        yield from plan.preflight(plan.TrainingLoop(**told | changes), delta=1e-6).findings


@pytest.mark.slow
def test_the_reference_lists_every_code_and_no_other(run, folder, tmp_path, monkeypatch):
    with monkeypatch.context() as cheaper:
        cheaper.setattr("epsilog.verification.rules.compute_what_ifs", lambda *_: ())  # they have no codes
        of_logs = list(every_finding(tmp_path))
    found = [
        *of_plans(),
        *of_loops(),
        *of_calculations(),
        *of_runs(run),
        *of_curators(run),
        *of_audits(run),
        *of_counts(),
        *of_certificates(run),
        *of_shared_noise(run),
        *of_charges(run),
        *of_samples(run),
        *of_documents(run, folder),
        *of_signed(folder),
        *of_receipts(tmp_path),
        *of_logs,
    ]
    ends = {}
    for finding in found:
        ends.setdefault(finding.code, set()).add(finding.status.value)
    listed = [code for code, _ in TABLE]
    assert listed == sorted(set(listed))
    assert ends.keys() | TWIN == set(listed)
    for code, verdicts in TABLE:
        if not code.endswith("/attested") and code in ends:
            assert ends[code] <= set(re.findall("passed|warned|failed|not checked", verdicts)), code


def test_no_code_in_the_source_is_left_out():
    written = set()
    for path in (ROOT / "src/epsilog").rglob("*.py"):
        written |= set(re.findall(r'"([a-z]+(?:-[a-z]+)*/[a-z]+(?:-[a-z]+)*)", Status\.', path.read_text()))
    assert len(written) > 50
    assert written <= {code for code, _ in TABLE}


@pytest.mark.parametrize("code", ["noise", "Noise/weak", "noise/", "/weak", "noise/too weak", "noise/a/b", 3])
def test_a_code_is_two_words(code):
    with pytest.raises(CheckError, match="code must be words as check/outcome"):
        Finding(code, Status.PASSED, "said")
