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
    return asyncio.run(_ask(app, method, path, _head(token, headers, host), body, peer=peer))


def ask_often(app, path, asks):
    """The answer to each of many requests, one after the other: pairs of a token and a peer."""
    return asyncio.run(_in_turn(_ask(app, "GET", path, _head(token), b"", peer=peer) for token, peer in asks))


def ask_at_once(app, path, asks):
    """The answers to requests that come together."""

    async def run():
        return await asyncio.gather(*(_ask(app, "GET", path, _head(token), b"", peer=peer) for token, peer in asks))

    return asyncio.run(run())


def refuse_at_the_door(app, asks):
    """The answer to each request of a method, a path, a token and a body, of which nobody may read a word."""

    async def unread():
        raise AssertionError("the body was read")

    def refuse(method, path, token, body):
        head = _head(token, [("content-type", "application/json"), ("content-length", str(len(body)))])
        return _ask(app, method, path, head, body, peer=None, receive=unread)

    return asyncio.run(_in_turn(refuse(*one) for one in asks))


async def _in_turn(asked):
    return [await one for one in asked]


def _head(token, headers=(), host="localhost"):
    raw = [("host", host), *([] if token is None else [("authorization", f"Bearer {token}")]), *headers]
    return [
        tuple(text if isinstance(text, bytes) else text.encode() for text in (name.lower(), value))
        for name, value in raw
    ]


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
