# SPDX-License-Identifier: Apache-2.0
"""The unmodified pyzes package on the substitute for its loader: truth, faults, settings."""

from __future__ import annotations

import os
import re
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
LOST, NO_PERMISSION, DEPENDENCY = 0x70000001, 0x70010000, 0x70020000
UNINITIALIZED, VERSION, UNSUPPORTED, INVALID = 0x78000001, 0x78000002, 0x78000003, 0x78000004
IN_USE = 0x78000006
NO_GETTERS = [
    "zesDeviceGet",
    "zesDeviceSetEccState",
    "zesFrequencySetRange",
    "zesPowerSetLimitsExt",
]

BEGIN = """
import pyzes as z
from ctypes import *

def many(enum, kind, *of):
    count = c_uint32(0)
    assert enum(*of, byref(count), None) == 0
    made = (kind * count.value)()
    assert enum(*of, byref(count), made) == 0
    return [kind(each) if isinstance(each, int) else each for each in made]

def fields(record):
    said = {}
    for name, kind, *_ in record._fields_:
        value = getattr(record, name)
        if isinstance(value, Structure):
            value = fields(value)
        elif isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, Array):
            value = bytes(value).hex()
        said[name] = value
    return said

def get(function, kind, handle):
    record = kind()
    result = function(handle, byref(record))
    if result:
        return result
    return fields(record) if isinstance(record, Structure) else record.value

begun = z.zesInit(0)
"""

HANDLES = """
d = many(z.zesDeviceGet, z.zes_device_handle_t, many(z.zesDriverGet, z.zes_driver_handle_t)[0])

def parts(device):
    return {
        "Power": many(z.zesDeviceEnumPowerDomains, z.zes_pwr_handle_t, device),
        "Frequency": many(z.zesDeviceEnumFrequencyDomains, z.zes_freq_handle_t, device),
        "Temperature": many(z.zesDeviceEnumTemperatureSensors, z.zes_temp_handle_t, device),
        "Engine": many(z.zesDeviceEnumEngineGroups, z.zes_engine_handle_t, device),
        "Memory": many(z.zesDeviceEnumMemoryModules, z.zes_mem_handle_t, device),
        "Device": [device],
    }

p = [parts(device) for device in d]
"""

WALK = """
import inspect

RECORDS = {
    "zesPowerGetEnergyCounter": z.zes_power_energy_counter_t,
    "zesPowerGetProperties": z.zes_power_properties_t,
    "zesFrequencyGetProperties": z.zes_freq_properties_t,
    "zesFrequencyGetState": z.zes_freq_state_t,
    "zesFrequencyGetRange": z.zes_freq_range_t,
    "zesFrequencyGetThrottleTime": z.zes_freq_throttle_time_t,
    "zesTemperatureGetProperties": z.zes_temp_properties_t,
    "zesTemperatureGetConfig": z.zes_temp_config_t,
    "zesTemperatureGetState": c_double,
    "zesEngineGetProperties": z.zes_engine_properties_t,
    "zesEngineGetActivity": z.zes_engine_stats_t,
    "zesMemoryGetProperties": z.zes_mem_properties_t,
    "zesMemoryGetState": z.zes_mem_state_t,
    "zesMemoryGetBandwidth": z.zes_mem_bandwidth_t,
    "zesDeviceGetProperties": z.zes_device_properties_t,
    "zesDevicePciGetProperties": z.zes_pci_properties_t,
    "zesDevicePciGetState": z.zes_pci_state_t,
    "zesDevicePciGetStats": z.zes_pci_stats_t,
    "zesDeviceEccAvailable": z.ze_bool_t,
    "zesDeviceEccConfigurable": z.ze_bool_t,
    "zesDeviceGetEccState": z.zes_device_ecc_properties_t,
}
LISTS = {
    "zesPowerGetLimitsExt": z.zes_power_limit_ext_desc_t,
    "zesFrequencyGetAvailableClocks": c_double,
    "zesDeviceGetSubDevicePropertiesExp": z.zes_subdevice_exp_properties_t,
    "zesDeviceProcessesGetState": z.zes_process_state_t,
}

def listed(function, kind, handle):
    count = c_uint32(0)
    result = function(handle, byref(count), None)
    made = (kind * count.value)()
    return result or function(handle, byref(count), made)

def walk(place):
    said, left = {}, []
    for name, function in inspect.getmembers(z, inspect.isfunction):
        if not name.startswith("zes"):
            continue
        for family, handles in p[place].items():
            if not name.startswith("zes" + family):
                continue
            if name in RECORDS:
                said[name] = [
                    r if isinstance(r := get(function, RECORDS[name], h), int)
                    and RECORDS[name] is not z.ze_bool_t else 0 for h in handles]
            elif name in LISTS:
                said[name] = [listed(function, LISTS[name], h) for h in handles]
            elif "Enum" not in name:
                left.append(name)
    return said, left
"""


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(stack: ExitStack, folder: Path, profile: str) -> tuple[_sim.Node, Caller]:
    """A node in virtual time and a child with pyzes on it: `d` devices, `p` the parts of each."""
    path = folder / "node"
    node = profiles.node(profile, path, virtual=True, seed=3)
    loader = str(library("sim/levelzero/libze_loader.so.1"))
    caller = stack.enter_context(calling(path, LD_PRELOAD=loader))
    caller.do(BEGIN)
    assert caller.ask("begun") == 0
    caller.do(HANDLES)
    return node, caller


