"""`epsilog ledger` with a command of the ledger: arguments, options and help follow from its fields.

This is loaded when a command of the ledger is asked for: the others start without it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

import typer

from epsilog.cli.account import read_release
from epsilog.cli.app import Json, option_from_parameter, print_json
from epsilog.cli.ledger import (
    DEFAULT_LEDGER,
    LedgerFile,
    budget_to_json,
    format_amounts,
    open_for_writing,
    redact_address,
)
from epsilog.cli.show import console
from epsilog.ledger import Balance, ChargeRecord, Command, Done, Ledger, make_rdp_quantity, open_ledger, parse_address
from epsilog.ledger.commands import BUDGET, COMMANDS, RESERVATION, CreateBudget
from epsilog.terms import CheckError

_CAPS = {
    "epsilon": (str, "Cap; with --delta, what a zcdp, gdp or rdp budget promises."),
    "delta": (str, "Cap of an approximate budget; or see --epsilon."),
    "rho": (str, "Cap of a zcdp budget."),
    "mu_squared": (str, "Cap of a gdp budget."),
    "rdp": (list[str], "ORDER=CAP of an rdp budget, once for each order that it declares."),
}
_NOTES = {
    "release": "a JSON or TOML file",
    "amount": "QUANTITY=NUMBER, once for each",
    "evidence": "a file that is kept under its name; or several",
    "orders": "with commas",
}


def build() -> typer.Typer:
    """The commands of the ledger, as an application."""
    app = typer.Typer()
    for command in COMMANDS.values():
        app.command(command.name)(_run(command))
    return app


def _run(kind: type[Command]) -> Callable[..., None]:
    def run(*, ledger: str, as_json: bool, **given: Any) -> None:
        command = kind(**_read(kind, given))
        makes = isinstance(command, CreateBudget)  # only who makes a budget may make a ledger
        with open_ledger(parse_address(ledger)) if makes else open_for_writing(ledger) as books:
            document, text = _TOLD.get(kind.name, _format_done)(
                books, command, books.execute(command), redact_address(ledger)
            )
        print_json(document) if as_json else console.print(text)

    parameters = [one for field in fields(kind) for one in _parameters(kind, field)]  # type: ignore[arg-type]
    given = inspect.Parameter.KEYWORD_ONLY
    parameters.append(inspect.Parameter("ledger", given, annotation=LedgerFile, default=DEFAULT_LEDGER))
    parameters.append(inspect.Parameter("as_json", given, annotation=Json, default=False))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = kind.says
    return run


def _parameters(kind: type[Command], field: Any) -> list[inspect.Parameter]:
    """What a field is typed as."""
    (stated, arg, *_), name, given = kind.args[field.name], field.name, inspect.Parameter.KEYWORD_ONLY
    if name == "caps":
        options = {
            one: (of, typer.Option(f"--{one.replace('_', '-')}", help=says)) for one, (of, says) in _CAPS.items()
        }
        return [
            inspect.Parameter(one, given, annotation=Annotated[of | None, option], default=None)
            for one, (of, option) in options.items()
        ]
    of = {"release": Path, "amount": list[str], "evidence": list[Path], "orders": str, "until": str, "delta": str}.get(
        name, next(part for part in (*get_args(stated), stated) if part is not NoneType)
    )
    info = option_from_parameter(name, arg, _NOTES.get(name, ""))
    if arg.positional:
        info = typer.Argument(help=info.help)
    if arg.ge is not None:
        info.min = arg.ge
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    if field.default_factory is not MISSING:
        default = None
    return [
        inspect.Parameter(
            name, given, annotation=Annotated[of | None if default is None else of, info], default=default
        )
    ]


def _read(kind: type[Command], given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a command from what was typed; what was left out has its default."""
    found = {name: _READ[name](value) if name in _READ else value for name, value in given.items() if value is not None}
    if "caps" in kind.args:
        caps = {name: found.pop(name) for name in _CAPS if name in found}
        found["caps"] = caps | caps.pop("rdp", {})
    return found


def _amounts(parts: list[str]) -> dict[str, str] | None:
    if not all("=" in part for part in parts):
        raise CheckError("amount", "QUANTITY=NUMBER", f"{' '.join(parts)}")
    return dict(part.split("=", 1) for part in parts) or None


