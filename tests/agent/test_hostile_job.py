# SPDX-License-Identifier: Apache-2.0
"""Jobs that attack the node are refused or contained, and named if the kernel reports them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from spawned import OTHER, OWNER, Node, alive, call, job_program_built, running, shim_of, until

from stoker.agent.jobs.spawner_messages import Exited
from stoker.agent.supervise import confine

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.needs_bpf,
    pytest.mark.skipif(os.geteuid() != 0, reason="starts jobs as other users"),
]

DENIED = {errno.EPERM, errno.EACCES}
NO_DRIVER = {errno.ENXIO, errno.ENODEV}


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with job_program_built() as path:
        yield path


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with running() as node:
        gate = node.spawner.features["gate"]
        assert gate.works, gate.detail
        yield node


def make_device(node: Node, major: int, minor: int) -> str:
    path = node.folder / f"device-{major}-{minor}"
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    path.chmod(0o666)
    return str(path)


def tries(node: Node, ended: Exited) -> dict[str, int]:
    """Map each attack of the hostile program to its errno."""
    lines = [line.rsplit(" ", 1) for line in node.out(ended).decode().splitlines()]
    return {name: int(number) for name, number in lines}


def openable_device() -> tuple[int, int]:
    """A device whose driver lets anybody open it, and which is not among the harmless ones."""
    for line in Path("/proc/misc").read_text().splitlines():
        minor, name = line.split()
        if name in ("fuse", "tun", "loop-control", "kvm"):
            return 10, int(minor)
    pytest.skip("no misc device here that can be opened without privileges")


async def test_it_cannot_leave_its_cgroup(node: Node, hostile: str) -> None:
    jobs = node.spawner.jobs_cgroup
    assert jobs is not None
    groups = [*jobs.parents[:3], *Path("/sys/fs/cgroup").iterdir(), jobs]
    files = [str(group / "cgroup.procs") for group in groups if (group / "cgroup.procs").exists()]
    assert str(jobs / "cgroup.procs") in files
    ended = await node.run(hostile, "leave", *files)
    said = node.out(ended).decode().splitlines()
    assert len(said) == len(files)
    assert {int(line.split()[1]) for line in said} <= DENIED


async def test_it_cannot_touch_bpf(node: Node, hostile: str) -> None:
    ended = await node.run(hostile, "bpf", str(node.spawner.jobs_cgroup))
    said = tries(node, ended)
    # Detaching needs a descriptor of the program, and every way to get one is closed.
    assert said.pop("detach") in DENIED | {errno.EINVAL}
    assert said.keys() == {"next-id", "program-by-id", "map-by-id", "load"}
    assert set(said.values()) <= DENIED
    attached = call("bpftool", "cgroup", "show", str(node.spawner.jobs_cgroup)).stdout
    assert attached.count("device_gate") == 1


async def test_it_cannot_signal_or_look_into_stoker(node: Node, hostile: str) -> None:
    other = node.launch("sleep", "1000", uid=OTHER)
    await node.start(other)
    victim = (await node.begun(other)).pid
    assert node.process is not None
    ended = await node.run(hostile, "signal", "1", str(node.process.pid), str(victim))
    said = node.out(ended).decode().splitlines()
    assert len(said) == 8
    assert {int(line.split()[1]) for line in said} <= DENIED
    assert alive(victim)


async def test_it_gains_no_privilege_not_even_through_set_user_id(node: Node, hostile: str) -> None:
    copy = node.folder / "set-user-id"
    copy.write_bytes(Path(hostile).read_bytes())
    copy.chmod(0o6755)
    for argv in ((hostile, "privilege"), (hostile, "setuid", str(copy))):
        said = tries(node, await node.run(*argv))
        assert said.pop("effective") == OWNER
        assert len(said) == 4
        assert set(said.values()) <= DENIED


async def test_it_reads_no_state_and_no_other_users_files(node: Node, hostile: str) -> None:
    traces = node.folder / "traces"
    script = f"echo secret; echo segment > {traces}/1"
    victim = await node.run("sh", "-c", script, uid=OTHER, trace_folder=str(traces))
    assert node.out(victim) == b"secret\n"
    folder = node.job_folder(victim.job)
    ended = await node.run(
        hostile, "read", str(folder / "out"), str(folder), str(node.journal / "journal"),
        str(node.journal), str(traces), str(node.socket),
    )  # fmt: skip
    said = tries(node, ended)
    assert len(said) == 6
    assert set(said.values()) - {errno.ENXIO} <= DENIED
    own = await node.run(hostile, "read", str(node.job_folder(node.jobs + 1) / "out"))
    assert set(tries(node, own).values()) <= DENIED


WITH_SECRET = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
assert libc.syscall(keyctl, 1, None) > 0, ctypes.get_errno()
serial = libc.syscall(add_key, b"user", b"stoker-test", b"secret", 6, -3)
with open(sys.argv[1], "w") as file:
    file.write(str(serial))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs a program with a key in its own session keyring; the key's number goes to a file."""


