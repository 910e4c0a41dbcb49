# SPDX-License-Identifier: Apache-2.0
"""MIG on the simulated NVML under the unmodified pynvml: its mode, instances made and ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.cards.callers import Caller, calling

from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles

S = 10**9
OK, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 0, 2, 3, 4, 6
RESET_REQUIRED, IN_USE, NO_RESOURCES = 16, 19, 23
ONE, TWO, THREE, FOUR, ALL = 19, 14, 9, 5, 0
"""Ids of GPU instance profiles, as `nvidia-smi mig -lgip` lists them."""

BEGIN = """
import pynvml as nv
nv.nvmlInit()
card = nv.nvmlDeviceGetHandleByIndex(1)

def places(profile):
    count = ctypes.c_uint()
    nv.nvmlDeviceGetGpuInstancePossiblePlacements(card, profile, None, ctypes.byref(count))
    found = (nv.c_nvmlGpuInstancePlacement_t * count.value)()
    nv.nvmlDeviceGetGpuInstancePossiblePlacements(card, profile, found, ctypes.byref(count))
    return [[at.start, at.size] for at in found]

def make(profile):
    gpu = nv.nvmlDeviceCreateGpuInstance(card, profile)
    size = {19: 0, 14: 1, 9: 2, 5: 3, 0: 4}[profile]
    return gpu, nv.nvmlGpuInstanceCreateComputeInstance(gpu, size)

def room(profile):
    return nv.nvmlDeviceGetGpuInstanceRemainingCapacity(card, profile)

def devices():
    found = []
    for index in range(nv.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            found.append(nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetMigDeviceHandleByIndex(card, index)))
        except nv.NVMLError_NotFound:
            pass
    return found
