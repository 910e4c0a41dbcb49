# SPDX-License-Identifier: Apache-2.0
"""The write of one setting, through the table in C by which stoker-restore restores it."""

from __future__ import annotations

from stoker.agent.devices.readings import Absent
from stoker.native import _devices


def written(vendor: str, handle: int, what: str, value: int) -> Absent | None:
    """Write one setting as the restorer would (native/devices/vendor.h), or why it was not."""
    try:
        why = _devices.write(vendor, handle, what, value)
    except RuntimeError as error:  # the library cannot be used
        why = str(error)
    return Absent(why) if why else None
