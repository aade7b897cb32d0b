"""Listening: on loopback only, until the server has roles and tokens."""

from __future__ import annotations

from pathlib import Path

from epsilog.terms import EpsilogError, check

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # the names that ``security.HOSTS`` answers to


def serve(
    host: str,
    port: int,
    *,
    ledger: str | None = None,
    runs: Path | str | None = None,
    certificates_in: Path | str | None = None,
) -> None:
    """Serves until interrupted; see ``epsilog.web.serve``."""
    port = check.integer(1, 65535)(port=port)
    if host not in LOOPBACK:
        raise ValueError(f"host must be a loopback address (there are no tokens yet), got {host!r}")
    try:
        import uvicorn

        from epsilog.web.app import create_app
    except ImportError as error:
        raise EpsilogError(f"the pages need the extra `server`: pip install 'epsilog[server]' ({error})") from error

    app = create_app(ledger=ledger, runs=runs, certificates_in=certificates_in)
    uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False, limit_concurrency=100)
