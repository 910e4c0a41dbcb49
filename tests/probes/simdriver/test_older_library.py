# SPDX-License-Identifier: Apache-2.0
"""A simulated library without some functions is otherwise the same one."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.native.errors import BadRequest
from stoker.probes.simdriver import libraries, older_library, profiles

READER = Path(__file__).parents[2] / "fakes/cards/read_cards.py"


def symbols(library: Path) -> set[str]:
    """Those NVML symbols that a program finds."""
    loaded = ctypes.CDLL(str(library))
    names = ("nvmlInit_v2", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "stoker_sim_driver")
    both = (*names, "nvmlDeviceGetMemoryInfo_v2")
    return {name for name in both if hasattr(loaded, name)}


def test_what_is_named_is_not_found_and_all_else_is(tmp_path: Path) -> None:
    to = tmp_path / "deep" / "libnvidia-ml.so.1"
    removed = older_library.copy({libraries.NVML: to}, ["MemoryInfo"])
    assert sorted(removed) == [
        "nvmlDeviceGetBAR1MemoryInfo",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2",
    ]
    assert symbols(to) == {"nvmlInit_v2", "nvmlDeviceGetName", "stoker_sim_driver"}


def test_every_library_can_lack(tmp_path: Path) -> None:
    """Also CUDA's, whose own table names its functions."""
    told = libraries.environment(tmp_path / "node", {3}, {}, ["cuMemAlloc", "amdsmi_get_gpu_bdf"])
    cuda = ctypes.CDLL(str(Path(told["LD_LIBRARY_PATH"]) / "libcuda.so.1"))
    assert not hasattr(cuda, "cuMemAlloc_v2")
    at, status = ctypes.c_void_p(), ctypes.c_int(-1)
    find = cuda.cuGetProcAddress_v2
    find(b"cuMemAlloc", ctypes.byref(at), 13000, ctypes.c_uint64(0), ctypes.byref(status))
    assert (at.value, status.value) == (None, 1)
    find(b"cuInit", ctypes.byref(at), 13000, ctypes.c_uint64(0), ctypes.byref(status))
    assert at.value and status.value == 0
    for path in (told["LD_PRELOAD"], told["ZE_ENABLE_ALT_DRIVERS"]):
        assert Path(path).is_relative_to(tmp_path)
    smi = ctypes.CDLL(str(Path(told["ROCM_PATH"]) / "lib" / "libamd_smi.so"))
    assert not hasattr(smi, "amdsmi_get_gpu_bdf_id")
    assert hasattr(smi, "amdsmi_init")


def read_cards(folder: Path, missing: list[str]) -> dict[str, Any]:
    """The first card as stoker reads it."""
    folder.mkdir()
    profiles.node("4xL40S", folder / "node", virtual=True, seed=7).advance(10**9)
    done = subprocess.run(
        [sys.executable, READER, folder],
        env=libraries.environment(folder / "node", {profiles.NVIDIA}, None, missing),
        input="scan\n",
        capture_output=True,
        text=True,
        check=True,
    )
    cards: dict[str, Any] = json.loads(done.stdout)["cards"]
    return dict(cards[min(cards)])


def test_a_function_that_a_driver_lacks_costs_stoker_its_own_fields_alone(tmp_path: Path) -> None:
    whole = read_cards(tmp_path / "whole", [])
    lacks = read_cards(tmp_path / "lacks", ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage"])
    assert (whole["state"], lacks["state"]) == ("ok", "ok")
    absent = {
        name
        for name, field in lacks["fields"].items()
        if "absent" in field and "value" in whole["fields"][name]
    }
    assert absent == {"memory_total_bytes", "memory_used_bytes", "memory_free_bytes"}
    why = lacks["fields"]["memory_total_bytes"]["absent"]
    assert why == "nvmlDeviceGetMemoryInfo: Function Not Found"
    assert lacks["fields"]["power_w"]["value"] == whole["fields"]["power_w"]["value"]  # another way


def test_what_no_library_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="'nvmlNothing'"):
        older_library.copy({libraries.NVML: tmp_path / "lib"}, ["nvmlInit", "nvmlNothing"])
    assert list(tmp_path.iterdir()) == []
