# SPDX-License-Identifier: Apache-2.0
"""A stand-in for `pynvml` with two GPUs, whose calls can be made to fail by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """The binding's exception, with NVML's own words."""


class Nvml:
    """The module. `fails`: function -> the words that it raises, or `absent` for no such
    function."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError

    def __init__(self, count: int = 2, fails: dict[str, str] | None = None) -> None:
        self.count = count
        self.fails = fails or {}
        self.processes: dict[int, list[int]] = {}

    def __getattribute__(self, name: str) -> Any:
        fails = object.__getattribute__(self, "__dict__").get("fails", {})
        if name in fails:
            if fails[name] == "absent":
                raise AttributeError(name)
            return _raises(fails[name])
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return b"GPU-0000000%d" % handle  # old bindings return bytes

    def nvmlDeviceGetMinorNumber(self, handle: int) -> int:
        return handle + 4

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=150 << 30, free=149 << 30, used=1 << 30)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=b"00000000:3%X:00.0" % handle)

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, index: int) -> int:
        return 0 if one // 2 == other // 2 else 5  # pairs are linked

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return 10 if one // 4 == other // 4 else 40  # four behind one switch

    def nvmlDeviceGetFieldValues(self, handle: int, wanted: Any) -> Any:
        raise NVMLError("Not Supported")

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 75_500

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 41

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=37, memory=2)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.processes.get(handle, ())]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        return []

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: int) -> list[Any]:
        return self.nvmlDeviceGetGraphicsRunningProcesses(handle)


def _raises(text: str) -> Any:
    def call(*_: Any) -> Any:
        raise NVMLError(text)

    return call
