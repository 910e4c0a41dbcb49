# SPDX-License-Identifier: Apache-2.0
"""Setters of cards, by vendor: power limits of all three, clocks of NVIDIA and Intel.

Every reading call returns a value, or an Absent with the driver's words. A write returns None, or
an Absent if it was refused. Invariant: only values within the device's own range are written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from stoker.agent.devices.amd import amd_smi
from stoker.agent.devices.amd.amd_smi import part
from stoker.agent.devices.amd.card import AmdCard
from stoker.agent.devices.amd.sysfs_card import SysfsCard
from stoker.agent.devices.card import Card as DeviceCard
from stoker.agent.devices.intel.card import IntelCard
from stoker.agent.devices.nvidia import nvml
from stoker.agent.devices.nvidia.card import NvidiaCard
from stoker.agent.devices.readings import Absent
from stoker.agent.power.plan.card import ClockRange, PowerRange
from stoker.agent.power.setters.driver_write import written
from stoker.agent.power.setters.intel_setter import IntelSetter
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.power.setters.without_clocks import WithoutClocks

SM = 1
"""nvmlClockType_t."""


class CardSetter(Protocol):
    """The settings of one card. Every method may block in the card's driver."""

    def limits(self) -> PowerRange | Absent:
        """The range of its power limit."""

    def power_limit_w(self) -> float | Absent:
        """The limit in force."""

    def set_power_limit(self, watts: float) -> Absent | None:
        """Set the power limit; an Absent says why it was not set."""

    def clock_range(self) -> ClockRange | Absent:
        """The range of clocks to which the card can be held."""

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        """Hold the clocks within this range."""

    def reset_clocks(self) -> Absent | None:
        """Release the clocks."""

    def found(self) -> list[RecordedSetting] | Absent:
        """Return the present value of every setting that this setter may change.

        Files are named by the folder of the device's address, which a reloaded driver keeps.
        """


def setter_of(card: DeviceCard) -> CardSetter | Absent:
    """The setter of this card, or why it has none."""
    if card.silent:
        return Absent(card.silent)
    if isinstance(card, NvidiaCard):
        return NvidiaSetter(*card.binding(), card.id)
    if isinstance(card, AmdCard):
        return AmdSetter(*card.binding(), card.address)
    if isinstance(card, SysfsCard):
        return SysfsSetter(card.hwmon())
    if isinstance(card, IntelCard):
        return IntelSetter(*card.binding(), card.address)
    return Absent("this device takes no power limit")


class NvidiaSetter:
    """An NVIDIA card: ranges through the binding, settings through the vendor's table in C."""

    def __init__(self, binding: Any, handle: Any, uuid: str) -> None:
        self._nvml, self._handle, self._uuid = binding, handle, uuid

    def _call(self, name: str, *arguments: Any) -> Any:
        return nvml.call(self._nvml, name, self._handle, *arguments)

    def _write(self, what: str, value: int) -> Absent | None:
        return written("nvidia", nvml.address_of(self._handle), what, value)

    def limits(self) -> PowerRange | Absent:
        bounds = self._call("nvmlDeviceGetPowerManagementLimitConstraints")
        default = self._call("nvmlDeviceGetPowerManagementDefaultLimit")
        if isinstance(bounds, Absent) or isinstance(default, Absent):
            return bounds if isinstance(bounds, Absent) else Absent(default.why)
        return PowerRange(bounds[0] * 1e-3, default * 1e-3, bounds[1] * 1e-3)

    def power_limit_w(self) -> float | Absent:
        found = self._call("nvmlDeviceGetPowerManagementLimit")
        return found if isinstance(found, Absent) else found * 1e-3

    def set_power_limit(self, watts: float) -> Absent | None:
        return _bounded(
            self.limits(),
            watts,
            lambda w: self._write("limit_mw", round(w * 1e3)),
        )

    def clock_range(self) -> ClockRange | Absent:
        highest = self._call("nvmlDeviceGetMaxClockInfo", SM)
        memory = self._call("nvmlDeviceGetSupportedMemoryClocks")
        if isinstance(highest, Absent) or isinstance(memory, Absent) or not memory:
            return highest if isinstance(highest, Absent) else Absent("no supported clocks")
        clocks = self._call("nvmlDeviceGetSupportedGraphicsClocks", memory[0])
        if isinstance(clocks, Absent) or len(clocks) < 2:
            return clocks if isinstance(clocks, Absent) else Absent("it has a single clock")
        steps = [abs(a - b) for a, b in pairwise(clocks) if a != b]
        return ClockRange(min(clocks), highest, min(steps))

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        return self._write("clocks", round(low_mhz) << 32 | round(high_mhz))

    def reset_clocks(self) -> Absent | None:
        return self._write("clocks", 0)

    def found(self) -> list[RecordedSetting] | Absent:
        """Record clocks as unlocked, since NVML does not tell whether they were locked."""
        limit = self._call("nvmlDeviceGetPowerManagementLimit")
        if isinstance(limit, Absent):
            return limit
        return [
            RecordedSetting("nvidia", self._uuid, "limit_mw", limit),
            RecordedSetting("nvidia", self._uuid, "clocks", 0),
        ]


