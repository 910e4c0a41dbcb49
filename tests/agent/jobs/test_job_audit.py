# SPDX-License-Identifier: Apache-2.0
"""Notices of the kernel are logged and counted."""

from __future__ import annotations

from structlog.testing import capture_logs

from stoker.agent.jobs.job_audit import PAIRS_MAX, Audit
from stoker.probes.host.notices import Notice


def opened(job: int, minor: int) -> Notice:
    return Notice("device_open", 5, job, 41, 42, "python", device=(195, minor), access="rw")


def audit() -> tuple[Audit, dict[str, int]]:
    counters: dict[str, int] = {}
    return Audit(counters, {1001: 7}.get), counters


def test_every_critical_notice_is_a_line_with_its_job() -> None:
    subject, counters = audit()
    kill = Notice("signal", 5, 1001, 41, 42, "python", signal=9, from_pid=3, from_comm="kill")
    with capture_logs() as lines:
        subject.take([kill, kill])
    assert [line["log_level"] for line in lines] == ["warning"] * 2
    assert (lines[0]["job"], lines[0]["cgroup"], lines[0]["signal"]) == (7, 1001, 9)
    assert (lines[0]["from_pid"], lines[0]["from_comm"]) == (3, "kill")
    assert "xid" not in lines[0]
    assert counters["seen_signal"] == 2
    assert counters["seen_oom_kill"] == 0  # named from the start


def test_of_one_job_and_device_the_first_open_is_a_line() -> None:
    subject, counters = audit()
    with capture_logs() as lines:
        subject.take([opened(1001, 0), opened(1001, 0), opened(1001, 1), opened(1002, 0)])
        subject.take([opened(1002, 0)])
    said = [(line.get("job"), line["cgroup"], line["device"]) for line in lines]
    assert said == [(7, 1001, (195, 0)), (7, 1001, (195, 1)), (None, 1002, (195, 0))]
    assert counters["seen_device_open"] == 5


def test_the_memory_of_opens_is_bounded() -> None:
    subject, _ = audit()
    with capture_logs() as lines:
        subject.take([opened(job, 0) for job in range(PAIRS_MAX + 1)])
        subject.take([opened(PAIRS_MAX, 0), opened(0, 0)])
    assert len(lines) == PAIRS_MAX + 2
