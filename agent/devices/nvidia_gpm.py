# SPDX-License-Identifier: Apache-2.0
"""GPM of one NVIDIA GPU (Hopper and newer): shares of SM, tensor and memory time, without DCGM.

Relied on by `nvidia_card.py`. A metric is the difference of two samples, so the first read has
none. Numbers are nvml.h's nvmlGpmMetricId_t.
"""

from __future__ import annotations

from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvml import ask
from stoker.agent.devices.readings import Absent, Field, Fields, Reading

METRICS = {"sm_ratio": 2, "tensor_ratio": 5, "memory_bandwidth_ratio": 10}
SECOND_NS = 1_000_000_000
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

    def prepare(self, calls: Calls) -> tuple[Any, Any] | None:
        """Both samples, where there is GPM; for a plan that takes them in turn."""
        if self._supported is None:
            self._supported = self._query(calls)
        return None if isinstance(self._supported, Absent) else (self._old, self._new)

    def asked(self, old: Any, new: Any) -> Any:
        """The question for the difference of two samples."""
        asked = self._nvml.c_nvmlGpmMetricsGet_t()
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(METRICS)
        asked.sample1, asked.sample2 = old, new
        for place, number in enumerate(METRICS.values()):
            asked.metrics[place].metricId = number
        return asked

    def read(self, calls: Calls) -> Fields:
        """The fields of METRICS."""
        if self._supported is None:
            self._supported = self._query(calls)
        if isinstance(self._supported, Absent):
            return dict.fromkeys(METRICS, self._supported)
        taken = ask(self._nvml, "nvmlGpmSampleGet", self._handle, self._new, calls=calls)
        now = calls.now()
        if isinstance(taken, Absent):
            self._old_ns = 0
            return dict.fromkeys(METRICS, taken)
        if calls.replay is not None:  # the plan's samples are a second apart
            return self._compare(calls, now, SECOND_NS)
        found: Fields = dict.fromkeys(METRICS, FIRST)
        if self._old_ns:
            found = self._compare(calls, now, now - self._old_ns)
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

    def _compare(self, calls: Calls, now: int, window_ns: int) -> Fields:
        if self._asked is None:
            self._asked = self.asked(self._old, self._new)  # 13 KiB: not anew each time
        self._asked.sample1, self._asked.sample2 = self._old, self._new
        answer = ask(self._nvml, "nvmlGpmMetricsGet", self._asked, calls=calls)
        if isinstance(answer, Absent):
            return dict.fromkeys(METRICS, answer)
        return {
            name: self._metric(answer.metrics[place], now, window_ns)
            for place, name in enumerate(METRICS)
        }

    def _metric(self, metric: Any, now: int, window: int) -> Field:
        if metric.nvmlReturn:
            return Absent(
                f"GPM metric {metric.metricId}: {self._nvml.NVMLError(metric.nvmlReturn)}"
            )
        return Reading(metric.value / 100, "1", now, window)
