# SPDX-License-Identifier: Apache-2.0
"""The page over real sockets: readers, limits, wrong clients, and an agent that does not answer."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest
import pytest_asyncio

from stoker.agent.export import page_server
from stoker.agent.export.metrics_page import PageSource
from stoker.agent.export.node_metrics import NodeReading
from stoker.agent.export.page_server import PageServer
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.state.metrics_config import Listener, Serving
from stoker.scheduler.nouns import DeviceInfo

OTHER = 1234
STARTS = tuple(
    StartRecord(job, 1, 0, 0, 0, uid, 5.0, devices=("GPU-1",), name=f"name{job}")
    for job, uid in ((1, os.geteuid()), (2, OTHER))
)
READING = NodeReading(1, (DeviceInfo("GPU-1", "nvidia", "H200"),), (), (), {}, starts=STARTS)


class Served:
    """A server on a free port of loopback, in this test's loop."""

    def __init__(self, readers: frozenset[int] | None = frozenset()) -> None:
        self.told: list[Serving] = []
        self.reads = 0
        self.checks = {"broker": "", "lease": ""}
        self.server = PageServer(
            Listener("127.0.0.1", 0),
            PageSource("node1", {}),
            read=self._read,
            checks=lambda: self.checks,
            readers=readers,
            tell=self.told.append,
        )
        self.server.start()

    async def _read(self) -> NodeReading:
        self.reads += 1
        return READING

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.told[-1].address.rpartition(":")
        return host, int(port)

    async def begun(self) -> Served:
        await until(lambda: bool(self.told), "it says where the page is")
        return self

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.fetch, path)

    def fetch(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=30)


async def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    made = await Served().begun()
    yield made
    made.server.close()


@pytest.fixture
def as_other(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int | None]]:
    """The user that the kernel names for each connection."""
    said: list[int | None] = [OTHER]
    monkeypatch.setattr(page_server, "owner", lambda ours, theirs: said[0])
    yield said


async def test_the_nodes_own_user_sees_all_jobs(served: Served) -> None:
    status, text = await served.get("/metrics")
    assert status == 200 and "name1" in text and "name2" in text


async def test_another_user_sees_his_own(served: Served, as_other: list[int | None]) -> None:
    _, text = await served.get("/metrics")
    assert "name1" not in text and "name2" in text
    for nobody in (None, page_server.OVERFLOW_UID):
        as_other[0] = nobody
        _, text = await served.get("/metrics")
        assert "name1" not in text and "name2" not in text and "hw_status" in text


async def test_readers_see_all_and_so_does_everybody_if_told(as_other: list[int | None]) -> None:
    for readers, uid in ((frozenset({OTHER}), OTHER), (None, None)):
        as_other[0] = uid
        made = await Served(readers).begun()
        _, text = await made.get("/metrics")
        assert "name1" in text and "name2" in text
        made.server.close()


async def test_many_readers_cost_one_reading(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "FRESH_S", 3600)
    for _ in range(5):
        assert (await served.get("/metrics"))[0] == 200
    assert served.reads == 1
    monkeypatch.setattr(page_server, "FRESH_S", -1)
    await served.get("/metrics")
    assert served.reads == 2


async def test_readiness_says_what_is_missing(served: Served) -> None:
    assert await served.get("/readyz") == (200, "ok broker\nok lease\n")
    served.checks["lease"] = "it has run out"
    assert await served.get("/readyz") == (503, "ok broker\nfail lease: it has run out\n")
    assert await served.get("/livez") == (200, "ok\n")


async def test_an_agent_whose_loop_hangs_does_not_live(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "AGENT_S", 0.1)
    found: list[tuple[int, str]] = []
    asked = threading.Thread(target=lambda: found.extend(map(served.fetch, ("/livez", "/metrics"))))
    asked.start()
    asked.join(30)  # this blocks the loop that the server calls the agent's
    assert [status for status, _ in found] == [503, 503] and "has not answered" in found[0][1]
    assert (await served.get("/livez"))[0] == 200


async def test_a_head_without_end_is_refused_with_an_answer(served: Served) -> None:
    def talk() -> bytes:
        with served.connect() as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000)
            return client.recv(200)

    assert (await asyncio.to_thread(talk)).startswith(b"HTTP/1.1 431 ")


async def test_a_silent_client_is_cut_off_and_counted(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "REQUEST_S", 0.05)
    with served.connect() as client:
        client.sendall(b"GET /met")
        assert await asyncio.to_thread(client.recv, 1) == b""
    await until(lambda: served.server.counters["page_slow"] == 1, "it is counted")


async def test_a_client_that_does_not_take_its_answer_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "REQUEST_S", 0.3)
    body = b"x" * (32 << 20)
    monkeypatch.setattr(page_server.metrics_page, "page", lambda *_: _Made(body))
    with served.connect() as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n")
        await until(lambda: served.server.counters["page_slow"] == 1, "it is counted")


class _Made:
    """A page of a given size."""

    def __init__(self, body: bytes) -> None:
        self.body, self.refused = body, Counter[str]()


async def test_one_user_holds_few_connections_and_others_are_served(
    served: Served, as_other: list[int | None]
) -> None:
    with ExitStack() as held:
        for _ in range(page_server.PEER_CONNECTIONS_MAX):
            held.enter_context(served.connect())
        await until(
            lambda: served.server._peers[OTHER] == page_server.PEER_CONNECTIONS_MAX, "all are held"
        )
        with served.connect() as more:
            assert await asyncio.to_thread(more.recv, 1) == b""
        assert served.server.counters["page_refused"] == 1
        as_other[0] = 77
        assert (await served.get("/livez"))[0] == 200
    await until(lambda: not served.server._peers, "nothing is held for clients that are gone")


async def test_a_flood_of_connections_is_bounded(
    served: Served, as_other: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "PEER_CONNECTIONS_MAX", 1000)
    with ExitStack() as held:
        for _ in range(page_server.CONNECTIONS_MAX + 5):
            held.enter_context(served.connect())
        most = page_server.CONNECTIONS_MAX
        await until(lambda: len(served.server._connections) == most, "as many as may be")
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert len(served.server._connections) <= most
    assert (await served.get("/livez"))[0] == 200


async def test_a_taken_port_is_said_in_one_line_and_had_when_it_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_server, "AGAIN_S", 0.01)
    told: list[Serving] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = Listener("127.0.0.1", other.getsockname()[1])
        server = make(where, told)
        await until(lambda: bool(told), "it says why there is none")
        await asyncio.sleep(0.05)
    assert told[0].why == f"no metrics page: {where} cannot be had: Address already in use"
    await until(lambda: told[-1].address == str(where), "it has the port")
    assert len(told) == 2, "said once, however often it was tried"
    server.close()


def make(where: Listener, told: list[Serving]) -> PageServer:
    async def read() -> NodeReading:
        return READING

    server = PageServer(
        where,
        PageSource("node1", {}),
        read=read,
        checks=dict[str, str],
        readers=frozenset(),
        tell=told.append,
    )
    server.start()
    return server


async def test_what_a_page_has_no_room_for_is_counted_and_told(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server.metrics_page, "SERIES_MAX", 5)
    monkeypatch.setattr(page_server, "FRESH_S", -1)
    await served.get("/metrics")
    assert served.server.counters["page_series_refused"] > 0
    monkeypatch.setattr(page_server.metrics_page, "SERIES_MAX", 5000)
    _, text = await served.get("/metrics")
    refused = [line for line in text.splitlines() if line.startswith("stoker_export_refused_total")]
    assert (
        sum(float(line.split()[-1]) for line in refused)
        == (served.server.counters["page_series_refused"])
    )
