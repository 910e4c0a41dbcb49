# SPDX-License-Identifier: Apache-2.0
"""Notices of the host probes: rare events that are reported one by one.

Critical ones have a ring that frequent events cannot fill; opens of devices have a ring of their
own. Layout and kinds are those of native/records/notice.h.
"""

from __future__ import annotations

from typing import Literal

import msgspec

NoticeKind = Literal["device_open", "refused_open", "oom_kill", "signal", "killed_exit", "xid"]

_KINDS: tuple[NoticeKind, ...] = (
    "device_open",
    "refused_open",
    "oom_kill",
    "signal",
    "killed_exit",
    "xid",
)
_BY_KERNEL, _CORE_DUMPED = 1, 2
_READ, _WRITE, _MAKE = 2, 4, 1


class Notice(msgspec.Struct, frozen=True):
    """One event; fields that its kind does not have are None."""

    kind: NoticeKind
    t_ns: int
    """CLOCK_MONOTONIC."""
    job: int
    """Cgroup id of the job; 0: of no job, as an Xid may be."""
    pid: int
    """Process it happened to, in the initial pid namespace; 0: none."""
    tid: int
    comm: str
    signal: int | None = None
    """The signal that ends the process (`signal`) or ended it (`killed_exit`)."""
    from_pid: int | None = None
    """The sender of the signal; for `oom_kill` the process whose allocation failed."""
    from_comm: str | None = None
    by_kernel: bool = False
    """The kernel itself sent the signal, on behalf of no process."""
    core_dumped: bool = False
    device: tuple[int, int] | None = None
    """(major, minor) of the device file."""
    access: str | None = None
    """Requested access: letters of r (read), w (write), m (make the file)."""
    xid: int | None = None
    pci: str | None = None
    text: str = ""
    """The driver's text with an Xid."""


def notice_of(
    record: tuple[int, int, int, int, int, int, int, int, int, int, str, str],
) -> Notice:
    """Return the notice in a record of the kernel's side."""
    number, t_ns, job, pid, tid, code, from_pid, flags, major, minor, name, text = record
    kind = _KINDS[number]
    if kind == "xid":
        return Notice(kind, t_ns, job, pid, tid, "", xid=code, pci=name, text=text)
    if kind in ("device_open", "refused_open"):
        access = _access(code)
        return Notice(kind, t_ns, job, pid, tid, name, device=(major, minor), access=access)
    if kind == "oom_kill":
        return Notice(kind, t_ns, job, pid, tid, name, from_pid=from_pid)
    if kind == "killed_exit":
        dumped = bool(flags & _CORE_DUMPED)
        return Notice(kind, t_ns, job, pid, tid, name, signal=code, core_dumped=dumped)
    kernel = bool(flags & _BY_KERNEL)
    return Notice(
        kind,
        t_ns,
        job,
        pid,
        tid,
        name,
        signal=code,
        from_pid=from_pid,
        from_comm=text,
        by_kernel=kernel,
    )


def _access(code: int) -> str:
    letters = ((_READ, "r"), (_WRITE, "w"), (_MAKE, "m"))
    return "".join(letter for bit, letter in letters if code & bit)
