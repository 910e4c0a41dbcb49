# SPDX-License-Identifier: Apache-2.0
"""Records of the simulated libamd_smi.so are those of the amdsmi binding, member by member."""

from __future__ import annotations

import ctypes
import re
import types
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from fakes.cards.layouts import NATIVE, assertions, differences

WRAPPER = Path(str(distribution("amdsmi").locate_file("amdsmi/amdsmi_wrapper.py")))
ABI = NATIVE / "sim/amdsmi/abi.h"
OTHERWISE = {"metrics_header": "struct_amd_metrics_table_header_t"}


class AnyLibrary:
    """Has every function, so that the wrapper's classes can be had without a library."""

    def __getattr__(self, name: str) -> Any:
        return types.SimpleNamespace()


@pytest.fixture(scope="module")
def wrapper() -> types.ModuleType:
    """The wrapper's module under another name, so that nobody else finds it in sys.modules."""
    text = WRAPPER.read_text().replace("ctypes.CDLL(location)", "AnyLibrary()")
    module = types.ModuleType("amdsmi_wrapper_for_layouts")
    module.__dict__.update(__file__=str(WRAPPER), AnyLibrary=AnyLibrary)
    exec(compile(text, str(WRAPPER), "exec"), module.__dict__)
    return module


def records() -> list[str]:
    return re.findall(r"^struct sk_amd_(\w+) \{", ABI.read_text(), re.MULTILINE)


def test_every_record_is_laid_out_as_the_bindings(wrapper: types.ModuleType) -> None:
    assert len(records()) > 30
    lines: list[str] = []
    for name in records():
        theirs = getattr(wrapper, OTHERWISE.get(name, f"struct_amdsmi_{name}_t"))
        lines += assertions(f"struct sk_amd_{name}", theirs)
    assert ctypes.sizeof(wrapper.union_amdsmi_bdf_t) == 8
    lines.append('_Static_assert(sizeof(union sk_amd_bdf) == 8, "bdf");')
    assert differences('#include "sim/amdsmi/abi.h"', lines) == ""


def test_every_status_is_the_bindings(wrapper: types.ModuleType) -> None:
    ours = dict(
        re.findall(r"SK_AMD_(\w+) = (-?\d+),", ABI.read_text().split("enum sk_amd_clock")[0])
    )
    assert len(ours) > 10
    for name, number in ours.items():
        assert getattr(wrapper, f"AMDSMI_STATUS_{name}") == int(number) & 0xFFFFFFFF


def test_a_difference_would_be_noticed(wrapper: types.ModuleType) -> None:
    lines = assertions("struct sk_amd_power_info", wrapper.struct_amdsmi_clk_info_t)
    assert "error" in differences('#include "sim/amdsmi/abi.h"', lines)
