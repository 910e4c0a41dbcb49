# SPDX-License-Identifier: Apache-2.0
"""The binary `gpu_metrics` file of a simulated AMD card: formats 1.3, 1.7 and 1.8.

Members, their order, widths and units are those of `struct gpu_metrics_v1_3`, `_v1_7` and `_v1_8`
in the kernel's drivers/gpu/drm/amd/include/ kgd_pp_interface.h, where all ones mean that a card
does not have the value. Invariant: a table is as long as its header says, and members are aligned
as the compiler aligns them there.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Literal

Content = Literal[3, 7, 8]
Card = dict[str, Any]
Values = dict[str, Any]

LINKS, CLOCKS, XCCS, PARTITIONS = 8, 8, 8, 8
_ALL_ONES: Final = {"H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}

_V3 = """H:temperature_edge H:temperature_hotspot H:temperature_mem H:temperature_vrgfx
H:temperature_vrsoc H:temperature_vrmem H:average_gfx_activity H:average_umc_activity
H:average_mm_activity H:average_socket_power Q:energy_accumulator Q:system_clock_counter
H:average_gfxclk_frequency H:average_socclk_frequency H:average_uclk_frequency
H:average_vclk0_frequency H:average_dclk0_frequency H:average_vclk1_frequency
H:average_dclk1_frequency H:current_gfxclk H:current_socclk H:current_uclk H:current_vclk0
H:current_dclk0 H:current_vclk1 H:current_dclk1 I:throttle_status H:current_fan_speed
H:pcie_link_width H:pcie_link_speed H:padding I:gfx_activity_acc I:mem_activity_acc
4H:temperature_hbm Q:firmware_timestamp H:voltage_soc H:voltage_gfx H:voltage_mem H:padding1
Q:indep_throttle_status"""

_V7 = """H:temperature_hotspot H:temperature_mem H:temperature_vrsoc H:curr_socket_power
H:average_gfx_activity H:average_umc_activity Q:mem_max_bandwidth Q:energy_accumulator
Q:system_clock_counter I:accumulation_counter I:prochot_residency_acc I:ppt_residency_acc
I:socket_thm_residency_acc I:vr_thm_residency_acc I:hbm_thm_residency_acc I:gfxclk_lock_status
H:pcie_link_width H:pcie_link_speed H:xgmi_link_width H:xgmi_link_speed I:gfx_activity_acc
I:mem_activity_acc Q:pcie_bandwidth_acc Q:pcie_bandwidth_inst Q:pcie_l0_to_recov_count_acc
Q:pcie_replay_count_acc Q:pcie_replay_rover_count_acc I:pcie_nak_sent_count_acc
I:pcie_nak_rcvd_count_acc 8Q:xgmi_read_data_acc 8Q:xgmi_write_data_acc 8H:xgmi_link_status
H:padding Q:firmware_timestamp 8H:current_gfxclk 4H:current_socclk 4H:current_vclk0
4H:current_dclk0 H:current_uclk H:num_partition"""

_XCP: Final = {
    7: "8I:gfx_busy_inst 32H:jpeg_busy 4H:vcn_busy 8Q:gfx_busy_acc 8Q:gfx_below_host_limit_acc",
    8: "8I:gfx_busy_inst 40H:jpeg_busy 4H:vcn_busy 8Q:gfx_busy_acc 8Q:gfx_below_host_limit_ppt_acc"
    " 8Q:gfx_below_host_limit_thm_acc 8Q:gfx_low_utilization_acc 8Q:gfx_below_host_limit_total_acc",
}
TENTH_GT_S: Final = {1: 25, 2: 50, 3: 80, 4: 160, 5: 320, 6: 640}
_POWER, _THERMAL, _HARD_THERMAL, _BRAKE = 1, 2, 3, 4  # places in why_ns, bits of why
_PPT0_BIT, _TEMP_HOTSPOT_BIT, _PROCHOT_BIT = 0, 36, 47  # amdgpu_smu.h, SMU_THROTTLER_*_BIT


def members(content: Content) -> list[tuple[str, str, int]]:
    """Return (name, C type as struct letter, count) in order, without the header.

    A partition is `name.3`.
    """
    if content == 3:
        return _parsed(_V3)
    parts = [
        (f"{name}.{number}", letter, count)
        for number in range(PARTITIONS)
        for name, letter, count in _parsed(_XCP[content])
    ]
    return [*_parsed(_V7), *parts, ("pcie_lc_perf_other_end_recovery", "I", 1)]


def _parsed(text: str) -> list[tuple[str, str, int]]:
    fields = [field.split(":") for field in text.split()]
    return [(name, kind[-1], int(kind[:-1] or 1)) for kind, name in fields]


def packed(content: Content, values: Values) -> bytes:
    """Pack the whole table; a member without a value, or with too few, is filled with ones."""
    fields, numbers = "@HBB", []
    for name, letter, count in members(content):
        fields += "0Q" * name.startswith("gfx_busy_inst")  # a partition begins on eight bytes
        fields += f"{count}{letter}"
        given = values.get(name, [])
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        numbers += [*given, *[_ALL_ONES[letter]] * (count - len(given))]
    fields += "0Q"  # as long as its alignment asks
    return struct.pack(fields, struct.calcsize(fields), 1, content, *numbers)


def _activity(busy_s: float) -> int:
    """Return the busy percent summed each millisecond, in 32 bits that wrap."""
    return int(busy_s * 1000 * 100) & 0xFFFFFFFF


def _shared(card: Card, sensor: dict[str, int]) -> Values:
    """Return the values that every format has."""
    model, now = card["model"], card["now"]
    return {
        "temperature_hotspot": sensor["temperature_mc"] // 1000,
        "temperature_mem": sensor["memory_temperature_mc"] // 1000,
        "average_gfx_activity": sensor["busy_percent"],
        "average_umc_activity": sensor["memory_busy_percent"],
        "energy_accumulator": sensor["energy_mj"] * 65536 // 1000,
        "system_clock_counter": now["at_ns"],
        "firmware_timestamp": now["at_ns"] // 10,
        "gfx_activity_acc": _activity(now["busy_s"]),
        "mem_activity_acc": _activity(now["memory_busy_s"]),
        "pcie_link_width": model["pcie_width"],
        "pcie_link_speed": TENTH_GT_S[model["pcie_gen"]],
        "current_uclk": sensor["memory_clock_mhz"],
    }


def _throttle_bits(why: int) -> int:
    """Return the reasons of the simulation as bits of `indep_throttle_status`."""
    bits = {_POWER: _PPT0_BIT, _BRAKE: _PROCHOT_BIT}
    bits |= dict.fromkeys((_THERMAL, _HARD_THERMAL), _TEMP_HOTSPOT_BIT)
    return sum({1 << bit for reason, bit in bits.items() if why & 1 << reason})


def _old(card: Card, sensor: dict[str, int]) -> Values:
    model = card["model"]
    values = {
        "average_socket_power": sensor["power_mw"] // 1000,
        "average_gfxclk_frequency": sensor["clock_mhz"],
        "average_uclk_frequency": sensor["memory_clock_mhz"],
        "current_gfxclk": sensor["clock_mhz"],
        "indep_throttle_status": _throttle_bits(sensor["why"]),
        "throttle_status": _throttle_bits(sensor["why"]) & 0xFFFFFFFF,
    }
    if model["fan_max_rpm"]:
        values["current_fan_speed"] = sensor["fan_percent"] * model["fan_max_rpm"] // 100
    return values


def _links(card: Card) -> Values:
    model, now = card["model"], card["now"]
    if not model["links"]:
        return {}
    ports = range(min(model["links"], LINKS))
    return {
        "xgmi_link_width": 16,
        "xgmi_link_speed": model["link_gb_s"] * 8 // 16,
        "xgmi_read_data_acc": [int(now["link_rx_bytes"][port]) // 1024 for port in ports],
        "xgmi_write_data_acc": [int(now["link_tx_bytes"][port]) // 1024 for port in ports],
        "xgmi_link_status": [int(not now["link_down"] & 1 << port) for port in ports],
    }


def _residencies(now: dict[str, Any]) -> Values:
    """Return the milliseconds throttled by each reason, of `accumulation_counter` in all."""
    ms = [ns // 1_000_000 for ns in now["why_ns"]]
    return {
        "accumulation_counter": now["at_ns"] // 1_000_000 & 0xFFFFFFFF,
        "prochot_residency_acc": ms[_BRAKE],
        "ppt_residency_acc": ms[_POWER],
        "socket_thm_residency_acc": ms[_THERMAL] + ms[_HARD_THERMAL],
        "vr_thm_residency_acc": 0,
        "hbm_thm_residency_acc": 0,
    }


def _new(card: Card, sensor: dict[str, int]) -> Values:
    model, now = card["model"], card["now"]
    xccs = max(1, min(XCCS, model["units"] // 38))
    return {
        "curr_socket_power": sensor["power_mw"] // 1000,
        "mem_max_bandwidth": model["bandwidth_gb_s"],
        "gfxclk_lock_status": int(sensor["locked_max_mhz"] != 0),
        "pcie_bandwidth_acc": (sensor["pcie_tx_bytes"] + sensor["pcie_rx_bytes"]) // 10**9,
        "pcie_replay_count_acc": now["pcie_replays"],
        "current_gfxclk": [sensor["clock_mhz"]] * xccs,
        "num_partition": 1,
        "gfx_busy_inst.0": [sensor["busy_percent"]] * xccs,
        "gfx_busy_acc.0": [_activity(now["busy_s"])] * xccs,
        **_links(card),
        **_residencies(now),
    }


def table(content: Content, card: Card, sensor: dict[str, int]) -> bytes:
    """Return the file of a card from its `_sim.Node.truth` and `.sensor` at one moment."""
    values = _shared(card, sensor) | (_old if content == 3 else _new)(card, sensor)
    return packed(content, values)
