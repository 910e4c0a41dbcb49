# SPDX-License-Identifier: Apache-2.0
"""The figures that a scheduler leaves in a file for the agent beside it, which exports them.

Times are CLOCK_REALTIME ns. What the log replicates is the leader's to tell, so that no sum over
schedulers counts it twice.
"""

from __future__ import annotations

import msgspec

FILE = "figures.json"
"""Its name in the scheduler's part of the state folder."""
EVERY_S = 5
"""Seconds between two writings."""
STALE_NS = 30_000_000_000
"""Older figures are those of a scheduler that does not run."""
QUEUES_MAX = 256
"""The most queues in the file, those with the most waiting jobs first."""
OUT_OF_ROSTER = "this scheduler is not in the roster"
"""The end of `SchedulerFigures.status` of one that counts for no majority."""
BYTES_MAX = 256 * 1024
"""A longer file is none of a scheduler's."""


class QueueFigures(msgspec.Struct, frozen=True):
    """One queue, with those below it; `live` jobs are its own that wait or run."""

    name: str
    pending: int
    live: int
    used_milli: int


class SchedulerFigures(msgspec.Struct, frozen=True):
    """One scheduler at `t_ns`; `events` are counted since `start_ns`."""

    start_ns: int
    t_ns: int
    leads: bool
    term: int
    index: int
    """The log entry that its state reflects."""
    events: dict[str, int]
    totals: dict[str, int] = {}
    """The core's events since the first entry of the log; of the leader alone."""
    objects: dict[str, int] = {}
    """The number of each kind of object in the core; of the leader alone."""
    queues: tuple[QueueFigures, ...] = ()
    """The queues; of the leader alone."""
    status: str = ""
    """One line whose first word is `ok`, `waiting` or `blocked`."""


def decode(data: bytes, now_ns: int) -> SchedulerFigures | None:
    """Return the figures of a scheduler that runs; None for any other file."""
    if len(data) > BYTES_MAX:
        return None
    try:
        found = msgspec.json.decode(data, type=SchedulerFigures)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if now_ns - found.t_ns < STALE_NS else None
