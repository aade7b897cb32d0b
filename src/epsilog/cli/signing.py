"""`epsilog key`, `epsilog sign`, and what leaves a ledger signed: a checkpoint, a bundle, a receipt for one charge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epsilog.cli.app import Json, app, key_app, ledger_app, print_json
from epsilog.cli.ledger import DEFAULT_LEDGER, At, LedgerFile, open_for_reading
from epsilog.cli.show import console
from epsilog.terms import CheckError

if TYPE_CHECKING:
    from epsilog.signing import SigningKey

PASSPHRASE = "EPSILOG_PASSPHRASE"  # noqa: S105 - the variable that may hold one

Signer = Annotated[Path, typer.Option("--key", "-k", help="Your private key, as `epsilog key create` wrote it.")]
LedgerSigner = Annotated[Path, typer.Option("--sign", help="Your private key, as `epsilog key create` wrote it.")]
MaybeSigner = Annotated[
    Path | None, typer.Option("--sign", help="Your private key's file; if blank, nobody has signed, and it says so.")
]
Origin = Annotated[
    str | None, typer.Option("--origin", help="What this ledger is called, one word; blank: the key's name.")
]


@key_app.command("create")
def create_key_command(
    name: Annotated[str, typer.Argument(help="Who signs, as one word; such as example.org/privacy.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The private key's file; must not be there yet.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Encrypt it; asks for a passphrase, or takes {PASSPHRASE}.")
    ] = False,
) -> None:
    """Make a signing key: a file that you alone can read. Prints the public line, which is what others need.

    Example: epsilog key create example.org/privacy -o privacy.pem
    """
    from epsilog.signing import SigningKey

    key = SigningKey.create(name)
    key.save(output, passphrase=_passphrase(twice=True) if passphrase else None)
    typer.echo(key.verifier)


@key_app.command("show")
def show_key_command(
    key: Annotated[Path, typer.Argument(help="A private key's file.")],
    pem: Annotated[bool, typer.Option("--pem", help="As PEM, which OpenSSL and cosign read.")] = False,
) -> None:
    """Print the public line of a private key: what others check signatures with.

    Example: epsilog key show privacy.pem
    """
    verifier = _load_key(key).verifier
    typer.echo(verifier.pem() if pem else verifier, nl=not pem)


@app.command("sign")
def sign_file_command(
    path: Annotated[Path, typer.Argument(help="The file to sign; a report, as JSON or as its page.")],
    key: Signer,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; beside the file if blank.")
    ] = None,
) -> None:
    """Sign a file: an in-toto statement in a DSSE envelope, in a file beside it. Signing again adds a signer.

    Example: epsilog sign report.html --key privacy.pem
    """
    from epsilog import durable_io
    from epsilog.signing import SUFFIX, Envelope
    from epsilog.verification import read_file

    signer, target = _load_key(key), output or path.with_name(f"{path.name}{SUFFIX}")
    durable_io.append_durably(target, f"{Envelope.over(path.name, read_file(path), signer)}\n".encode())
    console.print(f"wrote {target}, signed by {signer.verifier.label}", soft_wrap=True)


@ledger_app.command("checkpoint")
def checkpoint_command(
    ledger: LedgerFile = DEFAULT_LEDGER,
    sign: MaybeSigner = None,
    origin: Origin = None,
    since: Annotated[
        Path | None, typer.Option("--since", help="An older checkpoint: prove that the ledger only grew since.")
    ] = None,
    line: Annotated[bool, typer.Option("--line", help="As one line, for an e-mail or a git tag.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; the screen if blank.")] = None,
    as_json: Json = False,
) -> None:
    """Say how many entries a ledger has, and one hash over all of them: to be kept where its owner cannot reach.

    Example: epsilog ledger checkpoint --sign privacy.pem -o checkpoint.txt
    """
    from epsilog.ledger import Checkpoint, iterate_verified_documents
    from epsilog.ledger import prove_consistency as proven
    from epsilog.verification import read_checkpoint

    if line and since is not None:
        raise CheckError("line", "absent with --since, whose proof needs lines of its own", "given")
    signer, older = _signer(sign), None if since is None else read_checkpoint(since).checkpoint
    with open_for_reading(ledger) as books:
        entries = list(iterate_verified_documents(books))
    made = Checkpoint.over(entries, origin=_origin(origin, signer)).note(signer)
    kept = made if older is None else proven(older, entries, made)
    if as_json:
        return print_json({"checkpoint": str(kept), "line": made.in_one_line(), "signed_by": _label(signer)})
    _put(f"{made.in_one_line()}\n" if line else str(kept), output)
    return None


@ledger_app.command("bundle")
def bundle_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    ledger: LedgerFile = DEFAULT_LEDGER,
    sign: MaybeSigner = None,
    origin: Origin = None,
    as_json: Json = False,
) -> None:
    """Write every entry and a checkpoint into one file, which anybody can check offline with `epsilog verify`.

    Example: epsilog ledger bundle --sign privacy.pem -o ledger.bundle
    """
    from epsilog.ledger import Checkpoint, iterate_verified_documents, write_bundle

    signer = _signer(sign)
    with open_for_reading(ledger) as books:
        made = write_bundle(iterate_verified_documents(books), output, origin=_origin(origin, signer), key=signer)
    if as_json:
        return print_json({"file": str(output), "checkpoint": str(made), "signed_by": _label(signer)})
    size = Checkpoint.parse(made.text).size
    console.print(f"wrote {output}: {size} entries, {_by(signer)}", soft_wrap=True)
    return None


@ledger_app.command("receipt")
def receipt_command(
    charge: Annotated[str, typer.Argument(help="The charge's key.")],
    sign: LedgerSigner,
    scope: At = None,
    ledger: LedgerFile = DEFAULT_LEDGER,
    origin: Origin = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; the screen if blank.")] = None,
) -> None:
    """Write one signed line that shows a charge to lie in the ledger, and names neither its scope nor its key.

    Example: epsilog ledger receipt run-17 --sign privacy.pem -o receipt.txt
    """
    from epsilog.ledger import iterate_verified_documents, write_receipt

    signer = _load_key(sign)
    with open_for_reading(ledger) as books:
        entries = list(iterate_verified_documents(books))
    made = write_receipt(entries, key=charge, origin=_origin(origin, signer), signer=signer, scope=scope)
    _put(f"{made.in_one_line()}\n", output)


def _signer(key: Path | None) -> SigningKey | None:
    return None if key is None else _load_key(key)


def _load_key(key: Path) -> SigningKey:
    from epsilog.signing import SigningKey

    return SigningKey.load(key, passphrase=_passphrase)


def _passphrase(*, twice: bool = False) -> str:
    """What a key is encrypted with: from the environment, or asked for without showing it."""
    given = os.environ.get(PASSPHRASE)
    if given is not None:
        return given
    asked: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True)
    return asked


def _origin(origin: str | None, signer: SigningKey | None) -> str:
    from epsilog.ledger import Checkpoint

    if origin is not None:
        return origin
    return Checkpoint.UNNAMED if signer is None else signer.name


def _label(signer: SigningKey | None) -> str | None:
    return None if signer is None else signer.verifier.label


def _by(signer: SigningKey | None) -> str:
    return "signed by nobody" if signer is None else f"signed by {signer.verifier.label}"


def _put(content: str, output: Path | None) -> None:
    if output is None:
        typer.echo(content, nl=False)
        return
    from epsilog import durable_io

    durable_io.write_atomically(output, content.encode())
    console.print(f"wrote {output}", soft_wrap=True)
