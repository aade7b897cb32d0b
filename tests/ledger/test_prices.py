"""A stated price is at least what the accountant proves, or an owner has allowed it, with a reason, as an entry."""

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from tests.ledger.test_replay import rehashed

from epsilog.ledger import ChargeRequest, Verb, replay, verify_ledger
from epsilog.ledger.amounts import Amounts
from epsilog.ledger.cost import bound_cost_below
from epsilog.mechanisms import (
    ApproximateDP,
    Composed,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    ReportNoisyMax,
    Shuffled,
    SparseVector,
    Staircase,
    ZeroConcentratedDP,
)
from epsilog.terms import (
    BudgetExceededError,
    ConflictError,
    LedgerIntegrityError,
    NeighboringRelation,
    UnsupportedMechanismError,
)

SCOPES = {
    "pure": {"epsilon": "1e6"},
    "approximate": {"epsilon": "1e6", "delta": "0.5"},
    "zcdp": {"rho": "1e6"},
    "gdp": {"mu_squared": "1e6"},
}


@pytest.fixture
def books(ledger):
    for kind, caps in SCOPES.items():
        ledger.create_budget(kind, kind=kind, **caps)
    return ledger


@pytest.mark.slow_beyond(5)
@pytest.mark.parametrize(
    ("kind", "release", "amount"),
    [
        ("approximate", Gaussian(0.1), {"epsilon": "0"}),
        ("approximate", Gaussian(0.1), {"epsilon": "96", "delta": "1e-6"}),
        ("approximate", Repeated(PoissonSampled(Gaussian(1.0), 0.01), 500), {"epsilon": "0.25", "delta": "1e-7"}),
        ("approximate", ApproximateDP(1.0, 1e-6), {"epsilon": "1", "delta": "1e-7"}),
        ("approximate", ApproximateDP(1.0, 1e-6), {"epsilon": "1"}),
        ("approximate", PureDP(1.0), {"epsilon": "0.9", "delta": "1e-9"}),
        ("approximate", Composed([PureDP(1.0), Gaussian(0.0)]), {"epsilon": "1", "delta": "0.4"}),
        ("pure", Gaussian(100.0), {"epsilon": "900000"}),
        ("pure", PureDP(1.0), {"epsilon": "0.999999999"}),
        ("pure", Repeated(Laplace(1.0), 3), {"epsilon": "1"}),
        ("pure", SparseVector(2.0, 8.0, positives=3), {"epsilon": "0.875"}),  # as if it were monotone
        ("pure", ReportNoisyMax(1.0, "exponential"), {"epsilon": "0.999999999"}),
        ("zcdp", Gaussian(0.1), {"rho": "0"}),
        ("zcdp", Gaussian(0.1), {"rho": "49.999999"}),
        ("zcdp", ZeroConcentratedDP(0.1), {"rho": "0.099999999999999"}),
        ("gdp", Gaussian(0.1), {"mu_squared": "99.999999"}),
        ("gdp", GaussianDP(2.0), {"mu_squared": "3.999999999999999"}),
    ],
)
def test_a_price_below_what_is_proven_is_refused_and_an_owner_may_allow_it(books, path, kind, release, amount):
    before = books.head()
    for verb in (books.reserve, books.charge):
        with pytest.raises(ValueError, match=r"amount must be at least .*an owner can allow less"):
            verb(kind, release, key="1", amount=amount)
    assert books.head() == before
    books.override_cost(kind, release, key="1", amount=amount, reason="minutes of 2026-01-01")
    assert books.find("1") is None
    charge = books.charge(kind, release, key="1", amount=amount)
    assert not charge.replayed
    assert [entry.verb for entry in books.history(kind)] == [
        Verb.BUDGET_CREATED,
        Verb.COST_OVERRIDDEN,
        Verb.CHARGED,
    ]
    assert list(books.history(kind))[1].body["reason"] == "minutes of 2026-01-01"
    assert list(books.history(kind))[2].body["methods"] == {kind: "method/cost-override@1"}
    assert verify_ledger(path).overridden == ((kind, "1"),)


