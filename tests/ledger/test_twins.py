"""A ledger on each store, asked the same: they refuse the same in the same words, and grow one chain."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import amount
from tests.ledger.stores import AVAILABLE

from epsilog.ledger import Ledger
from epsilog.mechanisms import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from epsilog.terms import BudgetExceededError, EpsilogError, NeighboringRelation

SCOPES = st.sampled_from(["r", "r/a", "r/a/x", "r/b", "ra", "q", "r//a", "p", "p/q", "p/q/1"])
HASHES = st.sampled_from(["ab" * 32, "cd" * 32, "no hash"])
KEYS = st.sampled_from(["k1", "k2", "k3", "k4", " "])
RELEASES = st.sampled_from(
    [PureDP(0.25), PureDP(1.0), ApproximateDP(0.5, 1e-6), ZeroConcentratedDP(0.1), GaussianDP(0.5)]
)
AMOUNTS = st.sampled_from(
    [
        *(None, {"epsilon": "0.3"}, {"epsilon": "1", "delta": "1e-6"}, {"rho": "0.05"}, {"mu_squared": "0.5"}),
        {"epsilon": "0.3", "rdp_2": "0.2", "rdp_8": "1", "rdp_16": "2"},
    ]
)
CAPS = st.sampled_from(
    [
        {"kind": "pure", "epsilon": "1"},
        {"kind": "pure", "epsilon": "1", "privacy_unit": "person-quarter"},
        {"kind": "approximate", "epsilon": "2", "delta": "1e-5"},
        {"kind": "zcdp", "rho": "0.3"},
        {"kind": "gdp", "mu_squared": "1"},
        {"kind": "rdp", "rdp_2": "1", "rdp_8": "3"},
        {"kind": "rdp", "epsilon": "2", "delta": "1e-5", "orders": (8, 16)},
        {"kind": "pure", "epsilon": "1", "relation": NeighboringRelation.REPLACE_ONE, "simulation": True},
        {"kind": "approximate", "epsilon": "1", "delta": "1e-6", "quota": True},
    ]
)


def verb(name, **arguments):
    """One thing to ask of a ledger: the name of its verb, and what with."""
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


ACT = {"actor": st.just("dora"), "reason": st.sampled_from(["agreed", ""])}
REQUESTS = {"scope": SCOPES, "release": RELEASES, "key": KEYS}
LEDGER = [
    verb("create_budget", scope=SCOPES, caps=CAPS),
    verb("reserve", **REQUESTS, amount=AMOUNTS, rounds=st.sampled_from([None, 1, 2]), simulation=st.booleans()),
    verb("charge", **REQUESTS, amount=AMOUNTS),
    verb("override_cost", **REQUESTS, amount=AMOUNTS.filter(bool), reason=st.sampled_from(["agreed", ""])),
    verb("declare_partition", scope=SCOPES, epsilon=st.sampled_from(["0.5", "1"]), **ACT),
    verb("set_cap", scope=SCOPES, epsilon=st.sampled_from(["1", "3"]), delta=st.just("1e-5"), **ACT),
    verb("set_cap", scope=SCOPES, epsilon=st.sampled_from(["0.5", "3"]), **ACT),
    verb("retire", scope=st.sampled_from(["r/a", "r/b"]), **ACT),
    verb("register_plan", scope=SCOPES, plan_hash=HASHES, key=KEYS),
    *(verb(name, **ACT) for name in ("mark_restored", "accept_restored")),
    *(verb(name, key=KEYS, **ACT) for name in ("revoke", "abandon", "decommission")),
    verb("get_headroom", scope=SCOPES, release=RELEASES),
    verb("page", prefix=SCOPES, limit=st.integers(1, 5), verb=st.sampled_from([None, "started", "reserved"])),
    verb("history", prefix=st.none() | SCOPES),
    verb("spending", scope=SCOPES, limit=st.integers(1, 4)),
]
CHARGE = [
    verb("start", key=KEYS),
    verb("commit", key=KEYS, evidence=st.none() | st.fixed_dictionaries({"model": HASHES})),
    verb("cancel", key=KEYS, reason=st.sampled_from(["late", "no"])),
    verb("round_started", key=KEYS, number=st.integers(0, 3)),
    verb("round_released", key=KEYS, number=st.integers(1, 3), output_hash=HASHES),
]
STEPS = st.lists(
    st.one_of(*LEDGER, *CHARGE, *(st.just((act, {})) for act in ("swap", "reopen"))), min_size=20, max_size=40
)
USUAL = [  # so that the random steps meet charges in every state
    ("create_budget", {"scope": "r", "caps": {"kind": "approximate", "epsilon": "5", "delta": "1e-4"}}),
    ("create_budget", {"scope": "r/a", "caps": {"kind": "pure", "epsilon": "2"}}),
    ("reserve", {"scope": "r/a/x", "release": PureDP(0.25), "key": "k1", "rounds": 2}),
    ("reserve", {"scope": "r/b", "release": PureDP(0.25), "key": "k2"}),
    ("start", {"key": "k1"}),
    ("charge", {"scope": "r/a", "release": PureDP(1.0), "key": "k3"}),
]


class Twin:
    """A ledger on one store, opened twice, with a clock that stands still."""

    def __init__(self, place):
        self.place, self.ledger, self.other = place, self.opened(place), self.opened(place)

    @staticmethod
    def opened(place):
        return Ledger(place.open(), clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def swap(self):
        """The other goes on, from what it knew."""
        self.ledger, self.other = self.other, self.ledger

    def reopen(self):
        self.ledger.close()
        self.ledger = self.opened(self.place)

    def close(self):
        self.ledger.close()
        self.other.close()

    def does(self, name, arguments):
        """What comes of it, in plain values."""
        try:
            if name in ("reopen", "swap"):
                return getattr(self, name)()
            if name == "create_budget":
                return self.ledger.create_budget(arguments["scope"], **arguments["caps"])
            if name in ("start", "commit", "cancel", "hold", "round_started", "round_released"):
                charge = self.ledger.find(arguments["key"])
                if charge is None:
                    return None
                getattr(charge, name)(**{what: value for what, value in arguments.items() if what != "key"})
                return charge.state, charge.rounds_started, charge.rounds_released
            told = getattr(self.ledger, name)(**arguments)
            if name == "history":
                return list(told)
            return (str(told), told.state, told.replayed) if name in ("reserve", "charge") else told
        except (EpsilogError, ValueError) as error:
            return type(error), str(error)


def ask_all(steps):
    with tempfile.TemporaryDirectory() as folder:
        first, *others = [Twin(place(Path(folder))) for place in AVAILABLE.values()]
        for name, arguments in steps:
            told, head = first.does(name, arguments), first.ledger.head()
            for other in others:
                assert other.does(name, arguments) == told, (name, arguments)
                assert other.ledger.head() == head
        assert head[0] >= len(USUAL)
        for other in others:
            assert other.ledger.verify() == first.ledger.verify()
            assert list(other.ledger.history()) == list(first.ledger.history())
            other.close()
        first.close()


@pytest.mark.parametrize("place", AVAILABLE.values(), ids=AVAILABLE)
def test_who_retries_at_a_full_cap_is_answered_again_after_a_restart_too(place, tmp_path):
    twin = Twin(place(tmp_path))
    twin.ledger.create_budget("r", kind="pure", epsilon="0.003")
    told = [twin.ledger.charge("r", PureDP(0.001), key=f"k{number}").key for number in range(3)]
    for begin in (twin.swap, twin.reopen, lambda: twin.ledger.create_budget("other", kind="pure", epsilon="1")):
        begin()
        again = [twin.ledger.charge("r", PureDP(0.001), key=f"k{number}") for number in range(3)]
        assert [(one.key, one.replayed) for one in again] == [(key, True) for key in told]
        with pytest.raises(BudgetExceededError):
            twin.ledger.charge("r", PureDP(0.001), key="k3")
    twin.close()


@pytest.mark.slow
@settings(max_examples=amount(6, 25), deadline=None)
@given(steps=STEPS)
def test_stores_tell_one_story_whatever_is_asked(steps):
    ask_all([*USUAL, *steps])
