# SPDX-License-Identifier: Apache-2.0
"""What is asked of one NVIDIA GPU once a second, as steps of its plan, and the answers of those.

Relied on by `nvidia_plan.py`. Signatures are nvml.h's, structures the binding's. A list has room
for so many rows; a GPU with more processes than that is answered "Insufficient Size".
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from stoker.agent.devices.nvidia_gpm import FIRST, METRICS
from stoker.agent.devices.nvml import Batch, Refusals
from stoker.agent.devices.plan import SLOW, Address, Argument, Past, Plan, Snapshot, Step
from stoker.agent.devices.readings import Absent
from stoker.native import _devices

FIELDS = "nvmlDeviceGetFieldValues"
STATE = 165
TELLING = frozenset(
    {3, 4, 29, 30, 31, 94, 142, 143, 144, 145, 230, 75, 269, 270, STATE, 161, 162, 163}
)
"""Fields of which each change is news: memory errors, retired pages and rows, PCIe replays, the
recovery action, time held back by heat, states and errors of ports."""
FIELD_BYTES, FIELD_VALUE, WHOLE = 40, 32, (1 << 64) - 1
"""Of nvmlFieldValue_t."""
NUMBERS = (
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetEnforcedPowerLimit",
)
LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses", 256),
    ("nvmlDeviceGetGraphicsRunningProcesses", 64),
)
VERSIONS = (("_v3", "c_nvmlProcessInfo_v3_t"), ("_v2", "c_nvmlProcessInfo_v2_t"))
"""The newest first; a plain name is the binding's newest."""
SHARES, SHARES_MAX = "nvmlDeviceGetProcessUtilization", 256
LOOK_BACK_US = 1_500_000
"""Samples of processes are of the time since the last second, and some more."""
NO_MEMORY = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE."""
SAMPLES, SAMPLES_MAX, SAMPLES_SHOWN = "nvmlDeviceGetSamples", 256, 10
SAMPLE, METRIC = struct.Struct("=QQ"), struct.Struct("=IId")
"""nvmlSample_t, and how nvmlGpmMetric_t begins: number, code, value."""
GPM_TAKE, GPM_COMPARE = "nvmlGpmSampleGet", "nvmlGpmMetricsGet"


class Process(NamedTuple):
    """One row of a list of processes."""

    pid: int
    usedGpuMemory: int | None


class Sample(NamedTuple):
    """One of the driver's samples: its time in us, and the eight bytes of its value."""

    timeStamp: int
    raw: int


class Metric(NamedTuple):
    """One metric of GPM; the binding's own structure takes 5 us to be looked into."""

    metricId: int
    nvmlReturn: int
    value: float


class Metrics(NamedTuple):
    """What was asked of GPM."""

    metrics: list[Metric]


