# SPDX-License-Identifier: Apache-2.0
"""The environment of a traced job, which makes its GPU runtimes load stoker's tracers.

Each vendor has its own variable, and some accept only one tool: a job's own setting stays, and it
is reported that stoker's tracer is not loaded. A tracer is offered to jobs that were granted a
device of its vendor; the OpenCL layer to all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

Mode = Literal["off", "dormant", "governed", "full"]

LIBRARIES: Mapping[str, str] = {
    "opencl": "libstoker-opencl.so",
    "cupti": "libstoker-cupti.so",
    "rocprofiler": "libstoker-rocprofiler.so",
    "levelzero": "libstoker-levelzero.so",
}
"""The library of each tracer in stoker/native/lib."""

LIBCUPTI = "libcupti"
"""The key of NVIDIA's own library among the paths of tracers."""

VENDORS: Mapping[str, str] = {"nvidia": "cupti", "amd": "rocprofiler", "intel": "levelzero"}
"""The tracer for each vendor's own runtime."""

CUPTI_NAMES = ("libcupti.so.13", "libcupti.so.12")
CUPTI_FOLDERS = ("lib64", "lib", "extras/CUPTI/lib64")


class Offer(msgspec.Struct, frozen=True):
    """The variables to set, and the reasons of tracers that are not offered."""

    variables: dict[str, str] = msgspec.field(default_factory=dict)
    aside: dict[str, str] = msgspec.field(default_factory=dict)


def offer(
    tracers: Mapping[str, str],
    segments: Path | str,
    mode: Mode,
    *,
    vendors: Collection[str] = (),
    render_nodes: Mapping[int, str] | None = None,
    job: Mapping[str, str] | None = None,
) -> Offer:
    """Return the variables for a job with environment `job` and devices of `vendors`.

    `tracers`: paths as the job can read them, by the keys of LIBRARIES and LIBCUPTI; one that is
    missing or empty is not offered. `segments`: the job's folder for trace segments.
    `render_nodes`: minor number -> the node's id of the GPU, for tracers that cannot find it out.
    """
    made = Offer()
    if mode == "off":
        return made
    has = job or {}
    wanted = ["opencl", *(VENDORS[vendor] for vendor in sorted(vendors) if vendor in VENDORS)]
    for tracer in wanted:
        if tracers.get(tracer):
            _WAYS[tracer](made, tracers, has)
    if made.variables:
        made.variables["STOKER_TRACE_DIR"] = str(segments)
        made.variables["STOKER_TRACE_MODE"] = mode
    if render_nodes and "ROCP_TOOL_LIBRARIES" in made.variables:
        told = (f"{minor}={id}" for minor, id in sorted(render_nodes.items()))
        made.variables["STOKER_RENDER_NODES"] = ",".join(told)
    return made


def layer_environment(
    library: Path, segment_dir: Path, mode: Mode, *, layers: str = ""
) -> dict[str, str]:
    """Return the environment that loads the OpenCL layer alone; empty if tracing is off.

    `layers`: OPENCL_LAYERS as the job already has it; ours comes first, i.e. nearest the driver.
    """
    job = {"OPENCL_LAYERS": layers}
    return offer({"opencl": str(library)}, segment_dir, mode, job=job).variables


def find_cupti(
    environment: Mapping[str, str] = os.environ,
    places: Iterable[str] = sys.path,
    root: Path = Path("/"),
) -> Path | None:
    """Return the newest libcupti of NVIDIA on this node.

    STOKER_CUPTI is used if set, then the Python packages, then CUDA toolkits. Jobs with a libcupti
    of their own use that one.
    """
    named = environment.get("STOKER_CUPTI", "")
    if named:
        return Path(named) if Path(named).is_file() else None
    packages = [Path(place) / "nvidia" for place in places if place]
    folders = [path / part for path in packages for part in ("cu13/lib", "cuda_cupti/lib")]
    toolkits = sorted((root / "usr/local").glob("cuda*"), reverse=True)
    folders += [toolkit / part for toolkit in toolkits for part in CUPTI_FOLDERS]
    found = (folder / name for name in CUPTI_NAMES for folder in folders)
    return next((path for path in found if path.is_file()), None)


def _before(own: str, other: str) -> str:
    return f"{own}:{other}" if other else own


def _opencl(made: Offer, tracers: Mapping[str, str], has: Mapping[str, str]) -> None:
    layers = has.get("OPENCL_LAYERS", "")
    made.variables["OPENCL_LAYERS"] = _before(tracers["opencl"], layers)


# CUDA 13 documentation of CUPTI: one library alone is loaded by cuInit.
def _cupti(made: Offer, tracers: Mapping[str, str], has: Mapping[str, str]) -> None:
    theirs = has.get("CUDA_INJECTION64_PATH", "")
    if theirs:
        made.aside["cupti"] = f"the job has its own CUDA_INJECTION64_PATH, {theirs}"
        return
    made.variables["CUDA_INJECTION64_PATH"] = tracers["cupti"]
    if tracers.get(LIBCUPTI):
        made.variables["STOKER_CUPTI"] = tracers[LIBCUPTI]


# rocprofiler-sdk takes a list, and each tool has a context of its own.
def _rocprofiler(made: Offer, tracers: Mapping[str, str], has: Mapping[str, str]) -> None:
    theirs = has.get("ROCP_TOOL_LIBRARIES", "")
    made.variables["ROCP_TOOL_LIBRARIES"] = _before(tracers["rocprofiler"], theirs)


# The loader of Level Zero loads no tools, so the library comes in with the program.
def _levelzero(made: Offer, tracers: Mapping[str, str], has: Mapping[str, str]) -> None:
    if has.get("ZE_ENABLE_TRACING_LAYER", "1") == "0":
        made.aside["levelzero"] = "the job has turned Level Zero's tracing layer off"
        return
    made.variables["ZE_ENABLE_TRACING_LAYER"] = "1"
    made.variables["LD_PRELOAD"] = _before(tracers["levelzero"], has.get("LD_PRELOAD", ""))


_WAYS: Mapping[str, Callable[[Offer, Mapping[str, str], Mapping[str, str]], None]] = {
    "opencl": _opencl,
    "cupti": _cupti,
    "rocprofiler": _rocprofiler,
    "levelzero": _levelzero,
}
