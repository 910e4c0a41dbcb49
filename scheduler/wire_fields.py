# SPDX-License-Identifier: Apache-2.0
"""Packing of those fields of the core's records that are more than one number."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.wire_names import JOB_AFTERS_MAX, JOB_CONDITIONS_MAX, SUBMIT_LEAST

Shares = tuple[DeviceShare, ...]
"""Parts of devices, in the order in which they were granted."""


class Condition(NamedTuple):
    """A condition on each device of a job, as `struct sk_condition` has it."""

    property: int
    relation: int
    value: int
    rank: int = 0
    """0: it is required; n: it is the n-th preference."""
    place: int = 0
    """The position of a named device on its node, from 1."""


Conditions = tuple[Condition, ...]

_CONDITION = Struct("<QHHHH")
_ZEROS = tuple((0,) * count for count in range(9))
_LEAST_SIZE = SUBMIT_LEAST.to_bytes(2, "little")
_NOTHING = bytes(JOB_CONDITIONS_MAX * _CONDITION.size + 8 * JOB_AFTERS_MAX)
"""The end of a request without conditions that follows no job."""


def pack_conditions(conditions: Conditions) -> bytes:
    """The bytes of the conditions, without what pads them; ValueError for too many."""
    if not conditions:
        return b""
    if len(conditions) > JOB_CONDITIONS_MAX:
        raise ValueError(f"{len(conditions)} conditions, at most {JOB_CONDITIONS_MAX}")
    return b"".join(
        _CONDITION.pack(c.value, c.property, c.relation, c.rank, c.place) for c in conditions
    )


def unpack_conditions(raw: bytes) -> Conditions:
    """The conditions up to the first that says nothing."""
    if not raw[8]:
        return ()
    rows = _CONDITION.iter_unpack(raw)
    return tuple(Condition(f, r, value, rank, at) for value, f, r, rank, at in rows if f)


def shortened(raw: bytes) -> bytes:
    """A record without the conditions at its end that say nothing; its first field is its size."""
    if raw.endswith(_NOTHING):  # `rstrip` alone takes longer than all else here
        return _LEAST_SIZE + raw[2:SUBMIT_LEAST]
    used = max(len(raw.rstrip(b"\0")), SUBMIT_LEAST)
    size = len(raw) - (len(raw) - used) // _CONDITION.size * _CONDITION.size
    return size.to_bytes(2, "little") + raw[2:size]


def padded(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return as many numbers as the record has room for, 0 at the end; ValueError for more."""
    if not numbers:
        return _ZEROS[count]
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
