# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log about cards: Xids, and messages of amdgpu, i915 and xe.

Pure. The forms of the lines are from the drivers' sources:
- NVIDIA: "NVRM: Xid (PCI:0000:3b:00): 79, pid=..., ..." (NVIDIA's Xid documentation)
- AMD: amdgpu_device.c, amdgpu_ras.c, amdgpu_ring.c, amdgpu_gmc.c
- Intel: intel_reset.c and i915_gpu_error.c of i915, xe_device.c and xe_guc_submit.c of xe

Invariant: only a line that a driver wrote counts. A line that a program wrote has another facility.
A name that a program chose may stand inside a line of the kernel, but never at its beginning.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker.agent.health.signals import Kind

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)(?:, (.*))?")
_DRIVER = re.compile(r"(amdgpu|i915|xe) ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (.*)")
_WEDGED = re.compile(r"Xe has declared device ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_SAID: tuple[tuple[str, str, Kind], ...] = (
    ("amdgpu", r"device lost from bus", "lost"),
    ("amdgpu", r"GPU reset.* failed|GPU Recovery Failed|asic reset failed", "reset_failed"),
    ("amdgpu", r"GPU reset\(\d+\) succeeded|GPU reset succeeded", "reset_seen"),
    ("amdgpu", r"GPU reset begin", "reset_begun"),
    ("amdgpu", r"ring \S+ timeout|job timeout|HW exception", "engine_hang"),
    ("amdgpu", r"page fault|VM_L2_PROTECTION_FAULT_STATUS", "app_fault"),
    ("amdgpu", r"uncorrectable (hardware|error)|poison is consumed", "ecc_uncorrected"),
    ("amdgpu", r"correctable (hardware )?error", "ecc_corrected"),
    ("i915", r"GPU HANG", "engine_hang"),
    ("i915", r"Resetting chip", "reset_begun"),
    ("i915", r"Failed to reset|declared wedged|GPU recovery failed", "wedged"),
    ("xe", r"declared .*wedged|device wedged", "wedged"),
    ("xe", r"CAT[_ ]error|Engine memory CAT|Fault response: Unsuccessful", "app_fault"),
    ("xe", r"Timedout job|Engine reset|GT\d+: reset (queued|started)", "engine_hang"),
    ("xe", r"reset failed", "reset_failed"),
    ("xe", r"reset done", "reset_seen"),
)
_SAYINGS = tuple((name, re.compile(text, re.IGNORECASE), kind) for name, text, kind in _SAID)
KERNEL = 0
"""The facility of the kernel's own messages (syslog(2))."""
TEXT_CHARS_MAX = 120


class KernelLogLine(NamedTuple):
    """The finding in one line of the kernel's log."""

    bus: str
    """The PCI address without the function: "0000:3b:00"."""
    kind: Kind
    number: int
    text: str


def parse(record: str) -> KernelLogLine | None:
    """Return the finding in one record of /dev/kmsg; None if no driver reports an error in it.

    A record is "priority,sequence,microseconds,flags;text".
    """
    head, semicolon, text = record.partition(";")
    priority = head.partition(",")[0]
    if not semicolon or not priority.isdigit() or int(priority) >> 3 != KERNEL:
        return None
    return parse_text(text.partition("\n")[0])


def parse_text(text: str) -> KernelLogLine | None:
    """Return the finding in the text of a line that the kernel wrote, or None."""
    found = _XID.match(text)
    if found:
        said = (found[3] or "")[:TEXT_CHARS_MAX]
        return KernelLogLine(bus_of(found[1]), "xid", int(found[2][:9]), said)
    found = _DRIVER.match(text)
    if found:
        driver, bus, said = found.groups()
        for name, pattern, kind in _SAYINGS:
            if name == driver and pattern.search(said):
                return KernelLogLine(bus_of(bus), kind, 0, said[:TEXT_CHARS_MAX])
    found = _WEDGED.match(text)
    return KernelLogLine(bus_of(found[1]), "wedged", 0, text[:TEXT_CHARS_MAX]) if found else None


def bus_of(address: str) -> str:
    """Return "domain:bus:device" of a PCI address, which every driver writes in its own form."""
    words = address.lower().partition(".")[0].split(":")
    if len(words) < 3:
        words = ["0000", *words]
    domain = words[0][-4:].rjust(4, "0")
    return ":".join((domain, *words[1:3]))
