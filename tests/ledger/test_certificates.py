"""The certificate of a charge: what is accepted, what is refused by its field, and what a ledger keeps of it."""

import hashlib
import json
import subprocess
import sys
import threading

import pytest
from tests.ledger.stores import AVAILABLE, STORES

from epsilog.certificates import certificate, checker as certificate_checker
from epsilog.ledger import Ledger, open_ledger
from epsilog.ledger.cost import ProvenClaim, check_charge_certificate
from epsilog.ledger.headroom import CostModel
from epsilog.ledger.replay import LedgerReplay
from epsilog.ledger.store import StoredRow
from epsilog.mechanisms import (
    ApproximateDP,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    Grouped,
    PoissonSampled,
    PureDP,
    Repeated,
    Shuffled,
)
from epsilog.terms import (
    CheckError,
    ConflictError,
    LedgerIntegrityError,
    NeighboringRelation,
    UnsupportedMechanismError,
)

STEPS = Repeated(Gaussian(5.0), 4)
REPLACE = NeighboringRelation.REPLACE_ONE
AT = {"delta": "1e-6", "key": "run"}


@pytest.fixture(scope="module")
def proof():
    return certificate(STEPS, delta=1e-6).text


@pytest.fixture
def required(ledger):
    ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4", requires_certificate=True)
    return ledger


def hash_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_charge_keeps_the_hash_of_its_certificate_and_one_without_keeps_none(ledger, proof):
    ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4")
    charge = ledger.charge("acme/team", STEPS, certificate=proof, **AT)
    assert charge.certificate == charge.entry.body["certificate"] == hash_of(proof)
    bare = ledger.reserve("acme/team", STEPS, key="bare", delta="1e-6")
    assert bare.certificate is None
    assert set(bare.entry.body) == {"request", "methods"}
    assert "requires_certificate" not in ledger.balance("acme").document()
    ledger.verify()


@pytest.mark.parametrize(
    ("release", "delta"), [(Repeated(ExponentialMechanism(0.1), 100), 1e-6), (Repeated(DiscreteLaplace(2.0), 3), 0.0)]
)
def test_a_release_may_be_claimed_by_a_statement_that_it_satisfies(ledger, release, delta):
    """Many choices as zCDP, and with delta 0 discrete noise by its largest loss."""
    ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4")
    text = certificate(release, delta=delta).text
    assert ledger.charge("acme", release, certificate=text, delta="1e-6", key="a").certificate == hash_of(text)
    with pytest.raises(CheckError, match=r"certificate\.claim\.releases"):
        ledger.charge("acme", ExponentialMechanism(0.1), certificate=text, delta="1e-6", key="b")


def test_the_same_certificate_again_changes_nothing_and_another_is_a_conflict(ledger, proof):
    ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4")
    for make in (ledger.charge, ledger.charge):
        charge = make("acme", STEPS, certificate=proof, **AT)
    assert charge.replayed
    assert ledger.charge("acme", STEPS, certificate=proof + "\n", **AT).replayed  # with its line end
    assert ledger.charge("acme", STEPS, **AT).replayed  # the certificate stands
    count = ledger.head()
    other = certificate(STEPS, delta=1e-6, slack=0.005).text
    with pytest.raises(ConflictError, match="'run' is taken with another certificate"):
        ledger.charge("acme", STEPS, certificate=other, **AT)
    ledger.charge("acme", STEPS, key="bare", delta="1e-6")
    with pytest.raises(ConflictError, match="'bare' is taken with another certificate"):
        ledger.charge("acme", STEPS, key="bare", delta="1e-6", certificate=proof)
    assert ledger.head()[0] == count[0] + 1
    ledger.charge("acme", STEPS, key="second", delta="1e-6", certificate=proof)  # it is no token


WRONG = [
    (lambda: certificate(Repeated(STEPS, 2), delta=1e-6).text, r"^certificate.claim.releases\[0\].count must be 4"),
    (
        lambda: certificate(Repeated(Gaussian(3.0), 4), delta=1e-6).text,
        r"^certificate.claim.releases\[0\].mechanisms\[0\].noise_multiplier must be \"5\", as charged, got \"3\"",
    ),
    (
        lambda: certificate(Repeated(PoissonSampled(Gaussian(4.0), 0.5), 2), delta=1e-6).text,
        r"^certificate.claim.releases\[0\]",
    ),
    (lambda: certificate(STEPS, delta=1e-6, relation=REPLACE).text, r"^certificate.claim.relation"),
    (lambda: certificate(STEPS, delta=1e-6, group_size=2).text, r"^certificate.claim.group must be 1"),
    (
        lambda: certificate(STEPS, delta=1e-5).text,
        r"^certificate.claim.delta must be at most 1% above the charged delta of 0.000001",
    ),
    (lambda: certificate(STEPS, delta=1e-9).text, r"^certificate.claim.epsilon must be at most 1% above"),
    (lambda: certificate(STEPS, delta=1e-6, epsilon=50.0).text, r"^certificate.claim.epsilon must be at most 1% above"),
    (lambda: "", "^certificate must be"),
    (lambda: "{}", "^certificate must be proven by the checker, got REFUSED"),
    (lambda: "x" * 10_000_000, r"^certificate must be at most 65536 characters of ASCII, got 10000000 characters$"),
    (lambda: "é", "^certificate must be at most 65536 characters of ASCII"),
    (lambda: 3, "^certificate must be"),
]


