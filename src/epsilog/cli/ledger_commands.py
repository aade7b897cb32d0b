"""`epsilog ledger` with each command of the ledger: arguments, options and help follow from its fields.

This module is imported when a command of `epsilog ledger` is looked up: other commands start without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

import typer

from epsilog.cli import derive
from epsilog.cli.app import REFUSED, Application, hash_file, option_from_parameter, print_json, read_bytes, read_release
from epsilog.cli.ledger import DEFAULT_LEDGER, LEDGER_OPTION, open_for_writing, redact_address
from epsilog.cli.ledger_rows import budget_to_json, format_amounts
from epsilog.cli.show import write
from epsilog.ledger import Amounts, Balance, Charge, Ledger, open_ledger, parse_address
from epsilog.ledger.amounts import make_rdp_quantity
from epsilog.ledger.charge_record import ChargeRecord
from epsilog.ledger.commands import COMMANDS, ChargeAtOnce, Command, CreateBudget
from epsilog.ledger.commands.base import BUDGET, RESERVATION
from epsilog.ledger.execute import Done
from epsilog.ledger.time_blocks import MAX_PERIODS, create_time_blocks
from epsilog.terms import BatchRefusedError, CheckError, check
from epsilog.terms.codec import parse_json
from epsilog.terms.fields import REQUIRED

_CAPS = {
    "epsilon": (str, "Cap on epsilon; with --delta and another kind, the target guarantee."),
    "delta": (str, "Cap on delta of an approximate budget; see --epsilon."),
    "rho": (str, "Cap of a zcdp budget."),
    "mu_squared": (str, "Cap of a gdp budget."),
    "rdp": (list[str], "ORDER=CAP of an rdp budget; repeatable, once for each order."),
}
_NOTES = {
    "release": "a JSON or TOML file; - for standard input",
    "amount": "QUANTITY=NUMBER; repeatable",
    "evidence": "a file, kept under its name; repeatable",
    "certificate": "a file",
    "orders": "with commas between",
}
_TYPES: Mapping[str, Any] = {
    "release": Path,
    "certificate": Path,
    "amount": list[str],
    "evidence": list[Path],
    "orders": str,
    "until": str,
    "delta": str,
}


def build() -> Application:
    """Return the commands of the ledger, as an application."""
    app = Application()
    for kind in COMMANDS.values():
        parameters = [one for field in fields(kind) for one in _list_parameters(kind, field)]  # type: ignore[arg-type]
        parameters.append(derive.make_parameter("ledger", str, LEDGER_OPTION, DEFAULT_LEDGER))
        app.command(kind.name)(
            derive.make_command(partial(_execute, kind), [*parameters, derive.JSON_PARAMETER], kind.description)
        )
    app.command("charge-many")(charge_many_command)
    app.command("create-blocks")(create_blocks_command)
    return app


def charge_many_command(
    file: Annotated[Path, typer.Argument(help="A JSON Lines file of charges; - for standard input.")],
    each: Annotated[bool, typer.Option("--each", help="Let each charge stand for itself.")] = False,
    ledger: Annotated[str, LEDGER_OPTION] = DEFAULT_LEDGER,
    as_json: Annotated[bool, derive.JSON_OPTION] = False,
) -> None:
    """Charge several releases in one transaction: all or none.

    Each line is an object with the fields of `charge`: scope, key, release in its JSON, delta and so on. A refused line
    is named. With --each the others are charged, and the exit code is 3.

    Example: epsilog ledger charge-many charges.jsonl
    """
    charges = _read_charges(file)
    with open_for_writing(ledger) as books:
        try:
            outcomes = books.charge_many(charges, atomic=not each)
        except BatchRefusedError as error:
            line = f"line {error.index + 1}"
            raise BatchRefusedError(error.index, error.key, error.refusal, place=line) from None
    found = [_describe_outcome(charge, one) for charge, one in zip(charges, outcomes, strict=True)]
    refused = sum("error" in document for document, _ in found)
    text = f"{len(found) - refused} of {len(found)} charged"
    document = {"charged": len(found) - refused, "refused": refused, "charges": [one for one, _ in found]}
    print_json(document) if as_json else write("\n".join([text, *(line for _, line in found)]))
    if refused:
        raise typer.Exit(REFUSED)


def create_blocks_command(
    scope: Annotated[str, typer.Argument(help="The scope above the blocks.")],
    period: Annotated[str, typer.Option(help="day, week, month, quarter or year, of UTC.")],
    next_periods: Annotated[
        int, typer.Option(min=0, max=MAX_PERIODS, help="How many periods after the present one.")
    ] = 1,
    ledger: Annotated[str, LEDGER_OPTION] = DEFAULT_LEDGER,
    as_json: Annotated[bool, derive.JSON_OPTION] = False,
) -> None:
    """Create the budgets of the present and of the next periods.

    Each block, such as acme/claims/2026-Q4, has the terms and the cap of the latest one before it, and the same budgets
    below it. Create the first block by hand. To run it again changes nothing: let a timer run it every day.

    Example: epsilog ledger create-blocks acme/claims --period quarter
    """
    with open_for_writing(ledger) as books:
        made = create_time_blocks(books, scope, period=period, next_periods=next_periods)
    if as_json:
        print_json({"created": [budget_to_json(one) for one in made]})
    else:
        write("\n".join(map(_format_budget, made)) or "Every block is there.")


def _read_charges(file: Path) -> list[ChargeAtOnce]:
    charges = []
    for number, line in enumerate(read_bytes(file).splitlines(), 1):
        name = f"line {number}"
        try:
            charges.append(ChargeAtOnce.from_json(check.instance_of(dict)(charge=parse_json(line))))
        except CheckError as error:
            raise error.under(name) from None
        except (ValueError, TypeError) as error:
            raise CheckError(name, "the JSON of a charge", f"{file}: {str(error)[:200]}") from None
    return charges


def _describe_outcome(asked: ChargeAtOnce, found: Charge | Exception) -> Formatted:
    if isinstance(found, Exception):
        text = f"{asked.key} at {asked.scope} is refused: {found}"
        return {"key": asked.key, "scope": asked.scope, "error": str(found)}, text
    amounts = {kind: dict(amount) for kind, amount in found.amounts.items()}
    document = {"key": found.key, "scope": found.scope, "amounts": amounts, "replayed": found.replayed}
    before = ", as before" if found.replayed else ""
    return document, f"{found.key} at {found.scope} is charged{before}: {_format_costs(found.amounts)}"


def _execute(kind: type[Command], /, *, ledger: str, as_json: bool, **given: Any) -> None:
    command = kind(**_read(kind, given))
    creates = isinstance(command, CreateBudget)  # only who makes a budget may make a ledger
    with open_ledger(parse_address(ledger)) if creates else open_for_writing(ledger) as books:
        done = books.execute(command)
        document, text = _FORMATS.get(kind.name, _format_done)(books, command, done, redact_address(ledger))
    print_json(document) if as_json else write(text)


def _list_parameters(kind: type[Command], field: Any) -> list[Parameter]:
    """Return the parameters that set a field: one, or several for the caps of a budget."""
    (stated, arg, *_), name = kind.args[field.name], field.name
    if name == "caps":
        options = {one: (of, f"--{one.replace('_', '-')}", text) for one, (of, text) in _CAPS.items()}
        return [
            derive.make_parameter(one, of, typer.Option(flag, help=text), None)
            for one, (of, flag, text) in options.items()
        ]
    of = _TYPES.get(name) or next(part for part in (*get_args(stated), stated) if part is not NoneType)
    info = option_from_parameter(name, arg, _NOTES.get(name, ""))
    if arg.positional:
        info = typer.Argument(help=info.help)
    if arg.ge is not None:
        info.min = arg.ge
    default = None if field.default_factory is not MISSING else field.default
    return [derive.make_parameter(name, of, info, REQUIRED if default is MISSING else default)]


def _read(kind: type[Command], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a command from the values that were typed; a value that was left out has its default."""
    found = {name: _READ[name](value) if name in _READ else value for name, value in given.items() if value is not None}
    if "caps" in kind.args:
        caps = {name: found.pop(name) for name in _CAPS if name in found}
        found["caps"] = caps | caps.pop("rdp", {})
    return found


