"""One finished run, shared by the tests that examine it and by those that damage copies of it."""

import pytest
from tests.reports.drawn import finish, make_plan

from epsilog.verification import LedgerReader, read_run_folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run; its ledger lies beside it."""
    folder = tmp_path_factory.mktemp("drawn") / "run"
    finish(folder, folder.parent / "ledger.db", make_plan())
    return folder


@pytest.fixture(scope="session")
def files(finished):
    return read_run_folder(finished)


@pytest.fixture(scope="session")
def books(finished):
    return LedgerReader.read(finished.parent / "ledger.db")
