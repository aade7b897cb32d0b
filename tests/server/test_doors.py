"""Who may do what, and where."""

import pytest

from epsilog.server.doors import LOOPBACK, Action, Holder, Role, require_permission
from epsilog.terms import PermissionDeniedError

MAY = {  # as the documentation's table has it, by hand
    Role.READER: {"read"},
    Role.SPENDER: {"read", "spend"},
    Role.OWNER: {"read", "spend", "own", "audit"},
    Role.AUDITOR: {"read", "audit"},
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("act", Action)
def test_a_role_allows_its_acts_at_and_under_its_scope_and_no_others(role, act):
    anna = Holder("anna", role, "acme/claims")
    for scope in ("acme/claims", "acme/claims/2026"):
        if act in MAY[role]:
            require_permission(anna, act, scope)
        else:
            with pytest.raises(PermissionDeniedError, match=f"a {role} may not {act}"):
                require_permission(anna, act, scope)
    for scope in ("acme", "acme/claims-2", "acme/claim", "other/acme/claims", "", None):
        with pytest.raises(PermissionDeniedError):
            require_permission(anna, act, scope)


@pytest.mark.parametrize("scope", [None, "acme", "acme/claims"])
def test_whoever_holds_the_whole_ledger_holds_every_scope_of_it(scope):
    for act in Action:
        require_permission(LOOPBACK, act, scope)
    with pytest.raises(PermissionDeniedError, match="a reader may not own"):
        require_permission(Holder("bob", Role.READER), Action.OWN, scope)
