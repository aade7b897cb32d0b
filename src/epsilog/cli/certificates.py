"""`--certificate FILE`: an answer is printed, and the certificate of what it states is written besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epsilog.cli.app import echo, error_to_json, find_exit_code, is_standard, print_json, write_output
from epsilog.terms import CheckError, EpsilogError

if TYPE_CHECKING:
    from epsilog.certificates import Certificate

CERTIFICATE_OPTION = typer.Option(
    "--certificate",
    help="File to write with a certificate of the answer; an error after the answer where there is none.",
)
CertificateFile = Annotated[Path | None, CERTIFICATE_OPTION]


def describe_certificate(found: Certificate) -> str:
    """Return what a certificate proves, and its hash, in one line."""
    return f"epsilon {found.claim['epsilon']} at delta {found.claim['delta']} is proven; SHA-256 {found.sha256}"


def print_with_certificate(
    document: Mapping[str, Any],
    show: Callable[[], None],
    *,
    file: Path | None,
    claim: Callable[[], Mapping[str, Any]],
    as_json: bool,
) -> None:
    """Print an answer, and write the certificate of what it states if a file is named.

    Args:
        document: the answer as JSON.
        show: prints the answer as text.
        file: the file to write; None for no certificate.
        claim: returns the arguments of ``certificates.certificate``.
        as_json: whether the answer is printed as JSON, with the certificate or the error as ``certificate``.

    Raises:
        EpsilogError: no certificate was made, or written; the answer was printed.
    """
    if file is None:
        return print_json(document) if as_json else show()
    try:
        found = _write(file, claim)
    except (EpsilogError, ValueError, OSError) as error:
        if not as_json:
            show()
            raise
        print_json({**document, "certificate": {"error": error_to_json(error)}})
        raise typer.Exit(find_exit_code(error)) from None
    if as_json:
        return print_json({**document, "certificate": {"file": str(file), **found.to_json()}})
    show()
    return echo(f"wrote {file}: {describe_certificate(found)}")


def _write(file: Path, claim: Callable[[], Mapping[str, Any]]) -> Certificate:
    from epsilog.certificates import certificate

    if is_standard(file):
        raise CheckError("certificate", "a file", repr(str(file)))
    found = certificate(**claim())
    write_output(found.text, file, quiet=True)
    return found
