# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes of this machine, for the devices that are attached to them: CPUs and memory.

Reads sysfs below a root that tests choose. Invariant: a device of which the NUMA node, or a CPU of
it that jobs may have, is not known gets the reason and no CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stoker.scheduler.nouns import DeviceInfo
from stoker.scheduler.numa_plan import cpu_list, cpu_numbers

NODES = Path("sys/devices/system/node")
NUMA_NODES_MAX = 1024
SIM_NODE = "STOKER_SIM_NODE"
"""The variable with the file of a simulated node, beside which its NUMA nodes are."""
NONE_TOLD = "neither its driver nor sysfs tells its NUMA node"
NO_PCI = "it is the CPU, which is in all NUMA nodes"


class NumaNodes(msgspec.Struct, frozen=True):
    """The NUMA nodes by number. `allowed` and `memory`: the CPUs and memory that jobs may have."""

    cpus: Mapping[int, frozenset[int]] = msgspec.field(default_factory=dict)
    allowed: frozenset[int] = frozenset()
    memory: frozenset[int] = frozenset()
    simulated: Mapping[int, frozenset[int]] = msgspec.field(default_factory=dict)
    """The NUMA nodes of simulated cards (SIM) where the simulation has its own."""

    def placed(self, device: DeviceInfo) -> DeviceInfo:
        """Return the device with the CPUs and memory beside it, or with the reason against it."""
        why, cpus = self._cpus(device)
        if why:
            return msgspec.structs.replace(device, numa_why=why)
        return msgspec.structs.replace(
            device, near_cpus=cpu_list(cpus), near_memory=device.numa in self.memory
        )

    def _cpus(self, device: DeviceInfo) -> tuple[str, frozenset[int]]:
        none: frozenset[int] = frozenset()
        if device.numa is None:
            return (NO_PCI if device.kind == "cpu" else NONE_TOLD), none
        known = self.simulated if device.sim and self.simulated else self.cpus
        if device.numa not in known:
            return f"NUMA node {device.numa} is not on this machine", none
        cpus = known[device.numa] & self.allowed
        return ("" if cpus else f"no CPU of NUMA node {device.numa} is for jobs"), cpus


def read(root: Path = Path("/"), variables: Mapping[str, str] | None = None) -> NumaNodes:
    """Return the NUMA nodes of this machine, as far as this process may use them."""
    found = os.environ if variables is None else variables
    simulated = Path(found[SIM_NODE]).parent if found.get(SIM_NODE) else None
    return NumaNodes(
        _cpus_of(root / NODES),
        frozenset(os.sched_getaffinity(0)),
        _numbers(root / NODES / "has_memory") & _allowed_memory(root),
        _cpus_of(simulated / NODES) if simulated is not None else {},
    )


def _cpus_of(folder: Path) -> dict[int, frozenset[int]]:
    found: dict[int, frozenset[int]] = {}
    for path in sorted(folder.glob("node[0-9]*"))[:NUMA_NODES_MAX]:
        number = path.name.removeprefix("node")
        if number.isdecimal():
            found[int(number)] = _numbers(path / "cpulist")
    return found


def _numbers(path: Path) -> frozenset[int]:
    try:
        return cpu_numbers(path.read_text())
    except (OSError, ValueError):
        return frozenset()


def _allowed_memory(root: Path) -> frozenset[int]:
    """Return the memory nodes of this process's cgroup."""
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
    except OSError:
        return frozenset()
    told = [line.partition(":")[2] for line in lines if line.startswith("Mems_allowed_list:")]
    return cpu_numbers(told[0]) if told else frozenset()