def intel_cards(node: _sim.Node) -> list[int]:
    cards = range(node.describe()["cards"])
    return [card for card in cards if node.truth(card)["model"]["vendor"] == profiles.INTEL]


def part(caller: Caller, function: str, record: str, place: int, index: int = 0) -> Any:
    """The record that a getter fills, or its error; the part is named by the function."""
    family = re.match(r"(Power|Frequency|Temperature|Engine|Memory|Device)", function)
    assert family
    return caller.ask(f"get(z.zes{function}, z.{record}, p[{place}]['{family[1]}'][{index}])")


@pytest.mark.parametrize("profile", ["4xMax1550", "mixed"])
def test_every_getter_answers_on_every_card(
    cleanup: ExitStack, tmp_path: Path, profile: str
) -> None:
    node, caller = begun(cleanup, tmp_path, profile)
    caller.do(WALK)
    cards = intel_cards(node)
    assert caller.ask("len(d)") == len(cards) > 1
    for place in range(len(cards)):
        said, left = caller.ask(f"walk({place})")
        # The memory's clock is never held back, so nobody counts for how long.
        assert said.pop("zesFrequencyGetThrottleTime") == [0, UNSUPPORTED]
        assert {name: set(each) for name, each in said.items() if set(each) != {0}} == {}
        assert len(said) == 24
        made = sum(map(len, said.values()))
        print(f"{profile}, card {place}: {made} calls of {len(said)} getters of pyzes")
        assert left == NO_GETTERS


def test_every_function_of_the_binding_is_exported() -> None:
    text = Path(str(distribution("pyzes").locate_file("pyzes/__init__.py"))).read_text()
    named = set(re.findall(r'getFunctionPointerList\("(\w+)"\)', text))
    file = str(library("sim/levelzero/libze_loader.so.1"))
    told = ["nm", "-D", "--defined-only", file]
    table = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    assert len(named) == 37
    assert named <= exported
    assert "stoker_sim_driver" in exported
    assert {name for name in exported if not re.match("ze[st]?[A-Z]", name)} == {
        "stoker_sim_driver"
    }


