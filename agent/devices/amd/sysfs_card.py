# SPDX-License-Identifier: Apache-2.0
"""One AMD GPU through amdgpu's files alone.

Files stay open; sysfs makes a new value for each read from the start. Units of hwmon are uW,
thousandths of a degree and Hz.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.agent.devices.amd import metrics
from stoker.agent.devices.amd.metrics import (
    ENERGY_COUNT_J,
    RESIDENCIES,
    SENSOR_ERROR,
    TICK_NS,
    Entry,
)
from stoker.agent.devices.card import PolledCard
from stoker.agent.devices.fields import answers
from stoker.agent.devices.host import topology
from stoker.agent.devices.host.processes import name_of
from stoker.agent.devices.readings import Absent, Field, Fields, Reading

READ_BYTES = 4096
KFD_PROCESSES = Path("sys/class/kfd/kfd/proc")
PROCESSES_MAX = 256
SPEEDS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
"""GT/s -> PCIe generation."""


class Files:
    """Files of one card, each opened once."""

    def __init__(self, card: PolledCard) -> None:
        self._card = card
        self._open: dict[Path, int] = {}

    def read(self, path: Path) -> bytes | Absent:
        """The present contents of a file."""
        try:
            fd = self._open.get(path)
            if fd is not None and not os.fstat(fd).st_nlink:  # replaced by a new file
                os.close(self._open.pop(path))
                fd = None
            if fd is None:
                fd = self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return self._card.calls.make(path.name, os.pread, fd, READ_BYTES, 0)  # type: ignore[no-any-return]
        except OSError as error:
            if path in self._open:
                os.close(self._open.pop(path))
            return _absent(path, error)

    def close(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:  # each scan makes new cards
        self.close()

    def number(self, path: Path, factor: float = 1) -> Any:
        """The number in a file, times `factor`."""
        found = self.read(path)
        if isinstance(found, Absent):
            return found
        try:
            value = int(found)
        except ValueError:
            return Absent(f"{path.name}: {found[:40]!r} is no number")
        return value if factor == 1 else value * factor

    def text(self, path: Path) -> Any:
        found = self.read(path)
        return found if isinstance(found, Absent) else found.decode(errors="replace").strip()


def _absent(path: Path, error: OSError) -> Absent:
    why = f"{path.name}: {error.strerror}"
    if isinstance(error, PermissionError):
        return Absent(why, "refused")
    # A card may lack a file, but not the folder of its PCI function.
    gone = not path.parent.exists() or error.errno in (5, 19)
    return Absent(why, "lost" if gone else "")


class SysfsCard(PolledCard):
    """A GPU by the sysfs folder of its PCI function."""

    unread = "no file of amdgpu's that is read here tells it"

    def __init__(self, folder: Path, address: str, root: Path, *, kfd_id: int | None) -> None:
        super().__init__()
        self.address = topology.pci_address(address)
        self._folder, self._root, self._kfd_id = folder, root, kfd_id
        self._files = Files(self)
        self._hwmon = next(iter(sorted((folder / "hwmon").glob("hwmon*"))), folder / "hwmon")
        unique = self._files.text(folder / "unique_id")
        self.unique = "" if isinstance(unique, Absent) else unique
        self.id = _uuid(self.unique, folder) or f"amd-{self.address}"
        name = self._files.text(folder / "product_name")
        self.model = str(name) if isinstance(name, str) and name else "AMD GPU"
        self._sensors = self._labelled()
        self._table: dict[str, Entry] | Absent = Absent("gpu_metrics: not read yet")
        self._ticks: dict[str, int] = {}

    def _labelled(self) -> dict[str, Path]:
        """Label of each temperature sensor (edge, junction, mem) -> its files without suffix."""
        found = {}
        for label in self._hwmon.glob("temp*_label"):
            name = self._files.text(label)
            if not isinstance(name, Absent):
                found[name] = label.with_name(label.name.replace("_label", ""))
        return found

    def _degrees(self, sensor: str, what: str) -> Any:
        base = self._sensors.get(sensor)
        if base is None:
            return Absent(f"hwmon has no {sensor} sensor")
        return self._files.number(base.with_name(f"{base.name}_{what}"), 1e-3)

    def hwmon(self) -> Path:
        """The folder of its sensors and limits."""
        return self._hwmon

    def once(self) -> Fields:
        at, files, hwmon = self._folder, self._files, self._hwmon
        numa = topology.numa_node(self.address, self._root)
        die = "edge" if "edge" in self._sensors else "junction"  # as `temperature_c` is read
        found: dict[str, Any] = {
            "power_samples_w": Absent("amdgpu keeps no samples of power"),
            "model": self.model,
            "uuid": self.id if self.unique else Absent("unique_id: this card has none"),
            "serial": files.text(at / "serial_number"),
            "bus_id": self.address,
            "driver": files.text(self._root / "sys/module/amdgpu/version"),
            "firmware": files.text(at / "vbios_version"),
            "numa": Absent("numa_node: none") if numa is None else numa,
            "memory_total_bytes": files.number(at / "mem_info_vram_total"),
            "power_limit_min_w": files.number(hwmon / "power1_cap_min", 1e-6),
            "power_limit_max_w": files.number(hwmon / "power1_cap_max", 1e-6),
            "power_limit_default_w": files.number(hwmon / "power1_cap_default", 1e-6),
            "temperature_slowdown_c": self._degrees(die, "crit"),
            "temperature_shutdown_c": self._degrees(die, "emergency"),
            "memory_temperature_max_c": self._degrees("mem", "crit"),
            "pcie_gen_max": _generation(files.text(at / "max_link_speed")),
            "pcie_width_max": files.number(at / "max_link_width"),
        }
        return answers(found, time.time_ns())

    def fast(self) -> Fields:
        blob = self._files.read(self._folder / "gpu_metrics")
        self._table = table = blob if isinstance(blob, Absent) else metrics.parse(blob)
        at, files, hwmon = self._folder, self._files, self._hwmon
        die = self._degrees("edge", "input")
        newest = files.number(hwmon / "power1_input", 1e-6)
        average = files.number(hwmon / "power1_average", 1e-6)
        if isinstance(newest, Absent):
            newest = average
        if isinstance(newest, Absent):
            newest = _first(table, "current_socket_power", "average_socket_power")
        energy = _first(table, "energy_accumulator")
        found = {
            "temperature_c": self._degrees("junction", "input") if isinstance(die, Absent) else die,
            "memory_temperature_c": self._degrees("mem", "input"),
            "busy_ratio": files.number(at / "gpu_busy_percent", 0.01),
            "memory_busy_ratio": files.number(at / "mem_busy_percent", 0.01),
            "clock_hz": files.number(hwmon / "freq1_input"),
            "memory_clock_hz": files.number(hwmon / "freq2_input"),
            "throttle": self._throttle(table),
        }
        now = time.time_ns()
        return {
            **answers(found, now),
            "power_w": _watts(newest, now),
            "power_average_w": _watts(average, now),
            "energy_j": energy
            if isinstance(energy, Absent)
            else Reading(energy * ENERGY_COUNT_J, "J", now, 0, ENERGY_COUNT_J),
        }

    def _throttle(self, table: dict[str, Entry] | Absent) -> Any:
        """Reasons that lowered the clock since the last round; an older table has bits instead."""
        if isinstance(table, Absent):
            return table
        words, known = [], False
        for name, entry, word in RESIDENCIES:
            ticks = table.get(entry)
            if isinstance(ticks, int):
                known = True
                if ticks > self._ticks.get(name, ticks):
                    words.append(word)
                self._ticks[name] = ticks
        return words if known else _throttle(table)

    def _residencies(self) -> Fields:
        now = time.time_ns()
        return {name: self._residency(entry, now) for name, entry, _ in RESIDENCIES}

    def _residency(self, entry: str, now: int) -> Field:
        """Time throttled for one reason, by the table of the last round."""
        if isinstance(self._table, Absent):
            return self._table
        ticks = self._table.get(entry)
        if not isinstance(ticks, int):
            return Absent("gpu_metrics has no residencies")
        return Reading(ticks * TICK_NS, "ns", now, 0, TICK_NS)

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        return (self._state, self._errors, self._listed, self._residencies)

    def _state(self) -> Fields:
        at, files, hwmon = self._folder, self._files, self._hwmon
        total = files.number(at / "mem_info_vram_total")
        used = files.number(at / "mem_info_vram_used")
        missing = [each for each in (used, total) if isinstance(each, Absent)]
        modes = [
            files.text(at / name)
            for name in ("current_compute_partition", "current_memory_partition")
        ]
        known = [mode for mode in modes if isinstance(mode, str)]
        found = {
            "memory_used_bytes": used,
            "memory_free_bytes": missing[0] if missing else total - used,
            "hotspot_temperature_c": self._degrees("junction", "input"),
            "power_limit_w": files.number(hwmon / "power1_cap", 1e-6),
            "fan_ratio": files.number(hwmon / "pwm1", 1 / 255),
            "fan_rpm": files.number(hwmon / "fan1_input"),
            "pcie_gen": _generation(files.text(at / "current_link_speed")),
            "pcie_width": files.number(at / "current_link_width"),
            "pcie_replays": files.number(at / "pcie_replay_count"),
            "partition_mode": "/".join(known) if known else modes[0],
        }
        return answers(found, time.time_ns())

    def _errors(self) -> Fields:
        """RAS counters of the memory controller: `ue: 0` and `ce: 0`."""
        found = self._files.text(self._folder / "ras/umc_err_count")
        if isinstance(found, Absent):
            return {"ecc_corrected": found, "ecc_uncorrected": found}
        words = dict(line.split(":", 1) for line in found.splitlines() if ":" in line)
        bad = Absent(f"umc_err_count: {found[:40]!r}")
        counts = {key.strip(): value.strip() for key, value in words.items()}
        made = {
            name: int(counts[key]) if counts.get(key, "").isdecimal() else bad
            for name, key in (("ecc_corrected", "ce"), ("ecc_uncorrected", "ue"))
        }
        return answers(made, time.time_ns())

    def _listed(self) -> Fields:
        """Processes that KFD lists, with their memory on this card."""
        if self._kfd_id is None:
            return {"processes": Absent("KFD does not know this card")}
        try:
            folders = list((self._root / KFD_PROCESSES).iterdir())[:PROCESSES_MAX]
        except OSError as error:
            return {"processes": Absent(f"{KFD_PROCESSES}: {error.strerror}")}
        rows = []
        files = Files(self)  # files of processes come and go
        for folder in folders:
            used = files.number(folder / f"vram_{self._kfd_id}")
            files.close()
            if folder.name.isdecimal() and not isinstance(used, Absent) and used:
                pid = int(folder.name)
                name = name_of(pid, self._root / "proc")
                rows.append({"pid": pid, "kind": "compute", "name": name, "memory_bytes": used})
        self.pids = tuple(int(row["pid"]) for row in rows)
        return {"processes": Reading(rows, "", time.time_ns())}


def _watts(value: Any, now: int) -> Field:
    if isinstance(value, Absent):
        return value
    return Reading(value, "W", now, 0, SENSOR_ERROR * value, "sensor 5 %")


def _first(table: dict[str, Entry] | Absent, *names: str) -> Any:
    if isinstance(table, Absent):
        return table
    for name in names:
        value = table.get(name)
        if value is not None:
            return value if isinstance(value, int) else value[0]
    return Absent(f"gpu_metrics has no {names[0]}")


def _throttle(table: dict[str, Entry] | Absent) -> Any:
    bits = _first(table, "throttle_status")
    if isinstance(bits, Absent):
        return bits
    return [f"bit {bit}" for bit in range(32) if bits >> bit & 1]


def _generation(speed: Any) -> Any:
    """PCIe generation of a link speed: 4 for `16.0 GT/s PCIe`."""
    if isinstance(speed, Absent):
        return speed
    return SPEEDS.get(str(speed).split()[0] if speed else "", Absent(f"link speed {speed!r}"))


def _uuid(unique: str, folder: Path) -> str:
    """The UUID that AMD SMI makes of device id and unique id, so that a card keeps its id when ROCm
    is installed (amdsmi_uuid_gen: DDDDDDDD-0000-1000-80xx-xxxxxxxxxxxx)."""
    if len(unique) != 16:
        return ""
    try:
        device = int((folder / "device").read_text(), 16)
    except (OSError, ValueError):
        return ""
    first = f"{int(unique[:2], 16):02x}ff{device & 0xFFFF:04x}"
    return f"{first}-0000-1000-80{unique[2:4]}-{unique[4:]}"
