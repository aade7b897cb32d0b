"""What a notebook shows of plans, balances, verdicts and audits: bounds on their own side, and all text escaped."""

import html
import re
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

from epsilog import plan
from epsilog.plan import register
from epsilog.programme.story import Outcome
from epsilog.spend import open_ledger
from epsilog.terms import ClientLevelCentral, Finding, Gaussian, NeighboringRelation, Verdict
from epsilog.terms.digits import upper_text
from epsilog.verify import Reconciliation
from epsilog.verify.audits import Protocol, one_run

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def registered():
    return register(
        lambda z: ClientLevelCentral(50, 0.1, 3, 1.0, z),
        name=EVIL,
        noise_multiplier=2.0,
        budget_epsilon=Decimal(30),
        delta=Decimal("1e-5"),
        relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        privacy_unit=EVIL,
        population=50,
        budget={"scope": EVIL, "epsilon": "30", "delta": "1e-5", "delta_rationale": "a cap"},
        simulation=True,
        details={},
    )


def cells(shown):
    """The text of each cell; no tag but a table's is left."""
    assert set(re.findall(r"</?(\w+)", shown)) <= {"table", "caption", "tr", "th", "td"}
    return [html.unescape(text) for text in re.findall(r"<t[hd][^>]*>([^<]*)<", shown)]


def test_plans_show_their_bounds(registered):
    shown = cells(registered._repr_html_())
    assert upper_text(registered.epsilon.upper) in shown
    assert upper_text(registered.unamplified.upper) in shown
    assert EVIL in " ".join(shown)
    federated = plan.federated(population=1000, cohort_size=10, rounds=5, noise_multiplier=1.0, delta=1e-6)
    assert upper_text(federated.epsilon.upper) in cells(federated._repr_html_())
    queries = plan.queries(epsilon=1.0, queries=4, mechanism="laplace")
    assert f"{queries.shares[0].optimal.scale:.6g}" in cells(queries._repr_html_())


def test_a_balance_shows_what_is_left(tmp_path):
    with open_ledger(tmp_path / "b.db") as books:
        books.create_budget("acme", kind="gdp", mu_squared="2")
        books.charge("acme", Gaussian(1.0), key="k")
        (balance,) = books.budgets()
        shown = cells(balance._repr_html_())
    assert shown[-5:] == [
        "mu_squared",
        *(getattr(balance, part)["mu_squared"] for part in ("caps", "reserved", "spent", "available")),
    ]


def test_verdicts_runs_and_audits_are_shown(registered):
    found = Reconciliation((Finding("noise/too-weak", Verdict.FAILED, EVIL),))
    assert cells(found._repr_html_())[-3:] == ["noise", "failed", EVIL]
    told = {"claim": {"statement": EVIL}}
    whole = cells(Outcome(registered, found, told, None, SimpleNamespace())._repr_html_())
    assert whole.count(EVIL) >= 2
    coins = np.arange(100) % 2
    audit = one_run(coins.astype(float), coins, Protocol(100, 1e-5))
    assert "it promises nothing" in audit._repr_html_()
    assert cells(audit._repr_html_())[1] != "0"
