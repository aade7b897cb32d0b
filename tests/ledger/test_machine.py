"""The ledger against a model of it that fits on a page: dictionaries, decimals, no files."""

import shutil
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.extent import amount

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError, ConflictError

CAPS = {  # those of the first day
    "r": {"epsilon": Decimal(3), "delta": Decimal("1e-5")},
    "r/a": {"epsilon": Decimal(1)},
    "r/b": {"epsilon": Decimal(2), "delta": Decimal("2e-6")},
    "r/b/x": {"epsilon": Decimal("0.7"), "delta": Decimal("2e-6")},
    "r/q": {"epsilon": Decimal("0.5"), "delta": Decimal("1e-6")},
    "r/q/n": {"epsilon": Decimal("0.35"), "delta": Decimal("1e-6")},
}
SHARES = {"r/q": "r", "r/q/n": "r/q"}  # quotas, and what they are shares of; one is a share of a share
ACT = {"actor": "dora", "reason": "agreed"}
BEGUN = ("started", "committed", "abandoned", "decommissioned")
SUMS = {  # the states whose prices a sum is made of
    "reserved": ("reserved",),
    "started": ("started",),
    "committed": ("committed", "abandoned", "decommissioned"),
    "decommissioned": ("decommissioned",),
}
KEYS = st.sampled_from([f"key-{number}" for number in range(3)])
SCOPES = st.sampled_from(["r", "r/a", "r/a/anna", "r/b", "r/b/x", "r/b/x/y", "r/ab", "r/q", "r/q/x", "r/q/n"])
EPSILONS = st.sampled_from(["0", "0.000000001", "0.1", "0.35", "0.7", "1"])
DELTAS = st.sampled_from(["0", "1e-18", "1e-6"])
ROUNDS = st.integers(1, 4)
PICKS = st.integers(0, 2)  # whether the scope of a charge is named, and of which that has the key
HASHES = st.sampled_from(["0" * 64, "f" * 64])


