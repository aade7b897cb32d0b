"""A zcdp or gdp budget that promises (epsilon, delta): the cap keeps it, no larger one does, and verify says so."""

import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings, strategies as st
from tests.ledger.stores import InFile

from epsilog.accounting import epsilon
from epsilog.ledger import Amounts, Ledger, iterate_verified_documents, read_verified_entries, write_bundle
from epsilog.ledger.cap_conversion import convert_caps_to_epsilon, convert_guarantee_to_caps
from epsilog.mechanisms import Gaussian
from epsilog.terms import CheckError, ConflictError, LedgerIntegrityError, NeighboringRelation

ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
PROMISE = {"epsilon": "2", "delta": "1e-5"}


@pytest.fixture
def place(tmp_path):
    return InFile(tmp_path)


@pytest.fixture
def ledger(place):
    with Ledger(place.open()) as books:
        yield books


def promised(epsilon="2", delta="1e-5"):
    return Amounts.from_cap({"epsilon": epsilon, "delta": delta})


def gaussian_delta(mu_squared, epsilon):
    """Balle & Wang 2018, Theorem 8, to 50 digits."""
    with mpmath.workdps(50):
        mu, eps = mpmath.sqrt(mpmath.mpf(str(mu_squared))), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


@pytest.mark.slow
@given(st.floats(1e-3, 50), st.integers(2, 15))
@settings(max_examples=8)
def test_the_cap_of_a_gdp_budget_keeps_its_promise_and_hardly_more_would(eps, digits):
    promise = promised(f"{eps:.6f}", f"1e-{digits}")
    cap = Fraction(convert_guarantee_to_caps("gdp", promise, ADD_OR_REMOVE_ONE)["mu_squared"])
    delta = mpmath.mpf(promise["delta"])
    assert gaussian_delta(float(cap), promise["epsilon"]) <= delta
    assert gaussian_delta(float(cap) * (1 + 1e-5), promise["epsilon"]) > delta


@pytest.mark.slow
@pytest.mark.parametrize(("eps", "delta"), [("0.1", "1e-9"), ("8", "1e-6")])
def test_the_cap_of_a_zcdp_budget_keeps_its_promise_by_another_s_conversion(eps, delta):
    """dp-accounting converts the RDP curve of rho-zCDP at orders so close to each other that the best is among them."""
    rho = float(convert_guarantee_to_caps("zcdp", promised(eps, delta), ADD_OR_REMOVE_ONE)["rho"])
    orders = 1 + np.geomspace(1e-2, 1e3, 100_000)
    theirs, _ = rdp_privacy_accountant.compute_epsilon(orders, rho * orders, float(delta))
    assert float(eps) * 0.999999 < theirs <= float(eps)
    assert convert_caps_to_epsilon(
        "zcdp", Amounts.from_charge({"rho": rho}), delta=delta, relation=ADD_OR_REMOVE_ONE
    ) <= float(eps)


@pytest.mark.parametrize("eps", ["1000", "400000", "1000000"])
def test_caps_are_between_the_closed_form_and_epsilon(eps):
    """At least what epsilon = rho + 2 sqrt(rho ln(1 / delta)) allows (Bun & Steinke 2016); Gaussians cost no more."""
    rho = float(convert_guarantee_to_caps("zcdp", promised(eps, "1e-5"), ADD_OR_REMOVE_ONE)["rho"])
    mu_squared = float(convert_guarantee_to_caps("gdp", promised(eps, "1e-5"), ADD_OR_REMOVE_ONE)["mu_squared"])
    log = math.log(1e5)
    assert (math.sqrt(log + float(eps)) - math.sqrt(log)) ** 2 * (1 - 1e-6) <= rho <= float(eps)
    assert min(2 * rho, 1e6) * (1 - 1e-6) <= mu_squared


