# SPDX-License-Identifier: Apache-2.0
"""Processes with a context on one NVIDIA GPU: memory and share of its time.

Relied on by `nvidia_card.py`. A driver older than the binding's structures is asked with the older
function. Utilisation samples are of the time since they were last asked for, or NVML's window
would be undefined.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvml import ask, first
from stoker.agent.devices.readings import Absent, Field, Reading

LISTED = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
OLDER = ("", "_v3", "_v2")
LOOK_BACK_US = 2_000_000
"""Before the first answer there is no last sample to ask from; nvitop looks back so far as well."""
PROCESSES_MAX = 256


class Processes:
    """All processes of one GPU."""

    def __init__(self, nvml: Any, handle: Any, root: Path) -> None:
        self._nvml, self._handle, self._proc = nvml, handle, root / "proc"
        self._last_us = 0
        self._share: dict[int, float] = {}

    def read(self, calls: Calls | None) -> tuple[Field, tuple[int, ...]]:
        """A list of {pid, kind, name, memory_bytes, busy_ratio}, and the pids alone."""
        found: list[dict[str, Any]] = []
        absent: Absent | None = None
        for name, kind in zip(LISTED, ("compute", "graphics"), strict=True):
            names = [name + suffix for suffix in OLDER]
            listed = first(self._nvml, calls, names, self._handle)
            if isinstance(listed, Absent):
                absent = absent or listed
                continue
            found += [self._row(each, kind) for each in listed[:PROCESSES_MAX]]
        pids = tuple(dict.fromkeys(row["pid"] for row in found))
        if absent is not None and not found:
            return absent, pids
        if pids and calls is not None:
            self._utilisation(calls)
        for row in found:
            row["busy_ratio"] = self._share.get(row["pid"])
        return Reading(found, "", calls.now() if calls else time.time_ns()), pids

    def _row(self, process: Any, kind: str) -> dict[str, Any]:
        pid = int(process.pid)
        used = getattr(process, "usedGpuMemory", None)
        return {"pid": pid, "kind": kind, "name": name_of(pid, self._proc), "memory_bytes": used}

    def _utilisation(self, calls: Calls) -> None:
        since = self._last_us or time.time_ns() // 1000 - LOOK_BACK_US
        name = "nvmlDeviceGetProcessUtilization"
        samples = ask(self._nvml, name, self._handle, since, calls=calls)
        if isinstance(samples, Absent):
            return
        self._share = {}
        for each in samples:
            if each.pid:
                self._share[each.pid] = each.smUtil / 100
                self._last_us = max(self._last_us, each.timeStamp)


def name_of(pid: int, proc: Path) -> str | None:
    """What the kernel calls the process; None for one that is gone, or in another namespace."""
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return None
