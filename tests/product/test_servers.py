# SPDX-License-Identifier: Apache-2.0
"""Three servers, each with a broker and a scheduler, and nodes that run real jobs: one server dies
with the leader, or hangs, and a leader that was paused answers nothing."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.servers import Servers, founded

from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.wire import lease_messages, schema, subjects
from stoker.scheduler.nouns import ENDED
from tests.mesh.nats_server import Server, settle
from tests.mesh.several_schedulers import SchedulerProcess

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
NODES = ("node1", "node2")
LEASE_NS = LEASE_MS * 1_000_000


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    async with founded(tmp_path, NODES) as made:
        yield made


async def test_a_server_dies_together_with_the_leader(
    servers: Servers, public_folder: Path
) -> None:
    first = servers.leader()
    waits = ("/bin/sh", "-c", f"while [ ! -e {public_folder}/go ]; do sleep 0.05; done")
    jobs = [await servers.submit(*waits, group="g", company="repel") for _ in NODES]
    views = [await servers.until_state(job, "running") for job in jobs]
    assert {view.decision.node for view in views if view.decision is not None} == set(NODES)

    frozen = servers.freezes()
    first.kill()
    first.server.kill()
    servers.server = servers.servers_from(first.server)[1]
    later = await servers.submit("true")
    second = servers.leader()
    assert second is not first and later == 3
    assert (await servers.until_state(later, *ENDED)).state == "succeeded"

    (public_folder / "go").touch()
    ended = [await servers.until_state(job, *ENDED) for job in jobs]
    assert [(view.state, view.attempt) for view in ended] == [("succeeded", 1)] * 2
    assert servers.freezes() == frozen

    first.server.start()
    first.start()
    await servers.until(first.is_ready)
    await servers.until_equal()


async def test_a_broker_that_hangs_deposes_its_scheduler_and_freezes_nothing(
    servers: Servers,
) -> None:
    """The node beside that broker has its lease renewed over the other one meanwhile."""
    first = servers.leader()
    servers.server = servers.servers_from(first.server)[1]
    beside = servers.nodes[0]
    frozen = servers.freezes()
    with hanging(first.server):
        second = await servers.until_another_leads(first)
        stopped = boot_ns() + LEASE_NS
        await servers.until(lambda: beside.lease_ns > stopped)
        job = await servers.submit("true")
        assert (await servers.until_state(job, *ENDED)).state == "succeeded"
        assert servers.leader() is second
    assert servers.freezes() == frozen
    await servers.until_equal()


@contextlib.contextmanager
def hanging(server: Server) -> Iterator[None]:
    """Stop a broker, without an end of its connections, for as long as this lasts."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


class Listener:
    """It hears all answers to its own requests as a user, and to the lease requests of a node."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.lease_terms: list[int] = []

    async def start(self) -> Listener:
        server = self._servers.server
        self._user = await server.connect("alice")
        agent = await server.connect("node1")
        await agent.subscribe(subjects.lease_answer("node1"), cb=self._leased)
        await settle(agent)
        return self

    async def _leased(self, message: Any) -> None:
        members = [each.key.verifier for each in self._servers.schedulers]
        self.lease_terms.append(lease_messages.open_answer(message.data, members).term)

    async def request(self) -> list[bytes]:
        """Send one request; return the list to which every reply is added, be it a refusal."""
        replies: list[bytes] = []

        async def take(message: Any) -> None:
            if not (message.headers and message.headers.get("Status")):  # not "nobody is there"
                replies.append(message.data)

        inbox = self._user.new_inbox()
        await self._user.subscribe(inbox, cb=take)
        body = schema.encode(schema.ListRequest())
        await self._user.publish(subjects.request("job", "list"), body, reply=inbox)
        await settle(self._user)
        return replies


async def test_a_leader_that_was_paused_answers_nothing(servers: Servers) -> None:
    first: SchedulerProcess = servers.leader()
    servers.server = servers.servers_from(first.server)[1]
    listener = await Listener(servers).start()
    await servers.until(lambda: len(listener.lease_terms) > 0)
    frozen = servers.freezes()
    first.pause()
    unheard = await listener.request()
    second = await servers.until_another_leads(first)
    term = second.terms_led()[-1]
    await servers.until(lambda: listener.lease_terms[-1] == term)
    heard = await listener.request()
    await servers.until(lambda: len(heard) == 1)
    before = len(listener.lease_terms)

    first.resume()
    job = await servers.submit("true")
    await servers.until_state(job, "succeeded")
    await servers.until_equal()
    await servers.until(lambda: len(listener.lease_terms) > before)
    assert servers.leader() is second
    assert first.terms_led()[-1] < term
    assert unheard == []
    assert [schema.decode_reply("job", "list", reply).position.term for reply in heard] == [term]
    assert set(listener.lease_terms[before:]) == {term}
    assert servers.freezes() == frozen
