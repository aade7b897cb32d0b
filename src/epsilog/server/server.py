"""Listening: on loopback, or elsewhere where tokens and TLS protect the server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from epsilog.server.access import AccessConfig
from epsilog.server.tls import TlsCertificate
from epsilog.terms import CheckError, EpsilogError, check
from epsilog.terms.extras import install_command

if TYPE_CHECKING:
    import uvicorn

SHUTDOWN_SECONDS = 1  # for open requests once the server is to end; a stream of events would never end


def serve(
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    montecarlo_in: Path | str | None = None,
    access: AccessConfig | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the pages until interrupted.

    Args:
        host: a loopback address; another only with tokens, and with TLS or a proxy that ends it.
        port: 0 to 65535; 0 takes a free one, which ``ready`` receives.
        ledger: as for ``create_app``.
        runs: as for ``create_app``.
        montecarlo_in: as for ``create_app``.
        access: as for ``create_app``.
        tls_cert: a TLS certificate in PEM, with the chain above it, read again when it changes; None serves HTTP.
        tls_key: its private key in PEM.
        ready: receives the address once it is bound and no argument was refused.

    Raises:
        ValueError: strangers could enter at the address.
        StorageError: the file of tokens cannot be used.
        EpsilogError: the extra ``server`` is not installed.
    """
    port = check.integer(0, 65535)(port=port)
    if (tls_cert is None) != (tls_key is None):
        raise CheckError("tls_key" if tls_key is None else "tls_cert", "given with the other of the two", "none")
    access = (access or AccessConfig()).for_address(host, tls=tls_cert is not None)
    tls = None if tls_cert is None or tls_key is None else TlsCertificate(tls_cert, tls_key)
    try:
        from epsilog.server.workers import WorkerPool
    except ImportError as error:
        raise _explain_missing_extra(error) from error

    def make_server(workers: WorkerPool) -> uvicorn.Server:
        try:
            import uvicorn

            from epsilog.server.app import create_app
            from epsilog.server.connections import MAX_CONNECTIONS, ConnectionLimits, ProxyConnectionLimits
        except ImportError as error:
            raise _explain_missing_extra(error) from error
        app = create_app(ledger=ledger, runs=runs, montecarlo_in=montecarlo_in, access=access, workers=workers)
        logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
        config = uvicorn.Config(
            app,
            http=ProxyConnectionLimits if access.trust_proxy else ConnectionLimits,
            ws="none",
            log_level="warning",
            access_log=False,  # it would print addresses with their queries
            server_header=False,
            proxy_headers=False,  # it would believe X-Forwarded-For of any process on this machine
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        config.load()
        config.ssl = None if tls is None else tls.context
        return uvicorn.Server(config)

    async def run(listener: socket.socket) -> None:
        workers = WorkerPool()
        try:
            await workers.open()  # they load the library while this process loads FastAPI
            server = make_server(workers)
            await workers.warm()
            watching = None if tls is None else asyncio.create_task(tls.watch())
            if ready is not None:
                name = f"[{host}]" if ":" in host else host
                ready(f"{'http' if tls is None else 'https'}://{name}:{listener.getsockname()[1]}")
            await server.serve(sockets=[listener])
            if watching is not None:
                watching.cancel()
        finally:
            await workers.close()

    with _bind(host, port) as listener:
        asyncio.run(run(listener))


def _explain_missing_extra(error: ImportError) -> EpsilogError:
    return EpsilogError(f"the pages need the extra `server`: {install_command('server')} ({error})")


def _bind(host: str, port: int) -> socket.socket:
    """Return a listening socket, or an error that says why it cannot be bound."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise EpsilogError(f"port {port} of {host} cannot be bound: {error.strerror}") from error
    # connections inherit this: else the second half of a response waits until the first is acknowledged, 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Requests that end because the server does are no failures: a page of traceback each would bury others."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)
