"""Several ledgers open on one file, taking turns: each goes on from where the others stopped, and from nowhere else."""

import itertools

import pytest

from epsilog.ledger import open_ledger, verify_ledger
from epsilog.mechanisms import PureDP
from epsilog.terms import BudgetExceededError, LedgerIntegrityError


def test_ledgers_on_one_file_go_on_from_each_others_entries(path):
    with open_ledger(path) as first, open_ledger(path) as second, open_ledger(path) as third:
        first.create_budget("acme", kind="pure", epsilon="1")
        turns = list(itertools.islice(itertools.cycle((second, first, third, third, first)), 9))
        for number, books in enumerate(turns):
            books.charge("acme", PureDP(0.125), key=f"q-{number}")
            assert books.charge("acme", PureDP(0.125), key=f"q-{number}").replayed
            if number == 7:
                break
        with pytest.raises(BudgetExceededError):
            second.charge("acme", PureDP(0.125), key="q-8")
        for books in (first, second, third):
            assert books.balance("acme").committed == {"epsilon": "1"}
            assert [entry.index for entry in books.history()] == list(range(1, books.verify().count + 1))


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("more", [0, 1, 3])
def test_no_history_but_the_one_that_was_seen_is_gone_on_with(path, kept, more):
    """An older state of the same file, or one that went on otherwise from there, is refused; and nothing is written."""
    with open_ledger(path) as ours:
        ours.create_budget("acme", kind="pure", epsilon="1")
        for number in range(2):
            if number == kept:
                ours._store._close_idle_connections()
                older = path.read_bytes()
            ours.charge("acme", PureDP(0.125), key=f"q-{number}")
        if kept == 2:
            ours._store._close_idle_connections()
            older = path.read_bytes()
        seen = ours.verify()
        ours._store._close_idle_connections()
        with path.open("r+b") as file:  # the same file, with what it held then
            file.write(older)
            file.truncate(len(older))
        with open_ledger(path) as others:
            for number in range(more):
                others.charge("acme", PureDP(0.0625), key=f"other-{number}")
            held = others.verify()
        if kept == 2:  # nothing was taken back
            ours.charge("acme", PureDP(0.125), key="last")
            assert ours.verify().count > seen.count
            return
        for ask in (lambda: ours.charge("acme", PureDP(0.125), key="last"), ours.verify):
            for _ in range(2):  # what it saw stays, however often it looks again
                with pytest.raises(LedgerIntegrityError, match="is not the one that this process has seen"):
                    ask()
        assert verify_ledger(path).head == held.head


def test_a_history_that_was_only_looked_at_is_remembered_too(path):
    with open_ledger(path) as ours, open_ledger(path) as others:
        ours.create_budget("acme", kind="pure", epsilon="1")
        ours._store._close_idle_connections()
        others._store._close_idle_connections()
        older = path.read_bytes()
        others.charge("acme", PureDP(0.125), key="q")
        assert ours.head()[0] == 2
        ours._store._close_idle_connections()
        others._store._close_idle_connections()
        with path.open("r+b") as file:
            file.write(older)
            file.truncate(len(older))
        with pytest.raises(LedgerIntegrityError, match="is not the one that this process has seen"):
            ours.charge("acme", PureDP(0.125), key="last")


def test_a_view_that_ends_after_a_write_takes_nothing_back_of_what_was_seen(path):
    with open_ledger(path) as ours:
        ours.create_budget("acme", kind="pure", epsilon="1")
        with ours._store.reading() as view:
            view.head()
        ours.charge("acme", PureDP(0.125), key="q")
        ours._store._remember_head(view)
        assert ours._store._longest_head == ours.head()
