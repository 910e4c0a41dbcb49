# SPDX-License-Identifier: Apache-2.0
"""The traits of an NVIDIA GPU that a job may ask for: architecture, compute capability, driver."""

from __future__ import annotations

from typing import Any, NamedTuple

from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvidia.nvml import call, text
from stoker.agent.devices.readings import Absent

_PREFIX = "NVML_DEVICE_ARCH_"


def architecture(nvml: Any, handle: Any, calls: Calls | None = None) -> str | Absent:
    """Return the generation of the chip by NVML's name, "Hopper", or by its number."""
    number = call(nvml, "nvmlDeviceGetArchitecture", handle, calls=calls)
    if isinstance(number, Absent):
        return number
    names = [n for n in dir(nvml) if n.startswith(_PREFIX)]
    found = [n for n in names if getattr(nvml, n) == number]
    return found[0].removeprefix(_PREFIX).capitalize() if found else f"number {number}"


class Traits(NamedTuple):
    """The traits of a GPU; empty where NVML does not tell one."""

    arch: str
    compute: str
    driver: str


def traits(nvml: Any, handle: Any) -> Traits:
    """Return what a job may ask of the GPU."""
    arch = architecture(nvml, handle)
    capability = call(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    driver = call(nvml, "nvmlSystemGetDriverVersion")
    return Traits(
        "" if isinstance(arch, Absent) else arch.lower(),
        "" if isinstance(capability, Absent) else "{}.{}".format(*capability),
        "" if isinstance(driver, Absent) else text(driver),
    )
