# SPDX-License-Identifier: Apache-2.0
"""OpenCL devices that no vendor class covers: PoCL on the CPU, so that kernels run anywhere.

Relied on by the registry. The drivers are loaded in a program of their own, `stoker-opencl-list`,
because a driver that crashes or starts threads must not do so in the agent. It prints JSON lines,
one per device: {"platform", "vendor", "name", "type": "cpu" | "gpu" | ..., "memory_bytes"}.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoker.agent.devices.vendor import Scan, Vendor, register
from stoker.native import paths
from stoker.scheduler.nouns import DeviceInfo, DeviceSample

PROGRAM = "stoker-opencl-list"
TIMEOUT_S = 20.0
"""PoCL compiles its built-in kernels on first use."""
OUTPUT_BYTES_MAX = 256 * 1024
POCL = "Portable Computing Language"
NO_SENSOR = "the PoCL CPU device has no sensor"
NO_COUNTER = "the PoCL CPU device has no load counter"
COVERED = ("NVIDIA CUDA",)
"""Platforms whose devices a vendor class reports."""


class Listed(msgspec.Struct, frozen=True):
    """One line of the program."""

    platform: str
    name: str
    type: str
    vendor: str = ""
    memory_bytes: int | None = None


def list_devices() -> bytes:
    """Output of the program; OSError or subprocess.SubprocessError if it does not run."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENCL_LAYERS"}
    done = subprocess.run(
        [paths.program(PROGRAM)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
        env=environment,
    )
    return done.stdout[:OUTPUT_BYTES_MAX]


@register
class OpenCL(Vendor):
    """PoCL's device as `pocl-0`; other platforms' devices are named as not managed."""

    name = "pocl"

    def __init__(self, config: Mapping[str, Any], run: Callable[[], bytes] = list_devices) -> None:
        self._run = run
        self._ids: tuple[str, ...] = ()

    def scan(self) -> Scan:
        try:
            listed = parse(self._run())
        except subprocess.CalledProcessError as error:
            why = error.stderr.decode(errors="replace").strip()[-300:] or f"exit {error.returncode}"
            return self._nothing(f"{PROGRAM}: {why}")
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            return self._nothing(str(error))
        pocl = [each for each in listed if each.platform == POCL and each.type == "cpu"]
        devices = tuple(_device(index, each) for index, each in enumerate(pocl))
        self._ids = tuple(device.id for device in devices)
        missing = [
            f"OpenCL device {each.name} of {each.platform} is not managed: no vendor class for it"
            for each in listed
            if each not in pocl and each.platform not in COVERED
        ]
        if not devices:
            missing.append("no OpenCL CPU device: PoCL is not installed (pocl-opencl-icd)")
        return Scan(devices, tuple(missing))

    def sample(self) -> tuple[DeviceSample, ...]:
        absent = {"busy_ratio": NO_COUNTER, "power_w": NO_SENSOR, "temperature_c": NO_SENSOR}
        return tuple(DeviceSample(id, absent=absent) for id in self._ids)

    def _nothing(self, why: str) -> Scan:
        self._ids = ()
        return Scan(missing=(f"OpenCL devices: {why}",))


def parse(output: bytes) -> list[Listed]:
    """The program's lines; a line that is not one of them raises msgspec.MsgspecError."""
    decoder = msgspec.json.Decoder(Listed)
    return [decoder.decode(line) for line in output.splitlines() if line.strip()]


def _device(index: int, listed: Listed) -> DeviceInfo:
    return DeviceInfo(
        id=f"pocl-{index}",
        vendor="pocl",
        model=listed.name,
        kind="cpu",
        memory_bytes=listed.memory_bytes,
    )
