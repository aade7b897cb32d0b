"""In CI a test that did not run is a failure, and properties try the same examples every time.

Elsewhere properties try new ones at each run; what they find belongs into the test as an example.
"""

import os
from importlib.util import find_spec

import pytest

if os.environ.get("CI") == "true" and find_spec("hypothesis"):  # the peers' environments have none
    from hypothesis import settings

    settings.register_profile("ci", derandomize=True)
    settings.load_profile("ci")

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes each skip."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes modules that skip themselves."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turns skips into a failure where CI=true."""
    if _skipped and os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names what did not run."""
    if _skipped and os.environ.get("CI") == "true":
        terminalreporter.section("in CI a skip is a failure")
        for name in _skipped:
            terminalreporter.line(name)
