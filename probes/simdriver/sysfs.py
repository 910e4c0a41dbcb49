# SPDX-License-Identifier: Apache-2.0
"""The files of simulated AMD cards: /sys/class/drm, /sys/class/kfd and the files they link to.

They let AMD cards be read without ROCm, below a root of the caller's choice. Names and formats are
those of amdgpu (Documentation/gpu/amdgpu of the kernel, amdgpu_pm.c) and of KFD (kfd_topology.c).
Plain files cannot compute values on a read, so call `refresh` first; it also applies values written
to the caps, as the driver would. Invariant: a file is replaced whole, so a reader never sees half
of one; a card off the bus has empty files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stoker.native import _sim
from stoker.probes.simdriver import gpu_metrics
from stoker.probes.simdriver.profiles import AMD

Card = dict[str, Any]
Files = dict[str, str | bytes]

FIRST_RENDER, PCI_VENDOR = 128, 0x1002
WEIGHT_XGMI, WEIGHT_PCIE = 15, 20
LINK_PCIE, LINK_XGMI = 2, 11  # CRAT's types of links
_GT_S = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
_ECC = 1


class SysfsTree:
    """A node's AMD cards as files below `root`. `content`: format of gpu_metrics, 1.`content`."""

    def __init__(self, root: Path, node: _sim.Node, content: gpu_metrics.Content = 7) -> None:
        self._root, self._node, self._content = root, node, content
        count = int(node.describe()["cards"])
        self._cards = [i for i in range(count) if node.truth(i)["model"]["vendor"] == AMD]
        self._caps: dict[int, str] = {}
        self._said: dict[Path, str | bytes] = {}

    def write(self) -> None:
        """Write all files, as after the driver was loaded."""
        models = [self._node.truth(card)["model"] for card in self._cards]
        self._write(
            Path("sys/module/amdgpu"), {"version": f"{models[0]['driver']}\n"} if models else {}
        )
        for model in models:
            self._write(device_of(model), _fixed(model))
            self._links(model)
        self._write(Path("sys/class/kfd/kfd/topology"), _topology(models))
        self.refresh()

    def refresh(self) -> None:
        """Apply the caps that were written, then update all files that change."""
        for card in self._cards:
            self._take_cap(card)
            truth, sensor = self._node.truth(card), self._node.sensor(card)
            files = _changing(truth, sensor or _nothing(truth), self._content)
            if sensor is None:
                files = dict.fromkeys(files, b"")
            self._write(device_of(truth["model"]), files)
            self._caps[card] = self._cap_file(card).read_text()
        self._processes()

    def _cap_file(self, card: int) -> Path:
        model = self._node.truth(card)["model"]
        return self._root / device_of(model) / hwmon_of(model) / "power1_cap"

    def _take_cap(self, card: int) -> None:
        """Apply a written cap in uW; one out of range is ignored."""
        file = self._cap_file(card)
        written = file.read_text() if file.exists() else ""
        if not written.strip().isdigit() or written == self._caps.get(card, written):
            return
        model = self._node.truth(card)["model"]
        milliwatts = int(written) // 1000
        if model["limit_min_mw"] <= milliwatts <= model["limit_max_mw"]:
            self._node.set_limit(card, milliwatts)

    def _write(self, folder: Path, files: Files) -> None:
        for name, content in files.items():
            file = self._root / folder / name
            if self._said.get(file) == content and file.name != "power1_cap" and file.exists():
                continue
            self._said[file] = content
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_name(f".{file.name}.new")
            fresh.write_bytes(content if isinstance(content, bytes) else content.encode())
            fresh.replace(file)

    def _links(self, model: Card) -> None:
        """Link the classes and the bus to the device."""
        device, minor = device_of(model), model["minor"]
        for name in (f"card{minor}", f"renderD{FIRST_RENDER + minor}"):
            (self._root / device / "drm" / name).mkdir(parents=True, exist_ok=True)
            _link(self._root / device / "drm" / name / "device", self._root / device)
            _link(self._root / "sys/class/drm" / name, self._root / device / "drm" / name)
        hwmon = self._root / device / hwmon_of(model)
        _link(hwmon / "device", self._root / device)
        _link(self._root / "sys/class/hwmon" / hwmon.name, hwmon)
        _link(self._root / "sys/bus/pci/devices" / address_of(model), self._root / device)
        driver = self._root / "sys/bus/pci/drivers/amdgpu"
        driver.mkdir(parents=True, exist_ok=True)
        _link(self._root / device / "driver", driver)

    def _processes(self) -> None:
        """Write KFD's folder of each process: its memory and occupancy by the card's gpu_id."""
        folder = Path("sys/class/kfd/kfd/proc")
        files: Files = {}
        for card in self._cards:
            truth = self._node.truth(card)
            gpu, busy = gpu_id(truth["model"]), truth["load"]["compute"] * truth["model"]["units"]
            for process in truth["processes"]:
                pid = process["pid"]
                files[f"{pid}/vram_{gpu}"] = f"{process['memory_bytes']}\n"
                files[f"{pid}/sdma_{gpu}"] = "0\n"
                files[f"{pid}/stats_{gpu}/cu_occupancy"] = f"{int(process['share'] * busy)}\n"
                files[f"{pid}/pasid"] = f"{0x8000 + pid % 0x8000}\n"
        (self._root / folder).mkdir(parents=True, exist_ok=True)
        self._write(folder, files)
        kept = {self._root / folder / name for name in files}
        for old in sorted((self._root / folder).rglob("*"), reverse=True):
            if old.is_dir() and not any(old.iterdir()):
                old.rmdir()
            elif old.is_file() and old not in kept:
                old.unlink()


