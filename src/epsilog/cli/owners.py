"""`epsilog ledger create`, `cap`, `retire` and what else only owners do: each an entry that says who and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.account import read_release
from epsilog.cli.app import Json, Relation, ledger_app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, LedgerFile, money, shown, to_write, told_budget
from epsilog.cli.show import console
from epsilog.terms import CheckError, NeighboringRelation

if TYPE_CHECKING:
    from epsilog.spend import Balance, ChargeRecord

By = Annotated[str, typer.Option("--by", help="Who decides; kept for ever.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept for ever.")]
Key = Annotated[str, typer.Argument(help="The charge's key.")]
At = Annotated[str | None, typer.Option("--scope", help="The charge's scope; required if several scopes have the key.")]
Epsilon = Annotated[
    str | None, typer.Option("--epsilon", help="Cap; with --delta, what a zcdp, gdp or rdp budget promises.")
]
Delta = Annotated[str | None, typer.Option("--delta", help="Cap of an approximate budget; or see --epsilon.")]
Rho = Annotated[str | None, typer.Option("--rho", help="Cap of a zcdp budget.")]
MuSquared = Annotated[str | None, typer.Option("--mu-squared", help="Cap of a gdp budget.")]
Rdp = Annotated[
    list[str] | None,
    typer.Option("--rdp", help="ORDER=CAP of an rdp budget, once for each order that it declares."),
]


@ledger_app.command("create")
def create(
    scope: Annotated[str, typer.Argument(help="Names joined by '/'; charges fall under every budget above them.")],
    kind: Annotated[str, typer.Option("--kind", help="pure, approximate, zcdp, gdp or rdp.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu_squared: MuSquared = None,
    rdp: Rdp = None,
    orders: Annotated[
        str | None,
        typer.Option("--orders", help="Renyi orders, with commas, of an rdp budget that promises (epsilon, delta)."),
    ] = None,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    privacy_unit: Annotated[
        str | None, typer.Option("--privacy-unit", help="What one neighbour differs in; unsaid if blank.")
    ] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="Takes charges of simulations only.")] = False,
    quota: Annotated[
        bool, typer.Option("--quota", help="A share of the budget above, set aside: others there cannot use it.")
    ] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Make a budget, once: an act of its owner. Makes the ledger too if there is none.

    Example: epsilog ledger create acme/claims --kind approximate --epsilon 3 --delta 1e-5
    """
    from epsilog.spend import located, open_ledger

    caps = _given(epsilon=epsilon, delta=delta, rho=rho, mu_squared=mu_squared) | _by_order(rdp)
    with open_ledger(located(ledger)) as books:
        made = books.create_budget(
            scope,
            kind=kind,
            relation=relation,
            privacy_unit=privacy_unit,
            simulation=simulation,
            quota=quota,
            orders=None if orders is None else [each.strip() for each in orders.split(",")],
            **caps,
        )
    promise = made.promise and dict(made.promise)
    if as_json:
        told = {"scope": made.scope, "kind": made.kind, "caps": dict(made.caps), "ledger": shown(ledger)}
        return print_json(told | ({"promise": promise} if promise else {}))
    keeps = f", which keeps {money(promise)}" if promise else ""
    console.print(f"{made.scope} in {shown(ledger)}: {money(made.caps)} ({made.kind}){keeps}")
    return None