async def test_it_finds_no_key_of_who_started_it(hostile: str) -> None:
    if not Path("/proc/keys").exists():
        pytest.skip("this kernel has no keyrings")
    node = Node()
    number, plain = node.folder / "number", node.command
    node.command = lambda *flags: [  # type: ignore[method-assign]
        *(sys.executable, "-c", WITH_SECRET, str(number)),
        *plain(*flags),
    ]
    try:
        await node.open()
        ended = await node.run(hostile, "keys", "stoker-test", number.read_text())
        assert tries(node, ended) == {
            "search": errno.ENOKEY,
            "request": errno.ENOKEY,
            "read": errno.EACCES,
            "own": 0,
        }
    finally:
        node.command = plain  # type: ignore[method-assign]
        await node.close()
        node.remove()


async def test_the_oom_feature_shows_if_a_job_can_lower_its_score(node: Node) -> None:
    """A job cannot lower its score if the node has CAP_SYS_RESOURCE, or if no score is lower."""
    script = (
        "score=$(cat /proc/$$/oom_score_adj); echo $score; "
        "for lower in $((score - 1)) -1000; do "
        "(echo $lower > /proc/$$/oom_score_adj) 2>/dev/null && echo $lower; done; true"
    )
    ended = await node.run("sh", "-c", script)
    score, *lowered = map(int, node.out(ended).split())
    feature = node.spawner.features["oom"]
    assert bool(lowered) != feature.works
    with_capability = confine.holds(confine.CAP_SYS_RESOURCE)
    assert ("no CAP_SYS_RESOURCE" in feature.detail) != with_capability
    assert feature.works or not with_capability
    assert score == 500 if with_capability or lowered else score >= 0
    spawner = Path(f"/proc/{node.pid}/oom_score_adj").read_text()
    assert spawner == Path("/proc/self/oom_score_adj").read_text()  # the spawner's is unchanged


async def test_it_opens_granted_devices_and_no_others(node: Node, hostile: str) -> None:
    nodes = {
        pair: make_device(node, *pair) for pair in ((195, 0), (195, 1), (226, 128), (226, 129))
    }
    granted = ((195, 0), (226, 128))
    ended = await node.run(hostile, "open", *nodes.values(), devices=granted)
    said = tries(node, ended)
    # A granted device has no driver here: the gate admits the open, and the kernel finds none.
    assert {said[nodes[pair]] for pair in granted} <= NO_DRIVER
    assert {said[nodes[195, 1]], said[nodes[226, 129]]} == {errno.EPERM}
    assert ended.reason == (
        "opening device 226:129 was refused (2 refusals of devices not granted)"
    )
    without = await node.run(hostile, "open", *nodes.values())
    assert set(tries(node, without).values()) == {errno.EPERM}


async def test_a_grant_is_of_one_job_and_ends_with_it(node: Node, hostile: str) -> None:
    device = make_device(node, 195, 7)
    holder = node.launch("sleep", "1000", devices=((195, 7),))
    await node.start(holder)
    await node.begun(holder)
    assert tries(node, await node.run(hostile, "open", device)) == {device: errno.EPERM}
    await node.spawner.stop(holder.key, "enough", 0.0)
    await node.ended(holder)
    assert tries(node, await node.run(hostile, "open", device)) == {device: errno.EPERM}
    keys = call("bpftool", "map", "dump", "name", "stoker_grants").stdout
    assert f'"cgroup_id": {(await node.begun(holder)).cgroup_id}' not in keys


async def test_grants_outlive_the_spawner(node: Node, hostile: str) -> None:
    device = make_device(node, 195, 3)
    script = f"while [ ! -s {node.folder}/go ]; do sleep 0.01; done; exec {hostile} open {device}"
    granted = node.launch("sh", "-c", script, devices=((195, 3),))
    await node.start(granted)
    await node.begun(granted)
    await node.restart()
    assert node.spawner.features["gate"].works
    denied = await node.run(hostile, "open", device)
    assert tries(node, denied) == {device: errno.EPERM}
    (node.folder / "go").write_text("go")
    assert tries(node, await node.ended(granted))[device] in NO_DRIVER
    attached = call("bpftool", "cgroup", "show", str(node.spawner.jobs_cgroup)).stdout
    assert attached.count("device_gate") == 1


async def test_the_grants_of_a_killed_shim_are_taken_back(node: Node) -> None:
    launch = node.launch("sleep", "1000", devices=((195, 3), (226, 1)))
    await node.start(launch)
    started = await node.begun(launch)
    shim = shim_of(started.pid)
    os.kill(shim, signal.SIGKILL)
    assert (await node.ended(launch)).cause == "lost"
    keys = call("bpftool", "map", "dump", "name", "stoker_grants").stdout
    assert f'"cgroup_id": {started.cgroup_id}' not in keys


async def test_harmless_devices_stay_open_and_nobody_makes_nodes(node: Node, hostile: str) -> None:
    harmless = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx")
    assert set(tries(node, await node.run(hostile, "open", *harmless)).values()) == {0}
    writable = node.folder / "writable"
    writable.mkdir()
    writable.chmod(0o777)
    made = tries(node, await node.run(hostile, "mknod", str(writable / "x")))
    assert set(made.values()) == {errno.EPERM}


