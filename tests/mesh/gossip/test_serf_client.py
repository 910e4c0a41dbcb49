# SPDX-License-Identifier: Apache-2.0
"""The client of a Serf agent: with a real one, and with one that sends what nobody should."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from fakes.fake_serf import FakeSerf, body, fake_serf, header

from stoker.mesh.gossip import serf_client, serf_config
from stoker.mesh.gossip.serf_client import SerfClient
from stoker.mesh.gossip.serf_config import SerfSettings
from stoker.native.errors import Denied, Refused, Unavailable

GUARD_S = 60.0
KEY = base64.b64encode(b"k" * 32).decode()
OTHER_KEY = base64.b64encode(b"o" * 32).decode()
needs_serf = pytest.mark.skipif(shutil.which("serf") is None, reason="serf is not installed")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# --- a real agent ---------------------------------------------------------------------------------


@pytest.fixture
async def serf(tmp_path: Path) -> AsyncIterator[SerfClient]:
    """A client of a Serf agent that is alone in its mesh."""
    keyring, config = tmp_path / "keyring", tmp_path / "serf.json"
    keyring.write_text(json.dumps([KEY]))
    rpc = free_port()
    names = (str(keyring), str(tmp_path / "snapshot"), "d1")
    settings = SerfSettings("alone", "127.0.0.1", free_port(), rpc, "secret", *names)
    config.write_bytes(serf_config.render(settings))
    process = await asyncio.create_subprocess_exec(
        "serf", "agent", "-config-file", str(config), stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(GUARD_S):
            yield await connected(rpc)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def connected(port: int) -> SerfClient:
    while True:
        try:
            return await SerfClient.open("127.0.0.1", port, "secret")
        except Unavailable:
            await asyncio.sleep(0.02)


@needs_serf
async def test_a_real_agent_answers_each_call(serf: SerfClient) -> None:
    (only,) = await serf.members()
    assert (only.name, only.address, only.status) == ("alone", "127.0.0.1", "alive")
    assert only.tags == {"keys": "d1"}
    assert await serf.members_filtered("other") == []
    assert [each.name for each in await serf.members_filtered("alone", "alive")] == ["alone"]
    coordinate = await serf.coordinate("alone")
    assert coordinate is not None and coordinate.error > 1.0
    assert await serf.coordinate("nobody") is None
    assert (await serf.stats())["serf"]["encrypted"] == "true"
    with pytest.raises(Refused, match="Failed to join") as refused:
        await serf.join([f"127.0.0.1:{free_port()}"])
    assert "\n" not in refused.value.message
    await serf.force_leave("nobody")


@needs_serf
async def test_a_real_agent_replaces_its_key(serf: SerfClient) -> None:
    for step in (serf.install_key, serf.use_key):
        done = await step(OTHER_KEY)
        assert (done.num_nodes, done.num_resp, done.num_err) == (1, 1, 0)
    assert (await serf.list_keys()).keys == {KEY: 1, OTHER_KEY: 1}
    await serf.remove_key(KEY)
    assert (await serf.list_keys()).keys == {OTHER_KEY: 1}
    with pytest.raises(Refused, match="remove-key"):
        await serf.remove_key(OTHER_KEY)
    assert len(await serf.members()) == 1, "the refusal's body is no answer to another call"


@needs_serf
async def test_events_and_queries_of_a_real_agent_interleave_with_calls(serf: SerfClient) -> None:
    events = await serf.stream("user,query,member-update")
    await serf.event("told", b"\xff\x00")
    asking = asyncio.ensure_future(serf.query("asked", b"\x01", 1.0))
    found = {}
    async for event in events:
        found[event.event] = event
        if event.event == "query":
            await serf.respond(event.id, b"answer")
        if len(found) == 2:
            break
    assert (found["user"].name, found["user"].payload) == ("told", b"\xff\x00")
    replies = await asking
    assert (replies.reached, replies.answers) == (frozenset({"alone"}), {"alone": b"answer"})
    await serf.tags({"more": "x"}, ("keys",))
    async for event in events:
        if event.event == "member-update":
            assert event.members[0].tags == {"more": "x"}
            break


@needs_serf
async def test_an_agent_that_leaves_ends_the_connection_with_a_reason(serf: SerfClient) -> None:
    events = await serf.stream("*")
    await serf.leave()
    with pytest.raises(Unavailable, match="has ended the connection"):
        async for _ in events:
            pass
    with pytest.raises(Unavailable):
        await serf.members()


# --- a hostile one --------------------------------------------------------------------------------


@pytest.fixture
async def fake() -> AsyncIterator[FakeSerf]:
    async with fake_serf() as made, asyncio.timeout(GUARD_S):
        yield made


async def opened(fake: FakeSerf) -> SerfClient:
    return await SerfClient.open("127.0.0.1", fake.port, "secret")


async def test_nobody_there_is_one_clear_error() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await SerfClient.open("127.0.0.1", free_port(), "secret")


async def test_another_key_is_denied(fake: FakeSerf) -> None:
    fake.answers["auth"] = lambda seq, asked: header(seq, "Invalid authentication token")
    with pytest.raises(Denied, match="Invalid authentication token"):
        await opened(fake)


async def test_answers_in_another_order_reach_their_calls(fake: FakeSerf) -> None:
    waiting: list[int] = []

    def late(seq: int, asked: object) -> bytes:
        waiting.append(seq)
        if len(waiting) < 3:
            return b""
        return b"".join(header(each) + body({"Num": each}) for each in reversed(waiting))

    fake.answers["join"] = late
    client = await opened(fake)
    assert await asyncio.gather(*(client.join([]) for _ in range(3))) == sorted(waiting)
    await client.close()


async def test_an_error_may_have_a_body_or_none(fake: FakeSerf) -> None:
    fake.answers["join"] = lambda seq, asked: header(seq, "no") + body({"Num": 0})
    fake.answers["stats"] = lambda seq, asked: header(seq, "no")
    fake.members({"Name": "a"})
    client = await opened(fake)
    for call in (lambda: client.join([]), client.stats, lambda: client.join([])):
        with pytest.raises(Refused, match="no"):
            await call()
        assert [each.name for each in await client.members()] == ["a"]
    await client.close()


@pytest.mark.parametrize(
    "data",
    [
        lambda seq: b"\xc1",
        lambda seq: header(99),
        lambda seq: body([1, 2]),
        lambda seq: body({"Seq": "x", "Error": 1}),
        lambda seq: header(seq) + body({"Members": 7}),
        lambda seq: header(seq) + body({"Members": [{"Name": 1}]}),
        lambda seq: header(seq) + b"\x81\xa7Members\x91\x81\xa4Name\xa1\xff",
        lambda seq: header(seq) + b"\xdd\xff\xff\xff\xff",
    ],
)
async def test_what_cannot_be_read_ends_the_connection_by_name(
    fake: FakeSerf, data: Callable[[int], bytes]
) -> None:
    fake.answers["members"] = lambda seq, asked: data(seq)
    client = await opened(fake)
    with pytest.raises(Unavailable, match="sends what cannot be read"):
        await client.members()
    with pytest.raises(Unavailable, match="sends what cannot be read"):
        await client.stats()
    await client.close()


async def test_silence_is_not_waited_for_and_a_late_answer_is_dropped(fake: FakeSerf) -> None:
    numbers: list[int] = []
    fake.members()
    fake.answers["members-filtered"] = lambda seq, asked: (numbers.append(seq), b"")[1]
    client = await opened(fake)
    with pytest.raises(Unavailable, match="did not answer members-filtered within"):
        await client.members_filtered("a", timeout_s=0.01)
    fake.send(header(numbers[0]) + body({"Members": []}))
    assert await client.members() == []
    await client.close()


async def test_calls_that_wait_are_bounded(fake: FakeSerf) -> None:
    fake.answers["members-filtered"] = lambda seq, asked: b""
    client = await opened(fake)
    for _ in range(serf_client.CALLS_MAX):
        with pytest.raises(Unavailable, match="did not answer"):
            await client.members_filtered("a", timeout_s=0.0)
    with pytest.raises(Unavailable, match=f"{serf_client.CALLS_MAX} calls"):
        await client.members_filtered("a")
    await client.close()


async def test_a_stream_that_nobody_reads_ends_the_connection_and_loses_nothing_silently(
    fake: FakeSerf,
) -> None:
    record = body({"Event": "user", "Name": "x", "Payload": b""})
    count = serf_client.RECORDS_MAX + 1
    fake.answers["stream"] = lambda seq, asked: header(seq) + (header(seq) + record) * count
    client = await opened(fake)
    events = await client.stream("user")
    with pytest.raises(Unavailable, match="records of serf"):
        while True:
            await client.members()
    seen = 0
    with pytest.raises(Unavailable, match="records of serf"):
        async for _ in events:
            seen += 1
    assert seen == serf_client.RECORDS_MAX


async def test_a_cut_connection_fails_calls_and_streams(fake: FakeSerf) -> None:
    called = asyncio.Event()
    fake.answers["members"] = lambda seq, asked: (called.set(), b"")[1]
    client = await opened(fake)
    events = await client.stream("user")
    asked = asyncio.ensure_future(client.members())
    await called.wait()
    fake.cut()
    with pytest.raises(Unavailable, match="has ended the connection"):
        await asked
    with pytest.raises(Unavailable, match="has ended the connection"):
        await anext(events)
    await client.close()
