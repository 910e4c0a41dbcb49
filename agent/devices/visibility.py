# SPDX-License-Identifier: Apache-2.0
"""Environment variables that make GPU runtimes find the granted devices and no others.

They do not enforce anything: the cgroup device program refuses to open other devices. Every
vendor's variables are set, so that a job without a GPU finds none. PoCL's device is the CPU, which
every job may use; it is hidden only from a job with other devices, so that GPU work does not run on
the CPU unnoticed.
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
    # PoCL 3.1, by trial: set and empty leaves the platform with zero devices.
    "pocl": {"POCL_DEVICES": ""},
}
"""Vendor -> variables with which its runtimes find no device."""

CPU_VENDOR = "pocl"


def environment(granted: Iterable[DeviceInfo]) -> dict[str, str]:
    """Variables of a job with these devices, which keep the order of the grant."""
    devices = tuple(granted)
    variables: dict[str, str] = {}
    vendors = {device.vendor for device in devices}
    for vendor, hidden in HIDDEN.items():
        if vendor not in vendors and (devices or vendor != CPU_VENDOR):
            variables.update(hidden)
    return variables | _shown(devices)


def _shown(devices: tuple[DeviceInfo, ...]) -> dict[str, str]:
    """Variables of the devices; values of one variable are joined by commas."""
    shown: dict[str, list[str]] = {}
    for device in devices:
        for name, value in device.visible.items():
            shown.setdefault(name, []).append(value)
    return {name: ",".join(values) for name, values in shown.items()}
