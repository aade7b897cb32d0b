"""Answers that a ledger far away pays for: drawn and kept where they are asked for, once, whoever asks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from epsilog.ledger import open_ledger
from epsilog.queries import Count, run_query
from epsilog.server import create_app
from epsilog.terms import ConflictError

FRAME = {"id": [1, 1, 2, 3], "age": [30, 40, 50, 60], "kind": ["a", "b", "a", "a"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory, serve_app):
    path = tmp_path_factory.mktemp("answers") / "ledger.db"
    with open_ledger(path) as ledger:
        ledger.create_budget("acme", kind="pure", epsilon="4")
        ledger.create_budget("z", kind="zcdp", rho="1")
    with serve_app(create_app(ledger=str(path))) as site:
        yield site


@pytest.mark.slow
def test_people_at_two_places_get_one_answer_for_one_key(site, tmp_path):
    """Each keeps answers at home: whoever is first has it, and the others are told so."""
    together = threading.Barrier(4)

    def race(n):
        with open_ledger(site.url) as ledger:
            together.wait()
            try:
                return run_query(
                    ledger, "acme", Count(), FRAME, unit=None, key="race", keep=tmp_path / str(n), epsilon="0.5"
                )
            except ConflictError as error:
                assert "already has an answer" in str(error)  # noqa: PT017 - the others end otherwise
                return None

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(race, range(4)))
    assert found.count(None) == 3
    with open_ledger(site.url) as ledger:
        assert ledger.charge_rounds("race")[0].number == 1
