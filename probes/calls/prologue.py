# SPDX-License-Identifier: Apache-2.0
"""The kind of cost of a uprobe, by the way the kernel's trap handles the instruction at the site.

Pure. The kernel emulates few instructions, replaces one (the five-byte nop, Linux 6.18) by a call,
and executes all others out of line by single steps, which costs twenty times as much:
arch/x86/kernel/uprobes.c, push_setup_xol_ops, branch_setup_xol_ops and is_optimize.
"""

from __future__ import annotations

from typing import Literal, get_args

Trap = Literal["nop5", "push", "nop1", "nop", "branch", "endbr64", "other", "refused", "unknown"]
"""nop5: becomes a call where the kernel can; push, nop1, nop (of other lengths), branch: emulated;
endbr64, other: single-stepped; refused: no probe is possible there; unknown: this machine's
instructions are not known here."""

TRAPS: tuple[Trap, ...] = get_args(Trap)

LONGEST = 15
"""The bytes of the longest instruction."""

NOP5 = bytes.fromhex("0f1f440000")
ENDBR64 = bytes.fromhex("f30f1efa")
_PREFIXES = frozenset(b"\x66\x67\x2e\x36\x3e\x26\x64\x65\xf2\xf3")


def trap_of(code: bytes, machine: str) -> Trap:
    """Return the kind of the first instruction of `code`, which should have LONGEST bytes."""
    if machine != "x86_64":
        return "unknown"
    if code.startswith(NOP5):
        return "nop5"
    if code.startswith(ENDBR64):
        return "endbr64"
    if not code:
        return "refused"
    return _emulated(code) or "other"


def _emulated(code: bytes) -> Trap | None:
    first, second = code[0], code[1] if len(code) > 1 else 0
    if first == 0xCC:  # a breakpoint that is the library's own
        return "refused"
    if 0x50 <= first <= 0x57 or (first == 0x41 and 0x50 <= second <= 0x57):
        return "push"
    if first == 0x90:
        return "nop1"
    bare = code.lstrip(bytes(_PREFIXES))
    if bare[:1] == b"\x90" or bare[:2] == b"\x0f\x1f":
        return "nop"
    unprefixed = code[1:] if first == 0xF2 else code  # bnd, from the time of MPX
    return "branch" if _branches(unprefixed) else None


def _branches(code: bytes) -> bool:
    """Return True for relative jumps and calls; indirect ones are single-stepped."""
    first, second = code[:1], code[1:2]
    near = first in (b"\xe8", b"\xe9", b"\xeb") or b"\x70" <= first <= b"\x7f"
    return near or (first == b"\x0f" and b"\x80" <= second <= b"\x8f")


def behind_endbr64(code: bytes, machine: str) -> Trap | None:
    """Return the kind of the instruction after an endbr64 if a probe there sees the same calls.

    Every call passes it: indirect ones must land on the endbr64, direct ones begin there or right
    behind. A push, a five-byte nop or a jump there belongs to the prologue, which no loop repeats.
    The endbr64 leaves the stack as it was, so a return can be probed as well.
    """
    if machine != "x86_64" or not code.startswith(ENDBR64):
        return None
    trap = trap_of(code[len(ENDBR64) :], machine)
    jumps = trap == "branch" and code[4:5] in (b"\xe9", b"\xeb")
    return trap if trap in ("nop5", "push") or jumps else None