def address_of(model: Card) -> str:
    """Return the kernel's name of a PCI device: 0000:05:00.0."""
    domain, rest = model["bus_id"].split(":", 1)
    return f"{int(domain, 16):04x}:{rest.lower()}"


def device_of(model: Card) -> Path:
    """Return the device's path below a root port, which identifies its PCIe switch."""
    return Path(
        f"sys/devices/pci{address_of(model)[:4]}:{model['switch_group']:02x}", address_of(model)
    )


def hwmon_of(model: Card) -> str:
    """Return the folder of the card's sensors, below its own."""
    return f"hwmon/hwmon{model['minor']}"


def gpu_id(model: Card) -> int:
    """Return KFD's number of a card."""
    return unique_id(model) & 0xFFFF


def unique_id(model: Card) -> int:
    """Return the serial number read as hexadecimal digits, as in the simulated libamd_smi.so."""
    return int(model["serial"], 16)


def _link(at: Path, to: Path) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    if not at.is_symlink():
        at.symlink_to(os.path.relpath(to, at.parent))


def _fixed(model: Card) -> Files:
    """Return the constant files of a device."""
    device, speed = model["pci_device"] >> 16, f"{_GT_S[model['pcie_gen']]} GT/s PCIe\n"
    subsystem = model["pci_subsystem"] >> 16
    return {
        "vendor": f"{PCI_VENDOR:#06x}\n",
        "device": f"{device:#06x}\n",
        "subsystem_vendor": f"{PCI_VENDOR:#06x}\n",
        "subsystem_device": f"{subsystem:#06x}\n",
        "revision": "0x00\n",
        "class": "0x120000\n",
        "numa_node": f"{model['numa']}\n",
        "uevent": f"DRIVER=amdgpu\nPCI_ID={PCI_VENDOR:04X}:{device:04X}\n"
        f"PCI_SLOT_NAME={address_of(model)}\n",
        "max_link_speed": speed,
        "current_link_speed": speed,
        "max_link_width": f"{model['pcie_width']}\n",
        "current_link_width": f"{model['pcie_width']}\n",
        "unique_id": f"{unique_id(model):016x}\n",
        "serial_number": f"{model['serial']}\n",
        "product_name": f"{model['name']}\n",
        "product_number": "SIM\n",
        "vbios_version": f"{model['firmware']}\n",
        "mem_info_vram_total": f"{model['memory_bytes']}\n",
        "mem_info_vis_vram_total": f"{model['memory_bytes']}\n",
        "mem_info_vram_vendor": "SIM\n",
        "current_compute_partition": "SPX\n",
        "current_memory_partition": "NPS1\n",
        **({"xgmi_hive_info/xgmi_hive_id": f"{model['link_group']}\n"} if model["links"] else {}),
    }


