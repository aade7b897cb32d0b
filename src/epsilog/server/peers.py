"""Where a request comes from, as far as that can be believed."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import Scope


def get_client_address(scope: Scope, *, behind_proxy: bool) -> str:
    """The address that is to be counted: of IPv6 the network of 64 bits, since whoever has one address has them all.

    Args:
        scope: of the request.
        behind_proxy: believe the last address in X-Forwarded-For, which the proxy itself wrote; those before it are the
            asker's own words.
    """
    client = scope.get("client")
    said = Headers(scope=scope).getlist("x-forwarded-for") if behind_proxy else []
    for text in (*(line.rpartition(",")[2] for line in said[-1:]), client[0] if client else ""):
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            continue
        if isinstance(address, ipaddress.IPv6Address):
            if address.ipv4_mapped is None:
                return str(ipaddress.ip_network((address.packed, 64), strict=False))
            address = address.ipv4_mapped
        return str(address)
    return "unknown"
