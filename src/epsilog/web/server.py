"""Listening: on loopback only, until the server has roles and tokens."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from epsilog.terms import CheckError, EpsilogError, check

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # the names that ``security.HOSTS`` answers to

PATIENCE = 1  # seconds for open requests once the server is to end; who watches a certificate would never hang up


def serve(
    host: str,
    port: int,
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves until interrupted; see ``epsilog.web.serve``."""
    port = check.integer(1, 65535)(port=port)
    if host not in LOOPBACK:
        raise CheckError("host", "a loopback address (there are no tokens yet)", repr(host))
    try:
        import uvicorn

        from epsilog.web.app import create_app
    except ImportError as error:
        raise EpsilogError(f"the pages need the extra `server`: pip install 'epsilog[server]' ({error})") from error

    app = create_app(ledger=ledger, runs=runs, certificates_in=certificates_in)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    config = uvicorn.Config(
        app, log_level="warning", server_header=False, limit_concurrency=100, timeout_graceful_shutdown=PATIENCE
    )
    with _bound(host, port) as listener:
        if ready is not None:
            ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
        uvicorn.Server(config).run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says why there is none."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise EpsilogError(f"port {port} of {host} cannot be bound: {error.strerror}") from error


def _is_news(record: logging.LogRecord) -> bool:
    """Requests that end because the server does are no failure to tell of, with a page of traceback each."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)
