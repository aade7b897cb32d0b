"""A question is answered, or fails as it failed, or ends when its asker has gone."""

import anyio
import pytest

from epsilog.server.disconnects import CancelOnDisconnect

PATH = "/api/v1/queries"


def asked(app, *letters, path=PATH, method="POST"):
    """Asks once; ``letters`` are what the asker sends, after which there is silence."""
    sent, waiting = [], list(letters)

    async def receive():
        if not waiting:
            await anyio.sleep_forever()
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    async def ask():
        with anyio.fail_after(5):
            await CancelOnDisconnect(app)({"type": "http", "method": method, "path": path}, receive, send)

    anyio.run(ask)
    return sent


BODY = {"type": "http.request", "body": b"{}", "more_body": False}
GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize(("path", "method"), [(PATH, "POST"), (PATH, "GET"), ("/api/v1/jobs", "POST")])
def test_an_answer_is_sent_once(path, method):
    async def app(_, receive, send):
        assert await receive() == BODY
        await send("answer")

    assert asked(app, BODY, path=path, method=method) == ["answer"]


@pytest.mark.parametrize("path", [PATH, "/api/v1/jobs"])
def test_a_failure_is_raised_as_it_was(path):
    async def app(_, receive, send):
        await receive()
        await send("half")
        raise KeyError("as it was")

    with pytest.raises(KeyError, match="as it was"):
        asked(app, BODY, path=path)


def test_who_hangs_up_ends_the_work():
    begun, ended = [], []

    async def app(_, receive, send):
        await receive()
        begun.append(True)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)
            with anyio.CancelScope(shield=True):
                await send("too late")

    assert asked(app, BODY, GONE) == ["too late"]
    assert begun == ended == [True]


def test_what_changes_something_is_not_ended():
    async def app(_, receive, send):
        assert [await receive(), await receive()] == [BODY, GONE]
        await send("done all the same")

    assert asked(app, BODY, GONE, path="/api/v1/jobs") == ["done all the same"]
