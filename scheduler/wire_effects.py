# SPDX-License-Identifier: Apache-2.0
# fmt: off
# ruff: noqa: I001
"""The effects of an applied batch as Python tuples, one for each kind.

Written by `make generate` from native/core/wire.h; change that file instead.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Self

from stoker.scheduler.wire_fields import Shares, unpack_shares
from stoker.scheduler.wire_names import STATES, JobState


_EFFECT = Struct("<HHHHIIQQQ4QiiIHH64s")


class StateChanged(NamedTuple):
    """The job is now in `state`. State "pending" is the commit of the submit at `command`."""

    command: int
    """Position of the cause in the batch, from 0."""
    job: int
    attempt: int
    state: JobState
    reason: int
    node: int
    """The node of the task; 0 where no task did it."""
    exit_code: int | None
    signal: int | None

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[5], f[6], f[4], STATES[f[1] - 1], f[2], f[7], f[13] if f[15] & 1 else None,
            f[14] if f[15] & 2 else None,
        ))


class Start(NamedTuple):
    """Tell `node` to start this task of this attempt, once."""

    command: int
    """Position of the cause in the batch, from 0."""
    job: int
    attempt: int
    task: int
    tasks: int
    node: int
    """The node of the task; 0 where no task did it."""
    shares: Shares
    reason: int
    latency_ns: int
    observations: tuple[int, ...]

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[5], f[6], f[4], f[3], f[16], f[7], unpack_shares(f[17], f[18]), f[2], f[8],
            tuple(filter(None, f[9:13])),
        ))


class Stop(NamedTuple):
    """Tell `node` to end this task, which then becomes `state`."""

    command: int
    """Position of the cause in the batch, from 0."""
    job: int
    attempt: int
    task: int
    node: int
    """The node of the task; 0 where no task did it."""
    state: JobState
    reason: int

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[5], f[6], f[4], f[3], f[7], STATES[f[1] - 1], f[2]))


class Forgotten(NamedTuple):
    """The job is gone from the state: drop what belongs to it. `node` ran task 0, or is 0."""

    command: int
    """Position of the cause in the batch, from 0."""
    job: int
    node: int
    """The node of the task; 0 where no task did it."""
    reason: int

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[5], f[6], f[7], f[2]))


class Duplicate(NamedTuple):
    """The submit at `command` repeated a key; `job` is the first one's."""

    command: int
    """Position of the cause in the batch, from 0."""
    job: int

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[5], f[6]))


class Ignored(NamedTuple):
    """The command changed nothing; it is counted under its reason."""

    command: int
    """Position of the cause in the batch, from 0."""
    kind: int
    job: int
    reason: int

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[5], f[1], f[6], f[2]))


class Release(NamedTuple):
    """All tasks of a gang are ready: tell `node` to let this one run."""

    command: int
    """Position of the cause in the batch, from 0."""
    job: int
    attempt: int
    task: int
    node: int
    """The node of the task; 0 where no task did it."""

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[5], f[6], f[4], f[3], f[7]))


Effect = (
    StateChanged | Start | Stop | Forgotten | Duplicate | Ignored | Release
)
"""One effect."""

_OF_KIND: dict[int, Callable[[tuple[Any, ...]], Effect]] = {
    1: StateChanged.of_values, 2: Start.of_values, 3: Stop.of_values, 4: Forgotten.of_values,
    5: Duplicate.of_values, 6: Ignored.of_values, 7: Release.of_values,
}


def unpack_effects(raw: bytes) -> list[Effect]:
    """The effects of a batch in their order."""
    return [_OF_KIND[f[0]](f) for f in _EFFECT.iter_unpack(raw)]
