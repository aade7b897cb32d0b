"""A test that did not run says why, and is a failure in CI, where properties try the same examples every time.

Elsewhere properties try new ones at each run; what they find belongs into the test as an example.
"""

import gc
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from tests.extent import FEW, amount, list_left_out, mark_extended

# What pytest has rewritten is kept even where the shell tells Python to keep nothing: half of what a start costs.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nor do the commands that tests start compile all that they import

# What is imported and collected is no garbage: to look for some among it takes a quarter of the time that this takes.
gc.disable()

# What tests write lies in memory where there is enough of it: a ledger would wait for the disk at every entry.
if os.path.ismount("/dev/shm") and shutil.disk_usage("/dev/shm").free > 2**31:  # noqa: S108
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")  # noqa: S108

# What a shell starts in the background ignores interrupts, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Linear algebra on one thread for each process: there are as many of those as cores, and threads that wait for each
# other's turn burn nearly half of all time.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# What JAX has compiled serves every process of every run of the tests; it is made anew where it does not fit.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# XLA compiles in a quarter of the time without the newer of its two ways of making loops and without optimizing what
# these small programs compute in no time anyway; and one thread computes at half the cost of two that spin while they
# wait for each other. What users get is held in tests/training/test_compilations.py.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0")
os.environ.setdefault("NPROC", "1")

# No property is a test of time: one example may wait for a core as long as it takes.
if find_spec("hypothesis"):  # the peers' environments have none
    from hypothesis import settings

    settings.register_profile(
        "epsilog", max_examples=amount(40, 100), derandomize=os.environ.get("CI") == "true", deadline=None
    )
    settings.load_profile("epsilog")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no doctests among tests: that takes a tenth of the time in which they are collected."""
    return [one for one in (yield) if not isinstance(one, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the cases of a test slow that come after so many: ``@pytest.mark.slow_beyond(3)``; patient tests go first.

    Those mostly wait for processes of others: one worker begins with them, while the others compute. Begun later, the
    last of them has the cores to itself.
    """
    items.sort(key=lambda item: item.get_closest_marker("patient") is None)
    seen: Counter[str] = Counter()
    for item in items:
        few = item.get_closest_marker("slow_beyond")
        if few and not item.get_closest_marker("slow"):
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > few.args[0]:
                item.add_marker(pytest.mark.slow)
    mark_extended(items)
    for item in list_left_out(items) if FEW else ():
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Lets garbage be looked for again, among what tests make."""
    gc.freeze()
    gc.enable()


_skipped: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes each skip."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped[report.nodeid] = _reason(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes modules that skip themselves."""
    if report.skipped:
        _skipped[report.nodeid] = _reason(report)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turns skips into a failure where CI=true."""
    if _skipped and os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names what did not run, and why."""
    if _skipped:
        in_ci = os.environ.get("CI") == "true"
        terminalreporter.section("did not run" + (", which is a failure in CI" if in_ci else ""))
        for name, reason in sorted(_skipped.items(), key=lambda each: each[::-1]):
            terminalreporter.line(f"{name}: {reason}")
