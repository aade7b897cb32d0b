"""Buckets: so many at once, so many a second, and a table that does not grow."""

import pytest
from hypothesis import given, strategies as st

from epsilog.server.middleware import TokenBuckets, get_client_address


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_burst_and_then_so_many_a_second(clock):
    buckets = TokenBuckets(rate=0.5, burst=3, clock=clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 2]
    assert buckets.take("b") == 0
    clock.now = 1.5
    assert buckets.take("a") == pytest.approx(0.5)
    clock.now = 2.0
    assert [buckets.take("a"), buckets.take("a")] == [0, 2]
    clock.now = 1e9
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 2]
    clock.now = 0.0  # a clock that goes back gives nothing
    assert buckets.take("a") == 2


def test_what_is_given_back_was_never_taken(clock):
    buckets = TokenBuckets(rate=1, burst=2, clock=clock)
    for _ in range(10):
        assert buckets.take("a") == 0
        buckets.refund("a")
    buckets.refund("never asked")
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 2)), max_size=60))
def test_nobody_gets_more_than_burst_and_flow(steps):
    clock, got = Clock(), dict.fromkeys(range(4), 0)
    buckets = TokenBuckets(rate=1.5, burst=4, clock=clock)
    for key, wait in steps:
        clock.now += wait
        got[key] += buckets.take(key) == 0
        assert got[key] <= 4 + 1.5 * clock.now + 1e-9


def test_the_table_holds_so_many_and_forgets_who_asked_longest_ago(clock):
    buckets = TokenBuckets(rate=1e-9, burst=1, most=100, clock=clock)
    for key in range(10_000):
        buckets.take(key)
    assert len(buckets) == 100
    assert buckets.take(9_999) > 0
    assert buckets.take(0) == 0


PROXIED = [
    ((), "192.0.2.1", "192.0.2.1"),
    (("198.51.100.7",), "127.0.0.1", "198.51.100.7"),
    (("6.6.6.6, 198.51.100.7",), "127.0.0.1", "198.51.100.7"),
    (("6.6.6.6", "7.7.7.7,198.51.100.7"), "127.0.0.1", "198.51.100.7"),
    (("198.51.100.7, nonsense",), "127.0.0.1", "127.0.0.1"),
    (("",), "127.0.0.1", "127.0.0.1"),
    (("2001:db8:1:2:3:4:5:6",), "127.0.0.1", "2001:db8:1:2::/64"),
    ((), "::ffff:192.0.2.1", "192.0.2.1"),
    ((), "fe80::1%eth0", "fe80::/64"),
    ((), None, "unknown"),
]


@pytest.mark.parametrize(("said", "client", "peer"), PROXIED)
def test_who_asks_behind_a_proxy_is_whom_the_proxy_says_last(said, client, peer):
    headers = [(b"x-forwarded-for", line.encode()) for line in said]
    scope = {"type": "http", "headers": headers, "client": None if client is None else (client, 1)}
    assert get_client_address(scope, trust_proxy=True) == peer
    if said:
        assert get_client_address(scope, trust_proxy=False) == client
