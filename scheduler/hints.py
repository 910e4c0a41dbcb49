# SPDX-License-Identifier: Apache-2.0
"""A leader's hints to its core outside the log, and the candidates of a task.

Samples of devices and typical requests feed the placements and are no part of the state. Their
records are generated from `native/core/core.h` (`make generate`); this file owns the units.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.wire_fields import unpack_shares
from stoker.scheduler.wire_names import CANDIDATES_MAX, CLASSES_MAX, JOB_MODELS_MAX
from stoker.scheduler.wire_views import CandidateRecord, ClassRecord, SampleRecord

__all__ = [
    "CANDIDATES_MAX",
    "CLASSES_MAX",
    "Candidate",
    "RequestClass",
    "Sample",
    "unpack_candidates",
]

_NO_COST: Final = 2**64 - 1


class Sample(NamedTuple):
    """The last figures of a device; an unknown one is None, never 0."""

    id: int
    """The id of the observation, which placements that used it contain."""
    power_w: float | None = None
    temperature_c: float | None = None
    limit_c: float | None = None
    """The temperature at which the device begins to slow down."""
    busy: float | None = None
    """The part of the device in use, from 0 to 1."""

    def pack(self) -> bytes:
        fields = (self.power_w, self.temperature_c, self.limit_c, self.busy)
        known = sum(1 << bit for bit, field in enumerate(fields) if field is not None)
        return SampleRecord(
            id=self.id,
            power_mw=_scaled(self.power_w, 1000, 0, 2**32 - 1),
            temperature_mc=_scaled(self.temperature_c, 1000, -(2**31), 2**31 - 1),
            limit_mc=_scaled(self.limit_c, 1000, -(2**31), 2**31 - 1),
            busy_ppm=_scaled(self.busy, 1_000_000, 0, 1_000_000),
            known=known,
        ).pack()


class RequestClass(NamedTuple):
    """A typical request, by which fragmentation is measured; amounts are per task as in Submit."""

    weight: int
    """The frequency of the request in any unit; at least 1."""
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    models: tuple[int, ...] = ()

    def pack(self) -> bytes:
        return ClassRecord(
            memory_bytes=self.memory_bytes,
            models=self.models[:JOB_MODELS_MAX],
            cpu_milli=self.cpu_milli,
            gpu_milli=self.gpu_milli,
            weight=self.weight,
        ).pack()


class Candidate(NamedTuple):
    """A node on which the next task of a job fits now."""

    node: int
    shares: tuple[DeviceShare, ...]
    """The devices that the core would take there."""
    observation: int
    """Id of the node's observation; 0: it was never observed."""
    load_milli: int
    cost: int | None
    """The cost in the node's label."""
    cpu_free_milli: int
    memory_free_bytes: int
    devices_free: int
    """The number of entirely unused whole devices."""
    tasks: int
    rating: int
    """The rating by Placement.BEST; lower is better, comparable between candidates of one call."""
    adds_mw: int
    """The power that these devices would add, by the table of models."""


def unpack_candidates(raw: bytes) -> list[Candidate]:
    """Return the candidates of one call in their order."""
    return [
        Candidate(
            node=c.node,
            shares=unpack_shares(c.shares_n, c.shares),
            observation=c.observation,
            load_milli=c.load_milli,
            cost=None if c.cost == _NO_COST else c.cost,
            cpu_free_milli=c.cpu_free,
            memory_free_bytes=c.memory_free,
            devices_free=c.devices_free,
            tasks=c.tasks,
            rating=c.rating,
            adds_mw=c.adds_mw,
        )
        for c in CandidateRecord.unpack_all(raw)
    ]


def _scaled(value: float | None, by: int, least: int, most: int) -> int:
    return 0 if value is None else max(least, min(most, round(value * by)))
