# SPDX-License-Identifier: Apache-2.0
"""Jobs of a device that takes no limit, held by their CPU time: real processes, real groups."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.cpu_quota import v1_cpu
from stoker.agent.power.setters.cpu_limit_v1 import (
    PERIOD_US,
    CpuLimitV1,
    Groups,
    cpu_hold,
    own_group,
)
from stoker.agent.power.setters.record import restore, store
from stoker.agent.state.host_facts import boot_id

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="moving processes between groups: root")
DRAWS_W = 100.0


class Job:
    """A sleeping process, and the folder that says that it is one of the job."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(["sleep", "100"])
        folder.mkdir()
        (folder / "cgroup.procs").write_text(f"{self.process.pid}\n")
        self.folder = folder

    def group(self) -> str:
        text = Path(f"/proc/{self.process.pid}/cgroup").read_text()
        return next(line.split(":", 2)[2] for line in text.splitlines() if ":cpu:" in line)


@pytest.fixture
def mount() -> Path:
    found = v1_cpu()
    if isinstance(found, Absent):
        pytest.skip(found.why)
    return found


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path / "7.1")
    yield made
    made.process.kill()
    made.process.wait()


@pytest.fixture
def hold(mount: Path, job: Job, tmp_path: Path) -> Iterator[CpuLimitV1]:
    group = mount / f"stoker-test-{os.getpid()}"
    groups = Groups(group, own_group(mount), tmp_path / "limited")
    made = CpuLimitV1(groups, DRAWS_W, 4, lambda: [("7.1", job.folder)])
    yield made
    made.set_power_limit(DRAWS_W)
    assert not group.exists()


def quota(mount: Path) -> str:
    return (mount / f"stoker-test-{os.getpid()}" / "cpu.cfs_quota_us").read_text().strip()


def test_a_job_is_held_to_its_share_and_let_go(hold: CpuLimitV1, job: Job, mount: Path) -> None:
    before = job.group()
    assert hold.power_limit_w() == DRAWS_W
    assert hold.set_power_limit(25.0) is None
    assert quota(mount) == str(PERIOD_US)
    assert job.group() == f"/stoker-test-{os.getpid()}"
    assert hold.power_limit_w() == pytest.approx(25.0)
    assert hold.set_power_limit(DRAWS_W) is None
    assert job.group() == before
    assert hold.power_limit_w() == DRAWS_W


def test_who_comes_later_is_taken_in_with_the_next_look(
    hold: CpuLimitV1, job: Job, mount: Path
) -> None:
    hold.set_power_limit(50.0)
    late = subprocess.Popen(["sleep", "100"])
    try:
        (job.folder / "cgroup.procs").write_text(f"{job.process.pid}\n{late.pid}\n")
        hold.power_limit_w()
        held = (mount / f"stoker-test-{os.getpid()}" / "cgroup.procs").read_text().split()
        assert str(late.pid) in held
    finally:
        late.kill()
        late.wait()


def test_a_job_with_a_limit_of_its_own_stays_and_counts(
    hold: CpuLimitV1, job: Job, tmp_path: Path, mount: Path
) -> None:
    own = tmp_path / "limited" / "7.1"
    own.mkdir(parents=True)
    (own / "cpu.cfs_quota_us").write_text(f"{PERIOD_US}\n")
    before = job.group()
    hold.set_power_limit(75.0)
    assert job.group() == before
    assert quota(mount) == str(2 * PERIOD_US)
    assert hold.power_limit_w() == pytest.approx(75.0)


def test_what_cannot_be_kept_is_refused_with_the_range(hold: CpuLimitV1) -> None:
    for watts in (5.0, 101.0, -1.0):
        refused = hold.set_power_limit(watts)
        assert refused is not None and "10 to 100 W" in refused.why
    assert hold.power_limit_w() == DRAWS_W


def test_a_job_that_has_ended_is_no_matter(hold: CpuLimitV1, job: Job) -> None:
    job.process.kill()
    job.process.wait()
    assert hold.set_power_limit(50.0) is None
    assert hold.power_limit_w() == pytest.approx(50.0)


def test_whoever_restores_lets_held_jobs_run(
    hold: CpuLimitV1, job: Job, mount: Path, tmp_path: Path
) -> None:
    """The watchdog restores for an agent that was killed: the record is all it has."""
    found = hold.found()
    assert not isinstance(found, Absent)
    hold.set_power_limit(20.0)
    store(tmp_path / "power-record", boot_id(), found)
    assert restore(tmp_path / "power-record") == ""
    assert quota(mount) == str(4 * PERIOD_US)
    assert hold.power_limit_w() == DRAWS_W


def test_a_group_that_is_gone_holds_nothing(hold: CpuLimitV1, tmp_path: Path) -> None:
    found = hold.found()
    assert not isinstance(found, Absent)
    store(tmp_path / "power-record", boot_id(), found)
    assert restore(tmp_path / "power-record") == ""
    assert not (tmp_path / "power-record").exists()


def test_held_processes_get_no_more_than_their_share(
    hold: CpuLimitV1, job: Job, mount: Path
) -> None:
    """The kernel counts the periods in which a held process had used up its share."""
    hold.set_power_limit(10.0)
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        (job.folder / "cgroup.procs").write_text(f"{busy.pid}\n")
        hold.power_limit_w()
        stat = mount / f"stoker-test-{os.getpid()}" / "cpu.stat"
        until = time.monotonic() + 60
        while time.monotonic() < until and "nr_throttled 0\n" in stat.read_text():
            time.sleep(0.05)
        assert "nr_throttled 0\n" not in stat.read_text()
    finally:
        busy.kill()
        busy.wait()


def test_of_a_device_of_an_instance(mount: Path, tmp_path: Path) -> None:
    made = cpu_hold("pocl-0", "0123abcd", DRAWS_W, list, tmp_path)
    assert isinstance(made, CpuLimitV1)
    found = made.found()
    assert not isinstance(found, Absent)
    assert found[0].id == f"{mount}/stoker-0123abcd/held-pocl-0/cpu.cfs_quota_us"
    assert found[0].value == len(os.sched_getaffinity(0)) * PERIOD_US
