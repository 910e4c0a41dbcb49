# SPDX-License-Identifier: Apache-2.0
"""The core's commands: the tuples that callers make, and batches of them as bytes.

The tuples are generated from `native/core/wire.h` (`make generate`); this file reads what the log
holds. Bytes that are not a batch of commands raise ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from stoker.scheduler.wire_array import RangeEnd, SubmitArray
from stoker.scheduler.wire_commands import (
    SIZES,
    UNPACK,
    Cancel,
    Command,
    DeviceSet,
    DeviceTraits,
    DeviceUsage,
    Forget,
    GiveUp,
    NodeDown,
    NodeLabel,
    NodeReserve,
    NodeUp,
    Place,
    Preempt,
    Prefer,
    QueueSet,
    QuotaSet,
    RefusedRequests,
    Request,
    Submit,
    TaskOutcome,
    Term,
)
from stoker.scheduler.wire_fields import Condition, Shares
from stoker.scheduler.wire_names import (
    BATCH_PLACES_MAX,
    BATCH_REQUESTS_MAX,
    CANCEL,
    DEVICE_SET,
    DEVICE_TRAITS,
    FORGET,
    GIVE_UP,
    NO_LIMIT,
    NODE_DOWN,
    NODE_LABEL,
    NODE_RESERVE,
    NODE_UP,
    OUTCOME,
    PLACE,
    PREEMPT,
    PREFER,
    PRIORITY_MAX,
    PRIORITY_MIN,
    QUEUE_SET,
    QUOTA_SET,
    RANGE_END,
    REFUSED,
    STATES,
    SUBMIT,
    SUBMIT_ARRAY,
    SUBMIT_LEAST,
    TASKS_MAX,
    TERM,
    USAGE,
)

__all__ = [
    "BATCH_PLACES_MAX",
    "BATCH_REQUESTS_MAX",
    "CANCEL",
    "DEVICE_SET",
    "DEVICE_TRAITS",
    "FORGET",
    "GIVE_UP",
    "NODE_DOWN",
    "NODE_LABEL",
    "NODE_RESERVE",
    "NODE_UP",
    "NO_LIMIT",
    "OUTCOME",
    "PLACE",
    "PREEMPT",
    "PREFER",
    "PRIORITY_MAX",
    "PRIORITY_MIN",
    "QUEUE_SET",
    "QUOTA_SET",
    "RANGE_END",
    "REFUSED",
    "SIZES",
    "STATES",
    "STATE_CODES",
    "SUBMIT",
    "SUBMIT_ARRAY",
    "TASKS_MAX",
    "TERM",
    "U64_MAX",
    "USAGE",
    "Cancel",
    "Command",
    "Condition",
    "DeviceSet",
    "DeviceTraits",
    "DeviceUsage",
    "Forget",
    "GiveUp",
    "NodeDown",
    "NodeLabel",
    "NodeReserve",
    "NodeUp",
    "Place",
    "Preempt",
    "Prefer",
    "QueueSet",
    "QuotaSet",
    "RangeEnd",
    "RefusedRequests",
    "Request",
    "Shares",
    "Submit",
    "SubmitArray",
    "TaskOutcome",
    "Term",
    "in_term",
    "unpack_command",
    "unpack_commands",
    "unpack_places",
]

STATE_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate(STATES, 1)}
"""The core's code of each state."""
U64_MAX: Final = (1 << 64) - 1
_HEADER = Struct("<HHIQ")


def unpack_command(kind: int, raw: bytes) -> Command:
    """Return one stored record as its tuple; `raw` is exactly that record."""
    return UNPACK[kind](raw)


def _size_ok(kind: int, size: int) -> bool:
    """Return True for the size of a kind; a submit is cut behind its last condition."""
    return SIZES.get(kind) == size or (
        kind == SUBMIT and SUBMIT_LEAST <= size < SIZES[SUBMIT] and not (size - SUBMIT_LEAST) % 16
    )


def unpack_commands(commands: bytes) -> Iterator[Command]:
    """Return the tuples of a batch in order; ValueError if the bytes are not a batch."""
    at = 0
    while at < len(commands):
        if len(commands) - at < _HEADER.size:
            raise ValueError(f"a record header is cut at byte {at}")
        size, kind, _, _ = _HEADER.unpack_from(commands, at)
        if not _size_ok(kind, size) or at + size > len(commands):
            raise ValueError(f"no record of kind {kind} and size {size} at byte {at}")
        yield unpack_command(kind, commands[at : at + size])
        at += size


def in_term(command: Request, term: int) -> bytes:
    """Return a request as a command of this term, without a decision of the core on it."""
    raw = command.pack()
    size, kind, flags, _ = _HEADER.unpack_from(raw)
    return _HEADER.pack(size, kind, flags, term) + raw[_HEADER.size :]


def unpack_places(commands: bytes) -> Iterator[Place]:
    """Return the decisions in a batch that `propose` made, without its other commands."""
    at = 0
    while at < len(commands):
        size = commands[at] | commands[at + 1] << 8
        if commands[at + 2] == PLACE:
            yield Place.unpack(commands[at : at + size])
        at += size
