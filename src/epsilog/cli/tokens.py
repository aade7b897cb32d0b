"""`epsilog token create`, `list` and `revoke`: who may come into a server, and as what."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import Json, print_json, token_app
from epsilog.cli.show import console, escape_control_characters, print_figures, print_notice, print_table, style_bold
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.server import Token

Name = Annotated[str, typer.Argument(help="Who holds it; what they do to the ledger is kept under this name.")]
File = Annotated[Path, typer.Option("--file", "-f", help="Keeps the tokens, hashed; readable by you alone.")]
DEFAULT_FILE = Path("tokens.json")


@token_app.command("create")
def create_command(
    name: Name,
    role: Annotated[str, typer.Option("--role", help="reader, spender, owner or auditor.")],
    scope: Annotated[str | None, typer.Option("--scope", help="Where, and everywhere under it.")] = None,
    whole_ledger: Annotated[bool, typer.Option("--whole-ledger", help="Everywhere, instead of a scope.")] = False,
    expires: Annotated[
        str | None,
        typer.Option("--expires", help="From when on it is worth nothing, such as 2027-01-31 (UTC); never if blank."),
    ] = None,
    file: File = DEFAULT_FILE,
    as_json: Json = False,
) -> None:
    """Make a token and show it, this once; makes the file too if there is none.

    Example: epsilog token create anna --role spender --scope acme/claims --expires 2027-01-31
    """
    from epsilog import server

    if (scope is None) != whole_ledger:
        raise CheckError("scope", "given, or else --whole-ledger", "neither" if scope is None else "both")
    made, text = server.create_token(file, name, role=role, scope=scope, expires=_moment(expires))
    if as_json:
        return print_json(made.to_json() | {"token": text})
    print_figures(f"A token for {escape_control_characters(made.name)}", _list_token_rows(made))
    console.print(style_bold(text), soft_wrap=True)
    print_notice("It is shown this once. Whoever has it is let in as its holder: keep it as a password.")
    return None


@token_app.command("list")
def list_tokens_command(file: File = DEFAULT_FILE, as_json: Json = False) -> None:
    """Show who holds tokens, and what they may do; never the tokens.

    Example: epsilog token list --file tokens.json
    """
    from epsilog import server

    found, now = server.read_tokens(file), dt.datetime.now(dt.UTC).timestamp()
    if as_json:
        return print_json({"tokens": [token.to_json() | {"expired": token.has_expired(now)} for token in found]})
    rows = [
        [escape_control_characters(token.name), *(said for _, said in _list_token_rows(token)), _state(token, now)]
        for token in found
    ]
    print_table(str(file), ["name", "role", "scope", "created (UTC)", "expires (UTC)", "id", "state"], rows)
    return None


@token_app.command("revoke")
def revoke_token_command(name: Name, file: File = DEFAULT_FILE, as_json: Json = False) -> None:
    """End somebody's token: a server that runs refuses it from the next request on.

    Example: epsilog token revoke anna
    """
    from epsilog import server

    ended = server.revoke_token(file, name)
    if as_json:
        return print_json(ended.to_json())
    console.print(f"the token of {escape_control_characters(ended.name)} (id {ended.id}) is worth nothing any more")
    return None


def _list_token_rows(token: Token) -> list[tuple[str, str]]:
    expires = "never" if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M}"
    return [
        ("role", token.role.value),
        ("scope", "the whole ledger" if token.scope is None else escape_control_characters(token.scope)),
        ("created", f"{token.created:%Y-%m-%d %H:%M}"),
        ("expires", expires),
        ("id", token.id),
    ]


def _state(token: Token, now: float) -> str:
    return "expired" if token.has_expired(now) else "good"


def _moment(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CheckError("expires", "a day or a moment, such as 2027-01-31", repr(text[:80])) from None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
