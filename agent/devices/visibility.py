# SPDX-License-Identifier: Apache-2.0
"""The environment that makes GPU runtimes see the granted devices and no others.

It is a courtesy to runtimes, not the fence: the cgroup device program refuses an open. Each
vendor's variables are set, so a job that was granted no GPU sees no GPU. PoCL's device is the CPU
itself, which no grant gives or takes: it is hidden only from a job that was granted other devices,
so that GPU work does not land there unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.scheduler.nouns import DeviceInfo

HIDDEN: dict[str, dict[str, str]] = {
    # CUDA Programming Guide 5.2.1.1: an empty string makes no device visible.
    "nvidia": {"CUDA_VISIBLE_DEVICES": ""},
    # ROCr amd_filter_device.cpp: set and empty selects zero devices, and HIP sits on ROCr.
    "amd": {"ROCR_VISIBLE_DEVICES": ""},
    # Level Zero ignores an entry that names no device, while an empty mask means all of them.
    "intel": {"ZE_AFFINITY_MASK": "255"},
    # PoCL 3.1, tried: set and empty leaves the platform with zero devices.
    "pocl": {"POCL_DEVICES": ""},
}
"""Vendor -> the environment under which its runtimes find no device."""

CPU_VENDOR = "pocl"


def environment(granted: Iterable[DeviceInfo]) -> dict[str, str]:
    """Variables for a job that was granted these devices, in the order of the grant."""
    devices = tuple(granted)
    variables: dict[str, str] = {}
    vendors = {device.vendor for device in devices}
    for vendor, hidden in HIDDEN.items():
        if vendor not in vendors and (devices or vendor != CPU_VENDOR):
            variables.update(hidden)
    return variables | _shown(devices)


def _shown(devices: tuple[DeviceInfo, ...]) -> dict[str, str]:
    """The devices' own variables; several values of one variable are one list."""
    shown: dict[str, list[str]] = {}
    for device in devices:
        for name, value in device.visible.items():
            shown.setdefault(name, []).append(value)
    return {name: ",".join(values) for name, values in shown.items()}
