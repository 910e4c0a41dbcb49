# SPDX-License-Identifier: Apache-2.0
"""The matrix of links: its legend, names and SIM marks."""

from __future__ import annotations

from stoker.tui.render import topology


def test_the_topology_is_a_matrix_with_a_legend() -> None:
    shown = topology.render(
        {
            "names": ["GPU-aaaaaaaaaaaaaa", "mlx5_0"],
            "matrix": [["X", "PIX"], ["PIX", "X"]],
            "numa": [0, None],
            "cpus": ["0-31", ""],
            "sim": ["GPU-aaaaaaaaaaaaaa"],
        }
    ).splitlines()
    assert shown[0].split() == ["GPU-aaaaaaa…", "mlx5_0", "NUMA", "CPUS"]
    assert shown[1].split() == ["GPU-aaaaaaa…", "X", "PIX", "0", "0-31"]
    assert shown[2].split() == ["mlx5_0", "PIX", "X", "-", "-"]
    assert any(line.startswith("SIM: 1") for line in shown)
    assert "GPU-aaaaaaa… = GPU-aaaaaaaaaaaaaa  SIM" in shown


def test_devices_of_a_topology_are_called_by_their_index() -> None:
    card = {"id": "GPU-aaaaaaaaaaaaaa", "index": 3, "model": "NVIDIA H200"}
    matrix = {"matrix": [["X", "PIX"], ["PIX", "X"]], "numa": [0, None], "cpus": ["0-31", ""]}
    names = {"names": [card["id"], "mlx5_0"], "sim": []}
    shown = topology.render({**names, **matrix}, [card]).splitlines()
    assert shown[0].split() == ["3", "mlx5_0", "NUMA", "CPUS"]
    assert shown[-1] == "3 = GPU-aaaaaaaaaaaaaa  NVIDIA H200"
