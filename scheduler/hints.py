# SPDX-License-Identifier: Apache-2.0
"""What a leader tells its core besides the log, and where it says a task would fit.

None of it is part of the state. Mirrors structs of `native/core/core.h`; sizes are compared with
the module's at import.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.submit import MODELS_PER_JOB_MAX

CLASSES_MAX: Final = 128
CANDIDATES_MAX: Final = 256
_SAMPLE = Struct("<QIiiIII")
_CLASS = Struct("<Q8QIIII")
_CANDIDATE = Struct("<5Q4IHHI32H")
SIZES: Final = {
    "sample": _SAMPLE.size,
    "class": _CLASS.size,
    "candidate": _CANDIDATE.size,
}
_NO_COST = 2**64 - 1


class Sample(NamedTuple):
    """What was seen of a device; None is not known, never 0."""

    id: int
    """Of the observation; it goes into the placements that used it."""
    power_w: float | None = None
    temperature_c: float | None = None
    limit_c: float | None = None
    """Where the device begins to slow down."""
    busy: float | None = None
    """0 to 1."""

    def pack(self) -> bytes:
        fields = (self.power_w, self.temperature_c, self.limit_c, self.busy)
        known = sum(1 << bit for bit, field in enumerate(fields) if field is not None)
        scaled = (
            _scaled(self.power_w, 1000, 0, 2**32 - 1),
            _scaled(self.temperature_c, 1000, -(2**31), 2**31 - 1),
            _scaled(self.limit_c, 1000, -(2**31), 2**31 - 1),
            _scaled(self.busy, 1_000_000, 0, 1_000_000),
        )
        return _SAMPLE.pack(self.id, *scaled, known, 0)


class RequestClass(NamedTuple):
    """A typical request, by which fragmentation is measured; per task, as in Submit."""

    weight: int
    """How often it comes, in any unit; at least 1."""
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    models: tuple[int, ...] = ()

    def pack(self) -> bytes:
        models = (*self.models, *(0,) * MODELS_PER_JOB_MAX)[:MODELS_PER_JOB_MAX]
        return _CLASS.pack(
            self.memory_bytes, *models, self.cpu_milli, self.gpu_milli, self.weight, 0
        )


class Candidate(NamedTuple):
    """A node on which the next task of a job fits now."""

    node: int
    shares: tuple[DeviceShare, ...]
    """The devices that the core would take there."""
    observation: int
    """Of the node; 0: it was never observed."""
    load_milli: int
    cost: int | None
    """Of its cost label."""
    cpu_free_milli: int
    memory_free_bytes: int
    devices_free: int
    """Entirely unused whole devices."""
    tasks: int
    rating: int
    """By Placement.BEST: lower is better. Comparable between candidates of one call."""
    adds_mw: int
    """Power that these devices would add, by the table of models."""


def unpack_candidates(raw: bytes) -> list[Candidate]:
    return [_candidate(fields) for fields in _CANDIDATE.iter_unpack(raw)]


def _candidate(f: tuple[int, ...]) -> Candidate:
    node, observation, cost, cpu_free, memory_free, load, tasks, rating, adds = f[:9]
    devices_free, shares_n = f[9:11]
    pairs = zip(f[12 : 12 + 2 * shares_n : 2], f[13 : 13 + 2 * shares_n : 2], strict=True)
    return Candidate(
        node=node,
        shares=tuple(DeviceShare(index, milli) for index, milli in pairs),
        observation=observation,
        load_milli=load,
        cost=None if cost == _NO_COST else cost,
        cpu_free_milli=cpu_free,
        memory_free_bytes=memory_free,
        devices_free=devices_free,
        tasks=tasks,
        rating=rating,
        adds_mw=adds,
    )


def _scaled(value: float | None, by: int, least: int, most: int) -> int:
    return 0 if value is None else max(least, min(most, round(value * by)))
