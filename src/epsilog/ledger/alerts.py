"""Alerts: a signed message to a web address when a budget has used a stated share of its cap.

A message names the budget and the share, and holds nothing else of the ledger. It is sent until it is acknowledged, so
it may arrive twice, with the same id.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from epsilog import durable_io
from epsilog.ledger.balances import Balance
from epsilog.terms import CheckError, StorageError, check
from epsilog.terms.codec import encode_canonical, hash_canonical, parse_json

SIGNATURE_HEADER = "X-Epsilog-Signature"
PATIENCE = 10.0  # seconds for one message
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_MIN_SECRET = 16  # bytes
_MAX_STATE = 4 * 2**20  # bytes


@dataclass(frozen=True, slots=True)
class Alert:
    """A budget has used a share of its cap: spent and reserved together."""

    id: str  # the same whenever the same is found: of this ledger, budget, cap and share
    scope: str
    percent: int  # the share, of 100

    def to_json(self) -> dict[str, object]:
        """Return the message."""
        return {"v": 0, "kind": "budget-alert", "id": self.id, "scope": self.scope, "percent": self.percent}


def find_alerts(budgets: Iterable[Balance], *, percents: Sequence[int], ledger: str = "") -> list[Alert]:
    """Return the shares that budgets have reached, by scope and share.

    A share is reached when each quantity that could still admit a charge has reached it: the largest, or for a budget
    of which one quantity is enough, the smallest. Retired budgets are left out, and quantities without a cap.

    Args:
        budgets: as they are now.
        percents: the shares, 1 to 100 of 100.
        ledger: where it is kept; two ledgers give different ids.
    """
    asked = sorted({check.integer(1, 100)(percents=percent) for percent in percents})
    found = []
    for budget in sorted(budgets, key=lambda one: one.scope):
        for percent in asked:
            if budget.retired is None and _has_used(budget, percent):
                named = [ledger, budget.scope, budget.kind, dict(budget.caps), percent]
                found.append(Alert(hash_canonical(named), budget.scope, percent))
    return found


def _has_used(budget: Balance, percent: int) -> bool:
    used = budget.total_reserved.units
    reached = [100 * used[name] >= percent * cap for name, cap in budget.caps.units.items() if cap]
    return bool(reached) and (all(reached) if budget.filter.one_is_enough else any(reached))


class AlertSender:
    """Sends alerts to one address, and keeps in a file which were acknowledged.

    Args:
        url: ``https://...``, or ``http://`` on this machine; never printed, since it may hold a token.
        secret: signs the messages; at least 16 bytes.
        state: the file; made when the first message was acknowledged.
    """

    def __init__(self, url: str, *, secret: bytes, state: Path) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if not (secure and parts.hostname and url.isascii() and url.isprintable() and " " not in url):
            raise CheckError("webhook", "https://HOST/PATH, or http:// on this machine", "another address")
        if len(secret) < _MIN_SECRET:
            raise CheckError("secret", f"at least {_MIN_SECRET} bytes", f"{len(secret)}")
        self._parts, self._secret, self._state = parts, secret, state
        self._sent = _read_sent(state)

    def send(self, alert: Alert, *, now: int) -> bool:
        """Send an alert unless it was acknowledged before; return whether a message was sent.

        The header ``X-Epsilog-Signature`` is ``t=NOW,v1=HEX``, with HEX the HMAC-SHA256 of ``NOW.BODY``.

        Raises:
            StorageError: it was not acknowledged by a status of 2xx; send it again later.
        """
        if alert.id in self._sent:
            return False
        body = encode_canonical(alert.to_json())
        signed = hmac.new(self._secret, f"{now}.".encode() + body, hashlib.sha256).hexdigest()
        status = self._post(body, f"t={now},v1={signed}")
        if not 200 <= status < 300:
            raise StorageError(f"the webhook answered {status} instead of 2xx")
        self._sent = [*self._sent, alert.id]
        document = {"v": 0, "kind": "alerts", "sent": self._sent}
        durable_io.write_atomically(self._state, (json.dumps(document, indent=1) + "\n").encode(), private=True)
        return True

    def _post(self, body: bytes, signature: str) -> int:
        import http.client  # half of what the ledger takes to be imported
        import ssl

        host, port = str(self._parts.hostname), self._parts.port
        connection: http.client.HTTPConnection
        if self._parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        path = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", SIGNATURE_HEADER: signature})
            return connection.getresponse().status  # a redirect is no acknowledgment, and is not followed
        except (OSError, http.client.HTTPException) as error:
            raise StorageError(f"the webhook did not answer: {type(error).__name__}") from None
        finally:
            connection.close()


def _read_sent(state: Path) -> list[str]:
    try:
        with state.open("rb") as file:
            document = parse_json(file.read(_MAX_STATE + 1))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{state} cannot be read as a file of sent alerts: {error}") from None
    sent = document.get("sent") if isinstance(document, dict) and document.get("kind") == "alerts" else None
    if not (isinstance(sent, list) and all(isinstance(one, str) for one in sent)):
        raise StorageError(f"{state} is no file of sent alerts")
    return sent
