"""A server's writers come to their turn, one after another."""

import threading
import time
from contextlib import contextmanager

import pytest

from epsilog.web.books import InTurn


class Slow:
    """A store that takes one writer at a time, and says who wrote."""

    address = "slow"

    def __init__(self):
        self.inside, self.most, self.go = 0, 0, threading.Event()

    @contextmanager
    def reading(self):
        yield "a view"

    @contextmanager
    def writing(self):
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            yield self
        finally:
            self.inside -= 1

    def close(self):
        self.address = "closed"


def test_writers_write_in_the_order_in_which_they_asked_and_readers_do_not_wait():
    store, order = Slow(), []
    turns = InTurn(store)

    def write(number):
        with turns.writing() as session:
            assert session is store
            order.append(number)

    with turns.writing():
        writers = [threading.Thread(target=write, args=(number,)) for number in range(20)]
        for number, writer in enumerate(writers):
            writer.start()
            while len(turns._waiting) <= number:
                time.sleep(0.001)
        with turns.reading() as view:
            assert (view, order) == ("a view", [])
    for writer in writers:
        writer.join()
    assert (order, store.most, turns.address) == (list(range(20)), 1, "slow")
    turns.close()
    assert store.address == "closed"


def test_a_writer_that_fails_passes_the_turn_on():
    turns = InTurn(Slow())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), turns.writing():
            raise ZeroDivisionError
    with turns.writing():
        assert turns._taken
    assert not turns._taken
