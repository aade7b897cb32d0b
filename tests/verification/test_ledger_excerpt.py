"""A ledger's word is taken for what its entries say: another charge, a lower price or a second one does not pass."""

from dataclasses import replace
from fractions import Fraction

import pytest
from tests.reports.drawn import make_plan, train
from tests.verification.checked import applied

from epsilog.ledger import Amounts, Verb, open_ledger
from epsilog.mechanisms import Gaussian, Laplace, PoissonSampled, PureDP, Repeated
from epsilog.terms import RecordError
from epsilog.verification import Claim, LedgerReader, TrustAnchors, check_head, check_ledger_chain
from epsilog.verification.artifacts import check_costs
from epsilog.verification.charge_checks import check_charge, check_files
from epsilog.verification.claim import check_plan
from epsilog.verification.ledger_excerpt import LedgerExcerpt


def charged(evidence, **changes):
    return check_charge(replace(evidence, ledger=replace(evidence.ledger, **changes))).status


@pytest.mark.slow
def test_the_charge_is_the_plans_in_every_respect(run):
    word = run.ledger
    assert charged(run) == "passed"
    release = word.request["release"]
    for name, value in {
        "release": release | {"term": release["term"] | {"count": 3}},
        "relation": "zero-out",
        "privacy_unit": "pupil",
        "delta": "0.00002",
        "rounds": 5,
        "simulation": False,
    }.items():
        assert word.request[name] != value
        found = check_charge(replace(run, ledger=replace(word, request=dict(word.request) | {name: value})))
        assert found.status == "failed"
        assert name in found.message
    assert charged(run, scope="acme/2027") == "failed"
    verdicts = {"started": "warned", "abandoned": "warned", "reserved": "failed", "cancelled": "failed"}
    for state, verdict in verdicts.items():
        assert charged(run, state=state) == verdict
    assert charged(run, other_charges=1) == "warned"
    assert charged(run, cap={"epsilon": "8"}) == "warned"
    assert charged(run, cap={"epsilon": "0.1"}) == "failed"


@pytest.mark.parametrize("amounts", [{"epsilon": "0.5", "delta": "0.00001"}, {"epsilon": "4", "delta": "0.000001"}, {}])
def test_a_price_below_the_claim_fails(run, amounts):
    assert charged(run, amounts={"approximate": amounts}) == "failed"
    assert charged(run, amounts={"pure": {"epsilon": "9"}}) == "failed"


def test_a_claim_and_a_charge_that_agree_on_too_little_fail_both(run):
    """Half the epsilon in plan, interval and charge: they agree, and the accountant does not."""
    little = run.plan.guarantee.epsilon / 2
    guarantee = replace(run.plan.guarantee, epsilon=little)
    plan = replace(run.plan, guarantee=guarantee, epsilon=replace(run.plan.epsilon, lower=0.0, upper=little))
    cheap = {"approximate": dict(Amounts.from_charge({"epsilon": Fraction(little), "delta": "1e-5"}))}
    asked = dict(run.ledger.request) | {"plan_hash": plan.hash}
    found = check_charge(
        replace(run, claim=Claim.from_plan(plan), ledger=replace(run.ledger, amounts=cheap, request=asked))
    )
    assert found.status == "failed"
    assert "but the schedule costs" in found.message


def test_files_must_be_named_and_the_same(run):
    assert check_files(run).status == "passed"
    for name in run.hashes:
        fewer = {n: h for n, h in run.ledger.evidence.items() if n != name}
        assert check_files(replace(run, ledger=replace(run.ledger, evidence=fewer))).status == "failed"
        other = dict(run.ledger.evidence) | {name: "0" * 64}
        assert check_files(replace(run, ledger=replace(run.ledger, evidence=other))).status == "failed"
    assert check_files(replace(run, ledger=replace(run.ledger, evidence=None))).status == "not checked"


def test_a_round_begun_and_never_released_is_an_attempt(run):
    found = applied("attempts", run)
    assert found.status == "passed"
    found = applied("attempts", replace(run, ledger=replace(run.ledger, attempts=dict(run.ledger.attempts) | {5: 1})))
    assert found.status == "warned"
    assert "rounds [5] were started and not released" in found.message.lower()


