# SPDX-License-Identifier: Apache-2.0
"""The agent's word on its sites: whole, of this boot, and not old."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from stoker.probes.calls import site_report
from stoker.probes.calls.call_records import CallState
from stoker.probes.calls.site_report import BELIEVED_NS, load, save
from stoker.probes.catalogue import ProbeState

PROBE = ProbeState("calls.uprobe", "attached", "")
STATE = CallState("cuda.cuLaunchKernel", 7, "/l", "sampled", "dear", "push", None, 10_000, 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / "sites.json", PROBE, [STATE], {"calls.key": 3})
    return tmp_path / "sites.json"


def test_what_was_written_is_read(path: Path) -> None:
    report = load(path)
    assert report is not None
    assert (report.probe, report.states, report.dropped) == (PROBE, [STATE], {"calls.key": 3})
    assert [each.name for each in path.parent.iterdir()] == ["sites.json"]


def test_an_old_word_another_boot_and_damage_are_not_believed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now + BELIEVED_NS + 10**9)
    assert load(path) is None
    monkeypatch.setattr(time, "monotonic_ns", lambda: 0)  # from the future
    assert load(path) is None
    monkeypatch.setattr(time, "monotonic_ns", lambda: now + 1)
    monkeypatch.setattr(site_report, "boot_id", lambda: "another")
    assert load(path) is None
    monkeypatch.undo()
    path.write_bytes(msgspec.json.encode({"boot_id": 3}))
    assert load(path) is None
    path.unlink()
    assert load(path) is None