@ledger_app.command("partition")
def partition(
    scope: Annotated[str, typer.Argument(help="Under a budget; nothing has been made or charged at or under it yet.")],
    by: By,
    reason: Annotated[str, typer.Option("--reason", help="Why no privacy unit can be in two blocks; kept for ever.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu_squared: MuSquared = None,
    rdp: Rdp = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Declare what lies below a scope disjoint blocks: the budgets above pay for one of them, now and once.

    The caps are the most that one block may cost; each is then a budget directly below.

    Example: epsilog ledger partition acme/claims/quarters --epsilon 1 --by dora --reason "a person's quarter is one"
    """
    caps = _given(epsilon=epsilon, delta=delta, rho=rho, mu_squared=mu_squared) | _by_order(rdp)
    with to_write(ledger) as books:
        made = books.declare_partition(scope, by=by, reason=reason, **caps)
    if as_json:
        return print_json(told_budget(made))
    told = (
        f"{made.scope}: the budgets above have paid {money(made.caps)} ({made.kind}) for whichever block a unit is in"
    )
    return console.print(told)


@ledger_app.command("override")
def override(
    scope: Annotated[str, typer.Argument(help="Where it will be charged.")],
    key: Annotated[str, typer.Option("--key", help="Of the one charge that is allowed.")],
    release: Annotated[Path, typer.Option("--release", help="A JSON or TOML file holding the release.")],
    amount: Annotated[list[str], typer.Option("--amount", help="QUANTITY=NUMBER, once for each quantity.")],
    reason: Annotated[str, typer.Option("--reason", help="Why this amount is right; kept for ever.")],
    rounds: Annotated[int | None, typer.Option("--rounds", help="The most rounds it may run.")] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="It is no release of real data.")] = False,
    ledger: LedgerFile = DEFAULT_LEDGER,
) -> None:
    """Allow one charge at a price that the accountant does not prove: an act of the budget's owner.

    Example: epsilog ledger override acme/claims --key v-1 --release r.json --amount epsilon=0.5 --reason "proof 12"
    """
    amounts, term = read_amounts(amount), read_release(release)
    with to_write(ledger) as books:
        books.override_price(scope, term, key=key, amount=amounts, reason=reason, rounds=rounds, simulation=simulation)
    console.print(f"{scope}: one charge {key} may be booked at {', '.join(amount)}")


@ledger_app.command("cap")
def cap(
    scope: Annotated[str, typer.Argument(help="One that has a budget.")],
    by: By,
    reason: Reason,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mu_squared: MuSquared = None,
    rdp: Rdp = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """Set another cap, higher or lower; what is spent or promised stays so. That of a partition only rises.

    Example: epsilog ledger cap acme/claims --epsilon 4 --delta 1e-5 --by dora --reason "board, 3 May"
    """
    caps = _given(epsilon=epsilon, delta=delta, rho=rho, mu_squared=mu_squared) | _by_order(rdp)
    with to_write(ledger) as books:
        _tell(books.change_cap(scope, by=by, reason=reason, **caps), as_json=as_json)


@ledger_app.command("retire")
def retire(
    scope: Annotated[str, typer.Argument(help="One that has a budget.")],
    by: By,
    reason: Reason,
    ledger: LedgerFile = DEFAULT_LEDGER,
    as_json: Json = False,
) -> None:
    """End a scope: nothing new is charged at or under it, ever; what runs may end.

    Example: epsilog ledger retire acme/claims/2026-Q4 --by dora --reason "the quarter is over"
    """
    with to_write(ledger) as books:
        _tell(books.retire(scope, by=by, reason=reason), as_json=as_json)


@ledger_app.command("release")
def release(
    key: Key, by: By, reason: Reason, scope: At = None, ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False
) -> None:
    """Give back somebody's reservation that has not started.

    Example: epsilog ledger release run-17 --by dora --reason "the run was never scheduled"
    """
    with to_write(ledger) as books:
        books.revoke(key, by=by, reason=reason, scope=scope)
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


@ledger_app.command("abandon")
def abandon(
    key: Key, by: By, reason: Reason, scope: At = None, ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False
) -> None:
    """Close a charge whose run is gone; it stays charged.

    Example: epsilog ledger abandon run-18 --by dora --reason "its machine burned down"
    """
    with to_write(ledger) as books:
        books.abandon(key, by=by, reason=reason, scope=scope)
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


@ledger_app.command("decommission")
def decommission(
    key: Key, by: By, reason: Reason, scope: At = None, ledger: LedgerFile = DEFAULT_LEDGER, as_json: Json = False
) -> None:
    """Note that what a charge released is out of use; it stays spent.

    Example: epsilog ledger decommission run-18 --by dora --reason "replaced by run-19"
    """
    with to_write(ledger) as books:
        books.decommission(key, by=by, reason=reason, scope=scope)
        tell_charge(books.charge_record(key, scope=scope), as_json=as_json)


def read_amounts(parts: list[str]) -> dict[str, str]:
    """Amounts as they are given on a command line."""
    if not all("=" in part for part in parts):
        raise CheckError("amount", "QUANTITY=NUMBER", f"{' '.join(parts)}")
    return dict(part.split("=", 1) for part in parts)


def _given(**caps: str | None) -> dict[str, str]:
    return {quantity: cap for quantity, cap in caps.items() if cap is not None}


def _by_order(parts: list[str] | None) -> dict[str, str]:
    """Caps by order, as they are given on a command line."""
    from epsilog.spend import rdp_quantity

    if not all("=" in part for part in parts or ()):
        raise CheckError("rdp", "ORDER=CAP", " ".join(parts or ()))
    pairs = [part.split("=", 1) for part in parts or ()]
    found = {rdp_quantity(order): cap for order, cap in pairs}
    if len(found) < len(pairs):
        raise CheckError("rdp", "given once for each order", " ".join(parts or ()))
    return found


def _tell(budget: Balance, *, as_json: bool) -> None:
    if as_json:
        return print_json(told_budget(budget))
    retired = f"; retired (entry {budget.retired})" if budget.retired else ""
    promise = f" (for {money(budget.promise)})" if budget.promise else ""
    told = f"cap {money(budget.caps)}{promise}; spent {money(budget.spent)}; available {money(budget.available)}"
    return console.print(f"{budget.scope}: {told}{retired}")


def tell_charge(charge: ChargeRecord, *, as_json: bool, **more: str | bool) -> None:
    """Says where a charge stands."""
    amounts = {kind: dict(amount) for kind, amount in charge.amounts.items()}
    if as_json:
        return print_json({"key": charge.key, "scope": charge.scope, "state": charge.state, "amounts": amounts} | more)
    costs = "; ".join(f"{money(amount)} ({kind})" for kind, amount in amounts.items())
    return console.print(f"{charge.key} at {charge.scope} is {charge.state}: {costs or 'nothing is charged'}")
