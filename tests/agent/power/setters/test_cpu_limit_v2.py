# SPDX-License-Identifier: Apache-2.0
"""Jobs of a CPU device held by cgroup v2, on a folder that has the kernel's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.attempt_folders import FENCED, FREE
from stoker.agent.power.setters.cpu_limit_v1 import Groups, held_cpus
from stoker.agent.power.setters.cpu_limit_v2 import JOBS_MAX, PERIOD_US, CpuLimitV2, enable
from stoker.agent.power.setters.record import RecordedSetting, restore, store
from stoker.agent.state.host_facts import boot_id
from stoker.native.errors import Refused

DRAWS_W, CPUS = 100.0, 4
WHOLE = CPUS * PERIOD_US


class Root:
    """A cgroup v2 mount as files; kernel files that are written hold what was written."""

    def __init__(self, root: Path) -> None:
        self.jobs = root / "stoker-0123abcd" / "jobs"
        groups = [self.jobs / FENCED, self.jobs / FREE]
        for group in groups:
            group.mkdir(parents=True)
        for group in (root, self.jobs.parent, self.jobs, *groups):
            (group / "cgroup.controllers").write_text("cpuset cpu memory\n")
            (group / "cgroup.subtree_control").write_text("memory\n")
        self.here: list[str] = []

    def add(self, name: str, cpu_max: str = f"max {PERIOD_US}") -> Path:
        (self.jobs / name).mkdir()
        (self.jobs / name / "cpu.max").write_text(cpu_max + "\n")
        self.here.append(name)
        return self.jobs / name / "cpu.max"

    def present(self) -> list[tuple[str, Path]]:
        return [(name, self.jobs / name) for name in self.here]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "cgroup")


def made(root: Root) -> CpuLimitV2:
    hold = CpuLimitV2(DRAWS_W, CPUS, root.present)
    assert hold.found() == [
        RecordedSetting("file", str(root.jobs / name / "cpu.max"), "cpu_max", 0)
        for name in sorted(root.here)
    ]
    return hold


def quota(path: Path) -> str:
    return path.read_text().split()[0]


def test_jobs_share_what_the_device_is_left_and_are_let_go(root: Root) -> None:
    first, second = root.add("7.1"), root.add("8.1")
    hold = made(root)
    assert hold.power_limit_w() == DRAWS_W
    assert hold.set_power_limit(50.0) is None
    assert {quota(first), quota(second)} == {str(WHOLE // 4)}
    assert hold.power_limit_w() == pytest.approx(50.0)
    assert hold.set_power_limit(DRAWS_W) is None
    assert first.read_text() == second.read_text() == f"max {PERIOD_US}"
    assert hold.power_limit_w() == DRAWS_W


def test_who_comes_later_is_noted_before_it_is_held(root: Root) -> None:
    first = root.add("7.1")
    hold = made(root)
    hold.set_power_limit(50.0)
    late, noted = root.add("8.1"), list[str]()

    def note(found: Sequence[RecordedSetting]) -> None:
        assert quota(late) == "max"
        noted.extend(each.id for each in found)

    hold.note = note
    assert hold.power_limit_w() == pytest.approx(50.0)
    assert noted == [str(late)]
    assert {quota(first), quota(late)} == {str(WHOLE // 4)}
    hold.power_limit_w()
    assert len(noted) == 1


def test_who_cannot_be_noted_is_not_held_and_counts(root: Root) -> None:
    hold = made(root)
    hold.set_power_limit(50.0)
    late = root.add("8.1")

    def note(found: Sequence[RecordedSetting]) -> None:
        raise Refused("the disk is full")

    hold.note = note
    refused = hold.power_limit_w()
    assert isinstance(refused, Absent) and refused.why == "the disk is full"
    assert quota(late) == "max"


def test_a_job_with_a_limit_of_its_own_keeps_it_and_it_counts(root: Root) -> None:
    held, own = root.add("7.1"), root.add("8.1")
    own.write_text(f"{PERIOD_US} {PERIOD_US}\n")
    hold = CpuLimitV2(DRAWS_W, CPUS, root.present)
    assert hold.found() == [RecordedSetting("file", str(held), "cpu_max", 0)]
    assert hold.set_power_limit(75.0) is None
    assert (quota(held), quota(own)) == (str(2 * PERIOD_US), str(PERIOD_US))
    assert hold.power_limit_w() == pytest.approx(75.0)


def test_a_limit_that_somebody_raises_is_set_again(root: Root) -> None:
    path = root.add("7.1")
    hold = made(root)
    hold.set_power_limit(25.0)
    path.write_text(f"max {PERIOD_US}")
    assert hold.power_limit_w() == pytest.approx(25.0)
    assert quota(path) == str(PERIOD_US)


def test_a_job_that_has_ended_is_no_matter(root: Root) -> None:
    path = root.add("7.1")
    hold = made(root)
    hold.set_power_limit(25.0)
    path.unlink()
    assert hold.power_limit_w() == 25.0
    assert hold.set_power_limit(DRAWS_W) is None


def test_more_jobs_than_are_held_count_whole(root: Root) -> None:
    for number in range(JOBS_MAX + 1):
        root.add(f"{number}.1")
    hold = CpuLimitV2(DRAWS_W, CPUS, root.present)
    refused = hold.set_power_limit(50.0)
    assert refused is not None and f"more than {JOBS_MAX} jobs" in refused.why


def test_whoever_restores_lets_held_jobs_run(root: Root, tmp_path: Path) -> None:
    """The watchdog restores for a killed agent; a job that ended meanwhile is skipped."""
    path, ended = root.add("7.1"), root.add("8.1")
    hold = made(root)
    found = hold.found()
    assert not isinstance(found, Absent)
    hold.set_power_limit(20.0)
    store(tmp_path / "power-record", boot_id(), found)
    ended.unlink()
    assert restore(tmp_path / "power-record") == ""
    assert path.read_text().startswith("max\n")
    assert not (tmp_path / "power-record").exists()


@pytest.mark.parametrize("watts", [-1.0, 5.0, 101.0, float("nan")])
def test_what_cannot_be_kept_is_refused_with_the_range(root: Root, watts: float) -> None:
    path = root.add("7.1")
    hold = made(root)
    refused = hold.set_power_limit(watts)
    assert refused is not None and "10 to 100 W" in refused.why
    assert quota(path) == "max"


def test_the_controller_is_had_from_the_mount_down(root: Root) -> None:
    assert enable(root.jobs) is None
    assert "cpu" in (root.jobs / "cgroup.subtree_control").read_text()
    assert "cpu" in (root.jobs.parent / "cgroup.subtree_control").read_text()
    assert "cpu" in (root.jobs / FREE / "cgroup.subtree_control").read_text()
    (root.jobs.parent / "cgroup.controllers").write_text("memory\n")
    refused = enable(root.jobs)
    assert refused is not None and "has no cpu controller" in refused.why


def test_v1_is_taken_where_it_is_mounted_and_v2_else(root: Root, tmp_path: Path) -> None:
    groups = Groups(tmp_path / "held", tmp_path, tmp_path)
    assert not isinstance(held_cpus(groups, root.jobs, DRAWS_W, root.present), CpuLimitV2 | Absent)
    on_v2 = held_cpus(Absent("no v1"), root.jobs, DRAWS_W, root.present)
    assert isinstance(on_v2, CpuLimitV2)
    (root.jobs / "cgroup.controllers").write_text("memory\n")
    refused = held_cpus(Absent("no v1"), root.jobs, DRAWS_W, root.present)
    assert isinstance(refused, Absent)
    assert "no v1" in refused.why and "no cpu controller" in refused.why
