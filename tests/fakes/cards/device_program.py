# SPDX-License-Identifier: Apache-2.0
"""C programs of tests/native/devices, linked with all of native/devices."""

from __future__ import annotations

from pathlib import Path

from fakes.sanitized import ROOT, built, output_of

SOURCES = ROOT / "tests/native/devices"


def program(source: str, folder: Path) -> Path:
    """Compile one file of SOURCES in `folder` and return the program."""
    parts = sorted((ROOT / "native/devices").rglob("*.c"))
    return built(folder / source.removesuffix(".c"), [*parts, SOURCES / source], "-ldl")


def said(made: Path, *arguments: str) -> dict[str, str]:
    """Run a program: the first word of each line of output -> the rest of the line."""
    lines = (line.partition(" ") for line in output_of(made, *arguments).splitlines())
    return {name: rest for name, _, rest in lines}
