# SPDX-License-Identifier: Apache-2.0
"""The environment of traced jobs: each vendor's way in, and what the job has there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.probes.kernels.tracer_environment import (
    LIBCUPTI,
    LIBRARIES,
    find_cupti,
    layer_environment,
    offer,
)

TRACERS = {name: f"/lib/{library}" for name, library in LIBRARIES.items()}
TRACERS[LIBCUPTI] = "/lib/libcupti.so.13"
SEGMENTS = Path("/shm/1")


def test_the_layer_alone() -> None:
    library = Path("/lib/layer.so")
    assert layer_environment(library, SEGMENTS, "off") == {}
    assert layer_environment(library, SEGMENTS, "full", layers="/own.so") == {
        "OPENCL_LAYERS": "/lib/layer.so:/own.so",
        "STOKER_TRACE_DIR": "/shm/1",
        "STOKER_TRACE_MODE": "full",
    }


@pytest.mark.parametrize(
    ("vendor", "variables"),
    [
        ("pocl", {}),
        (
            "nvidia",
            {
                "CUDA_INJECTION64_PATH": TRACERS["cupti"],
                "STOKER_CUPTI": TRACERS[LIBCUPTI],
            },
        ),
        ("amd", {"ROCP_TOOL_LIBRARIES": TRACERS["rocprofiler"]}),
        ("intel", {"ZE_ENABLE_TRACING_LAYER": "1", "LD_PRELOAD": TRACERS["levelzero"]}),
    ],
)
def test_a_vendors_tracer_is_offered_with_its_device(
    vendor: str, variables: dict[str, str]
) -> None:
    made = offer(TRACERS, SEGMENTS, "governed", vendors={vendor})
    assert made.aside == {}
    assert made.variables == {
        "OPENCL_LAYERS": TRACERS["opencl"],
        "STOKER_TRACE_DIR": "/shm/1",
        "STOKER_TRACE_MODE": "governed",
        **variables,
    }


def test_ids_of_devices_are_told_to_the_tracer_that_cannot_find_them_out() -> None:
    ids = {129: "17ff74a1-0000-1000-8001-000000000002", 128: "17ff74a1-0000-1000-8001-000000000001"}
    made = offer(TRACERS, SEGMENTS, "full", vendors={"amd"}, render_nodes=ids)
    assert made.variables["STOKER_RENDER_NODES"] == f"128={ids[128]},129={ids[129]}"
    other = offer(TRACERS, SEGMENTS, "full", vendors={"intel"}, render_nodes=ids)
    assert "STOKER_RENDER_NODES" not in other.variables


def test_an_injection_of_the_jobs_own_is_left_alone_and_said() -> None:
    job = {"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"}
    made = offer(TRACERS, SEGMENTS, "full", vendors={"nvidia"}, job=job)
    assert "CUDA_INJECTION64_PATH" not in made.variables
    assert "/opt/nsys/libToolsInjection64.so" in made.aside["cupti"]
    assert "OPENCL_LAYERS" in made.variables


def test_lists_keep_what_the_job_has() -> None:
    job = {"ROCP_TOOL_LIBRARIES": "/theirs.so", "LD_PRELOAD": "/jemalloc.so"}
    made = offer(TRACERS, SEGMENTS, "full", vendors={"amd", "intel"}, job=job)
    assert made.variables["ROCP_TOOL_LIBRARIES"] == f"{TRACERS['rocprofiler']}:/theirs.so"
    assert made.variables["LD_PRELOAD"] == f"{TRACERS['levelzero']}:/jemalloc.so"


def test_what_is_not_there_is_not_offered() -> None:
    assert offer({}, SEGMENTS, "full", vendors={"nvidia"}).variables == {}
    assert offer(TRACERS, SEGMENTS, "off", vendors={"nvidia"}).variables == {}
    off = offer(TRACERS, SEGMENTS, "full", vendors={"intel"}, job={"ZE_ENABLE_TRACING_LAYER": "0"})
    assert "LD_PRELOAD" not in off.variables and "levelzero" in off.aside


def test_libcupti_is_found_newest_first(tmp_path: Path) -> None:
    toolkit = tmp_path / "usr/local/cuda-12.8/extras/CUPTI/lib64/libcupti.so.12"
    package = tmp_path / "site/nvidia/cu13/lib/libcupti.so.13"
    places = [str(tmp_path / "site")]
    assert find_cupti({}, places, tmp_path) is None
    for path in (toolkit, package):
        path.parent.mkdir(parents=True)
        path.touch()
    assert find_cupti({}, [], tmp_path) == toolkit
    assert find_cupti({}, places, tmp_path) == package
    assert find_cupti({"STOKER_CUPTI": str(toolkit)}, places, tmp_path) == toolkit
    assert find_cupti({"STOKER_CUPTI": "/not/there"}, places, tmp_path) is None
