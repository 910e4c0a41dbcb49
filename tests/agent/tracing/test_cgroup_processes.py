# SPDX-License-Identifier: Apache-2.0
"""A cgroup that is not there has no processes."""

from __future__ import annotations

from pathlib import Path

from stoker.agent.tracing.cgroup_processes import is_frozen, processes_of


def test_a_group_that_is_gone_has_no_processes(tmp_path: Path) -> None:
    assert processes_of(tmp_path / "none") == []
    assert not is_frozen(tmp_path / "none")