def test_identity_is_the_profiles(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "4xMax1550")
    for place, card in enumerate(intel_cards(node)):
        model = node.truth(card)["model"]
        told = part(caller, "DeviceGetProperties", "zes_device_properties_t", place)
        assert told["core"]["name"] == told["modelName"] == model["name"]
        assert told["core"]["deviceId"] == model["pci_device"] >> 16
        assert told["core"]["uuid"]["id"] == model["uuid"].replace("-", "")
        assert told["serialNumber"] == model["serial"]
        assert told["driverVersion"] == model["driver"]
        pci = part(caller, "DevicePciGetProperties", "zes_pci_properties_t", place)
        at = "{domain:08x}:{bus:02x}:{device:02x}.{function:x}".format(**pci["address"])
        assert at == model["bus_id"].lower()
        assert (pci["maxSpeed"]["gen"], pci["maxSpeed"]["width"]) == (
            model["pcie_gen"],
            model["pcie_width"],
        )
        power = part(caller, "PowerGetProperties", "zes_power_properties_t", place)
        assert [power[f"{which}Limit"] for which in ("min", "default", "max")] == [
            model[f"limit_{which}_mw"] for which in ("min", "default", "max")
        ]
        clocks = part(caller, "FrequencyGetProperties", "zes_freq_properties_t", place)
        assert (clocks["min"], clocks["max"]) == (model["clock_min_mhz"], model["clock_max_mhz"])
        memory = part(caller, "MemoryGetProperties", "zes_mem_properties_t", place)
        assert memory["physicalSize"] == model["memory_bytes"]
        found = "c_void_p(), z.zes_uuid_t.from_buffer_copy(bytes.fromhex('{}'))"
        caller.do(f"found, uuid = {found.format(model['uuid'].replace('-', ''))}")
        driver = "many(z.zesDriverGet, z.zes_driver_handle_t)[0]"
        caller.do("h = z.zes_device_handle_t(); on, sub = z.ze_bool_t(), c_uint32()")
        assert (
            caller.ask(
                f"z.zesDriverGetDeviceByUuidExp({driver}, uuid, byref(h), byref(on), byref(sub))"
            )
            == 0
        )
        assert caller.ask(f"h.value == d[{place}].value")


def test_readings_are_what_the_card_holds(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "4xMax1550")
    for card in intel_cards(node):
        node.set_load(card, 0.2 * card + 0.3, 0.5, 0.2)
    node.set_limit(3, 300_000)
    node.add_process(1, os.getpid(), 5 << 30, 0.5, "trainer")
    node.advance(10 * SECOND)
    for place, card in enumerate(intel_cards(node)):
        truth, sensor = node.truth(card), node.sensor(card)
        model, now = truth["model"], truth["now"]
        assert sensor is not None
        energy = part(caller, "PowerGetEnergyCounter", "zes_power_energy_counter_t", place)
        assert energy == {"energy": sensor["energy_mj"] * 1000, "timestamp": 10_000_000}
        clock = part(caller, "FrequencyGetState", "zes_freq_state_t", place)
        assert clock["actual"] == sensor["clock_mhz"]
        assert clock["throttleReasons"] == (1 if now["why"] & 2 else 0)
        memory_clock = part(caller, "FrequencyGetState", "zes_freq_state_t", place, 1)
        assert memory_clock["actual"] == model["memory_mhz"]
        throttled = part(caller, "FrequencyGetThrottleTime", "zes_freq_throttle_time_t", place)
        assert throttled["throttleTime"] == sum(now["why_ns"][1:5]) // 1000
        heats = [part(caller, "TemperatureGetState", "c_double", place, i) for i in range(3)]
        die, memory = sensor["temperature_mc"] // 1000, sensor["memory_temperature_mc"] // 1000
        assert heats == [max(die, memory), die, memory]
        engine = part(caller, "EngineGetActivity", "zes_engine_stats_t", place)
        assert engine["activeTime"] == pytest.approx(now["busy_s"] * 1e6, abs=1)
        state = part(caller, "MemoryGetState", "zes_mem_state_t", place)
        assert state["size"] - state["free"] == now["memory_used"]
        moved = part(caller, "MemoryGetBandwidth", "zes_mem_bandwidth_t", place)
        total = now["memory_busy_s"] * model["bandwidth_gb_s"] * 1e9
        assert moved["readCounter"] + moved["writeCounter"] == pytest.approx(total, rel=1e-9)
        pci = part(caller, "DevicePciGetStats", "zes_pci_stats_t", place)
        assert (pci["rxCounter"], pci["txCounter"]) == (
            sensor["pcie_rx_bytes"],
            sensor["pcie_tx_bytes"],
        )
    assert node.truth(3)["now"]["why_ns"][1] > SECOND
    caller.do(
        "n = c_uint32(8); s = (z.zes_process_state_t * 8)();"
        "assert z.zesDeviceProcessesGetState(d[1], byref(n), s) == 0"
    )
    assert caller.ask("[(s[i].processId, s[i].memSize) for i in range(n.value)]") == [
        [os.getpid(), 5 << 30]
    ]


