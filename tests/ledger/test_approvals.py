"""Budgets that require approvals: nothing starts before enough owners, other than who reserved it, have approved it."""

import json
from datetime import timedelta

import pytest
from tests.ledger.test_replay import rehashed
from tests.server.conftest import serving

from epsilog.ledger import ChargeState, Verb, open_ledger
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.replay import LedgerReplay, replay_entries
from epsilog.mechanisms import Gaussian, PureDP
from epsilog.server import AccessConfig, create_app, tokens
from epsilog.terms import (
    BatchRefusedError,
    CheckError,
    ConflictError,
    LedgerIntegrityError,
    PermissionDeniedError,
    codec,
)

COST = PureDP(0.5)
PURE = {"kind": "pure", "epsilon": "9"}
ACT = {"actor": "dora", "reason": "agreed"}


def approvals(ledger, key="k"):
    return ledger.find(key).state, [
        one.body["actor"] for one in reversed(ledger.page(limit=99)) if one.verb is Verb.APPROVED
    ]


@pytest.mark.parametrize("required", [1, 2, 9])
def test_a_charge_starts_with_the_last_approval_that_it_needs(ledger, required):
    ledger.create_budget("acme", requires_approvals=required, **PURE)
    charge = ledger.reserve("acme/team", COST, key="k")
    for number in range(required):
        with pytest.raises(ConflictError, match=f"has {number} of {required} approvals"):
            charge.start()
        ledger.approve("k", actor=f"owner {number}")
    charge.start()
    charge.commit()
    ledger.verify()
    assert approvals(ledger) == (ChargeState.COMMITTED, [f"owner {number}" for number in range(required)])


@pytest.mark.parametrize("required", [-1, 10, 1.5, True])
def test_the_number_of_approvals_is_checked(ledger, required):
    with pytest.raises(CheckError, match="requires_approvals"):
        ledger.create_budget("acme", requires_approvals=required, **PURE)


def test_the_budget_that_requires_most_decides_and_in_the_blocks_of_a_partition_too(ledger):
    ledger.create_budget("acme", requires_approvals=2, privacy_unit="person", **PURE)
    ledger.create_budget("acme/one", requires_approvals=1, privacy_unit="person", **PURE)
    ledger.declare_partition("acme/one/months", epsilon="1", **ACT)
    ledger.create_budget("acme/one/months/may", kind="pure", epsilon="1", privacy_unit="person")
    charge = ledger.reserve("acme/one/months/may", COST, key="k")
    ledger.approve("k", actor="dora")
    with pytest.raises(ConflictError, match=r"1 of 2 approvals \(dora\) that the budget of 'acme' requires"):
        charge.start()
    ledger.approve("k", actor="emil")
    charge.start()
    ledger.verify()


def test_a_charge_in_one_step_is_refused_alone_and_in_a_batch(ledger):
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    before = ledger.head()
    with pytest.raises(ConflictError, match="0 of 1 approvals"):
        ledger.charge("acme", COST, key="k")
    with pytest.raises(BatchRefusedError, match="0 of 1 approvals"):
        ledger.charge_many([ChargeAtOnce("acme", COST, key="k")])
    ledger.override_cost("acme", COST, key="o", amount={"epsilon": "0.1"}, reason="proof 12")
    with pytest.raises(ConflictError, match="0 of 1 approvals"):
        ledger.charge("acme", COST, key="o", amount={"epsilon": "0.1"})
    assert ledger.head()[0] == before[0] + 1
    assert ledger.balance("acme").total_reserved == {"epsilon": "0"}


def test_a_chain_in_which_an_approval_was_removed_does_not_hold(ledger):
    ledger.create_budget("acme", requires_approvals=2, **PURE)
    charge = ledger.reserve("acme", COST, key="k")
    for owner in ("dora", "emil"):
        ledger.approve("k", actor=owner)
    charge.start()
    with ledger._store.reading() as session:
        documents = [json.loads(row.document) for row in session.rows()]
    assert isinstance(replay_entries(rehashed(documents)), LedgerReplay)  # a control: the whole chain, written again
    left = [{**one, "index": place} for place, one in enumerate(documents[:3] + documents[4:], 1)]
    with pytest.raises(LedgerIntegrityError, match=r"1 of 2 approvals \(dora\)"):
        replay_entries(rehashed(left))
    twice = [{**one, "body": {"actor": "dora"}} if one["verb"] == Verb.APPROVED else one for one in documents]
    with pytest.raises(LedgerIntegrityError, match="approved by 'dora' already"):
        replay_entries(rehashed(twice))