def _levels(low: int, now: int, high: int) -> str:
    """Format clocks as pp_dpm_* lists them, with the present one marked."""
    clocks = sorted({low, min(max(now, low), high), high})
    marks = ["*" if clock == min(max(now, low), high) else "" for clock in clocks]
    return "".join(
        f"{number}: {clock}Mhz {mark}".rstrip() + "\n"
        for number, (clock, mark) in enumerate(zip(clocks, marks, strict=True))
    )


def _changing(truth: Card, sensor: dict[str, int], content: gpu_metrics.Content) -> Files:
    model, now = truth["model"], truth["now"]
    memory = sensor["memory_clock_mhz"]
    files: Files = {
        "gpu_metrics": gpu_metrics.table(content, truth, sensor),
        "gpu_busy_percent": f"{sensor['busy_percent']}\n",
        "mem_busy_percent": f"{sensor['memory_busy_percent']}\n",
        "mem_info_vram_used": f"{now['memory_used']}\n",
        "mem_info_vis_vram_used": f"{now['memory_used']}\n",
        "pcie_replay_count": f"{now['pcie_replays']}\n",
        "pp_dpm_mclk": _levels(memory, memory, memory),
        "pp_dpm_sclk": _levels(
            sensor["locked_min_mhz"] or model["clock_min_mhz"],
            sensor["clock_mhz"],
            sensor["locked_max_mhz"] or model["clock_max_mhz"],
        ),
        "power_dpm_force_performance_level": "manual\n" if sensor["locked_max_mhz"] else "auto\n",
    }
    if model["flags"] & _ECC:
        counts = f"ue: {now['ecc_uncorrected']}\nce: {now['ecc_corrected']}\n"
        files |= {"ras/umc_err_count": counts, "ras/gpu_vram_bad_pages": _bad_pages(now)}
    hwmon = _hwmon(model, sensor, "power1_average" if content == 3 else "power1_input")
    return files | {f"{hwmon_of(model)}/{name}": text for name, text in hwmon.items()}


def _bad_pages(now: dict[str, Any]) -> str:
    """Format address, size and R(etired) or P(ending) of each page, with made-up addresses."""
    retired, pending = now["retired_pages"], now["retired_pending"]
    return "".join(
        f"{0x1000 + page:#010x} : 0x00001000 : {'R' if page < retired else 'P'}\n"
        for page in range(retired + pending)
    )


def _hwmon(model: Card, sensor: dict[str, int], power: str) -> Files:
    """Return the files of hwmon, in uW, millidegrees and Hz."""
    files: Files = {
        "name": "amdgpu\n",
        power: f"{sensor['power_mw'] * 1000}\n",
        "power1_label": "PPT\n",
        "power1_cap": f"{sensor['limit_mw'] * 1000}\n",
        "power1_cap_default": f"{model['limit_default_mw'] * 1000}\n",
        "power1_cap_min": f"{model['limit_min_mw'] * 1000}\n",
        "power1_cap_max": f"{model['limit_max_mw'] * 1000}\n",
        "temp2_label": "junction\n",
        "temp2_input": f"{sensor['temperature_mc']}\n",
        "temp2_crit": f"{model['slowdown_c'] * 1000}\n",
        "temp2_emergency": f"{model['shutdown_c'] * 1000}\n",
        "temp3_label": "mem\n",
        "temp3_input": f"{sensor['memory_temperature_mc']}\n",
        "temp3_crit": f"{model['memory_max_c'] * 1000}\n",
        "freq1_label": "sclk\n",
        "freq1_input": f"{sensor['clock_mhz'] * 1_000_000}\n",
        "freq2_label": "mclk\n",
        "freq2_input": f"{sensor['memory_clock_mhz'] * 1_000_000}\n",
    }
    if model["fan_max_rpm"]:
        rpm = sensor["fan_percent"] * model["fan_max_rpm"] // 100
        files |= {"fan1_input": f"{rpm}\n", "fan1_max": f"{model['fan_max_rpm']}\n"}
    return files


