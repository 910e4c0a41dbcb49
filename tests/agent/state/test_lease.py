# SPDX-License-Identifier: Apache-2.0
"""The lease file, and the watchdog that freezes jobs when nobody renews it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from spawned import Node, alive, until

from stoker.agent.state.lease import (
    _EXPIRY,
    _FREEZE_EPOCH,
    _FROZEN_SINCE,
    _WATCHDOG_PID,
    _WATCHDOG_SEEN,
    LEASE_BYTES,
    MOST_NS,
    NO_CGROUP,
    STALE_NS,
    Lease,
)
from stoker.native.errors import Corrupt
from stoker.native.paths import program

SECOND = 1_000_000_000


def boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@contextmanager
def watching(lease: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [str(program("stoker-watchdog")), "--lease", str(lease), *flags]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@contextmanager
def kept(lease: Lease) -> Iterator[None]:
    """Renew the lease until the block ends, as an agent does."""
    over = threading.Event()

    def renew() -> None:
        while not over.is_set():
            lease.look(boot_ns())
            lease.renew(boot_ns() + MOST_NS)
            over.wait(0.1)

    lease.renew(boot_ns() + MOST_NS)
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def thaw(lease: Lease) -> None:
    """Thaw the present freeze, as the agent does when it has read the log."""
    lease.thaw(lease.freezes, boot_ns() + MOST_NS)


def looks_again(lease: Lease) -> Callable[[], bool]:
    """Return what is true once the watchdog has looked again."""
    seen = lease.watchdog_seen_ns
    return lambda: lease.watchdog_seen_ns != seen


def frozen(node: Node) -> bool:
    assert node.spawner.jobs_cgroup is not None
    return "frozen 1" in (node.spawner.jobs_cgroup / "fenced/cgroup.events").read_text()


def test_a_new_file_has_no_lease_and_keeps_what_is_renewed(tmp_path: Path) -> None:
    with Lease.open(tmp_path / "lease") as lease:
        assert (lease.expiry_boottime_ns, lease.frozen_since(), lease.freezes) == (0, None, 0)
        assert lease.watchdog_seen_ns is None
        assert lease.watchdog_stale(boot_ns())
        assert not lease.valid(boot_ns())
        lease.renew(12345)
    info = (tmp_path / "lease").stat()
    assert (info.st_size, info.st_mode & 0o777) == (LEASE_BYTES, 0o600)
    with Lease.open(tmp_path / "lease") as lease:
        assert lease.expiry_boottime_ns == 12345


def test_a_lease_is_valid_before_its_end_and_never_longer_than_one(tmp_path: Path) -> None:
    with Lease.open(tmp_path / "lease") as lease:
        lease.renew(10 * MOST_NS)
        ends = [10 * MOST_NS, 10 * MOST_NS - 1, 9 * MOST_NS, 9 * MOST_NS - 1]
        assert [lease.valid(now_ns) for now_ns in ends] == [False, True, True, False]
        lease.extend(9 * MOST_NS)
        assert lease.expiry_boottime_ns == 10 * MOST_NS  # never shortened
        lease.extend(8 * MOST_NS)
        assert lease.expiry_boottime_ns == 8 * MOST_NS  # but no lease ends so late
        lease._view[_EXPIRY] = 11 * MOST_NS  # half of a store
        assert lease.expiry_boottime_ns == 8 * MOST_NS


def test_the_times_of_another_boot_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    with Lease.open(path, "11111111-2222-3333-4444-555555555555") as lease:
        lease.renew(boot_ns() + MOST_NS)
        lease.renew_power(boot_ns() + MOST_NS)
        lease._view[_FREEZE_EPOCH], lease._view[_FROZEN_SINCE] = 2, boot_ns()
        lease._view[_WATCHDOG_SEEN] = boot_ns()
        assert lease.valid(boot_ns()) and not lease.watchdog_stale(boot_ns())
    with Lease.open(path) as lease:
        assert (lease.expiry_boottime_ns, lease.frozen_since(), lease.freezes) == (0, None, 2)
        assert lease.watchdog_stale(boot_ns()) and not lease.power_restored


def test_a_watchdog_that_does_not_look_is_stale(tmp_path: Path) -> None:
    with Lease.open(tmp_path / "lease") as lease:
        lease._view[_WATCHDOG_SEEN] = 7 * STALE_NS
        assert not lease.watchdog_stale(8 * STALE_NS)
        assert lease.watchdog_stale(8 * STALE_NS + 1)


async def test_the_watchdog_and_the_agent_find_the_same_boot(tmp_path: Path) -> None:
    """The watchdog keeps a lease that the agent has given, so it reads the boot id alike."""
    with Lease.open(tmp_path / "lease") as lease, kept(lease), watching(tmp_path / "lease"):
        await until(lambda: lease.watchdog_seen_ns)
        assert lease.freezes == 0


@pytest.mark.parametrize("content", [b"x" * LEASE_BYTES, b"x" * 5, b"stklease" + b"\x09" * 120])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lease"
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="lease"):
        Lease.open(path)
    assert path.read_bytes() == content
    with watching(path) as process:
        assert process.wait(60) == 1


async def test_without_cgroups_the_watchdog_reports_only(tmp_path: Path) -> None:
    with Lease.open(tmp_path / "lease") as lease, watching(tmp_path / "lease"):
        await until(lambda: lease.watchdog_seen_ns)
        assert lease.watchdog_flags & NO_CGROUP
        await until(lease.frozen_since)
        with kept(lease):
            thaw(lease)
            await until(lambda: lease.frozen_since() is None)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="freezes jobs of other users")
async def test_an_expired_lease_freezes_and_only_a_thaw_of_it_undoes_that(node: Node) -> None:
    launch = node.launch("sh", "-c", "while :; do echo tick; sleep 0.01; done")
    await node.start(launch)
    await node.begun(launch)
    path = node.folder / "lease"
    with Lease.open(path) as lease:
        before = boot_ns()
        lease.renew(before + SECOND // 5)
        lease.look(before)
        with watching(path, "--cgroup", node.name) as process:
            await until(lambda: frozen(node))
            since = lease.frozen_since()
            assert since is not None
            assert since >= before + SECOND // 5
            process.kill()  # another watchdog thaws nothing, and neither does a lease alone
        with kept(lease), watching(path, "--cgroup", node.name) as second:
            await until(lambda: lease._view[_WATCHDOG_PID] == second.pid)
            await until(looks_again(lease))
            size = len(node.out(launch))
            assert frozen(node)
            thaw(lease)
            await until(lambda: not frozen(node))
            await until(lambda: len(node.out(launch)) > size)
            await until(lambda: lease.frozen_since() is None)  # recorded once the job runs
            assert (lease.freezes, lease.watchdog_flags) == (1, 0)
        with watching(path, "--cgroup", node.name):
            await until(lambda: frozen(node))  # a thaw holds for one freeze only
            with kept(lease):
                await until(looks_again(lease))
                await until(looks_again(lease))
                assert frozen(node)
    # A frozen job can be stopped.
    await node.spawner.stop(launch.key, "evicted", 0.1)
    assert (await node.ended(launch)).reason == "evicted"


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="freezes jobs of other users")
async def test_a_job_that_need_not_fence_goes_on_without_a_lease(node: Node) -> None:
    ticking = ("sh", "-c", "while :; do echo tick; sleep 0.01; done")
    fenced, free = node.launch(*ticking), node.launch(*ticking, fenced=False)
    await node.start(fenced, free)
    await node.begun(fenced)
    await node.begun(free)
    path = node.folder / "lease"
    with Lease.open(path) as lease, watching(path, "--cgroup", node.name):
        await until(lambda: frozen(node))
        stopped, size = len(node.out(fenced)), len(node.out(free))
        await until(lambda: len(node.out(free)) > size)
        assert len(node.out(fenced)) == stopped
        with kept(lease):
            thaw(lease)
            await until(lambda: len(node.out(fenced)) > stopped)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="freezes jobs of other users")
@pytest.mark.parametrize("recorded", [False, True])
async def test_a_freeze_that_the_watchdog_died_in_is_found_and_can_be_undone(
    node: Node, recorded: bool
) -> None:
    """The watchdog is killed between the freeze and its record, in either order; the lease is
    renewed before the next watchdog looks."""
    jobs = node.spawner.jobs_cgroup
    assert jobs is not None
    path = node.folder / "lease"
    with Lease.open(path) as lease, kept(lease):
        if recorded:
            lease._view[_FREEZE_EPOCH], lease._view[_FROZEN_SINCE] = 1, boot_ns()
        else:
            (jobs / "fenced/cgroup.freeze").write_text("1")
        with watching(path, "--cgroup", node.name):
            await until(lambda: lease.watchdog_seen_ns)
            assert frozen(node) and lease.frozen_since() is not None
            thaw(lease)
            await until(lambda: lease.frozen_since() is None)
            assert not frozen(node)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="freezes jobs of other users")
async def test_where_configured_frozen_jobs_are_killed(node: Node) -> None:
    launch = node.launch("sleep", "1000")
    await node.start(launch)
    pid = (await node.begun(launch)).pid
    path = node.folder / "lease"
    with (
        Lease.open(path) as lease,
        watching(path, "--cgroup", node.name, "--fence-kill-s", "0.2"),
    ):
        lease.renew(boot_ns())
        ended = await node.ended(launch)
        assert (ended.cause, ended.signal) == ("signalled", 9)
        assert not alive(pid)


async def test_wrong_flags_are_refused_and_the_log_is_json(tmp_path: Path) -> None:
    for flags in (["--what"], ["--fence-kill-s", "-1"]):
        with watching(tmp_path / "lease", *flags) as process:
            assert process.wait(60) == 2
    with (
        Lease.open(tmp_path / "lease") as lease,
        watching(tmp_path / "lease", "--cgroup", "no/such/place") as process,
    ):
        await until(lambda: lease.watchdog_seen_ns)
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert json.loads(process.stderr.readline())["event"] == "ready"
