from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from epsilog.ledger import Ledger, open_ledger


class Clock:
    """Tells a time that only tests move."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "budget.db"


@pytest.fixture
def ledger(path: Path, clock: Clock) -> Iterator[Ledger]:
    with open_ledger(path, clock=clock) as opened:
        yield opened
