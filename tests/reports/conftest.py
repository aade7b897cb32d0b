"""Finished runs, shared by the tests that verify them and by those that alter copies."""

import pytest
from tests.reports.drawn import EVIL, finish, make_plan

from epsilog.terms import codec
from epsilog.verification import LedgerReader, read_run_folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a finished run; its ledger is in the parent folder."""
    folder = tmp_path_factory.mktemp("drawn") / "run"
    finish(folder, folder.parent / "ledger.db", make_plan())
    return folder


@pytest.fixture(scope="session")
def files(finished):
    return read_run_folder(finished)


@pytest.fixture(scope="session")
def reader(finished):
    return LedgerReader.read(finished.parent / "ledger.db")


@pytest.fixture(scope="session")
def report(finished):
    return codec.parse_json((finished / "report.json").read_bytes())


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """The report of a real run with publication fields."""
    folder = tmp_path_factory.mktemp("real") / "run"
    said = {"period": "2026-Q4", "organization": "Example Org", "retention": EVIL}
    finish(folder, folder.parent / "ledger.db", make_plan(simulation=False, reporting=said))
    return codec.parse_json((folder / "report.json").read_bytes())
