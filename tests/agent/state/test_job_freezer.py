# SPDX-License-Identifier: Apache-2.0
"""A node says whether it can freeze jobs, and the agent freezes where no watchdog looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.state.job_freezer import LATE_NS, JobFreezer
from stoker.agent.state.lease import (
    _WATCHDOG_FLAGS,
    _WATCHDOG_SEEN,
    FREEZE_FAILED,
    MOST_NS,
    NO_CGROUP,
    STALE_NS,
    Lease,
)

NOW = 100 * MOST_NS


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    with Lease.open(tmp_path / "lease") as lease:
        yield lease


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "cgroup.freeze").write_text("0\n")
    return folder


def frozen(jobs: Path) -> bool:
    return (jobs / "cgroup.freeze").read_text().strip() == "1"


def test_every_reason_why_jobs_cannot_be_frozen(lease: Lease, jobs: Path) -> None:
    freezer = JobFreezer(jobs, lease)
    assert JobFreezer(None, lease).why_not(NOW) == "jobs have no cgroups here"
    assert freezer.why_not(NOW) == "the watchdog does not look"
    lease._view[_WATCHDOG_SEEN] = NOW - LATE_NS
    assert freezer.why_not(NOW) == ""
    assert freezer.why_not(NOW + 1) == "the watchdog does not look"
    lease._view[_WATCHDOG_FLAGS] = NO_CGROUP
    assert freezer.why_not(NOW) == "the watchdog has no cgroup of jobs"
    lease._view[_WATCHDOG_FLAGS] = FREEZE_FAILED
    assert freezer.why_not(NOW) == "a freeze was refused"
    (jobs / "cgroup.freeze").unlink()
    assert "Linux 5.2" in freezer.why_not(NOW)


def test_without_a_watchdog_the_agent_freezes_at_the_end_of_the_lease(
    lease: Lease, jobs: Path
) -> None:
    freezer = JobFreezer(jobs, lease)
    lease.renew(NOW)
    assert not freezer.look(NOW - 1) and not frozen(jobs)
    assert freezer.look(NOW) and frozen(jobs)
    assert not freezer.look(NOW + 1)  # once is enough
    (jobs / "cgroup.freeze").unlink()
    assert not freezer.look(NOW + 2)


def test_a_watchdog_that_looks_is_left_to_freeze(lease: Lease, jobs: Path) -> None:
    freezer = JobFreezer(jobs, lease)
    lease.renew(NOW)
    lease._view[_WATCHDOG_SEEN] = NOW
    assert not freezer.look(NOW + STALE_NS) and not frozen(jobs)
    assert freezer.look(NOW + STALE_NS + 1) and frozen(jobs)


def test_before_the_first_lease_there_is_nothing_to_freeze(lease: Lease, jobs: Path) -> None:
    assert not JobFreezer(jobs, lease).look(NOW)
    assert not JobFreezer(None, lease).look(NOW)
