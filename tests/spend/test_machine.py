"""The ledger against a model of it that fits on a page: dictionaries, decimals, no files."""

import shutil
import tempfile
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from epsilog.spend import open_ledger
from epsilog.terms import BudgetExceededError, ConflictError, PureDP

CAPS = {
    "r": {"epsilon": Decimal(3), "delta": Decimal("1e-5")},
    "r/a": {"epsilon": Decimal(1)},
    "r/b": {"epsilon": Decimal(2), "delta": Decimal("2e-6")},
    "r/b/x": {"epsilon": Decimal("0.7"), "delta": Decimal("2e-6")},
}
KEYS = st.sampled_from([f"key-{number}" for number in range(6)])
SCOPES = st.sampled_from(["r", "r/a", "r/a/anna", "r/b", "r/b/x", "r/b/x/y", "r/ab"])
EPSILONS = st.sampled_from(["0", "0.000000001", "0.1", "0.35", "0.7", "1"])
DELTAS = st.sampled_from(["0", "1e-18", "1e-6"])
ROUNDS = st.integers(1, 4)
HASHES = st.sampled_from(["0" * 64, "f" * 64])


class Model:
    """What the ledger should do."""

    def __init__(self):
        self.charges = {}

    def held(self, scope, quantity, states):
        return sum(
            (
                Decimal(charge[quantity])
                for charge in self.charges.values()
                if charge["state"] in states and scope in charge["path"]
            ),
            Decimal(0),
        )

    def reserve(self, key, scope, epsilon, delta, steps):
        path = [budget for budget in CAPS if f"{scope}/".startswith(f"{budget}/")]
        if key in self.charges:
            known = self.charges[key]
            if known["state"] == "cancelled":
                return ConflictError
            if (known["scope"], known["epsilon"], known["delta"]) != (scope, epsilon, delta):
                return ConflictError
            return None
        asked = {"epsilon": Decimal(epsilon), "delta": Decimal(delta)}
        for budget in path:
            if "delta" not in CAPS[budget] and asked["delta"]:
                return ValueError
        for budget in path:
            for quantity, cap in CAPS[budget].items():
                if self.held(budget, quantity, ("reserved", "started", "committed")) + asked[quantity] > cap:
                    return BudgetExceededError
        charge = {"scope": scope, "path": path, "epsilon": epsilon, "delta": delta, "state": steps}
        self.charges[key] = charge | {"started": set(), "released": {}}
        return None

    def move(self, key, source, target):
        charge = self.charges.get(key)
        if charge is None or charge["state"] not in (source, target):
            return ConflictError
        if charge["state"] == target and target == "started":
            return ConflictError
        if target == "committed" and charge["state"] == "started" and charge["started"] != set(charge["released"]):
            return ConflictError
        charge["state"] = target
        return None

    def round_started(self, key, number):
        charge = self.charges.get(key)
        if charge is None or charge["state"] != "started" or number in charge["released"] or number > 3:
            return ConflictError
        if set(charge["released"]) != set(range(1, number)):
            return ConflictError
        charge["started"].add(number)
        return None

    def round_released(self, key, number, output_hash):
        charge = self.charges.get(key)
        if charge is None or charge["state"] != "started" or number not in charge["started"]:
            return ConflictError
        if charge["released"].setdefault(number, output_hash) != output_hash:
            return ConflictError
        return None


class LedgerMachine(RuleBasedStateMachine):
    @initialize()
    def opened(self):
        self.folder = Path(tempfile.mkdtemp())
        self.model = Model()
        self.open()
        for scope, caps in CAPS.items():
            kind = "approximate" if "delta" in caps else "pure"
            self.ledger.create_budget(scope, kind=kind, **{quantity: str(cap) for quantity, cap in caps.items()})

    def open(self):
        self.ledger = open_ledger(self.folder / "budget.db")

    @contextmanager
    def as_modelled(self, expected):
        if expected is None:
            yield
        else:
            with pytest.raises(expected):
                yield

    def charge(self, key):
        charge = self.ledger.find(key)
        if charge is None:
            raise ConflictError("no such charge")
        return charge

    @rule(key=KEYS, scope=SCOPES, epsilon=EPSILONS, delta=DELTAS)
    def reserve(self, key, scope, epsilon, delta):
        with self.as_modelled(self.model.reserve(key, scope, epsilon, delta, "reserved")):
            amount = {"epsilon": epsilon, "delta": delta}
            self.ledger.reserve(scope, PureDP(float(epsilon)), key=key, rounds=3, amount=amount)

    @rule(key=KEYS)
    def start(self, key):
        with self.as_modelled(self.model.move(key, "reserved", "started")):
            self.charge(key).start()

    @rule(key=KEYS)
    def commit(self, key):
        with self.as_modelled(self.model.move(key, "started", "committed")):
            self.charge(key).commit()

    @rule(key=KEYS)
    def cancel(self, key):
        with self.as_modelled(self.model.move(key, "reserved", "cancelled")):
            self.charge(key).cancel("because")

    @rule(key=KEYS, number=ROUNDS)
    def round_started(self, key, number):
        with self.as_modelled(self.model.round_started(key, number)):
            self.charge(key).round_started(number)

    @rule(key=KEYS, number=ROUNDS, output_hash=HASHES)
    def round_released(self, key, number, output_hash):
        with self.as_modelled(self.model.round_released(key, number, output_hash)):
            self.charge(key).round_released(number, output_hash=output_hash)

    @rule()
    def restart(self):
        self.ledger.close()
        self.open()

    @invariant()
    def balances_agree(self):
        for balance in self.ledger.budgets():
            for quantity, cap in CAPS[balance.scope].items():
                for name in ("reserved", "started", "committed"):
                    assert Decimal(getattr(balance, name)[quantity]) == self.model.held(
                        balance.scope, quantity, (name,)
                    )
                assert Decimal(balance.caps[quantity]) == cap

    @invariant()
    def charges_agree(self):
        for key, modelled in self.model.charges.items():
            charge = self.charge(key)
            assert charge.state == modelled["state"]
            assert set(charge.rounds_started) == modelled["started"]
            assert charge.rounds_released == modelled["released"]

    def teardown(self):
        if hasattr(self, "ledger"):
            verified = self.ledger.verify()
            assert verified.charges.keys() == self.model.charges.keys()
            self.ledger.close()
            shutil.rmtree(self.folder)


class TestLedger(LedgerMachine.TestCase):
    settings = settings(max_examples=6, stateful_step_count=25, deadline=None)


@pytest.mark.slow
class TestLedgerAtLength(LedgerMachine.TestCase):
    settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