def test_settings_are_taken_within_the_cards_range(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "4xMax1550")
    caller.do("n = c_uint32(1); l = (z.zes_power_limit_ext_desc_t * 1)()")
    caller.do("assert z.zesPowerGetLimitsExt(p[2]['Power'][0], byref(n), l) == 0")
    assert caller.ask("l[0].limit") == 600_000
    setting = "(setattr(l[0], 'limit', {}), z.zesPowerSetLimitsExt(p[2]['Power'][0], byref(n), l))"
    assert caller.ask(setting.format(350_000))[1] == 0
    assert node.truth(2)["now"]["limit_mw"] == 350_000
    for limit in (-1, 0, 199_999, 600_001):
        assert caller.ask(setting.format(limit))[1] == INVALID
    ranged = "z.zesFrequencySetRange(p[2]['Frequency'][{}], byref(z.zes_freq_range_t({}, {})))"
    assert caller.ask(ranged.format(0, 900, 1200)) == 0
    now = node.truth(2)["now"]
    assert (now["limit_mw"], now["locked_min_mhz"], now["locked_max_mhz"]) == (350_000, 900, 1200)
    for low, high in ((100, 1200), (900, 1700), (1200, 900)):
        assert caller.ask(ranged.format(0, low, high)) == INVALID
    assert caller.ask(ranged.format(0, "float('nan')", 1200)) == INVALID
    assert caller.ask(ranged.format(1, 900, 1200)) == UNSUPPORTED
    assert caller.ask(ranged.format(0, -1, -1)) == 0
    assert node.truth(2)["now"]["locked_max_mhz"] == 0
    tmp_path.chmod(0o755)
    caller.do("os.seteuid(61001)")
    assert caller.ask(setting.format(400_000))[1] == NO_PERMISSION
    assert caller.ask(ranged.format(0, 900, 1200)) == NO_PERMISSION


def test_faults_are_answered_as_the_specification_says(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "4xMax1550")
    for kind, result in [
        ("lost", LOST),
        ("permission", NO_PERMISSION),
        ("reload", DEPENDENCY),
        ("version", VERSION),
    ]:
        node.inject(kind, 1)
        node.advance(1)
        assert part(caller, "MemoryGetState", "zes_mem_state_t", 1) == result
        assert isinstance(part(caller, "MemoryGetState", "zes_mem_state_t", 2), dict)
        assert caller.ask("len(many(z.zesDriverGet, z.zes_driver_handle_t))") == 1
        node.heal()
        node.advance(1)
    node.inject("pages", 1)
    node.advance(1)
    assert part(caller, "MemoryGetState", "zes_mem_state_t", 1)["health"] == 2
    junk = "get(z.zesMemoryGetState, z.zes_mem_state_t, z.zes_mem_handle_t({}))"
    assert caller.ask(junk.format(12345)) == INVALID
    assert caller.ask(junk.format("p[0]['Power'][0].value")) == INVALID
    assert caller.ask(junk.format("None")) == 0x78000005