@pytest.mark.parametrize(
    ("kind", "release", "amount"),
    [
        ("approximate", Gaussian(1.0), {"epsilon": "4.378", "delta": "1e-5"}),
        ("approximate", PureDP(0.1), {"epsilon": "0.1"}),
        ("approximate", PureDP(0.1), {"epsilon": "0.1", "delta": "1e-6"}),
        ("approximate", ApproximateDP(0.1, 1e-6), {"epsilon": "0.1", "delta": "1e-6"}),
        ("pure", PureDP(0.3), {"epsilon": "0.3"}),
        ("pure", PureDP(0.3), {"epsilon": Decimal("0.4")}),
        ("zcdp", ZeroConcentratedDP(0.1), {"rho": "0.1"}),
        ("zcdp", Gaussian(1.0), {"rho": "0.500001"}),
        ("gdp", GaussianDP(0.3), {"mu_squared": "0.09"}),
    ],
)
def test_a_price_that_is_proven_or_dearer_is_charged_as_stated(books, path, kind, release, amount):
    charge = books.charge(kind, release, key="1", amount=amount)
    for quantity, value in amount.items():
        assert Fraction(charge.amounts[kind][quantity]) == Fraction(value)
    assert verify_ledger(path).overridden == ()


def test_what_nothing_prices_is_for_an_owner(books):
    release = Composed([PureDP(0.1), Shuffled(Laplace(1.0), 1000)])
    with pytest.raises(UnsupportedMechanismError, match="an owner can allow an amount"):
        books.charge("approximate", release, key="1", amount={"epsilon": "9", "delta": "1e-6"})


def test_an_owner_allows_one_request_under_one_key(books):
    allowed = {"release": Gaussian(0.1), "amount": {"epsilon": "1"}}
    books.override_cost("approximate/a", key="1", reason="because", **allowed)
    books.override_cost("approximate/a", key="1", reason="because", **allowed)
    count = books.verify().count
    with pytest.raises(ConflictError):
        books.override_cost("approximate/a", key="1", reason="another", **allowed)
    for scope, changes in (
        ("approximate", {}),  # where the same key is that of no charge
        ("approximate/a", {"amount": {"epsilon": "0.5"}}),
        ("approximate/a", {"release": Gaussian(0.05)}),
    ):
        with pytest.raises(ValueError, match="amount must be at least"):
            books.charge(scope, key="1", **allowed | changes)
    for changes in ({"release": PureDP(0.1)}, {"release": PureDP(0.1), "amount": None}):
        with pytest.raises(ConflictError, match="a cost override for another request"):
            books.charge("approximate/a", key="1", **allowed | changes)
    with pytest.raises(ValueError, match="reason must be"):
        books.override_cost("approximate", key="2", reason=" ", **allowed)
    assert books.verify().count == count
    charge = books.reserve("approximate/a", key="1", **allowed)
    charge.cancel("no")
    with pytest.raises(ConflictError):
        books.override_cost("approximate/a", key="1", reason="because", **allowed)
    with pytest.raises(ConflictError):
        books.charge("approximate/a", key="1", **allowed)
    books.charge("approximate/a", PureDP(0.1), key="2")
    with pytest.raises(ConflictError, match="must be reserved once"):
        books.override_cost("approximate/a", key="2", reason="because", **allowed)
    books.verify()


def test_a_budget_comes_before_what_was_allowed_under_it_too(books, path):
    books.override_cost("pure/a", Gaussian(1.0), key="1", amount={"epsilon": "1"}, reason="because")
    with pytest.raises(ConflictError, match="before any charge"):
        books.create_budget("pure/a", kind="pure", epsilon="1")
    with pytest.raises(ValueError, match="at or under a budget"):
        books.override_cost("none", Gaussian(1.0), key="2", amount={"epsilon": "1"}, reason="because")
    assert verify_ledger(path).charges["pure/a", "1"].state == "overridden"


def test_an_amount_is_priced_under_the_relation_of_its_budget(ledger):
    ledger.create_budget("a", kind="zcdp", rho="10", relation=NeighboringRelation.REPLACE_ONE)
    with pytest.raises(ValueError, match="amount must be at least"):
        ledger.charge("a", Gaussian(1.0), key="1", amount={"rho": "1.9"})
    ledger.charge("a", Gaussian(1.0), key="1", amount={"rho": "2.000001"})


