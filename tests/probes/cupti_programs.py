# SPDX-License-Identifier: Apache-2.0
"""SIM: CUDA programs on a simulated driver that has graphs, and on stoker's simulated CUPTI.

The driver is compiled against NVIDIA's own headers. Without the headers there is no tracer either,
and the tests are skipped with that reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker.native import paths
from stoker.probes.kernels.job_trace import JobTrace, Mode, TraceSummary
from tests.probes.segment_view import SegmentView

HERE = Path(__file__).parent / "cupti"
NATIVE = Path(__file__).parents[2] / "native"
HEADERS = Path(sysconfig.get_paths()["purelib"]) / "nvidia/cu13/include"
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
TIMEOUT_S = 60
IDS = tuple(f"GPU-{byte * 4}-{byte * 2}-{byte * 2}-{byte * 2}-{byte * 6}" for byte in ("51", "52"))
"""Devices of the simulated driver."""


def library() -> Path:
    """Return the tracer; skip with the reason where it is not built."""
    try:
        return paths.library("libstoker-cupti.so")
    except paths.NotBuilt as why:
        pytest.skip(
            f"{why}; NVIDIA's headers: {HEADERS} {'is' if HEADERS.exists() else 'not'} there"
        )


def compiled(folder: Path) -> Path:
    """Compile libcuda.so.1, libcupti.so.13 and `program`, and return their folder."""
    common = ["cc", *FLAGS, "-D_GNU_SOURCE", "-isystem", str(HEADERS), f"-I{NATIVE}", "-pthread"]
    name = "libcuda.so.1"
    shared = ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{name}"]
    output = ["-o", str(folder / name), str(HERE / "sim_cuda.c"), "-ldl"]
    subprocess.run([*common, *shared, *output], check=True)
    cupti = paths.library("sim/nvidia/libcupti.so.13")
    (folder / cupti.name).symlink_to(cupti)
    found = ["-L", str(folder), "-l:libcuda.so.1", f"-Wl,-rpath,{folder}", "-ldl"]
    source = str(HERE / "sim_program.c")
    subprocess.run([*common, "-o", str(folder / "program"), source, *found], check=True)
    return folder


@dataclass
class Cuda:
    """Runs programs under the tracer and looks at what they leave."""

    built: Path
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "segments").mkdir()
        (self.folder / "store").mkdir()

    def environment(self, mode: str) -> dict[str, str]:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CUDA_", "STOKER_", "SIM_"))
        }
        return clean | {
            "LD_LIBRARY_PATH": str(self.built),
            "CUDA_INJECTION64_PATH": str(library()),
            "STOKER_TRACE_DIR": str(self.folder / "segments"),
            "STOKER_TRACE_MODE": mode,
            **self.env,
        }

    def start(self, *argv: str, mode: str = "full") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.built / "program", *argv],
            env=self.environment(mode),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            text=True,
        )

    def run(self, *argv: str, mode: str = "full") -> Any:
        """Return the JSON that the program printed."""
        with self.start(*argv, mode=mode) as process:
            out, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
        return json.loads(out.splitlines()[-1]) if out.strip() else None

    @property
    def segment(self) -> SegmentView:
        return SegmentView(self.folder / "segments")

    def fold(self, mode: Mode = "full") -> TraceSummary:
        with JobTrace.open(self.folder / "segments", self.folder / "store", mode) as trace:
            return trace.finish()