def test_ports_lead_to_each_other_and_events_are_heard(cleanup: ExitStack, tmp_path: Path) -> None:
    """pyzes has no names for these, so they are called by hand."""
    node, caller = begun(cleanup, tmp_path, "4xMax1550")
    caller.do(
        """
class State(Structure):
    _fields_ = [("stype", c_uint32), ("pNext", c_void_p), ("status", c_uint32),
                ("quality", c_uint32), ("failure", c_uint32), ("remote", c_uint32 * 3),
                ("rx", c_int64 * 2), ("tx", c_int64 * 2)]

lib = z.gpuLib
ports = [many(lib.zesDeviceEnumFabricPorts, c_void_p, each) for each in d]
states = lambda: [[get(lib.zesFabricPortGetState, State, h) for h in each] for each in ports]
"""
    )
    states = caller.ask("states()")
    links = node.truth(0)["model"]["links"]
    assert [len(each) for each in states] == [links] * 4
    for place, each in enumerate(states):
        for port, state in enumerate(each):
            numbers = bytes.fromhex(state["remote"])
            there, number = numbers[0] - 1, numbers[8] - 1
            if number < 0:  # more ports than go round: nothing is at the other end
                assert port == links - 1
                continue
            back = bytes.fromhex(states[there][number]["remote"])
            assert (back[0] - 1, back[8] - 1) == (place, port)
    caller.do("assert lib.zesDeviceEventRegister(d[3], 0x7fff) == 0")
    caller.do("n, e, v = c_uint32(), (c_uint32 * 4)(), many(z.zesDriverGet, z.zes_driver_handle_t)")
    listen = "lib.zesDriverEventListen(v[0], 1000, 4, (c_void_p * 4)(*[x.value for x in d]), {})"
    node.inject("link", 3, value=2, count=1)
    node.inject("ecc", 3, value=1, count=1)
    node.advance(1)
    assert caller.ask(listen.format("byref(n), e")) == 0
    assert caller.ask("(n.value, list(e))") == [1, [0, 0, 0, 1 << 10 | 1 << 13]]
    assert caller.ask("states()[3][2]['status']") == 2


def test_a_card_in_use_is_reset_by_force_alone(cleanup: ExitStack, tmp_path: Path) -> None:
    node, caller = begun(cleanup, tmp_path, "4xMax1550")
    node.add_process(0, os.getpid(), 1 << 20, 1.0)
    node.inject("recovery", 0, value=1)
    node.advance(1)
    caller.do("class S(Structure): _fields_ = [('s', c_uint32), ('n', c_void_p), ('r', c_uint32)]")
    assert caller.ask("get(z.gpuLib.zesDeviceGetState, S, d[0])")["r"] == 1
    assert caller.ask("z.gpuLib.zesDeviceReset(d[0], 0)") == IN_USE
    assert caller.ask("z.gpuLib.zesDeviceReset(d[0], 1)") == 0
    assert node.truth(0)["now"]["resets"] == 1
    assert node.truth(0)["processes"] == []


def test_it_does_not_begin_without_cards_or_node(cleanup: ExitStack, tmp_path: Path) -> None:
    loader = str(library("sim/levelzero/libze_loader.so.1"))
    profiles.node("4xL40S", tmp_path / "nvidia", virtual=True)
    for path in (tmp_path / "nvidia", tmp_path / "nothing"):
        caller = cleanup.enter_context(calling(path, LD_PRELOAD=loader))
        caller.do(BEGIN)
        assert caller.ask("begun") == UNINITIALIZED
        assert caller.ask("z.zesDriverGet(byref(c_uint32(0)), None)") == UNINITIALIZED
        name = "string_at(addressof(c_char.in_dll(z.gpuLib, 'stoker_sim_driver'))).decode()"
        assert caller.ask(name) == "SIM levelzero"
