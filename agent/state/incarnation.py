# SPDX-License-Identifier: Apache-2.0
"""The number of an agent's start: larger than that of every earlier start, whatever the clock says.

The scheduler refuses reports of an older start than the last one, and no answer to an earlier
process fits a request of this one, so the number is on disk before it is used. It starts from the
date, so that an agent whose folder was lost still gets a larger one.
"""

from __future__ import annotations

import os
from pathlib import Path

from stoker.native.errors import Refused

STEP = 1_000_000_000
"""The least difference between two starts: state requests count up from the start's number, and
observations from its seconds."""
_DIGITS = 20


def begin(path: Path, real_ns: int) -> int:
    """Store and return the number of this start. `real_ns`: CLOCK_REALTIME. Refused if it fails.

    The file is overwritten in place, so a full disk does not stop an agent that has run before. It
    can be torn only by a power loss; then the boot differs, and any number is right.
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