class NvidiaSlow:
    """Steps and answers of one GPU; `at` finds a function of the binding's library."""

    def __init__(self, nvml: Any, device: int, plan: Plan, at: Callable[[str], Address]) -> None:
        self._nvml, self._device, self._plan, self._at = nvml, device, plan, at
        self._read: dict[tuple[Any, ...], Callable[[list[bytes]], Any]] = {}
        self._refusals = Refusals(nvml)

    def add(self, batch: Batch, links: Batch | None, ports: tuple[int, ...], gpm: Any) -> None:
        """`batch`: counters, `links`: those of ports; `gpm`: both samples and what asks for their
        difference, or None."""
        self._batch(batch)
        if links is not None:
            self._batch(links)
            for port in ports:
                name = "nvmlDeviceGetNvLinkState"
                self._number(name, port)
                self._plan.news(self._plan.answers.get((name, port)), WHOLE >> 32)
        self._plan.telling = True
        for name in NUMBERS:
            self._number(name)
        self._struct("nvmlDeviceGetMemoryInfo", self._nvml.c_nvmlMemory_t(), whole)
        if hasattr(self._nvml, "c_nvmlFanSpeedInfo_t"):
            fan = self._nvml.c_nvmlFanSpeedInfo_t()
            fan.version = self._nvml.nvmlFanSpeedInfo_v1
            self._struct("nvmlDeviceGetFanSpeedRPM", fan, speed)
        for name, most in LISTS:
            self._processes(name, most)
        self._shares()
        self._samples()
        if gpm is not None:
            self._gpm(*gpm)

    def answer(self, found: Snapshot, name: str, key: tuple[Any, ...]) -> Any:
        """What a step said, as the binding would return or raise it."""
        if name in (SHARES, SAMPLES):
            key = (name,)
        if name in (GPM_TAKE, GPM_COMPARE):
            if not found.turn:
                return FIRST
            key = (name, found.turn % 2)
        step = self._plan.answers.get(key)
        if step is None:
            return Absent(f"{name} is not asked of this GPU")
        code = found.codes[step.place]
        if code:
            return self._refusals.of(name, code)
        data = [found.memory[offset : offset + size] for offset, size in step.spans]
        return self._read[key](data)

    # --- the steps --------------------------------------------------------------------------------

    def _make(
        self, key: tuple[Any, ...], name: str, *arguments: Argument, take: bool = True
    ) -> Step | None:
        before = (self._device,) if take else ()
        return self._plan.make(key, self._at(name), (*before, *arguments), every=SLOW)

    def _batch(self, batch: Batch) -> None:
        if batch.memory is not None:
            key = (FIELDS, ctypes.addressof(batch.memory))
            step = self._make(key, FIELDS, len(batch.memory), bytes(batch.memory))
            for place, each in enumerate(batch.memory):
                if each.fieldId in TELLING:
                    self._plan.news(step, WHOLE, at=place * FIELD_BYTES + FIELD_VALUE)

    def _number(self, name: str, *extra: int) -> None:
        self._read[name, *extra] = number
        self._make((name, *extra), name, *extra, bytes(4))

    def _struct(self, name: str, made: Any, read: Callable[[Any], Any]) -> None:
        kind = type(made)
        self._read[name,] = lambda data: read(kind.from_buffer_copy(data[0]))
        self._make((name,), name, bytes(made))

    def _processes(self, name: str, most: int) -> None:
        for version, kind_name in VERSIONS:
            kind = getattr(self._nvml, kind_name, None)
            if kind is None or self._at(name + version) is None:
                continue
            count, rows = most.to_bytes(4, "little"), bytes(ctypes.sizeof(kind) * most)
            step = self._make((name,), name + version, count, rows)
            for each in ("", *(version for version, _ in VERSIONS)):
                # Whichever it is asked for by, so that the reason of an absence is the same.
                self._read[name + each,] = listed(kind, process)
                if step is not None:
                    self._plan.answers[name + each,] = step
            return

    def _shares(self) -> None:
        kind = self._nvml.c_nvmlProcessUtilizationSample_t
        rows, count = bytes(ctypes.sizeof(kind) * SHARES_MAX), SHARES_MAX.to_bytes(4, "little")
        read = listed(kind, whole)
        self._read[SHARES,] = lambda data: read(data[::-1])
        self._make((SHARES,), SHARES, rows, count, Past(LOOK_BACK_US))

    def _samples(self) -> None:
        """The driver's own samples of power, all that it has; the reader keeps those it has not."""
        kind = self._nvml.c_nvmlSample_t
        rows, count = bytes(ctypes.sizeof(kind) * SAMPLES_MAX), SAMPLES_MAX.to_bytes(4, "little")
        step = self._make((SAMPLES,), SAMPLES, 0, 0, bytes(4), count, rows)
        self._read[SAMPLES,] = lambda data: (number(data), newest(data[1:]))
        if step is not None:
            where = step.spans[1][0]
            self._plan.names["power_samples_w"] = len(self._plan.taps)
            tap = (_devices.SAMPLES, step.place, step.offset, where, 1e-3, False)
            self._plan.taps.append(tap)

    def _gpm(self, samples: tuple[Any, Any], asks: Callable[[Any, Any], Any]) -> None:
        """Two samples that are taken in turn, and after each what lies between both."""
        kind = self._nvml.c_nvmlGpmMetricsGet_t
        begin, size = kind.metrics.offset, ctypes.sizeof(self._nvml.c_nvmlGpmMetric_t)
        places = [begin + size * place for place in range(len(METRICS))]

        def metrics(data: list[bytes]) -> Metrics:
            return Metrics([Metric(*METRIC.unpack_from(data[0], at)) for at in places])

        for turn in (0, 1):
            new, old = samples[turn], samples[1 - turn]
            sample = ctypes.cast(new, ctypes.c_void_p).value or 0
            self._read[GPM_TAKE, turn] = lambda _: None
            self._read[GPM_COMPARE, turn] = metrics
            for name, arguments in (
                (GPM_TAKE, (self._device, sample)),
                (GPM_COMPARE, (bytes(asks(old, new)),)),
            ):
                at = self._at(name)
                self._plan.make((name, turn), at, arguments, every=2 * SLOW, turn=turn * SLOW)


def number(data: list[bytes]) -> int:
    return int.from_bytes(data[0], "little")


def whole(made: Any) -> Any:
    return made


def speed(made: Any) -> int:
    return int(made.speed)


def process(made: Any) -> Process:
    used = int(made.usedGpuMemory)
    return Process(int(made.pid), None if used == NO_MEMORY else used)


def newest(data: list[bytes]) -> list[Sample]:
    """The last SAMPLES_SHOWN rows behind a count."""
    count = min(number(data), len(data[1]) // SAMPLE.size)
    first = max(0, count - SAMPLES_SHOWN)
    rows = data[1][first * SAMPLE.size : count * SAMPLE.size]
    return [Sample(*row) for row in SAMPLE.iter_unpack(rows)]


def listed(kind: Any, row: Callable[[Any], Any]) -> Callable[[list[bytes]], list[Any]]:
    """A reader of a count and the rows behind it."""
    size = ctypes.sizeof(kind)

    def read(data: list[bytes]) -> list[Any]:
        count = min(number(data), len(data[1]) // size)
        return [row(each) for each in (kind * count).from_buffer_copy(data[1])] if count else []

    return read
