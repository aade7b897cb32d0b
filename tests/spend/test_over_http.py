"""The tests of a ledger that is open here, on one that a server keeps: the same verbs, refusals and answers."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spend.test_ledger import *  # noqa: F403
from tests.spend.test_orders import (
    test_a_share_is_set_aside_at_every_order_and_none_of_a_budget_where_some_order_is_enough,
    test_a_stated_amount_is_at_least_what_is_proved_at_every_order,
    test_each_budget_on_a_path_is_charged_in_its_own_quantities,
    test_every_order_must_fit_where_each_has_a_cap_of_its_own,
    test_some_order_is_enough_where_epsilon_and_delta_are_promised,
)
from tests.spend.test_owners import *  # noqa: F403
from tests.web.conftest import serving

from epsilog.spend import open_here, open_ledger
from epsilog.web.app import create_app

__all__ = [  # of those that are chosen one by one
    "test_a_share_is_set_aside_at_every_order_and_none_of_a_budget_where_some_order_is_enough",
    "test_a_stated_amount_is_at_least_what_is_proved_at_every_order",
    "test_each_budget_on_a_path_is_charged_in_its_own_quantities",
    "test_every_order_must_fit_where_each_has_a_cap_of_its_own",
    "test_some_order_is_enough_where_epsilon_and_delta_are_promised",
]
pytestmark = pytest.mark.slow

# what looks at the file or the database itself
del test_a_charge_costs_the_same_however_long_the_history_is  # noqa: F821
del test_rounds_cost_the_same_however_many_there_were  # noqa: F821
del test_a_ledger_is_told_by_its_content_and_read_without_being_changed  # noqa: F821


@pytest.fixture(scope="module")
def kept():
    """A server whose ledger is exchanged between tests: to start one for each would take a second."""
    app = create_app(ledger="not-used.db")
    with serving(app) as site:
        yield app, site


@pytest.fixture
def ledger(path, clock, kept):
    app, site = kept
    app.state.books._ledger = open_here(path, clock=clock)
    with open_ledger(site.url) as opened:
        yield opened
    app.state.books.close()


def test_a_forked_child_asks_the_server_through_a_connection_of_its_own_alone(ledger):
    ledger.create_budget("acme", kind="pure", epsilon="1")
    script = Path(__file__).with_name("inherited.py")
    done = subprocess.run([sys.executable, script, ledger.address], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(ledger.verify().charges) == 4
