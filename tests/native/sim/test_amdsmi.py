# SPDX-License-Identifier: Apache-2.0
"""The unmodified amdsmi package on a simulated libamd_smi.so: its whole truth, faults, settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from fakes.cards.callers import Caller, calling

from stoker.native import _sim
from stoker.native.paths import library
from stoker.probes.simdriver import profiles

SECOND = 1_000_000_000
MIB = 1 << 20
INVAL, NOT_SUPPORTED, NO_PERM, OUT_OF_BOUNDS, BUSY = 1, 2, 10, 17, 30
NOT_INIT, NOT_LOADED, NO_DATA, UNEXPECTED_SIZE, UNEXPECTED_DATA = 32, 34, 40, 42, 43

BINDING = Path(str(distribution("amdsmi").locate_file("amdsmi")))
BINDING_FAULTS = {
    "amdsmi_get_gpu_pm_metrics_info",
    "amdsmi_get_gpu_reg_table_info",
    "amdsmi_status_code_to_string",
}
"""They fail in the binding itself: it calls ctypes.POINTER with an instance, not a class."""

WALK = """
import amdsmi, inspect
from amdsmi import amdsmi_interface as face

GIVEN = {
    "clk_type": face.AmdSmiClkType.GFX, "clock_type": face.AmdSmiClkType.GFX,
    "scope": list(face.AmdSmiAffinityScope)[0],
    "block": face.AmdSmiGpuBlock.UMC, "mem_type": face.AmdSmiMemoryType.VRAM,
    "sensor_type": None, "metric": None, "counter_types": [
        face.AmdSmiUtilizationCounterType.COARSE_GRAIN_GFX_ACTIVITY],
    "event_group": list(face.AmdSmiEventGroup)[0], "reg_type": list(face.AmdSmiRegType)[0],
    "link_type": face.AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI, "sensor_idx": 0, "num_regions": 1,
    "pid": 1, "severity_mask": 1, "status": ctypes.c_uint32(2), "sock_count": ctypes.c_uint32(1),
    "encoding": 1, "link_name": "P2", "dimm_addr": 0, "nbio_id": 0,
}

def choices(name, other):
    if "temp_metric" in name:
        sensors = list(face.AmdSmiTemperatureType)[:9]
        return [(s, m) for s in sensors for m in face.AmdSmiTemperatureMetric]
    if "volt_metric" in name:
        return [(face.AmdSmiVoltageType.VDDGFX, face.AmdSmiVoltageMetric.CURRENT)]
    return [()]

def arguments(name, function, handle, other):
    for extra in choices(name, other):
        extra, given = list(extra), []
        for key, parameter in inspect.signature(function).parameters.items():
            if key == "processor_handle_dst":
                given.append(other)
            elif key.startswith("processor_handle") or key == "socket_handle":
                given.append(handle)
            elif parameter.default is not parameter.empty:
                break
            elif key == "bdf":
                given.append(amdsmi.amdsmi_get_gpu_device_bdf(handle))
            else:
                given.append(extra.pop(0) if extra else GIVEN[key])
        yield given

def walk(handle, other):
    said = {}
    for name in sorted(dir(amdsmi)):
        function = getattr(amdsmi, name)
        if not name.startswith("amdsmi_") or not inspect.isfunction(function):
            continue
        if not any(word in name for word in ("_get_", "_is_", "_topo_", "_status", "supported")):
            continue
        for given in arguments(name, function, handle, other):
            try:
                function(*given)
                said.setdefault(name, []).append("ok")
            except Exception as error:
                said.setdefault(name, []).append(getattr(error, "err_code", repr(error)))
    return said
