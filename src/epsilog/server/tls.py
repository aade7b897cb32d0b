"""The TLS certificate of a server, which may be renewed while the server runs."""

from __future__ import annotations

import asyncio
import logging
import ssl
import stat
from pathlib import Path
from typing import final

from epsilog.terms import CheckError

RELOAD_SECONDS = 30.0  # between two looks at the files
_LOG = logging.getLogger("uvicorn.error")


@final
class TlsCertificate:
    """A TLS certificate and its key: each new connection uses the files as they last were a valid pair.

    Args:
        certificate: the TLS certificate in PEM, with the chain above it.
        key: its private key in PEM; other users may have no access to it.

    Attributes:
        context: of the listening socket.
    """

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
    """Return the context of a server of TLS 1.2 and above.

    Args:
        certificate: the TLS certificate in PEM, with the chain above it.
        key: its private key in PEM; other users may have no access to it.
    """
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
