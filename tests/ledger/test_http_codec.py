"""A refusal reaches the client of a server as it was raised: the same class, words and fields."""

import json

import pytest

from epsilog.ledger.http_codec import TRANSMITTED_ERRORS, error_from_json, error_to_json
from epsilog.mechanisms import Gaussian, PureDP
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    OutcomeUnknownError,
    PermissionDeniedError,
    StorageError,
    UnsupportedMechanismError,
)

AMOUNTS = ("requested", "available", "caps", "spent", "reserved", "set_aside", "shortfall")
REFUSED = BudgetExceededError(
    scope="acme/team",
    **{name: {"epsilon": f"0.{at}"} for at, name in enumerate(AMOUNTS, 1)},
    reason="a cap",
    hint="a hint",
    owners=("acme", "acme/team"),
)
ERRORS = [
    CheckError("delta", "in (0, 1)", "1.5", verb="lie"),
    REFUSED,
    BatchRefusedError(2, "k", REFUSED),
    BatchRefusedError(0, "k", UnsupportedMechanismError(PureDP(0.1), method="gdp")),
    LedgerIntegrityError("is out of order", index=3),
    LedgerIntegrityError("has no first entry"),
    UnsupportedMechanismError(Gaussian(1.5), method="rdp", reason="an order below 1"),
    UnsupportedMechanismError("no term", method="rdp"),
    *(kind("in words") for kind in (ConflictError, PermissionDeniedError, OutcomeUnknownError, StorageError)),
    ValueError("in words"),
    EpsilogError("in words"),
]


def fields(error):
    """The class, the words and the fields of an error; those within another error likewise."""
    own = {name: fields(one) if isinstance(one, Exception) else one for name, one in vars(error).items()}
    return type(error), str(error), own


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_refusal_arrives_as_it_was_raised(error):
    problem = json.loads(json.dumps(error_to_json(error)))
    found = fields(error_from_json(problem | {"detail": "not this"}))
    if isinstance(error, UnsupportedMechanismError) and isinstance(error.term, str):  # it is written as Python shows it
        error = UnsupportedMechanismError(repr(error.term), method=error.method, reason=error.reason)
    assert found == fields(error)


def test_each_code_is_sent_and_anything_unreadable_keeps_its_words():
    assert {error_to_json(error)["code"] for error in ERRORS} == TRANSMITTED_ERRORS
    assert error_to_json(KeyError("ours")) == {}
    for error in ERRORS:
        whole = error_to_json(error)
        for name in whole:
            found = error_from_json({key: value for key, value in whole.items() if key != name} | {"detail": "words"})
            assert (type(found), str(found)) == (EpsilogError, "words"), name
