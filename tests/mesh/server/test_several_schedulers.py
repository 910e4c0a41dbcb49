# SPDX-License-Identifier: Apache-2.0
"""Three scheduler processes behind a real broker: the death of a leader loses nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stoker.mesh.log import genesis
from stoker.mesh.replica import snapshots
from stoker.mesh.replica.state import ReplicaState
from tests.mesh.fake_agent import HOLD
from tests.mesh.founding import replay
from tests.mesh.nats_server import Server
from tests.mesh.several_schedulers import CLUSTER, SeveralSchedulers


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
    first.start()
    await cluster.until(first.is_ready)
    await cluster.until(lambda: len({max(each.held()) for each in cluster.schedulers}) == 1)
    await cluster.stop()
    chains = [each.held() for each in cluster.schedulers]
    last = min(max(each) for each in chains)
    assert last > 3
    assert len({digest(cluster, each, last) for each in chains}) == 1
