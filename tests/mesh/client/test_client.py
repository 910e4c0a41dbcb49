# SPDX-License-Identifier: Apache-2.0
"""The client against a real broker: every failure is one clear error, and nothing is done twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stoker.mesh.client import client as clients
from stoker.mesh.client.client import Client
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, Denied, KeyWindow, NotFound, Unavailable
from tests.fakes import node as fakes


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Any]:
    with fakes.FakeNode(tmp_path) as running:
        yield running


def where(node: Any) -> Context:
    return Context(node.url, node.folder / "user.nk", "tester", node.certificate)


def request(**fields: Any) -> schema.JobRequest:
    return schema.JobRequest(argv=("true",), **fields)


async def test_a_submit_carries_a_key_and_returns_the_job(node: Any) -> None:
    node.answers["job.submit"] = lambda asked: fakes.job_view(7, "pending")
    async with Client.open(where(node)) as client:
        view = await client.submit(request())
    assert (view.job, view.state) == (7, "pending")
    verb, sent = node.seen[0]
    assert verb == "job.submit" and len(sent["idempotency_key"]) == 32
    assert sent["schema"] == "stoker/v1"


async def test_every_submit_has_another_key(node: Any) -> None:
    node.answers["job.submit"] = lambda asked: fakes.job_view(7)
    async with Client.open(where(node)) as client:
        await client.submit(request())
        await client.submit(request())
    keys = {sent["idempotency_key"] for _, sent in node.seen}
    assert len(keys) == 2


async def test_an_error_reply_is_raised_as_its_kind(node: Any) -> None:
    node.answers["job.get"] = lambda asked: fakes.failure("not_found", "no job 9", "see `jobs`")
    async with Client.open(where(node)) as client:
        with pytest.raises(NotFound, match=r"no job 9\. see `jobs`"):
            await client.get(9)


async def test_a_silent_submit_says_that_the_job_may_exist(node: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("stoker.mesh.client.client.REPLY_S", 0.1)
    async with Client.open(where(node), patience_s=0.2) as client:
        with pytest.raises(Unavailable, match="may or may not exist") as raised:
            await client.submit(request(idempotency_key="mine"))
    assert "--idempotency-key mine" in raised.value.hint
    assert {sent["idempotency_key"] for _, sent in node.seen} == {"mine"}


async def test_without_a_scheduler_the_message_says_so(node: Any) -> None:
    node.stop_scheduler()
    async with Client.open(where(node), patience_s=0.1) as client:
        with pytest.raises(Unavailable, match="scheduler is not answering"):
            await client.nodes()


async def test_lists_of_a_large_cluster_are_read_page_by_page(node: Any) -> None:
    rows = {"": ["a", "b"], "b": ["c"], "c": []}
    following = {"": "b", "b": "c", "c": None}

    def page(noun: str, asked: Any) -> Any:
        view = fakes.device_view if noun == "devices" else fakes.node_view
        after = asked.get("after", "")
        found = [view(name) for name in rows[after]]
        return {"schema": "stoker/v1", noun: found, "next": following[after]}

    node.answers["node.list"] = lambda asked: page("nodes", asked)
    node.answers["device.list"] = lambda asked: page("devices", asked)
    async with Client.open(where(node)) as client:
        nodes, devices = await client.nodes(), await client.devices()
    assert [row.node for row in nodes.nodes] == ["a", "b", "c"] and nodes.next is None
    assert [row.node for row in devices.devices] == ["a", "b", "c"] and devices.next is None


async def test_a_request_outlives_the_scheduler(node: Any) -> None:
    node.answers["node.list"] = lambda asked: {"schema": "stoker/v1", "nodes": []}
    node.stop_scheduler()
    async with Client.open(where(node)) as client:
        asking = asyncio.ensure_future(client.nodes())
        await asyncio.sleep(0.2)
        assert not asking.done()
        await asyncio.to_thread(node.start_scheduler)
        assert (await asking).nodes == ()


async def test_a_held_request_outlives_the_broker(node: Any) -> None:
    node.answers["job.get"] = lambda asked: None
    async with Client.open(where(node)) as client:
        asking = asyncio.ensure_future(client.get(3, until="ended", wait_s=20))
        await asyncio.sleep(0.2)
        node.stop_broker()
        await asyncio.sleep(0.2)
        node.answers["job.get"] = lambda asked: fakes.job_view(3)
        await asyncio.to_thread(node.start_broker)
        assert (await asyncio.wait_for(asking, 60)).state == "succeeded"


async def test_a_broker_that_is_gone_is_named(node: Any) -> None:
    node.stop_broker()
    with pytest.raises(Unavailable, match="does not take connections"):
        async with Client.open(where(node), patience_s=0.1):
            pass


async def test_a_broker_with_another_certificate_learns_nothing(node: Any) -> None:
    """A foreign broker learns nothing, not even the key: the connection ends in the handshake."""
    node.stop_scheduler()
    node.stop_broker()
    node.become_another()
    node.start_broker()
    with pytest.raises(Unavailable, match="is not this node's broker: CERTIFICATE_VERIFY_FAILED"):
        async with Client.open(where(node), patience_s=0.1):
            pass


async def test_an_unknown_key_is_denied(node: Any, tmp_path: Path) -> None:
    from stoker.mesh.identity import identity

    identity.create(tmp_path / "stranger.nk")
    with pytest.raises(Denied, match=r"does not take the key .*stranger\.nk"):
        async with Client.open(Context(node.url, tmp_path / "stranger.nk", "x", node.certificate)):
            pass


async def test_a_key_that_others_can_read_is_refused(node: Any) -> None:
    (node.folder / "user.nk").chmod(0o644)
    with pytest.raises(Denied, match="can be read by others"):
        async with Client.open(where(node)):
            pass


async def test_a_forbidden_subject_is_denied_by_name(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("stoker.mesh.client.client.REPLY_S", 0.3)
    with fakes.FakeNode(tmp_path, denied=("stoker.v1.job.cancel",)) as node:
        async with Client.open(where(node), patience_s=5) as client:
            with pytest.raises(Denied, match=r"may not do this: job cancel.* An admin") as caught:
                await client.cancel("1")
    assert "stoker.v1" not in str(caught.value)


async def test_ten_megabytes_are_refused_before_they_are_sent(node: Any) -> None:
    async with Client.open(where(node)) as client:
        with pytest.raises(BadRequest, match="the node takes 524288"):
            await client.submit(request(env={"X": "x" * 10_000_000}))
    assert node.seen == []


async def test_text_that_json_cannot_hold_is_refused(node: Any) -> None:
    async with Client.open(where(node)) as client:
        with pytest.raises(BadRequest, match="not valid UTF-8"):
            await client.submit(schema.JobRequest(argv=("a\udcff",)))
    assert node.seen == []


async def test_all_pages_are_read(node: Any) -> None:
    def page(asked: dict[str, Any]) -> dict[str, Any]:
        newest = (asked.get("before") or 6) - 1
        jobs = [fakes.job_view(job) for job in (newest, newest - 1) if job > 0]
        return {"schema": "stoker/v1", "jobs": jobs, "next": newest - 1 if newest > 2 else None}

    node.answers["job.list"] = page
    async with Client.open(where(node)) as client:
        jobs = [job.job async for job in client.list_all(schema.ListRequest())]
    assert jobs == [5, 4, 3, 2, 1]


async def test_a_wait_polls_until_the_job_is_over(node: Any) -> None:
    states = iter(["running", "stopping", "failed"])
    node.answers["job.get"] = lambda asked: fakes.job_view(3, next(states))
    async with Client.open(where(node)) as client:
        assert (await client.wait(3)).state == "failed"
    assert len(node.seen) == 3


async def test_a_reply_of_another_version_is_an_error_and_not_a_crash(node: Any) -> None:
    from stoker.native.errors import StokerError

    node.answers["node.list"] = lambda asked: {"schema": "stoker/v9", "nodes": []}
    async with Client.open(where(node)) as client:
        with pytest.raises(StokerError, match="another version"):
            await client.nodes()


async def test_a_repeated_submit_says_when_it_was_first_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[schema.JobRequest] = []

    async def answer(self: Client, subject: str, data: bytes, timeout_s: float) -> bytes:
        sent.append(msgspec.json.decode(data, type=schema.JobRequest))
        if len(sent) < 3:
            raise Unavailable("no answer")
        return schema.error_reply(KeyWindow("too old"))

    monkeypatch.setattr(Client, "_request", answer)
    before = time.time_ns()
    client = Client(lambda: Context("nowhere", Path("nowhere"), "tester"), patience_s=5.0)
    with pytest.raises(KeyWindow, match="too old"):
        await client.submit(request())
    first, *again = sent
    assert first.idempotency_since_ns == 0
    assert {each.idempotency_key for each in sent} == {first.idempotency_key}
    assert {each.idempotency_since_ns for each in again} == {again[0].idempotency_since_ns}
    assert before <= again[0].idempotency_since_ns <= time.time_ns()


@pytest.mark.parametrize(("patience_s", "attempts"), [(2.0, 3), (0.0, 1)])
async def test_attempts_that_use_up_all_patience_are_made_again(
    monkeypatch: pytest.MonkeyPatch, patience_s: float, attempts: int
) -> None:
    """A broker ends a connection that a busy machine takes two seconds to make."""
    found = Context("tls://127.0.0.1:1", Path("seed"), "alice", Path("certificate"))
    made: list[float] = []
    clock = [0.0]

    async def connect(where: Context) -> Any:
        clock[0] += 2.5
        made.append(clock[0])
        raise Unavailable("the broker ended the connection")

    monkeypatch.setattr(clients, "connect", connect)
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with pytest.raises(Unavailable):
        async with Client.open(found, patience_s=patience_s):
            pass
    assert len(made) == attempts
