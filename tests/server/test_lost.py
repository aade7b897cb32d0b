"""What a client knows when an answer is lost, and what a killed server has kept."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from epsilog.ledger import Amounts, ChargeRequest, Entry, Verb, open_ledger, read_ledger
from epsilog.ledger.commands import ChargeAtOnce
from epsilog.ledger.remote import connection
from epsilog.mechanisms import PureDP
from epsilog.server import create_app
from epsilog.terms import (
    BatchRefusedError,
    BudgetExceededError,
    CheckError,
    ConflictError,
    EpsilogError,
    LedgerIntegrityError,
    OutcomeUnknownError,
    PermissionDeniedError,
    StorageError,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(connection, "PAUSES", (0.01, 0.02, 0.03))


class Line:
    """Passes bytes on to a site, and loses the answers that it is told to lose."""

    def __init__(self, site):
        self.site, self.lose, self.swallow, self.asked, self.meanwhile = site, 0, 0, 0, lambda: None
        self.cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open, self._thread = True, threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while self._open:
            near, _ = self._listener.accept()
            with near:
                if self._open:
                    self._pass_on(near)

    def _pass_on(self, near):
        with socket.create_connection((self.site.host, self.site.port)) as far:
            while True:
                ask = _message(near)
                if not ask:
                    return
                self.asked += 1
                if self.swallow:
                    self.swallow -= 1
                    self.meanwhile()
                    return
                far.sendall(ask)
                answer = _message(far)
                if self.lose:
                    self.lose -= 1
                    return
                if self.cut:
                    near.sendall(answer[:60])
                    return
                near.sendall(answer)

    def close(self):
        self._open = False
        socket.create_connection(self._listener.getsockname()).close()
        self._thread.join()
        self._listener.close()


def _message(link):
    """One HTTP message, whole; nothing once the other end has hung up."""
    found = b""
    while b"\r\n\r\n" not in found:
        piece = link.recv(65536)
        if not piece:
            return b""
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    long = re.search(rb"content-length: (\d+)", head.lower())
    while long and len(body) < int(long[1]):
        body += link.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def site(tmp_path_factory, serve_app):
    path = tmp_path_factory.mktemp("lost") / "ledger.db"
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="10")
    with serve_app(create_app(ledger=str(path))) as found:
        yield found


@pytest.fixture
def line(site):
    found = Line(site)
    yield found
    found.close()


@pytest.fixture
def ledger(line):
    with open_ledger(line.url) as opened:
        yield opened


@pytest.mark.slow
def test_what_is_the_same_twice_is_said_again(ledger, line):
    before = ledger.head()[0]
    for ask in (
        lambda: ledger.reserve("acme", PureDP(0.125), key="twice"),
        lambda: ledger.find("twice").cancel("not needed"),
        lambda: ledger.create_budget("acme/x", kind="pure", epsilon="1"),
        lambda: ledger.register_plan("acme/x", "ab" * 32, key="twice-plan"),
        lambda: ledger.retire("acme/x", actor="dora", reason="over"),
        lambda: ledger.balance("acme"),
    ):
        line.lose = 1
        ask()
        assert line.lose == 0
    assert ledger.head()[0] == before + 5


def test_a_start_whose_answer_was_lost_is_claimed_by_nobody(ledger, line):
    charge = ledger.reserve("acme", PureDP(0.125), key="lost-start")
    line.lose = 1
    with pytest.raises(OutcomeUnknownError, match=r"a retry was refused: .* it is started"):
        charge.start()
    assert charge.state == "started"
    with pytest.raises(ConflictError):  # an answer that came is no lost one
        charge.start()


def test_a_refusal_that_was_cut_is_no_refusal(ledger, line):
    """The start was made, and its answer lost; of what is said when it is asked again, only the first lines arrive."""
    charge = ledger.reserve("acme", PureDP(0.125), key="cut-start")
    line.lose, line.cut = 1, True
    with pytest.raises(OutcomeUnknownError, match="may or may not have taken effect"):
        charge.start()
    line.cut = False
    assert charge.state == "started"


def test_a_start_that_another_made_meanwhile_is_not_ours(ledger, line, site):
    """Our asking is lost on its way there; another starts before we ask again."""
    charge = ledger.reserve("acme", PureDP(0.125), key="raced-start")
    with open_ledger(site.url) as other:
        line.swallow, line.meanwhile = 1, other.find("raced-start").start
        with pytest.raises(OutcomeUnknownError):
            charge.start()
    assert line.swallow == 0
    assert [entry.verb.value for entry in ledger.history("acme") if entry.key == charge.key].count("started") == 1


def test_a_start_that_never_arrived_is_made_by_saying_it_again(ledger, line):
    charge = ledger.reserve("acme", PureDP(0.125), key="late-start")
    line.swallow = 1
    charge.start()
    assert (line.swallow, charge.state) == (0, "started")


def test_charges_whose_answer_was_lost_are_found_under_their_keys_and_paid_once(ledger, line):
    before = ledger.head()[0]
    line.lose = 1
    with pytest.raises(OutcomeUnknownError, match="exists, but it is unknown whether this request created it"):
        ledger.charge("acme", PureDP(0.125), key="lost-charge")
    assert ledger.charge("acme", PureDP(0.125), key="lost-charge").replayed
    batch = [ChargeAtOnce("acme", PureDP(0.125), key=f"lost-{number}") for number in range(3)]
    line.lose = 1
    with pytest.raises(OutcomeUnknownError, match="exist, but it is unknown whether this request created them"):
        ledger.charge_many(batch)
    assert [one.replayed for one in ledger.charge_many(batch)] == [True] * 3
    assert ledger.head()[0] == before + 4


def test_a_batch_that_both_attempts_must_refuse_was_not_charged(ledger, line):
    before = ledger.head()
    line.lose = 1
    with pytest.raises(BatchRefusedError):
        ledger.charge_many([ChargeAtOnce("acme", PureDP(99.0), key="dear")])
    ledger.reserve("acme", PureDP(0.125), key="reserved-once")
    line.lose = 1
    with pytest.raises(OutcomeUnknownError, match="a retry was refused"):  # perhaps by our own effect
        ledger.charge_many([ChargeAtOnce("acme", PureDP(0.125), key="reserved-once")])
    assert ledger.head()[0] == before[0] + 1


def test_a_cap_is_asked_for_once(ledger, line):
    line.lose, line.asked = 1, 0
    with pytest.raises(OutcomeUnknownError, match="may or may not have taken effect"):
        ledger.set_cap("acme", actor="dora", reason="board", epsilon="11")
    assert line.asked == 1
    assert ledger.balance("acme").caps["epsilon"] == "11"


def test_when_no_answer_ever_comes_that_is_said(ledger, line):
    line.lose = 100
    with pytest.raises(OutcomeUnknownError, match="may or may not have taken effect"):
        ledger.reserve("acme", PureDP(0.125), key="never")
    with pytest.raises(StorageError) as found:
        ledger.head()
    assert not isinstance(found.value, OutcomeUnknownError)
    line.lose = 0
    assert ledger.find("never").state == "reserved"


@contextmanager
def answering(*answers):
    """A server that says what it is told to, whatever it is asked; it keeps what it was asked."""
    listener, asked = socket.create_server(("127.0.0.1", 0)), []

    def serve():
        for answer in answers:
            near, _ = listener.accept()
            with near:
                asked.append(_message(near))
                near.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        thread.join()
        listener.close()


def said(status, body=b"", *more):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_a_token_goes_to_the_server_that_was_named_and_nowhere_else():
    elsewhere = said("307 Temporary Redirect", b"", "Location: http://127.0.0.1:1/api/v1/ledger/head")
    refused = pytest.raises(EpsilogError, match="redirects are not followed")
    with answering(elsewhere) as (url, asked), open_ledger(url, token="eps_hush") as ledger, refused as found:  # noqa: S106
        ledger.head()
    assert b"authorization: bearer eps_hush" in asked[0].lower()
    assert "hush" not in str(found.value)


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([said("401 Unauthorized", b"{}")], PermissionDeniedError),
        ([said("403 Forbidden", b"no")], PermissionDeniedError),
        ([said("404 Not Found")], EpsilogError),
        ([said("418 I'm a teapot")], EpsilogError),
        ([said("503 Service Unavailable")] * 4, StorageError),
        ([said("429 Too Many Requests")] * 4, StorageError),
        ([said("500 Internal Server Error")] * 4, OutcomeUnknownError),
        ([said("200 OK", b"<html>")] * 4, OutcomeUnknownError),
        ([said("200 OK", b"[1]")] * 4, OutcomeUnknownError),
        ([b"nonsense"] * 4, OutcomeUnknownError),
        ([b""] * 4, OutcomeUnknownError),
        ([b"", said("401 Unauthorized", b"{}")], OutcomeUnknownError),  # let in the first time, perhaps
        ([b"", said("403 Forbidden", b'{"code": "access", "message": "no"}')], OutcomeUnknownError),
        ([b"", said("404 Not Found")], OutcomeUnknownError),
        ([b"", said("500 x", b'{"code": "integrity", "message": "no", "index": 1}')], OutcomeUnknownError),
        ([b"", said("422 x", b'{"code": "check", "check": ["scope", "one", "none", "be"]}')], CheckError),
        ([b"", said("409 x"), said("403 Forbidden")], OutcomeUnknownError),
    ],
)
def test_answers_that_are_none(answers, error):
    with answering(*answers) as (url, _), open_ledger(url) as ledger:
        with pytest.raises(error) as found:
            ledger.retire("acme", actor="dora", reason="over")
        assert type(found.value) is error or error is EpsilogError


def test_being_turned_away_is_no_lost_answer():
    done = said("200 OK", b'{"count": 1, "hash": "ab"}')
    turned_away = said("503 Service Unavailable"), said("429 Too Many Requests")
    with answering(*turned_away, done) as (url, asked), open_ledger(url) as ledger:
        assert ledger.head() == (1, "ab")
    assert len(asked) == 3


SERVER = """
import sys
from epsilog.server import serve
serve("127.0.0.1", int(sys.argv[1]), ledger=sys.argv[2], ready=lambda address: print(address, flush=True))
"""


@contextmanager
def process(path, port):
    """A server in a process of its own."""
    found = subprocess.Popen([sys.executable, "-c", SERVER, str(port), str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert found.stdout.readline().startswith("http")
        yield found
    finally:
        found.kill()
        found.wait()
        found.stdout.close()


@pytest.mark.slow
@pytest.mark.extended
def test_a_killed_server_loses_nothing_that_it_acknowledged(tmp_path):
    path, (port, kills) = tmp_path / "ledger.db", (_free_port(), 3)
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="1")
    known, unknown, over = set(), set(), threading.Event()

    def spend(name):
        number = 0
        with open_ledger(f"http://127.0.0.1:{port}") as ledger:
            while not over.is_set():
                key, number = f"{name}-{number}", number + 1
                try:
                    if not ledger.charge("acme", PureDP(2**-12), key=key).replayed:
                        known.add(key)
                except OutcomeUnknownError:
                    unknown.add(key)
                except StorageError:  # it is down: nothing was done
                    time.sleep(0.02)
                except BudgetExceededError:
                    return

    spenders = [threading.Thread(target=spend, args=(name,)) for name in "abc"]
    for kill in range(kills + 1):
        with process(path, port) as server:
            if not kill:
                for spender in spenders:
                    spender.start()
            enough = len(known) + 20
            while len(known) < enough and any(spender.is_alive() for spender in spenders):
                time.sleep(0.01)
            if kill == kills:
                over.set()
                for spender in spenders:
                    spender.join()
            os.kill(server.pid, signal.SIGKILL)
    with read_ledger(path) as books:
        found = {charge.key for charge in books.verify().charges.values()}
    assert len(known) >= 20 * kills
    assert known <= found <= known | unknown


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def reserved(**changes):
    """What a server says of a reservation, which may be another's."""
    request = ChargeRequest(PureDP(0.125), relation="add-or-remove-one").to_json()
    body = {"request": request, "methods": {"pure": "as stated"}}
    amounts = {"pure": Amounts.from_charge({"epsilon": "0.125"})}
    entry = Entry(7, "ab" * 32, "2026-01-01T00:00:00+00:00", Verb.RESERVED, "acme", "told", amounts, body)
    return {"entry": replace(entry, **changes).document(), "replayed": False}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reserved(key="another"), LedgerIntegrityError),
        (reserved(scope="lab"), LedgerIntegrityError),
        (reserved(verb=Verb.STARTED), LedgerIntegrityError),
        (reserved(body={}), LedgerIntegrityError),
        (reserved() | {"entry": "{}"}, LedgerIntegrityError),
        (reserved() | {"entry": 7}, LedgerIntegrityError),
        ({"entry": reserved()["entry"]}, EpsilogError),
        ({"replayed": False}, EpsilogError),
        ({}, EpsilogError),
    ],
)
def test_an_answer_of_another_charge_is_no_charge(answer, error):
    with answering(said("200 OK", json.dumps(answer).encode())) as (url, _), open_ledger(url) as ledger:
        with pytest.raises(error) as found:
            ledger.reserve("acme", PureDP(0.125), key="told")
        assert type(found.value) is error


def test_a_charge_is_new_only_if_that_is_said():
    for answer in (reserved(), *(reserved() | {"replayed": word} for word in (True, None, 0, "false"))):
        with answering(said("200 OK", json.dumps(answer).encode())) as (url, _), open_ledger(url) as ledger:
            assert ledger.reserve("acme", PureDP(0.125), key="told").replayed is (answer["replayed"] is not False)
