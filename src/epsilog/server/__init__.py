"""The pages and the JSON API behind them: parse, call, show; no formula is here.

``serve`` runs the server, ``create_app`` returns the application for a test or another server, ``build_embed_html``
writes a calculator as one HTML file that needs no server. ``AccessConfig`` states who may enter: users of this machine,
or holders of tokens, which ``create_token`` makes and ``revoke_token`` ends. FastAPI, uvicorn and what hashes tokens
come with the extra ``server``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from epsilog.server.access import AccessConfig
from epsilog.server.embeds import build_embed_html
from epsilog.server.server import serve
from epsilog.server.tokens import Token, create_token, read_tokens, revoke_token, rotate_token

if TYPE_CHECKING:
    from epsilog.server.app import create_app
    from epsilog.server.selftest import run_server_campaign as run_server_campaign

__all__ = [
    "AccessConfig",
    "Token",
    "build_embed_html",
    "create_app",
    "create_token",
    "read_tokens",
    "revoke_token",
    "rotate_token",
    "serve",
]


def __getattr__(name: str) -> Any:
    """Import what takes a while to load when it is first used; ``create_app`` needs FastAPI, which is an extra."""
    if name == "create_app":
        from epsilog.server.app import create_app

        return create_app
    if name == "run_server_campaign":
        from epsilog.server.selftest import run_server_campaign

        return run_server_campaign
    raise AttributeError(f"module 'epsilog.server' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
