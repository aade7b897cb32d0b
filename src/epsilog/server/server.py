"""Listening: on loopback, or elsewhere where tokens and TLS protect the server."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from epsilog.server.access import AccessConfig
from epsilog.terms import CheckError, EpsilogError, check
from epsilog.terms.extras import install_command

if TYPE_CHECKING:
    import uvicorn

SHUTDOWN_SECONDS = 1  # for open requests once the server is to end; a stream of events would never end
RELOAD_SECONDS = 30.0  # between two looks at the files
_LOG = logging.getLogger("uvicorn.error")


@final
class TlsCertificate:
    """A TLS certificate and its key: each new connection uses the files as they last were a valid pair."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = certificate, key
        self._stamp = self._read_stamp()
        self._current = self.context = make_tls_context(certificate, key)
        self.context.sni_callback = self._use_current  # called for each handshake, with a server name or without

    def _use_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current

    def refresh(self) -> None:
        """Read the files if they have changed; a pair that is not valid is logged, and the present one stays."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._current = make_tls_context(*self._files)
        except CheckError as error:
            _LOG.error("the TLS certificate was not renewed: %s", error)

    async def watch(self) -> None:
        """Refresh from time to time, until cancelled."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            self.refresh()

    def _read_stamp(self) -> list[tuple[int, ...] | None]:
        """Return what changes when a file is written or replaced."""
        found: list[tuple[int, ...] | None] = []
        for path in self._files:
            try:
                at = path.stat()
                found.append((at.st_dev, at.st_ino, at.st_size, at.st_mode, at.st_mtime_ns, at.st_ctime_ns))
            except OSError:
                found.append(None)
        return found


def make_tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of a server of TLS 1.2 and above."""
    for field, path in (("tls_cert", certificate), ("tls_key", key)):
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise CheckError(field, "a file that can be read", f"{path} ({error.strerror})") from error
        if field == "tls_key" and stat.S_IMODE(mode) & 0o027:
            raise CheckError(field, "a file that others cannot read (chmod 600)", f"{path} with mode {mode & 0o777:o}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        found = f"{certificate} and {key} ({error})"
        raise CheckError("tls_cert", "a TLS certificate and its key, in PEM", found) from error
    return context


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
    otel_scopes: Sequence[str] = (),
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
        otel_scopes: as for ``create_app``.
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

    async def run(listener: socket.socket) -> None:
        workers = WorkerPool()
        try:
            await workers.open()  # they load the library while this process loads FastAPI
            served = {"ledger": ledger, "runs": runs, "montecarlo_in": montecarlo_in, "otel_scopes": otel_scopes}
            server = _make_server(access, tls, workers=workers, **served)
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


def _make_server(access: AccessConfig, tls: TlsCertificate | None, **served: Any) -> uvicorn.Server:
    """Return the server, not yet listening; ``served`` is for ``create_app``."""
    try:
        import uvicorn

        from epsilog.server.app import create_app
        from epsilog.server.connections import MAX_CONNECTIONS, ConnectionLimits, ProxyConnectionLimits
    except ImportError as error:
        raise _explain_missing_extra(error) from error
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    config = uvicorn.Config(
        create_app(access=access, **served),
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
