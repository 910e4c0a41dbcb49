# SPDX-License-Identifier: Apache-2.0
"""The sources of Xids on this machine, and the reason why each of the others is not one.

The agent listens to all sources at once, and the first to report an Xid counts. The kernel's printk
tracepoint is not used: /dev/kmsg gives the same lines without a BPF program, and it tells lines of
the kernel from lines of programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROBE = "host.critical.xid"
TRACEPOINT, KERNEL_LOG, NVML = "the driver's tracepoint", "the kernel's log", "NVML's events"
EVENTS = (Path("/sys/kernel/tracing/events"), Path("/sys/kernel/debug/tracing/events"))
NO_TRACEPOINT = "this NVIDIA driver, if there is one, has no tracepoint nvidia_dev_xid"


class Source(NamedTuple):
    """A source of Xids; `why` is the reason why it gives none here, empty if it does."""

    name: str
    why: str = ""


def sentence(sources: Iterable[Source]) -> str:
    """Return a sentence such as "Xids are heard from A and B, not from C (why)"."""
    told = list(sources)
    heard = " and ".join(each.name for each in told if not each.why)
    others = [f"not from {each.name} ({each.why})" for each in told if each.why]
    return ", ".join([f"Xids are heard from {heard or 'nowhere'}", *others])


def kernel_log(path: Path) -> Source:
    """Return the kernel's log as a source, with the reason if it cannot be opened."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return Source(KERNEL_LOG, f"{path}: {error.strerror}")
    return Source(KERNEL_LOG)


def tracepoint(folders: Iterable[Path] = EVENTS) -> Source:
    """Return the driver's tracepoint as a source, with the reason if the kernel lists none."""
    for folder in folders:
        try:
            if next(folder.glob("*/nvidia_dev_xid"), None) is not None:
                return Source(TRACEPOINT)
        except OSError:
            continue
    return Source(TRACEPOINT, NO_TRACEPOINT)
