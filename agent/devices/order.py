# SPDX-License-Identifier: Apache-2.0
"""Index of each device in this boot, on disk, so that a restarted agent keeps the indices.

Invariant: the file is whole, or the agent refuses to start.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.mesh.identity import sealed_json

NAME = "devices.json"


class DeviceOrder(msgspec.Struct, frozen=True):
    """Device ids by index, and the boot in which the indices are valid."""

    boot_id: str
    ids: tuple[str, ...] = ()


def read(path: Path) -> DeviceOrder:
    """The order on disk, of any boot; OSError without a file, msgspec.MsgspecError if damaged."""
    return sealed_json.decode(path.read_bytes(), DeviceOrder)


def of_boot(path: Path, boot_id: str) -> DeviceOrder:
    """The order of this boot; an order of an earlier boot is void, since its jobs have ended."""
    try:
        order = read(path)
    except (FileNotFoundError, msgspec.MsgspecError):
        return DeviceOrder(boot_id)
    return order if order.boot_id == boot_id else DeviceOrder(boot_id)


def write(path: Path, order: DeviceOrder) -> None:
    """Replace the file in one step, so that it is never half written."""
    partial = path.with_name(f".{path.name}.new")
    partial.write_bytes(sealed_json.encode(order))
    partial.replace(path)
