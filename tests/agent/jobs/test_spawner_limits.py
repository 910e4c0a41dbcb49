# SPDX-License-Identifier: Apache-2.0
"""Limits of one job and of all jobs, a frozen node, and a runner without cgroups or root."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from spawned import (
    OTHER,
    OWNER,
    Node,
    alive,
    call,
    running,
    shim_of,
    until,
)

from stoker.agent.jobs.attempt_folders import FENCED, cgroup_folder, cgroup_name

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="starts jobs as other users"),
]

ALONE = 64_211
"""The id of a user who has no process anywhere else: the kernel counts all of a user's."""


# --- limits ------------------------------------------------------------------------------------


async def test_a_memory_limit_kills_and_is_named(node: Node, job_program: str) -> None:
    ended = await node.run(job_program, "fill", "256", memory_bytes=64 << 20)
    assert (ended.cause, ended.signal) == ("signalled", 9)
    assert ended.reason == "killed by the kernel: memory limit 64 MiB reached"
    assert ended.usage is not None
    assert 32 << 20 < ended.usage.memory_peak_bytes <= 64 << 20
    assert not (Path("/sys/fs/cgroup/memory") / node.name / cgroup_name(ended.key)).exists()


async def test_a_process_limit_holds_and_is_named(node: Node, job_program: str) -> None:
    ended = await node.run(job_program, "bomb", pids=20, grace_s=0.5)
    assert (ended.cause, ended.exit_code) == ("exited", 7)
    assert node.out(ended) == b"forks 19 11\n"
    assert "pids limit 20 was reached 1 times" in ended.reason
    assert "19 processes it left behind were ended" in ended.reason


async def test_a_cpu_limit_is_set(node: Node) -> None:
    launch = node.launch("sleep", "100", cpu_milli=1500)
    await node.start(launch)
    await node.begun(launch)
    group = Path("/sys/fs/cgroup/cpu") / node.name / cgroup_name(launch.key)
    if group.exists():  # cgroup v1
        assert (group / "cpu.cfs_quota_us").read_text() == "150000\n"
        assert (group / "cgroup.procs").read_text() != ""
    else:
        assert node.spawner.jobs_cgroup is not None
        own = cgroup_folder(node.spawner.jobs_cgroup, launch.key)
        assert (own / "cpu.max").read_text() == "150000 100000\n"


async def test_caps_of_all_jobs_together_hold(job_program: str) -> None:
    async with running("--pids-max-all", "60", "--memory-max-all", str(128 << 20)) as node:
        assert node.spawner.features["node_cap"].works
        bomb = await node.run(job_program, "bomb", grace_s=0.5)
        made, number = map(int, node.out(bomb).split()[1:])
        assert made < 60
        assert number == 11
        assert "reached the node's limit of 60 processes while it ran" in bomb.reason
        full = await node.run(job_program, "fill", "512")
        assert (full.cause, full.signal) == ("signalled", 9)
        assert full.reason == (
            "killed by the kernel: all jobs together reached the node's memory limit 128 MiB"
        )
        quiet = await node.run("true")
        assert (quiet.exit_code, quiet.reason) == (0, "")


async def test_a_users_processes_are_bounded_over_all_jobs_and_others_start_beside_them(
    job_program: str,
) -> None:
    async with running("--pids-max-all", "200") as node:
        for _ in range(2):
            bomb = node.launch(
                job_program, "bomb", "stay", uid=ALONE, user_processes=60, grace_s=0.1
            )
            await node.start(bomb)
            await until(lambda bomb=bomb: node.out(bomb))
        made = [int(node.out(node.launch("", job=job)).split()[1]) for job in (1, 2)]
        assert made[0] == 59 and made[1] < 5  # both jobs together, their first processes included
        other = await node.run("sh", "-c", "true & wait", uid=OTHER, user_processes=60)
        assert (other.cause, other.exit_code, other.reason) == ("exited", 0, "")


async def test_a_bound_of_a_user_cannot_be_raised_by_his_job(node: Node) -> None:
    script = "ulimit -u; ulimit -u 100 2>/dev/null || echo refused"
    ended = await node.run("bash", "-c", script, user_processes=50)
    assert node.out(ended) == b"50\nrefused\n"


async def test_a_start_that_finds_no_process_waits_for_one(job_program: str) -> None:
    async with running("--pids-max-all", "100") as node:
        bomb = node.launch(job_program, "bomb", "stay", grace_s=0.1)
        await node.start(bomb)
        await until(lambda: node.out(bomb))
        waits, stopped = node.launch("true", uid=OTHER), node.launch("true", uid=OTHER)
        assert await node.start(waits, stopped) == []
        await node.spawner.stop(stopped.key, "not any more", 0.0)
        ended = await node.ended(stopped)
        assert (ended.cause, ended.reason, ended.pid) == ("stopped", "not any more", 0)
        assert waits.job not in node.events
        await node.spawner.stop(bomb.key, "enough", 0.0)
        ended = await node.ended(waits)
        assert (ended.cause, ended.exit_code) == ("exited", 0)


