# SPDX-License-Identifier: Apache-2.0
"""The number of a node in one boot: kept over restarts, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import node_instance
from stoker.native.errors import Refused


def test_a_restart_keeps_it_and_a_reboot_or_a_lost_folder_does_not(tmp_path: Path) -> None:
    path = tmp_path / "instance"
    first = node_instance.of_boot(path, "boot-1")
    assert node_instance.of_boot(path, "boot-1") == first
    second = node_instance.of_boot(path, "boot-2")
    assert second != first and node_instance.of_boot(path, "boot-2") == second
    path.unlink()
    assert node_instance.of_boot(path, "boot-2") not in (first, second)


@pytest.mark.parametrize("torn", [b"", b"boot-1", b"boot-1 12x", b"boot-1 1 2", b"\xff\xfe"])
def test_a_torn_record_is_drawn_anew(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "instance"
    path.write_bytes(torn)
    drawn = node_instance.of_boot(path, "boot-1")
    assert 0 <= drawn < 1 << 63 and node_instance.of_boot(path, "boot-1") == drawn


def test_a_number_that_cannot_be_stored_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="instance"):
        node_instance.of_boot(tmp_path / "none" / "instance", "boot-1")