@pytest.mark.parametrize("required", [1, 2])
def test_a_cap_rises_once_other_owners_have_approved_exactly_it(ledger, required):
    ledger.create_budget("acme", requires_approvals=required, **PURE)
    ledger.approve_cap("acme", epsilon="12", **ACT)  # who sets it later does not count
    for number in range(required):
        with pytest.raises(ConflictError, match=rf"has {number} of {required} approvals"):
            ledger.set_cap("acme", epsilon="12", **ACT)
        ledger.approve_cap("acme", epsilon="12", actor=f"owner {number}", reason="board")
    with pytest.raises(ConflictError, match=f"has 0 of {required} approvals"):
        ledger.set_cap("acme", epsilon="12.000000001", **ACT)
    assert ledger.set_cap("acme", epsilon="12", **ACT).caps == {"epsilon": "12"}
    assert ledger.set_cap("acme", epsilon="12", **ACT).cap_approval is None  # the same again changes nothing
    assert ledger.set_cap("acme", epsilon="1", **ACT).caps == {"epsilon": "1"}  # lower needs no approval
    with pytest.raises(ConflictError, match=f"has 0 of {required} approvals"):
        ledger.set_cap("acme", epsilon="12", **ACT)  # an approval is of one change
    ledger.verify()


def test_an_approval_of_a_cap_expires_and_another_cap_replaces_it(ledger, clock):
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    ledger.approve_cap("acme", epsilon="12", actor="emil", reason="board")
    clock.now += timedelta(days=7, seconds=1)
    with pytest.raises(ConflictError, match="has 0 of 1"):
        ledger.set_cap("acme", epsilon="12", **ACT)
    ledger.approve_cap("acme", epsilon="12", actor="emil", reason="board", until=clock() + timedelta(hours=1))
    ledger.approve_cap("acme", epsilon="13", actor="emil", reason="rather this")
    with pytest.raises(ConflictError, match="has 0 of 1"):
        ledger.set_cap("acme", epsilon="12", **ACT)
    ledger.set_cap("acme", epsilon="13", **ACT)
    ledger.verify()


def test_whoever_allowed_a_cost_does_not_approve_it(ledger):
    """Of several overrides the one of this charge counts. A chain from before this rule still verifies."""
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    for owner, key in (("emil", "j"), ("dora", "k"), ("emil", "l")):
        ledger.on_behalf_of(owner).override_cost("acme", COST, key=key, amount={"epsilon": "0.1"}, reason="proof 12")
    charge = ledger.on_behalf_of("anna").reserve("acme", COST, key="k", amount={"epsilon": "0.1"})
    with pytest.raises(ConflictError, match="must be approved by another than 'dora', who allowed its cost"):
        ledger.on_behalf_of("dora").approve("k", actor="dora")
    with pytest.raises(ConflictError, match="0 of 1 approvals"):
        charge.start()
    ledger.on_behalf_of("emil").approve("k", actor="emil")
    charge.start()
    ledger.verify()
    with ledger._store.reading() as session:
        documents = [json.loads(row.document) for row in session.rows()]
    before = [{**one, "body": {"actor": "dora"}} if one["verb"] == Verb.APPROVED else one for one in documents]
    assert isinstance(replay_entries(rehashed(before)), LedgerReplay)


def test_the_same_approval_again_writes_nothing(ledger):
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    ledger.approve_cap("acme", epsilon="12", **ACT)
    before = ledger.head()
    ledger.approve_cap("acme", epsilon="12", **ACT)
    assert ledger.head() == before


def test_a_budget_above_that_requires_approvals_guards_caps_below_it(ledger):
    ledger.create_budget("acme", requires_approvals=1, privacy_unit="person", **PURE)
    ledger.create_budget("acme/team", kind="pure", epsilon="1", privacy_unit="person", quota=True)
    ledger.declare_partition("acme/months", epsilon="1", **ACT)
    for scope in ("acme/team", "acme/months"):
        with pytest.raises(ConflictError, match="has 0 of 1"):
            ledger.set_cap(scope, epsilon="2", **ACT)
        ledger.approve_cap(scope, epsilon="2", actor="emil", reason="board")
        assert ledger.set_cap(scope, epsilon="2", **ACT).caps == {"epsilon": "2"}
    ledger.verify()


