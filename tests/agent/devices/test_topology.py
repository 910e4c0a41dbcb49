# SPDX-License-Identifier: Apache-2.0
"""Groups of neighbours, and the kernel's word on NUMA."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.devices.topology import groups, numa_node


def test_groups_are_numbered_from_one_and_loners_are_in_none() -> None:
    near = {(1, 2), (4, 7), (0, 4)}
    found = groups(range(8), lambda a, b: (a, b) in near or (b, a) in near)
    assert found == [1, 2, 2, 0, 1, 0, 0, 1]
    assert groups([], lambda a, b: True) == []
    assert groups(["x"], lambda a, b: True) == [0]


def test_neighbours_of_neighbours_are_neighbours_in_any_order() -> None:
    assert groups([3, 0, 2, 1], lambda a, b: abs(a - b) == 1) == [1, 1, 1, 1]


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None)])
def test_numa_node_of_a_pci_function(tmp_path: Path, text: str, node: int | None) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    assert numa_node("00000000:3B:00.0", tmp_path) == node
    assert numa_node("00000000:3C:00.0", tmp_path) is None
