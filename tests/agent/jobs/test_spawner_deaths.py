# SPDX-License-Identifier: Apache-2.0
"""Jobs and records survive the death of spawners and shims, and a journal is read back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from spawned import (
    Node,
    alive,
    bytes_of,
    call,
    shim_of,
    shims_of,
    until,
)

from stoker.agent.jobs.spawner_messages import Exited

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="starts jobs as other users"),
]


NESTED, TOO_MANY = 36, 3
"""Cgroups in each other, and how many of them are beyond what the spawner looks into."""

# --- deaths ------------------------------------------------------------------------------------


async def test_killed_spawners_lose_no_byte_and_no_exit_status(
    node: Node, job_program: str
) -> None:
    launches = [node.launch(job_program, "bytes", "120000", str(n), "1500") for n in range(20)]
    await node.start(*launches)
    for _ in range(3):
        await node.restart()
        await asyncio.sleep(0.03)
    ends = [await node.ended(launch) for launch in launches]
    assert [end.exit_code for end in ends] == list(range(20))
    assert all(node.out(end) == bytes_of(120_000, n) for n, end in enumerate(ends))
    for events in node.events.values():
        assert len({(type(e), e.t_ns) for e in events}) == 2


async def test_ends_that_no_spawner_saw_are_reported_by_the_next(node: Node) -> None:
    launches = [node.launch("sh", "-c", f"sleep 1.{n}; exit {n}") for n in range(1, 9)]
    await node.start(*launches)
    for launch in launches:
        await node.begun(launch)  # an attempt that had not begun would end as never started
    node.end_process(signal.SIGKILL)
    await until(lambda: not shims_of(node.journal))
    node.start_process()
    ends = [await node.ended(launch) for launch in launches]
    assert [end.exit_code for end in ends] == list(range(1, 9)), ends


async def test_unacknowledged_events_come_again_and_acknowledged_ones_do_not(node: Node) -> None:
    told = await node.run("true")
    node.acknowledges = False
    launch = node.launch("sh", "-c", "exit 4")
    await node.start(launch)
    ended = await node.ended(launch)
    node.events.clear()
    await node.restart()
    assert await node.ended(launch) == ended
    assert told.job not in node.events


async def test_a_new_spawner_stops_and_feeds_jobs_of_the_last(node: Node) -> None:
    fed, stopped = node.launch("cat", stdin=True), node.launch("sleep", "100")
    await node.start(fed, stopped)
    await node.spawner.write_stdin(fed.key, 0, b"before ", False)
    await node.restart()
    await node.spawner.write_stdin(fed.key, 7, b"after", True)
    await node.spawner.stop(stopped.key, "later", 1.0)
    assert (await node.ended(stopped)).reason == "later"
    assert node.out(await node.ended(fed)) == b"before after"


async def test_sigterm_ends_the_spawner_alone(node: Node) -> None:
    launch = node.launch("sleep", "0.3")
    await node.start(launch)
    pid = (await node.begun(launch)).pid
    assert node.end_process(signal.SIGTERM) == 0
    assert alive(pid)
    node.start_process()
    assert (await node.ended(launch)).exit_code == 0


async def test_requests_wait_for_a_restarted_spawner(node: Node) -> None:
    node.end_process(signal.SIGKILL)
    launch = node.launch("echo", "patience")
    asking = asyncio.create_task(node.start(launch))
    await asyncio.sleep(0.05)
    node.start_process()
    assert await asking == []
    assert node.out(await node.ended(launch)) == b"patience\n"


async def test_a_killed_shim_takes_its_job_with_it(node: Node) -> None:
    launch = node.launch("sh", "-c", "setsid sleep 1000 & sleep 1000")
    await node.start(launch)
    started = await node.begun(launch)
    shim = shim_of(started.pid)
    os.kill(shim, signal.SIGKILL)
    ended = await node.ended(launch)
    assert (ended.cause, ended.reason, ended.usage) == ("lost", "shim killed", None)
    assert not alive(started.pid)
    assert node.cgroups() == []
    assert (await node.run("true")).exit_code == 0


async def test_a_shim_killed_while_no_spawner_lives_is_reported_by_the_next(node: Node) -> None:
    launch = node.launch("sh", "-c", "setsid sleep 1000 & sleep 1000")
    await node.start(launch)
    started = await node.begun(launch)
    shim = shim_of(started.pid)
    node.end_process(signal.SIGKILL)
    os.kill(shim, signal.SIGKILL)
    node.start_process()
    ended = await node.ended(launch)
    assert (ended.cause, ended.reason, ended.pid) == ("lost", "shim killed", started.pid)
    assert node.cgroups() == []


async def test_idle_shims_leave_with_their_spawner(node: Node) -> None:
    await node.run("true")
    node.end_process(signal.SIGKILL)
    await until(lambda: not shims_of(node.journal))


async def test_a_shim_that_ended_is_collected_and_another_takes_its_place(node: Node) -> None:
    """Uncollected shims would fill the node's process limit after enough jobs."""
    await node.run("true")
    before = [pid for pid in shims_of(node.journal) if pid != node.pid]
    assert before
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in before))
    assert (await node.run("true")).exit_code == 0


