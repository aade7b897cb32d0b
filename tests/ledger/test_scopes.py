import pytest

from epsilog.ledger.scopes import list_ancestors, refuse_late_budget, require_budget, require_idempotency_key
from epsilog.terms import ConflictError


def test_ancestors_are_named_from_the_top():
    assert list_ancestors("a") == ("a",)
    assert list_ancestors("a/b c/d") == ("a", "a/b c", "a/b c/d")


@pytest.mark.parametrize(
    "scope", ["", " ", "/", "a//b", "/a", "a/", "a/ b", "a/.", "../a", "a\nb", "e\u0301", "\ud800", "x" * 501, None, 3]
)
def test_one_spelling_for_each_scope(scope):
    with pytest.raises(ValueError, match="scope must be"):
        list_ancestors(scope)


@pytest.mark.parametrize("key", ["", " ", "a\0b", "e\u0301", "x" * 501, None])
def test_a_key_is_short_and_printable(key):
    require_idempotency_key("é/" + "x" * 498)
    with pytest.raises(ValueError, match="key must be"):
        require_idempotency_key(key)


def test_a_budget_comes_once_and_before_what_it_counts():
    refuse_late_budget("acme", exists=False, populated=False)
    with pytest.raises(ConflictError, match="'acme' exists already"):
        refuse_late_budget("acme", exists=True, populated=True)
    with pytest.raises(ConflictError, match="'acme' must be created before any charge"):
        refuse_late_budget("acme", exists=False, populated=True)


def test_money_is_spent_only_where_somebody_counts_it():
    require_budget("acme/x", ["acme"])
    with pytest.raises(ValueError, match=r"under a budget, got 'acme/x': .*epsilog ledger create acme/x"):
        require_budget("acme/x", [])
