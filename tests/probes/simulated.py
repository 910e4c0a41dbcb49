# SPDX-License-Identifier: Apache-2.0
"""Programs on simulated vendor runtimes: compiled, run under a tracer, with the truth they tell."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.probes.segment_view import SegmentView

PROBES = Path(__file__).parents[2] / "probes"
TIMEOUT_S = 60


@dataclass(frozen=True)
class Truth:
    """One launch as the simulated device did it; times are CLOCK_MONOTONIC ns.

    `kernel`: the number of the kernel; from 100 on, a kind of copy. `timed`: there was a way to
    time it.
    """

    called_ns: int
    start_ns: int
    end_ns: int
    bytes: int
    tid: int
    kernel: int
    device: int
    timed: int


def compile_pair(source: Path, folder: Path, library: str, *defines: str) -> Path:
    """The runtime, all fake_*.c as the shared library `library`, and program.c on it: its path."""
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-D_GNU_SOURCE"]
    common = ["cc", *flags, *defines, "-pthread", f"-I{PROBES}"]
    shared = ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,-soname,{library}"]
    made = [folder / library, f"-Wl,-rpath,{folder}"]
    subprocess.run(
        [*common, *shared, "-o", made[0], *sorted(source.glob("fake_*.c")), "-ldl"], check=True
    )
    program = folder / "program"
    subprocess.run([*common, "-o", program, source / "program.c", *made], check=True)
    return program


@dataclass
class Traced:
    """Runs a program under a tracer; `env` loads the tracer into it."""

    program: Path
    folder: Path
    env: dict[str, str]
    mode: str = "full"
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *argv: int | str) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if "STOKER_" not in name}
        traced = {"STOKER_TRACE_DIR": str(self.folder), "STOKER_TRACE_MODE": self.mode}
        process = subprocess.Popen(
            [self.program, *map(str, argv)],
            env=clean | traced | self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> list[Truth]:
        """The truth; an error of the program, or a word of it, is a failure."""
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, err) == (0, "")
        return [Truth(*map(int, line.split())) for line in out.splitlines()]

    def run(self, *argv: int | str) -> list[Truth]:
        return self.finish(self.start(*argv))

    def view(self) -> SegmentView:
        return SegmentView(self.folder)

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.communicate()