def _nothing(truth: Card) -> dict[str, int]:
    """Return readings that give the file names of a card that does not respond."""
    names = "busy_percent memory_busy_percent clock_mhz memory_clock_mhz energy_mj fan_percent"
    names += " limit_mw locked_max_mhz locked_min_mhz memory_temperature_mc temperature_mc"
    names += " pcie_rx_bytes pcie_tx_bytes power_mw why"
    return dict.fromkeys(names.split(), 0)


def _text(values: dict[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _topology(models: list[Card]) -> Files:
    """Return KFD's nodes: one of the CPU for each NUMA node, then the cards, and their links."""
    numas = range(max((model["numa"] for model in models), default=0) + 1)
    files: Files = {"generation_id": "2\n", "system_properties": "platform_oem 0\n"}
    for numa in numas:
        files[f"nodes/{numa}/gpu_id"] = "0\n"
        files[f"nodes/{numa}/name"] = "\n"
        files[f"nodes/{numa}/properties"] = _text({"cpu_cores_count": 1, "simd_count": 0})
    for place, model in enumerate(models):
        node, links = f"nodes/{len(numas) + place}", _io_links(models, place, len(numas))
        files[f"{node}/gpu_id"] = f"{gpu_id(model)}\n"
        files[f"{node}/name"] = f"{model['architecture']}\n"
        files[f"{node}/properties"] = _text(_properties(model, len(links)))
        files[f"{node}/mem_banks/0/properties"] = _text(
            {"heap_type": 1, "size_in_bytes": model["memory_bytes"], "flags": 0}
        )
        for number, link in enumerate(links):
            files[f"{node}/io_links/{number}/properties"] = _text(link)
    return files


def _io_links(models: list[Card], place: int, first: int) -> list[dict[str, int]]:
    """Return a card's links: to its CPU over PCIe, and to each card of its group; in MB/s."""
    own = models[place]
    pcie = int(float(_GT_S[own["pcie_gen"]]) * 1000 / 8 * own["pcie_width"])
    links = [_io_link(first + place, own["numa"], LINK_PCIE, WEIGHT_PCIE, pcie)]
    for other, model in enumerate(models):
        if other != place and own["links"] and model["link_group"] == own["link_group"]:
            speed = own["link_gb_s"] * 1000
            links.append(_io_link(first + place, first + other, LINK_XGMI, WEIGHT_XGMI, speed))
    return links


def _io_link(start: int, end: int, kind: int, weight: int, speed: int) -> dict[str, int]:
    return {
        "type": kind,
        "version_major": 0,
        "version_minor": 0,
        "node_from": start,
        "node_to": end,
        "weight": weight,
        "min_latency": 0,
        "max_latency": 0,
        "min_bandwidth": speed,
        "max_bandwidth": speed,
        "recommended_transfer_size": 0,
        "flags": 1,
    }


def _gfx_version(architecture: str) -> int:
    """Encode a version: gfx942 is 90402, with minor and stepping in two digits each."""
    digits = architecture.removeprefix("gfx")
    return int(digits[:-2]) * 10000 + int(digits[-2], 16) * 100 + int(digits[-1], 16)


def _properties(model: Card, links: int) -> dict[str, int]:
    domain, bus = (int(part, 16) for part in model["bus_id"].split(":")[:2])
    return {
        "cpu_cores_count": 0,
        "simd_count": model["units"] * 4,
        "mem_banks_count": 1,
        "io_links_count": links,
        "simd_per_cu": 4,
        "wave_front_size": 64,
        "gfx_target_version": _gfx_version(model["architecture"]),
        "vendor_id": PCI_VENDOR,
        "device_id": model["pci_device"] >> 16,
        "location_id": bus << 8,
        "domain": domain,
        "drm_render_minor": FIRST_RENDER + model["minor"],
        "hive_id": model["link_group"] if model["links"] else 0,
        "max_engine_clk_fcompute": model["clock_max_mhz"],
        "local_mem_size": model["memory_bytes"],
        "unique_id": unique_id(model),
        "num_xcc": max(1, min(gpu_metrics.XCCS, model["units"] // 38)),
    }
