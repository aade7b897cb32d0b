import json

import pytest

from epsilog.ledger import ChargeRequest
from epsilog.ledger.fields import hash_overridden_request
from epsilog.mechanisms import Gaussian, PureDP, Repeated
from epsilog.terms import NeighboringRelation

RELEASE = Repeated(Gaussian(2.0), 3)
FULL = ChargeRequest(
    RELEASE,
    NeighboringRelation.REPLACE_ONE,
    "school",
    amount={"epsilon": "0.1", "delta": "1e-18"},
    plan_hash="ab" * 32,
    rounds=3,
    simulation=True,
)


@pytest.mark.parametrize("request_", [FULL, ChargeRequest(RELEASE, NeighboringRelation.ZERO_OUT, delta="1e-6")])
def test_a_request_is_stored_and_read_back(request_):
    stored = json.loads(json.dumps(request_.to_json()))
    assert ChargeRequest.from_json(stored) == request_


@pytest.mark.parametrize(
    ("name", "value"),
    [("delta", "1.0e-6"), ("delta", 1e-6), ("amount", {"epsilon": "0.10"}), ("relation", None), ("more", 1)],
)
def test_another_spelling_of_a_request_is_none_of_ours(name, value):
    stored = ChargeRequest(PureDP(0.1), NeighboringRelation.ADD_OR_REMOVE_ONE).to_json() | {name: value}
    with pytest.raises((ValueError, TypeError)):
        ChargeRequest.from_json(stored)


def test_what_is_not_said_is_the_budget_s():
    bare = ChargeRequest(RELEASE).under(NeighboringRelation.REPLACE_ONE, "school")
    assert (bare.relation, bare.privacy_unit) == (NeighboringRelation.REPLACE_ONE, "school")
    assert FULL.under(NeighboringRelation.ZERO_OUT, None) == FULL


@pytest.mark.parametrize("name", sorted(FULL.to_json()))
def test_a_waiver_stands_for_one_request_alone(name):
    stored = FULL.to_json()
    assert hash_overridden_request(stored) == hash_overridden_request(dict(reversed(stored.items())))
    assert hash_overridden_request(stored) != hash_overridden_request(stored | {name: "other"})
