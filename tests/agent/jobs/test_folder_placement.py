# SPDX-License-Identifier: Apache-2.0
"""The hint that spreads the folders of jobs over the disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.agent.jobs import folder_placement


def attributes(folder: Path) -> str:
    """The letters that lsattr prints for a folder, empty if its file system has none."""
    if shutil.which("lsattr") is None:
        pytest.skip("lsattr, which names the attributes, is not installed")
    done = subprocess.run(["lsattr", "-d", folder], capture_output=True, text=True, check=False)
    return done.stdout.split(" ")[0]


def test_the_hint_is_the_attribute_of_unrelated_folders(tmp_path: Path) -> None:
    before = attributes(tmp_path)
    taken = folder_placement.spread(tmp_path)
    after = attributes(tmp_path)
    assert ("T" in after) == taken
    assert set(before) - {"-"} <= set(after), "another attribute was cleared"
    assert folder_placement.spread(tmp_path) == taken


def test_a_file_system_without_the_hint_is_left_alone(tmp_path: Path) -> None:
    assert not folder_placement.spread(Path("/proc/self"))
    assert not folder_placement.spread(tmp_path / "missing")
    (tmp_path / "link").symlink_to(tmp_path)
    assert not folder_placement.spread(tmp_path / "link")
