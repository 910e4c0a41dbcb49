# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log about cards: Xids, and messages of amdgpu, i915 and xe.

Pure. Forms, by the drivers' sources: NVIDIA "NVRM: Xid (PCI:0000:3b:00): 79, pid=..., ..." (its Xid
documentation); amdgpu_device.c, amdgpu_ras.c, amdgpu_ring and gmc; i915 intel_reset.c and
i915_gpu_error.c; xe_device.c, xe_guc_submit.c. Invariant: only what a driver itself wrote counts:
what programs write into the log has another facility, and names that they chose (of a file in a
segfault's line, of a process) never begin one of the kernel's.
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
"""Facility of what the kernel writes (syslog(2))."""
TEXT_CHARS_MAX = 120


class KernelLogLine(NamedTuple):
    """The finding in one line of the kernel's log."""

    bus: str
    """PCI address without the function: "0000:3b:00"."""
    kind: Kind
    number: int
    text: str


def parse(record: str) -> KernelLogLine | None:
    """One record of /dev/kmsg: "priority,sequence,microseconds,flags;text"; None for any other."""
    head, semicolon, text = record.partition(";")
    priority = head.partition(",")[0]
    if not semicolon or not priority.isdigit() or int(priority) >> 3 != KERNEL:
        return None
    return parse_text(text.partition("\n")[0])


def parse_text(text: str) -> KernelLogLine | None:
    """The text of a line that the kernel wrote."""
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
    """Return domain, bus and device, on which all drivers of one card agree."""
    words = address.lower().partition(".")[0].split(":")
    if len(words) < 3:
        words = ["0000", *words]
    domain = words[0][-4:].rjust(4, "0")
    return ":".join((domain, *words[1:3]))
