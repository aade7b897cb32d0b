"""The evidence of one run that keeps to its plan, for tests that damage one thing in it."""

import pytest
from tests.reports.drawn import make_plan, train

from epsilog.verification import LedgerReader, read_run_folder
from epsilog.verification.run_folder import parse_evidence


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("books") / "run"
    train(folder, folder.parent / "ledger.db", make_plan())
    return parse_evidence(read_run_folder(folder), LedgerReader.read(folder.parent / "ledger.db"))