def _read_amounts(parts: list[str]) -> dict[str, str] | None:
    if not all("=" in part for part in parts):
        raise CheckError("amount", "QUANTITY=NUMBER", f"{' '.join(parts)}")
    return dict(part.split("=", 1) for part in parts) or None


def _read_certificate(file: Path) -> str:
    try:
        return read_bytes(file, "certificate").decode("ascii")
    except UnicodeDecodeError:
        raise CheckError("certificate", "of ASCII", str(file)) from None


def _read_orders(parts: list[str]) -> dict[str, str]:
    if not all("=" in part for part in parts):
        raise CheckError("rdp", "ORDER=CAP", " ".join(parts))
    pairs = [part.split("=", 1) for part in parts]
    found = {make_rdp_quantity(order): cap for order, cap in pairs}
    if len(found) < len(pairs):
        raise CheckError("rdp", "given once for each order", " ".join(parts))
    return found


def _hash_files(files: list[Path]) -> dict[str, str]:
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise CheckError("evidence", "files of different names", ", ".join(names))
    return {file.name: hash_file(file, "evidence") for file in files}


_READ: dict[str, Callable[[Any], Any]] = {
    "release": partial(read_release, name="release"),
    "certificate": _read_certificate,
    "amount": _read_amounts,
    "evidence": _hash_files,
    "orders": lambda text: [each.strip() for each in text.split(",")],
    "rdp": _read_orders,
}
Formatted = tuple[dict[str, Any], str]


