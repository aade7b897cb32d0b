"""Several ledgers open on one file, taking turns: each goes on from where the others stopped, and from nowhere else."""

import itertools
import shutil

import pytest

from epsilog.ledger import open_ledger, read_ledger, verify_ledger
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


def test_rounds_begun_by_one_are_released_and_closed_by_another(path):
    hashes = ["ab" * 32, "cd" * 32, "ef" * 32]
    with open_ledger(path) as first, open_ledger(path) as second:
        first.create_budget("acme", kind="pure", epsilon="1")
        ours = first.reserve("acme", PureDP(0.5), key="run", rounds=3)
        theirs = second.reserve("acme", PureDP(0.5), key="run", rounds=3)
        assert (ours.replayed, theirs.replayed) == (False, True)
        theirs.start()
        for number, hashed in enumerate(hashes, 1):
            ours.round_started(number)
            theirs.round_started(number)
            theirs.round_released(number, output_hash=hashed)
            assert ours.rounds_released == dict(enumerate(hashes[:number], 1))
            assert ours.rounds_started == dict.fromkeys(range(1, number + 1), 2)
        ours.commit()
        assert theirs.state == "committed"
    assert verify_ledger(path).balances["acme"].committed == {"epsilon": "0.5"}


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


def test_a_copy_beside_its_original_is_read_and_not_spent(path, tmp_path):
    with open_ledger(path) as books:
        books.create_budget("acme", kind="pure", epsilon="1")
    (tmp_path / "copies").mkdir()
    copy = shutil.copy(path, tmp_path / "copies" / "copy.db")
    with read_ledger(copy) as books:
        assert books.verify().count == 1
    with pytest.raises(OSError, match=r"is a copy of .*budget\.db"):
        open_ledger(copy)
    path.unlink()
    with open_ledger(copy) as books:  # then it is the ledger, moved
        books.charge("acme", PureDP(0.5), key="q")
