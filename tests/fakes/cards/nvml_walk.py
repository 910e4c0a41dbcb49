# SPDX-License-Identifier: Apache-2.0
"""A program that calls every getter of the unmodified pynvml on every card; it prints the results.

It runs with the simulated library on the loader's path and prints JSON. It chooses arguments by the
names of parameters, and makes structures of the classes that pynvml has for them.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any

import pynvml as nv

NOT_GETTERS = ("Set", "Reset", "Clear", "Create", "Destroy", "Modify", "Remove", "Discover")
NOT_GETTERS += ("Freeze", "Register", "Free", "Alloc", "Wait", "Shutdown", "Init", "Activate")
NOT_GETTERS += ("Update", "Unload", "Validate", "ReadWritePRM", "Metrics", "StructToFriendly")
NOT_GETTERS += ("Exception", "FriendlyObject", "ErrorString")

CLASSES = {
    "nvmlDeviceGetAdaptiveTgpModeInfo_v1": ("", 0),
    "nvmlDeviceGetBankRemapperStatus_v1": ("", 0),
    "nvmlDeviceGetCapabilities": ("c_nvmlDeviceCapabilities_v1_t", "nvmlDeviceCapabilities_v1"),
    "nvmlDeviceGetClockOffsets": ("c_nvmlClockOffset_t", "nvmlClockOffset_v1"),
    "nvmlDeviceGetGpuFabricInfo": ("c_nvmlGpuFabricInfo_t", ""),
    "nvmlDeviceGetGpuFabricInfoV": ("c_nvmlGpuFabricInfo_v3_t", "nvmlGpuFabricInfo_v3"),
    "nvmlDeviceGetPciInfoExt": ("nvmlPciInfoExt_v1_t", "nvmlPciInfoExt_v1"),
    "nvmlDeviceGetPlatformInfo": ("c_nvmlPlatformInfo_v2_t", "nvmlPlatformInfo_v2"),
    "nvmlDeviceGetSramEccErrorStatus": (
        "c_nvmlEccSramErrorStatus_v1_t",
        "nvmlEccSramErrorStatus_v1",
    ),
}
"""Getter whose caller makes the structure -> class, and constant with its version."""
PLAIN = {"nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceGetNvLinkTelemetrySamples_v1"}
PLAIN |= {"nvmlDeviceReadPRMCounters_v1", "nvmlSystemGetCPER_v1", "nvmlGetVgpuCompatibility"}
PLAIN |= {"nvmlGpuInstanceGetVgpuSchedulerLog", "nvmlGpuInstanceGetVgpuSchedulerState"}
"""Getters that take the structure itself rather than a reference."""
BUFFER = ctypes.create_string_buffer(1 << 16)
"""Buffer for any other structure of an unimplemented getter."""
BROKEN = {
    "nvmlDeviceQueryDrainState",  # pynvml makes a pointer of no class
    "nvmlDeviceGetConfComputeGpuAttestationReport",
    "nvmlGpuInstanceGetActiveVgpus",
    "nvmlGpuInstanceGetCreatableVgpus",
    "nvmlGpuInstanceGetVgpuTypeCreatablePlacements",
    "nvmlGpuInstanceGetVgpuSchedulerLog_v2",
    "nvmlGpuInstanceGetVgpuSchedulerState_v2",
    "nvmlDeviceGetVgpuSchedulerLog_v2",
    "nvmlDeviceGetVgpuSchedulerState_v2",
}
"""Getters of virtual GPUs, which no simulated card has, and getters that pynvml gets wrong."""
FILLED = ("ref", "samples", "info", "profiles", "status", "counts", "modes", "bwmode")
"""Last parts of names of parameters that an unimplemented getter fills in."""
NUMBERS = {"cpuSetSize": 4, "nodeSetSize": 1, "locationType": 2, "pageCount": 16, "pid": 4242}


def getters() -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(nv)):
        made = getattr(nv, name)
        wanted = name.startswith("nvml") and name not in BROKEN
        if wanted and inspect.isfunction(made) and not any(word in name for word in NOT_GETTERS):
            yield name, made


def structure(function: str) -> Any:
    """Reference to a structure for this getter."""
    name, version = CLASSES[function]
    if not name:
        return ctypes.byref(BUFFER)
    made = getattr(nv, name)()
    if version:
        made.version = getattr(nv, version)
    return ctypes.byref(made)


def identity(name: str, handle: Any) -> Any:
    """Value of the parameter by which a getter finds a card."""
    if name == "serial":
        return nv.nvmlDeviceGetSerial(handle)
    return nv.nvmlDeviceGetUUID(handle) if name == "uuid" else nv.nvmlDeviceGetPciInfo(handle).busId


def argument(function: str, name: str, handle: Any) -> Any:  # noqa: PLR0911
    """Value of one parameter of a getter."""
    lower = name.lower()
    if function in PLAIN and lower not in ("handle", "device", "gpuinstance"):
        return BUFFER
    if lower.startswith(("handle", "device", "mig", "gpuinstance", "computeinstance")):
        return 0 if lower.endswith("id") else handle
    if name == "memoryClockMHz":
        return nv.nvmlDeviceGetMaxClockInfo(handle, nv.NVML_CLOCK_MEM)
    if name in ("serial", "uuid", "pciBusId"):
        return identity(name, handle)
    if function in CLASSES:
        return structure(function)
    if name == "type" and "UUIDV" in function:
        return nv.NVML_UUID_TYPE_ASCII
    if name == "version" and "DetailList" in function:
        return nv.nvmlProcessDetailList_v1
    if name == "fieldIds":
        return list(range(1, nv.NVML_FI_MAX))
    if name == "gpmSample":
        return nv.nvmlGpmSampleAlloc()
    if lower.endswith(FILLED):
        return ctypes.byref(BUFFER)
    return NUMBERS.get(name, 0)


def call(name: str, function: Any, handle: Any) -> str:
    """Result of one call: "ok", the number of NVML's error, or another exception."""
    try:
        given = [
            argument(name, parameter.name, handle)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is inspect.Parameter.empty
        ]
        function(*given)
    except nv.NVMLError as wrong:
        return str(wrong.value)
    except (TypeError, ctypes.ArgumentError, AttributeError, ValueError) as wrong:
        return f"{type(wrong).__name__}: {wrong}"
    return "ok"


def handles() -> Iterator[Any]:
    """Handles of all cards and of their MIG instances."""
    for index in range(nv.nvmlDeviceGetCount()):
        card = nv.nvmlDeviceGetHandleByIndex(index)
        yield card
        for instance in range(nv.nvmlDeviceGetMaxMigDeviceCount(card)):
            try:
                yield nv.nvmlDeviceGetMigDeviceHandleByIndex(card, instance)
            except nv.NVMLError:
                break


def main() -> None:
    nv.nvmlInit()
    answers: dict[str, list[str]] = {}
    for handle in handles():
        for name, function in getters():
            answers.setdefault(name, []).append(call(name, function, handle))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
