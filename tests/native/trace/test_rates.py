# SPDX-License-Identifier: Apache-2.0
"""The program that measures drain and fold: what it says adds up, and it leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from stoker.native import paths

RATES = (
    "fold_events_per_s",
    "fold_with_timeline_events_per_s",
    "drain_events_per_s",
    "ring_events_per_s",
    "ring_paced_events_per_s",
)


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    program = paths.program("stoker-bench-fold")
    return subprocess.run([program, *argv], capture_output=True, text=True, check=False, timeout=60)


def measured(folder: Path) -> dict[str, float]:
    """Return the figures of the shortest time in which every part of the program came to run."""
    for seconds in ("0.02", "0.2", "2"):
        done = run(seconds, folder)
        assert done.returncode == 0, done.stderr
        found: dict[str, float] = json.loads(done.stdout)
        if all(found[rate] > 0 for rate in RATES):
            return found
    raise AssertionError(found)


def test_every_record_is_accounted_for(tmp_path: Path) -> None:
    found = measured(tmp_path)
    assert found["made"] == found["folded"] + found["dropped"] > 0
    assert found["dropped"] == found["ring_paced_dropped"]
    assert not list(tmp_path.iterdir())


def test_it_says_what_it_cannot_do(tmp_path: Path) -> None:
    assert "make a folder" in run("0.02", tmp_path / "nowhere").stderr
    assert run("0").returncode == 1
