"""`epsilog certify` and `epsilog check`: a proof of a release's epsilon, and its check by the standalone checker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epsilog.cli.app import (
    NOT_VERIFIED,
    Json,
    Output,
    Relation,
    ReleaseFile,
    app,
    is_standard,
    print_json,
    read_bytes,
    read_release,
    write_output,
)
from epsilog.cli.certificates import describe_certificate
from epsilog.cli.show import print_notice
from epsilog.terms import NeighboringRelation


@app.command("certify")
def certify_command(
    file: ReleaseFile,
    delta: Annotated[float, typer.Option("--delta", "-d", help="Failure probability, in [0, 1); 0 for pure DP.")],
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="Epsilon to prove, in nats; if omitted: the bound and --slack of it."),
    ] = None,
    slack: Annotated[float, typer.Option(help="Excess of epsilon over the accountant's bound, relative to it.")] = 1e-3,
    relation: Relation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    group_size: Annotated[
        int, typer.Option("--group-size", "-k", help="Most units that one person holds; proves the person's cost.")
    ] = 1,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Make a certificate: a proof of (epsilon, delta)-DP that anyone checks in a second without epsilog.

    Example: epsilog certify docs/examples/sgd.json --delta 1e-5 --output certificate.json
    """
    from epsilog import certificates

    found = certificates.certificate(
        read_release(file), delta=delta, epsilon=epsilon, slack=slack, relation=relation, group_size=group_size
    )
    if as_json:
        if not is_standard(output):
            write_output(found.text, output, quiet=True)
        return print_json(found.to_json())
    return write_output(found.text, output, f": {describe_certificate(found)}")


@app.command("check")
def check_command(
    file: Annotated[Path, typer.Argument(help="A certificate; - for standard input.")], as_json: Json = False
) -> None:
    """Check a certificate with the standalone checker; exit code 4 if its claim is not proven.

    Example: epsilog check certificate.json
    """
    from epsilog.certificates import check_certificate

    found = check_certificate(read_bytes(file))
    if as_json:
        print_json({"proven": found.proven, "message": found.message, "checker_sha256": found.checker})
    else:
        typer.echo(found.message)
        print_notice(f"By: dp_certificate.py with SHA-256 {found.checker}")
    if not found.proven:
        raise typer.Exit(NOT_VERIFIED)