async def test_a_start_that_finds_none_for_long_never_started_and_has_not_failed(
    job_program: str,
) -> None:
    async with running("--pids-max-all", "100", "--start-retry-s", "1") as node:
        bomb = node.launch(job_program, "bomb", "stay", grace_s=0.1)
        await node.start(bomb)
        await until(lambda: node.out(bomb))
        again = node.launch("true", uid=OTHER)
        await node.start(again)
        ended = await node.ended(again)
        assert (ended.cause, ended.pid, ended.of_the_node) == ("never_started", 0, True)
        assert ended.reason == (
            "cannot make a process: Resource temporarily unavailable "
            "(a limit of the node on processes)"
        )
        await node.spawner.stop(bomb.key, "enough", 0.0)
        await node.ended(bomb)
        node.events.clear()
        assert await node.start(again) == []  # the same attempt, as nothing of it was begun
        assert (await node.ended(again)).exit_code == 0


async def test_a_default_limit_on_processes_costs_no_start_a_group(
    node: Node, job_program: str
) -> None:
    launch = node.launch("sleep", "100", pids_default=20)
    await node.start(launch)
    await node.begun(launch)
    feature = node.spawner.features["pids"]
    assert node.spawner.jobs_cgroup is not None
    own = cgroup_folder(node.spawner.jobs_cgroup, launch.key) / "pids.max"
    if feature.detail == "cgroup v2":
        assert own.read_text() == "20\n"
    else:  # it runs without a cgroup of its own
        assert not (Path("/sys/fs/cgroup/pids") / node.name / cgroup_name(launch.key)).exists()


async def test_a_frozen_node_starts_its_jobs_when_it_thaws(node: Node) -> None:
    jobs = node.spawner.jobs_cgroup
    assert jobs is not None
    (jobs / FENCED / "cgroup.freeze").write_text("1")
    waiting, stopped = node.launch("echo", "thawed"), node.launch("echo", "never")
    await node.start(waiting, stopped)
    await node.spawner.stop(stopped.key, "evicted", 0.0)
    ended = await node.ended(stopped)
    assert (ended.cause, ended.reason, node.out(ended)) == ("stopped", "evicted", b"")
    assert [(k.job, k.state) for k in await node.spawner.known()] == [(waiting.job, "starting")]
    (jobs / FENCED / "cgroup.freeze").write_text("0")
    assert node.out(await node.ended(waiting)) == b"thawed\n"


# --- with less -----------------------------------------------------------------------------------


async def test_without_cgroups_jobs_run_and_limits_are_refused_by_name() -> None:
    async with running(cgroup=False) as node:
        features = node.spawner.features
        assert not features["cgroup"].works
        assert features["gate"].detail == "no cgroups: started without --cgroup"
        assert node.spawner.jobs_cgroup is None
        ended = await node.run("sh", "-c", "id -u; exit 3")
        assert (ended.exit_code, node.out(ended)) == (3, b"%d\n" % OWNER)
        refused = await node.run("true", memory_bytes=1 << 20)
        assert refused.reason == (
            "a memory limit cannot be enforced here: no cgroups: started without --cgroup"
        )
        script = "trap '' TERM; setsid setsid sleep 1000 & sleep 1000"
        stopped = await node.run("sh", "-c", script, uid=61777, time_limit_s=0.2, grace_s=0.2)
        assert stopped.cause == "timeout"
        await until(lambda: call("pgrep", "-u", "61777").stdout == "")


async def test_without_root_jobs_run_as_the_caller_alone() -> None:
    async with running(user=OTHER) as node:
        features = node.spawner.features
        assert not features["users"].works
        assert "Permission denied" in features["cgroup"].detail
        ended = await node.run("sh", "-c", "id -u; sleep 1000 & exit 2", uid=OTHER, grace_s=0.5)
        assert (ended.exit_code, node.out(ended)) == (2, b"%d\n" % OTHER)
        other = await node.run("id", uid=OWNER)
        assert other.reason == f"cannot become uid {OWNER}: the spawner runs as uid {OTHER}"
        killed = node.launch("sleep", "1000", uid=OTHER)
        await node.start(killed)
        pid = (await node.begun(killed)).pid
        shim = shim_of(pid)
        os.kill(shim, signal.SIGKILL)
        assert (await node.ended(killed)).cause == "lost"
        assert not alive(pid)
