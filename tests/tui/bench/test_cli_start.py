# SPDX-License-Identifier: Apache-2.0
"""The bench of the command line: its figures, and one real round at a broker and a scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import StokerError
from stoker.tui.bench import brokers, cli_start, leader_submits
from stoker.tui.bench.cli_start import Took

MS = 1_000_000


def test_the_best_run_is_compared_with_the_best_of_the_interpreter() -> None:
    bare, version = cli_start.rows(
        {
            "python": [Took(30 * MS, 10 * MS), Took(20 * MS, 15 * MS)],
            "version": [Took(80 * MS, 70 * MS), Took(90 * MS, 50 * MS)],
        }
    )
    assert (bare.best_ms, bare.p50_ms, bare.ratio, bare.cpu_ratio) == (20.0, 20.0, 1.0, 1.0)
    assert (version.runs, version.best_ms, version.ratio) == (2, 80.0, 4.0)
    assert (version.cpu_ms, version.cpu_ratio) == (50.0, 5.0)


def test_a_round_runs_every_command_to_a_good_end(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    with brokers.running(tmp_path, 1) as (broker,), leader_submits.running(broker):
        found = cli_start.timed(broker, tmp_path, 1, lambda words: None)
    assert [row.kind for row in found.rows] == [cli_start.PYTHON, *cli_start.COMMANDS]
    assert all(row.runs == 1 and row.ratio > 0 for row in found.rows)
    assert cli_start.text(found).count(" x  p50 ") == 4


def test_a_command_that_fails_gives_no_figure() -> None:
    with pytest.raises(StokerError, match="no such"):
        cli_start._run(("/bin/sh", "-c", "echo no such >&2; exit 3"), {})
