# SPDX-License-Identifier: Apache-2.0
"""The job service in its real process: every request is answered and ends no process."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import AT_THE_LEADER, ReadChoice
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema, subjects
from stoker.mesh.wire.schema import JobRequest, LogsRequest
from stoker.native.errors import Busy, NotFound, Refused
from tests.mesh.fake_agent import HOLD
from tests.mesh.nats_server import Server
from tests.mesh.node import Node

HOSTILE = (
    "1e308",
    "-1",
    "-1e308",
    "0.5",
    "9223372036854775807",
    "9223372036854775808",
    "1e999",
    "9" * 400,
    "NaN",
    "null",
    "true",
    '"' + "x" * 20_000 + '"',
    '"\\u0000\\ud800"',
    '"last"',
    "[" * 2000,
    "[1e308]",
    '{"a":1e308}',
)
"""JSON texts, and texts that are not JSON, that replace a field's value."""
NEEDED = {"argv": '["true"]', "select": '"1"', "job": "1", "node": '"node1"', "device": '"gpu-0"'}
AT_ONCE = 32


@pytest.fixture
async def node(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    node = Node(server_stopped_with_admin)
    yield await node.start()
    await node.stop()


def texts() -> list[tuple[str, str, bytes]]:
    """Yield (noun, verb, body) with a hostile value in each field, then in several at once."""
    chance = random.Random(11)
    found: list[tuple[str, str, bytes]] = []
    for (noun, verb), endpoint in schema.ENDPOINTS.items():
        names = [field.name for field in msgspec.structs.fields(endpoint.request)]
        for name in names:
            for value in HOSTILE:
                found.append((noun, verb, body(names, {name: value})))
        for _ in range(20):
            chosen = chance.sample(names, chance.randint(1, len(names)))
            values = {name: chance.choice(HOSTILE) for name in chosen}
            found.append((noun, verb, body(names, values)))
    return found


def body(names: list[str], values: dict[str, str]) -> bytes:
    fields = {name: NEEDED[name] for name in names if name in NEEDED} | values
    return ("{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}").encode()


async def answered(node: Node, user: str, found: list[tuple[str, str, bytes]]) -> list[Any]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(noun: str, verb: str, data: bytes) -> Any:
        async with gate:
            return json.loads(await node.raw(user, subjects.request(noun, verb), data, 40.0))

    return list(await asyncio.gather(*(one(*each) for each in found)))


async def test_hostile_values_in_every_field_of_every_request(node: Node) -> None:
    """Each request is answered, none with a defect, and one process answers all."""
    assert node.process is not None
    await node.ask("alice", "job", "submit", argv=(HOLD,))
    await node.ask("alice", "job", "get", job=1, until="running", wait_s=10.0)
    before = node.process.pid
    everything = texts()
    own = [each for each in everything if each[:2] in subjects.USER_REQUESTS]
    replies = await answered(node, "alice", own)
    replies += await answered(node, "admin", [each for each in everything if each not in own])
    codes = {reply["error"]["code"] for reply in replies if "error" in reply}
    assert "internal" not in codes, node.log()
    assert {"bad_request", "not_found"} <= codes
    assert node.process.poll() is None, node.log()
    assert (await node.ask("alice", "job", "submit", argv=("true",))).user == "alice"
    assert node.process.pid == before


async def test_no_wait_is_longer_than_the_longest(node: Node) -> None:
    """An endless wait for a running job with its trace is refused, whichever request it is in."""
    assert node.process is not None
    await node.ask("alice", "job", "submit", argv=(HOLD,), stdin=True)
    await node.ask("alice", "job", "get", job=1, until="running", wait_s=10.0)
    for verb, rest in (
        ("get", ',"trace":true,"until":"ended"'),
        ("get", ',"until":"ended"'),
        ("logs", ""),
        ("stdin", ""),
        ("trace", ""),
        ("tracing", ""),
    ):
        for wait in ("1e308", "30.1", "-0.1"):
            text = f'{{"job":1,"wait_s":{wait}{rest}}}'.encode()
            reply = json.loads(await node.raw("alice", f"stoker.v1.job.{verb}", text))
            assert reply["error"]["code"] == "bad_request", (verb, wait)
            assert "wait_s" in reply["error"]["message"]
    assert node.process.poll() is None, node.log()


async def test_a_job_with_a_large_trace_and_a_large_request_is_answered(node: Node) -> None:
    """A job and its trace may exceed one reply of the broker: then the job is shortened."""
    assert node.agent is not None
    node.agent.piece = 100_000
    for number, words in ((1, 0), (2, 3)):
        environment = {"A": "e" * 60_000}
        argv = ("true", *("\x01" * 20_000 for _ in range(words)))
        await node.ask("alice", "job", "submit", argv=argv, env=environment)
        await node.ask("alice", "job", "get", job=number, until="ended", wait_s=10.0)
        node.agent.summary[number] = json.dumps({"pad": "x" * 310_000}).encode()
        view = await node.ask("alice", "job", "get", job=number, trace=True)
        assert view.trace is not None
        assert (view.spec.env is None) == (number == 2)


# --- budgets --------------------------------------------------------------------------------------


@pytest.fixture
async def small(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    """A node whose users have tiny budgets."""
    (server_stopped_with_admin.folder / "config.toml").write_text(
        "[budgets]\nwaiters = 1\nproxied = 1\npending_jobs = 3\nqueued = 4\nin_flight = 1\n"
    )
    node = Node(server_stopped_with_admin)
    yield await node.start()
    await node.stop()


def client_of(node: Node, user: str, reads: ReadChoice = AT_THE_LEADER) -> Client:
    folder = node.folder
    certificate = Path(node.server.settings.certificate_file)
    where = Context(node.server.url, folder / f"{user}.nk", user, certificate)
    return Client(lambda: where, reads=reads)


async def test_a_wait_that_is_not_held_is_repeated(small: Node) -> None:
    """Two waits where only one is held: both clients learn the end, and none fails."""
    assert small.agent is not None
    client = client_of(small, "alice")
    try:
        for _ in range(3):
            await client.submit(JobRequest(argv=(HOLD,)))
        waits = [asyncio.ensure_future(client.wait(job)) for job in (1, 2)]
        follows = [
            asyncio.ensure_future(client.logs(LogsRequest(job=job, wait_s=1.0))) for job in (1, 2)
        ]
        assert [view.job for view in await asyncio.gather(*follows)] == [1, 2]
        assert not any(wait.done() for wait in waits)
        await client.cancel("all")
        assert [view.state for view in await asyncio.gather(*waits)] == ["cancelled"] * 2
    finally:
        await client.close()


async def test_a_refusal_names_its_budget_and_concerns_one_user(small: Node) -> None:
    for _ in range(3):
        await small.ask("alice", "job", "submit", argv=(HOLD,))
    with pytest.raises(Refused, match=r"alice .* 3 jobs that are not over.*budget pending_jobs"):
        await small.ask("alice", "job", "submit", argv=(HOLD,))
    assert (await small.ask("bob", "job", "submit", argv=("true",))).user == "bob"
    held = asyncio.ensure_future(small.ask("alice", "job", "get", job=1, until="ended", wait_s=5.0))
    await small.ask("alice", "job", "list")  # comes after it, in this user's order
    with pytest.raises(Busy, match=r"alice has 1 held requests.*budget waiters"):
        await small.ask("alice", "job", "get", job=2, until="ended", wait_s=5.0)
    await small.ask("bob", "job", "submit", argv=(HOLD,))
    await small.ask("bob", "job", "get", job=5, until="running", wait_s=5.0)
    await small.ask("alice", "job", "cancel", select="1")
    assert (await held).state == "cancelled"


async def test_a_flood_is_answered_and_costs_another_user_nothing(small: Node) -> None:
    """A thousand requests at once are all answered, most of them with a refusal."""
    nc = await small.server.connect("alice")

    async def one() -> Any:
        return json.loads((await nc.request("stoker.v1.job.list", b"{}", timeout=30)).data)

    flood = [asyncio.ensure_future(one()) for _ in range(1000)]
    assert (await small.ask("bob", "job", "submit", argv=("true",))).job == 1
    replies = await asyncio.gather(*flood)
    codes = {reply.get("error", {}).get("code", "ok") for reply in replies}
    assert codes == {"ok", "busy"}


async def test_a_list_is_a_turns_worth_and_says_where_it_goes_on(node: Node) -> None:
    most = 200
    for first in (0, 100, 200):
        array = tuple(range(first, first + 100))
        await node.ask("alice", "job", "submit", argv=("true",), array=array)
    page = await node.ask("alice", "job", "list", limit=1000)
    assert ([job.job for job in page.jobs], page.next) == (list(range(300, 100, -1)), 101)
    assert len(page.jobs) == most
    rest = await node.ask("alice", "job", "list", limit=1000, before=page.next)
    assert ([job.job for job in rest.jobs], rest.next) == (list(range(100, 0, -1)), None)


# --- removal --------------------------------------------------------------------------------------


async def test_a_removed_job_is_gone_here_and_at_its_node(node: Node) -> None:
    assert node.agent is not None
    for argv in (("true",), (HOLD,), ("true",)):
        await node.ask("alice", "job", "submit", argv=argv)
    await node.ask("bob", "job", "submit", argv=("true",))
    for job, user in ((1, "alice"), (3, "alice"), (4, "bob")):
        await node.ask(user, "job", "get", job=job, until="ended", wait_s=10.0)
    with pytest.raises(Refused, match=r"job 2 is \w+, and only jobs that are over.*cancel 2"):
        await node.ask("alice", "job", "remove", select="1-2")
    with pytest.raises(NotFound, match="there is no job 4"):
        await node.ask("alice", "job", "remove", select="4")
    assert (await node.ask("alice", "job", "get", job=1)).state == "succeeded"
    done = await node.ask("alice", "job", "remove", select="1")
    assert [(row.job, row.changed) for row in done.jobs] == [(1, True)]
    with pytest.raises(NotFound, match="job 1 was removed by alice"):
        await node.ask("alice", "job", "get", job=1)
    with pytest.raises(NotFound, match="there is no job 1"):
        await node.ask("bob", "job", "get", job=1)
    again = await node.ask("alice", "job", "remove", select="1,3")
    assert [(row.job, row.changed) for row in again.jobs] == [(1, False), (3, True)]
    await node.ask("alice", "job", "remove", select="all")
    left = (await node.ask("admin", "job", "list")).jobs
    assert [(job.job, job.user) for job in left] == [(4, "bob"), (2, "alice")]
    await node.until(lambda: {1, 3} <= node.agent.forgotten)
    node.kill_scheduler()
    node.start_scheduler()
    await node.persist("alice", "job", "list")
    with pytest.raises(NotFound, match="job 1 was removed by alice"):
        await node.ask("alice", "job", "get", job=1)


async def test_more_are_removed_than_one_entry_holds(node: Node) -> None:
    for number in range(3):
        key = f"array {number}"  # a request whose answer is late is repeated
        array = tuple(range(256))
        await node.ask("alice", "job", "submit", argv=("true",), array=array, idempotency_key=key)
    for job in (256, 512, 768):
        await node.ask("alice", "job", "get", job=job, until="ended", wait_s=20.0)
    states = ("pending", "starting", "running")
    while (await node.ask("alice", "job", "list", states=states)).jobs:
        pass
    # The removal may be repeated as well: named jobs are answered for each time.
    done = await node.ask("alice", "job", "remove", select="1-768")
    assert len(done.jobs) == 768
    assert (await node.ask("alice", "job", "list")).jobs == ()


async def test_a_scheduler_that_is_alone_answers_reads_at_its_name(node: Node) -> None:
    await node.ask("alice", "job", "submit", argv=("true",))
    at = f"{(await node.ask('alice', 'cluster', 'get')).schedulers[0].number:016x}"
    for choice in (ReadChoice(at), ReadChoice(subjects.ANY), ReadChoice(stale=True)):
        client = client_of(node, "alice", choice)
        assert (await client.get(1)).job == 1
        listed = await client.list(schema.ListRequest())
        assert [job.job for job in listed.jobs] == [1] and listed.position is not None
        assert (await client.cluster()).position is not None
        assert [each.node for each in (await client.nodes()).nodes] == ["node1"]
        await client.close()
    nc = await node.server.connect("bob")
    asked = await nc.request(f"stoker.v1.read.{at}.node.list", b"{}", timeout=60)
    assert schema.decode_reply("node", "list", asked.data)
    with pytest.raises(NotFound):
        answer = await nc.request(f"stoker.v1.read.{at}.job.get", b'{"job": 1}', timeout=60)
        schema.decode_reply("job", "get", answer.data)
