# SPDX-License-Identifier: Apache-2.0
"""The fast calls of one NVIDIA GPU as data, and their answers as the binding would give them.

Relied on by `nvidia_card.py`. Signatures are nvml.h's; functions and structures are those of the
binding's own library. A binding without them (a fake one) gets no plan and is called itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.nvidia_slow import NvidiaSlow
from stoker.agent.devices.nvml import Batch, Refusals
from stoker.agent.devices.plan import Plan, Snapshot, Step, address
from stoker.agent.devices.readings import Absent
from stoker.native import _devices

FIELDS = "nvmlDeviceGetFieldValues"
FIELD_BYTES = 40
REASON_CALLS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
"""The newer name first; an older driver has the other one alone."""
SLOWED = 0x8 | 0x40 | 0x80
"""Reasons that tell of a fault: hardware slowdown, its thermal kind, power brake (nvml.h)."""
MILLI, MHZ = 1e-3, 1e6
NUMBERS: tuple[tuple[str, tuple[int, ...], Any], ...] = (
    ("nvmlDeviceGetTemperature", (0,), ctypes.c_uint32),
    ("nvmlDeviceGetClockInfo", (1,), ctypes.c_uint32),
    ("nvmlDeviceGetClockInfo", (2,), ctypes.c_uint32),
    ("nvmlDeviceGetPowerUsage", (), ctypes.c_uint32),
    ("nvmlDeviceGetTotalEnergyConsumption", (), ctypes.c_uint64),
)
POWER_AVERAGE, POWER_INSTANT, ENERGY, MEMORY_TEMPERATURE = 185, 186, 83, 82
INSTEAD_OF = {
    "nvmlDeviceGetPowerUsage": POWER_INSTANT,
    "nvmlDeviceGetTotalEnergyConsumption": ENERGY,
}
"""Functions that only older drivers are asked, which lack the field."""
UTILISATION = "nvmlDeviceGetUtilizationRates"
NAMES = frozenset({*(name for name, _, _ in NUMBERS), *REASON_CALLS, UTILISATION})
"""What is asked ten times a second."""


class NvidiaPlan:
    """The plan of one GPU."""

    def __init__(self, nvml: Any, handle: Any, batch: Batch) -> None:
        self.plan = Plan()
        self._nvml, self._batch = nvml, batch
        self._slow: NvidiaSlow | None = None
        self._kinds: dict[tuple[Any, ...], Any] = {}
        self._refusals = Refusals(nvml)
        self._device = ctypes.cast(handle, ctypes.c_void_p).value or 0
        self._values = batch.read(Calls())
        fields = self._fields()
        numbers = {
            (name, *extra): self._number(name, extra, kind)
            for name, extra, kind in NUMBERS
            if not self._has(INSTEAD_OF.get(name))
        }
        for name in REASON_CALLS:
            reasons = self._number(name, (), ctypes.c_uint64)
            if reasons is not None:
                self.plan.news(reasons, SLOWED)
                break
        self._taps(fields, numbers)

    @classmethod
    def of(cls, nvml: Any, handle: Any, batch: Batch) -> NvidiaPlan | None:
        """None where the binding has no library to take functions from."""
        if batch.memory is None or not hasattr(nvml, "_nvmlGetFunctionPointer"):
            return None
        return cls(nvml, handle, batch)

    def _has(self, number: int | None) -> bool:
        """Whether this driver has a field."""
        return number is not None and not isinstance(self._values[number, 0], Absent)

    def _at(self, name: str) -> int | None:
        try:
            return address(self._nvml._nvmlGetFunctionPointer(name))
        except self._nvml.NVMLError:
            return None

    def _fields(self) -> Step | None:
        count = len(self._batch.memory)
        key = (FIELDS, ctypes.addressof(self._batch.memory))
        return self.plan.call(
            key, self._at(FIELDS), (self._device, count), bytes(self._batch.memory)
        )

    def _number(self, name: str, extra: tuple[int, ...], kind: Any) -> Step | None:
        key = (name, *extra)
        self._kinds[key] = kind
        size = ctypes.sizeof(kind)
        return self.plan.call(key, self._at(name), (self._device, *extra), size)

    def _taps(self, fields: Step | None, numbers: dict[tuple[Any, ...], Step | None]) -> None:
        plan = self.plan
        where = {each.fieldId: place * FIELD_BYTES for place, each in enumerate(self._batch.memory)}

        def field(name: str, number: int, scale: float, instead: str = "") -> None:
            """An older driver has a function of its own instead of the field."""
            if self._has(number):
                plan.tap(name, fields, _devices.NVML, at=where[number], scale=scale)
            elif instead:
                kind = _devices.U64 if name == "energy_j" else _devices.U32
                plan.tap(name, numbers[instead,], kind, scale=scale)

        field("power_w", POWER_INSTANT, MILLI, "nvmlDeviceGetPowerUsage")
        field("power_average_w", POWER_AVERAGE, MILLI)
        field("energy_j", ENERGY, MILLI, "nvmlDeviceGetTotalEnergyConsumption")
        plan.rate("energy_power_w", "energy_j")
        field("memory_temperature_c", MEMORY_TEMPERATURE, 1.0)
        plan.tap("temperature_c", numbers["nvmlDeviceGetTemperature", 0], _devices.U32)
        for name, clock in (("clock_hz", 1), ("memory_clock_hz", 2)):
            step = numbers["nvmlDeviceGetClockInfo", clock]
            plan.tap(name, step, _devices.U32, scale=MHZ)
        rates = self._number(UTILISATION, (), self._nvml.c_nvmlUtilization_t)
        plan.tap("busy_ratio", rates, _devices.U32, scale=0.01)
        plan.tap("memory_busy_ratio", rates, _devices.U32, at=4, scale=0.01)

    def slow(self, batch: Batch, links: Batch | None, ports: tuple[int, ...], gpm: Any) -> None:
        """Add what is asked for once a second; `gpm`: both samples and what asks for their
        difference."""
        if self._slow is None:
            self._slow = NvidiaSlow(self._nvml, self._device, self.plan, self._at)
            self._slow.add(batch, links, ports, gpm)

    def answers(self, found: Snapshot) -> Callable[[str, tuple[Any, ...]], Any]:
        """Calls answered by a snapshot, as `Calls.replay` wants them."""

        def answer(name: str, arguments: tuple[Any, ...]) -> Any:
            key: tuple[Any, ...] = (name, *arguments[1:])
            if name == FIELDS:
                key = (name, ctypes.addressof(arguments[2]))
            elif name not in NAMES and self._slow is not None:
                return self._slow.answer(found, name, key)
            step = self.plan.answers.get(key)
            if step is None:
                return Absent(f"{name} is not asked ten times a second")
            code = found.codes[step.place]
            data = found.memory[step.offset : step.offset + step.size]
            if name == FIELDS:
                ctypes.memmove(arguments[2], data, step.size)
                return code
            if code:
                return self._refusals.of(name, code)
            if name == UTILISATION:
                return self._kinds[key].from_buffer_copy(data)
            return int.from_bytes(data, "little")

        return answer
