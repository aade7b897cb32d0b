"""What a connection writes arrives whole and in order, in as few sends as a turn of the event loop allows."""

import asyncio
import random

import pytest

from epsilog.server.connections import JoinedWrites


class Wire:
    """A transport that notes what it is told."""

    def __init__(self):
        self.sent, self.closed = [], ""

    def write(self, data):
        assert not self.closed
        self.sent.append(bytes(data))

    def close(self):
        self.closed = "close"

    def abort(self):
        self.closed = "abort"

    def get_extra_info(self, name):
        return name


def run(work):
    """What was sent after some work in one turn, and after the next turn."""

    async def turn():
        wire = Wire()
        done = work(JoinedWrites(wire, asyncio.get_running_loop()))
        if asyncio.iscoroutine(done):
            await done
        first = list(wire.sent)
        await asyncio.sleep(0)
        return first, wire

    return asyncio.run(turn())


def test_a_head_and_its_body_are_sent_at_once_and_a_head_alone_after_its_turn():
    first, wire = run(lambda joined: [joined.write(part) for part in (b"head", b"body")])
    assert (first, wire.sent) == ([b"headbody"], [b"headbody"])
    first, wire = run(lambda joined: joined.write(b"head"))
    assert (first, wire.sent) == ([], [b"head"])
    assert run(lambda joined: joined.write(b""))[1].sent == []


def test_a_close_sends_what_is_held_and_an_abort_does_not():
    for end, sent in (("close", [b"head"]), ("abort", [])):
        _, wire = run(lambda joined, end=end: [joined.write(b"head"), getattr(joined, end)()])
        assert (wire.sent, wire.closed) == (sent, end)
    assert run(lambda joined: joined.get_extra_info("peername"))[1].sent == []


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_written_arrives_in_order_and_once(seed):
    draws, written = random.Random(seed), []  # noqa: S311

    async def work(joined):
        for number in range(40):
            written.append(f"{number},".encode())
            joined.write(written[-1])
            if draws.random() < 0.4:
                await asyncio.sleep(0)
        joined.close()

    _, wire = run(work)
    assert b"".join(wire.sent) == b"".join(written)
    assert len(wire.sent) < len(written)
