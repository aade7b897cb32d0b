"""Alerts: which shares are reached, what is sent, and that it is sent until it is acknowledged, and once then."""

import hashlib
import hmac
import http.server
import json
import threading
from contextlib import contextmanager

import pytest
from tests import commands

from epsilog.ledger import AlertSender, find_alerts, open_ledger
from epsilog.mechanisms import PureDP
from epsilog.terms import CheckError, StorageError

SECRET = b"0123456789abcdef"
PURE = {"kind": "pure", "privacy_unit": "person"}


def reached(ledger, *percents):
    return [(one.scope, one.percent) for one in find_alerts(ledger.budgets(), percents=percents)]


def test_a_share_is_reached_by_what_is_spent_or_reserved_to_the_unit(ledger):
    ledger.create_budget("acme", epsilon="1", **PURE)
    ledger.create_budget("acme/x", epsilon="0.5", **PURE)
    ledger.charge("acme/x", PureDP(0.25), key="a")
    ledger.reserve("acme", PureDP(0.249999999), key="b")
    assert reached(ledger, 25, 50, 51) == [("acme", 25), ("acme/x", 25), ("acme/x", 50)]
    ledger.reserve("acme", PureDP(0.000000001), key="c")
    assert reached(ledger, 50) == [("acme", 50), ("acme/x", 50)]
    ledger.retire("acme/x", actor="dora", reason="over")
    assert reached(ledger, 50) == [("acme", 50)]


def test_any_quantity_with_a_cap_counts_and_for_some_order_the_best(ledger):
    ledger.create_budget("both", kind="approximate", epsilon="10", delta="0")
    ledger.charge("both", PureDP(1.0), key="a")
    assert reached(ledger, 10, 11) == [("both", 10)]
    ledger.create_budget("orders", kind="rdp", epsilon="2", delta="1e-5", orders=["16", "64"])
    ledger.charge("orders", PureDP(0.25), key="b")
    (budget,) = [one for one in ledger.budgets() if one.scope == "orders"]
    shares = [budget.total_reserved.units[name] * 100 // cap for name, cap in budget.caps.units.items()]
    assert min(shares) < max(shares)
    assert [share for scope, share in reached(ledger, *range(1, 101)) if scope == "orders"][-1] == min(shares) > 0


@pytest.mark.parametrize("percent", [0, 101, 1.5])
def test_a_share_is_a_whole_number_of_100(ledger, percent):
    with pytest.raises(CheckError, match="percents"):
        find_alerts(ledger.budgets(), percents=[percent])


@contextmanager
def hook(statuses):
    """A web address that answers with these statuses in turn; yields it, and what it was sent."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["X-Epsilog-Signature"], body))
            status = statuses[min(len(got), len(statuses)) - 1]
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook?token=hidden", got
        finally:
            server.shutdown()
            thread.join()


def test_a_message_is_signed_sent_until_acknowledged_and_then_no_more(ledger, tmp_path):
    ledger.create_budget("acme", epsilon="1", **PURE)
    ledger.charge("acme", PureDP(0.875), key="secret-key")
    (alert,) = find_alerts(ledger.budgets(), percents=[80], ledger="books")
    with hook([500, 302, 204]) as (url, got):
        sender = AlertSender(url, secret=SECRET, state=tmp_path / "sent.json")
        for _ in range(2):
            with pytest.raises(StorageError, match=r"the webhook answered (500|302) instead of 2xx") as found:
                sender.send(alert, now=7)
            assert "hidden" not in str(found.value)
        assert sender.send(alert, now=8)
        assert not sender.send(alert, now=9)
        assert not AlertSender(url, secret=SECRET, state=tmp_path / "sent.json").send(alert, now=9)
    assert [path for path, _, _ in got] == ["/hook?token=hidden"] * 3
    _, signature, body = got[-1]
    assert json.loads(body) == {"v": 0, "kind": "budget-alert", "id": alert.id, "scope": "acme", "percent": 80}
    assert signature == f"t=8,v1={hmac.new(SECRET, b'8.' + body, hashlib.sha256).hexdigest()}"
    assert (tmp_path / "sent.json").stat().st_mode & 0o777 == 0o600
    with pytest.raises(StorageError, match="did not answer: ConnectionRefusedError"):
        AlertSender(url, secret=SECRET, state=tmp_path / "other.json").send(alert, now=9)


def test_a_raised_cap_another_budget_and_another_ledger_have_other_ids(ledger):
    ledger.create_budget("acme", epsilon="1", **PURE)
    ledger.charge("acme", PureDP(0.875), key="a")
    ids = {one.id for one in find_alerts(ledger.budgets(), percents=[50, 80])}
    ids |= {one.id for one in find_alerts(ledger.budgets(), percents=[50, 80], ledger="other")}
    ledger.set_cap("acme", epsilon="1.0001", actor="dora", reason="more")
    ids |= {one.id for one in find_alerts(ledger.budgets(), percents=[50, 80])}
    assert len(ids) == 6


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://127.0.0.1", "https://", "https://a b", "mailto:x"])
def test_messages_go_by_tls_or_stay_on_this_machine(tmp_path, url):
    with pytest.raises(CheckError, match="webhook must be https://HOST/PATH"):
        AlertSender(url, secret=SECRET, state=tmp_path / "sent.json")


@pytest.mark.parametrize("content", ["", "[]", '{"kind": "alerts", "sent": [1]}', '{"sent": []}', "\0"])
def test_a_file_of_something_else_is_not_taken_for_the_state(tmp_path, content):
    (tmp_path / "sent.json").write_text(content)
    with pytest.raises(StorageError, match="sent alerts"):
        AlertSender("https://example.org", secret=SECRET, state=tmp_path / "sent.json")
    with pytest.raises(CheckError, match="secret must be at least 16 bytes"):
        AlertSender("https://example.org", secret=b"short", state=tmp_path / "none.json")


@pytest.mark.slow
def test_the_command_tells_once_and_fails_where_nobody_acknowledges(tmp_path):
    with open_ledger(tmp_path / "books.db") as books:
        books.create_budget("acme", epsilon="1", **PURE)
        books.create_budget("lab", epsilon="1", **PURE)
        for scope in ("acme", "lab"):
            books.charge(scope, PureDP(0.875), key="a")
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    with hook([204]) as (url, got):
        words = ("ledger", "alert", "--webhook", url, "--secret-file", "secret", "--once", "--ledger", "books.db")
        first = commands.run(*words, "--at", "80", "--scope", "acme", cwd=tmp_path)
        assert (first.returncode, first.stdout) == (0, "acme has used 80% of its cap: sent\n")
        again = commands.run(*words, "--at", "80", cwd=tmp_path)
        assert (again.returncode, again.stdout) == (0, "lab has used 80% of its cap: sent\n")
    assert len(got) == 2
    refused = commands.run(*words, "--at", "50", cwd=tmp_path)
    assert refused.returncode == 6
    assert "hidden" not in refused.stdout + refused.stderr
