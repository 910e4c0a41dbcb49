# SPDX-License-Identifier: Apache-2.0
"""Three scheduler processes behind a real broker: the death of a leader loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import nats.errors
import pytest

from stoker.mesh.client.client import new_key
from stoker.mesh.log import genesis
from stoker.mesh.log.held_entries import NAME
from stoker.mesh.replica import snapshots
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import subjects
from stoker.native.errors import NotLeader, Unavailable
from tests.mesh.fake_agent import HOLD
from tests.mesh.founding import replay
from tests.mesh.nats_server import Server
from tests.mesh.several_schedulers import CLUSTER, PATIENCE_S, SeveralSchedulers


@pytest.fixture
async def cluster(server_stopped_with_admin: Server) -> AsyncIterator[SeveralSchedulers]:
    several = SeveralSchedulers(server_stopped_with_admin)
    try:
        yield await several.start()
    finally:
        await several.stop()


def digest(cluster: SeveralSchedulers, held: dict[int, bytes], last: int) -> bytes:
    """The digest of the state that follows from held entries up to the index `last`."""
    state = ReplicaState(CLUSTER, genesis.digest(cluster.genesis))
    for index in range(1, last + 1):
        replay(state, index, held[index])
    return snapshots.agreement(state.snapshot())


async def test_a_jobs_end_survives_the_death_of_the_leader(cluster: SeveralSchedulers) -> None:
    agent, first = cluster.agent, cluster.leader()
    assert agent is not None
    key = "a" * 32
    submitted = await cluster.request("alice", "job", "submit", argv=(HOLD,), idempotency_key=key)
    assert submitted.job == 1
    await cluster.until(lambda: len(agent.held) == 1)
    first.kill()
    second = await cluster.until_another_leads(first)
    again = await cluster.persist("alice", "job", "submit", argv=(HOLD,), idempotency_key=key)
    assert again.job == 1
    await cluster.persist("alice", "job", "cancel", select="1")
    ended = await cluster.persist("alice", "job", "get", job=1, until="ended", wait_s=5.0)
    assert ended.state == "cancelled"
    assert again.position.term > submitted.position.term
    assert again.position.index > submitted.position.index
    await cluster.until(lambda: not agent.unreported)
    assert set(agent.started.values()) == {1}

    first.start()
    await cluster.until(first.is_ready)
    assert cluster.leader() is second
    assert (await cluster.persist("bob", "job", "submit", argv=("true",))).job == 2
    await cluster.persist("bob", "job", "get", job=2, until="ended", wait_s=5.0)
    await cluster.until(lambda: len({max(each.held()) for each in cluster.schedulers}) == 1)

    second.kill()
    await cluster.until_another_leads(second)
    listed = await cluster.persist("alice", "job", "list")
    assert [(job.job, job.state) for job in listed.jobs] == [(1, "cancelled")]
    assert (await cluster.persist("alice", "job", "submit", argv=("true",))).job == 3
    await cluster.persist("alice", "job", "get", job=3, until="ended", wait_s=5.0)
    assert not any("begins again" in each.log() for each in cluster.schedulers)


async def test_a_stop_in_order_loses_no_request_and_needs_no_pledge_to_run_out(
    cluster: SeveralSchedulers,
) -> None:
    """Each request that reached the leader is answered before it ends, and each later one is told
    at once that nobody is there."""
    first, jobs = cluster.leader(), set[int]()
    stopped = asyncio.Event()

    async def submit_on(user: str) -> None:
        while not (stopped.is_set() and cluster.leader() is not first):
            with contextlib.suppress(nats.errors.NoRespondersError, Unavailable):
                key = new_key()
                fields = {"argv": ("true",), "idempotency_key": key, "timeout_s": PATIENCE_S}
                jobs.add((await cluster.request(user, "job", "submit", **fields)).job)
            await asyncio.sleep(0.005)

    async with asyncio.TaskGroup() as group:
        for user in ("alice", "alice", "bob", "bob"):
            group.create_task(submit_on(user))
        await cluster.until(lambda: len(jobs) > 20)
        assert await first.terminate() == 0
        stopped.set()
        await cluster.until_another_leads(first)
    stood = next(line for line in cluster.leader().log().splitlines()[::-1] if "pledging" in line)
    assert f"scheduler {first.number} resigned" in stood, "it waited for no pledge to run out"
    listed = await cluster.persist("admin", "job", "list")
    assert {job.job for job in listed.jobs} >= jobs
    first.start()
    await cluster.until(first.is_ready)


async def test_schedulers_that_hold_the_same_entries_have_equal_states(
    cluster: SeveralSchedulers,
) -> None:
    first = cluster.leader()
    for number in range(1, 4):
        done = await cluster.persist("alice", "job", "submit", argv=("true",))
        assert done.job == number
        if number == 2:
            first.kill()
            await cluster.until_another_leads(first)
    (first.folder / "scheduler" / NAME).unlink()  # it has to ask the others what it had said
    first.start()
    await cluster.until(first.is_ready)
    await cluster.until(
        lambda: len({max(each.held(), default=0) for each in cluster.schedulers}) == 1
    )
    assert "this scheduler has lost what it held" in first.log()
    await cluster.stop()
    chains = [each.held() for each in cluster.schedulers]
    last = min(max(each) for each in chains)
    assert last > 3
    assert len({digest(cluster, each, last) for each in chains}) == 1


async def test_a_job_is_read_at_a_follower_as_soon_as_it_was_acknowledged(
    cluster: SeveralSchedulers,
) -> None:
    first = cluster.leader()
    followers = [each for each in cluster.schedulers if each is not first]
    for number in range(1, 6):
        done = await cluster.persist("alice", "job", "submit", argv=("true",))
        for each in followers:
            view = await cluster.persist("alice", "job", "get", at=each, job=number)
            assert view.job == number and view.position.index >= done.position.index
            found = await cluster.persist("alice", "job", "list", at=each)
            assert [job.job for job in found.jobs][:1] == [number]
    leads: list[int] = []
    async with asyncio.timeout(PATIENCE_S):  # another one may come to lead between both looks
        while leads != [cluster.leader().number]:
            shown = await cluster.persist("alice", "cluster", "get", at=followers[0])
            leads = [each.number for each in shown.schedulers if each.leads]
    assert (await cluster.persist("alice", "queue", "list", at=followers[1])).queues
    refused = 0
    for each in cluster.schedulers:
        try:
            assert (await cluster.request("alice", "node", "list", at=each)).nodes
        except NotLeader:
            refused += 1
    assert refused >= 2, "only the leader has heard of nodes"


async def test_reads_without_a_majority_are_refused_or_stale(cluster: SeveralSchedulers) -> None:
    first = cluster.leader()
    done = await cluster.persist("alice", "job", "submit", argv=("true",))
    paused, last = (each for each in cluster.schedulers if each is not first)
    before = await cluster.persist("alice", "job", "get", at=last, job=1)
    for each in (first, paused):
        each.pause()
    with pytest.raises(Unavailable) as refused:
        await cluster.request("alice", "job", "get", at=last, job=1)
    assert "--stale" in refused.value.hint
    old = await cluster.request("alice", "job", "get", at=last, job=1, stale=True)
    assert old.position.index >= before.position.index >= done.position.index
    listed = await cluster.request("alice", "job", "list", at=last, stale=True)
    assert [job.job for job in listed.jobs] == [1]
    first.kill()
    paused.resume()
    await cluster.until_another_leads(first)
    again = await cluster.persist("alice", "job", "submit", argv=("true",))
    for each in (paused, last):
        view = await cluster.persist("alice", "job", "get", at=each, job=again.job)
        assert view.position.index >= again.position.index
        assert view.position.term > done.position.term


async def test_any_scheduler_answers_a_read_at_any(cluster: SeveralSchedulers) -> None:
    await cluster.persist("alice", "job", "submit", argv=("true",))
    for _ in range(20):
        listed = await cluster.persist("alice", "job", "list", at=subjects.ANY)
        assert [job.job for job in listed.jobs] == [1]
