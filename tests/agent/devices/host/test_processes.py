# SPDX-License-Identifier: Apache-2.0
"""Processes by /proc: those of this node's jobs."""

from __future__ import annotations

from pathlib import Path

from stoker.agent.devices.host import processes


def test_ours_is_told_by_cgroup_or_without_them_by_environment(tmp_path: Path) -> None:
    folder = tmp_path / "77"
    folder.mkdir()
    (folder / "cgroup").write_text("0::/stoker-0011aabb/jobs/3.1\n")
    (folder / "environ").write_bytes(b"HOME=/\0STOKER_JOB_ID=3\0")
    assert processes.in_jobs(77, "0011aabb", cgroups=True, proc=tmp_path)
    assert not processes.in_jobs(77, "ffffffff", cgroups=True, proc=tmp_path)
    assert processes.in_jobs(77, "ffffffff", cgroups=False, proc=tmp_path)
    (folder / "environ").write_bytes(b"NOT_STOKER_JOB_ID=3\0")
    assert not processes.in_jobs(77, "ffffffff", cgroups=False, proc=tmp_path)
    assert not processes.in_jobs(78, "0011aabb", cgroups=True, proc=tmp_path)