@pytest.mark.parametrize(("make", "says"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_certificate_is_refused_by_its_first_field_before_anything_is_written(required, make, says):
    text, before = make(), required.head()
    with pytest.raises(CheckError, match=says):
        required.charge("acme", STEPS, certificate=text, **AT)
    assert required.head() == before
    assert required.find("run") is None


def test_a_claim_that_was_made_smaller_is_refused(required, proof):
    stated = json.loads(proof)
    stated["claim"]["epsilon"] = "0.1"
    with pytest.raises(CheckError, match=r"^certificate must be proven by the checker, got REFUSED: at epsilon 0.1"):
        required.charge("acme", STEPS, certificate=json.dumps(stated, separators=(",", ":")), **AT)


def test_what_no_certificate_covers_says_so(required, proof):
    with pytest.raises(UnsupportedMechanismError, match="Shuffled"):
        required.charge("acme", Shuffled(PureDP(1.0), 1000), certificate=proof, key="run", delta="1e-6")


@pytest.mark.parametrize(
    ("kind", "caps", "release", "delta"),
    [
        ("zcdp", {"rho": "9"}, Gaussian(1.0), None),
        ("gdp", {"mu_squared": "9"}, Gaussian(1.0), None),
        ("approximate", {"epsilon": "9", "delta": "1e-4"}, PureDP(0.5), None),
        ("approximate", {"epsilon": "9", "delta": "1e-4"}, ApproximateDP(0.5, 1e-6 / 1.001), None),
        ("approximate", {"epsilon": "9", "delta": "1e-4"}, Grouped(Gaussian(4.0), 2), "1e-6"),
    ],
)
def test_costs_in_other_terms_than_epsilon_and_delta_are_not_compared(ledger, kind, caps, release, delta):
    ledger.create_budget("acme", kind=kind, requires_certificate=True, **caps)
    text = certificate(release, delta=1e-6).text
    charge = ledger.charge("acme", release, key="run", delta=delta, certificate=text)
    assert charge.certificate == hash_of(text)


@pytest.mark.parametrize("scope", ["acme/team/anna", "acme/blocks/jan"])
def test_a_budget_that_requires_one_refuses_every_charge_under_it_without_one(ledger, proof, scope):
    unit = {"kind": "approximate", "privacy_unit": "person"}
    ledger.create_budget("acme", epsilon="9", delta="1e-4", requires_certificate=True, **unit)
    ledger.create_budget("acme/team", epsilon="4", delta="1e-5", quota=True, **unit)
    ledger.declare_partition("acme/blocks", epsilon="2", delta="1e-5", actor="dora", reason="dates")
    ledger.create_budget("acme/blocks/jan", epsilon="2", delta="1e-5", **unit)
    before = ledger.head()
    for release, delta in ((STEPS, "1e-6"), (PureDP(0.1), None)):
        for act in (ledger.charge, ledger.reserve):
            with pytest.raises(CheckError, match=r"^certificate must be given: the budget of 'acme' requires one"):
                act(scope, release, key="run", delta=delta)
    assert ledger.head() == before
    assert ledger.charge(scope, STEPS, certificate=proof, **AT).certificate == hash_of(proof)
    assert ledger.verify().count == before[0] + 1


def test_a_cost_override_needs_the_certificate_all_the_same(required, proof):
    stated = {"amount": {"epsilon": "0.5", "delta": "1e-6"}, "key": "run"}
    required.override_cost("acme", STEPS, reason="proof 12", **stated)
    with pytest.raises(CheckError, match=r"^certificate must be given"):
        required.charge("acme", STEPS, **stated)
    with pytest.raises(CheckError, match=r"^certificate.claim.epsilon"):  # nothing proves that it costs so little
        required.charge("acme", STEPS, certificate=proof, **stated)


def documents_of(ledger):
    return [json.loads(document) for _, document in ledger.documents()]


def read_again(replay, *documents):
    """Changed entries as a ledger that was rewritten holds them."""
    for document in documents:
        text = json.dumps(document | {"previous": replay.head}, sort_keys=True, separators=(",", ":"))
        replay.read(StoredRow(document["index"], document["scope"], text, hash_of(text)))


@pytest.mark.parametrize("change", ["no hash", "no SHA-256", "null", "false rule"])
def test_a_replay_finds_an_entry_that_breaks_the_rule(required, proof, change):
    required.reserve("acme", STEPS, certificate=proof, **AT)
    budget, entry = documents_of(required)
    if change == "false rule":
        budget["body"]["requires_certificate"] = False
    elif change == "no hash":
        del entry["body"]["certificate"]
    else:
        entry["body"]["certificate"] = None if change == "null" else "ab"
    replay = LedgerReplay()
    with pytest.raises(LedgerIntegrityError, match=r"breaks a rule of the ledger: .*certificate"):
        read_again(replay, budget, entry)


def test_no_transaction_is_open_while_the_checker_runs(path, clock, proof):
    """Another writer writes meanwhile, and the check is not made again for that."""
    calls = []

    def check(request, text):
        calls.append(text)
        with open_ledger(path, clock=clock) as other:
            other.charge("acme", PureDP(0.1), key=f"other-{len(calls)}")
        return check_charge_certificate(request, text)

    with open_ledger(path, clock=clock) as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4")
        mine = Ledger(ledger._store, clock=clock, cost_model=CostModel(check_certificate=check))
        mine.charge("acme", STEPS, certificate=proof, **AT)
        assert ledger.verify().count == 3
    assert len(calls) == 1


def test_the_check_comes_before_any_cost_and_is_not_made_for_what_stands(path, clock, proof):
    def refuse(*_):
        raise AssertionError("it is not asked")

    with open_ledger(path, clock=clock) as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4")
        wrong = Ledger(ledger._store, clock=clock, cost_model=CostModel(compute_cost=refuse))
        with pytest.raises(CheckError, match=r"^certificate"):
            wrong.charge("acme", STEPS, certificate="{}", **AT)
        ledger.charge("acme", STEPS, certificate=proof, **AT)
        known = Ledger(ledger._store, clock=clock, cost_model=CostModel(refuse, refuse, refuse))
        assert known.charge("acme", STEPS, certificate=proof, **AT).replayed


@pytest.mark.parametrize("kind", AVAILABLE)
def test_of_concurrent_charges_with_one_key_one_certificate_stands(kind, tmp_path, proof):
    other = certificate(STEPS, delta=1e-6, slack=0.005).text
    place, outcomes = STORES[kind](tmp_path), []
    with Ledger(place.open()) as first:
        first.create_budget("acme", kind="approximate", epsilon="9", delta="1e-4", requires_certificate=True)
        gate = threading.Barrier(4)

        def check(request, text):
            gate.wait(timeout=60)
            return ProvenClaim("0.5", "1e-6", request.relation)

        def charge(text):
            with Ledger(place.open(), cost_model=CostModel(check_certificate=check)) as ledger:
                try:
                    outcomes.append((text, ledger.charge("acme", STEPS, certificate=text, **AT).replayed))
                except ConflictError:
                    outcomes.append((text, None))

        threads = [threading.Thread(target=charge, args=(text,)) for text in (proof, proof, other, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [text for text, replayed in outcomes if replayed is False]
        assert sorted(outcomes, key=str) == sorted(
            [(winner, False), (winner, True), *[(t, None) for t in (proof, proof, other, other) if t != winner]],
            key=str,
        )
        assert first.find("run").certificate == hash_of(winner)
        assert first.verify().count == 2


def test_what_a_remote_caller_reads_names_the_certificate_that_it_sent(required, proof):
    from epsilog.ledger.commands import ChargeAtOnce
    from epsilog.ledger.remote.store import _read_reservation

    entry = required.charge("acme", STEPS, certificate=proof, **AT).entry
    asked = ChargeAtOnce("acme", STEPS, certificate=proof, **AT).to_json()
    assert _read_reservation(entry.document(), asked) == entry
    with pytest.raises(LedgerIntegrityError, match="does not name the certificate"):
        _read_reservation(entry.document(), asked | {"certificate": "{}"})


@pytest.mark.slow
def test_a_ledger_loads_the_checker_only_for_a_certificate(path):
    lines = f"""
import sys
import epsilog.ledger as ledger
from epsilog.mechanisms import PureDP
with ledger.open_ledger({str(path)!r}) as books:
    books.create_budget("acme", kind="pure", epsilon="1", requires_certificate=True)
    try:
        books.charge("acme", PureDP(0.1), key="run")
    except ValueError:
        pass
print("numpy" in sys.modules, "epsilog.certificates" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_ledger_reads_no_more_than_the_checker_does():
    from epsilog.ledger.fields import MAX_CERTIFICATE

    assert MAX_CERTIFICATE == certificate_checker.MAX_BYTES