def test_the_word_survives_a_report(run):
    assert LedgerExcerpt.from_json(run.ledger.to_json()) == replace(run.ledger, attempts=dict(run.ledger.attempts))
    assert LedgerExcerpt(sound=False).to_json() is None


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    path = tmp_path_factory.mktemp("priced") / "ledger.db"
    sgd = Repeated(PoissonSampled(Gaussian(2.0), 0.1), 50)
    with open_ledger(path) as books:
        books.create_budget("acme", kind="approximate", epsilon="9", delta="1e-3")
        books.create_budget("acme/pure", kind="pure", epsilon="9")
        books.charge("acme", sgd, key="a", delta="1e-5")
        books.charge("acme", sgd, key="b", delta="1e-5")
        books.charge("acme/pure", Laplace(2.0), key="c")
        books.charge("acme/pure", PureDP(0.25), key="d")
        books.create_budget("orders", kind="rdp", rdp_2="9", rdp_8="99")
        books.charge("orders", sgd, key="e")
    return LedgerReader.read(path).entries


@pytest.mark.slow
def test_every_price_is_worked_out_again(entries):
    found = check_costs(entries)
    assert (found.status, found.message) == ("passed", "Each of 7 costs is at least the recomputed one.")
    for index, entry in enumerate(entries):
        if entry.verb is not Verb.RESERVED:
            continue
        for share, verdict in ((Fraction(1, 8), "failed"), (Fraction(997, 1000), "warned"), (Fraction(2), "passed")):
            amounts = {
                kind: Amounts.from_charge({name: Fraction(text) * share for name, text in amount.items()})
                for kind, amount in entry.amounts.items()
            }
            edited = [*entries[:index], replace(entry, amounts=amounts), *entries[index + 1 :]]
            assert check_costs(edited).status == verdict
    assert check_costs(()).status == "passed"


@pytest.mark.slow
def test_an_owner_may_allow_less_and_it_shows(tmp_path):
    sgd = Repeated(PoissonSampled(Gaussian(2.0), 0.1), 50)
    little = {"epsilon": "0.125", "delta": "0.00001"}
    with open_ledger(tmp_path / "l.db") as books:
        books.create_budget("acme", kind="approximate", epsilon="9", delta="1e-3")
        books.override_cost("acme", sgd, key="a", amount=little, reason="a proof on paper")
        books.charge("acme", sgd, key="a", amount=little)
    entries = LedgerReader.read(tmp_path / "l.db").entries
    found = check_costs(entries)
    assert (found.status, "an attested amount" in found.message) == ("warned", True)
    assert check_costs(e for e in entries if e.verb is not Verb.COST_OVERRIDDEN).status == "failed"


def test_a_ledger_file_is_examined_whole(tmp_path):
    with open_ledger(tmp_path / "l.db") as books:
        books.create_budget("acme", kind="pure", epsilon="1")
        head = books.head()[1]
        books.charge("acme", PureDP(0.5), key="k")
    assert [f.status for f in check_ledger_chain(tmp_path / "l.db", TrustAnchors(head))] == ["passed"] * 3
    assert [f.status for f in check_ledger_chain(tmp_path / "l.db", TrustAnchors("0" * 64))] == [
        "passed",
        "passed",
        "failed",
    ]
    assert check_head(None, head)[0].status == "not checked"
    for name in ("nowhere.db", "."):
        with pytest.raises(RecordError, match="cannot be read"):
            LedgerReader.read(tmp_path / name)
    (tmp_path / "l.db").write_bytes((tmp_path / "l.db").read_bytes().replace(b"0.5", b"0.1"))
    assert check_ledger_chain(tmp_path / "l.db")[0].status == "failed"


def test_a_plan_on_too_small_a_budget_or_of_another_unit_than_its_data_contradicts_itself(run):
    plan = run.plan
    assert check_plan(plan).status == "passed"
    for name, value in (("units", 151), ("privacy_unit", "pupil")):
        data = dict(plan.details["data"]) | {name: value}
        found = check_plan(replace(plan, details=dict(plan.details) | {"data": data}))
        assert found.status == "failed"
        assert f"its data's {name} is {value!r}" in found.message
    found = check_plan(replace(plan, budget=dict(plan.budget) | {"epsilon": "0.01"}))
    assert found.status == "failed"
    assert "on a budget of 0.01" in found.message


