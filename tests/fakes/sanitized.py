# SPDX-License-Identifier: Apache-2.0
"""C programs of tests, built with assertions, and with sanitizers if the compiler has them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = (
    *("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
    *("-D_GNU_SOURCE", f"-I{ROOT / 'native'}", "-pthread"),
)


def built(target: Path, sources: Iterable[Path], *libraries: str) -> Path:
    """Compile the sources to `target`, which is returned; warnings are errors."""
    argv = ["cc", *FLAGS, *map(str, sources), "-o", str(target), "-lm", *libraries]
    done = subprocess.run([*argv, *SANITIZERS], capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr and "asan" in done.stderr:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def output_of(*argv: str | Path) -> str:
    """Run a program that must end well within two minutes; return its standard output."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
