"""Listening: on loopback, or further where tokens and TLS stand before the rooms."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.server.entrance import AccessConfig, make_tls_context
from epsilog.terms import CheckError, EpsilogError, check
from epsilog.terms.extras import install_command

if TYPE_CHECKING:
    import uvicorn

PATIENCE = 1  # seconds for open requests once the server is to end; who watches a certificate would never hang up


def serve(
    host: str,
    port: int,
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
    entrance: AccessConfig | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves until interrupted; see ``epsilog.server.serve``."""
    port = check.integer(0, 65535)(port=port)
    if (tls_cert is None) != (tls_key is None):
        raise CheckError("tls_key" if tls_key is None else "tls_cert", "given with the other of the two", "none")
    entrance = (entrance or AccessConfig()).reached_at(host, tls=tls_cert is not None)
    tls = None if tls_cert is None or tls_key is None else make_tls_context(tls_cert, tls_key)
    try:
        from epsilog.server.desk import WorkerPool
    except ImportError as error:
        raise _missing(error) from error

    def made(desk: WorkerPool) -> uvicorn.Server:
        try:
            import uvicorn

            from epsilog.server.app import create_app
            from epsilog.server.prompt import MAX_CONNECTIONS, ConnectionLimits, ProxyConnectionLimits
        except ImportError as error:
            raise _missing(error) from error
        app = create_app(ledger=ledger, runs=runs, certificates_in=certificates_in, entrance=entrance, desk=desk)
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        config = uvicorn.Config(
            app,
            http=ProxyConnectionLimits if entrance.behind_proxy else ConnectionLimits,
            ws="none",
            log_level="warning",
            access_log=False,  # it would print addresses with their queries
            server_header=False,
            proxy_headers=False,  # it would believe X-Forwarded-For of whoever is on this machine
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=PATIENCE,
        )
        config.load()
        config.ssl = tls
        return uvicorn.Server(config)

    async def run(listener: socket.socket) -> None:
        desk = WorkerPool()
        try:
            await desk.begin()  # it loads the library while this process loads FastAPI
            server = made(desk)
            if ready is not None:
                name = f"[{host}]" if ":" in host else host
                ready(f"{'http' if tls is None else 'https'}://{name}:{listener.getsockname()[1]}")
            await server.serve(sockets=[listener])
        finally:
            await desk.close()

    with _bound(host, port) as listener:
        asyncio.run(run(listener))


def _missing(error: ImportError) -> EpsilogError:
    return EpsilogError(f"the pages need the extra `server`: {install_command('server')} ({error})")


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says why there is none."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise EpsilogError(f"port {port} of {host} cannot be bound: {error.strerror}") from error
    # its connections inherit it: else the second half of an answer waits until the first is acknowledged, 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_news(record: logging.LogRecord) -> bool:
    """Requests that end because the server does are no failure to tell of, with a page of traceback each."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)
