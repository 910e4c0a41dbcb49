# SPDX-License-Identifier: Apache-2.0
"""Packing of those fields of the core's records that are more than one number."""

from __future__ import annotations

from struct import Struct

from stoker.scheduler.nouns import DeviceShare

Shares = tuple[DeviceShare, ...]
"""Parts of devices, in the order in which they were granted."""


def padded(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return as many numbers as the record has room for, 0 at the end; ValueError for more."""
    if len(numbers) > count:
        raise ValueError(f"{len(numbers)} values, at most {count}")
    return (*numbers, *(0,) * (count - len(numbers)))


def pack_shares(shares: Shares) -> bytes:
    """The bytes of the shares, without what pads them."""
    return b"".join(s.index.to_bytes(2, "little") + s.milli.to_bytes(2, "little") for s in shares)


def unpack_shares(count: int, raw: bytes) -> Shares:
    """The first `count` shares."""
    if not count:
        return ()
    numbers = Struct(f"<{2 * count}H").unpack_from(raw)
    return tuple(map(DeviceShare, numbers[::2], numbers[1::2]))
