# SPDX-License-Identifier: Apache-2.0
"""The time of one clock from the kernel's counters of a quota, and the groups that have them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from stoker.agent.jobs import cpu_quota
from stoker.agent.jobs.cpu_quota import Quota, QuotaGroups, Stopped
from stoker.scheduler.nouns import TaskKey

KEY, DEVICE = TaskKey(7, 2, 0), "pocl-0"
MS = 1_000_000


@pytest.mark.parametrize(("busy", "share"), list(itertools.product((1, 2, 8), (100, 500, 900))))
def test_a_job_that_keeps_cpus_busy_is_stopped_for_the_rest_of_each_period(
    busy: int, share: int
) -> None:
    """A quota of `share` per mille of a CPU, used up by so many CPUs at once, 20 times."""
    quota_us = share * 100
    ran_ns = quota_us * 1000 // busy
    rest_ns = 100 * MS - ran_ns
    found = Quota(20, 20 * rest_ns * busy, quota_us).stopped(8)
    assert found.likely_ns == pytest.approx(20 * rest_ns, rel=1e-6)
    assert found.least_ns <= found.likely_ns <= found.most_ns
    assert found.most_ns == min(20 * rest_ns * busy, 20 * 100 * MS)


def test_a_quota_that_was_never_used_up_has_stopped_nobody() -> None:
    assert Quota(0, 0, 50_000).stopped(4) == Stopped(0, 0, 0)
    assert Quota(3, 0, 50_000).stopped(4) == Stopped(0, 0, 0)


def test_a_thread_that_slept_part_of_its_period_lost_no_more_than_it_lost() -> None:
    found = Quota(10, 10 * 5 * MS, 50_000).stopped(4)
    assert found == Stopped(10 * 5 * MS // 4, found.likely_ns, 10 * 5 * MS)


def v1(group: Path, periods: int, lost_ns: int, quota_us: int = 50_000) -> None:
    group.mkdir(parents=True)
    lines = f"nr_periods 9\nnr_throttled {periods}\nthrottled_time {lost_ns}\nburst_time 0\n"
    (group / "cpu.stat").write_text(lines)
    (group / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")


def test_a_group_of_its_own_goes_before_that_of_the_device(tmp_path: Path) -> None:
    groups = QuotaGroups(None, tmp_path, cpus=1)
    assert groups.stopped(KEY, DEVICE) == Stopped()
    v1(tmp_path / "held-pocl-0", 10, 500 * MS)
    assert groups.stopped(KEY, DEVICE).likely_ns == 500 * MS
    assert groups.stopped(KEY, "pocl-1") == Stopped()
    v1(tmp_path / "7.2.0", 2, 100 * MS)
    assert groups.stopped(KEY, DEVICE).likely_ns == 100 * MS


@pytest.mark.parametrize("where", ["fenced", "free"])
def test_a_cgroup_v2_has_its_own_words(tmp_path: Path, where: str) -> None:
    group = tmp_path / where / "7.2.0"
    group.mkdir(parents=True)
    groups = QuotaGroups(tmp_path, None, cpus=2)
    assert groups.stopped(KEY, DEVICE) == Stopped()
    (group / "cpu.stat").write_text("usage_usec 99\nuser_usec 9\n")  # the controller is not on
    assert groups.stopped(KEY, DEVICE) == Stopped()
    (group / "cpu.stat").write_text("usage_usec 99\nnr_throttled 4\nthrottled_usec 600000\n")
    (group / "cpu.max").write_text("50000 100000\n")
    found = groups.stopped(KEY, DEVICE)
    assert found.likely_ns == 300 * MS  # two CPUs, each for 75 ms in each of 4 periods
    (group / "cpu.max").write_text("max 100000\n")
    assert groups.stopped(KEY, DEVICE).most_ns == 400 * MS


def test_nonsense_in_a_file_is_no_number(tmp_path: Path) -> None:
    v1(tmp_path / "7.2.0", 1, 1)
    (tmp_path / "7.2.0" / "cpu.stat").write_text("nr_throttled x\nthrottled_time\n\n \n")
    assert cpu_quota.read_v1(tmp_path / "7.2.0") is None
