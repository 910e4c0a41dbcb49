# SPDX-License-Identifier: Apache-2.0
"""A shortage of the node is in its first report, and in the next one as soon as a launch fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stoker.agent.health.shortage import DiskReserve
from stoker.agent.jobs.steps import Event, Reported
from stoker.agent.process.node_shortage import NodeShortage, file_systems


class Telemetry:
    """A telemetry that makes a report of whatever changes."""

    def __init__(self) -> None:
        self.refused = ""

    def refuse(self, why: str) -> Any:
        changed, self.refused = why != self.refused, why
        return f"report: {why}" if changed else None


def test_a_file_system_is_named_once_by_its_first_folder(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    found = list(file_systems((tmp_path, tmp_path / "jobs", tmp_path / "gone")))
    assert [each.place for each in found] == [str(tmp_path), str(tmp_path / "gone")]
    assert found[0].size >= found[0].free > 0 and found[0].why == ""
    assert found[1].why == "No such file or directory"


def test_a_launch_that_fails_is_reported_at_once_and_once(tmp_path: Path) -> None:
    telemetry, posted = Telemetry(), list[Event]()
    watch = NodeShortage((tmp_path,), DiskReserve(0, 0), telemetry, posted.append)  # type: ignore[arg-type]
    watch.begin()
    assert telemetry.refused == "" == watch.why
    watch.failed("no process")
    watch.failed("no process")
    assert watch.why == telemetry.refused == "no process; it takes no jobs for 10 s"
    assert posted == [Reported(f"report: {watch.why}")]  # type: ignore[arg-type]
    assert watch.counters == {"launch_failed": 2, "shortages": 1}


def test_what_is_short_at_the_start_is_in_the_first_report(tmp_path: Path) -> None:
    telemetry = Telemetry()
    watch = NodeShortage((tmp_path / "gone",), DiskReserve(), telemetry, [].append)  # type: ignore[arg-type]
    watch.begin()
    assert telemetry.refused == f"{tmp_path}/gone cannot be read: No such file or directory"
