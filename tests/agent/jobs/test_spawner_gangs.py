# SPDX-License-Identifier: Apache-2.0
"""The tasks of a gang at the runner: ready, released, given input and stopped while they wait."""

from __future__ import annotations

import os
import signal

import pytest
from spawned import Node, shims_of, until

from stoker.scheduler.nouns import TaskKey

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="starts jobs as other users"),
]


async def test_the_tasks_of_a_gang_wait_for_their_release(node: Node) -> None:
    first = node.launch("sh", "-c", "echo ran; sleep 100", gathers=True)
    other = node.launch("sh", "-c", "echo ran; sleep 100", job=first.job, task=1, gathers=True)
    assert await node.start(first, other) == []
    ready = [await node.prepared(each) for each in (first, other)]
    assert [each.key for each in ready] == [first.key, other.key]
    assert node.cgroups() == [f"{first.job}.1.0", f"{first.job}.1.1"]
    known = await node.spawner.known()
    assert sorted((each.key, type(each.event).__name__) for each in known) == [
        (first.key, "Prepared"), (other.key, "Prepared"),
    ]  # fmt: skip
    assert node.out(first) == b""
    await node.spawner.release([first.key, other.key, TaskKey(99, 1, 0)])
    for each, prepared in zip((first, other), ready, strict=True):
        begun = await node.begun(each)
        assert begun.pid and begun.cgroup_id == prepared.cgroup_id
    await until(lambda: node.out(first) == b"ran\nran\n")  # one folder for both
    await node.spawner.release([first.key])


async def test_input_of_a_task_that_waits_is_there_when_it_runs(node: Node) -> None:
    """It is taken as far as the pipe goes, also twice and behind a new spawner."""
    launch = node.launch("cat", stdin=True, gathers=True)
    await node.start(launch)
    await node.prepared(launch)
    assert await node.spawner.write_stdin(launch.key, 0, b"first ", False) == 6
    assert await node.spawner.write_stdin(launch.key, 0, b"first ", False) == 6
    await node.restart()
    assert await node.spawner.write_stdin(launch.key, 6, b"second", True) == 12
    assert node.out(launch) == b""
    await node.spawner.release([launch.key])
    assert node.out(await node.ended(launch)) == b"first second"


async def test_a_release_may_come_before_the_task_is_ready_and_after_a_new_spawner(
    node: Node,
) -> None:
    early = node.launch("true", gathers=True)
    waits = node.launch("true", gathers=True)
    await node.start(early, waits)
    await node.spawner.release([early.key])
    assert (await node.ended(early)).cause == "exited"
    await node.prepared(waits)
    await node.restart()
    assert [each.key for each in await node.spawner.known()] == [waits.key]
    await node.spawner.release([waits.key])
    assert (await node.ended(waits)).cause == "exited"


async def test_a_task_that_waits_can_be_stopped_and_leaves_nothing(node: Node) -> None:
    launch = node.launch("true", gathers=True)
    await node.start(launch)
    await node.prepared(launch)
    await node.spawner.stop(launch.key, "rank 3 on node b: exit code 7", 5.0)
    ended = await node.ended(launch)
    assert (ended.cause, ended.pid) == ("stopped", 0)
    assert ended.reason == "rank 3 on node b: exit code 7"
    assert node.cgroups() == []


async def test_a_task_whose_shim_dies_while_it_waits_never_started(node: Node) -> None:
    launch = node.launch("true", gathers=True)
    await node.start(launch)
    await node.prepared(launch)
    for shim in shims_of(node.journal):
        if shim != node.pid:
            os.kill(shim, signal.SIGKILL)
    assert (await node.ended(launch)).cause == "never_started"
    await until(lambda: node.cgroups() == [])