class Model:
    """What the ledger should do."""

    def __init__(self):
        self.charges, self.retired = {}, set()
        self.caps = {scope: dict(caps) for scope, caps in CAPS.items()}

    def named(self, key, pick):
        """The scope that is said, and the charge that is meant: of the only one with a key, or of one of them."""
        scopes = sorted(at for at, known in self.charges if known == key)
        if pick == 0:
            return None, (scopes[0], key) if len(scopes) == 1 else None
        scope = scopes[pick % len(scopes)] if scopes else "r"
        return scope, (scope, key)

    def stands(self, scope, quantity):
        """What stands against a cap: spent or promised."""
        return self.held(scope, quantity, ("reserved", *BEGUN))

    def remaining_quota(self, scope, quantity):
        if scope in self.retired:
            return Decimal(0)
        return max(self.caps[scope][quantity] - self.stands(scope, quantity), Decimal(0))

    def set_aside(self, scope, quantity, path=()):
        """What is kept for shares that do not lie on a path."""
        shares = [share for share, of in SHARES.items() if of == scope and share not in path]
        return sum((self.remaining_quota(share, quantity) for share in shares), Decimal(0))

    def is_retired(self, path):
        return bool(self.retired.intersection(path))

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
        known = self.charges.get((scope, key))
        if known is not None and known["state"] == "registered" and known.get("stuck"):
            return ConflictError  # before anything is priced
        if known is not None and known["state"] != "registered":
            if known["state"] == "cancelled":
                return ConflictError
            if (known["epsilon"], known["delta"]) != (epsilon, delta):
                return ConflictError
            return None
        asked = {"epsilon": Decimal(epsilon), "delta": Decimal(delta)}
        for budget in path:
            if "delta" not in CAPS[budget] and asked["delta"]:
                return ValueError
        if known is not None:
            return ConflictError  # these reserve without a plan
        if self.is_retired(path):
            return BudgetExceededError
        for budget in path:
            for quantity, cap in self.caps[budget].items():
                aside = self.set_aside(budget, quantity, path)
                if self.stands(budget, quantity) + aside + asked[quantity] > cap:
                    return BudgetExceededError
        charge = {"path": path, "epsilon": epsilon, "delta": delta, "state": steps}
        self.charges[scope, key] = charge | {"started": set(), "released": {}}
        return None

    def move(self, name, source, target):
        charge = self.charges.get(name)
        if charge is None or charge["state"] not in (source, target):
            return ConflictError
        if (charge["state"] == target and target == "started") or charge.get("stuck"):
            return ConflictError
        if charge["state"] == target == "cancelled" and charge.get("by another"):
            return ConflictError  # it was given back, and nobody said of it what is said now
        if target == "committed" and charge["state"] == "started" and charge["started"] != set(charge["released"]):
            return ConflictError
        if target == "started" and self.is_retired(charge["path"]):
            return BudgetExceededError
        charge["state"] = target
        return None

    def close(self, name, needs, target):
        """An owner's act on a charge, or what time does to it; it may come twice."""
        charge = self.charges.get(name)
        if charge is None or charge["state"] not in needs or (charge.get("stuck") and target != "abandoned"):
            return ConflictError
        charge["state"] = target
        charge.pop("stuck", None)
        return None

    def register(self, key, scope):
        known = self.charges.get((scope, key))
        if known is not None:
            return None if known["state"] == "registered" else ConflictError
        path = [budget for budget in CAPS if f"{scope}/".startswith(f"{budget}/")]
        if self.is_retired(path):
            return BudgetExceededError
        nothing = {"epsilon": "0", "delta": "0", "started": set(), "released": {}}
        self.charges[scope, key] = {"path": path, "state": "registered", **nothing}
        return None

    def set_cap(self, scope, epsilon):
        above = [budget for budget in CAPS if f"{scope}/".startswith(f"{budget}/")]
        if self.caps[scope]["epsilon"] == epsilon:
            return None
        if self.is_retired(above):
            return ConflictError
        if scope in SHARES:
            of = SHARES[scope]
            before, old = self.remaining_quota(scope, "epsilon"), self.caps[scope]["epsilon"]
            self.caps[scope]["epsilon"] = epsilon
            grown = self.remaining_quota(scope, "epsilon") > before
            full = self.stands(of, "epsilon") + self.set_aside(of, "epsilon") > self.caps[of]["epsilon"]
            if grown and full:
                self.caps[scope]["epsilon"] = old
                return BudgetExceededError
        self.caps[scope]["epsilon"] = epsilon
        return None

    def round_started(self, name, number):
        charge = self.charges.get(name)
        if charge is None or charge["state"] != "started" or number in charge["released"] or number > 3:
            return ConflictError
        if charge.get("stuck"):
            return ConflictError
        if set(charge["released"]) != set(range(1, number)):
            return ConflictError
        charge["started"].add(number)
        return None

    def round_released(self, name, number, output_hash):
        charge = self.charges.get(name)
        if charge is None or charge["state"] != "started" or number not in charge["started"] or charge.get("stuck"):
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
            texts = {quantity: str(cap) for quantity, cap in caps.items()}
            self.ledger.create_budget(scope, kind=kind, quota=scope in SHARES, **texts)

    def open(self):
        self.ledger = open_ledger(self.folder / "budget.db")

    @contextmanager
    def as_modeled(self, expected):
        if expected is None:
            yield
        else:
            with pytest.raises(expected):
                yield

    def charge(self, key, scope):
        charge = self.ledger.find(key, scope=scope)
        if charge is None:
            raise ConflictError("no such charge")
        return charge

    @rule(key=KEYS, scope=SCOPES, epsilon=EPSILONS, delta=DELTAS)
    def reserve(self, key, scope, epsilon, delta):
        with self.as_modeled(self.model.reserve(key, scope, epsilon, delta, "reserved")):
            amount = {"epsilon": epsilon, "delta": delta}
            self.ledger.reserve(scope, PureDP(float(epsilon)), key=key, rounds=3, amount=amount)

    @rule(key=KEYS, pick=PICKS)
    def start(self, key, pick):
        scope, name = self.model.named(key, pick)
        with self.as_modeled(self.model.move(name, "reserved", "started")):
            self.charge(key, scope).start()

    @rule(key=KEYS, pick=PICKS)
    def commit(self, key, pick):
        scope, name = self.model.named(key, pick)
        with self.as_modeled(self.model.move(name, "started", "committed")):
            self.charge(key, scope).commit()

    @rule(key=KEYS, pick=PICKS)
    def cancel(self, key, pick):
        scope, name = self.model.named(key, pick)
        with self.as_modeled(self.model.move(name, "reserved", "cancelled")):
            self.charge(key, scope).cancel("because")

    @rule(key=KEYS, scope=SCOPES)
    def register(self, key, scope):
        with self.as_modeled(self.model.register(key, scope)):
            self.ledger.register_plan(scope, "ab" * 32, key=key)

    @rule(key=KEYS, pick=PICKS)
    def revoke(self, key, pick):
        scope, name = self.model.named(key, pick)
        modeled = self.model.charges.get(name, {}).get("state") != "cancelled"  # else it depends on how it was
        if modeled:
            with self.as_modeled(self.model.close(name, ("reserved",), "cancelled")):
                self.ledger.revoke(key, scope=scope, **ACT)
                self.model.charges[name]["by another"] = True

    @rule(key=KEYS, pick=PICKS)
    def abandon(self, key, pick):
        scope, name = self.model.named(key, pick)
        if self.model.charges.get(name, {}).get("state") not in ("abandoned", "decommissioned"):
            with self.as_modeled(self.model.close(name, ("reserved", "started"), "abandoned")):
                self.ledger.abandon(key, scope=scope, **ACT)

    @rule(key=KEYS, pick=PICKS)
    def decommission(self, key, pick):
        scope, name = self.model.named(key, pick)
        with self.as_modeled(self.model.close(name, ("committed", "abandoned", "decommissioned"), "decommissioned")):
            self.ledger.decommission(key, scope=scope, **ACT)

    @rule(key=KEYS, pick=PICKS, late=st.booleans())
    def hold_and_expire(self, key, pick, late):
        """A reservation that is held expires when its time has come, and not before."""
        scope, name = self.model.named(key, pick)
        charge = self.model.charges.get(name)
        if charge is None or charge["state"] != "reserved" or self.model.is_retired(charge["path"]):
            return
        if charge.get("stuck"):
            return
        now = datetime.now(UTC)
        self.charge(key, scope).hold(now - timedelta(hours=1) if late else now + timedelta(hours=1))
        with self.as_modeled(None if late else ConflictError):
            self.ledger.expire(key, scope=scope)
        if late:
            charge |= {"state": "cancelled", "by another": True}

    @rule(scope=st.sampled_from(sorted(CAPS)), epsilon=st.sampled_from(["0.2", "0.5", "1", "2", "3.5"]))
    def set_cap(self, scope, epsilon):
        with self.as_modeled(self.model.set_cap(scope, Decimal(epsilon))):
            caps = {quantity: str(cap) for quantity, cap in self.model.caps[scope].items()} | {"epsilon": epsilon}
            self.ledger.set_cap(scope, **caps, **ACT)

    @rule()
    def restore(self):
        """Out of a backup: nothing happens before it is accepted, and nothing that was open goes on."""
        self.ledger.mark_restored(**ACT)
        with pytest.raises(ConflictError):
            self.ledger.charge("r", PureDP(0.0), key="never")
        self.ledger.accept_restored(**ACT)
        for charge in self.model.charges.values():
            if charge["state"] in ("registered", "reserved", "started"):
                charge["stuck"] = True

    @rule(scope=st.sampled_from(["r/a", "r/b/x", "r/q", "r/q/n"]))
    def retire(self, scope):
        above = [budget for budget in CAPS if scope.startswith(f"{budget}/")]
        gone = scope not in self.model.retired and self.model.is_retired(above)
        with self.as_modeled(ConflictError if gone else None):
            self.ledger.retire(scope, **ACT)
            self.model.retired.add(scope)

    @rule(key=KEYS, pick=PICKS, number=ROUNDS)
    def round_started(self, key, pick, number):
        scope, name = self.model.named(key, pick)
        with self.as_modeled(self.model.round_started(name, number)):
            self.charge(key, scope).round_started(number)

    @rule(key=KEYS, pick=PICKS, number=ROUNDS, output_hash=HASHES)
    def round_released(self, key, pick, number, output_hash):
        scope, name = self.model.named(key, pick)
        with self.as_modeled(self.model.round_released(name, number, output_hash)):
            self.charge(key, scope).round_released(number, output_hash=output_hash)

    @rule()
    def restart(self):
        self.ledger.close()
        self.open()

    @invariant()
    def balances_agree(self):
        for balance in self.ledger.budgets():
            for quantity, cap in self.model.caps[balance.scope].items():
                for name, states in SUMS.items():
                    found = getattr(balance, name)
                    modeled = self.model.held(balance.scope, quantity, states)
                    assert Decimal("0" if found is None else found[quantity]) == modeled
                aside = balance.set_aside
                assert Decimal("0" if aside is None else aside[quantity]) == self.model.set_aside(
                    balance.scope, quantity
                )
                assert Decimal(balance.caps[quantity]) == cap
            assert (balance.retired is not None) == (balance.scope in self.model.retired)

    @invariant()
    def nothing_is_held_above_the_highest_cap(self):
        """Whatever quotas there are: what stands against a budget was admitted under a cap that it has had."""
        for scope, caps in self.model.caps.items():
            self.highest = getattr(self, "highest", {})
            for quantity, cap in caps.items():
                top = self.highest[scope, quantity] = max(cap, self.highest.get((scope, quantity), cap))
                assert self.model.stands(scope, quantity) <= top

    @invariant()
    def charges_agree(self):
        for (scope, key), modeled in self.model.charges.items():
            if modeled["state"] == "registered":
                assert self.ledger.find(key, scope=scope) is None
                continue
            charge = self.charge(key, scope)
            assert charge.state == modeled["state"]
            assert set(charge.rounds_started) == modeled["started"]
            assert charge.rounds_released == modeled["released"]

    def teardown(self):
        if hasattr(self, "ledger"):
            verified = self.ledger.verify()
            assert verified.charges.keys() == self.model.charges.keys()
            self.ledger.close()
            shutil.rmtree(self.folder)


class TestLedger(LedgerMachine.TestCase):
    settings = settings(
        max_examples=amount(8, 24), stateful_step_count=amount(30, 40), deadline=None, report_multiple_bugs=False
    )
