# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of a simulated node (SIM): files as sysfs has them, beside the file of the node.

They map the NUMA nodes of the cards' profile to CPUs that this machine has, so that jobs are bound
for real. Without them the NUMA nodes of the machine itself count.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

NODES: Final = Path("sys/devices/system/node")


def write(folder: Path, nodes: Mapping[int, str]) -> None:
    """Write the list of CPUs of each NUMA node below the folder of a simulated node."""
    for number, cpus in nodes.items():
        at = folder / NODES / f"node{number}"
        at.mkdir(parents=True, exist_ok=True)
        (at / "cpulist").write_text(f"{cpus}\n", encoding="ascii")