def _format_done(opened: Ledger, command: Command, done: Done, ledger: str) -> Formatted:
    """Return the document and the text of a command: of the budget, charge or ledger that it was about."""
    if command.subject == BUDGET and done.balance is not None:
        return budget_to_json(done.balance), _format_budget(done.balance)
    if command.subject == RESERVATION and done.reserved is not None:
        charge = opened.charge_record(str(done.reserved.key), scope=done.reserved.scope)
        return _charge_to_json(charge) | {"replayed": done.replayed}, _format_charge(charge)
    if done.charge is not None:
        return _charge_to_json(done.charge), _format_charge(done.charge)
    count, head = opened.head()
    text = (
        "accepts charges again" if done.accepted else "accepts no charge until its owner runs `ledger accept-restore`"
    )
    return {"ledger": ledger, "entries": count, "head": head}, f"{ledger} {text} (entry {count})"


def _format_created(_: Ledger, command: Command, done: Done, ledger: str) -> Formatted:  # noqa: ARG001
    assert done.balance is not None, "it is about a budget"
    made, promise = done.balance, done.balance.target_guarantee and dict(done.balance.target_guarantee)
    document = {"scope": made.scope, "kind": made.kind, "caps": dict(made.caps), "ledger": ledger}
    keeps = f", which guarantees {format_amounts(promise)}" if promise else ""
    text = f"{made.scope} in {ledger}: {format_amounts(made.caps)} ({made.kind}){keeps}"
    return document | ({"target_guarantee": promise} if promise else {}), text


def _format_partitioned(_: Ledger, command: Command, done: Done, ledger: str) -> Formatted:  # noqa: ARG001
    assert done.balance is not None, "it is about a budget"
    made = done.balance
    paid = f"the budgets above are charged {format_amounts(made.caps)} ({made.kind}) once for all blocks"
    return budget_to_json(made), f"{made.scope}: {paid}"


def _format_overridden(_: Ledger, command: Command, done: Done, ledger: str) -> Formatted:  # noqa: ARG001
    assert done.charge is not None, "it is about a charge"
    amounts = ", ".join(f"{name}={value}" for name, value in command.to_json()["amount"].items())
    text = f"{done.charge.scope}: one charge {done.charge.key} may cost {amounts}"
    return _charge_to_json(done.charge), text


_FORMATS: dict[str, Callable[[Ledger, Command, Done, str], Formatted]] = {
    "create": _format_created,
    "declare-partition": _format_partitioned,
    "override-cost": _format_overridden,
}


def _format_budget(budget: Balance) -> str:
    retired = f"; retired (entry {budget.retired})" if budget.retired else ""
    target = f" (for {format_amounts(budget.target_guarantee)})" if budget.target_guarantee else ""
    amounts = (
        f"cap {format_amounts(budget.caps)}{target}; spent {format_amounts(budget.spent)}; available "
        f"{format_amounts(budget.available)}"
    )
    approved = ""
    if (found := budget.cap_approval) is not None:
        by = " and ".join(f"{owner} until {until[:16]} UTC" for owner, until in found.until.items())
        approved = f"; approved cap {format_amounts(found.limit)}: by {by}"
    return f"{budget.scope}: {amounts}{approved}{retired}"


def _charge_to_json(charge: ChargeRecord) -> dict[str, Any]:
    amounts = {kind: dict(amount) for kind, amount in charge.amounts.items()}
    document = {"key": charge.key, "scope": charge.scope, "state": charge.state, "amounts": amounts}
    return document | ({"approvals": [*charge.approvals]} if charge.approvals else {})


def _format_charge(charge: ChargeRecord) -> str:
    approved = f", approved by {' and '.join(charge.approvals)}" if charge.approvals else ""
    return f"{charge.key} at {charge.scope} is {charge.state}{approved}: {_format_costs(charge.amounts)}"


def _format_costs(amounts: Mapping[str, Amounts]) -> str:
    costs = "; ".join(f"{format_amounts(amount)} ({kind})" for kind, amount in amounts.items())
    return costs or "no charge"
