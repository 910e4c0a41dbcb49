# SPDX-License-Identifier: Apache-2.0
"""MIG mode and instances of one NVIDIA GPU, through the binding."""

from __future__ import annotations

import time
from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvidia.nvml import call, text
from stoker.agent.devices.readings import Absent, Field, Fields, Reading

INSTANCES_MAX = 16


class Instances:
    """MIG mode and instances of one GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    def read(self, calls: Calls) -> Fields:
        """Read the fields `partition_mode` and `partitions`."""
        mode = call(self._nvml, "nvmlDeviceGetMigMode", self._handle, calls=calls)
        if isinstance(mode, Absent):
            return {"partition_mode": mode, "partitions": mode}
        now = time.time_ns()
        words = "MIG" if mode[0] else "MIG off"
        if mode[1] != mode[0]:
            words += f", after a reset {'MIG' if mode[1] else 'off'}"
        listed: Field = self._listed(calls) if mode[0] else Reading([], "", now)
        return {"partition_mode": Reading(words, "", now), "partitions": listed}

    def _listed(self, calls: Calls) -> Field:
        most = call(self._nvml, "nvmlDeviceGetMaxMigDeviceCount", self._handle, calls=calls)
        if isinstance(most, Absent):
            return most
        found = []
        for index in range(min(most, INSTANCES_MAX)):
            name = "nvmlDeviceGetMigDeviceHandleByIndex"
            # The call goes past `calls`, since the error of an empty place must not be remembered.
            handle = call(self._nvml, name, self._handle, index)
            if not isinstance(handle, Absent):
                found.append(self._instance(handle))
        return Reading(found, "", time.time_ns())

    def _instance(self, handle: Any) -> dict[str, Any]:
        uuid = call(self._nvml, "nvmlDeviceGetUUID", handle)
        name = call(self._nvml, "nvmlDeviceGetName", handle)
        number = call(self._nvml, "nvmlDeviceGetGpuInstanceId", handle)
        memory = call(self._nvml, "nvmlDeviceGetMemoryInfo", handle)
        attributes = call(self._nvml, "nvmlDeviceGetAttributes_v2", handle)
        words = "" if isinstance(name, Absent) else text(name)
        return {
            "uuid": None if isinstance(uuid, Absent) else text(uuid),
            "profile": words.partition(" MIG ")[2] or words,
            "instance": None if isinstance(number, Absent) else number,
            "units": None
            if isinstance(attributes, Absent)
            else int(attributes.multiprocessorCount),
            "memory_bytes": None if isinstance(memory, Absent) else int(memory.total),
        }
