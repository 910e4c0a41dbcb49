# SPDX-License-Identifier: Apache-2.0
"""The parts of the CUPTI tracer that need no CUPTI, by a C program with sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROBES = HERE.parents[1] / "probes"
NATIVE = HERE.parents[1] / "native"


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_parts(tmp_path: Path, sanitizer: str) -> None:
    program = tmp_path / "parts"
    sources = [PROBES / "cupti" / f"{name}.c" for name in ("joins", "buffers")]
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
    argv = ["cc", *flags, f"-fsanitize={sanitizer}", "-pthread", "-I", PROBES, "-I", NATIVE]
    built = subprocess.run(
        [*argv, "-o", program, HERE / "cupti/parts.c", *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
