# SPDX-License-Identifier: Apache-2.0
"""Records and tables of the simulated Level Zero are those of pyzes and of libze-dev's headers."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from fakes.cards.layouts import NATIVE, assertions, differences

BINDING = Path(str(distribution("pyzes").locate_file("pyzes/__init__.py")))
HEADERS = Path("/usr/include/level_zero")
ABI = (NATIVE / "sim/levelzero/abi.h").read_text()
TABLES = (NATIVE / "sim/levelzero/tables.h").read_text()
NEWER = {"zes_uuid", "zes_device_ext_properties", "zes_subdevice_exp_properties"}
"""Records of later versions than the installed headers'."""


@pytest.fixture(scope="module")
def binding() -> types.ModuleType:
    """The binding's classes, without its library and under another name."""
    text = BINDING.read_text().replace("gpuLib = CDLL(libName)", "gpuLib = object()")
    module = types.ModuleType("pyzes_for_layouts")
    exec(compile(text, str(BINDING), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def headers() -> Path:
    if not (HEADERS / "zes_ddi.h").exists():
        pytest.skip("libze-dev is not installed: no headers to compare with")
    return HEADERS


def records() -> Iterator[tuple[str, list[str]]]:
    """(name, members) of each record that is declared here."""
    for name, body in re.findall(r"^struct sk_(\w+) \{\n(.*?)^\};", ABI, re.MULTILINE | re.DOTALL):
        yield name, re.findall(r"(\w+)(?:\[\d+\])?;", body)


def test_records_are_laid_out_as_the_bindings(binding: types.ModuleType) -> None:
    lines: list[str] = []
    for name, _ in records():
        if hasattr(binding, f"{name}_t"):
            lines += assertions(f"struct sk_{name}", getattr(binding, f"{name}_t"))
    assert len(lines) > 150
    assert differences('#include "sim/levelzero/abi.h"', lines) == ""


def test_records_are_laid_out_as_the_headers(headers: Path) -> None:
    lines = []
    for name, members in records():
        if name in NEWER:
            continue
        lines.append(f'_Static_assert(sizeof(struct sk_{name}) == sizeof({name}_t), "{name}");')
        lines += [
            f"_Static_assert(offsetof(struct sk_{name}, {each}) == offsetof({name}_t, {each}),"
            f' "{name}.{each}");'
            for each in members
        ]
    assert len(lines) > 250
    include = '#include <level_zero/zes_api.h>\n#include "sim/levelzero/abi.h"'
    assert differences(include, lines) == ""


def test_numbers_are_the_headers(headers: Path) -> None:
    names = {
        "SK_ZE_DEVICE_LOST": "ZE_RESULT_ERROR_DEVICE_LOST",
        "SK_ZE_REQUIRES_RESET": "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET",
        "SK_ZE_NO_PERMISSION": "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS",
        "SK_ZE_DEPENDENCY_UNAVAILABLE": "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE",
        "SK_ZE_UNINITIALIZED": "ZE_RESULT_ERROR_UNINITIALIZED",
        "SK_ZE_UNSUPPORTED_VERSION": "ZE_RESULT_ERROR_UNSUPPORTED_VERSION",
        "SK_ZE_UNSUPPORTED_FEATURE": "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE",
        "SK_ZE_INVALID_ARGUMENT": "ZE_RESULT_ERROR_INVALID_ARGUMENT",
        "SK_ZE_NULL_HANDLE": "ZE_RESULT_ERROR_INVALID_NULL_HANDLE",
        "SK_ZE_NULL_POINTER": "ZE_RESULT_ERROR_INVALID_NULL_POINTER",
        "SK_ZE_IN_USE": "ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE",
        "SK_ZE_API_VERSION": "ZE_API_VERSION_CURRENT",
        "SK_ZES_THROTTLE_POWER_CAP": "ZES_FREQ_THROTTLE_REASON_FLAG_AVE_PWR_CAP",
        "SK_ZES_THROTTLE_THERMAL": "ZES_FREQ_THROTTLE_REASON_FLAG_THERMAL_LIMIT",
        "SK_ZES_THROTTLE_PSU": "ZES_FREQ_THROTTLE_REASON_FLAG_PSU_ALERT",
        "SK_ZES_THROTTLE_RANGE": "ZES_FREQ_THROTTLE_REASON_FLAG_SW_RANGE",
        "SK_ZES_EVENT_DETACH": "ZES_EVENT_TYPE_FLAG_DEVICE_DETACH",
        "SK_ZES_EVENT_MEM_HEALTH": "ZES_EVENT_TYPE_FLAG_MEM_HEALTH",
        "SK_ZES_EVENT_FABRIC_HEALTH": "ZES_EVENT_TYPE_FLAG_FABRIC_PORT_HEALTH",
        "SK_ZES_EVENT_RAS_CORRECTABLE": "ZES_EVENT_TYPE_FLAG_RAS_CORRECTABLE_ERRORS",
        "SK_ZES_EVENT_RAS_UNCORRECTABLE": "ZES_EVENT_TYPE_FLAG_RAS_UNCORRECTABLE_ERRORS",
        "SK_ZES_EVENT_RESET_REQUIRED": "ZES_EVENT_TYPE_FLAG_DEVICE_RESET_REQUIRED",
    }
    lines = [
        f'_Static_assert((unsigned){ours} == (unsigned){theirs}, "{theirs}");'
        for ours, theirs in names.items()
    ]
    include = '#include <level_zero/zes_api.h>\n#include "sim/levelzero/abi.h"'
    assert differences(include, lines) == ""


def tables_of_headers() -> dict[str, list[str]]:
    """Getter -> functions of its table, in order."""
    found = {}
    for file in ("ze_ddi.h", "zes_ddi.h", "zet_ddi.h"):
        text = (HEADERS / file).read_text()
        for getter, record in re.findall(
            r"(ze[st]?Get\w+ProcAddrTable)\(\n.*?\n\s+(\w+_dditable_t)\* pDdiTable", text
        ):
            body = re.search(rf"struct _{record}\n\{{(.*?)\n\}}", text, re.DOTALL)
            assert body
            found[getter] = re.findall(r"(ze[st]?)_pfn(\w+)_t ", body[1])
    return {getter: ["".join(pair) for pair in pairs] for getter, pairs in found.items()}


def test_every_table_has_its_functions_in_the_headers_order(headers: Path) -> None:
    ours = {
        getter: re.findall(r"F\((\w+)\)", body)
        for getter, body in re.findall(
            r"TABLE\((\w+), \\\n(.*?)\)(?= \\\n\tTABLE|\n/\*)", TABLES, re.S
        )
    }
    assert len(ours) == 53
    assert ours == tables_of_headers()