def test_where_nothing_requires_approvals_none_is_taken(ledger):
    ledger.create_budget("acme", **PURE)
    with pytest.raises(ConflictError, match="no budget at or above 'acme' requires approvals"):
        ledger.approve_cap("acme", epsilon="12", **ACT)
    ledger.set_cap("acme", epsilon="12", **ACT)


@pytest.mark.parametrize("caps", [{"rho": "1"}, {"epsilon": "2", "delta": "1e-6"}, {"epsilon": "-1"}, {}])
def test_an_approved_cap_has_the_quantities_of_its_budget(ledger, caps):
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    with pytest.raises(ValueError, match=r"caps|epsilon"):
        ledger.approve_cap("acme", **caps, **ACT)


@pytest.mark.slow
def test_a_guarantee_is_approved_as_it_is_stated(ledger):
    ledger.create_budget("acme", kind="zcdp", epsilon="1", delta="1e-6", requires_approvals=1)
    ledger.approve_cap("acme", epsilon="2", delta="1e-6", actor="emil", reason="board")
    with pytest.raises(ConflictError, match="has 0 of 1"):
        ledger.set_cap("acme", epsilon="2", delta="1e-5", **ACT)
    assert ledger.set_cap("acme", epsilon="2", delta="1e-6", **ACT).target_guarantee["epsilon"] == "2"


def test_a_chain_in_which_the_approval_of_a_cap_was_removed_does_not_hold(ledger):
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    ledger.approve_cap("acme", epsilon="12", actor="emil", reason="board")
    ledger.set_cap("acme", epsilon="12", **ACT)
    with ledger._store.reading() as session:
        documents = [json.loads(row.document) for row in session.rows()]
    assert isinstance(replay_entries(rehashed(documents)), LedgerReplay)
    left = [{**one, "index": place} for place, one in enumerate([documents[0], documents[2]], 1)]
    with pytest.raises(LedgerIntegrityError, match=r"has 0 of 1 approvals"):
        replay_entries(rehashed(left))


@pytest.mark.slow
def test_at_a_server_an_approval_is_by_the_holder_of_a_token_whatever_it_says(tmp_path):
    file, path = tmp_path / "tokens.json", tmp_path / "ledger.db"
    with open_ledger(path) as books:
        books.create_budget("acme", requires_approvals=2, **PURE)
        books.create_budget("acme/team", **PURE)
    roles = {"anna": ("spender", "acme/team"), "leaf": ("owner", "acme/team")}
    roles |= dict.fromkeys(("dora", "emil", "fred"), ("owner", "acme"))
    held = {name: tokens.create_token(file, name, role=role, scope=scope)[1] for name, (role, scope) in roles.items()}
    app = create_app(ledger=str(path), access=AccessConfig(file, rate=10_000.0))
    with serving(app) as site:
        anna, leaf, dora, emil, fred = (open_ledger(site.url, token=held[name]) for name in (*roles,))
        charge = anna.reserve("acme/team", COST, key="k")
        for caller in (anna, leaf):  # a spender; an owner below the budget that requires approvals
            with pytest.raises(PermissionDeniedError):
                caller.approve("k", actor="dora")
        dora.approve("k", actor="dora")
        dora.approve("k", actor="emil")  # the same holder, whoever it says it is
        with pytest.raises(ConflictError, match="1 of 2"):
            charge.start()
        emil.approve("k", actor="anything")
        charge.start()
        own = fred.reserve("acme/team", COST, key="own")
        with pytest.raises(ConflictError, match="another than 'fred'"):
            fred.approve("own", actor="somebody")
        assert own.state is ChargeState.RESERVED
        for approver, actor in ((dora, "dora"), (dora, "emil"), (emil, "emil")):
            approver.approve_cap("acme", epsilon="12", actor=actor, reason="board")
        for caller, refusal in ((anna, PermissionDeniedError), (leaf, PermissionDeniedError), (dora, ConflictError)):
            with pytest.raises(refusal):  # whoever approved it does not count where they set it
                caller.set_cap("acme", epsilon="12", actor="gina", reason="board")
        assert fred.set_cap("acme", epsilon="12", actor="dora", reason="board").caps == {"epsilon": "12"}
        for one in (anna, leaf, dora, emil, fred):
            one.close()
    with open_ledger(path) as books:
        assert approvals(books) == (ChargeState.STARTED, ["dora", "emil"])
        books.verify()