class AmdSetter(WithoutClocks):
    """An AMD card through AMD SMI, by its first power sensor, which measures the socket."""

    def __init__(self, smi: Any, handle: Any, address: str) -> None:
        self._smi, self._handle, self._address = smi, handle, address

    def _info(self) -> Any:
        return amd_smi.call(self._smi, "amdsmi_get_power_cap_info", self._handle)

    def limits(self) -> PowerRange | Absent:
        info = self._info()
        names = ("min_power_cap", "default_power_cap", "max_power_cap")
        values = [part(info, name) for name in names]
        absent = next((each for each in values if isinstance(each, Absent)), None)
        return absent or PowerRange(*(value * 1e-6 for value in values))

    def power_limit_w(self) -> float | Absent:
        found = part(self._info(), "power_cap")
        return found if isinstance(found, Absent) else found * 1e-6

    def set_power_limit(self, watts: float) -> Absent | None:
        return _bounded(self.limits(), watts, self._write)

    def _write(self, watts: float) -> Any:
        handle = int(getattr(self._handle, "value", self._handle))
        return written("amd", handle, "cap_uw", round(watts * 1e6))

    def found(self) -> list[RecordedSetting] | Absent:
        cap = part(self._info(), "power_cap")
        return (
            cap
            if isinstance(cap, Absent)
            else [RecordedSetting("amd", self._address, "cap_uw", int(cap))]
        )


class SysfsSetter(WithoutClocks):
    """An AMD card without ROCm, through its hwmon folder."""

    def __init__(self, hwmon: Path) -> None:
        self._hwmon = hwmon

    def _read(self, name: str) -> int | Absent:
        try:
            return int((self._hwmon / name).read_text())
        except (OSError, ValueError) as error:
            return Absent(f"{name}: {error}")

    def limits(self) -> PowerRange | Absent:
        values = [
            self._read(name) for name in ("power1_cap_min", "power1_cap_default", "power1_cap_max")
        ]
        absent = next((each for each in values if isinstance(each, Absent)), None)
        numbers = [each * 1e-6 for each in values if not isinstance(each, Absent)]
        return absent or PowerRange(*numbers)

    def power_limit_w(self) -> float | Absent:
        found = self._read("power1_cap")
        return found if isinstance(found, Absent) else found * 1e-6

    def set_power_limit(self, watts: float) -> Absent | None:
        return _bounded(self.limits(), watts, self._write)

    def _write(self, watts: float) -> Absent | None:
        try:
            (self._hwmon / "power1_cap").write_text(f"{round(watts * 1e6)}\n")
        except OSError as error:
            return Absent(f"power1_cap: {error.strerror}")
        return None

    def found(self) -> list[RecordedSetting] | Absent:
        """Name the cap by the PCI device's folder: its hwmon gets another number when amdgpu is
        loaded again."""
        cap, device = self._read("power1_cap"), self._hwmon.parent.parent.resolve()
        return (
            cap
            if isinstance(cap, Absent)
            else [RecordedSetting("hwmon", str(device), "cap_uw", cap)]
        )


def _bounded(
    range: PowerRange | Absent, watts: float, write: Callable[[float], Any]
) -> Absent | None:
    if isinstance(range, Absent):
        return range
    if not range.min_w - 0.5 <= watts <= range.max_w + 0.5:
        return Absent(f"{watts:g} W: the device takes {range}")
    found = write(min(max(watts, range.min_w), range.max_w))
    return found if isinstance(found, Absent) else None
