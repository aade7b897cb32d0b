"""What stands before the rooms: tokens or this machine alone, which names the server answers to, how often one may ask.

Whatever would let strangers in is refused when it is described, before anything listens.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from epsilog.terms import CheckError, check

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})  # the same as a Host header has them
RATE = 50.0  # requests a second that one holder may go on with
BURST = 4  # seconds' worth of them at once
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """How one comes in.

    Attributes:
        tokens: the file that ``epsilog token create`` writes; None lets in whoever is on this machine, as its owner.
        names: hosts that the server is reached by, beside the names of loopback; they need tokens.
        behind_proxy: a proxy on this machine ends TLS and says in X-Forwarded-For who asks; it needs tokens.
        rate: requests a second that one holder may go on with.
        access_log: print one line of JSON for each request.
    """

    tokens: Path | None = None
    names: tuple[str, ...] = ()
    behind_proxy: bool = False
    rate: float = RATE
    access_log: bool = False

    def __post_init__(self) -> None:
        check.validate_fields(self, rate=check.positive())
        object.__setattr__(self, "names", tuple(_host(name) for name in self.names))
        if self.tokens is None and (self.names or self.behind_proxy):
            raise CheckError("tokens", "given, where others than this machine's can reach the server", "none")

    @property
    def hosts(self) -> frozenset[str]:
        """What a Host header may say."""
        return HOSTS | frozenset(self.names)

    def reached_at(self, host: str, *, tls: bool) -> AccessConfig:
        """The same for a server that listens at an address, if it may.

        Raises:
            CheckError: it is not loopback, and strangers could come in, or read along, or lead a browser there.
        """
        if host in LOOPBACK:
            return self
        if self.tokens is None or not (tls or self.behind_proxy):
            bound = "a loopback address, as long as there are not both tokens and TLS (or a proxy before it)"
            raise CheckError("host", bound, repr(host))
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise CheckError("host", "an IP address, or localhost", repr(host)) from None
        if not address.is_unspecified:
            return AccessConfig(self.tokens, (*self.names, host), self.behind_proxy, self.rate, self.access_log)
        if not self.names:
            raise CheckError("name", f"given, where the host is {host}: the name that others reach it by", "none")
        return self


def make_tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a server of TLS 1.2 and above shows and proves.

    Args:
        certificate: in PEM, with the chain above it.
        key: its private key in PEM; the world may have no access to it.
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
        raise CheckError(
            "tls_cert", "a certificate and its key, in PEM", f"{certificate} and {key} ({error})"
        ) from error
    return context


def _host(name: str) -> str:
    """A host as a Host header has it, without a port."""
    name = check.text()(name=name).lower()
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        if len(name) > 253 or not _NAME.fullmatch(name):
            raise CheckError("name", "a host, without scheme and port", repr(name[:80])) from None
        return name
    return f"[{address}]" if address.version == 6 else str(address)