"""


@pytest.fixture
def node(tmp_path: Path) -> _sim.Node:
    made = profiles.node("8xA100-MIG", tmp_path / "node", virtual=True)
    made.advance(S)
    return made


@pytest.fixture
def caller(node: _sim.Node, tmp_path: Path) -> Iterator[Caller]:
    with calling(tmp_path / "node", LD_LIBRARY_PATH=str(libraries.NVML.parent)) as made:
        made.do(BEGIN)
        yield made


def empty(caller: Caller) -> None:
    """End all instances of the card."""
    caller.do(
        "for i in range(7):\n"
        "    try:\n"
        "        mig = nv.nvmlDeviceGetMigDeviceHandleByIndex(card, i)\n"
        "    except nv.NVMLError_NotFound:\n"
        "        continue\n"
        "    nv.nvmlComputeInstanceDestroy(mig); nv.nvmlGpuInstanceDestroy(mig)"
    )


def test_where_instances_may_lie(caller: Caller) -> None:
    assert caller.ask(f"places({ONE})") == [[start, 1] for start in range(7)]
    assert caller.ask(f"places({TWO})") == [[0, 2], [2, 2], [4, 2]]
    assert caller.ask(f"places({THREE})") == [[0, 4], [4, 4]]
    assert caller.ask(f"places({FOUR})") == [[0, 4]]
    assert caller.ask(f"places({ALL})") == [[0, 8]]
    assert caller.code("places(77)") == NOT_SUPPORTED


def test_the_profiles_instances_lie_where_they_may(caller: Caller) -> None:
    """No two of `3g 2g 1g 1g` share memory, and nothing more fits."""
    told = "nv.nvmlGpuInstanceGetInfo(nv.nvmlDeviceGetMigDeviceHandleByIndex(card, {})).placement"
    at = [caller.ask(f"[{told.format(i)}.start, {told.format(i)}.size]") for i in range(4)]
    assert at == [[4, 4], [2, 2], [1, 1], [0, 1]]
    assert [caller.ask(f"room({each})") for each in (ONE, TWO, THREE, FOUR, ALL)] == [0] * 5
    assert caller.code(f"make({ONE})") == NO_RESOURCES


def test_instances_are_made_used_and_ended(node: _sim.Node, caller: Caller) -> None:
    empty(caller)
    assert caller.ask("devices()") == []
    assert node.truth(1)["partitions"] == []
    assert [caller.ask(f"room({each})") for each in (ONE, TWO, THREE, FOUR, ALL)] == [7, 3, 2, 1, 1]
    caller.do(f"big, inside = make({THREE})")
    assert [caller.ask(f"room({each})") for each in (ONE, TWO, THREE, FOUR, ALL)] == [4, 2, 1, 1, 0]
    (told,) = node.truth(1)["partitions"]
    assert (told["profile"], told["units"], told["start"]) == ("3g.40gb", 42, 4)
    assert caller.ask("devices()") == [told["uuid"]]
    assert told["uuid"].startswith("MIG-")
    assert caller.ask("nv.nvmlDeviceGetMemoryInfo(inside).total") == told["memory_bytes"]
    assert caller.ask("nv.nvmlDeviceGetName(inside)").endswith("MIG 3g.40gb")
    assert told["memory_bytes"] == 42_144_366_592  # as the profile has it from NVIDIA's guide
    node.add_process(1, 4242, 1 << 30, 1.0, "train", 1, told["instance"])
    assert caller.code("nv.nvmlComputeInstanceDestroy(inside)") == IN_USE
    node.end_process(1, 4242)
    assert caller.code("nv.nvmlGpuInstanceDestroy(big)") == IN_USE  # its compute instance
    assert caller.code("nv.nvmlComputeInstanceDestroy(inside)") == OK
    assert caller.ask("devices()") == []
    assert caller.code("nv.nvmlDeviceGetUUID(inside)") == INVALID
    assert caller.code("nv.nvmlGpuInstanceDestroy(big)") == OK
    assert caller.code("nv.nvmlGpuInstanceGetInfo(big)") == INVALID
    assert caller.ask(f"room({ALL})") == 1


def test_a_place_can_be_chosen_and_is_taken_once(caller: Caller) -> None:
    empty(caller)
    caller.do("P = nv.c_nvmlGpuInstancePlacement_t")
    create = "nv.nvmlDeviceCreateGpuInstanceWithPlacement(card, {}, ctypes.byref(P({}, {})))"
    assert caller.code(create.format(TWO, 2, 2)) == OK
    assert caller.code(create.format(TWO, 2, 2)) == NO_RESOURCES
    assert caller.code(create.format(TWO, 1, 2)) == NO_RESOURCES
    assert caller.code(create.format(TWO, 2, 3)) == INVALID
    assert caller.code(create.format(THREE, 0, 4)) == NO_RESOURCES
    assert caller.code(create.format(THREE, 4, 4)) == OK
    assert caller.code(create.format(ALL, 0, 8)) == NO_RESOURCES
    assert caller.code("nv.nvmlDeviceCreateGpuInstance(card, 77)") == INVALID
    assert caller.ask(f"room({ONE})") == 2


def test_a_compute_instance_is_as_large_as_its_gpu_instance(caller: Caller) -> None:
    empty(caller)
    caller.do(f"gpu = nv.nvmlDeviceCreateGpuInstance(card, {TWO})")
    assert caller.ask("devices()") == []  # no device before its compute instance
    left = "nv.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gpu, 1)"
    assert caller.ask(left) == 1
    info = "nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(gpu, 1, 0)"
    assert caller.ask(f"[{info}.sliceCount, {info}.multiprocessorCount]") == [2, 28]
    assert caller.code("nv.nvmlGpuInstanceCreateComputeInstance(gpu, 0)") == NOT_SUPPORTED
    assert caller.code("nv.nvmlGpuInstanceCreateComputeInstance(gpu, 9)") == INVALID
    assert caller.code("nv.nvmlGpuInstanceCreateComputeInstance(gpu, 1)") == OK
    assert caller.code("nv.nvmlGpuInstanceCreateComputeInstance(gpu, 1)") == NO_RESOURCES
    assert caller.ask(left) == 0
    assert len(caller.ask("devices()")) == 1


def test_the_mode_waits_while_the_card_is_in_use(node: _sim.Node, caller: Caller) -> None:
    mode, off = "list(nv.nvmlDeviceGetMigMode(card))", "nv.nvmlDeviceSetMigMode(card, 0)"
    assert caller.ask(off) == IN_USE  # by its instances
    assert caller.ask(mode) == [1, 0]
    node.reset(1)  # ends them, and the mode comes
    assert caller.ask(mode) == [0, 0]
    assert node.truth(1)["partitions"] == []
    assert caller.code(f"make({ONE})") == NOT_SUPPORTED
    assert caller.code("nv.nvmlDeviceGetUtilizationRates(card)") == OK
    node.add_process(1, 4242, 1 << 30, 1.0, "train")
    assert caller.ask("nv.nvmlDeviceSetMigMode(card, 1)") == IN_USE
    assert caller.ask(mode) == [0, 1]
    node.end_process(1, 4242)
    assert caller.ask("nv.nvmlDeviceSetMigMode(card, 1)") == OK
    assert caller.ask(mode) == [1, 1]
    assert node.truth(1)["now"]["resets"] == 2  # Ampere's cards are reset for it
    assert caller.code("nv.nvmlDeviceSetMigMode(card, 2)") == INVALID


@pytest.mark.needs_root
def test_whoever_is_not_root_changes_nothing(node: _sim.Node, caller: Caller) -> None:
    caller.do("mig = nv.nvmlDeviceGetMigDeviceHandleByIndex(card, 0)")
    caller.do("os.setuid(65534)")
    for change in (
        f"nv.nvmlDeviceCreateGpuInstance(card, {ONE})",
        "nv.nvmlComputeInstanceDestroy(mig)",
        "nv.nvmlGpuInstanceDestroy(mig)",
        "nv.nvmlDeviceSetMigMode(card, 0)",
    ):
        assert caller.code(change) == NO_PERMISSION, change
    assert len(node.truth(1)["partitions"]) == 4


def test_cards_without_mig_say_so(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    profiles.node("4xL40S", tmp_path / "other" / "node", virtual=True)
    found = str(libraries.NVML.parent)
    with calling(tmp_path / "other" / "node", LD_LIBRARY_PATH=found) as caller:
        caller.do(BEGIN)
        assert caller.code("nv.nvmlDeviceSetMigMode(card, 1)") == NOT_SUPPORTED
        assert caller.code(f"places({ONE})") == NOT_SUPPORTED
        assert caller.code(f"make({ONE})") == NOT_SUPPORTED
