# SPDX-License-Identifier: Apache-2.0
"""The record of boots tells if a scheduler before this process may have answered nodes."""

from __future__ import annotations

from pathlib import Path

from stoker.mesh.replica.replica_settings import NEVER
from stoker.mesh.server.boot_record import began_ns


def test_only_a_process_of_this_boot_can_have_answered(tmp_path: Path) -> None:
    assert began_ns(tmp_path, "boot-1", 100) == NEVER
    assert began_ns(tmp_path, "boot-1", 200) == 200
    assert began_ns(tmp_path, "boot-2", 300) == NEVER
    assert began_ns(tmp_path, "boot-2", 400) == 400