def told(pending):
    return [(one.scope, one.key, one.required, one.approved, one.actor) for one in pending]


@pytest.mark.slow
def test_what_waits_for_approval_is_listed(ledger, clock):
    """Of every scope that requires some, in the blocks of a partition too; without what started, ended or expired."""
    ledger.create_budget("acme", requires_approvals=2, privacy_unit="person", **PURE)
    ledger.create_budget("acme/sub", requires_approvals=1, privacy_unit="person", **PURE)
    ledger.declare_partition("acme/months", epsilon="1", **ACT)
    ledger.create_budget("acme/months/may", kind="pure", epsilon="1", privacy_unit="person")
    ledger.create_budget("free", **PURE)
    assert ledger.list_pending_approvals() == []
    anna = ledger.on_behalf_of("anna")
    for number, scope in enumerate(("acme/sub/x", "acme/months/may", "free", "acme", "acme", "acme", "acme")):
        anna.reserve(scope, PureDP(0.1), key=f"k{number}", until=clock.now + timedelta(days=1 + number))
    ledger.approve("k0", actor="dora")
    for owner in ("dora", "emil"):
        ledger.approve("k3", actor=owner)
    anna.find("k4").cancel("no")
    ledger.approve_cap("acme/sub", epsilon="12", actor="dora", reason="board")
    waiting = told(ledger.list_pending_approvals(now=clock.now))
    assert waiting == [
        ("acme/sub", None, 2, ("dora",), None),
        ("acme", "k6", 2, (), "anna"),
        ("acme", "k5", 2, (), "anna"),
        ("acme/months/may", "k1", 2, (), "anna"),
        ("acme/sub/x", "k0", 2, ("dora",), "anna"),
    ]
    for scope in ("acme/sub", "acme/sub/x", "acme/months", "free", "nowhere"):
        under = [one for one in waiting if f"{one[0]}/".startswith(f"{scope}/")]
        assert told(ledger.list_pending_approvals(scope, now=clock.now)) == under
    for number in range(120):  # however many have ended since, over several pages
        anna.reserve("acme/sub/x", PureDP(0.001), key=f"later{number}").cancel("no")
    assert told(ledger.list_pending_approvals(now=clock.now)) == waiting
    seen = ledger.on_behalf_of("ben", covers=lambda scope: scope == "acme/months/may")
    assert told(seen.list_pending_approvals(now=clock.now)) == [waiting[3]]
    later = told(ledger.list_pending_approvals(now=clock.now + timedelta(days=6, hours=1)))
    assert later == [waiting[0], waiting[1]]
    (cap, *_) = ledger.list_pending_approvals(now=clock.now)
    assert cap.to_json()["amounts"] == {"pure": {"epsilon": "12"}}
    assert (cap.reason, cap.request, cap.overridden) == ("board", None, False)
    assert {one.approver_scope for one in ledger.list_pending_approvals(now=clock.now)} == {"acme"}
    with pytest.raises(CheckError, match="now"):
        ledger.list_pending_approvals(now="tomorrow")


@pytest.mark.parametrize("owner", ["dora", None])
def test_what_waits_says_who_allowed_its_cost_and_why(ledger, owner):
    ledger.create_budget("acme", requires_approvals=1, **PURE)
    by = ledger if owner is None else ledger.on_behalf_of(owner)
    for key in ("other", "k"):
        by.override_cost("acme", Gaussian(1.0), key=key, amount={"epsilon": "0.5"}, reason=f"proof {key}")
    ledger.reserve("acme", Gaussian(1.0), key="k", amount={"epsilon": "0.5"})
    ledger.reserve("acme", PureDP(0.25), key="proven")
    proven, allowed = ledger.list_pending_approvals()
    assert (proven.overridden, proven.overrider, proven.reason) == (False, None, None)
    assert (allowed.overridden, allowed.overrider, allowed.reason) == (True, owner, "proof k")
    assert allowed.request.release == Gaussian(1.0)
    assert allowed.to_json()["request"]["release"] == codec.to_json(Gaussian(1.0))
