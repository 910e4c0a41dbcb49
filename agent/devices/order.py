# SPDX-License-Identifier: Apache-2.0
"""Index of each device in this boot, on disk, so that every agent counts devices alike.

Invariant: the file is whole, or refused before an agent starts.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.mesh.identity import sealed_json

NAME = "devices.json"


class DeviceOrder(msgspec.Struct, frozen=True):
    """Ids by index."""

    boot_id: str
    ids: tuple[str, ...] = ()


def read(path: Path) -> DeviceOrder:
    """Whatever boot it is of; OSError without a file, msgspec.MsgspecError for a damaged one."""
    return sealed_json.decode(path.read_bytes(), DeviceOrder)


def of_boot(path: Path, boot_id: str) -> DeviceOrder:
    """The order of this boot; jobs of an earlier one are over, so its indices are free again."""
    try:
        order = read(path)
    except (FileNotFoundError, msgspec.MsgspecError):
        return DeviceOrder(boot_id)
    return order if order.boot_id == boot_id else DeviceOrder(boot_id)


def write(path: Path, order: DeviceOrder) -> None:
    """Whole, or as it was before."""
    partial = path.with_name(f".{path.name}.new")
    partial.write_bytes(sealed_json.encode(order))
    partial.replace(path)
