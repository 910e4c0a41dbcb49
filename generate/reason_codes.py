# SPDX-License-Identifier: Apache-2.0
"""`scheduler/reason_codes.py` from `native/core/reason.h`: the core's reason codes as an enum."""

from __future__ import annotations

from collections.abc import Iterator

from generate.header import Constant, Header
from generate.text import docstring, head, joined

SAYS = (
    "The core's reason codes."
    "\n\nWritten by `make generate` from native/core/reason.h; change that file instead. Codes are"
    " stored in the log, so they are only ever added; those from OUTER on are the caller's own."
)
CLASS = "The reason for a refusal, a state, a placement or a wait."


def module(found: Header) -> str:
    """The text of `scheduler/reason_codes.py`."""
    lines = head(SAYS, ["from enum import IntEnum"])
    lines += ["", "class Reason(IntEnum):", *docstring(CLASS, "    "), ""]
    for code in found.enums["reason"]:
        lines += _member(code)
    return joined(lines)


def _member(code: Constant) -> Iterator[str]:
    """A comment that is a whole sentence opens a section; a shorter one is about the code alone."""
    member = f"    {code.name.removeprefix('REASON_')} = {code.value}"
    if code.doc.endswith("."):
        yield from ("", f"    # {code.doc}", member)
    else:
        yield f"{member}  # {code.doc}" if code.doc else member
