# SPDX-License-Identifier: Apache-2.0
"""Holds C records against ctypes classes: every member's place and the whole size, by the compiler.

A member is found by its name in both; padding that a binding spells out is passed over, arrays are
entered by their first element.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NATIVE = Path(__file__).parents[2] / "native"


def places(record: Any, path: str = "", base: int = 0) -> Iterator[tuple[str, int]]:
    """(dotted member, offset) of a ctypes structure, bit fields aside."""
    for name, kind, *bits in record._fields_:
        if bits or name.startswith(("PADDING", "reserved")):
            continue
        offset = base + getattr(record, name).offset
        yield path + name, offset
        first, index = kind, ""
        while hasattr(first, "_length_"):
            first, index = first._type_, index + "[0]"
        if isinstance(first, type) and issubclass(first, ctypes.Structure):
            yield from places(first, f"{path}{name}{index}.", offset)


def assertions(ours: str, record: Any) -> list[str]:
    """C assertions about the layout of one record."""
    lines = [f'_Static_assert(sizeof({ours}) == {ctypes.sizeof(record)}, "{ours}");']
    return lines + [
        f'_Static_assert(offsetof({ours}, {name}) == {offset}, "{ours}.{name}");'
        for name, offset in places(record)
    ]


def differences(include: str, lines: list[str], *flags: str) -> str:
    """The compiler's errors about these assertions, or nothing."""
    source = "#include <stddef.h>\n" + include + "\n" + "\n".join(lines) + "\n"
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{NATIVE}", "-x", "c", *flags, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).stderr
