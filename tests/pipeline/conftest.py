"""A short run config on the real data, and ways to change one line of it."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = [
    ("rounds = 60", "rounds = 4"),
    ("rounds_per_release = 60", "rounds_per_release = 4"),
    ("local_steps = 8", "local_steps = 1"),
]


@pytest.fixture
def write_config(tmp_path):
    """Writes examples/central.toml with some text replaced; returns its path."""

    def write(*changes: tuple[str, str], short: bool = True, study: bool = False, name: str = "p.toml") -> Path:
        text = (EXAMPLES / "central.toml").read_text()
        if not study:
            text = text.replace("comparison_budgets = [0.25, 1, 8]\ncomparison_seeds = 5\n", "")
        for old, new in (*(SHORT if short else ()), *changes):
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write
