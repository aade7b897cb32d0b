"""The pages and the JSON API behind them: parse, call, show; no formula lives here.

``serve`` runs the server, ``create_app`` gives the application to a test or another server, ``build_embed_html`` gives
a calculator as one HTML file that needs no server. Who may come in is an ``AccessConfig``: this machine alone, or
holders of tokens, which ``create_token`` makes and ``revoke_token`` ends. FastAPI, uvicorn and what hashes tokens come
with the extra ``server``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.server.embeds import build_embed_html
from epsilog.server.entrance import AccessConfig
from epsilog.server.tokens import Token, create_token, read_tokens, revoke_token

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = [
    "AccessConfig",
    "Token",
    "build_embed_html",
    "create_app",
    "create_token",
    "read_tokens",
    "revoke_token",
    "serve",
]


def create_app(
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
    entrance: AccessConfig | None = None,
) -> FastAPI:
    """The application, not yet listening.

    Args:
        ledger: a ledger to read, as a database URL or a path; None shows none.
        runs: the folder whose subfolders hold ``report.json``; None shows none.
        certificates_in: the folder that keeps Monte Carlo certificates, begun and finished; None keeps them for as long
            as the application lives.
        entrance: who comes in; None lets in whoever is on this machine.
    """
    from epsilog.server.app import create_app as create

    return create(ledger=ledger, runs=runs, certificates_in=certificates_in, entrance=entrance)


def serve(
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
    entrance: AccessConfig | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves the pages until interrupted.

    Args:
        host: a loopback address; another only with tokens, and with TLS or a proxy that ends it.
        port: 0 to 65535; 0 takes a free one, which ``ready`` is told.
        ledger: as for ``create_app``.
        runs: as for ``create_app``.
        certificates_in: as for ``create_app``.
        entrance: as for ``create_app``.
        tls_cert: a certificate in PEM, with the chain above it; None serves HTTP.
        tls_key: its private key in PEM.
        ready: is told the address, once it is bound and everything that can be refused was not.

    Raises:
        ValueError: strangers could come in at the address.
        StorageError: the tokens cannot be used as they lie there.
        EpsilogError: the extra ``server`` is not installed.
    """
    from epsilog.server.server import serve as run

    run(
        host,
        port,
        ledger=ledger,
        runs=runs,
        certificates_in=certificates_in,
        entrance=entrance,
        tls_cert=tls_cert,
        tls_key=tls_key,
        ready=ready,
    )
