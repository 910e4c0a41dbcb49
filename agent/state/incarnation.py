# SPDX-License-Identifier: Apache-2.0
"""The number of an agent's start: larger than that of every start before it, whatever the date is.

The scheduler takes no report of an older start than it knows, and no answer to an earlier process
fits an ask of this one, so the number is on disk before it is used. It begins with the date, so
that an agent whose folder was lost still gets a larger one.
"""

from __future__ import annotations

import os
from pathlib import Path

from stoker.native.errors import Refused

STEP = 1_000_000_000
"""Between two starts at least: asks are numbered from the number of the start on, and observations
by its seconds."""
_DIGITS = 20


def begin(path: Path, real_ns: int) -> int:
    """The number of this start, stored. `real_ns`: CLOCK_REALTIME. Refused where it cannot be.

    Written in place, so that a full disk does not end an agent that has run before. A torn file
    is possible after a power loss alone, and then the boot is another one: any number will do.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
        try:
            text = os.pread(descriptor, _DIGITS, 0)
            before = int(text) if text.isdigit() else 0
            number = max(before + STEP, real_ns)
            os.pwrite(descriptor, f"{number:0{_DIGITS}}\n".encode(), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    return number