@pytest.mark.slow
def test_many_more_gaussian_answers_fit_than_under_basic_composition():
    shown = {kind: int(count.replace(",", "")) for kind, count in re.findall(
        r"^\| `(\w+)` \| ([\d,]+) \|$", Path("docs/ledger.md").read_text(), flags=re.MULTILINE
    )}  # fmt: skip
    rho = Fraction(convert_guarantee_to_caps("zcdp", promised(), ADD_OR_REMOVE_ONE)["rho"])
    mu_squared = Fraction(convert_guarantee_to_caps("gdp", promised(), ADD_OR_REMOVE_ONE)["mu_squared"])
    costs = [k * epsilon(Gaussian(100.0), delta=1e-5 / k).upper for k in (52, 53)]
    assert costs[0] <= 2 < costs[1]
    assert shown == {"approximate": 52, "zcdp": rho // Fraction(1, 20_000), "gdp": mu_squared // Fraction(1, 10_000)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zcdp", "gdp"])
def test_a_promise_is_kept_written_and_verified(place, ledger, kind):
    made = ledger.create_budget("acme", kind=kind, **PROMISE)
    assert dict(made.target_guarantee) == {"epsilon": "2", "delta": "0.00001"}
    assert ledger.create_budget("acme", kind=kind, **PROMISE) == made
    with pytest.raises(ConflictError):
        ledger.create_budget("acme", kind=kind, epsilon="2.1", delta="1e-5")
    with pytest.raises(ConflictError):
        ledger.create_budget("acme", kind=kind, **made.caps)
    ledger.charge("acme", Gaussian(100.0), key="q")
    changed = ledger.set_cap("acme", actor="dora", reason="agreed", epsilon="3", delta="1e-5")
    assert Fraction(next(iter(changed.caps.values()))) > Fraction(next(iter(made.caps.values())))
    assert ledger.verify().balances["acme"].target_guarantee["epsilon"] == "3"
    count = ledger.head()[0]
    assert ledger.set_cap("acme", actor="dora", reason="again", epsilon="3", delta="1e-5") == changed
    assert ledger.head()[0] == count
    ledger.close()
    with Ledger(place.open()) as again:
        stated = again.set_cap("acme", actor="dora", reason="by itself", **changed.caps)
        assert (stated.target_guarantee, stated.caps) == (None, changed.caps)
        assert again.verify().count == count + 1


@pytest.mark.parametrize("kind", ["zcdp", "gdp"])
def test_a_cap_that_does_not_keep_its_promise_is_found(place, ledger, kind, monkeypatch, tmp_path):
    """As one who may write the file would say it: right hashes, right balances, too large a cap."""
    honest = convert_guarantee_to_caps(kind, promised(), ADD_OR_REMOVE_ONE)
    larger = Amounts({quantity: units * 1001 // 1000 for quantity, units in honest.units.items()})
    monkeypatch.setattr("epsilog.ledger.cap_conversion.convert_guarantee_to_caps", lambda *_: larger)
    ledger.create_budget("acme", kind="pure", epsilon="1")
    ledger.create_budget("other", kind=kind, **PROMISE)
    with pytest.raises(LedgerIntegrityError, match=r"guarantees .*epsilon 2\.00") as caught:
        ledger.verify()
    assert caught.value.index == 2
    ledger.set_cap("other", actor="dora", reason="mends nothing", **honest)
    with pytest.raises(LedgerIntegrityError, match="guarantees"):  # it stood, and may have been relied on
        ledger.verify()


@pytest.mark.parametrize(
    ("kind", "caps", "says"),
    [
        ("zcdp", {"epsilon": "1", "delta": "0"}, "delta must be above 0"),
        ("gdp", {"epsilon": "0", "delta": "1e-5"}, "epsilon must be above 0"),
        ("zcdp", {"epsilon": "1"}, r"caps of a zcdp budget must be rho \(or epsilon, delta\), got epsilon"),
        ("gdp", {"epsilon": "1", "delta": "1e-5", "mu_squared": "1"}, "caps of a gdp budget must be"),
        ("zcdp", {"epsilon": "1e-9", "delta": "1e-18"}, "epsilon must be an epsilon that some rho guarantees"),
        ("gdp", {"epsilon": "nan", "delta": "1e-5"}, "epsilon must be a decimal number"),
        ("gdp", {"epsilon": "1", "delta": "1"}, r"delta must be in \[0, 1\)"),
        ("approximate", {"rho": "1"}, "caps of a approximate budget must be epsilon, delta"),
    ],
)
def test_what_cannot_be_promised_is_refused_and_nothing_is_written(ledger, kind, caps, says):
    with pytest.raises(ValueError, match=says):
        ledger.create_budget("acme", kind=kind, **caps)
    assert ledger.head()[0] == 0


def test_a_promise_travels_in_a_bundle(place, ledger, tmp_path):
    ledger.create_budget("acme", kind="gdp", **PROMISE)
    write_bundle(iterate_verified_documents(ledger), tmp_path / "l.bundle", origin="acme")
    assert (
        read_verified_entries(tmp_path / "l.bundle").verified.balances["acme"].target_guarantee
        == ledger.balance("acme").target_guarantee
    )


def test_no_other_kind_promises():
    with pytest.raises(CheckError, match="target_guarantee must be of a zcdp or gdp or rdp budget"):
        convert_guarantee_to_caps("approximate", promised(), ADD_OR_REMOVE_ONE)
