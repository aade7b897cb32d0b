"""An interrupt anywhere in a charge: nothing is lost, nothing is spent twice, and no lock stays with anybody."""

import random
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from tests.extent import amount

from epsilog.ledger import open_ledger
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError

pytestmark = pytest.mark.slow

# Another process, since a file that this one opens and closes once more loses its locks.
ASKS = """
import sys
from epsilog.ledger.sqlite.version import sqlite
connection = sqlite.connect(sys.argv[1], timeout=0, isolation_level=None)
for _ in sys.stdin:
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        print("free", flush=True)
    except sqlite.OperationalError as error:
        print(error, flush=True)
"""


class Other:
    """Another process, which asks whether it could write now."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", ASKS, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def finds(self):
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


@pytest.fixture
def other(path, ledger):
    asking = Other(path)
    yield asking
    asking.end()


class Bytecodes:
    """Counts what Python does in our code and in what opens and closes its blocks, and interrupts one step of it."""

    def __init__(self, place=0):
        self.place, self.count = place, 0

    def __call__(self, frame, *_):
        if "/epsilog/" not in frame.f_code.co_filename and not frame.f_code.co_filename.endswith("contextlib.py"):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.step

    def step(self, *told):
        if told[1] == "opcode":
            self.count += 1
            if self.count == self.place:
                raise KeyboardInterrupt
        return self.step


@contextmanager
def traced(bytecodes):
    before = sys.gettrace()
    sys.settrace(bytecodes)
    try:
        yield bytecodes
    finally:
        sys.settrace(before)


def charge(ledger, key, epsilon):
    """Whether it was accepted."""
    try:
        ledger.charge("acme", PureDP(epsilon), key=key)
    except BudgetExceededError:
        return False
    return True


@pytest.mark.parametrize("epsilon", [0.001, 500.0], ids=["accepted", "refused"])
def test_an_interrupt_at_any_bytecode_leaves_the_file_to_others(path, ledger, other, epsilon):
    ledger.create_budget("acme", kind="pure", epsilon="100")
    charge(ledger, "first", epsilon)  # which imports what is imported late
    with traced(Bytecodes()) as whole:
        fits = charge(ledger, "whole", epsilon)
    chosen, told = random.Random(1), {"first", "whole"} if fits else set()  # noqa: S311
    asked = set(told)
    for number in range(amount(100, 3000)):
        place, key = chosen.randint(1, whole.count), f"k{number}"
        try:
            with traced(Bytecodes(place)):
                assert charge(ledger, key, epsilon) == fits
            told |= {key} if fits else set()
        except KeyboardInterrupt:
            pass
        asked.add(key)
        assert other.finds() == "free", (place, whole.count)
    with open_ledger(path) as again:
        there = {key for _, key in again.verify().charges}
        assert told <= there <= asked
        for key in asked:  # a retry finds out
            assert charge(ledger, key, epsilon) == fits
        assert {key for _, key in again.verify().charges} == (asked if fits else set())
    assert whole.count > 5000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a signal inside a garbage collection
def test_real_signals_lose_nothing_and_keep_no_lock(path, ledger, other):
    ledger.create_budget("acme", kind="pure", epsilon="100")
    charge(ledger, "first", 0.001)
    chosen, told, interrupts = random.Random(1), {"first"}, 0  # noqa: S311

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(amount(60, 2000)):
            try:
                signal.setitimer(signal.ITIMER_REAL, chosen.uniform(1e-6, 2e-3))
                assert charge(ledger, f"k{number}", 0.001)
                told.add(f"k{number}")
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
            assert other.finds() == "free"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 5
    found = ledger.verify()
    assert told <= {key for _, key in found.charges}
    assert found.balances["acme"].committed["epsilon"] == str(len(found.charges) / 1000)
