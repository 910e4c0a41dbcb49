# SPDX-License-Identifier: Apache-2.0
"""The client of a Serf agent on this machine: its RPC over msgpack, one connection for all calls.

Owns that each answer reaches the call that it belongs to, by its number, however calls and streams
interleave. Every wait ends, and nothing is kept without a bound: a stream whose reader is too slow
ends the connection, so that nobody takes a gap for silence.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from stoker.mesh.gossip.message_splitter import MessageSplitter
from stoker.mesh.gossip.serf_records import (
    VERSION,
    SerfCoordinate,
    SerfCoordinateReply,
    SerfEvent,
    SerfHeader,
    SerfJoined,
    SerfKeys,
    SerfMember,
    SerfMembers,
    SerfQueryRecord,
    SerfStats,
)
from stoker.native.errors import BadRequest, Denied, Refused, StokerError, Unavailable

ANSWER_S = 5.0
KEYS_ANSWER_S = 20.0
"""The longest wait for all members' answers about keys; Serf itself waits about 10 s."""
CALLS_MAX = 64
"""The most calls that wait for an answer, those that were given up included."""
RECORDS_MAX = 1024
"""The most records of a stream that wait for their reader."""
READ_BYTES = 64 * 1024

T = TypeVar("T")


class QueryReplies(NamedTuple):
    """The members that got a query, and what some of them answered."""

    reached: frozenset[str]
    answers: dict[str, bytes]


class _Pending:
    """A call in progress, or a stream of records after its call was answered."""

    def __init__(self, command: str, reply: Any, record: Any) -> None:
        self.command = command
        self.reply = reply
        """The type of the answer's body; None if it has none."""
        self.record = record
        """The type of the records that follow; None for a call without a stream."""
        self.answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.records: asyncio.Queue[Any] = asyncio.Queue(RECORDS_MAX)
        self.streams = False


