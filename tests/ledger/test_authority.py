"""Who may do what to budgets above their own: every verb of the table, tried by owners from the leaf up to the whole.

What each takes is worked out from what it did to the budgets above, and stands beside that in ``LEAST``, by hand.
"""

from datetime import timedelta

import pytest
from tests.ledger.stores import InMemory

from epsilog.ledger import Ledger
from epsilog.ledger.entries import Verb
from epsilog.ledger.transitions import TRANSITIONS
from epsilog.mechanisms import Gaussian, PureDP
from epsilog.server.access import Holder, Role
from epsilog.terms import PermissionDeniedError

ACT = {"actor": "dora", "reason": "agreed on 3 May"}
HASH = "ab" * 32
ABOVE, LEAF = ("board", "board/claims"), "board/claims/anna"
OWNERS = (LEAF, "board/claims", "board", None)  # from the least to the largest


def budgets(ledger, at=LEAF, **top):
    for scope, more in zip(ABOVE, (top, {}), strict=True):
        ledger.create_budget(scope, kind="pure", epsilon="100", privacy_unit="person", **more)
    ledger.create_budget(f"{at}/own", kind="pure", epsilon="2", privacy_unit="person")


def share(ledger):
    budgets(ledger)
    ledger.create_budget(f"{LEAF}/share", kind="pure", epsilon="2", privacy_unit="person", quota=True)


def nearest_share(ledger):
    budgets(ledger)
    ledger.create_budget(LEAF, kind="pure", epsilon="2", privacy_unit="person", quota=True)


def parts(ledger):
    budgets(ledger)
    ledger.declare_partition(f"{LEAF}/parts", epsilon="1", **ACT)


def promised(ledger, **more):
    budgets(ledger)
    return ledger.reserve(f"{LEAF}/own", PureDP(0.5), key="k", rounds=2, **more)


def waiting(ledger):
    budgets(ledger)
    ledger.create_budget(f"{LEAF}/two", kind="pure", epsilon="2", privacy_unit="person", requires_approvals=1)
    ledger.reserve(f"{LEAF}/two", PureDP(0.5), key="k")


def waiting_above(ledger):
    budgets(ledger, requires_approvals=1)
    ledger.reserve(f"{LEAF}/own", PureDP(0.5), key="k")


def running(ledger):
    promised(ledger).start()


def in_a_round(ledger):
    charge = promised(ledger)
    charge.start()
    charge.round_started(1)


def done(ledger):
    budgets(ledger)
    ledger.charge(f"{LEAF}/own", PureDP(0.5), key="k")


def restored(ledger):
    budgets(ledger)
    ledger.mark_restored(**ACT)


def override(ledger, scope):
    ledger.override_cost(scope, Gaussian(1.0), key="o", amount={"epsilon": "1e-9"}, reason="cheap")
    return ledger.charge(scope, Gaussian(1.0), key="o", amount={"epsilon": "1e-9"})


