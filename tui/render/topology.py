# SPDX-License-Identifier: Apache-2.0
"""The links between the devices of a node, as a matrix of text.

Pure: the reply of the mesh in, text out. Simulated devices are marked as SIM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.tui.render import text

Row = Mapping[str, Any]
LEGEND = (
    "X self  NV# # NVLinks  XGMI, XE direct links  PIX one PCIe switch at most",
    "PXB several  PHB one host bridge  NODE host bridges of one NUMA node",
    "SYS across NUMA nodes  ? not known, as the NUMA node of one is not",
)


def render(view: Row, devices: Sequence[Row] = ()) -> str:
    """The matrix of links as `nvidia-smi topo -m` prints it, with NUMA nodes and their CPUs.

    A device is called by its index where it has one; below the matrix stands its name.
    """
    known = {str(device["id"]): device for device in devices}
    names = [str(name) for name in view["names"]]
    short = [str(known[name]["index"]) if name in known else _short(name) for name in names]
    sim = view.get("sim") or ()
    said = [f"SIM: {len(sim)} of these devices are simulated"] if sim else []
    meant = [
        text.clean(f"{s} = {name}{_what(known.get(name), name in sim)}")
        for s, name in zip(short, names, strict=True)
        if s != name
    ]
    return "\n".join([*_matrix(view, short), "", *said, *LEGEND, *meant]) + "\n"


def _matrix(view: Row, short: Sequence[str]) -> list[str]:
    numa = ["-" if node is None else str(node) for node in view["numa"]]
    rows = [["", *short, "NUMA", "CPUS"]]
    for name, cells, node, cpus in zip(short, view["matrix"], numa, view["cpus"], strict=True):
        rows.append([name, *map(str, cells), node, str(cpus) or "-"])
    widths = [max(text.cells(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(text.fit(text.clean(c), w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _what(device: Row | None, sim: bool) -> str:
    words = [str(device["model"])] if device else []
    return "".join(f"  {word}" for word in (*words, *(["SIM"] if sim else [])))


def _short(name: str) -> str:
    """The beginning of a UUID, so that a matrix of eight fits on a screen."""
    return name if len(name) <= 12 else name[:11] + "…"
