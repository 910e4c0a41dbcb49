# SPDX-License-Identifier: Apache-2.0
"""Records, numbers and names of the simulated CUDA driver are those of NVIDIA's headers."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from fakes.cards.layouts import NATIVE, differences

LIBRARY = (NATIVE / "sim/cuda/library.h").read_text()
NAMES = re.sub(r"\s*\\\n\s*", " ", (NATIVE / "sim/cuda/names.h").read_text())
RECORDS = {
    "sk_cuda_location": ("CUmemLocation", {"type": "type", "id": "id"}),
    "sk_cuda_allocation": (
        "CUmemAllocationProp",
        {
            "type": "type",
            "requested_handles": "requestedHandleTypes",
            "location": "location",
            "flags": "allocFlags",
        },
    ),
    "sk_cuda_access": ("CUmemAccessDesc", {"location": "location", "flags": "flags"}),
    "sk_cuda_launch": (
        "CUlaunchConfig",
        {
            "grid": "gridDimX",
            "block": "blockDimX",
            "shared_bytes": "sharedMemBytes",
            "stream": "hStream",
            "attribute_count": "numAttrs",
        },
    ),
}


@pytest.fixture(scope="module")
def headers() -> Path:
    try:
        found = Path(str(distribution("nvidia-cuda-runtime").locate_file("nvidia/cu13/include")))
    except PackageNotFoundError:
        pytest.skip("nvidia-cuda-runtime is not installed: no headers to compare with")
    return found


def test_records_and_numbers_are_the_headers(headers: Path) -> None:
    lines = []
    for ours, (theirs, members) in RECORDS.items():
        lines.append(f'_Static_assert(sizeof(struct {ours}) == sizeof({theirs}), "{theirs}");')
        lines += [
            f"_Static_assert(offsetof(struct {ours}, {own}) == offsetof({theirs}, {name}),"
            f' "{theirs}.{name}");'
            for own, name in members.items()
        ]
    results = LIBRARY.split("enum sk_cuda_result {")[1].split("}")[0]
    for name in re.findall(r"SK_CUDA_(\w+) = ", results):
        theirs = "CUDA_SUCCESS" if name == "SUCCESS" else f"CUDA_ERROR_{name}"
        lines.append(f'_Static_assert((int)SK_CUDA_{name} == (int){theirs}, "{theirs}");')
    assert len(lines) > 25
    include = '#include <cuda.h>\n#include "sim/cuda/library.h"'
    assert differences(include, lines, f"-I{headers}") == ""


def test_every_function_is_listed_with_its_versions(headers: Path) -> None:
    text = (headers / "cudaTypedefs.h").read_text()
    known: dict[str, set[int]] = {}
    for name, version in re.findall(r"\(CUDAAPI \*PFN_(\w+?)_v(\d+)\)", text):
        known.setdefault(name, set()).add(int(version))
    ours = re.findall(r"X\((\w+), (\d+), (\w+)\)", NAMES)
    assert {(name, int(version)) for name, version, _ in ours} == {
        (name, version) for name, versions in known.items() for version in versions
    }
    for name, version, symbol in ours:
        place = sorted(known[name]).index(int(version)) + 1
        assert symbol == (name if place == 1 else f"{name}_v{place}")


def test_symbols_are_those_that_programs_are_compiled_against(headers: Path) -> None:
    text = (headers / "cuda.h").read_text()
    wanted = dict(re.findall(r"#define (cu\w+)\s+(?:__CUDA_API_PT\w\w\()?(cu\w+_v\d)\b", text))
    symbols = {symbol for _, _, symbol in re.findall(r"X\((\w+), (\d+), (\w+)\)", NAMES)}
    assert len(wanted) > 80
    assert set(wanted.values()) <= symbols