def _by_order(parts: list[str]) -> dict[str, str]:
    if not all("=" in part for part in parts):
        raise CheckError("rdp", "ORDER=CAP", " ".join(parts))
    pairs = [part.split("=", 1) for part in parts]
    found = {make_rdp_quantity(order): cap for order, cap in pairs}
    if len(found) < len(pairs):
        raise CheckError("rdp", "given once for each order", " ".join(parts))
    return found


def _hashes(files: list[Path]) -> dict[str, str]:
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise CheckError("evidence", "files of different names", ", ".join(names))
    found = {}
    for file in files:
        with file.open("rb") as opened:
            found[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


_READ: dict[str, Callable[[Any], Any]] = {
    "release": read_release,
    "amount": _amounts,
    "evidence": _hashes,
    "orders": lambda text: [each.strip() for each in text.split(",")],
    "rdp": _by_order,
}
Told = tuple[dict[str, Any], str]


def _format_done(books: Ledger, command: Command, done: Done, ledger: str) -> Told:
    """What a command says: the budget, the charge or the ledger that it was about."""
    if command.tells == BUDGET and done.balance is not None:
        return budget_to_json(done.balance), _budget_text(done.balance)
    if command.tells == RESERVATION and done.reserved is not None:
        charge = books.charge_record(str(done.reserved.key), scope=done.reserved.scope)
        return _charge_json(charge) | {"replayed": done.replayed}, _charge_text(charge)
    if done.charge is not None:
        return _charge_json(done.charge), _charge_text(done.charge)
    count, head = books.head()
    text = "takes charges again" if done.accepted else "takes no charge before its owner accepts that (`accept`)"
    return {"ledger": ledger, "entries": count, "head": head}, f"{ledger} {text} (entry {count})"


def _format_created(_: Ledger, command: Command, done: Done, ledger: str) -> Told:  # noqa: ARG001
    assert done.balance is not None, "it is about a budget"
    made, promise = done.balance, done.balance.promise and dict(done.balance.promise)
    document = {"scope": made.scope, "kind": made.kind, "caps": dict(made.caps), "ledger": ledger}
    keeps = f", which keeps {format_amounts(promise)}" if promise else ""
    text = f"{made.scope} in {ledger}: {format_amounts(made.caps)} ({made.kind}){keeps}"
    return document | ({"promise": promise} if promise else {}), text


def _format_partitioned(_: Ledger, command: Command, done: Done, ledger: str) -> Told:  # noqa: ARG001
    assert done.balance is not None, "it is about a budget"
    made = done.balance
    paid = f"the budgets above have paid {format_amounts(made.caps)} ({made.kind}) for whichever block a unit is in"
    return budget_to_json(made), f"{made.scope}: {paid}"


def _overridden(_: Ledger, command: Command, done: Done, ledger: str) -> Told:  # noqa: ARG001
    assert done.charge is not None, "it is about a charge"
    amounts = ", ".join(f"{name}={value}" for name, value in command.to_json()["amount"].items())
    text = f"{done.charge.scope}: one charge {done.charge.key} may be booked at {amounts}"
    return _charge_json(done.charge), text


_TOLD: dict[str, Callable[[Ledger, Command, Done, str], Told]] = {
    "create": _format_created,
    "partition": _format_partitioned,
    "override": _overridden,
}


def _budget_text(budget: Balance) -> str:
    retired = f"; retired (entry {budget.retired})" if budget.retired else ""
    promise = f" (for {format_amounts(budget.promise)})" if budget.promise else ""
    told = (
        f"cap {format_amounts(budget.caps)}{promise}; spent {format_amounts(budget.spent)}; available "
        f"{format_amounts(budget.available)}"
    )
    return f"{budget.scope}: {told}{retired}"


def _charge_json(charge: ChargeRecord) -> dict[str, Any]:
    amounts = {kind: dict(amount) for kind, amount in charge.amounts.items()}
    return {"key": charge.key, "scope": charge.scope, "state": charge.state, "amounts": amounts}


def _charge_text(charge: ChargeRecord) -> str:
    costs = "; ".join(f"{format_amounts(amount)} ({kind})" for kind, amount in charge.amounts.items())
    return f"{charge.key} at {charge.scope} is {charge.state}: {costs or 'nothing is charged'}"
