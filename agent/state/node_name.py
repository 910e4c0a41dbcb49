# SPDX-License-Identifier: Apache-2.0
"""The names that nodes may have.

Pure. Owns that a name is one word in subjects, in tables and on a command line, whoever gives it.
"""

from __future__ import annotations

from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest

NAME_CHARS_MAX = 63
RULE = f"1 to {NAME_CHARS_MAX} of a-z, 0-9, - and _; `--name` sets it"


def is_name(wanted: str) -> bool:
    """Return True if a node may have this name."""
    if not 0 < len(wanted) <= NAME_CHARS_MAX or not wanted.isascii():
        return False
    return subjects.token(wanted) == wanted


def check(wanted: str) -> None:
    """Refuse a name that an operator gives and no node may have."""
    if not is_name(wanted):
        raise BadRequest(refusal(wanted), hint=RULE)


def refusal(wanted: str) -> str:
    """Return what is said of a name that no node may have."""
    return f"{wanted[:NAME_CHARS_MAX]!r} cannot be a node's name"
