# SPDX-License-Identifier: Apache-2.0
"""Comparison of C records with ctypes classes: the compiler checks sizes and offsets of members.

Members are matched by name. Padding that a binding names is skipped, and of an array only the first
element is entered.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NATIVE = Path(__file__).parents[3] / "native"


def places(record: Any, path: str = "", base: int = 0) -> Iterator[tuple[str, int]]:
    """(dotted member, offset) of each member of a ctypes structure, without bit fields."""
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
    """C assertions that a record has the layout of a ctypes class."""
    lines = [f'_Static_assert(sizeof({ours}) == {ctypes.sizeof(record)}, "{ours}");']
    return lines + [
        f'_Static_assert(offsetof({ours}, {name}) == {offset}, "{ours}.{name}");'
        for name, offset in places(record)
    ]


def differences(include: str, lines: list[str], *flags: str) -> str:
    """The compiler's errors about these assertions; empty if all hold."""
    source = "#include <stddef.h>\n" + include + "\n" + "\n".join(lines) + "\n"
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{NATIVE}", "-x", "c", *flags, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).stderr
