# SPDX-License-Identifier: Apache-2.0
"""The instructions of one scheduling decision, counted by callgrind.

A C program with the loop of `bench decide` is built and run if its sources, cmake and valgrind are
installed; otherwise the count is absent with a reason, never 0.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import stoker
from stoker.scheduler import bench_decide
from stoker.scheduler.sim.classes import target_classes

MARCH: Final = "x86-64-v3"
DECISIONS: Final = 2_000
GANGS: Final = 500
"""The number of decisions on gangs: each of them visits all nodes."""
_WARM = 5_000
_TIMED = "sk_bench_decision"
_PROGRAM = "stoker_bench_decide"
_SECONDS_MAX = 300


class Missing(Exception):
    """The reason why instructions cannot be counted on this machine."""


class Counted(NamedTuple):
    """The instructions of one decision, or None and a reason."""

    per_decision: float | None
    reason: str
    what: str = ""


def count(load: bench_decide.DecideLoad) -> Counted:
    """Count instructions with callgrind in a separate build for MARCH; takes up to a minute."""
    try:
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
            program = _built(Path(folder))
            decisions, warm = (GANGS, GANGS) if load.domains else (DECISIONS, _WARM)
            total = _collected(Path(folder), program, load, decisions, warm)
    except (Missing, OSError, subprocess.SubprocessError) as error:
        return Counted(None, str(error))
    what = (
        f"callgrind, sk_core_propose of {decisions} arrivals after {warm} to warm up,"
        f" compiled with -O2 -march={MARCH}"
    )
    return Counted(round(total / decisions, 1), "", what)


def _built(folder: Path) -> Path:
    package = Path(stoker.__file__).resolve().parent
    root = package.parents[1]
    if not (package / "native" / "core" / "bench" / "bench_decide_main.c").exists():
        raise Missing("the sources are not installed")
    if platform.machine() != "x86_64":
        raise Missing(f"this machine is a {platform.machine()}, not an x86_64")
    missing = [tool for tool in ("valgrind", "cmake", "ninja") if not shutil.which(tool)]
    if missing:
        raise Missing(f"not installed: {', '.join(missing)}")
    build = folder / "build"
    configure = ["cmake", "-S", root, "-B", build, "-G", "Ninja", f"-DCMAKE_C_FLAGS=-march={MARCH}"]
    _run(*map(str, configure), "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    _run("ninja", "-C", str(build), _PROGRAM)
    return build / "native" / "core" / _PROGRAM


def _collected(
    folder: Path, program: Path, load: bench_decide.DecideLoad, decisions: int, warm: int
) -> int:
    files = [folder / name for name in ("snapshot", "workload", "submits")]
    classes = target_classes(load.tasks)
    submits = bench_decide.submits(load)
    files[0].write_bytes(bench_decide.cluster(load).snapshot())
    files[1].write_bytes(b"".join(each.request().pack() for each in classes))
    files[2].write_bytes(b"".join(submit.pack() for submit in submits))
    numbers = (bench_decide.level_milli(load), warm, decisions, load.seed)
    told = _run(
        "valgrind", "--tool=callgrind", f"--toggle-collect={_TIMED}",
        f"--callgrind-out-file={folder / 'callgrind.out'}",
        str(program), *map(str, files), *map(str, numbers),
    )  # fmt: skip
    found = re.search(r"Collected\s*:\s*(\d+)", told)
    if found is None:
        raise Missing("callgrind printed no count")
    return int(found[1])


def _run(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=_SECONDS_MAX,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Missing(f"{words[0]} failed: {''.join(last)[:200]}")
    return done.stderr
