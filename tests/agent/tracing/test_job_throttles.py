# SPDX-License-Identifier: Apache-2.0
"""Throttled time of a job over its life, over two agents, and after its quota's group is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.job_throttles import FILE, JobThrottles
from stoker.agent.tracing.throttled_time import Source, ThrottleCount
from stoker.probes.kernels.trace_summary import Causes, DeviceRow, TimeWindow, TraceSummary
from stoker.scheduler.nouns import TaskKey

S = 1_000_000_000
RECORD = StartRecord(7, 1, 0, 0, 0, 0, 5.0, "full", 1000, ("d",))


class Driver:
    """A device whose counter a test sets."""

    def __init__(self, source: Source = "counter") -> None:
        self.source: Source = source
        self.at_ns = self.ns = self.reads = 0
        self.silent = False

    def read(self, key: TaskKey, device: str) -> ThrottleCount | Absent:
        self.reads += 1
        if self.silent:
            return Absent("it is gone")
        return ThrottleCount(self.at_ns, {"power": self.ns}, self.source)


def folded(to_s: float) -> TraceSummary:
    """A device that worked all the time."""
    row = DeviceRow("d", int(to_s * S), Causes(kernel_ns=int(to_s * S)))
    return TraceSummary("full", TimeWindow(0, int(to_s * S)), devices=(row,))


def throttled_s(summary: TraceSummary) -> float:
    return summary.devices[0].causes.throttled_ns / S


def job(folder: Path, driver: Driver, *, adopted: bool = True) -> JobThrottles:
    made = JobThrottles(RECORD, folder, 0, driver)
    made.start(adopted=adopted)
    made.read(quotas_alone=True)
    return made


def test_it_grows_with_the_job_and_is_final_at_its_end(tmp_path: Path) -> None:
    driver = Driver()
    made = job(tmp_path, driver)
    driver.at_ns, driver.ns = S, S // 2
    made.read()
    made.worked(folded(1))
    assert throttled_s(made.applied(folded(1))) == 0.5
    made.keep()
    assert (tmp_path / FILE).exists()
    made.end(folded(2))
    assert throttled_s(made.applied(folded(2))) == 1.0
    assert not (tmp_path / FILE).exists()


def test_another_agent_goes_on_where_the_first_one_stopped(tmp_path: Path) -> None:
    driver = Driver()
    first = job(tmp_path, driver)
    driver.at_ns, driver.ns = S, S
    first.read()
    first.worked(folded(1))
    first.keep()
    driver.at_ns, driver.ns = 3 * S, 3 * S
    then = job(tmp_path, driver)
    driver.at_ns, driver.ns = 4 * S, 4 * S
    then.worked(folded(3))
    then.read()
    then.end(folded(4))
    row = then.applied(folded(4)).devices[0]
    assert row.causes.throttled_ns == 2 * S
    assert row.throttle is not None and row.throttle.error_ns == 2 * S  # nobody read it for 2 s


def test_a_job_that_this_agent_started_has_nothing_to_continue(tmp_path: Path) -> None:
    driver = Driver()
    first = job(tmp_path, driver)
    driver.at_ns, driver.ns = S, S
    first.read()
    first.worked(folded(1))
    first.keep()
    then = job(tmp_path, driver, adopted=False)
    assert throttled_s(then.applied(folded(1))) == 0


def test_a_job_that_ends_before_the_first_drain_reads_no_counter(tmp_path: Path) -> None:
    driver = Driver("quota")
    JobThrottles(RECORD, tmp_path, 0, driver).start(adopted=False)
    assert driver.reads == 0


@pytest.mark.parametrize(("ns", "unread_s"), [(0, 0), (S // 2, 1)])
def test_a_late_first_reading_says_what_was_before_if_it_is_none(
    tmp_path: Path, ns: int, unread_s: int
) -> None:
    driver = Driver("quota")
    driver.at_ns, driver.ns = S, ns
    made = job(tmp_path, driver, adopted=False)
    made.worked(folded(1))
    driver.at_ns = 2 * S
    made.read(quotas_alone=True)
    made.end(folded(2))
    row = made.applied(folded(2)).devices[0]
    assert row.throttle is not None and row.throttle.error_ns == unread_s * S
    assert row.causes.throttled_ns == 0


@pytest.mark.parametrize("text", [b"", b"\xff\xff", b"\x01"])
def test_a_file_that_says_nothing_is_as_good_as_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / FILE).write_bytes(text)
    made = job(tmp_path, Driver())
    made.end(folded(1))
    assert throttled_s(made.applied(folded(1))) == 0


def test_a_quota_whose_group_is_gone_with_the_job_keeps_its_last_word(tmp_path: Path) -> None:
    driver = Driver("quota")
    made = job(tmp_path, driver)
    driver.at_ns, driver.ns = S, S // 2
    made.read(quotas_alone=True)
    driver.at_ns, driver.ns = 2 * S, 0
    made.read(quotas_alone=True)
    made.end(folded(1))
    assert throttled_s(made.applied(folded(1))) == 0.5


def test_drivers_are_read_once_a_second_and_quotas_with_every_drain(tmp_path: Path) -> None:
    for source, reads in (("counter", 1), ("quota", 2)):
        driver = Driver(source)  # type: ignore[arg-type]
        made = job(tmp_path, driver)
        made.read(quotas_alone=True)
        assert driver.reads == reads


def test_a_device_that_says_nothing_has_its_reason_in_the_trace(tmp_path: Path) -> None:
    driver = Driver()
    driver.silent = True
    made = job(tmp_path, driver)
    made.end(folded(1))
    assert made.applied(folded(1)).absent["causes.throttled_ns"].startswith("d: it is gone")
