"""One cell of a log that passes is changed: what matters flips the verdict, and what does not is named here."""

import csv
import shutil
from pathlib import Path

import pytest

from epsilog.terms import LOG_EVIDENCE_KINDS, Status
from epsilog.verification.logs import verify_logs

EXAMPLE = Path(__file__).parents[3] / "examples" / "logs" / "generic"
MATTERS = {
    "a smaller cohort": ("rounds.csv", 7, "clients", "2"),
    "a larger clip": ("rounds.csv", 7, "clip_norm", "0.81"),
    "less noise": ("rounds.csv", 7, "sigma", "1.99"),
    "more noise": ("rounds.csv", 7, "sigma", "2.01"),
    "another divisor": ("rounds.csv", 7, "divisor", "31"),
    "another attempt": ("rounds.csv", 7, "attempts", "2"),
    "another round": ("rounds.csv", 7, "round", "41"),
    "an earlier end": ("rounds.csv", 7, "ended", "2026-02-01T03:05:00"),
    "a client of another round": ("clients.csv", 100, "round", "30"),
    "a client who left": ("clients.csv", 100, "client", "c301"),
    "a stranger": ("clients.csv", 100, "client", "c999"),
    "a long contribution": ("clients.csv", 100, "norm", "0.9"),
    "a late contribution": ("clients.csv", 100, "at", "2026-02-01T19:00:00"),
    "a client who left early": ("enrollment.csv", 5, "left", "2026-01-15"),
    "a client who was away": ("enrollment.csv", 5, "seen", "2025-06-01"),
    "a client who came late": ("enrollment.csv", 5, "joined", "2026-02-03"),
}
COSTS_NOBODY = {
    "a shorter contribution": ("clients.csv", 100, "norm", "0.01"),
    "one value of noise is another": ("padding.csv", 300, "noise", "0.5"),  # one of 960: no test can tell
    "one value of noise is loud": ("padding.csv", 300, "noise", "20.0"),
    "longer ago": ("enrollment.csv", 5, "joined", "2024-01-01"),
}


def after(folder, file, row, column, value):
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    with (folder / file).open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert rows[row - 1][column] != value
    rows[row - 1][column] = value
    with (folder / file).open("w", newline="") as target:
        writer = csv.DictWriter(target, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return verify_logs(folder / "mapping.toml", required=LOG_EVIDENCE_KINDS).status


@pytest.mark.slow_beyond(1)
@pytest.mark.parametrize("change", MATTERS.values(), ids=MATTERS)
def test_a_cell_that_matters_flips_the_verdict(tmp_path, change):
    assert after(tmp_path, *change) is not Status.PASSED


@pytest.mark.slow
@pytest.mark.parametrize("change", COSTS_NOBODY.values(), ids=COSTS_NOBODY)
def test_a_cell_that_costs_nobody_does_not(tmp_path, change):
    assert after(tmp_path, *change) is Status.PASSED
