"""One request to an application in this process, exactly as it is said: no server, no client that mends it."""

import asyncio
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


def ask(app, method, path, *, token=None, headers=(), body=b"", peer="192.0.2.7", host="localhost"):
    """Status, headers and body; ``headers`` are pairs of text or bytes, repeated as they are."""
    raw = [(b"host", host.encode())]
    raw += [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    raw += [(_bytes(name).lower(), _bytes(value)) for name, value in headers]
    return asyncio.run(_ask(app, method, path, raw, body, peer=peer))


def ask_at_once(app, path, asks):
    """The answers to requests that come together: pairs of a token and a peer."""

    async def run():
        heads = [[(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())] for token, _ in asks]
        peers = [peer for _, peer in asks]
        return await asyncio.gather(
            *(_ask(app, "GET", path, raw, b"", peer=peer) for raw, peer in zip(heads, peers, strict=True))
        )

    return asyncio.run(run())


def ask_often(app, path, asks):
    """The status of each of many requests: pairs of a token and a peer."""

    async def run():
        for token, peer in asks:
            raw = [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())]
            yield await _ask(app, "GET", path, raw, b"", peer=peer)

    async def gather():
        return [found async for found in run()]

    return asyncio.run(gather())


def refuse_at_the_door(app, asks):
    """The answer to each request of a method, a path, a token and a body, of which nobody may read a word."""

    async def unread():
        raise AssertionError("the body was read")

    async def run():
        for method, path, token, body in asks:
            raw = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            raw += [(b"content-length", str(len(body)).encode())]
            raw += [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
            yield await _ask(app, method, path, raw, body, peer=None, receive=unread)

    async def gather():
        return [found async for found in run()]

    return asyncio.run(gather())


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode()


async def _ask(app, method, path, raw, body, *, peer, receive=None):
    sent, letters = [], [{"type": "http.request", "body": body, "more_body": False}]

    async def letter():
        if not letters:
            await asyncio.sleep(3600)
        return letters.pop()

    async def send(message):
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": raw,
        "client": None if peer is None else (peer, 40_000),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive or letter, send)
    found = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Said(sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))