@pytest.mark.slow
def test_the_cap_is_that_of_the_charges_own_scope(tmp_path):
    with open_ledger(tmp_path / "l.db") as books:
        books.create_budget("elsewhere", kind="pure", epsilon="1")
    train(tmp_path / "run", tmp_path / "l.db", make_plan())
    word = LedgerReader.read(tmp_path / "l.db").read_excerpt(make_plan().hash)
    assert (word.scope, word.cap["epsilon"]) == ("acme/2026", "30")


def test_what_is_said_of_a_charge_after_it_closed_changes_nothing_of_the_ledgers_word(tmp_path):
    """A report stays what it was when its model is switched off, its cap lowered, its scope retired."""
    plan, act = "ab" * 32, {"actor": "dora", "reason": "replaced"}
    with open_ledger(tmp_path / "l.db") as books:
        books.create_budget("acme", kind="pure", epsilon="5")
        for key in ("done", "gone"):
            charge = books.reserve("acme", PureDP(2.0), key=key, plan_hash=plan if key == "done" else "cd" * 32)
            charge.start()
            charge.commit({"model": plan}) if key == "done" else books.abandon(key, **act)
        words = [LedgerReader.read(tmp_path / "l.db").read_excerpt(each) for each in (plan, "cd" * 32)]
        assert [(word.state, word.cap) for word in words] == [
            ("committed", {"epsilon": "5"}),
            ("abandoned", {"epsilon": "5"}),
        ]
        assert [word.evidence for word in words] == [{"model": plan}, None]
        books.decommission("done", **act)
        books.decommission("gone", **act)
        books.set_cap("acme", epsilon="1", **act)
        books.retire("acme", **act)
    assert [LedgerReader.read(tmp_path / "l.db").read_excerpt(each) for each in (plan, "cd" * 32)] == words


def test_what_blocks_spent_counts_there_and_above_only_what_was_paid_for_them(tmp_path):
    caps, at = (
        {"kind": "approximate", "epsilon": "9", "delta": "1e-6", "privacy_unit": "person-quarter"},
        tmp_path / "l",
    )
    with open_ledger(at) as ledger:
        ledger.create_budget("a", **caps)
        ledger.declare_partition("a/q", epsilon="3", delta="0", actor="dora", reason="a quarter each")
        for block in ("a/q/1", "a/q/2"):
            ledger.create_budget(block, **caps | {"epsilon": "3", "delta": "0"})
            ledger.charge(block, PureDP(2.0), key=block)
        ledger.charge("a", PureDP(1.0), key="above")
        ledger.reserve("a", PureDP(0.5), key="here", plan_hash="ab" * 32)
        ledger.reserve("a/q/1", PureDP(0.5), key="there", plan_hash="cd" * 32)
    books = LedgerReader.read(at)
    assert [books.read_excerpt(32 * each).earlier_spending["epsilon"] for each in ("ab", "cd")] == ["4", "2"]
    assert books.read_excerpt(32 * "cd").cap == {"epsilon": "3", "delta": "0"}


def test_what_was_spent_before_is_what_had_started_under_the_nearest_budget(tmp_path):
    at = tmp_path / "ledger.db"
    with open_ledger(at) as ledger:
        ledger.create_budget("acme", kind="approximate", epsilon="20", delta="1e-4")
        ledger.create_budget("acme/a", kind="pure", epsilon="20")
        ledger.charge("acme/b", PureDP(1.5), key="beside")
        ledger.reserve("acme/a", PureDP(0.25), key="never started")
        ledger.reserve("acme/a", PureDP(0.5), key="written off")
        ledger.abandon("written off", actor="dora", reason="the run is gone")
        started = ledger.reserve("acme/a/x", PureDP(2.0), key="started")
        started.start()
        ledger.reserve("acme/a", PureDP(1.0), key="mine", plan_hash="ab" * 32)
        ledger.charge("acme/b", PureDP(3.0), key="later")
    word = LedgerReader.read(at).read_excerpt("ab" * 32)
    assert dict(word.earlier_spending) == {"epsilon": "4", "delta": "0"}
    assert LedgerExcerpt.from_json(word.to_json()) == word
    with open_ledger(tmp_path / "pure.db") as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="20")
        ledger.charge("acme", PureDP(1.5), key="before")
        ledger.reserve("acme", PureDP(1.0), key="mine", plan_hash="ab" * 32)
    assert LedgerReader.read(tmp_path / "pure.db").read_excerpt("ab" * 32).earlier_spending == {}