def test_a_tiny_decimal_is_charged_a_unit_and_caps_nothing(ledger):
    with pytest.raises(ValueError, match="at least one unit"):
        ledger.create_budget("acme", kind="pure", epsilon=Decimal("1e-999"))
    ledger.create_budget("acme", kind="pure", epsilon="1")
    for value in (Decimal("1e-999999999"), Decimal("1e999999999")):
        with pytest.raises(ValueError, match="epsilon must have an exponent"):
            ledger.charge("acme", PureDP(0.0), key="1", amount={"epsilon": value})
    charge = ledger.charge("acme", PureDP(0.0), key="1", amount={"epsilon": Decimal("1e-999")})
    assert charge.amounts["pure"] == {"epsilon": "0.000000001"}


@pytest.mark.parametrize("kind", ["zcdp", "gdp"])
@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_what_is_proven_to_cost_at_least_is_never_more_than_the_truth(kind, relation):
    """The square of a mu that was rounded up, in whole units: compared with the rational number that it stands for."""
    quantity = "mu_squared" if kind == "gdp" else "rho"
    for noise in [*np.random.default_rng(3).uniform(1e-4, 3, 60).tolist(), 1e-4, 0.001, 0.3, 1.0, 7.0]:
        for count in (1, 3, 10**4):
            request = ChargeRequest(Repeated(Gaussian(noise), count), relation=NeighboringRelation(relation))
            least = bound_cost_below(request, kind, Amounts.zero([quantity]))
            far = 2 if relation == "replace-one" else 1
            truth = count * Fraction(far) ** 2 / Fraction(noise) ** 2 / (1 if kind == "gdp" else 2)
            if truth < 10**9:
                assert Fraction(least[quantity]) <= truth < Fraction(least[quantity]) * (1 + Fraction(1, 10**12)) + 1


@pytest.mark.parametrize(
    ("release", "epsilon"),
    [
        (SparseVector(2.0, 8.0, positives=3), "1.25"),
        (SparseVector(2.0, 8.0, positives=3, monotone=True), "0.875"),
        (ReportNoisyMax(0.5, "laplace"), "0.5"),
        (ReportNoisyMax(0.5, "gumbel", monotone=True), "0.25"),
        (Staircase(0.75), "0.75"),
        (Composed([SparseVector(2.0, 8.0, positives=3), Repeated(Laplace(12.0), 3)]), "1.5"),
    ],
)
def test_choices_are_charged_what_their_noise_proves(books, release, epsilon):
    assert dict(books.charge("pure", release, key="one").amounts["pure"]) == {"epsilon": epsilon}
    assert bound_cost_below(
        ChargeRequest(release, NeighboringRelation.ADD_OR_REMOVE_ONE), "pure", Amounts.from_charge({"epsilon": epsilon})
    )


@pytest.mark.parametrize("kind", SCOPES)
@pytest.mark.parametrize("release", [Gaussian(0.0), Composed([Gaussian(1.0), Gaussian(0.0)])])
def test_a_release_without_privacy_is_refused_by_every_budget(books, kind, release):
    delta = "1e-6" if kind == "approximate" else None
    with pytest.raises((BudgetExceededError, UnsupportedMechanismError)):
        books.charge(kind, release, key="q", delta=delta)


@pytest.mark.parametrize(
    ("kind", "release", "forged"),
    [
        ("pure", PureDP(4.0), ("epsilon", "0.5", None)),
        ("pure", Laplace(0.25), ("epsilon", "3.999999998", None)),
        ("approximate", PureDP(4.0), ("epsilon", "0.5", None)),
        ("approximate", PureDP(4.0), ("delta", "0", "1e-6")),
        ("approximate", ApproximateDP(1.0, 1e-5), ("delta", "0.000001", None)),
        ("approximate", Gaussian(1.0), ("epsilon", "4.3771", "1e-5")),
        ("zcdp", Gaussian(1.0), ("rho", "0.499999999999", None)),
        ("gdp", Gaussian(1.0), ("mu_squared", "0.999999999999", None)),
    ],
)
def test_a_chain_that_was_rewritten_to_charge_less_is_priced_again(books, kind, release, forged):
    """A forger who puts right all hashes."""
    quantity, cheaper, delta = forged
    books.charge(kind, release, key="k", delta=delta)
    documents = [json.loads(document) for _, document in books.documents()]
    assert replay.recheck_costs(replay.replay_entries(rehashed(documents))).rechecked == 1
    documents[-1]["amounts"][kind][quantity] = cheaper
    with pytest.raises(LedgerIntegrityError, match=r"entry 5: charged .*, but its release costs at least"):
        replay.recheck_costs(replay.replay_entries(rehashed(documents)))
