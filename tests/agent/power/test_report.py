# SPDX-License-Identifier: Apache-2.0
"""The status of the power loop: written when it changes, and told again while it holds."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stoker.agent.power import status
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.report import PowerReport


def told(why: str) -> status.Status:
    return status.Status(time.time_ns(), "observe", why, PowerRules(), None)


def test_a_status_that_holds_is_told_again_and_not_written(tmp_path: Path) -> None:
    report, path = PowerReport(tmp_path), tmp_path / status.NAME
    report.write(told("calm"))
    written = path.stat().st_ino
    os.utime(path, ns=(0, 0))
    report.write(told("calm"))
    assert path.stat().st_ino == written
    later_ns = time.time_ns() + 60_000_000_000
    os.utime(path, ns=(later_ns, later_ns))
    assert status.read(tmp_path).t_ns == later_ns, "the file says when it was told last"
    report.write(told("other"))
    assert status.read(tmp_path).why == "other"


def test_a_file_that_is_gone_is_written_again(tmp_path: Path) -> None:
    report = PowerReport(tmp_path)
    report.write(told("calm"))
    (tmp_path / status.NAME).unlink()
    report.write(told("calm"))
    assert status.read(tmp_path).why == "calm"
