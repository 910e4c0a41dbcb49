# SPDX-License-Identifier: Apache-2.0
"""SIM: compiled stand-ins for GPU libraries, and processes that call them when told.

Leaves no process behind.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent

DEARLY = 10**12
"""A budget, in ppm, into which every site fits."""


def compile_library(path: Path, *flags: str) -> Path:
    """The stand-in for libcuda and libnccl at `path`; `flags` go to the compiler."""
    argv = ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", *flags]
    subprocess.run([*argv, "-o", path, HERE / "gpu_library.c"], check=True)
    return path


def compile_caller(path: Path) -> Path:
    """The program that calls them."""
    argv = ["cc", "-O1", "-Wall", "-Werror", "-pthread", "-o", path, HERE / "gpu_caller.c"]
    subprocess.run([*argv, "-ldl"], check=True)
    path.parent.chmod(0o755)
    return path


class Caller:
    """One process that calls a library as it is told."""

    def __init__(self, program: Path, *prefix: str) -> None:
        self._process = subprocess.Popen(
            [*prefix, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def tell(self, order: str, name: object, count: int = 0) -> None:
        """Give an order and wait until it is carried out."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{order} {name} {count}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def end(self) -> None:
        """Let it end; a second time changes nothing."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait(60)
        if self._process.stdout:
            self._process.stdout.close()
