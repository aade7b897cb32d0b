"""The pages and the JSON API behind them: parse, call, show; no formula lives here.

``serve`` runs the server on loopback, ``create_app`` gives the application to a test or another server, ``embed`` gives
a calculator as one HTML file that needs no server. FastAPI and uvicorn come with the extra ``server``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.web.embeds import embed

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app", "embed", "serve"]


def create_app(
    *, ledger: str | None = None, runs: Path | str | None = None, certificates_in: Path | str | None = None
) -> FastAPI:
    """The application, not yet listening.

    Args:
        ledger: a ledger to read, as a database URL or a path; None shows none.
        runs: the folder whose subfolders hold ``report.json``; None shows none.
        certificates_in: the folder that keeps Monte Carlo certificates, begun and finished; None keeps them for as long
            as the application lives.
    """
    from epsilog.web.app import create_app as create

    return create(ledger=ledger, runs=runs, certificates_in=certificates_in)


def serve(
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves the pages until interrupted.

    Args:
        host: a loopback address; anything else is refused until the server has roles and tokens.
        port: 1 to 65535.
        ledger: as for ``create_app``.
        runs: as for ``create_app``.
        certificates_in: as for ``create_app``.
        ready: is told the address, once it is bound and everything that can be refused was not.

    Raises:
        ValueError: the address is not loopback.
        EpsilogError: the extra ``server`` is not installed.
    """
    from epsilog.web.server import serve as run

    run(host, port, ledger=ledger, runs=runs, certificates_in=certificates_in, ready=ready)
