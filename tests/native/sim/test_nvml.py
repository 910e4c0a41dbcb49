# SPDX-License-Identifier: Apache-2.0
"""The simulated NVML under the unmodified pynvml: names, layouts, every getter, every figure."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fakes.cards.callers import Caller, calling
from fakes.cards.layouts import NATIVE, assertions, differences

from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles

ROOT = Path(__file__).parents[3]
WALK = ROOT / "tests/fakes/cards/nvml_walk.py"
NVIDIA = ["8xH200", "8xA100-MIG", "4xL40S", "mixed"]
S = 10**9
OK, NOT_SUPPORTED, INVALID, NO_PERMISSION, NOT_FOUND = 0, 3, 2, 4, 6
LOST, MISMATCH, VERSION, UNINITIALIZED, TIMEOUT = 15, 18, 25, 1, 10
RESET_REQUIRED = 16

# Structures whose class pynvml names otherwise.
CLASSES = {
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlPciInfoExt_v1_t": "nvmlPciInfoExt_v1_t",
    "nvmlProcessInfo_v1_t": "",
    "nvmlProcessInfo_v2_t": "c_nvmlProcessInfo_v2_t",
    "nvmlUUID_t": "c_nvmlUUID_t",
    "nvmlDeviceAttributes_t": "c_nvmlDeviceAttributes",
    "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
    "nvmlFanSpeedInfo_v1_t": "c_nvmlFanSpeedInfo_t",
}


def pynvml() -> Any:
    return importlib.import_module("pynvml")


def nv_constant(name: str) -> int:
    return int(getattr(pynvml(), name))


def test_every_function_that_pynvml_names_is_exported() -> None:
    source = Path(pynvml().__file__).read_text()
    named = set(re.findall(r"_nvmlGetFunctionPointer\([\"'](nvml\w+)[\"']\)", source))
    assert len(named) > 400
    said = subprocess.run(["nm", "-D", libraries.NVML], capture_output=True, text=True, check=True)
    exported = set(re.findall(r" [TW] (\w+)$", said.stdout, re.MULTILINE))
    assert named - exported == set()
    ours = {name for name in exported if not name.startswith("nvml")}
    assert ours - {"_init", "_fini"} == set()
    assert "stoker_sim_driver" in said.stdout


def test_structures_are_laid_out_as_pynvmls() -> None:
    nv, lines = pynvml(), []
    names = re.findall(r"^\} (nvml\w+_t);", (NATIVE / "sim/nvml/abi.h").read_text(), re.MULTILINE)
    assert len(names) > 35
    for name in names:
        theirs = getattr(nv, CLASSES.get(name, f"c_{name}"), None)
        if theirs is None:
            assert name in ("nvmlProcessInfo_v1_t",), f"pynvml has no {name}"
            continue
        lines += assertions(name, theirs)
    assert differences('#include "sim/nvml/abi.h"', lines) == ""


@pytest.mark.parametrize("profile", NVIDIA)
def test_every_getter_answers_on_every_card(profile: str, tmp_path: Path) -> None:
    node = profiles.node(profile, tmp_path / "node", virtual=True)
    for card in range(node.describe()["cards"]):
        node.set_load(card, 1.0, 0.5, 0.2)
    node.advance(3 * S)
    environment = libraries.environment(tmp_path / "node", {profiles.NVIDIA})
    done = subprocess.run(
        [sys.executable, WALK], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, list[str]] = json.loads(done.stdout)
    assert len(answers) > 300
    print(f"{profile}: {sum(map(len, answers.values()))} calls of {len(answers)} getters of pynvml")
    fine = {"ok", str(NOT_SUPPORTED), str(NOT_FOUND), str(INVALID)}
    assert {n: a for n, a in answers.items() if not set(a) <= fine} == {}
    refused = {n for n, a in answers.items() if str(INVALID) in a}
    assert all(
        "Instance" in n or "Mig" in n or "Attributes" in n
        for n in refused - {"nvmlDeviceGetNvLinkInfo"}
    ), refused
    calls = node.calls()
    assert sum(absent for _, absent in calls.values()) == node.describe()["not_supported"] > 100
    assert calls["nvmlDeviceGetPowerUsage"][1] == sum(
        answer == str(NOT_SUPPORTED) for answer in answers["nvmlDeviceGetPowerUsage"]
    )


@pytest.fixture
def node(tmp_path: Path) -> _sim.Node:
    """8xH200 under a load that differs from card to card."""
    made = profiles.node("8xH200", tmp_path / "node", virtual=True, seed=3)
    for card in range(8):
        made.set_load(card, card / 8, card / 10, 0.2)
    made.add_process(2, 4321, 7 << 30, 0.75, "train")
    made.advance(30 * S)
    return made


@pytest.fixture
def caller(node: _sim.Node, tmp_path: Path) -> Iterator[Caller]:
    with calling(tmp_path / "node", LD_LIBRARY_PATH=str(libraries.NVML.parent)) as child:
        child.do("import pynvml as nv; nv.nvmlInit()")
        child.do(
            "cards = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(nv.nvmlDeviceGetCount())]"
        )
        yield child


IDENTITY = {
    "nvmlDeviceGetName({})": "name",
    "nvmlDeviceGetUUID({})": "uuid",
    "nvmlDeviceGetSerial({})": "serial",
    "nvmlDeviceGetVbiosVersion({})": "firmware",
    "nvmlDeviceGetMinorNumber({})": "minor",
    "nvmlDeviceGetNumaNodeId({})": "numa",
    "nvmlDeviceGetPciInfo({}).busId": "bus_id",
    "nvmlDeviceGetPciInfo({}).pciDeviceId": "pci_device",
    "nvmlDeviceGetPciInfo({}).pciSubSystemId": "pci_subsystem",
    "nvmlDeviceGetMemoryInfo({}).total": "memory_bytes",
    "nvmlDeviceGetMemoryInfo({}, version=nv.nvmlMemory_v2).total": "memory_bytes",
    "nvmlDeviceGetMaxPcieLinkGeneration({})": "pcie_gen",
    "nvmlDeviceGetMaxPcieLinkWidth({})": "pcie_width",
    "nvmlDeviceGetMaxClockInfo({}, 1)": "clock_max_mhz",
    "nvmlDeviceGetMaxClockInfo({}, 2)": "memory_mhz",
    "nvmlDeviceGetPowerManagementDefaultLimit({})": "limit_default_mw",
    "nvmlDeviceGetPowerManagementLimitConstraints({})[0]": "limit_min_mw",
    "nvmlDeviceGetPowerManagementLimitConstraints({})[1]": "limit_max_mw",
    "nvmlDeviceGetTemperatureThreshold({}, 0)": "shutdown_c",
    "nvmlDeviceGetTemperatureThreshold({}, 1)": "slowdown_c",
    "nvmlDeviceGetTemperatureThreshold({}, 2)": "memory_max_c",
    "nvmlDeviceGetTemperatureThreshold({}, 3)": "target_c",
    "nvmlDeviceGetNumGpuCores({}) // 128": "units",
}
READINGS = {
    "nvmlDeviceGetPowerUsage({})": "power_mw",
    "nvmlDeviceGetFieldValues({}, [185])[0].value.uiVal": "power_mw",
    "nvmlDeviceGetFieldValues({}, [186])[0].value.uiVal": "power_instant_mw",
    "nvmlDeviceGetTotalEnergyConsumption({})": "energy_mj",
    "nvmlDeviceGetFieldValues({}, [83])[0].value.ullVal": "energy_mj",
    "nvmlDeviceGetUtilizationRates({}).gpu": "busy_percent",
    "nvmlDeviceGetUtilizationRates({}).memory": "memory_busy_percent",
    "nvmlDeviceGetClockInfo({}, 1)": "clock_mhz",
    "nvmlDeviceGetClockInfo({}, 2)": "memory_clock_mhz",
    "nvmlDeviceGetEnforcedPowerLimit({})": "limit_mw",
    "nvmlDeviceGetViolationStatus({}, 0).violationTime": "power_ns",
    "nvmlDeviceGetFieldValues({}, [74])[0].value.ullVal": "power_ns",
    "nvmlDeviceGetFieldValues({}, [75])[0].value.ullVal": "thermal_ns",
}


def test_what_the_node_holds_is_what_pynvml_reads(node: _sim.Node, caller: Caller) -> None:
    for index in range(8):
        model, read = node.truth(index)["model"], node.sensor(index)
        assert read is not None
        for expression, key in IDENTITY.items():
            assert caller.ask("nv." + expression.format(f"cards[{index}]")) == model[key], key
        for expression, key in READINGS.items():
            assert caller.ask("nv." + expression.format(f"cards[{index}]")) == read[key], key
        degrees = caller.ask(f"nv.nvmlDeviceGetTemperature(cards[{index}], 0)")
        assert degrees == (read["temperature_mc"] + 500) // 1000
        memory = caller.ask(f"nv.nvmlDeviceGetFieldValues(cards[{index}], [82])[0].value.uiVal")
        assert memory == (read["memory_temperature_mc"] + 500) // 1000


def test_clocks_that_are_listed_are_the_models(node: _sim.Node, caller: Caller) -> None:
    clocks = caller.ask("nv.nvmlDeviceGetSupportedGraphicsClocks(cards[0], 3201)")
    assert clocks == list(range(1980, 344, -15))
    assert caller.ask("nv.nvmlDeviceGetSupportedMemoryClocks(cards[0])") == [3201]


def test_processes_and_their_shares(node: _sim.Node, caller: Caller) -> None:
    told = caller.ask(
        "[(p.pid, p.usedGpuMemory) for p in nv.nvmlDeviceGetComputeRunningProcesses(cards[2])]"
    )
    assert told == [[4321, 7 << 30]]
    assert caller.ask("nv.nvmlSystemGetProcessName(4321)") == "train"
    used = caller.ask("nv.nvmlDeviceGetMemoryInfo(cards[2], version=nv.nvmlMemory_v2).used")
    assert used == 7 << 30
    samples = "[(s.pid, s.smUtil) for s in nv.nvmlDeviceGetProcessUtilization(cards[2], 0)]"
    busy = node.sensor(2)
    assert busy is not None
    assert caller.ask(samples) == [[4321, pytest.approx(0.75 * busy["busy_percent"], abs=1)]]


def test_the_drivers_own_samples(node: _sim.Node, caller: Caller) -> None:
    """Oldest first, 100 ms apart, none older than asked for, and the newest is the reading."""
    got = caller.ask(
        "[(s.timeStamp, s.sampleValue.uiVal) for s in nv.nvmlDeviceGetSamples(cards[7], 0, 0)[1]]"
    )
    stamps = [stamp for stamp, _ in got]
    assert len(got) == 128
    assert {b - a for a, b in pairwise(stamps)} == {100_000}
    read = node.sensor(7)
    assert read is not None
    newest = [watts for _, watts in got[-10:]]
    assert sum(newest) / 10 == pytest.approx(read["power_mw"], abs=1)
    later = f"nv.nvmlDeviceGetSamples(cards[7], 0, {stamps[-1]})"
    assert caller.code(later) == NOT_FOUND
    node.advance(S)
    assert len(caller.ask(f"[1 for s in {later}[1]]")) == 10


def test_gpm_is_the_difference_of_two_samples(node: _sim.Node, caller: Caller) -> None:
    caller.do("a, b = nv.nvmlGpmSampleAlloc(), nv.nvmlGpmSampleAlloc()")
    caller.do("nv.nvmlGpmSampleGet(cards[4], a)")
    before = node.truth(4)["now"]
    node.advance(2 * S)
    after = node.truth(4)["now"]
    caller.do("nv.nvmlGpmSampleGet(cards[4], b)")
    caller.do("g = nv.c_nvmlGpmMetricsGet_t(); g.version = 1; g.numMetrics = 4")
    caller.do("g.sample1, g.sample2 = a, b")
    caller.do("[setattr(g.metrics[i], 'metricId', m) for i, m in enumerate((2, 10, 21, 61))]")
    caller.do("nv.nvmlGpmMetricsGet(g)")
    busy, memory, pcie, links = caller.ask("[g.metrics[i].value for i in range(4)]")
    assert busy == pytest.approx((after["busy_s"] - before["busy_s"]) / 2 * 100)
    assert memory == pytest.approx((after["memory_busy_s"] - before["memory_busy_s"]) / 2 * 100)
    mib = (after["pcie_rx_bytes"] - before["pcie_rx_bytes"]) / 2 / 2**20
    assert pcie == pytest.approx(mib)
    assert links == pytest.approx(
        (sum(after["link_tx_bytes"]) - sum(before["link_tx_bytes"])) / 2 / 2**20
    )
    caller.do("nv.nvmlGpmSampleFree(a); nv.nvmlGpmSampleFree(b)")


def test_topology(node: _sim.Node, caller: Caller) -> None:
    ask = "nv.nvmlDeviceGetTopologyCommonAncestor(cards[0], cards[{}])"
    assert [caller.ask(ask.format(i)) for i in (0, 1, 7)] == [0, 40, 50]
    links = "[nv.nvmlDeviceGetNvLinkState(cards[0], i) for i in range(18)]"
    assert caller.ask(links) == [1] * 18
    assert caller.code("nv.nvmlDeviceGetNvLinkState(cards[0], 18)") == INVALID
    node.inject("link", 0, value=5)
    node.inject("link", 0, value=7, count=3)
    node.advance(1)
    assert caller.ask(links) == [1] * 5 + [0] + [1] * 12
    assert caller.ask("nv.nvmlDeviceGetNvLinkErrorCounter(cards[0], 7, 0)") == 3
    assert caller.ask("nv.nvmlDeviceGetP2PStatus(cards[0], cards[1], 2)") == 0
    cpus = caller.ask("list(nv.nvmlDeviceGetCpuAffinity(cards[7], 2))")
    assert cpus == [0, 2**64 - 1]


def test_settings_are_taken_read_back_and_bounded(node: _sim.Node, caller: Caller) -> None:
    assert caller.code("nv.nvmlDeviceSetPowerManagementLimit(cards[1], 500_000)") == OK
    assert node.truth(1)["now"]["limit_mw"] == 500_000
    for mw in (199_999, 700_001, 0):
        assert caller.code(f"nv.nvmlDeviceSetPowerManagementLimit(cards[1], {mw})") == INVALID
    assert caller.ask("nv.nvmlDeviceGetPowerManagementLimit(cards[1])") == 500_000
    caller.do("nv.nvmlDeviceSetGpuLockedClocks(cards[7], 345, 900)")
    node.advance(10 * S)
    assert caller.ask("nv.nvmlDeviceGetClockInfo(cards[7], 1)") == 900
    caller.do("nv.nvmlDeviceResetGpuLockedClocks(cards[7])")
    node.advance(10 * S)
    assert caller.ask("nv.nvmlDeviceGetClockInfo(cards[7], 1)") > 900
    assert caller.code("nv.nvmlDeviceSetGpuLockedClocks(cards[7], 5000, 6000)") == INVALID
    caller.do("nv.nvmlDeviceSetPersistenceMode(cards[0], 1)")
    assert caller.ask("nv.nvmlDeviceGetPersistenceMode(cards[0])") == 1


@pytest.mark.needs_root
def test_settings_need_root_unless_the_node_says_otherwise(node: _sim.Node, caller: Caller) -> None:
    setting = "nv.nvmlDeviceSetPowerManagementLimit(cards[1], 400_000)"
    caller.do("os.setuid(65534)")
    assert caller.code(setting) == NO_PERMISSION
    assert caller.code("nv.nvmlDeviceGetPowerUsage(cards[1])") == OK
    node.set_open(True)
    assert caller.code(setting) == OK


def test_wrong_versions_are_refused(caller: Caller) -> None:
    caller.do("m = nv.c_nvmlMemory_v2_t(); m.version = 0x03000028")
    caller.do("lib = ctypes.CDLL('libnvidia-ml.so.1')")
    assert caller.ask("lib.nvmlDeviceGetMemoryInfo_v2(cards[0], ctypes.byref(m))") == VERSION
    caller.do("m.version = nv.nvmlMemory_v2")
    assert caller.ask("lib.nvmlDeviceGetMemoryInfo_v2(cards[0], ctypes.byref(m))") == OK
    assert caller.ask("lib.nvmlDeviceGetMemoryInfo_v2(cards[0], None)") == INVALID
    for handle in (0, 1, 2**40):
        assert (
            caller.ask(f"lib.nvmlDeviceGetPowerUsage(ctypes.c_void_p({handle}), None)") == INVALID
        )


def test_nothing_where_something_belongs_is_refused(caller: Caller) -> None:
    """Every exported function, with and without a handle, and with nothing else."""
    argv = ["nm", "-D", "--defined-only", libraries.NVML]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    names = re.findall(r" [TW] (nvml\w+)$", said, re.MULTILINE)
    takes_no_handle = re.compile("Init|Shutdown|SampleFree|SetFree|SetWait|MetricsGet|^nvmlError")
    caller.do("lib = ctypes.CDLL('libnvidia-ml.so.1'); nothing = [None] * 6")
    fine = {OK, INVALID, NOT_SUPPORTED, NOT_FOUND, 7, VERSION}
    for name in names:
        if name == "nvmlShutdown":
            continue
        caller.ask(f"lib.{name}(*nothing)")
        if takes_no_handle.search(name) or name.startswith("nvmlSystem"):
            continue
        assert caller.ask(f"lib.{name}(cards[0], *nothing)") in fine, name
    assert caller.ask("nv.nvmlDeviceGetPowerUsage(cards[1])") > 0


def test_faults_are_answered_as_the_real_library_does(node: _sim.Node, caller: Caller) -> None:
    power = "nv.nvmlDeviceGetPowerUsage(cards[1])"
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("lost", {}, LOST),
        ("permission", {}, NO_PERMISSION),
        ("version", {"call": "Power"}, VERSION),
        ("error", {"value": 999}, 999),
        ("error", {"call": "Temperature", "value": 16}, OK),
        ("drop", {"value": 1000}, 999),
    ]
    for kind, how, code in cases:
        node.inject(kind, 1, **how)
        node.advance(1)
        assert caller.code(power) == code, kind
        assert caller.code("nv.nvmlDeviceGetPowerUsage(cards[0])") == OK
        assert caller.ask("nv.nvmlDeviceGetCount()") == 8
        node.heal()
        assert caller.code(power) == OK, kind


def test_a_card_that_waits_for_its_reset_says_that_and_who_it_is(
    node: _sim.Node, caller: Caller
) -> None:
    power, uuid = "nv.nvmlDeviceGetPowerUsage(cards[{}])", "nv.nvmlDeviceGetUUID(cards[1])"
    action = nv_constant("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION")
    recovery = f"nv.nvmlDeviceGetFieldValues(cards[1], [{action}, 83])"
    node.inject("xid", 1, value=119)
    node.advance(1)
    assert caller.code(power.format(1)) == RESET_REQUIRED
    assert caller.code("nv.nvmlDeviceGetHandleByIndex(1)") == OK
    assert caller.ask(uuid) == node.truth(1)["model"]["uuid"]
    assert caller.ask(f"[{recovery}[0].nvmlReturn, {recovery}[0].value.uiVal]") == [OK, 1]
    assert caller.ask(f"{recovery}[1].nvmlReturn") == RESET_REQUIRED
    assert caller.code(power.format(0)) == OK
    node.reset(1)
    assert caller.code(power.format(1)) == OK
    assert caller.ask(f"[{recovery}[0].value.uiVal, {recovery}[1].nvmlReturn]") == [0, OK]


def test_a_driver_that_is_loaded_anew_must_be_begun_anew(node: _sim.Node, caller: Caller) -> None:
    power = "nv.nvmlDeviceGetPowerUsage(cards[1])"
    node.inject("reload", until_ns=node.now_ns + S)
    node.advance(1)
    assert caller.code(power) == MISMATCH
    assert caller.code("nv.nvmlInit()") == MISMATCH
    node.advance(2 * S)
    assert caller.code(power) == UNINITIALIZED
    caller.do("nv.nvmlInit()")
    assert caller.code(power) == OK
    assert caller.ask("nv.nvmlSystemGetDriverVersion()") == "580.95.06"


def test_events_come_once(node: _sim.Node, caller: Caller) -> None:
    caller.do("s = nv.nvmlEventSetCreate()")
    caller.do("[nv.nvmlDeviceRegisterEvents(c, 8 | 2 | 0x8000, s) for c in cards[:4]]")
    wait = "(lambda e: [nv.nvmlDeviceGetUUID(e.device), e.eventType, e.eventData])"
    wait += "(nv.nvmlEventSetWait_v2(s, 100))"
    assert caller.code("nv.nvmlEventSetWait_v2(s, 10)") == TIMEOUT
    node.inject("xid", 3, value=48)
    node.inject("xid", 5, value=31)  # nobody registered for this card
    node.inject("ecc", 1, value=1)
    node.inject("recovery", 0, value=1)
    node.advance(1)
    uuid = [node.truth(card)["model"]["uuid"] for card in range(4)]
    got = [caller.ask(wait) for _ in range(3)]
    assert sorted(got) == sorted([[uuid[3], 8, 48], [uuid[1], 2, 0], [uuid[0], 0x8000, 1]])
    assert caller.code("nv.nvmlEventSetWait_v2(s, 10)") == TIMEOUT
    node.inject("lost", 2)
    node.advance(1)
    assert caller.code("nv.nvmlEventSetWait_v2(s, 10)") == LOST
    caller.do("nv.nvmlEventSetFree(s)")


@pytest.mark.parametrize("virtual", [True, False])
def test_a_caller_that_waits_for_events_is_woken_by_one(tmp_path: Path, *, virtual: bool) -> None:
    """Nobody looks meanwhile: the event ends the wait, which else ends without one in a minute. In
    real time the caller wakes for the script by itself."""
    made = profiles.node("8xH200", tmp_path / "node", virtual=virtual, seed=3)
    environment = {"LD_LIBRARY_PATH": str(libraries.NVML.parent)}
    with calling(tmp_path / "node", **environment) as child:
        child.do("import pynvml as nv; nv.nvmlInit(); s = nv.nvmlEventSetCreate()")
        child.do("nv.nvmlDeviceRegisterEvents(nv.nvmlDeviceGetHandleByIndex(2), 8, s)")
        child.do("from threading import Thread; got = []")
        wait = "nv.nvmlEventSetWait_v2(s, 60000).eventData"
        child.do(f"t = Thread(target=lambda: got.append({wait})); t.start()")
        made.inject("xid", 2, value=79, from_ns=made.now_ns + S // 2)
        made.advance(S)
        child.do("t.join()")
        assert child.ask("got") == [79]


def test_a_hung_call_hangs_alone(node: _sim.Node, caller: Caller, tmp_path: Path) -> None:
    node.inject("hang", 0, until_ns=node.now_ns + 3600 * S, call="PowerUsage")
    node.advance(1)
    assert caller.code("nv.nvmlDeviceGetTemperature(cards[0], 0)") == OK
    assert caller.code("nv.nvmlDeviceGetPowerUsage(cards[1])") == OK
    caller.do(
        "import threading\n"
        "t = threading.Thread(target=nv.nvmlDeviceGetPowerUsage, args=(cards[0],))"
    )
    caller.do("t.start(); t.join(0.1)")
    assert caller.ask("t.is_alive()") is True
    node.heal()
    caller.do("t.join(10)")
    assert caller.ask("t.is_alive()") is False


def test_mig(tmp_path: Path) -> None:
    node = profiles.node("8xA100-MIG", tmp_path / "node", virtual=True)
    node.advance(S)
    with calling(tmp_path / "node", LD_LIBRARY_PATH=str(libraries.NVML.parent)) as caller:
        caller.do("import pynvml as nv; nv.nvmlInit()")
        caller.do("card = nv.nvmlDeviceGetHandleByIndex(1)")
        assert caller.ask("list(nv.nvmlDeviceGetMigMode(card))") == [1, 1]
        assert caller.code("nv.nvmlDeviceGetUtilizationRates(card)") == NOT_SUPPORTED
        caller.do("migs = [nv.nvmlDeviceGetMigDeviceHandleByIndex(card, i) for i in range(4)]")
        assert caller.code("nv.nvmlDeviceGetMigDeviceHandleByIndex(card, 4)") == NOT_FOUND
        for number, told in enumerate(node.truth(1)["partitions"]):
            mig = f"migs[{number}]"
            assert caller.ask(f"nv.nvmlDeviceGetUUID({mig})") == told["uuid"]
            assert caller.ask(f"nv.nvmlDeviceGetMemoryInfo({mig}).total") == told["memory_bytes"]
            assert caller.ask(f"nv.nvmlDeviceGetGpuInstanceId({mig})") == told["instance"]
            units = f"nv.nvmlDeviceGetAttributes({mig}).multiprocessorCount"
            assert caller.ask(units) == told["units"]
            name = f"NVIDIA A100-SXM4-80GB MIG {told['profile']}"
            assert caller.ask(f"nv.nvmlDeviceGetName({mig})") == name
            uuid = f"nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle({mig}))"
            assert caller.ask(uuid) == 1


@pytest.mark.parametrize("profile", ["8xMI300X", None])
def test_without_cards_of_nvidias_no_driver_is_loaded(profile: str | None, tmp_path: Path) -> None:
    if profile:
        profiles.node(profile, tmp_path / "node", virtual=True)
    with calling(tmp_path / "node", LD_LIBRARY_PATH=str(libraries.NVML.parent)) as caller:
        caller.do("import pynvml as nv")
        assert caller.ask("[0 for _ in [nv.nvmlErrorString]]") == [0]
        said = caller._say("ask", "nv.nvmlInit()")
        assert "Driver Not Loaded" in said["error"]


def test_nvitop_unchanged_prints_what_the_node_holds(node: _sim.Node, tmp_path: Path) -> None:
    environment = libraries.environment(tmp_path / "node", {profiles.NVIDIA})
    done = subprocess.run(
        [sys.executable, "-m", "nvitop", "-1", "--ascii"],
        env=environment | {"COLUMNS": "100", "LINES": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Driver Version: 580.95.05" in done.stdout
    lines = done.stdout.splitlines()
    for index in range(8):
        read, model = node.sensor(index), node.truth(index)["model"]
        assert read is not None
        at = next(i for i, line in enumerate(lines) if re.match(rf"\|\s+{index}\s+H200", line))
        assert model["bus_id"] in lines[at]
        shown = lines[at + 1]
        assert f"{(read['temperature_mc'] + 500) // 1000}C" in shown
        watts = re.search(r"(\d+)W / (\d+)W", shown)
        assert watts
        assert int(watts[1]) == pytest.approx(read["power_mw"] / 1000, abs=1)
        assert int(watts[2]) == 700
        assert f"{read['busy_percent']}%" in shown
        assert "140.4GiB" in shown
