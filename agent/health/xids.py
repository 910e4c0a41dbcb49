# SPDX-License-Identifier: Apache-2.0
"""Every Xid of NVIDIA's catalogue: its meaning, NVIDIA's advice, and stoker's action.

Numbers, meanings and advice are from the sheet "Xid Catalog" of
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (2025-10, 1 to 172); the advice
is the sheet's column of immediate resolutions. Invariant: each number up to LAST has one row.

Stoker's action differs from the advice in these cases:
- "Contact support" alone leads to a warning.
- 45 is ignored, since it always follows another Xid.
- 48, whose advice is a workflow for memory, leads to a reset.
- The workflows for NVLink lead to a cordon of the card.
- 79, whose advice is to restart the node, leads to a reset of the card alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Action = Literal["ignore", "warn", "restart", "cordon", "drain", "reset"]
LAST = 172
SUPPORT = "CONTACT_SUPPORT"


class Xid(NamedTuple):
    """One Xid of the catalogue."""

    number: int
    text: str
    advice: str
    action: Action


_APP = "RESTART_APP"
_RESET = "RESET_GPU"
_NVLINK5 = "WORKFLOW_NVLINK5_ERR"
_TOLD: tuple[tuple[Action, str, dict[int, str]], ...] = (
    (
        "restart",
        _APP,
        {
            8: "GPU stopped processing",
            11: "invalid or corrupted push buffer stream",
            13: "graphics engine exception",
            25: "invalid or illegal push buffer stream",
            31: "GPU memory page fault",
            32: "invalid or corrupted push buffer stream",
            **{39 + i: f"copy engine {i} exception" for i in range(3)},
            60: "video processor exception",
            68: "NVDEC 0 exception",
            69: "graphics engine class error",
            **{70 + i: f"copy engine {3 + i} error" for i in range(3)},
            **{75 + i: f"copy engine {6 + i} error" for i in range(3)},
            80: "corrupted data sent to the GPU",
            82: "NVJPG 0 error",
            83: "NVDEC 1 error",
            84: "NVDEC 2 error",
            85: "copy engine 9 error",
            86: "optical flow engine exception",
            88: "NVDEC 3 error",
            89: "NVDEC 4 error",
            94: "contained memory error",
            **{96 + i: f"NVDEC {5 + i} error" for i in range(3)},
            **{99 + i: f"NVJPG {1 + i} error" for i in range(7)},
            **{126 + i: f"copy engine {10 + i} error" for i in range(10)},
            139: "optical flow engine 1 error",
        },
    ),
    ("restart", "CHECK_UVM", {159: "CHI non-data error"}),
    (
        "reset",
        _RESET,
        {
            46: "GPU stopped processing",
            62: "internal micro-controller halted",
            64: "row remapping failed",
            95: "uncontained memory error",
            109: "context switch timeout",
            110: "security fault",
            119: "GSP did not answer",
            120: "GSP error",
            136: "link training failed",
            140: "unrecovered memory error",
            143: "GPU initialisation error",
            155: "NVLink software defined error",
            156: "a resource is to be retired",
            158: "fatal timeout",
        },
    ),
    ("reset", "WORKFLOW_XID_48", {48: "double bit memory error"}),
    ("reset", "RESTART_BM", {79: "GPU has fallen off the bus"}),
    ("reset", "RESTART_VM", {151: "key rotation error"}),
    (
        "reset",
        "",
        {
            167: "fatal PCIe timeout",
            168: "errors in protected memory",
            169: "internal micro-controller halted",
        },
    ),
    ("cordon", "CHECK_MECHANICALS", {54: "auxiliary power is not connected"}),
    ("cordon", "WORKFLOW_NVLINK_ERR", {74: "NVLink error"}),
    (
        "cordon",
        _NVLINK5,
        {
            144: "NVLink SAW error",
            145: "NVLink RLW error",
            146: "NVLink TLW error",
            147: "NVLink TREX error",
            148: "NVLink NVLPW error",
            149: "NVLink NETIR error",
            150: "NVLink MSE error",
        },
    ),
    ("cordon", "", {166: "traffic before the link was set up for encryption"}),
    (
        "warn",
        "IGNORE",
        {
            63: "a row or page is to be remapped",
            92: "high rate of corrected memory errors",
            93: "InfoROM wear limit",
            121: "chip-to-chip link error",
            137: "NVLink privilege error",
            157: "a resource could not be retired",
            160: "channel retired",
            161: "channel could not be retired",
        },
    ),
    ("warn", "UPDATE_SWFW", {78: "vGPU could not start"}),
    ("warn", "XID_154", {154: "recovery action changed; the action itself is another signal"}),
    ("warn", SUPPORT, {142: "NVENC 3 error"}),
    (
        "warn",
        "",
        {
            163: "power smoothing disengaged",
            164: "power smoothing circuit near its end of life",
            165: "power smoothing circuit at its end of life",
            170: "interrupt in confidential mode",
            171: "uncorrectable DRAM error; details of 48",
            172: "uncorrectable SRAM error; details of 48",
        },
    ),
    (
        "ignore",
        "IGNORE",
        {
            14: "unused",
            37: "driver firmware error",
            38: "driver firmware error",
            43: "GPU stopped processing; the program's own fault",
            44: "graphics engine fault during context switch",
            66: "illegal access by driver",
            67: "illegal access by driver",
            106: "SMBPBI test message",
            107: "SMBPBI test message, silent",
            108: "unused",
            141: "CUDA fast path error",
            152: "DLA SMMU error",
            153: "DLA timeout",
        },
    ),
    ("ignore", "WORKFLOW_XID_45", {45: "preemptive cleanup after another error"}),
    ("ignore", "", {162: "power smoothing reengaged"}),
)


def _all() -> dict[int, Xid]:
    made = {
        number: Xid(number, text, advice, action)
        for action, advice, rows in _TOLD
        for number, text in rows.items()
    }
    for number in range(1, LAST + 1):
        made.setdefault(number, Xid(number, "unused", SUPPORT, "warn"))
    return dict(sorted(made.items()))


XIDS: dict[int, Xid] = _all()
UNKNOWN = Xid(0, "not in the catalogue", SUPPORT, "warn")
"""The row of every number that is not in the catalogue."""


def xid(number: int) -> Xid:
    """Return the row of an Xid, or UNKNOWN."""
    return XIDS.get(number, UNKNOWN)
