"""`epsilog key`, `epsilog sign`, and signed files of a ledger: checkpoint, bundle and receipt."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import (
    Json,
    Output,
    app,
    is_standard,
    key_app,
    ledger_app,
    print_json,
    rename_field,
    require_file,
    write_output,
)
from epsilog.cli.ledger import DEFAULT_LEDGER, ChargeScope, LedgerFile, open_for_reading
from epsilog.cli.show import write
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.signing import SigningKey

PASSPHRASE = "EPSILOG_PASSPHRASE"  # noqa: S105 - the variable that may hold one

_KEY_HELP = "Your private key, a file of `epsilog key create`"
Origin = Annotated[
    str | None, typer.Option("--origin", help="Name of this ledger, one word; if omitted: the name of the key.")
]
OptionalSigner = Annotated[Path | None, typer.Option("--sign", help=f"{_KEY_HELP}; if omitted: unsigned.")]


@key_app.command("create")
def create_key_command(
    name: Annotated[str, typer.Argument(help="Name of the signer, one word such as example.org/privacy.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="New file, the private key.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Encrypt it with a passphrase: {PASSPHRASE}, or asked for.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a signing key, and print its public line.

    You alone can read the file. Others check your signatures with the public line.

    Example: epsilog key create example.org/privacy -o privacy.pem
    """
    from epsilog.signing import SigningKey

    require_file(output)
    key = SigningKey.create(name)
    key.save(output, passphrase=_passphrase(twice=True) if passphrase else None)
    print_json({"file": str(output), "key": str(key.verifier)}) if as_json else typer.echo(key.verifier)


@key_app.command("show")
def show_key_command(
    file: Annotated[Path, typer.Argument(help="A private key file.")],
    pem: Annotated[bool, typer.Option("--pem", help="Print PEM, which OpenSSL and cosign read.")] = False,
    as_json: Json = False,
) -> None:
    """Print the public line of a private key.

    Example: epsilog key show privacy.pem
    """
    verifier = _load_key(file, "file").verifier
    if as_json:
        return print_json({"key": str(verifier), "pem": verifier.pem()})
    return typer.echo(verifier.pem() if pem else verifier, nl=not pem)


@app.command("sign")
def sign_file_command(
    file: Annotated[Path, typer.Argument(help="The file to sign, such as a report (JSON or HTML).")],
    key: Annotated[Path, typer.Option("--key", "-k", help=f"{_KEY_HELP}.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to append to; if omitted: FILE.intoto.jsonl.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sign a file; the signature goes into a DSSE envelope.

    The envelope holds an in-toto statement. Signing again adds a signer.

    Example: epsilog sign report.html --key privacy.pem
    """
    from epsilog import durable_io
    from epsilog.signing import SUFFIX, Envelope
    from epsilog.verification import read_file

    signer, target = _load_key(key, "key"), output or file.with_name(f"{file.name}{SUFFIX}")
    durable_io.append_durably(target, f"{Envelope.over(file.name, read_file(file), signer)}\n".encode())
    if as_json:
        return print_json({"file": str(target), "signed_by": signer.verifier.label})
    return write(f"wrote {target}, signed by {signer.verifier.label}", soft_wrap=True)


@ledger_app.command("checkpoint")
def checkpoint_command(
    ledger: LedgerFile = DEFAULT_LEDGER,
    sign: OptionalSigner = None,
    origin: Origin = None,
    since: Annotated[
        Path | None, typer.Option(help="An older checkpoint: proves that the ledger only grew since.")
    ] = None,
    line: Annotated[bool, typer.Option("--one-line", help="Print one line, for an e-mail or a git tag.")] = False,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Write a checkpoint: entry count and one hash.

    Keep it where the owner of the ledger cannot change it.

    Example: epsilog ledger checkpoint --sign privacy.pem -o checkpoint.txt
    """
    from epsilog.ledger import Checkpoint, iterate_verified_documents, prove_consistency
    from epsilog.verification import read_checkpoint

    if line and since is not None:
        raise CheckError("line", "absent with --since, as its proof needs several lines", "given")
    signer, older = _signer(sign), None if since is None else read_checkpoint(since).checkpoint
    with open_for_reading(ledger) as books:
        entries = list(iterate_verified_documents(books))
    made = Checkpoint.over(entries, origin=_origin(origin, signer)).note(signer)
    kept = made if older is None else prove_consistency(older, entries, made)
    document = {"checkpoint": str(kept), "line": made.in_one_line(), "signed_by": _label(signer)}
    _write(f"{made.in_one_line()}\n" if line else str(kept), output, document if as_json else None)


@ledger_app.command("bundle")
def bundle_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    sign: OptionalSigner = None,
    origin: Origin = None,
    as_json: Json = False,
) -> None:
    """Write all entries and a checkpoint into one file.

    Anyone can check it offline with `epsilog verify`.

    Example: epsilog ledger bundle --sign privacy.pem -o ledger.bundle
    """
    from epsilog.ledger import Checkpoint, iterate_verified_documents, write_bundle

    require_file(output)
    signer = _signer(sign)
    with open_for_reading(ledger) as books:
        made = write_bundle(iterate_verified_documents(books), output, origin=_origin(origin, signer), key=signer)
    if as_json:
        return print_json({"file": str(output), "checkpoint": str(made), "signed_by": _label(signer)})
    size = Checkpoint.parse(made.text).size
    write(f"wrote {output}: {size} entries, signed by {_label(signer) or 'no one'}", soft_wrap=True)
    return None


@ledger_app.command("receipt")
def receipt_command(
    charge: Annotated[str, typer.Argument(help="The key of the charge.")],
    sign: Annotated[Path, typer.Option(help=f"{_KEY_HELP}.")],
    scope: ChargeScope = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    origin: Origin = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Write a signed proof that a charge is in the ledger.

    It names neither the scope nor the key.

    Example: epsilog ledger receipt run-17 --sign privacy.pem -o receipt.txt
    """
    from epsilog.ledger import iterate_verified_documents, write_receipt

    signer = _load_key(sign, "sign")
    with open_for_reading(ledger) as books:
        entries = list(iterate_verified_documents(books))
    made = write_receipt(entries, key=charge, origin=_origin(origin, signer), signer=signer, scope=scope)
    document = {"receipt": made.in_one_line(), "signed_by": _label(signer)}
    _write(f"{made.in_one_line()}\n", output, document if as_json else None)


def _write(content: str, output: Path | None, document: dict[str, Any] | None) -> None:
    """Write to a file or standard output; a JSON document is printed instead of the content or the note."""
    if document is None:
        return write_output(content, output)
    if not is_standard(output):
        write_output(content, output, quiet=True)
    return print_json(document)


def _signer(key: Path | None) -> SigningKey | None:
    return None if key is None else _load_key(key, "sign")


def _load_key(key: Path, name: str) -> SigningKey:
    from epsilog.signing import SigningKey

    with rename_field("key", name):
        return SigningKey.load(key, passphrase=_passphrase)


def _passphrase(*, twice: bool = False) -> str:
    """Return the passphrase from the environment, or ask for it without showing it."""
    given = os.environ.get(PASSPHRASE)
    if given is not None:
        return given
    typed: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True)
    return typed


def _origin(origin: str | None, signer: SigningKey | None) -> str:
    from epsilog.ledger import Checkpoint

    if origin is not None:
        return origin
    return Checkpoint.UNNAMED if signer is None else signer.name


def _label(signer: SigningKey | None) -> str | None:
    return None if signer is None else signer.verifier.label
