# SPDX-License-Identifier: Apache-2.0
"""Whoever has the broker keys of a node's scheduler and agent forges what they say: each entry and
each lease answer is refused and counted, and changes nothing.

A stranger has a signing key of his own. Where even the scheduler's own signature does not help, the
test signs with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client as Connection
from product_node import PATIENCE_S, LiveNode, live_node, plain_connection, wait_until

from stoker.agent.state import metrics_config
from stoker.agent.state.lease import Lease
from stoker.agent.state.state_folder import load as load_cluster
from stoker.agent.state.state_folder import read_json
from stoker.mesh.connection import context
from stoker.mesh.connection.requests import Requests
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Entry, GenesisBlob, Opened
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.wire import lease_messages, subjects
from stoker.mesh.wire.lease_messages import LeaseAnswer, LeaseGrant, LeaseRequest
from stoker.mesh.wire.scheduler_figures import FILE, SchedulerFigures

pytestmark = pytest.mark.needs_root

COUNTER = re.compile(r'^stoker_agent_events_total{.*stoker_counter="(\w+)".*} (\d+)', re.MULTILINE)
LEASE_NS = LEASE_MS * 1_000_000


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node("--metrics", "0") as live:
        yield live


@pytest.fixture
def job(node: LiveNode) -> Iterator[int]:
    """A job that must be fenced, which runs before and after, unfrozen and in its first attempt."""
    number = node.submit("sleep", "1000")
    node.wait(number, "running")
    yield number
    assert node.wait(number, "running").attempt == 1
    assert node.run("echo", "still").state == "succeeded"
    node.stoker("cancel", str(number))
    assert "lease_agent_froze" not in agent_counters(node)


@pytest.fixture
def stranger(tmp_path: Path) -> Identity:
    return identity.create(tmp_path / "stranger.nk")


@asynccontextmanager
async def connected(node: LiveNode, who: str) -> AsyncIterator[Connection]:
    """A connection with the broker key of the scheduler or of the agent."""
    where = context.find(str(node.root))
    stolen = msgspec.structs.replace(where, seed_file=node.state.key(who))
    inbox = subjects.inbox("scheduler" if who == "scheduler" else f"agent.{own(node).node}")
    connection = await plain_connection(stolen, inbox_prefix=inbox.encode())
    try:
        yield connection
    finally:
        await connection.close()


def own(node: LiveNode) -> Any:
    return load_cluster(node.state)


def shown(node: LiveNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.stoker("cluster", "--json").stdout)
    return found


def agent_counters(node: LiveNode) -> Counter[str]:
    """The agent's counters, as its metrics page has them."""
    told = metrics_config.serving(node.state)
    assert told is not None, "no metrics page"
    with urllib.request.urlopen(f"http://{told.address}/metrics", timeout=30) as answer:
        return Counter(
            {name: int(count) for name, count in COUNTER.findall(answer.read().decode())}
        )


def scheduler_counters(node: LiveNode) -> Counter[str]:
    data = (node.state.scheduler / FILE).read_bytes()
    return Counter(msgspec.json.decode(data, type=SchedulerFigures).events)


# --- entries --------------------------------------------------------------------------------------


async def appended(node: LiveNode, make: Callable[[Opened], bytes]) -> None:
    """Append what `make` makes of the last entry, past the scheduler."""
    async with connected(node, "scheduler") as connection:
        key = identity.load(node.state.key("scheduler"))
        log = JetStreamLog(Requests(connection), own(node).cluster, reader="thief")
        last: Opened | None = None
        async for batch in log.read_from(1):
            for seq, data in batch:
                opened = entries.unseal(seq, data)
                if follows(last, opened) and entries.signed_by(opened, key.verifier):
                    last = opened
        assert last is not None
        reply = await connection.request(subjects.LOG, make(last), timeout=60)
        assert b'"seq"' in reply.data, reply.data


def follows(last: Opened | None, opened: Opened) -> bool:
    """True for the entries that count; those that these tests forged before do not."""
    entry = opened.entry
    states = entries.genesis_of(entry) is not None
    good = states == (last is None) and entry.cluster != "other"
    return good and (last is None or entry.prev_hash == last.hash)


def following(last: Opened, **changes: Any) -> Entry:
    """An entry in which nothing is wrong but what is changed."""
    entry = msgspec.structs.replace(
        last.entry,
        batch=last.entry.batch + 1,
        prev_index=last.entry.prev_index + 1,
        prev_hash=last.hash,
        commands=b"",
        blobs=(),
    )
    return msgspec.structs.replace(entry, **changes)


@pytest.mark.parametrize("wrong", ["entry_cluster", "entry_signature", "entry_genesis"])
def test_an_entry_that_no_scheduler_of_this_cluster_may_write_counts_for_nothing(
    node: LiveNode, job: int, stranger: Identity, wrong: str
) -> None:
    key, genesis = (
        identity.load(node.state.key("scheduler")),
        read_json(node.state.genesis, Genesis),
    )
    other = msgspec.structs.replace(genesis, limits=genesis.limits._replace(nodes=1))
    makes: dict[str, Callable[[Opened], bytes]] = {
        "entry_cluster": lambda last: entries.seal(following(last, cluster="other"), key).data,
        "entry_signature": lambda last: entries.seal(following(last), stranger).data,
        "entry_genesis": lambda last: (
            entries.seal(following(last, blobs=(GenesisBlob(other),)), key).data
        ),
    }
    before, listed = scheduler_counters(node)[wrong], shown(node)
    asyncio.run(appended(node, makes[wrong]))
    assert node.run("echo", "after").state == "succeeded"
    wait_until(lambda: scheduler_counters(node)[wrong] == before + 1, f"{wrong} is counted")
    assert shown(node)["limits"] == listed["limits"]


