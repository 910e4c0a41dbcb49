# SPDX-License-Identifier: Apache-2.0
"""The broker's configuration against the real server: permissions, limits and refusals."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import Any

import msgspec
import nats
import nats.errors
import pytest
from msgspec.structs import replace
from nats.aio.msg import Msg

from stoker.mesh.broker import broker_config
from stoker.mesh.broker.broker_config import BrokerKeys, BrokerSettings
from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.identity import identity
from stoker.mesh.wire import subjects, telemetry_streams
from stoker.mesh.wire.telemetry_streams import STREAMS
from stoker.native.errors import BadRequest, NotSupported
from tests.mesh.nats_server import SERVER, Server, settle


async def echo_subject(server: Server) -> list[Msg]:
    """A scheduler that answers every request with the subject it arrived on."""
    seen: list[Msg] = []
    scheduler = await server.connect("scheduler")

    async def answer(message: Msg) -> None:
        seen.append(message)
        await scheduler.publish(message.reply, message.subject.encode())

    await scheduler.subscribe(subjects.EVERY_USER_REQUEST, cb=answer)
    await scheduler.subscribe(subjects.EVERY_READ, cb=answer)
    await scheduler.subscribe(subjects.EVERY_NODE_REQUEST, cb=answer)
    await settle(scheduler)
    return seen


async def ask(nc: Any, subject: str) -> str:
    return (await nc.request(subject, b"{}", timeout=60)).data.decode()


async def violations(server: Server, what: str, count: int) -> bool:
    """Wait for this many refusals, which nats-py reports in a callback; return if they came."""
    for _ in range(6000):
        said = [text for text in server.errors if f"violation for {what}" in text.lower()]
        if len(said) >= count:
            return True
        await asyncio.sleep(0.01)
    return False


def test_the_server_accepts_the_configuration(stopped_server: Server) -> None:
    stopped_server.write()
    done = subprocess.run(
        [str(SERVER), "-t", "-c", str(stopped_server.config)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_version_floor() -> None:
    said = subprocess.run([str(SERVER), "--version"], capture_output=True, check=True, text=True)
    assert broker_config.check_version(said.stdout) >= broker_config.MINIMUM_VERSION
    with pytest.raises(NotSupported, match=r"2\.9\.10 is too old, 2\.15\.1 is needed"):
        broker_config.check_version("nats-server: v2.9.10")
    with pytest.raises(NotSupported, match="not nats-server"):
        broker_config.check_version("bash: nats-server: not found")
    assert broker_config.check_version("nats-server: v3.0.0") == (3, 0, 0)


def test_two_identities_never_share_a_key(keyring: dict[str, Any]) -> None:
    one = keyring["alice"].public
    with pytest.raises(BadRequest, match="same key"):
        broker_config.render(
            BrokerSettings("s", 1, "/x", "/k", "/c"), BrokerKeys(one, {}, {"alice": one})
        )
    mistyped = one[:-1] + ("B" if one.endswith("A") else "A")
    with pytest.raises(BadRequest, match=r"checksum|not a public"):
        broker_config.render(BrokerSettings("s", 1, "/x", "/k", "/c"), BrokerKeys(mistyped, {}, {}))


def test_only_a_node_that_takes_hosts_has_guests(keyring: dict[str, Any]) -> None:
    scheduler, registrar, guest = (keyring[name].public for name in ("scheduler", "alice", "bob"))
    settings = BrokerSettings("s", 1, "/x", "/k", "/c")
    alone = broker_config.render(settings, BrokerKeys(scheduler))
    assert broker_config.GUESTS not in alone and subjects.JOIN_NODE not in alone
    door = BrokerKeys(scheduler, registrar=registrar, guest=guest)
    opened = broker_config.render(settings, door)
    assert opened.count(f"  {broker_config.GUESTS}: {{") == 1
    assert opened.count(registrar) == opened.count(guest) == 1
    with pytest.raises(BadRequest, match="same key"):
        broker_config.render(settings, replace(door, agents={"node1": guest}))


async def test_a_name_is_written_in_and_cannot_be_forged(server: Server) -> None:
    seen = await echo_subject(server)
    alice = await server.connect("alice")
    for noun, verb in subjects.USER_REQUESTS:
        wanted = subjects.user_request("alice", noun, verb)
        assert await ask(alice, subjects.request(noun, verb)) == wanted
    count = len(seen)
    for subject in (
        subjects.user_request("bob", "job", "submit"),
        subjects.user_request("alice", "job", "submit"),
        subjects.hello("node1"),
        subjects.outcome("node1"),
        subjects.log_range("node1"),
        subjects.command("node1"),
        subjects.lease_request("node1"),
        subjects.lease_answer("node1"),
        subjects.LOG,
        *(subjects.request(noun, verb) for noun, verb in subjects.ADMIN_REQUESTS),
        f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}",
        "stoker.v1.job.other",
        "$SYS.REQ.SERVER.PING",
    ):
        server.errors.clear()
        with pytest.raises((nats.errors.TimeoutError, nats.errors.NoRespondersError)):
            await alice.request(subject, b"x", timeout=0.1)
        assert await violations(server, "publish", 1), subject
    assert len(seen) == count


async def test_a_user_cannot_listen_to_others(server: Server) -> None:
    heard: list[str] = []
    alice = await server.connect("alice")
    bob = await server.connect("bob")

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    for subject in (">", "_INBOX.>", "_R_.>", "stoker.v1.>", "stoker.v1.cmd.*", "$SRV.>"):
        await alice.subscribe(subject, cb=hear)
    await settle(alice)
    await echo_subject(server)
    scheduler = await server.connect("scheduler")
    assert await ask(bob, "stoker.v1.job.get") == "stoker.v1.user.bob.job.get"
    await scheduler.publish(subjects.command("node1"), b"secret")
    await settle(scheduler)
    await settle(alice)
    assert heard == []
    assert await violations(server, "subscription", 5)


async def test_an_agent_speaks_for_its_own_node_only(server: Server) -> None:
    await echo_subject(server)
    node = await server.connect("node1")
    assert await ask(node, subjects.hello("node1")) == subjects.hello("node1")
    assert await ask(node, subjects.log_range("node1")) == subjects.log_range("node1")
    for subject in (
        subjects.hello("node2"),
        subjects.outcome("node2"),
        subjects.log_range("node2"),
        subjects.observation("node2"),
        subjects.lease_request("node2"),
        subjects.lease_answer("node1"),
        subjects.command("node1"),
        subjects.user_request("alice", "job", "submit"),
        subjects.LOG,
        f"$JS.API.CONSUMER.CREATE.{subjects.LOG_STREAM}.x",
        f"{subjects.inbox('scheduler')}.abc",
    ):
        server.errors.clear()
        await node.publish(subject, b"x")
        await settle(node)
        assert await violations(server, "publish", 1), subject
    server.errors.clear()
    for subject in (subjects.command("node2"), subjects.query("node2", "logs"), "_INBOX.>", ">"):
        await node.subscribe(subject)
    await settle(node)
    assert await violations(server, "subscription", 4)


async def test_records_reach_the_user_they_are_for_and_nobody_else(server: Server) -> None:
    heard: dict[str, list[str]] = {"alice": [], "bob": []}
    for name, seen in heard.items():
        link = await server.connect(name)

        async def hear(message: Msg, seen: list[str] = seen) -> None:
            seen.append(message.subject)

        for subject in (subjects.records_of_user("alice"), subjects.records_of_user("bob")):
            await link.subscribe(subject, cb=hear)
        await settle(link)
    assert await violations(server, "subscription", 2)  # the other user's
    node = await server.connect("node1")
    await node.publish(subjects.records("alice", "node1", 7), b"x")
    await settle(node)
    server.errors.clear()
    for subject in (subjects.records("alice", "node2", 7), subjects.records_of_user("bob")):
        await node.publish(subject, b"x")
        await settle(node)
    assert await violations(server, "publish", 1)
    for link in server.connections:
        await settle(link)
    assert heard == {"alice": [subjects.records("alice", "node1", 7)], "bob": []}


async def test_live_telemetry_reaches_the_user_it_is_about_and_administrators(
    server_stopped_with_admin: Server,
) -> None:
    server = server_stopped_with_admin
    server.start()
    try:
        heard: dict[str, list[str]] = {"alice": [], "bob": [], "admin": []}
        told = [subjects.decisions("alice"), subjects.outcomes("alice"), subjects.job_events("bob")]
        for name, seen in heard.items():
            link = await server.connect(name)

            async def hear(message: Msg, seen: list[str] = seen) -> None:
                seen.append(message.subject)

            streams = STREAMS if name == "admin" else [s for s in STREAMS if s.of_user]
            for stream in streams:
                await link.subscribe(stream.readable(None if name == "admin" else name), cb=hear)
            await settle(link)
        assert server.errors == []
        for subject in (subjects.EVERY_OBSERVATION, subjects.decisions("bob"), "stoker.v1.>"):
            await server.connections[0].subscribe(subject)
        await settle(server.connections[0])
        assert await violations(server, "subscription", 3)
        scheduler, node = await server.connect("scheduler"), await server.connect("node1")
        for subject in (*told, subjects.CLUSTER_EVENTS):
            await scheduler.publish(subject, b"x")
        await settle(scheduler)
        await node.publish(subjects.kernels("bob", "node1", 3), b"x")
        await node.publish(subjects.observation("node1"), b"x")
        await settle(node)
        for link in server.connections:
            await settle(link)
        of_node = [subjects.kernels("bob", "node1", 3), subjects.observation("node1")]
        assert sorted(heard["admin"]) == sorted([*told, subjects.CLUSTER_EVENTS, *of_node])
        assert heard["alice"] == told[:2]
        assert heard["bob"] == [told[2], of_node[0]]
        server.errors.clear()
        for subject in (subjects.kernels("bob", "node2", 3), subjects.decisions("bob")):
            await node.publish(subject, b"forged")
        await settle(node)
        assert await violations(server, "publish", 2)
    finally:
        await server.close_connections()


async def fetched(nc: Any, stream: str, seq: int) -> Msg:
    """Fetch a message of a stream, which takes it in after the broker has it."""
    while True:
        message: Msg = await nc.request(
            f"$JS.API.DIRECT.GET.{stream}", b'{"seq":%d}' % seq, timeout=2
        )
        if message.headers is not None and "Nats-Sequence" in message.headers:
            return message


async def test_only_administrators_read_streams_and_nobody_but_the_scheduler_changes_them(
    server_stopped_with_admin: Server,
) -> None:
    server = server_stopped_with_admin
    server.start()
    scheduler = await server.connect("scheduler")
    stream = STREAMS[2]
    body = msgspec.json.encode(telemetry_streams.config_of(stream))
    made = await scheduler.request(f"$JS.API.STREAM.CREATE.{stream.name}", body, timeout=30)
    assert b'"error"' not in made.data
    await scheduler.publish(subjects.decisions("alice"), b"placed")
    kept = await fetched(await server.connect("admin"), stream.name, 1)
    assert (kept.data, kept.headers["Nats-Subject"]) == (b"placed", subjects.decisions("alice"))
    api = [f"DIRECT.GET.{subjects.LOG_STREAM}", f"CONSUMER.CREATE.{stream.name}.x"]
    api += [f"STREAM.{call}.{stream.name}" for call in ("UPDATE", "DELETE", "PURGE", "MSG.GET")]
    calls = [f"$JS.API.{call}" for call in api]
    for who, refused in (
        ("admin", calls),
        ("alice", [*calls, f"$JS.API.DIRECT.GET.{stream.name}"]),
        ("node1", [*calls, f"$JS.API.DIRECT.GET.{stream.name}"]),
        ("scheduler", [calls[1], *calls[4:]]),
    ):
        link = await server.connect(who)
        for subject in refused:
            server.errors.clear()
            await link.publish(subject, b"{}")
            await settle(link)
            assert await violations(server, "publish", 1), (who, subject)


async def test_kept_telemetry_survives_a_reload_of_the_broker(server: Server) -> None:
    scheduler = await server.connect("scheduler")
    for stream in STREAMS:
        body = msgspec.json.encode(telemetry_streams.config_of(stream))
        await scheduler.request(f"$JS.API.STREAM.CREATE.{stream.name}", body, timeout=30)
    await scheduler.publish(subjects.decisions("alice"), b"before")
    await settle(scheduler)
    await server.add_user("carol")
    await scheduler.publish(subjects.decisions("carol"), b"after")
    found = [await fetched(scheduler, STREAMS[2].name, seq) for seq in (1, 2)]
    assert [each.data for each in found] == [b"before", b"after"]


async def test_an_agent_may_answer_a_query(server: Server) -> None:
    scheduler = await server.connect("scheduler")
    node = await server.connect("node1")

    async def answer(message: Msg) -> None:
        await node.publish(message.reply, b"here")

    await node.subscribe(subjects.query("node1", "logs"), cb=answer)
    await settle(node)
    reply = await scheduler.request(subjects.query("node1", "logs"), b"", timeout=30)
    assert reply.data == b"here"


async def test_a_connection_without_a_key_is_refused(server: Server) -> None:
    with pytest.raises(nats.errors.Error, match="Authorization"):
        await nats.connect(server.url, allow_reconnect=False, error_cb=_quiet, **server.secured)


async def test_a_large_payload_ends_the_connection_that_sent_it(server: Server) -> None:
    seen = await echo_subject(server)
    alice = await server.connect("alice")
    bob = await server.connect("bob")
    with pytest.raises(nats.errors.MaxPayloadError):
        await alice.request("stoker.v1.job.submit", b"x" * 10_000_000, timeout=1)
    alice._max_payload = 1 << 30  # a client that ignores the limit
    with pytest.raises((nats.errors.Error, asyncio.TimeoutError)):
        await alice.request("stoker.v1.job.submit", b"x" * 10_000_000, timeout=0.5)
    assert await ask(bob, "stoker.v1.job.get") == "stoker.v1.user.bob.job.get"
    assert len(seen) == 1


async def test_a_reload_adds_a_user_and_drops_no_connection(server: Server) -> None:
    await echo_subject(server)
    alice = await server.connect("alice", disconnected_cb=_fail)
    assert await ask(alice, "stoker.v1.job.get") == "stoker.v1.user.alice.job.get"
    await server.add_user("carol")
    carol = await server.connect("carol")
    assert await ask(carol, "stoker.v1.job.get") == "stoker.v1.user.carol.job.get"
    assert await ask(alice, "stoker.v1.job.get") == "stoker.v1.user.alice.job.get"


async def test_names_that_are_no_tokens_cross_encoded(server: Server) -> None:
    await echo_subject(server)
    name = "Jörg.K *>"
    await server.add_user(name)
    nc = await server.connect(name)
    arrived = subjects.parse_user_request(await ask(nc, "stoker.v1.job.list"))
    assert arrived == (name, "job", "list", False)
    arrived = subjects.parse_user_request(await ask(nc, "stoker.v1.read.any.job.list"))
    assert arrived == (name, "job", "list", True)


async def test_connections_and_subscriptions_of_a_user_are_bounded(stopped_server: Server) -> None:
    """A user above the limits is refused by name, and another user is not."""
    budgets = Budgets(connections=2, subscriptions=4)
    stopped_server.settings = replace(stopped_server.settings, budgets=budgets)
    stopped_server.start()
    try:
        alice = await stopped_server.connect("alice")
        for _ in range(budgets.subscriptions):
            await alice.subscribe("_INBOX.x")
        await settle(alice)
        assert stopped_server.errors == []
        with contextlib.suppress(nats.errors.Error):  # nats-py ends the connection here
            await alice.subscribe("_INBOX.x")
            await settle(alice)
        assert "maximum subscriptions" in str(alice.last_error).lower()
        await alice.close()
        await stopped_server.connect("alice")
        await stopped_server.connect("alice")
        refused: list[str] = []

        async def hear(error: Exception) -> None:
            refused.append(str(error).lower())

        with pytest.raises(nats.errors.Error):
            await nats.connect(
                stopped_server.url,
                nkeys_seed=str(stopped_server.folder / "alice.nk"),
                allow_reconnect=False,
                error_cb=hear,
                **stopped_server.secured,
            )
        assert "maximum account active connections" in refused[0]
        await stopped_server.connect("bob")
    finally:
        await stopped_server.close_connections()


async def _quiet(error: Exception) -> None:
    """Ignore an expected error."""


async def _fail() -> None:
    raise AssertionError("a reload dropped a connection")


async def test_a_scheduler_hears_only_what_others_send_to_its_own_number(server: Server) -> None:
    server.identities["second"] = identity.create(server.folder / "second.nk")
    keys = {1: server.identities["scheduler"].public, 2: server.identities["second"].public}
    server.keys = replace(server.keys, schedulers=keys)
    server.stop()
    server.start()
    first, second = await server.connect("scheduler"), await server.connect("second")
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    await second.subscribe(subjects.peer(2), cb=hear)
    await second.subscribe(subjects.peer(1), cb=hear)
    await settle(second)
    assert await violations(server, "subscription", 1)
    await first.publish(subjects.peer(1), b"for the first")
    await first.publish(subjects.peer(2), b"for the second")
    await (await server.connect("alice")).publish(subjects.peer(2), b"forged")
    while not heard:
        await settle(first)
    assert heard == [b"for the second"]
    assert await violations(server, "publish", 1)
