# SPDX-License-Identifier: Apache-2.0
"""The client of the C spawner: the agent starts, feeds and stops jobs through it and never forks.

The connection restores itself: unanswered requests are sent again (every request may be repeated),
and the spawner repeats every event until it is acknowledged. Nothing here blocks or polls.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from stoker.agent.jobs import spawner_messages as wire
from stoker.agent.jobs.spawner_messages import (
    Event,
    Exited,
    Feature,
    KnownAttempt,
    Launch,
    Prepared,
    Refusal,
    Started,
)
from stoker.native.errors import BadRequest, NotSupported, StokerError, Unavailable, from_errno
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import TaskKey

__all__ = [
    "Event",
    "Exited",
    "Feature",
    "KnownAttempt",
    "Launch",
    "Prepared",
    "Refusal",
    "Spawner",
    "Started",
]

STDIN_BYTES_MAX = 256 * 1024
"""The largest number of input bytes in one `write_stdin`."""
PENDING_MAX = 4096
"""The largest number of requests without an answer; a further one is refused."""
RECONNECT_FIRST_S, RECONNECT_MAX_S = 0.01, 0.5

_log = structlog.get_logger("spawner")


class _Pending:
    """One request without an answer: the frame to repeat after a reconnect, and the reply."""

    __slots__ = ("frame", "known", "reply")

    def __init__(self, frame: bytes, reply: asyncio.Future[tuple[int, int, bytes]]) -> None:
        self.frame = frame
        self.reply = reply
        self.known: list[KnownAttempt] = []


class Spawner(asyncio.Protocol):
    """A connection to the spawner; made by `connect`, ended by `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._events: dict[tuple[TaskKey, bool], Event] = {}
        self._wake: asyncio.Future[None] | None = None
        self._ready = asyncio.Event()
        self._closed = False
        self._reconnecting: asyncio.Task[None] | None = None
        self._features: dict[str, Feature] = {}
        self._jobs_cgroup: Path | None = None
        self._failed: StokerError | None = None
        self._delay = 0.0

    @classmethod
    async def connect(cls, path: str | Path, timeout_s: float = 10.0) -> Spawner:
        """Connect to the socket at `path`, waiting for a spawner to appear; Unavailable after
        `timeout_s`, NotSupported if the spawner speaks another wire version."""
        client = cls(Path(path))
        client._reconnecting = asyncio.create_task(client._reconnect())
        try:
            async with asyncio.timeout(timeout_s):
                await client._ready.wait()
        except TimeoutError:
            await client.close()
            raise Unavailable(f"no spawner answers at {path} after {timeout_s:g} s") from None
        if client._failed is not None:
            await client.close()
            raise client._failed
        return client

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features of this spawner: cgroup, gate, cpu, memory, pids, node_cap, oom, users."""
        return self._features

    @property
    def jobs_cgroup(self) -> Path | None:
        """The cgroup v2 directory that holds each job's own, `<job>.<attempt>.<task>`; None without
        one."""
        return self._jobs_cgroup

    @property
    def connected(self) -> bool:
        """True if the spawner answers now; until then requests wait for the reconnect."""
        return self._transport is not None and self._ready.is_set()

    async def start(self, launches: list[Launch], timeout_s: float = 30.0) -> list[Refusal]:
        """Send launches; return the refused ones when the spawner has recorded all others.

        A start that is sent twice happens once. A program that cannot be started is no
        refusal: it ends with an Exited event of cause `start_failed`. Raises Unavailable after
        `timeout_s`; the launches may have been taken, and sending them again is safe.
        """
        refusals: list[Refusal] = []
        for batch in _batches(launches):
            payload = b"".join([packed for _, packed in batch])
            count, _, reply = await self._call(wire.START, payload, len(batch), timeout_s)
            for index, number, reason in wire.unpack_refusals(memoryview(reply), count):
                refused = batch[index][0]
                refusals.append(Refusal(*refused.key, number, reason))
        return refusals

    async def stop(
        self,
        key: TaskKey,
        reason: str,
        grace_s: float = 5.0,
        signal: str = "",
        timeout_s: float = 30.0,
    ) -> None:
        """Request a job's end and do not wait for it: SIGTERM to all processes, then SIGKILL after
        `grace_s`.

        With another `signal`, as USR1, its processes that handle it get that first, and after
        `grace_s` the job is ended as at its time limit. `reason` comes back in the Exited event.
        An ended job stays as it is; NotFound if unknown.
        """
        payload = wire.pack_stop(key, reason, grace_s, signal)
        await self._call_done(wire.STOP, payload, f"stop job {key.job}", timeout_s)

    async def release(self, keys: Sequence[TaskKey], timeout_s: float = 30.0) -> None:
        """Let these tasks of gangs run, at once or as soon as they are ready.

        Repeating it changes nothing, and keys that are not here are passed over.
        """
        for at in range(0, len(keys), 4096):
            some = keys[at : at + 4096]
            await self._call(wire.RELEASE, wire.pack_release(some), len(some), timeout_s)

    async def write_stdin(self, key: TaskKey, offset: int, data: bytes, eof: bool) -> int:
        """Put `data` at `offset` of the job's input; return how many bytes the input has now.

        Repeating a write changes nothing. A gap before `offset`, or data past the eof, is
        BadRequest; a full disk is Refused.
        """
        if len(data) > STDIN_BYTES_MAX:
            raise BadRequest(f"job {key.job}: at most {STDIN_BYTES_MAX} bytes of input at once")
        payload = wire.pack_stdin(key, offset, data, eof)
        return await self._call_done(wire.STDIN, payload, f"input of job {key.job}", 30.0)

    async def events(self) -> AsyncIterator[Event]:
        """Yield every event that is not acknowledged, then new ones; one reader at a time."""
        while True:
            for event in await self.next_events():
                yield event

    async def next_events(self) -> list[Event]:
        """Return all events at hand, waiting for the first; cheaper than `events` for many."""
        while not self._events:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        events = list(self._events.values())
        self._events.clear()
        return events

    async def acknowledge(self, *events: Event) -> None:
        """Acknowledge events, which are not repeated then; after an Exited the spawner forgets the
        attempt.

        The frame is not confirmed: if it is lost with the connection, the events come again.
        """
        for at in range(0, len(events), 4096):
            some = events[at : at + 4096]
            payload = b"".join([wire.pack_acknowledge(event) for event in some])
            self._send(wire.pack_frame(wire.ACKNOWLEDGE, 0, payload, len(some)))

    async def known(self, timeout_s: float = 30.0) -> list[KnownAttempt]:
        """Return all attempts of the spawner: starting, running, or ended and not acknowledged."""
        number = next(self._numbers)
        pending = self._remember(number, wire.pack_frame(wire.KNOWN, number))
        await self._wait(number, pending, timeout_s)
        return pending.known

    async def close(self) -> None:
        """End the connection; jobs and their shims go on."""
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        for pending in self._pending.values():
            pending.reply.cancel()

    # --- requests ------------------------------------------------------------------------------
    async def _call(
        self, kind: int, payload: bytes, count: int, timeout_s: float
    ) -> tuple[int, int, bytes]:
        number = next(self._numbers)
        pending = self._remember(number, wire.pack_frame(kind, number, payload, count))
        return await self._wait(number, pending, timeout_s)

    async def _call_done(self, kind: int, payload: bytes, what: str, timeout_s: float) -> int:
        _, _, reply = await self._call(kind, payload, 0, timeout_s)
        status, value, text = wire.unpack_done(memoryview(reply))
        if status < 0:
            raise from_errno(status, f"{what}: {text}" if text else what)
        return value

    def _remember(self, number: int, frame: bytes) -> _Pending:
        if len(self._pending) >= PENDING_MAX:
            raise Unavailable(f"{PENDING_MAX} requests to the spawner have no answer yet")
        pending = _Pending(frame, asyncio.get_running_loop().create_future())
        self._pending[number] = pending
        self._send(frame)
        return pending

    async def _wait(
        self, number: int, pending: _Pending, timeout_s: float
    ) -> tuple[int, int, bytes]:
        try:
            async with asyncio.timeout(timeout_s):
                return await pending.reply
        except TimeoutError:
            raise Unavailable(
                f"the spawner did not answer within {timeout_s:g} s; whether it acted is unknown"
            ) from None
        finally:
            self._pending.pop(number, None)

    def _send(self, frame: bytes) -> None:
        if self.connected:
            assert self._transport is not None
            self._transport.write(frame)

    # --- connection ----------------------------------------------------------------------------
    async def _reconnect(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed:
            await asyncio.sleep(self._delay)  # 0 after a connection that was greeted
            self._delay = min(max(self._delay * 2, RECONNECT_FIRST_S), RECONNECT_MAX_S)
            try:
                await loop.create_unix_connection(lambda: self, str(self._path))
                return
            except OSError:  # no socket yet, or nobody behind it: the supervisor restarts it
                continue

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._transport = stream
        self._buffer.clear()
        hello = wire.WIRE_VERSION.to_bytes(4, "little")
        stream.write(wire.pack_frame(wire.HELLO, 0, hello))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ready.clear()
        if not self._closed and self._failed is None:
            _log.warning("the spawner's connection was lost", error=str(exc or "closed"))
            self._reconnecting = asyncio.ensure_future(self._reconnect())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at, end = 0, len(self._buffer)
        with memoryview(self._buffer) as view:
            while end - at >= wire.FRAME.size:
                size, kind, count, request = wire.FRAME.unpack_from(view, at)
                if end - at < size:
                    break
                with view[at + wire.FRAME.size : at + size] as payload:
                    self._frame(kind, count, request, payload)
                at += size
        del self._buffer[:at]

    def _frame(self, kind: int, count: int, request: int, payload: memoryview) -> None:
        if kind == wire.EVENT:
            self._take_events(payload, count)
        elif kind == wire.FEATURES:
            self._greeted(bytes(payload))
        elif (pending := self._pending.get(request)) is not None:
            if kind == wire.SLOT:
                pending.known.append(wire.unpack_known(payload))
            elif not pending.reply.done():
                pending.reply.set_result((count, kind, bytes(payload)))

    def _take_events(self, payload: memoryview, count: int) -> None:
        for event in wire.unpack_events(payload, count):
            self._events[(event.key, type(event) is Exited)] = event
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _greeted(self, payload: bytes) -> None:
        hello = json.loads(payload)
        if hello["wire"] != wire.WIRE_VERSION:
            self._failed = NotSupported(
                f"the spawner speaks wire version {hello['wire']}, this agent {wire.WIRE_VERSION}",
                hint="restart the node so that both are of one build",
            )
        self._features = {
            name: Feature(works=bool(works), detail=str(detail))
            for name, (works, detail) in hello["features"].items()
        }
        self._jobs_cgroup = Path(hello["cgroup"]) if hello["cgroup"] else None
        self._delay = 0.0
        self._ready.set()
        for pending in self._pending.values():  # unanswered requests are sent again
            pending.known.clear()
            self._send(pending.frame)


def _batches(launches: list[Launch]) -> list[list[tuple[Launch, bytes]]]:
    """Pack launches and split them so that each frame stays below its maximum."""
    batches: list[list[tuple[Launch, bytes]]] = []
    room = 0
    for launch in launches:
        packed = wire.pack_launch(launch)
        if len(packed) > room or len(batches[-1]) >= 1024:
            batches.append([])
            room = wire.FRAME_BYTES_MAX - wire.FRAME.size
        batches[-1].append((launch, packed))
        room -= len(packed)
    return batches
