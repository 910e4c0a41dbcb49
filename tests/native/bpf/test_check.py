# SPDX-License-Identifier: Apache-2.0
"""The pure parts of native/bpf under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SOURCES = ("threads/slots.c", "threads/times.c", "kernel/reason.c", "catalogue/table.c")


def test_the_pure_parts_hold_under_sanitizers(tmp_path: Path) -> None:
    if not Path("/usr/include/bpf/libbpf.h").exists():
        pytest.skip("libbpf-dev is not installed: this part is not built here")
    program = tmp_path / "check"
    compiler = shutil.which("clang") or "cc"
    argv = [compiler, "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]
    argv += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    argv += [f"-I{ROOT / 'native'}", str(HERE / "check.c")]
    argv += [str(ROOT / "native/bpf" / name) for name in SOURCES]
    subprocess.run([*argv, "-lbpf", "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
