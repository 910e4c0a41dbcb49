# SPDX-License-Identifier: Apache-2.0
"""NVIDIA devices through a stand-in for the binding, and each way in which NVML can be missing."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import pytest
from fakes.cards.nvml import Nvml, NVMLError

from stoker.agent.devices import vendor as vendor_module
from stoker.agent.devices.nvidia.card import NvidiaCard
from stoker.agent.devices.nvidia.instance import CUT, UNCUT
from stoker.agent.devices.nvidia.nvml import same_handle
from stoker.agent.devices.nvidia.vendor import Nvidia

TOPOLOGY = (
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetP2PStatus",
    "nvmlDeviceGetTopologyCommonAncestor",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/devices").write_text(
        "Character devices:\n195 nvidia\n195 nvidia-modeset\n507 nvidia-uvm\n508 nvidia-caps\n"
    )
    return tmp_path


def process(root: Path, pid: int, comm: str) -> None:
    (root / "proc" / str(pid)).mkdir()
    (root / "proc" / str(pid) / "comm").write_text(f"{comm}\n")


def test_a_gpu_is_its_uuid_model_memory_and_nodes(root: Path) -> None:
    scan = Nvidia({}, Nvml(), root).scan()
    assert scan.missing == ()
    first, second = scan.devices
    assert (first.id, first.vendor, first.model) == ("GPU-00000000", "nvidia", "NVIDIA H200")
    assert first.memory_bytes == 150 << 30
    assert first.nodes == ((195, 4), (195, 255), (507, 0), (507, 1))
    assert second.nodes[0] == (195, 5)
    assert second.visible == {"CUDA_VISIBLE_DEVICES": "GPU-00000001"}


class CutNvml(Nvml):
    """Two GPUs, of which the second is in MIG mode; `parts`: its instances by their places."""

    def __init__(self, parts: dict[int, str]) -> None:
        super().__init__()
        self.parts = parts

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        return [int(handle == 1)] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, place: int) -> int:
        if place not in self.parts:
            raise NVMLError("Not Found")
        return 100 + place

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return b"MIG-%d" % handle if handle >= 100 else super().nvmlDeviceGetUUID(handle)

    def nvmlDeviceGetName(self, handle: int) -> str:
        name = super().nvmlDeviceGetName(handle)
        return f"{name} MIG {self.parts[handle - 100]}" if handle >= 100 else name

    def nvmlDeviceGetGpuInstanceId(self, handle: int) -> int:
        return handle - 100 + 3

    def nvmlDeviceGetComputeInstanceId(self, handle: int) -> int:
        return 0


def minors(root: Path, *lines: str) -> None:
    folder = root / "proc/driver/nvidia-caps"
    folder.mkdir(parents=True)
    (folder / "mig-minors").write_text("config 1\nmonitor 2\n" + "".join(f"{x}\n" for x in lines))


def test_an_instance_is_a_device_with_its_own_files_and_its_gpu_gets_no_jobs(root: Path) -> None:
    minors(root, "gpu1/gi3/access 30", "gpu1/gi3/ci0/access 31")
    scan = Nvidia({}, CutNvml({0: "1g.18gb"}), root).scan()
    whole, cut, part = scan.devices
    assert scan.missing == () and scan.parents == {"MIG-100": cut.id}
    assert (whole.unavailable, cut.unavailable) == ("", CUT)
    assert (part.id, part.profile, part.model) == (
        "MIG-100", "1g.18gb", "NVIDIA H200 MIG 1g.18gb",
    )  # fmt: skip
    assert part.nodes == (*cut.nodes, (508, 30), (508, 31))
    assert part.visible == {"CUDA_VISIBLE_DEVICES": "MIG-100"}
    assert (part.link, part.bus, part.unavailable) == (0, cut.bus, "")


def test_an_instance_that_a_job_could_not_open_is_left_out(root: Path) -> None:
    nvml = CutNvml({0: "1g.18gb", 4: "2g.35gb"})
    (said, _) = Nvidia({}, nvml, root).scan().missing
    assert said.startswith("MIG instance 0 of GPU-00000001: /proc/driver/nvidia-caps/mig-minors: ")
    minors(root, "gpu1/gi3/access 30", "gpu1/gi7/access 70", "gpu1/gi7/ci0/access 71")
    scan = Nvidia({}, nvml, root).scan()
    assert [device.id for device in scan.devices[2:]] == ["MIG-104"]
    (said,) = scan.missing
    assert "its capabilities gpu1/gi3/access and gpu1/gi3/ci0/access are not in" in said


def test_a_gpu_in_mig_mode_without_instances_gets_no_jobs(root: Path) -> None:
    scan = Nvidia({}, CutNvml({}), root).scan()
    assert [device.unavailable for device in scan.devices] == ["", UNCUT]


def test_instances_that_are_others_by_now_are_told_once(root: Path) -> None:
    minors(root, *(f"gpu1/gi{i}/access {i}" for i in (3, 4)),
           *(f"gpu1/gi{i}/ci0/access {i + 10}" for i in (3, 4)))  # fmt: skip
    nvml = CutNvml({0: "1g.18gb"})
    found = Nvidia({}, nvml, root)
    cut = found.scan().cards[1]
    assert isinstance(cut, NvidiaCard) and not found.recut()
    cut.parts = ("MIG-100",)
    assert not found.recut()
    nvml.parts[1] = "1g.18gb"
    cut.parts = ("MIG-100", "MIG-101")
    assert list(found.recut()) == [cut.id]
    assert len(found.scan().devices) == 4
    assert not found.recut()


def test_who_uses_an_instance_uses_that_one_alone(root: Path) -> None:
    minors(root, "gpu1/gi3/access 30", "gpu1/gi3/ci0/access 31")
    nvml = CutNvml({0: "1g.18gb"})
    nvml.processes[100] = [77]
    process(root, 77, "python3")
    found = Nvidia({}, nvml, root)
    found.scan()
    assert list(found.holders(lambda pid: False)) == ["MIG-100"]


def test_links_switches_and_numa_nodes_are_reported_where_they_are_known(root: Path) -> None:
    numa = root / "sys/bus/pci/devices/0000:32:00.0"
    numa.mkdir(parents=True)
    (numa / "numa_node").write_text("1\n")
    devices = Nvidia({}, Nvml(5), root).scan().devices
    assert [device.link for device in devices] == [1, 1, 2, 2, 0]
    assert [device.bus for device in devices] == [1, 1, 1, 1, 0]
    assert [device.numa for device in devices] == [None, None, 1, None, None]
    silent = dict.fromkeys(TOPOLOGY, "Not Supported")
    plain = Nvidia({}, Nvml(2, silent), root).scan()
    assert plain.missing == ()
    assert [(d.link, d.bus, d.numa) for d in plain.devices] == [(0, 0, None)] * 2


def test_one_gpu_that_fell_off_the_bus_does_not_hide_the_other(root: Path) -> None:
    nvml = Nvml(2)
    lost = Nvidia({}, nvml, root)
    good = nvml.nvmlDeviceGetUUID
    nvml.nvmlDeviceGetUUID = lambda handle: (  # type: ignore[method-assign]
        good(handle) if handle else Nvml(1, {"x": "GPU is lost"}).x()  # type: ignore[attr-defined]
    )
    scan = lost.scan()
    assert [device.id for device in scan.devices] == ["GPU-00000001"]
    assert scan.missing == ("NVIDIA GPU 0: nvmlDeviceGetUUID: GPU is lost",)


def test_a_driver_that_does_not_answer_is_said_only_where_there_is_hardware(root: Path) -> None:
    nvml = Nvml(1, {"nvmlInit": "Driver/library version mismatch"})
    assert Nvidia({}, nvml, root).scan().missing == ()
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (said,) = Nvidia({}, nvml, root).scan().missing
    assert said == "NVIDIA GPUs: nvmlInit: Driver/library version mismatch"


def test_a_display_function_on_the_bus_is_hardware(root: Path) -> None:
    device = root / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x030200\n")
    (device / "vendor").write_text("0x10de\n")
    scan = Nvidia({}, Nvml(1, {"nvmlInit": "Library Not Found"}), root).scan()
    assert len(scan.missing) == 1


def test_foreign_processes_hold_and_our_jobs_do_not(root: Path) -> None:
    nvml = Nvml(2)
    nvml.processes = {0: [812], 1: [900]}
    process(root, 812, "python3")
    process(root, 900, "trainer")
    nvidia = Nvidia({}, nvml, root)
    nvidia.scan()
    held = nvidia.holders(lambda pid: pid == 900)
    assert held == {"GPU-00000000": "held by pid 812 (python3)"}


def test_a_process_that_just_ended_does_not_hold_but_one_that_stays_does(root: Path) -> None:
    nvml = Nvml(1)
    nvml.processes = {0: [4000]}
    nvidia = Nvidia({}, nvml, root)
    nvidia.scan()
    assert nvidia.holders(lambda _: False) == {}
    assert "pid 4000" in nvidia.holders(lambda _: False)["GPU-00000000"]


def test_a_start_is_told_who_uses_its_gpus_at_that_moment(root: Path) -> None:
    nvml = Nvml(2)
    nvidia = Nvidia({}, nvml, root)
    nvidia.scan()
    process(root, 812, "python3")
    process(root, 813, "python3")
    nvml.processes = {0: [812], 1: [813, 4000]}
    first, second = "GPU-00000000", "GPU-00000001"
    assert nvidia.occupied({first}, lambda _: False) == {first: "held by pid 812 (python3)"}
    assert nvidia.occupied({first}, lambda pid: pid == 812) == {}
    for _ in range(3):  # what has just ended holds nothing, however often a start looks
        assert nvidia.occupied({second}, lambda pid: pid == 813) == {}
    assert nvidia.occupied({first, second}, lambda pid: pid == 812) == {
        second: "held by pid 813 (python3)"
    }


def test_an_old_driver_is_asked_with_the_old_call(root: Path) -> None:
    nvml = Nvml(1, {"nvmlDeviceGetComputeRunningProcesses": "Function Not Found"})
    nvml.nvmlDeviceGetComputeRunningProcesses_v2 = (  # type: ignore[method-assign]
        lambda handle: [type("P", (), {"pid": os.getpid()})]
    )
    process(root, os.getpid(), "pytest")
    nvidia = Nvidia({}, nvml, root)
    nvidia.scan()
    assert nvidia.holders(lambda _: False) == {
        "GPU-00000000": f"held by pid {os.getpid()} (pytest)"
    }


def test_another_packages_pynvml_is_named(root: Path) -> None:
    nvml = Nvml(1)
    nvml.__path__ = ["/site-packages/pynvml"]  # type: ignore[attr-defined]
    nvml.__file__ = "/site-packages/pynvml/__init__.py"  # type: ignore[attr-defined]
    scan = Nvidia({}, nvml, root).scan()
    assert len(scan.devices) == 1
    assert "pynvml/__init__.py) is not nvidia-ml-py's" in scan.missing[0]
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (said,) = Nvidia({}, object(), root).scan().missing
    assert "it has no NVMLError" in said


def test_a_gpu_that_hangs_while_it_is_looked_for_hides_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor_module, "ANSWER_S", 0.2)
    held = threading.Event()
    nvml = Nvml(2)
    nvml.nvmlDeviceGetName = lambda handle: (  # type: ignore[method-assign]
        "NVIDIA H200" if handle else str(held.wait(10))
    )
    scan = Nvidia({}, nvml, root).scan()
    held.set()
    assert [device.id for device in scan.devices] == ["GPU-00000001"]
    assert scan.missing == ("NVIDIA GPU 0: no answer for 0.2 s",)


def test_a_gpu_that_is_found_again_is_the_same_card_unless_its_handle_is_another(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml()
    nvidia = Nvidia({}, nvml, root)
    first, second = nvidia.scan().cards
    assert [id(card) for card in nvidia.scan().cards] == [id(first), id(second)]
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByIndex", lambda index: index + 2 * (index == 1))
    monkeypatch.setattr(nvml, "nvmlDeviceGetUUID", lambda handle: f"GPU-0000000{handle % 2}")
    again, other = nvidia.scan().cards
    assert again is first
    assert other is not second and other.id == second.id


def test_handles_are_compared_by_what_they_point_at() -> None:
    here, there = ctypes.c_int(1), ctypes.c_int(1)
    assert same_handle(ctypes.pointer(here), ctypes.pointer(here))
    assert not same_handle(ctypes.pointer(here), ctypes.pointer(there))