NEW = {"kind": "pure", "epsilon": "1", "privacy_unit": "person"}
# Each verb, perhaps in several ways: what is there before, and what is done. Spenders' verbs are an owner's too.
WAYS = {
    Verb.BUDGET_CREATED: [(budgets, lambda ledger, _: ledger.create_budget(f"{LEAF}/new", **NEW))],
    Verb.QUOTA_CREATED: [
        (budgets, lambda ledger, _: ledger.create_budget(f"{LEAF}/new", quota=True, **NEW)),
        (share, lambda ledger, _: ledger.create_budget(f"{LEAF}/share/new", quota=True, **NEW)),
    ],
    Verb.PARTITION_DECLARED: [
        (budgets, lambda ledger, _: ledger.declare_partition(f"{LEAF}/parts", epsilon="1", **ACT))
    ],
    Verb.PARTITION_RAISED: [(parts, lambda ledger, _: ledger.set_cap(f"{LEAF}/parts", epsilon="2", **ACT))],
    Verb.CAP_CHANGED: [
        (budgets, lambda ledger, _: ledger.set_cap(f"{LEAF}/own", epsilon="3", **ACT)),
        (share, lambda ledger, _: ledger.set_cap(f"{LEAF}/share", epsilon="3", **ACT)),
        (share, lambda ledger, _: ledger.set_cap(f"{LEAF}/share", epsilon="1", **ACT)),
        (nearest_share, lambda ledger, _: ledger.set_cap(f"{LEAF}/own", epsilon="3", **ACT)),
    ],
    Verb.CAP_APPROVED: [
        (waiting, lambda ledger, _: ledger.approve_cap(f"{LEAF}/two", epsilon="3", **ACT)),
        (waiting_above, lambda ledger, _: ledger.approve_cap(f"{LEAF}/own", epsilon="3", **ACT)),
    ],
    Verb.SCOPE_RETIRED: [
        (budgets, lambda ledger, _: ledger.retire(f"{LEAF}/own", **ACT)),
        (share, lambda ledger, _: ledger.retire(f"{LEAF}/share", **ACT)),
    ],
    Verb.PLAN_REGISTERED: [(budgets, lambda ledger, _: ledger.register_plan(f"{LEAF}/own", HASH, key="p"))],
    Verb.COST_OVERRIDDEN: [
        (budgets, lambda ledger, _: override(ledger, LEAF)),
        (budgets, lambda ledger, _: override(ledger, f"{LEAF}/own")),
        (share, lambda ledger, _: override(ledger, f"{LEAF}/share/x")),
    ],
    Verb.RESERVED: [(budgets, lambda ledger, _: ledger.reserve(f"{LEAF}/own", PureDP(0.5), key="r"))],
    Verb.CHARGED: [(budgets, lambda ledger, _: ledger.charge(f"{LEAF}/own", PureDP(0.5), key="c"))],
    Verb.EXPIRY_SET: [(promised, lambda ledger, now: ledger.find("k").hold(now + timedelta(days=1)))],
    Verb.STARTED: [(promised, lambda ledger, _: ledger.find("k").start())],
    Verb.ROUND_STARTED: [(running, lambda ledger, _: ledger.find("k").round_started(1))],
    Verb.ROUND_RELEASED: [(in_a_round, lambda ledger, _: ledger.find("k").round_released(1, output_hash=HASH))],
    Verb.COMMITTED: [(running, lambda ledger, _: ledger.find("k").commit())],
    Verb.CANCELLED: [(promised, lambda ledger, _: ledger.find("k").cancel("no"))],
    Verb.APPROVED: [
        (waiting, lambda ledger, _: ledger.approve("k", actor="dora")),
        (waiting_above, lambda ledger, _: ledger.approve("k", actor="dora")),
    ],
    Verb.REVOKED: [(promised, lambda ledger, _: ledger.revoke("k", **ACT))],
    Verb.EXPIRED: [(None, lambda ledger, _: ledger.expire("k"))],  # see the fixture
    Verb.ABANDONED: [(running, lambda ledger, _: ledger.abandon("k", **ACT))],
    Verb.WRITTEN_OFF: [(promised, lambda ledger, _: ledger.abandon("k", **ACT))],
    Verb.DECOMMISSIONED: [(done, lambda ledger, _: ledger.decommission("k", **ACT))],
    Verb.LEDGER_RESTORED: [(budgets, lambda ledger, _: ledger.mark_restored(**ACT))],
    Verb.RESTORE_ACCEPTED: [(restored, lambda ledger, _: ledger.accept_restored(**ACT))],
}
# The least owner who may, where that is not the leaf's.
LEAST = {
    (Verb.QUOTA_CREATED, 0): "board/claims",
    (Verb.CAP_CHANGED, 1): "board/claims",
    (Verb.CAP_CHANGED, 2): "board/claims",
    (Verb.SCOPE_RETIRED, 1): "board/claims",
    (Verb.PARTITION_DECLARED, 0): "board",
    (Verb.PARTITION_RAISED, 0): "board",
    (Verb.COST_OVERRIDDEN, 0): "board",
    (Verb.COST_OVERRIDDEN, 1): "board",
    (Verb.COST_OVERRIDDEN, 2): "board",
    (Verb.APPROVED, 1): "board",
    (Verb.CAP_APPROVED, 1): "board",
    (Verb.LEDGER_RESTORED, 0): None,
    (Verb.RESTORE_ACCEPTED, 0): None,
}
CASES = [(verb, number) for verb, ways in WAYS.items() for number in range(len(ways))]


@pytest.fixture
def root(clock):
    with Ledger(InMemory(None).open(), clock=clock) as ledger:
        yield ledger


def of(root, scope):
    """The ledger, on behalf of an owner."""
    return root.on_behalf_of("somebody", owns=Holder("somebody", Role.OWNER, scope).owns)


def counted(ledger):
    """What the budgets above count and set aside."""
    return [
        (one.caps, one.total_reserved, one.set_aside, one.retired, one.partition) for one in map(ledger.balance, ABOVE)
    ]


def test_every_verb_of_the_table_is_tried():
    assert set(WAYS) == set(Verb) == set(TRANSITIONS)


@pytest.mark.parametrize(("verb", "number"), CASES)
def test_an_act_takes_an_owner_of_every_budget_that_it_changes(root, clock, verb, number):
    before, do = WAYS[verb][number]
    if before is None:
        charge = promised(root, until=clock.now + timedelta(seconds=30))
        clock.now += timedelta(minutes=1)
        assert charge.key == "k"
    else:
        before(root)
    least = LEAST.get((verb, number), LEAF)
    for owner in OWNERS[: OWNERS.index(least)]:
        head = root.head()
        with pytest.raises(PermissionDeniedError):
            do(of(root, owner), clock.now)
        assert root.head() == head, "a refused act was written"
    stood = counted(root)
    do(of(root, least), clock.now)
    entry = next(one for one in root.page(limit=9) if one.verb is verb)
    moves = TRANSITIONS[verb].debit is not None or (
        TRANSITIONS[verb].reserves and entry.body["request"]["amount"] is None
    )
    if least == LEAF and not moves:  # what nobody above was asked for changes nothing above
        assert counted(root) == stood
    root.verify()
