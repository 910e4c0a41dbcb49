# SPDX-License-Identifier: Apache-2.0
"""Messages of one subject are handled in order, in a bounded queue, and the end leaves none half
done."""

from __future__ import annotations

import asyncio

import pytest

from stoker.mesh.connection import heard_subject
from stoker.mesh.connection.heard_subject import BrokerMessage, HeardSubject, SlowHandler
from stoker.mesh.connection.nats_frames import Delivery


class Connection:
    """A connection without a broker, and what was asked of it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.told: list[Exception] = []
        self.forgotten: list[bytes] = []
        self.taken = asyncio.Event()

    async def publish(self, subject: str, data: bytes) -> None:
        self.sent.append((subject, data))

    async def flush(self) -> None:
        await self.taken.wait()

    def forget(self, heard: HeardSubject) -> None:
        self.forgotten.append(heard.number)

    def tell(self, error: Exception) -> None:
        self.told.append(error)


class Handler:
    """Handles one message for each release; `done` has what was handled."""

    def __init__(self) -> None:
        self.began: list[bytes] = []
        self.done: list[bytes] = []
        self.room = asyncio.Semaphore(0)

    async def __call__(self, message: BrokerMessage) -> None:
        self.began.append(message.data)
        await self.room.acquire()
        if message.data == b"bad":
            raise RuntimeError("a defect")
        self.done.append(message.data)
        await message.respond(message.data)


def message(data: bytes) -> Delivery:
    return Delivery("a.b", data, "", "back", b"7", b"")


@pytest.fixture
def connection() -> Connection:
    return Connection()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_one_is_handled_after_the_other_and_a_defect_ends_none_but_its_own(
    connection: Connection,
) -> None:
    handler = Handler()
    heard = HeardSubject(connection, b"7", "a.*", "group", handler)
    assert heard.frame == b"SUB a.* group 7\r\n"
    for data in (b"1", b"bad", b"2"):
        heard.offer(message(data))
    await turns()
    assert handler.began == [b"1"]
    for _ in range(3):
        handler.room.release()
    await turns()
    assert connection.sent == [("back", b"1"), ("back", b"2")]
    assert [str(error) for error in connection.told] == ["a defect"]
    heard.end()


async def test_what_is_beyond_the_queue_is_dropped_and_told(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heard_subject, "WAITING_MAX", 2)
    monkeypatch.setattr(heard_subject, "WAITING_BYTES_MAX", 10)
    handler = Handler()
    heard = HeardSubject(connection, b"7", "a.*", "", handler)
    heard.offer(message(b"1"))
    await turns()
    for data in (b"2", bytes(10), b"3", b"4"):
        heard.offer(message(data))
    assert [type(error) for error in connection.told] == [SlowHandler, SlowHandler]
    for _ in range(3):
        handler.room.release()
    await turns()
    assert handler.done == [b"1", b"2", b"3"]
    heard.end()


async def test_what_is_not_admitted_takes_no_place_in_the_queue(connection: Connection) -> None:
    handler = Handler()
    heard = HeardSubject(
        connection, b"7", "a.*", "", handler, admits=lambda delivery: delivery.data != b"flood"
    )
    for data in (b"flood", b"1", b"flood", b"2"):
        heard.offer(message(data))
    handler.room.release()
    handler.room.release()
    await turns()
    assert handler.done == [b"1", b"2"] and not connection.told
    heard.end()


async def test_a_drain_returns_once_all_that_came_is_handled(connection: Connection) -> None:
    handler = Handler()
    heard = HeardSubject(connection, b"7", "a.*", "", handler)
    heard.offer(message(b"1"))
    draining = asyncio.ensure_future(heard.drain())
    await turns()
    assert connection.forgotten == [b"7"]
    heard.offer(message(b"2"))  # the broker had sent it before it knew of the end
    connection.taken.set()
    handler.room.release()
    await turns()
    assert handler.done == [b"1"] and not draining.done()
    handler.room.release()
    await draining
    assert handler.done == [b"1", b"2"]


async def test_after_an_unsubscribe_the_present_message_is_handled_and_none_that_waits(
    connection: Connection,
) -> None:
    handler = Handler()
    heard = HeardSubject(connection, b"7", "a.*", "", handler)
    heard.offer(message(b"1"))
    heard.offer(message(b"2"))
    await turns()
    await heard.unsubscribe()
    handler.room.release()
    handler.room.release()
    await turns()
    assert handler.done == [b"1"] and connection.forgotten == [b"7"]


async def test_a_message_that_wants_no_answer_gets_none(connection: Connection) -> None:
    lone = BrokerMessage(
        Delivery("a.b", b"", "", "", b"7", b"NATS/1.0\r\nSig: x\r\n\r\n"), connection
    )
    assert lone.headers == {"Sig": "x"}
    with pytest.raises(ValueError, match="nobody waits"):
        await lone.respond(b"x")
