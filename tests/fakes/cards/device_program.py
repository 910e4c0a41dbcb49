# SPDX-License-Identifier: Apache-2.0
"""C programs of tests/native/devices, linked with all of native/devices, with sanitizers if the
compiler has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "tests/native/devices"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def program(source: str, folder: Path) -> Path:
    """Compile one file of SOURCES in `folder`; the program."""
    made = folder / source.removesuffix(".c")
    parts = sorted((ROOT / "native/devices").rglob("*.c"))
    sources = [*map(str, parts), str(SOURCES / source)]
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    flags += ["-D_GNU_SOURCE", f"-I{ROOT / 'native'}", "-pthread"]
    argv = ["cc", *flags, *sources, "-o", str(made), "-lm", "-ldl"]
    done = subprocess.run([*argv, *SANITIZERS], capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr and "asan" in done.stderr:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def said(made: Path, *arguments: str) -> dict[str, str]:
    """Run a program: the first word of each line of output -> the rest of the line."""
    argv = [str(made), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {name: rest for name, _, rest in lines}
