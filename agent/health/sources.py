# SPDX-License-Identifier: Apache-2.0
"""Sources of Xids on this machine: which are heard, and in words why the others are not.

All that are there are heard at once, and the first that tells counts. The kernel's log stands for
the printk tracepoint too: it has the same lines, with whose they are, and needs no program in the
kernel.
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
    """One of them; `why` it is not heard, empty if it is."""

    name: str
    why: str = ""


def sentence(sources: Iterable[Source]) -> str:
    """ "Xids are heard from A and B, not from C (why)"."""
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
