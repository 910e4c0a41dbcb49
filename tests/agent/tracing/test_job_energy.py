# SPDX-License-Identifier: Apache-2.0
"""The energy of a job: the difference of two readings, also over two agents, or the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.devices.readings import Absent, CardReadings, Reading
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing import job_energy
from stoker.agent.tracing.job_energy import FILE, JobEnergy
from stoker.probes.kernels.trace_summary import (
    Causes,
    DeviceEnergy,
    DeviceRow,
    TimeWindow,
    TraceSummary,
)

S = 1_000_000_000
RECORD = StartRecord(7, 1, 0, 0, 0, 0, 5.0, "full", 1000, ("d",))
SUMMARY = TraceSummary(
    "full", TimeWindow(0, S), devices=(DeviceRow("d", S, Causes()), DeviceRow("x", S, Causes()))
)


class Driver:
    """A driver whose counter a test sets."""

    def __init__(self) -> None:
        self.found: Reading | Absent = Reading(100.0, "J", 5 * S)

    def read(self, device: str) -> Reading | Absent:
        return self.found


def energy(job: JobEnergy) -> DeviceEnergy | None:
    held, other = job.applied(SUMMARY).devices
    assert other.energy is None, "it is no device of the job"
    return held.energy


def test_it_is_what_the_counter_grew_by_since_the_job_was_first_seen(tmp_path: Path) -> None:
    driver = Driver()
    job = JobEnergy(RECORD, tmp_path, driver.read, adopted=False)
    job.look()
    driver.found = Reading(450.0, "J", 8 * S)
    job.look()
    assert energy(job) == DeviceEnergy(350.0, 3 * S)


def test_another_agent_goes_on_from_the_first_reading_and_the_end_leaves_no_file(
    tmp_path: Path,
) -> None:
    driver = Driver()
    JobEnergy(RECORD, tmp_path, driver.read, adopted=False).look()
    driver.found = Reading(450.0, "J", 8 * S)
    anew = JobEnergy(RECORD, tmp_path, driver.read, adopted=False)
    why = "its counter was read over 0 s of 1 s alone"
    assert energy(anew) == DeviceEnergy(absent=why), "a new attempt in that folder begins anew"
    (tmp_path / FILE).unlink()
    driver.found = Reading(100.0, "J", 5 * S)
    JobEnergy(RECORD, tmp_path, driver.read, adopted=False).look()
    driver.found = Reading(450.0, "J", 8 * S)
    job = JobEnergy(RECORD, tmp_path, driver.read, adopted=True)
    assert energy(job) == DeviceEnergy(350.0, 3 * S)
    job.end()
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Absent("GPU is lost"), "GPU is lost"),
        (Reading(3.0, "J", 8 * S), "its counter began anew during the job"),
    ],
)
def test_what_is_not_known_has_its_reason(now: Reading | Absent, why: str, tmp_path: Path) -> None:
    driver = Driver()
    job = JobEnergy(RECORD, tmp_path, driver.read, adopted=False)
    job.look()
    driver.found = now
    assert energy(job) == DeviceEnergy(absent=why)


def test_a_device_without_a_driver_or_a_counter_says_so() -> None:
    assert job_energy.source_of(lambda device: None)("d") == Absent("no driver is read for it")
    plain = CardReadings("d", 1, {})
    read = job_energy.source_of(lambda device: plain)
    assert read("d") == Absent("its driver has no counter of energy")
    gone = CardReadings("d", 1, {}, state="lost", why="off the bus")
    assert job_energy.source_of(lambda device: gone)("d") == Absent(
        "its driver does not answer: off the bus"
    )