class SerfClient:
    """One connection to a Serf agent; `open` makes it, `close` ends it."""

    def __init__(
        self, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._where = where
        self._reader = reader
        self._writer = writer
        self._splitter = MessageSplitter()
        self._pending: dict[int, _Pending] = {}
        self._next = 0
        self._body_of: _Pending | None = None
        """The call whose body comes next."""
        self._maybe_body = False
        """True after an error, which Serf sends with a body for some commands only."""
        self._ended: StokerError | None = None
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, host: str, port: int, key: str, timeout_s: float = ANSWER_S) -> SerfClient:
        """Connect and prove the right to ask; Unavailable, or Denied for another key."""
        where = f"serf at {host}:{port}"
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            raise Unavailable(f"{where} takes no connection within {timeout_s:g} s") from None
        except OSError as error:
            raise Unavailable(f"{where} cannot be reached: {error.strerror or error}") from None
        client = cls(where, reader, writer)
        try:
            await client._call("handshake", {"Version": VERSION}, timeout_s=timeout_s)
            try:
                await client._call("auth", {"AuthKey": key}, timeout_s=timeout_s)
            except Refused as error:
                raise Denied(f"{where} takes another RPC key: {error.message}") from None
        except BaseException:
            await client.close()
            raise
        return client

    async def close(self) -> None:
        """End the connection; calls in progress fail."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self._end(Unavailable(f"the connection to {self._where} is closed"))
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # --- members ----------------------------------------------------------------------------------

    async def members(self) -> list[SerfMember]:
        """Return all members that the agent knows."""
        reply: SerfMembers = await self._call("members", reply=SerfMembers)
        return reply.members or []

    async def members_filtered(
        self, name: str = "", status: str = "", timeout_s: float = ANSWER_S
    ) -> list[SerfMember]:
        """Return the members whose name and status match these regular expressions in whole."""
        body = {"Name": name, "Status": status, "Tags": {}}
        reply: SerfMembers = await self._call("members-filtered", body, SerfMembers, timeout_s)
        return reply.members or []

    async def join(self, addresses: list[str]) -> int:
        """Join the mesh at these addresses `host:port`; return how many of them answered."""
        body = {"Existing": addresses, "Replay": False}
        reply: SerfJoined = await self._call("join", body, SerfJoined, KEYS_ANSWER_S)
        return reply.num

    async def force_leave(self, name: str) -> None:
        """Have the mesh hold a failed member as one that left."""
        await self._call("force-leave", {"Node": name})

    async def leave(self) -> None:
        """Have the agent leave the mesh and end."""
        await self._call("leave", timeout_s=KEYS_ANSWER_S)

    async def tags(self, given: dict[str, str], removed: tuple[str, ...] = ()) -> None:
        """Set and remove tags of this agent's own member."""
        await self._call("tags", {"Tags": given, "DeleteTags": list(removed)})

    async def coordinate(self, name: str) -> SerfCoordinate | None:
        """Return the newest network coordinate of a member; None if the agent has none."""
        reply: SerfCoordinateReply = await self._call(
            "get-coordinate", {"Node": name}, SerfCoordinateReply
        )
        return reply.coord if reply.ok else None

    async def stats(self) -> SerfStats:
        """Return the agent's own figures, as texts by group."""
        stats: SerfStats = await self._call("stats", reply=SerfStats)
        return stats

    # --- keys -------------------------------------------------------------------------------------

    async def list_keys(self) -> SerfKeys:
        """Return which keys the members that answer have."""
        return await self._keys("list-keys", None)

    async def install_key(self, key: str) -> SerfKeys:
        """Have all members take a key besides those that they have."""
        return await self._keys("install-key", key)

    async def use_key(self, key: str) -> SerfKeys:
        """Have all members encrypt with a key that they have."""
        return await self._keys("use-key", key)

    async def remove_key(self, key: str) -> SerfKeys:
        """Have all members give a key up that none encrypts with."""
        return await self._keys("remove-key", key)

    async def _keys(self, command: str, key: str | None) -> SerfKeys:
        body = None if key is None else {"Key": key}
        reply: SerfKeys = await self._call(command, body, SerfKeys, KEYS_ANSWER_S)
        return reply

    # --- events and queries -----------------------------------------------------------------------

    async def event(self, name: str, payload: bytes, *, coalesce: bool = True) -> None:
        """Send an event to all members; Serf may lose it, so it carries no state."""
        await self._call("event", {"Name": name, "Payload": payload, "Coalesce": coalesce})

    async def stream(self, kinds: str) -> AsyncIterator[SerfEvent]:
        """Return the events of these kinds from now on; the iterator raises Unavailable when the
        connection ends."""
        pending = await self._started("stream", {"Type": kinds}, SerfEvent)
        return self._records(pending)

    async def query(
        self, name: str, payload: bytes, timeout_s: float, nodes: tuple[str, ...] = ()
    ) -> QueryReplies:
        """Return what members answer within a time; `nodes`: the only ones that are asked."""
        body = {
            "Name": name,
            "Payload": payload,
            "RequestAck": True,
            "Timeout": int(timeout_s * 1e9),
        }
        if nodes:
            body["FilterNodes"] = list(nodes)
        pending = await self._started("query", body, SerfQueryRecord)
        reached: set[str] = set()
        answers: dict[str, bytes] = {}
        try:
            async with asyncio.timeout(timeout_s + ANSWER_S):
                async for record in self._records(pending):
                    if record.type == "done":
                        break
                    if record.type == "response":
                        answers[record.sender] = record.payload or b""
                    reached.add(record.sender)
        except TimeoutError:
            raise self._late("query", timeout_s + ANSWER_S) from None
        return QueryReplies(frozenset(reached), answers)

    async def respond(self, query: int, payload: bytes) -> None:
        """Answer a query that came on a stream, by its id."""
        await self._call("respond", {"ID": query, "Payload": payload})

    # --- calls ------------------------------------------------------------------------------------

    async def _call(
        self, command: str, body: Any = None, reply: Any = None, timeout_s: float = ANSWER_S
    ) -> Any:
        pending = await self._send(_Pending(command, reply, None), body)
        return await self._answer(pending, timeout_s)

    async def _started(self, command: str, body: Any, record: Any) -> _Pending:
        pending = await self._send(_Pending(command, None, record), body)
        await self._answer(pending, ANSWER_S)
        return pending

    async def _send(self, pending: _Pending, body: Any) -> _Pending:
        if self._ended is not None:
            raise self._ended
        if len(self._pending) >= CALLS_MAX:
            raise Unavailable(f"{CALLS_MAX} calls to {self._where} wait for their answers")
        self._next += 1
        self._pending[self._next] = pending
        head = msgspec.msgpack.encode({"Command": pending.command, "Seq": self._next})
        self._writer.write(head + (b"" if body is None else msgspec.msgpack.encode(body)))
        return pending

    async def _answer(self, pending: _Pending, timeout_s: float) -> Any:
        """Return the answer; one that comes later is read and dropped."""
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(pending.answered)
        except TimeoutError:
            pending.answered.cancel()
            raise self._late(pending.command, timeout_s) from None

    def _late(self, command: str, timeout_s: float) -> Unavailable:
        return Unavailable(f"{self._where} did not answer {command} within {timeout_s:g} s")

    async def _records(self, pending: _Pending) -> AsyncIterator[Any]:
        while True:
            if self._ended is not None and pending.records.empty():
                raise self._ended
            record = await pending.records.get()
            if record is not None:  # None wakes a reader that waits when the connection ends
                yield record

    # --- what comes -------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(READ_BYTES):
                for message in self._splitter.feed(data):
                    self._take(message)
            self._end(Unavailable(f"{self._where} has ended the connection"))
        except (BadRequest, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._end(Unavailable(f"{self._where} sends what cannot be read: {error}"))
        except asyncio.QueueFull:
            self._end(Unavailable(f"more than {RECORDS_MAX} records of {self._where} wait"))
        except OSError as error:
            self._end(Unavailable(f"the connection to {self._where} is lost: {error}"))
        self._writer.close()

    def _take(self, message: bytes) -> None:
        if self._body_of is not None:
            self._take_body(self._body_of, message)
            self._body_of = None  # only now: what cannot be read fails that call, too
            return
        maybe_body, self._maybe_body = self._maybe_body, False
        try:
            header = msgspec.msgpack.decode(message, type=SerfHeader)
        except msgspec.ValidationError:
            if maybe_body:
                return
            raise
        self._take_header(header)

    def _take_header(self, header: SerfHeader) -> None:
        pending = self._pending.get(header.seq)
        if pending is None:
            raise BadRequest(f"an answer to a call {header.seq} that nobody made")
        if pending.streams:
            self._body_of = pending
            return
        if header.error:
            del self._pending[header.seq]
            self._maybe_body = pending.reply is not None
            _fail(
                pending.answered, Refused(f"serf refuses {pending.command}: {_line(header.error)}")
            )
        elif pending.reply is not None:
            del self._pending[header.seq]
            self._body_of = pending
        elif pending.record is not None:
            pending.streams = True
            _settle(pending.answered, None)
        else:
            del self._pending[header.seq]
            _settle(pending.answered, None)

    def _take_body(self, pending: _Pending, message: bytes) -> None:
        if not pending.streams:
            _settle(pending.answered, msgspec.msgpack.decode(message, type=pending.reply))
            return
        record = msgspec.msgpack.decode(message, type=pending.record)
        pending.records.put_nowait(record)
        if isinstance(record, SerfQueryRecord) and record.type == "done":
            self._forget(pending)

    def _forget(self, ended: _Pending) -> None:
        self._pending = {seq: each for seq, each in self._pending.items() if each is not ended}

    def _end(self, why: StokerError) -> None:
        """Fail all calls and streams, once."""
        if self._ended is not None:
            return
        self._ended = why
        for pending in self._pending.values():
            _fail(pending.answered, why)
            with contextlib.suppress(asyncio.QueueFull):
                pending.records.put_nowait(None)
        if self._body_of is not None:
            _fail(self._body_of.answered, why)


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], why: StokerError) -> None:
    if not future.done():
        future.set_exception(why)
        future.exception()  # nobody may wait for it any more


def _line(text: str) -> str:
    """Return an error of Serf, which may have several lines, as one."""
    return " ".join(text.split())[:300]
