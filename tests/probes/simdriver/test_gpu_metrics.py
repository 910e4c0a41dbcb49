# SPDX-License-Identifier: Apache-2.0
"""The binary metrics of AMD cards, against places that the kernel's structures have."""

from __future__ import annotations

import struct

import pytest

from stoker.probes.simdriver import gpu_metrics, profiles


@pytest.mark.parametrize(("content", "size"), [(3, 120), (7, 2208), (8, 3872)])
def test_a_table_is_as_long_as_the_kernels(content: gpu_metrics.Content, size: int) -> None:
    nothing = gpu_metrics.packed(content, {})
    assert len(nothing) == size
    assert struct.unpack_from("<HBB", nothing) == (size, 1, content)
    padding = nothing[4:].count(0)
    assert set(nothing[4:]) <= {0xFF, 0} and padding < 32  # alignment alone is zero


PLACES = {
    3: {
        "temperature_hotspot": (6, "<H"),
        "average_socket_power": (22, "<H"),
        "energy_accumulator": (24, "<Q"),
        "system_clock_counter": (32, "<Q"),
        "current_gfxclk": (54, "<H"),
        "gfx_activity_acc": (80, "<I"),
        "firmware_timestamp": (96, "<Q"),
        "indep_throttle_status": (112, "<Q"),
    },
    7: {
        "temperature_hotspot": (4, "<H"),
        "curr_socket_power": (10, "<H"),
        "average_gfx_activity": (12, "<H"),
        "mem_max_bandwidth": (16, "<Q"),
        "energy_accumulator": (24, "<Q"),
        "accumulation_counter": (40, "<I"),
        "ppt_residency_acc": (48, "<I"),
        "pcie_bandwidth_acc": (88, "<Q"),
        "xgmi_read_data_acc": (136, "<Q"),
        "firmware_timestamp": (288, "<Q"),
        "current_gfxclk": (296, "<H"),
        "current_uclk": (336, "<H"),
        "num_partition": (338, "<H"),
        "gfx_busy_inst.0": (344, "<I"),
        "gfx_busy_inst.1": (344 + 232, "<I"),
        "pcie_lc_perf_other_end_recovery": (2200, "<I"),
    },
}


@pytest.mark.parametrize("content", [3, 7])
def test_members_are_where_the_kernel_has_them(content: gpu_metrics.Content) -> None:
    for name, (offset, letter) in PLACES[content].items():
        made = gpu_metrics.packed(content, {name: 0x11})
        assert struct.unpack_from(letter, made, offset) == (0x11,), name


def test_a_table_says_what_the_card_does() -> None:
    node = profiles.node("8xMI300X")
    node.set_load(0, 1.0, 0.5, 0.1)
    node.set_limit(0, 400_000)
    node.advance(3_000_000_000)
    truth, sensor = node.truth(0), node.sensor(0)
    assert sensor is not None
    new = gpu_metrics.table(7, truth, sensor)
    assert struct.unpack_from("<H", new, 10)[0] == sensor["power_mw"] // 1000
    assert struct.unpack_from("<I", new, 40)[0] == 3000
    assert struct.unpack_from("<I", new, 48)[0] == truth["now"]["why_ns"][1] // 1_000_000 > 0
    assert struct.unpack_from("<9H", new, 296) == (*[sensor["clock_mhz"]] * 8, 0xFFFF)
    old = gpu_metrics.table(3, truth, sensor)
    assert struct.unpack_from("<H", old, 22)[0] == sensor["power_mw"] // 1000
    assert struct.unpack_from("<Q", old, 112)[0] == 1  # held back by its power limit
    assert struct.unpack_from("<H", old, 4)[0] == 0xFFFF  # no edge sensor