"""


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(stack: ExitStack, folder: Path, profile: str) -> tuple[_sim.Node, Caller]:
    """A node in virtual time with AMD cards, and a child that has amdsmi on it; `h` are handles."""
    path = folder / "node"
    node = profiles.node(profile, path, virtual=True, seed=3)
    caller = stack.enter_context(calling(path, ROCM_PATH=str(library("sim/rocm"))))
    caller.do("import amdsmi; amdsmi.amdsmi_init(); h = amdsmi.amdsmi_get_processor_handles()")
    return node, caller


def amd_cards(node: _sim.Node) -> list[int]:
    cards = range(node.describe()["cards"])
    return [card for card in cards if node.truth(card)["model"]["vendor"] == profiles.AMD]


def get(caller: Caller, name: str, place: int, *more: str) -> Any:
    return caller.ask(f"amdsmi.amdsmi_{name}({', '.join([f'h[{place}]', *more])})")


@pytest.mark.parametrize("profile", ["8xMI300X", "mixed"])
def test_every_getter_answers_on_every_card(
    cleanup: ExitStack, tmp_path: Path, profile: str
) -> None:
    node, caller = begun(cleanup, tmp_path, profile)
    caller.do(WALK)
    for place in range(len(amd_cards(node))):
        said = caller.ask(f"walk(h[{place}], h[{place - 1}])")
        strange = {
            name: answer
            for name, answers in said.items()
            for answer in answers
            if answer not in ("ok", NOT_SUPPORTED) and name not in BINDING_FAULTS
        }
        # Nobody runs there, and pid 1 does not.
        for name in ("info_by_pid", "gpus"):
            assert strange.pop(f"amdsmi_get_gpu_compute_process_{name}") == 31
        assert strange == {}
        assert sum("ok" in answers for answers in said.values()) > 60
        made = sum(map(len, said.values()))
        print(f"{profile}, card {place}: {made} calls of {len(said)} getters of amdsmi")
    calls = node.calls()
    cards = len(amd_cards(node))
    assert calls["amdsmi_get_fw_info"] == (cards, cards)
    assert calls["amdsmi_get_power_info"][1] == 0


def test_every_function_of_the_binding_is_exported(tmp_path: Path) -> None:
    text = BINDING.joinpath("amdsmi_wrapper.py").read_text()
    named = {
        line.rsplit(".", 1)[1]
        for line in text.splitlines()
        if " = _libraries['libamd_smi.so']." in line
    }
    table = subprocess.run(
        ["nm", "-D", "--defined-only", str(library("sim/rocm/lib/libamd_smi.so"))],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    assert len(named) == 184
    assert exported == named | {"stoker_sim_driver"}


def test_identity_is_the_profiles(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    assert caller.ask("len(h)") == 8
    for place, card in enumerate(amd_cards(node)):
        model = node.truth(card)["model"]
        asic = get(caller, "get_gpu_asic_info", place)
        assert asic["market_name"] == model["name"]
        assert int(asic["device_id"], 16) == model["pci_device"] >> 16
        assert int(asic["asic_serial"], 16) == int(model["serial"], 16)
        assert asic["num_compute_units"] == model["units"]
        assert asic["target_graphics_version"] == model["architecture"]
        assert get(caller, "get_gpu_device_uuid", place) == model["uuid"]
        assert get(caller, "get_gpu_device_bdf", place) == model["bus_id"].lower()[4:]
        assert get(caller, "get_gpu_driver_info", place)["driver_version"] == model["driver"]
        assert get(caller, "get_gpu_vbios_info", place)["version"] == model["firmware"]
        assert get(caller, "get_gpu_board_info", place)["product_serial"] == model["serial"]
        assert get(caller, "topo_get_numa_node_number", place) == model["numa"]
        assert get(caller, "get_gpu_enumeration_info", place)["drm_card"] == model["minor"]
        vram = get(caller, "get_gpu_vram_info", place)
        assert (vram["vram_size"], vram["vram_max_bandwidth"]) == (
            model["memory_bytes"] // MIB,
            model["bandwidth_gb_s"],
        )
        pcie = get(caller, "get_pcie_info", place)["pcie_static"]
        assert (pcie["max_pcie_width"], pcie["pcie_interface_version"]) == (
            model["pcie_width"],
            model["pcie_gen"],
        )


def test_readings_are_what_the_card_holds(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    for card in amd_cards(node):
        node.set_load(card, 0.1 * card + 0.2, 0.5, 0.3)
    node.set_limit(2, 400_000)
    node.add_process(1, os.getpid(), 5 << 30, 0.5, "trainer")
    node.advance(20 * SECOND)
    for place, card in enumerate(amd_cards(node)):
        truth, sensor = node.truth(card), node.sensor(card)
        model, now = truth["model"], truth["now"]
        assert sensor is not None
        power = get(caller, "get_power_info", place)
        assert power["current_socket_power"] == sensor["power_mw"] // 1000
        assert power["average_socket_power"] == "N/A"
        cap = get(caller, "get_power_cap_info", place)
        assert cap == {
            "power_cap": now["limit_mw"] * 1000,
            "default_power_cap": model["limit_default_mw"] * 1000,
            "dpm_cap": model["clock_max_mhz"],
            "min_power_cap": model["limit_min_mw"] * 1000,
            "max_power_cap": model["limit_max_mw"] * 1000,
        }
        energy = get(caller, "get_energy_count", place)
        joules = energy["energy_accumulator"] * energy["counter_resolution"] * 1e-6
        assert joules == pytest.approx(sensor["energy_mj"] / 1000, abs=0.01)
        activity = get(caller, "get_gpu_activity", place)
        assert activity["gfx_activity"] == sensor["busy_percent"]
        assert activity["umc_activity"] == sensor["memory_busy_percent"]
        used = get(caller, "get_gpu_memory_usage", place, "amdsmi.AmdSmiMemoryType.VRAM")
        assert used == now["memory_used"]
        clock = get(caller, "get_clock_info", place, "amdsmi.AmdSmiClkType.GFX")
        assert (clock["clk"], clock["clk_locked"]) == (sensor["clock_mhz"], False)
        heat = "amdsmi.AmdSmiTemperatureType.{}, amdsmi.AmdSmiTemperatureMetric.{}"
        for where, what, expected in [
            ("HOTSPOT", "CURRENT", sensor["temperature_mc"] // 1000),
            ("VRAM", "CURRENT", sensor["memory_temperature_mc"] // 1000),
            ("HOTSPOT", "CRITICAL", model["slowdown_c"]),
            ("HOTSPOT", "EMERGENCY", model["shutdown_c"]),
            ("VRAM", "CRITICAL", model["memory_max_c"]),
        ]:
            assert get(caller, "get_temp_metric", place, heat.format(where, what)) == expected
    assert node.truth(2)["now"]["why_ns"][1] > SECOND
    running = get(caller, "get_gpu_process_list", 1)
    assert [(each["pid"], each["name"], each["mem"]) for each in running] == [
        (os.getpid(), "trainer", 5 << 30)
    ]


def test_the_metrics_table_agrees_with_the_single_calls(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    node.set_load(0, 1.0, 0.9, 0.1)
    node.set_limit(0, 500_000)
    node.inject("link", 0, value=3)
    node.advance(5 * SECOND)
    truth, sensor = node.truth(0), node.sensor(0)
    assert sensor is not None
    table = get(caller, "get_gpu_metrics_info", 0)
    now = truth["now"]
    assert table["temperature_edge"] == "N/A"
    assert table["temperature_hotspot"] == sensor["temperature_mc"] // 1000
    assert table["current_socket_power"] == sensor["power_mw"] // 1000
    assert table["current_gfxclks"] == [sensor["clock_mhz"]] * 8
    assert table["current_uclk"] == sensor["memory_clock_mhz"]
    assert table["energy_accumulator"] == sensor["energy_mj"] * 65536 // 1000
    assert table["accumulation_counter"] == 5000
    assert table["ppt_residency_acc"] == now["why_ns"][1] // 1_000_000 > 0
    assert table["xgmi_link_status"] == [1, 1, 1, 0, 1, 1, 1, "N/A"]
    assert table["xgmi_read_data_acc"][0] == int(now["link_rx_bytes"][0]) // 1024
    violations = get(caller, "get_violation_status", 0)
    assert violations["acc_ppt_pwr"] == table["ppt_residency_acc"]
    assert (violations["active_ppt_pwr"], violations["active_socket_thrm"]) == (True, False)
    assert violations["per_ppt_pwr"] == now["why_ns"][1] // 1_000_000 * 100 // 5000


def test_all_cards_see_each_other_over_xgmi_until_a_link_is_down(
    cleanup: ExitStack, tmp_path: Path
) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    matrix = (
        "[[amdsmi.amdsmi_topo_get_link_type(a, b)['type'] for b in h if b is not a] for a in h]"
    )
    assert caller.ask(matrix) == [[2] * 7] * 8
    assert get(caller, "topo_get_link_weight", 0, "h[1]") == 15
    bandwidth = get(caller, "get_minmax_bandwidth_between_processors", 0, "h[1]")
    assert bandwidth == {"min_bandwidth": 64000, "max_bandwidth": 64000}
    node.inject("link", 0, value=0)
    node.advance(1)
    assert get(caller, "topo_get_link_type", 0, "h[1]") == {"hops": 2, "type": 1}
    assert get(caller, "topo_get_link_weight", 0, "h[7]") == 15
    near = "amdsmi.AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI"
    assert len(get(caller, "get_link_topology_nearest", 0, near)["processor_list"]) == 6
    status = get(caller, "get_gpu_xgmi_link_status", 0)
    assert status == {"status": list("DUUUUUUX"), "total_links": 8}


def test_settings_are_taken_within_the_cards_range(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    caller.do("amdsmi.amdsmi_set_power_cap(h[1], 0, 300_000_000)")
    assert node.truth(1)["now"]["limit_mw"] == 300_000
    for cap in (1, 149_999_000, 750_001_000, 2**63):
        assert caller.code(f"amdsmi.amdsmi_set_power_cap(h[1], 0, {cap})") == OUT_OF_BOUNDS
    assert node.truth(1)["now"]["limit_mw"] == 300_000
    gfx = "amdsmi.AmdSmiClkType.GFX"
    caller.do(f"amdsmi.amdsmi_set_gpu_clk_range(h[1], 500, 1200, {gfx})")
    now = node.truth(1)["now"]
    assert (now["locked_min_mhz"], now["locked_max_mhz"]) == (500, 1200)
    assert get(caller, "get_gpu_perf_level", 1) == "AMDSMI_DEV_PERF_LEVEL_MANUAL"
    assert caller.code(f"amdsmi.amdsmi_set_gpu_clk_range(h[1], 1, 1200, {gfx})") == INVAL
    caller.do("amdsmi.amdsmi_set_gpu_perf_level(h[1], amdsmi.AmdSmiDevPerfLevel.AUTO)")
    assert node.truth(1)["now"]["locked_max_mhz"] == 0
    divide = "amdsmi.amdsmi_set_gpu_compute_partition(h[1], amdsmi.AmdSmiComputePartitionType.{})"
    caller.do(divide.format("CPX"))
    assert get(caller, "get_gpu_compute_partition", 1) == "CPX"
    assert get(caller, "get_gpu_metrics_info", 1)["num_partition"] == 8
    node.add_process(1, os.getpid(), MIB, 1.0)
    assert caller.code(divide.format("SPX")) == BUSY


def test_a_setting_needs_root_unless_the_node_is_open(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    tmp_path.chmod(0o755)
    caller.do("os.seteuid(61001)")
    assert caller.code("amdsmi.amdsmi_set_power_cap(h[0], 0, 300_000_000)") == NO_PERM
    node.set_open(True)
    caller.do("amdsmi.amdsmi_set_power_cap(h[0], 0, 300_000_000)")


def test_faults_are_answered_as_the_real_library_would(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    read = "amdsmi.amdsmi_get_power_info(h[{}])"
    for kind, code in [
        ("lost", UNEXPECTED_DATA),
        ("permission", NO_PERM),
        ("reload", NOT_LOADED),
        ("version", UNEXPECTED_SIZE),
    ]:
        node.inject(kind, 4)
        node.advance(1)
        assert (caller.code(read.format(4)), caller.code(read.format(5))) == (code, 0), kind
        if kind == "lost":
            assert caller.ask("len(amdsmi.amdsmi_get_processor_handles())") == 8
        node.heal()
        node.advance(1)
        assert caller.code(read.format(4)) == 0
    node.inject("error", 4, value=BUSY, call="power_info")
    node.advance(1)
    assert caller.code(read.format(4)) == BUSY
    assert caller.code("amdsmi.amdsmi_get_energy_count(h[4])") == 0


def test_errors_pages_and_events_are_told(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "8xMI300X")
    kinds = "amdsmi.AmdSmiEvtNotificationType"
    caller.do(f"r = amdsmi.AmdSmiEventReader(h[6], [{kinds}.VMFAULT, {kinds}.GPU_PRE_RESET])")
    assert caller.code("r.read(0)") == NO_DATA
    node.inject("ecc", 6, value=1, count=2)
    node.inject("ecc", 6, value=0, count=3)
    node.inject("pages", 6)
    node.inject("xid", 6, value=31)
    node.inject("xid", 5, value=31)
    node.advance(SECOND)
    total = get(caller, "get_gpu_total_ecc_count", 6)
    assert (total["correctable_count"], total["uncorrectable_count"]) == (3, 2)
    umc = get(caller, "get_gpu_ecc_count", 6, "amdsmi.AmdSmiGpuBlock.UMC")
    assert umc == total
    gfx = get(caller, "get_gpu_ecc_count", 6, "amdsmi.AmdSmiGpuBlock.GFX")
    assert gfx["uncorrectable_count"] == 0
    assert [page["status"] for page in get(caller, "get_gpu_bad_page_info", 6)] == [0, 1]
    heard = caller.ask("r.read(1000)")
    assert [event["event"] for event in heard] == ["VMFAULT"]
    assert heard[0]["message"].startswith("SIM 31 ")
    caller.do("amdsmi.amdsmi_reset_gpu(h[6])")
    assert get(caller, "get_gpu_total_ecc_count", 6)["uncorrectable_count"] == 0


def test_it_does_not_begin_without_cards_or_node(cleanup: ExitStack, tmp_path: Path) -> None:
    rocm = str(library("sim/rocm"))
    profiles.node("4xL40S", tmp_path / "nvidia", virtual=True)
    for path in (tmp_path / "nvidia", tmp_path / "nothing"):
        caller = cleanup.enter_context(calling(path, ROCM_PATH=rocm))
        caller.do("import amdsmi")
        assert caller.code("amdsmi.amdsmi_init()") == NOT_LOADED
        assert caller.code("amdsmi.amdsmi_get_processor_handles()") == NOT_INIT
        caller.do("lib = amdsmi.amdsmi_interface.amdsmi_wrapper._libraries['libamd_smi.so']")
        mark = "ctypes.c_char.in_dll(lib, 'stoker_sim_driver')"
        text = f"ctypes.string_at(ctypes.addressof({mark})).decode()"
        assert caller.ask(text) == "SIM amdsmi"
