# SPDX-License-Identifier: Apache-2.0
"""The list of generated files, each with the declaration that it is made from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from generate import (
    header,
    job_flags,
    job_messages,
    job_options,
    layout,
    names,
    reason_codes,
    tuples,
)

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = ROOT / "native" / "core"
MESSAGES: Final = "mesh/wire"
"""The folder of the public messages."""
COMMANDS_PAGE: Final = "docs/user/commands.md"
PLAIN: Final = ("sample", "class", "candidate", "evidence_side", "evidence")
"""Structs whose Python side is made by hand from their members."""


def records() -> header.Header:
    """Everything that the core's headers declare."""
    found = header.read(CORE / "wire.h")
    header.read_more(found, CORE / "wire_array.h", None)
    header.read_more(found, CORE / "wire_view.h", None)
    header.read_more(found, CORE / "core.h", PLAIN)
    return found


def generated() -> dict[str, str]:
    """Path below the checkout -> what it should hold."""
    found = records()
    declared = job_options.read(ROOT / "scheduler/job_options.toml", found)
    page = (ROOT / COMMANDS_PAGE).read_text(encoding="utf-8")
    return {
        "native/core/wire_layout.h": layout.c_header(found),
        "scheduler/reason_codes.py": reason_codes.module(header.read(CORE / "reason.h")),
        "scheduler/wire_names.py": names.module(found, layout.digest(found)),
        "scheduler/wire_array.py": tuples.array_command(found),
        "scheduler/wire_commands.py": tuples.commands(found),
        "scheduler/wire_views.py": tuples.views(found),
        "scheduler/wire_hints.py": tuples.hints(found, PLAIN),
        "scheduler/wire_effects.py": tuples.effects(found),
        "scheduler/job_options.py": job_options.module(declared),
        f"{MESSAGES}/job_request.py": job_messages.module(declared.options, MESSAGES),
        "tui/options/job_flags.py": job_flags.module(declared.options),
        COMMANDS_PAGE: job_flags.tables(page, declared.options),
    }
