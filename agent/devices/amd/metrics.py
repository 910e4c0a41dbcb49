# SPDX-License-Identifier: Apache-2.0
"""The `gpu_metrics` file of amdgpu: a binary table whose header names its layout.

Layouts are those of struct gpu_metrics_v1_1 to v1_8 in the kernel's
drivers/gpu/drm/amd/include/kgd_pp_interface.h; a table of another layout is refused. AMD SMI's own
table has other offsets and widths for every version (native/devices/amd/amdsmi.h), so that the two
share nothing but the meaning of their entries.
"""

from __future__ import annotations

import struct

from stoker.agent.devices.readings import Absent

HEADER = struct.Struct("<HBB")
_ALL_ONES = {"H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}

_CLOCKS = ["gfxclk", "socclk", "uclk", "vclk0", "dclk0", "vclk1", "dclk1"]
_V1_3: tuple[tuple[str, str, int], ...] = (
    ("H", "temperature_edge", 1),
    ("H", "temperature_hotspot", 1),
    ("H", "temperature_mem", 1),
    ("H", "temperature_vr", 3),
    ("H", "average_gfx_activity", 1),
    ("H", "average_umc_activity", 1),
    ("H", "average_mm_activity", 1),
    ("H", "average_socket_power", 1),
    ("Q", "energy_accumulator", 1),
    ("Q", "system_clock_counter", 1),
    *(("H", f"average_{clock}", 1) for clock in _CLOCKS),
    *(("H", f"current_{clock}", 1) for clock in _CLOCKS),
    ("I", "throttle_status", 1),
    ("H", "current_fan_speed", 1),
    ("H", "pcie_link_width", 1),
    ("H", "pcie_link_speed", 1),
)
_V1_4_HEAD: tuple[tuple[str, str, int], ...] = (
    ("H", "temperature_hotspot", 1),
    ("H", "temperature_mem", 1),
    ("H", "temperature_vrsoc", 1),
    ("H", "current_socket_power", 1),
    ("H", "average_gfx_activity", 1),
    ("H", "average_umc_activity", 1),
    ("H", "vcn_activity", 4),
)
_V1_4_TAIL: tuple[tuple[str, str, int], ...] = (
    ("Q", "energy_accumulator", 1),
    ("Q", "system_clock_counter", 1),
    ("I", "throttle_status", 1),
    ("I", "gfxclk_lock_status", 1),
    ("H", "pcie_link_width", 1),
    ("H", "pcie_link_speed", 1),
    ("H", "xgmi_link_width", 1),
    ("H", "xgmi_link_speed", 1),
    ("I", "gfx_activity_acc", 1),
    ("I", "mem_activity_acc", 1),
    ("Q", "pcie_bandwidth", 2),
    ("Q", "pcie_l0_to_recov_count_acc", 1),
    ("Q", "pcie_replay_count_acc", 1),
    ("Q", "pcie_replay_rover_count_acc", 1),
)
_XGMI: tuple[tuple[str, str, int], ...] = (
    ("Q", "xgmi_read_data_acc", 8),
    ("Q", "xgmi_write_data_acc", 8),
    ("Q", "firmware_timestamp", 1),
    ("H", "current_gfxclk", 8),
    ("H", "current_socclk", 4),
    ("H", "current_vclk0", 4),
    ("H", "current_dclk0", 4),
    ("H", "current_uclk", 1),
)
_V1_7: tuple[tuple[str, str, int], ...] = (
    *_V1_4_HEAD[:6],
    ("Q", "mem_max_bandwidth", 1),
    ("Q", "energy_accumulator", 1),
    ("Q", "system_clock_counter", 1),
    ("I", "accumulation_counter", 1),
    ("I", "prochot_residency_acc", 1),
    ("I", "ppt_residency_acc", 1),
    ("I", "socket_thm_residency_acc", 1),
    ("I", "vr_thm_residency_acc", 1),
    ("I", "hbm_thm_residency_acc", 1),
)
"""The entries of 1.7 that are read; 1.8 differs from 1.7 only after them."""
LAYOUTS: dict[tuple[int, int], tuple[tuple[str, str, int], ...]] = {
    (1, 1): _V1_3,
    (1, 2): _V1_3,
    (1, 3): _V1_3,
    (1, 4): (*_V1_4_HEAD, *_V1_4_TAIL, *_XGMI),
    (1, 7): _V1_7,
    (1, 8): _V1_7,
    (1, 5): (*_V1_4_HEAD, ("H", "jpeg_activity", 32), *_V1_4_TAIL, ("I", "pcie_nak", 2), *_XGMI),
}
"""(format, content) -> entries: type, name, count."""

RESIDENCIES = (
    ("throttle_power_ns", "ppt_residency_acc", "power limit"),
    ("throttle_thermal_ns", "socket_thm_residency_acc", "thermal"),
    ("throttle_brake_ns", "prochot_residency_acc", "power brake"),
)
"""Field, the entry that counts ticks while the clock was throttled, and the word of its reason."""
TICK_NS = 1_000_000
"""One tick of the firmware."""
ENERGY_COUNT_J = 15.259e-6
"""One count of the energy accumulator, where the library does not tell it (amdsmi.h)."""
SENSOR_ERROR = 0.05
"""Error of the power sensor, as a share of its value."""
Entry = int | tuple[int, ...]


def parse(blob: bytes) -> dict[str, Entry] | Absent:
    """Entries by name, without those that this card lacks (all ones)."""
    if len(blob) < HEADER.size:
        return Absent(f"gpu_metrics has {len(blob)} bytes")
    size, format_, content = HEADER.unpack_from(blob)
    layout = LAYOUTS.get((format_, content))
    if layout is None:
        return Absent(f"gpu_metrics of format {format_}.{content} is not known")
    if size > len(blob):
        return Absent(f"gpu_metrics says {size} bytes and has {len(blob)}")
    found: dict[str, Entry] = {}
    at = HEADER.size
    for kind, name, count in layout:
        width = struct.calcsize(kind)
        at += -at % width  # as the compiler aligns it
        if at + width * count > len(blob):
            break
        values = struct.unpack_from(f"<{count}{kind}", blob, at)
        at += width * count
        there = tuple(value for value in values if value != _ALL_ONES[kind])
        if there:
            found[name] = there[0] if count == 1 else there
    return found
