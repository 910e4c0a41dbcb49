# SPDX-License-Identifier: Apache-2.0
"""The place in the kernel's log up to which an agent read, handed from one agent to the next."""

from __future__ import annotations

from pathlib import Path

from stoker.agent.health.log_place import NAME, LogPlace


def test_a_place_holds_in_its_boot_alone(tmp_path: Path) -> None:
    place = LogPlace(tmp_path, "boot")
    assert place.sequence is None and place.store()
    assert not (tmp_path / NAME).exists()
    place.sequence = 41
    assert place.store()
    assert LogPlace(tmp_path, "boot").sequence == 41
    assert LogPlace(tmp_path, "another").sequence is None


def test_a_damaged_place_is_none_and_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    assert LogPlace(tmp_path, "boot").sequence is None
    place = LogPlace(tmp_path / "missing", "boot")
    place.sequence = 1
    assert not place.store()