async def test_kill_all_ends_everything_and_the_next_node_tells_it(node: Node) -> None:
    launch = node.launch("sh", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000")
    await node.start(launch)
    started = await node.begun(launch)
    jobs = node.spawner.jobs_cgroup
    assert jobs is not None
    refused = node.kill_all()
    assert refused.returncode == 2
    assert "a spawner still runs" in refused.stderr
    node.end_process(signal.SIGTERM)
    assert node.kill_all().returncode == 0
    assert not alive(started.pid)
    assert not jobs.parent.exists()
    assert shims_of(node.journal) == []
    node.start_process()
    ended = await node.ended(launch)
    assert (ended.cause, ended.reason) == ("stopped", "the node was taken down")


async def test_in_any_order_of_deaths_every_job_ends_once_and_as_it_should(
    node: Node, job_program: str
) -> None:
    """Spawners and shims are killed at random; only the job of a killed shim may be lost."""
    chance = random.Random(7)
    killed: set[int] = set()

    async def kill() -> None:
        while True:
            await asyncio.sleep(chance.random() * 0.1)
            shims = [pid for pid in shims_of(node.journal) if pid != node.pid]
            if shims and chance.random() < 0.5:
                killed.add(chance.choice(shims))
                call("kill", "-9", *map(str, killed.intersection(shims)))
            else:
                node.end_process(signal.SIGKILL)
                node.start_process()

    async def run(number: int) -> Exited:
        argv = (job_program, "bytes", str(number * 300), str(number % 90), "200")
        launch = node.launch(*argv)
        assert await node.start(launch) == []
        return await node.ended(launch)

    killer = asyncio.create_task(kill())
    ends = await asyncio.gather(*[run(number) for number in range(1, 150)])
    killer.cancel()
    # A spawner killed between taking and handing over leaves a job that may be started again.
    assert len([end for end in ends if end.cause == "lost"]) <= len(killed)
    for number, end in enumerate(ends, 1):
        if end.cause in ("lost", "never_started"):
            continue
        assert (end.cause, end.exit_code) == ("exited", number % 90)
        assert node.out(end) == bytes_of(number * 300, number % 90)
    for events in node.events.values():
        assert len({event.t_ns for event in events if isinstance(event, Exited)}) == 1
    await until(lambda: node.cgroups() == [])


# --- the journal -------------------------------------------------------------------------------

_BOOT_AT, _CRC_AT, _SLOTS_AT, _SLOT_BYTES = 24, 68, 4096 + 16384 * 16, 1024


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


async def test_after_a_reboot_running_jobs_are_lost_and_ends_are_kept(node: Node) -> None:
    node.acknowledges = False
    running_job, ended_job = node.launch("sleep", "1000"), node.launch("sh", "-c", "exit 6")
    await node.start(running_job, ended_job)
    started, ended = await node.begun(running_job), await node.ended(ended_job)
    node.end_process(signal.SIGKILL)
    journal = node.journal / "journal"
    data = bytearray(journal.read_bytes())
    assert node.kill_all().returncode == 0
    data[_BOOT_AT : _BOOT_AT + 8] = b"elsewhen"
    data[_CRC_AT : _CRC_AT + 4] = struct.pack("<I", crc32c(bytes(data[:_CRC_AT])))
    journal.write_bytes(data)
    node.events.clear()
    node.start_process()
    lost = await node.ended(running_job)
    assert (lost.cause, lost.reason, lost.pid) == ("lost", "node rebooted", started.pid)
    assert await node.ended(ended_job) == ended


async def test_a_corrupt_journal_is_refused_and_left_alone(node: Node) -> None:
    node.acknowledges = False
    await node.run("true")
    assert node.end_process(signal.SIGTERM) == 0
    journal = node.journal / "journal"
    whole = journal.read_bytes()
    slot = _SLOTS_AT + whole[_SLOTS_AT:].index(str(node.folder / "jobs").encode())
    for data, why in (
        (whole[:slot] + b"X" + whole[slot + 1 :], "the launch record of slot"),
        (b"X" + whole[1:], "its header is not one of a stoker journal"),
        (whole[:5000], "it has 5000 bytes"),
    ):
        journal.write_bytes(data)
        node.start_process()
        assert node.process is not None
        assert node.process.wait(60) == 3
        assert why in node.log.read_text().splitlines()[-1]
        assert "the journal is corrupt" in node.log.read_text().splitlines()[-1]
        assert journal.read_bytes() == data
    journal.write_bytes(whole)


async def test_one_journal_has_one_spawner(node: Node) -> None:
    second = call(*node.command("--socket", str(node.folder / "second.sock")))
    assert second.returncode == 2
    assert "another spawner owns this journal" in second.stderr


def test_wrong_flags_are_refused() -> None:
    node = Node()
    try:
        for flags in (["--jobs-max", "5000"], ["--jobs-max", "x"], ["--what"], ["stray"]):
            done = call(*node.command("--socket", "/x", *flags))
            assert done.returncode == 2
    finally:
        node.remove()


async def test_a_cgroup_of_a_task_that_no_record_knows_is_removed(node: Node) -> None:
    known = node.launch("sleep", "100")
    await node.start(known)
    await node.begun(known)
    assert node.spawner.jobs_cgroup is not None
    (node.spawner.jobs_cgroup / "fenced" / f"{known.job}.1.1").mkdir()
    (node.spawner.jobs_cgroup / "free" / f"{known.job}.1.2").mkdir()
    await node.restart()
    assert node.cgroups() == [f"{known.job}.1.0"]


async def test_what_placed_an_attempt_outlives_a_killed_spawner(node: Node) -> None:
    launch = node.launch("sleep", "100", placing=2**64 - 2)
    await node.start(launch)
    await node.begun(launch)
    await node.restart()
    assert [known.key for known in await node.spawner.known()] == [launch.key]
    await node.spawner.stop(launch.key, "enough", 0.0)
    assert (await node.ended(launch)).placing == 2**64 - 2


async def test_a_new_spawner_answers_when_an_unknown_cgroup_is_gone(node: Node) -> None:
    """It holds a process that dies, and for a while something that the spawner cannot remove."""
    node.end_process(signal.SIGKILL)
    await until(lambda: not node.spawner.connected)
    with unknown_cgroup(node) as (group, held):
        node.start_process()
        for inner in nested(group)[:TOO_MANY]:
            await asyncio.sleep(0.1)
            inner.rmdir()
        await until(lambda: node.spawner.connected)
        assert not group.exists() and not alive(held.pid)
        assert (await node.run("true")).exit_code == 0


async def test_a_cgroup_that_cannot_go_is_left_after_a_while(node: Node) -> None:
    node.end_process(signal.SIGKILL)
    await until(lambda: not node.spawner.connected)
    with unknown_cgroup(node) as (group, held):
        node.start_process()
        await until(lambda: node.spawner.connected)
        assert group.exists() and not alive(held.pid)
        assert (await node.run("true")).exit_code == 0


def nested(group: Path) -> list[Path]:
    """Return NESTED cgroups in each other below `group`, the deepest first."""
    deepest = group.joinpath(*["n"] * NESTED)
    return [deepest, *deepest.parents[: NESTED - 1]]


@contextlib.contextmanager
def unknown_cgroup(node: Node) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """Keep a process in a cgroup that no record knows, with too many cgroups in each other."""
    assert node.spawner.jobs_cgroup is not None
    group = node.spawner.jobs_cgroup / "fenced" / "77.1.0"
    nested(group)[0].mkdir(parents=True)
    held = subprocess.Popen(["sleep", "1000"])
    try:
        (group / "cgroup.procs").write_text(str(held.pid))
        yield group, held
    finally:
        held.kill()
        held.wait(10)
        for left in [*nested(group), group]:
            with contextlib.suppress(FileNotFoundError):
                left.rmdir()
