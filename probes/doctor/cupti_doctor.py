# SPDX-License-Identifier: Apache-2.0
"""The check whether CUDA kernels can be traced on this node: the tracer, and NVIDIA's libcupti.

The version of the library is read in a separate process, as it may crash or hang there. A job that
brings a libcupti itself is traced with that one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from stoker.native import paths
from stoker.probes.doctor.check_report import ProbeCheck
from stoker.probes.kernels.tracer_environment import LIBRARIES, find_cupti

VERSION_MIN = 17
"""CUDA 11.6, as in probes/cupti/api.h."""

ID = "probe.cupti"
LIMIT_S = 2.5
_HEADERS = "pip install nvidia-cuda-cupti nvidia-cuda-runtime nvidia-cuda-crt; make build"
NO_DRIVER = 999
"""CUPTI_ERROR_UNKNOWN, which libcupti 13 returns for every call without libcuda."""

_ASK = (
    "import ctypes, sys; v = ctypes.c_uint32();"
    "print(ctypes.CDLL(sys.argv[1]).cuptiGetVersion(ctypes.byref(v)), v.value)"
)


def cupti_checks() -> list[ProbeCheck]:
    """Return one line: the library with which CUDA kernels are traced, or the reason why not."""
    try:
        paths.library(LIBRARIES["cupti"])
    except paths.NotBuilt as error:
        return [ProbeCheck(ID, "WARN", f"CUDA kernels are not traced: {error}", _HEADERS)]
    library = find_cupti()
    if library is None:
        text = "no libcupti on this node: only CUDA jobs that bring their own are traced"
        return [ProbeCheck(ID, "WARN", text, "pip install nvidia-cuda-cupti")]
    return list(version_checks(library))


def version_checks(library: Path) -> Iterator[ProbeCheck]:
    """Check that this libcupti loads and is new enough."""
    hint = "pip install -U nvidia-cuda-cupti"
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK, library],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield ProbeCheck(ID, "WARN", f"{library} did not load in time", hint)
        return
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        yield ProbeCheck(ID, "WARN", f"{library} cannot be used: {last}", hint)
        return
    error, version = map(int, done.stdout.split())
    if error == NO_DRIVER:
        yield ProbeCheck(ID, "PASS", f"no CUDA driver answers on this node; {library} is there")
    elif error:
        yield ProbeCheck(ID, "WARN", f"{library} cannot be used: CUPTI error {error}", hint)
    elif version < VERSION_MIN:
        yield ProbeCheck(ID, "WARN", f"{library} is version {version}, older than CUDA 11.6", hint)
    else:
        text = f"CUDA kernels are traced with {library}, version {version}"
        yield ProbeCheck(ID, "PASS", text)
