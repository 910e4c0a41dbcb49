# SPDX-License-Identifier: Apache-2.0
"""A server that plays a Serf agent's RPC with prepared answers, good or hostile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from stoker.mesh.gossip.message_splitter import MessageSplitter

BODILESS = ("members", "stats", "leave", "list-keys")
Answer = Callable[[int, Any], bytes]
"""Takes the number of a call and its body; returns what is sent."""


def header(seq: int, error: str = "") -> bytes:
    return msgspec.msgpack.encode({"Error": error, "Seq": seq})


def body(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


class FakeSerf:
    """One server on loopback; `answers` has what each command gets, by default no body."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, Any]] = []
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    def members(self, *rows: dict[str, Any]) -> None:
        """Have these be the members."""
        full = [{"Addr": b"\x7f\0\0\1", "Port": 1, "Status": "alive", **row} for row in rows]

        def answer(seq: int, asked: Any) -> bytes:
            name = (asked or {}).get("Name", "")
            found = [row for row in full if not name or row["Name"] == name]
            return header(seq) + body({"Members": found})

        self.answers["members"] = self.answers["members-filtered"] = answer

    def send(self, data: bytes) -> None:
        """Send bytes to all who are connected."""
        for writer in self._writers:
            writer.write(data)

    def cut(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self._writers.append(writer)
        splitter, head = MessageSplitter(), None
        while data := await reader.read(65536):
            for message in splitter.feed(data):
                value = msgspec.msgpack.decode(message)
                if head is None and value["Command"] not in BODILESS:
                    head = value
                    continue
                call, asked = (value, None) if head is None else (head, value)
                head = None
                self.calls.append((call["Command"], asked))
                answer = self.answers.get(call["Command"], lambda seq, asked: header(seq))
                writer.write(answer(call["Seq"], asked))


@contextlib.asynccontextmanager
async def fake_serf() -> AsyncIterator[FakeSerf]:
    """A fake that serves until the end."""
    fake = FakeSerf()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        fake.cut()
