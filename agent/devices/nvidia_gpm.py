# SPDX-License-Identifier: Apache-2.0
"""GPM of one NVIDIA GPU (Hopper and newer): shares of SM, tensor and memory time, without DCGM.

Relied on by `nvidia_card.py`. A metric is the difference of two samples, so the first read has
none. Numbers are nvml.h's nvmlGpmMetricId_t.
"""

from __future__ import annotations

import time
from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvml import ask
from stoker.agent.devices.readings import Absent, Field, Fields, Reading

METRICS = {"sm_ratio": 2, "tensor_ratio": 5, "memory_bandwidth_ratio": 10}
FIRST = Absent("GPM needs two samples, a second apart")
NO = Absent("nvmlGpmQueryDeviceSupport: this GPU has no GPM")


class Gpm:
    """Two samples of one GPU, exchanged with every read. They are the driver's memory and are kept
    until the process ends: freeing one while a call hangs would be worse."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._supported: bool | Absent | None = None
        self._old: Any = None
        self._new: Any = None
        self._old_ns = 0
        self._asked: Any = None

    def read(self, calls: Calls) -> Fields:
        """The fields of METRICS."""
        if self._supported is None:
            self._supported = self._query(calls)
        if isinstance(self._supported, Absent):
            return dict.fromkeys(METRICS, self._supported)
        taken = ask(self._nvml, "nvmlGpmSampleGet", self._handle, self._new, calls=calls)
        now = time.time_ns()
        if isinstance(taken, Absent):
            self._old_ns = 0
            return dict.fromkeys(METRICS, taken)
        found: Fields = dict.fromkeys(METRICS, FIRST)
        if self._old_ns:
            found = self._compare(calls, now)
        self._old, self._new, self._old_ns = self._new, self._old, now
        return found

    def _query(self, calls: Calls) -> bool | Absent:
        asked = ask(self._nvml, "nvmlGpmQueryDeviceSupport", self._handle, calls=calls)
        if isinstance(asked, Absent):
            return asked
        if not asked.isSupportedDevice:
            return NO
        for name in ("_old", "_new"):
            made = ask(self._nvml, "nvmlGpmSampleAlloc", calls=calls)
            if isinstance(made, Absent):
                return made
            setattr(self, name, made)
        return True

    def _compare(self, calls: Calls, now: int) -> Fields:
        if self._asked is None:
            self._asked = self._nvml.c_nvmlGpmMetricsGet_t()  # 13 KiB: not anew each time
        asked = self._asked
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(METRICS)
        asked.sample1, asked.sample2 = self._old, self._new
        for place, number in enumerate(METRICS.values()):
            asked.metrics[place].metricId = number
        answer = ask(self._nvml, "nvmlGpmMetricsGet", asked, calls=calls)
        if isinstance(answer, Absent):
            return dict.fromkeys(METRICS, answer)
        window = now - self._old_ns
        return {
            name: self._metric(answer.metrics[place], now, window)
            for place, name in enumerate(METRICS)
        }

    def _metric(self, metric: Any, now: int, window: int) -> Field:
        if metric.nvmlReturn:
            return Absent(
                f"GPM metric {metric.metricId}: {self._nvml.NVMLError(metric.nvmlReturn)}"
            )
        return Reading(metric.value / 100, "1", now, window)
