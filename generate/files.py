# SPDX-License-Identifier: Apache-2.0
"""Which files are generated, and from what."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from generate import header, layout, names, tuples

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = ROOT / "native" / "core"
PLAIN: Final = ("effect", "sample", "class", "candidate")
"""Structs whose Python side is made by hand from their members."""


def records() -> header.Header:
    """What the core's headers declare."""
    found = header.read(CORE / "wire.h")
    header.read_more(found, CORE / "wire_view.h", None)
    header.read_more(found, CORE / "core.h", PLAIN)
    return found


def generated() -> dict[str, str]:
    """Path below the checkout -> what it should hold."""
    found = records()
    return {
        "native/core/wire_layout.h": layout.c_header(found),
        "scheduler/wire_names.py": names.module(found, layout.digest(found)),
        "scheduler/wire_commands.py": tuples.commands(found),
        "scheduler/wire_views.py": tuples.views(found, PLAIN),
    }
