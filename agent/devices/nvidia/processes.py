# SPDX-License-Identifier: Apache-2.0
"""Processes with a context on one NVIDIA GPU, as a scan lists them.

A driver that is older than the binding's structures has the older function.
"""

from __future__ import annotations

from typing import Any

from stoker.agent.devices.nvidia.nvml import first
from stoker.agent.devices.readings import Absent

LISTED = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
OLDER = ("", "_v3", "_v2")


def pids_on(nvml: Any, handle: Any) -> tuple[int, ...]:
    """Process ids, each once."""
    found: dict[int, None] = {}
    for name in LISTED:
        listed = first(nvml, None, [name + suffix for suffix in OLDER], handle)
        for each in () if isinstance(listed, Absent) else listed:
            found[int(each.pid)] = None
    return tuple(found)