# --- lease answers --------------------------------------------------------------------------------


class Overheard:
    """One request of the agent with the scheduler's answer to it, and how to send others."""

    def __init__(self, node: LiveNode, publish: Callable[[bytes], Any]) -> None:
        self.node = node
        self.publish = publish
        self.key = identity.load(node.state.key("scheduler"))
        self.request: LeaseRequest
        self.answer: LeaseAnswer
        self.data = b""

    def made(self, signer: Identity, changes: dict[str, Any], **grant: Any) -> bytes:
        """The scheduler's answer with changes, or with another grant for this node."""
        (given,) = self.answer.grants
        other: LeaseGrant = msgspec.structs.replace(given, **grant)
        answer = msgspec.structs.replace(self.answer, grants=(other,), **changes)
        return lease_messages.seal_answer(answer, signer)


@asynccontextmanager
async def overheard(node: LiveNode) -> AsyncIterator[Overheard]:
    name = own(node).node
    async with connected(node, "scheduler") as scheduler, connected(node, "agent") as agent:
        asked: asyncio.Queue[bytes] = asyncio.Queue()
        answered: asyncio.Queue[bytes] = asyncio.Queue()
        await scheduler.subscribe(subjects.lease_request(name), cb=into(asked))
        await agent.subscribe(subjects.lease_answer(name), cb=into(answered))
        heard = Overheard(node, lambda data: scheduler.publish(subjects.lease_answer(name), data))
        async with asyncio.timeout(PATIENCE_S):
            heard.data = await answered.get()
            body = heard.data[identity.SIGNATURE_BYTES :]
            heard.answer = msgspec.msgpack.decode(body, type=LeaseAnswer)
            while not asked.empty():
                asked.get_nowait()
            heard.request = lease_messages.open_request(await asked.get(), name)
        yield heard


def into(queue: asyncio.Queue[bytes]) -> Callable[[Any], Any]:
    async def put(message: Any) -> None:
        queue.put_nowait(message.data)

    return put


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("forged", "lease_signature"),
        ("damaged", "lease_signature"),
        ("replayed", "lease_nonce"),
        ("another cluster's", "lease_cluster"),
        ("from the past", "lease_nonce"),
        ("from the future", "lease_nonce"),
        ("another node's", "lease_node"),
        ("of an older term", "lease_term"),
    ],
)
def test_a_lease_answer_that_the_leader_did_not_give_to_this_request_renews_nothing(
    node: LiveNode, job: int, stranger: Identity, name: str, counter: str
) -> None:
    def of(heard: Overheard) -> bytes:
        key, asked = heard.key, heard.request
        fits = {"stamp_ns": asked.stamp_ns, "nonce": asked.nonce}
        later = {**fits, "stamp_ns": asked.stamp_ns + 3600 * 10**9}
        return {
            "forged": heard.made(stranger, {}, **fits),
            "damaged": bytes([heard.data[0] ^ 1]) + heard.data[1:],
            "replayed": heard.data,
            "another cluster's": heard.made(key, {"cluster": "other"}, **fits),
            "from the past": heard.made(key, {}, nonce=asked.nonce),
            "from the future": heard.made(key, {}, **later),
            "another node's": heard.made(key, {}, **fits, node="other"),
            "of an older term": heard.made(key, {"term": 0}, **fits),
        }[name]

    async def send() -> None:
        async with overheard(node) as heard:
            await heard.publish(of(heard))

    before = agent_counters(node)[counter]
    asyncio.run(send())
    wait_until(lambda: agent_counters(node)[counter] > before, f"{counter} is counted", 60)
    left_ns = expiry_ns(node) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert 0 < left_ns <= LEASE_NS


def expiry_ns(node: LiveNode) -> int:
    with Lease.open(node.state.run / "lease") as lease:
        return lease.expiry_boottime_ns


# --- another genesis ------------------------------------------------------------------------------


def test_a_scheduler_with_another_genesis_takes_nothing_and_changes_nothing(
    node: LiveNode, job: int
) -> None:
    right = node.state.genesis.read_bytes()
    genesis = sealed_json.decode(right, Genesis)
    other = msgspec.structs.replace(genesis, limits=genesis.limits._replace(nodes=7))
    limits = shown(node)["limits"]
    log = node.state.log / "scheduler.log"
    node.state.genesis.write_bytes(sealed_json.encode(other))
    try:
        node.kill("scheduler")
        says = "the log does not begin with the genesis of this cluster"
        wait_until(lambda: says in log.read_text(), "it says what is wrong", 60)
    finally:
        node.state.genesis.write_bytes(right)
    with contextlib.suppress(KeyError, ProcessLookupError):  # it ends by itself, sooner or later
        node.kill("scheduler")
    assert node.run("echo", "again").state == "succeeded"
    assert shown(node)["limits"] == limits
