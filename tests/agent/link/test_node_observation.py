# SPDX-License-Identifier: Apache-2.0
"""Observations: busy ratios from traces, absences that stay absences, facts of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.link import node_observation
from stoker.agent.state import host_facts
from stoker.native.errors import NotSupported
from stoker.probes.kernels.job_trace import (
    Causes,
    DeviceRow,
    KernelSummary,
    TimeWindow,
    TraceSummary,
)
from stoker.scheduler.nouns import DeviceSample, JobSample, TaskKey

ONE, OTHER = TaskKey(1, 1, 0), TaskKey(1, 1, 1)


def summary(busy_ns: int) -> TraceSummary:
    device = DeviceRow("pocl-0", 10_000, Causes(kernel_ns=busy_ns - 100, copy_ns=100))
    return TraceSummary("full", TimeWindow(0, 10_000), devices=(device,))


def test_a_device_is_as_busy_as_its_jobs_made_it_since_the_last_call() -> None:
    busy = node_observation.DeviceLoad()
    assert busy.ratios({ONE: summary(500)}, 1000) == {}
    assert busy.ratios({ONE: summary(900), OTHER: summary(700)}, 2000) == {"pocl-0": 0.4}
    assert busy.ratios({ONE: summary(1000), OTHER: summary(900)}, 3000) == {"pocl-0": 0.3}
    assert busy.ratios({ONE: summary(9000), OTHER: summary(9000)}, 4000) == {"pocl-0": 1.0}
    assert busy.ratios({}, 5000) == {}


def test_a_measured_ratio_is_kept_and_an_absent_one_is_filled() -> None:
    absent = {"busy_ratio": "no counter", "power_w": "no sensor"}
    samples = [DeviceSample("a", busy_ratio=0.9), DeviceSample("b", absent=absent)]
    measured, filled = node_observation.with_busy(samples, {"a": 0.1, "b": 0.25})
    assert measured.busy_ratio == 0.9
    assert filled.busy_ratio == 0.25
    assert filled.absent == {"power_w": "no sensor"}
    (same,) = node_observation.with_busy([samples[1]], {})
    assert same == samples[1]


def test_an_observation_of_this_machine_is_plausible() -> None:
    made = node_observation.observation(5, "n", 9, [])
    assert (made.id, made.node, made.t_ns) == (5, "n", 9)
    assert 0 < made.memory_free_bytes <= host_facts.memory_bytes()
    assert made.load_milli >= 0
    assert host_facts.cpu_milli() >= 1000
    assert len(host_facts.boot_id()) == 36


def test_a_machine_without_the_files_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="boot_id"):
        host_facts.boot_id(tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:       16 kB\n")
    assert host_facts.memory_bytes(tmp_path) == 16 * 1024
    with pytest.raises(NotSupported, match="MemAvailable"):
        host_facts.memory_free_bytes(tmp_path)


def test_the_jobs_cgroup_is_the_spawners(tmp_path: Path) -> None:
    proc, mount = tmp_path / "proc", tmp_path / "cg"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(
        f"31 30 0:27 / /sys rw - sysfs sysfs rw\n32 31 0:28 / {mount} rw shared:9 - cgroup2 c rw\n"
    )
    assert host_facts.jobs_cgroup("abc", proc) is None
    (mount / "stoker-abc/jobs").mkdir(parents=True)
    assert host_facts.jobs_cgroup("abc", proc) == mount / "stoker-abc/jobs"


def row(**causes: int) -> TraceSummary:
    return TraceSummary("full", TimeWindow(0, 10), devices=(DeviceRow("d", 10, Causes(**causes)),))


def test_device_time_is_work_and_the_jobs_share_of_what_was_not_seen() -> None:
    found = row(kernel_ns=100, copy_ns=20, held_idle_ns=7000, not_observed_ns=1000)
    assert node_observation.device_ns(found, 1000) == 1120
    assert node_observation.device_ns(found, 2000) == 1120
    assert node_observation.device_ns(found, 250) == 370
    assert node_observation.device_ns(found, 0) is None


def test_only_jobs_that_hold_devices_are_reported_and_no_more_than_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = {
        TaskKey(job, 1, 0): (
            StartRecord(job, 1, 0, 0, 5, 0, 1.0, gpu_milli=1000 * (job != 2)),
            row(kernel_ns=job),
        )
        for job in (3, 1, 2)
    }
    assert node_observation.job_samples(running) == (
        JobSample(1, 1, 0, 0, 1),
        JobSample(3, 1, 0, 0, 3),
    )
    monkeypatch.setattr(node_observation, "JOB_SAMPLES_MAX", 1)
    assert node_observation.job_samples(running) == (JobSample(1, 1, 0, 0, 1),)


def launched(*kernels: KernelSummary) -> TraceSummary:
    return TraceSummary("governed", TimeWindow(0, 10), kernels=kernels)


def test_a_launch_takes_the_mean_over_all_kernels_seen_or_not() -> None:
    gemm = KernelSummary("gemm", 80, 800_000, 9, 11, unseen=20)
    add = KernelSummary("add", 300, 100_000, 9, 11)
    assert node_observation.launch_ns(launched(gemm, add)) == 2250
    assert node_observation.launch_ns(launched(gemm)) == 8000


def test_few_launches_and_uncertain_times_tell_nothing_of_a_device() -> None:
    few = KernelSummary("gemm", 99, 800_000, 9, 11)
    vague = KernelSummary("gemm", 1000, 800_000, 9, 11, error_ns=200_001)
    empty = KernelSummary("gemm", 1000, 0, None, None)
    for kernel in (few, vague, empty):
        assert node_observation.launch_ns(launched(kernel)) is None
    assert node_observation.launch_ns(launched()) is None
    bound = KernelSummary("gemm", 1000, 800_000, 9, 11, error_ns=200_000)
    assert node_observation.launch_ns(launched(bound)) == 800
