# SPDX-License-Identifier: Apache-2.0
"""OpenCL devices that no vendor class covers: PoCL on the CPU, so that kernels run on any machine.

A separate program, `stoker-opencl-list`, loads the drivers, because a driver may crash or start
threads. It prints one JSON array and gives each device the id that the tracer gives it, so that
traces and grants name the same device.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoker.agent.devices.card import Silent
from stoker.agent.devices.fields import TABLE, reading
from stoker.agent.devices.readings import Absent, Fields
from stoker.agent.devices.vendor import Scan, Vendor, register
from stoker.native import paths
from stoker.scheduler.nouns import DeviceInfo

PROGRAM = "stoker-opencl-list"
TIMEOUT_S = 20.0
"""Time limit of the program; PoCL compiles its built-in kernels on first use."""
OUTPUT_BYTES_MAX = 256 * 1024
POCL = "Portable Computing Language"
NO_SENSOR = "the PoCL CPU device has no sensor"
NO_COUNTER = "the PoCL CPU device has no load counter"
NOT_TOLD = "OpenCL does not tell it of a CPU"
COVERED = ("NVIDIA CUDA",)
"""Platforms whose devices a vendor class finds."""


class Listed(msgspec.Struct, frozen=True):
    """One device as the program lists it; null where the driver did not answer."""

    id: str
    platform: str
    type: str
    name: str | None = None
    memory_bytes: int | None = None


def list_devices() -> bytes:
    """Output of the program; OSError or subprocess.SubprocessError if it does not run.

    Without a home folder, as in a system service, PoCL keeps its files in /tmp/pocl, where any user
    may have put a link. So it gets a private folder, unless the environment names one.
    """
    environment = {name: value for name, value in os.environ.items() if name != "OPENCL_LAYERS"}
    with tempfile.TemporaryDirectory(prefix="stoker-opencl-") as private:
        done = subprocess.run(
            [paths.program(PROGRAM)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
            env={"POCL_CACHE_DIR": private, **environment},
        )
    return done.stdout[:OUTPUT_BYTES_MAX]


@register
class OpenCL(Vendor):
    """PoCL's device `pocl-0`; a device of another platform is reported as not managed."""

    name = "pocl"

    def __init__(self, config: Mapping[str, Any], run: Callable[[], bytes] = list_devices) -> None:
        self._run = run

    def scan(self) -> Scan:
        try:
            listed = parse(self._run())
        except subprocess.CalledProcessError as error:
            why = error.stderr.decode(errors="replace").strip()[-300:] or f"exit {error.returncode}"
            return self._nothing(f"{PROGRAM}: {why}")
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            return self._nothing(str(error))
        pocl = [each for each in listed if each.platform == POCL and each.type == "cpu"]
        devices = tuple(map(_device, pocl))
        missing = [
            f"OpenCL device {each.id} ({each.name or each.platform}) is not managed here"
            for each in listed
            if each not in pocl and each.platform not in COVERED
        ]
        if not devices:
            missing.append("no OpenCL CPU device: PoCL is not installed (pocl-opencl-icd)")
        return Scan(devices, tuple(missing), tuple(map(_card, pocl)))

    def _nothing(self, why: str) -> Scan:
        return Scan(missing=(f"OpenCL devices: {why}",))


def parse(output: bytes) -> list[Listed]:
    """The program's array; anything else raises msgspec.MsgspecError."""
    return msgspec.json.decode(output, type=list[Listed])


def _device(listed: Listed) -> DeviceInfo:
    return DeviceInfo(
        id=listed.id,
        vendor="pocl",
        model=listed.name or "PoCL on the CPU",
        kind="cpu",
        memory_bytes=listed.memory_bytes,
    )


def _card(listed: Listed) -> Silent:
    """A card with the static fields that OpenCL tells, and no sensor."""
    now = time.time_ns()
    known: Fields = {spec.name: Absent(NOT_TOLD) for spec in TABLE if spec.rate == "once"}
    known["busy_ratio"] = Absent(NO_COUNTER)
    if listed.name is not None:
        known["model"] = reading("model", listed.name, now)
    if listed.memory_bytes is not None:
        known["memory_total_bytes"] = reading("memory_total_bytes", listed.memory_bytes, now)
    return Silent(listed.id, NO_SENSOR, known)