async def test_a_device_held_open_is_let_go_before_the_job_is_over(
    node: Node, hostile: str
) -> None:
    pair = openable_device()
    device, note = make_device(node, *pair), node.folder / "pid"
    note.touch()
    note.chmod(0o666)
    script = f"{hostile} hold {device} {note}; exit $?"
    launch = node.launch("sh", "-c", script, devices=(pair,), grace_s=0.2)
    await node.start(launch)
    ended = await node.ended(launch)
    assert node.out(ended) == b"hold 0\n"
    # A descriptor opened under the grant stays valid, so its process must be gone.
    assert not alive(int(note.read_text()))
    assert "processes it left behind were ended" in ended.reason
    assert tries(node, await node.run(hostile, "open", device)) == {device: errno.EPERM}


async def test_a_fork_bomb_is_contained_and_named(node: Node, hostile: str) -> None:
    bomb = node.launch("sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1000",
                       uid=61777, pids=64, time_limit_s=1.0, grace_s=0.2)  # fmt: skip
    await node.start(bomb)
    await node.begun(bomb)
    for _ in range(3):
        assert (await node.run("true", uid=OTHER)).exit_code == 0
    ended = await node.ended(bomb)
    assert "pids limit 64 was reached" in ended.reason
    await until(lambda: call("pgrep", "-u", "61777").stdout == "")


async def test_filled_memory_is_contained_and_named(node: Node, hostile: str) -> None:
    script = f"{hostile} fill 512; echo $?; exit 4"
    ended = await node.run("sh", "-c", script, memory_bytes=48 << 20)
    assert (ended.exit_code, node.out(ended)) == (4, b"137\n")
    assert ended.reason == "memory limit 48 MiB was reached: the kernel killed 1 of its processes"


async def test_stopping_itself_does_not_stop_the_clock(node: Node) -> None:
    ended = await node.run("sh", "-c", "kill -STOP $$", time_limit_s=0.2, grace_s=0.1)
    assert (ended.cause, ended.signal) == ("timeout", 9)


async def test_signals_to_everybody_reach_only_its_own(node: Node) -> None:
    other = node.launch("sleep", "1000", uid=OTHER)
    await node.start(other)
    pid = (await node.begun(other)).pid
    own = [node.launch("sleep", "1000") for _ in range(2)]
    await node.start(*own)
    for launch in own:
        await node.begun(launch)
    killer = await node.run("sh", "-c", "kill -STOP -1; kill -KILL -1; exit 9")
    assert killer.exit_code == 9  # kill(2) spares the caller
    for launch in own:
        ended = await node.ended(launch)
        assert (ended.cause, ended.signal) == ("signalled", 9)
    # They kill all at once and send no STOP, with which two could freeze each other for ever.
    rivals = [node.launch("sh", "-c", "kill -KILL -1; exit 9") for _ in range(4)]
    await node.start(*rivals)
    for launch in rivals:
        assert (await node.ended(launch)).cause in ("exited", "signalled")
    assert alive(pid)
    assert (await node.run("true")).exit_code == 0


async def test_a_daemon_does_not_survive_its_job(node: Node) -> None:
    note = node.folder / "pid"
    note.touch()
    note.chmod(0o666)
    script = (
        f"(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; echo $$ > {note}; exec sleep 1000' "
        f"> /dev/null 2>&1 < /dev/null &) ; while [ ! -s {note} ]; do :; done; exit 0"
    )
    ended = await node.run("sh", "-c", script, grace_s=0.1)
    assert ended.exit_code == 0
    assert not alive(int(note.read_text()))


async def test_a_flood_of_output_harms_nobody(node: Node) -> None:
    flood = node.launch("sh", "-c", "cat /dev/zero", output_bytes_max=1 << 20, time_limit_s=0.5)
    await node.start(flood)
    quick = [node.launch("echo", str(n), uid=OTHER) for n in range(10)]
    await node.start(*quick)
    assert [node.out(await node.ended(one)) for one in quick] == [b"%d\n" % n for n in range(10)]
    ended = await node.ended(flood)
    assert ended.cause == "timeout"
    assert ended.out_bytes == 1 << 20
    assert ended.usage is not None
    assert ended.usage.output_dropped_bytes > 0


async def test_its_streams_handed_to_another_process_do_not_keep_the_job_open(node: Node) -> None:
    """A job of root could keep a pipe open from outside its cgroup, whose end is the job's end."""
    launch = node.launch("sh", "-c", "echo here; exec sleep 1000")
    await node.start(launch)
    pid = (await node.begun(launch)).pid
    await until(lambda: node.out(launch))
    writer = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
    try:
        await node.spawner.stop(launch.key, "enough", 0.0)
        async with asyncio.timeout(60):
            assert node.out(await node.ended(launch)) == b"here\n"
    finally:
        os.close(writer)
