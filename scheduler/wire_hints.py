# SPDX-License-Identifier: Apache-2.0
# fmt: off
# ruff: noqa: I001
"""The hints that the core takes, and what it says of them, as Python tuples.

Written by `make generate` from native/core/core.h; change that file instead.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, Self

from stoker.scheduler.wire_fields import padded


SAMPLE_LAYOUT = Struct("<QIIiiIIII")


class SampleRecord(NamedTuple):
    """One observation of a device. A figure is unknown unless its bit in `known` is set."""

    id: int
    """Id of the observation."""
    power_mw: int
    cap_mw: int
    """Power limit in force."""
    temperature_mc: int
    """Thousandths of a degree Celsius."""
    limit_mc: int
    """Temperature at which it begins to slow down."""
    busy_ppm: int
    clock_ppm: int
    """Highest clock allowed now, as part of the highest there is."""
    memory_ppm: int
    """Part of its memory in use."""
    known: int

    def pack(self) -> bytes:
        """The record's bytes."""
        return SAMPLE_LAYOUT.pack(
            self.id, self.power_mw, self.cap_mw, self.temperature_mc, self.limit_mc, self.busy_ppm,
            self.clock_ppm, self.memory_ppm, self.known,
        )

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return [
            cls(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8])
            for f in SAMPLE_LAYOUT.iter_unpack(raw)
        ]


CLASS_LAYOUT = Struct("<Q8QIIII")


class ClassRecord(NamedTuple):
    """A typical request; `weight` is its frequency in any unit."""

    memory_bytes: int
    models: tuple[int, ...]
    """Models that it accepts, as in a request."""
    cpu_milli: int
    gpu_milli: int
    weight: int

    def pack(self) -> bytes:
        """The record's bytes."""
        return CLASS_LAYOUT.pack(
            self.memory_bytes, *padded(self.models, 8), self.cpu_milli, self.gpu_milli,
            self.weight, 0,
        )

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return [
            cls(f[0], f[1:9], f[9], f[10], f[11])
            for f in CLASS_LAYOUT.iter_unpack(raw)
        ]


CANDIDATE_LAYOUT = Struct("<QQQQQIIIIHHI64s")


class CandidateRecord(NamedTuple):
    """A node on which a task would fit, and the devices it would take."""

    node: int
    observation: int
    """0: never observed."""
    cost: int
    """Cost label of the node; UINT64_MAX: it has none."""
    cpu_free: int
    memory_free: int
    load_milli: int
    tasks: int
    rating: int
    """Rating by SK_PLACEMENT_BEST, lower is better."""
    adds_mw: int
    devices_free: int
    shares_n: int
    shares: bytes

    def pack(self) -> bytes:
        """The record's bytes."""
        return CANDIDATE_LAYOUT.pack(
            self.node, self.observation, self.cost, self.cpu_free, self.memory_free,
            self.load_milli, self.tasks, self.rating, self.adds_mw, self.devices_free,
            self.shares_n, 0, self.shares,
        )

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return [
            cls(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[12])
            for f in CANDIDATE_LAYOUT.iter_unpack(raw)
        ]


EVIDENCE_SIDE_LAYOUT = Struct("<QQQIIiiIIIIQIIIIQQQII")


class EvidenceSideRecord(NamedTuple):
    """The part of an evidence about one node: the device that decided and its sample at that time.
    """

    node: int
    observation: int
    """Id of the node's observation; 0: none was there."""
    id: int
    """Id of the observation."""
    power_mw: int
    cap_mw: int
    """Power limit in force."""
    temperature_mc: int
    """Thousandths of a degree Celsius."""
    limit_mc: int
    """Temperature at which it begins to slow down."""
    busy_ppm: int
    clock_ppm: int
    """Highest clock allowed now, as part of the highest there is."""
    memory_ppm: int
    """Part of its memory in use."""
    known: int
    score: int
    """The rating of the node, lower is better; of SCORED the rank it was told, higher is better."""
    index_: int
    """Device, or SK_EVIDENCE_NODE."""
    load_milli: int
    figure: int
    """The figure that was compared, lower is better: mW added, degrees from SK_DEGREES_MAX down,
    steps of load, steps of slowness, or the node's load."""
    measure: int
    """Enum sk_measure, for the speed below; 0: none is known."""
    speed_ns: int
    """Median time that the device's model took for a unit of work."""
    speed_least: int
    """This and the next one count the newest jobs."""
    speed_most: int
    speed_jobs: int

    def pack(self) -> bytes:
        """The record's bytes."""
        return EVIDENCE_SIDE_LAYOUT.pack(
            self.node, self.observation, self.id, self.power_mw, self.cap_mw, self.temperature_mc,
            self.limit_mc, self.busy_ppm, self.clock_ppm, self.memory_ppm, self.known, self.score,
            self.index_, self.load_milli, self.figure, self.measure, self.speed_ns,
            self.speed_least, self.speed_most, self.speed_jobs, 0,
        )

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return [
            cls(
                f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12],
                f[13], f[14], f[15], f[16], f[17], f[18], f[19],
            )
            for f in EVIDENCE_SIDE_LAYOUT.iter_unpack(raw)
        ]


EVIDENCE_LAYOUT = Struct("<QIHHHHI")


class EvidenceRecord(NamedTuple):
    """The evidence of a placement by signals or scores; `sides` is 2 with that of the next best,
    and 1 where there was no other."""

    job: int
    attempt: int
    task: int
    placement: int
    reason: int
    sides: int
    flags: int
    """SK_EVIDENCE_UNSOUGHT."""

    def pack(self) -> bytes:
        """The record's bytes."""
        return EVIDENCE_LAYOUT.pack(
            self.job, self.attempt, self.task, self.placement, self.reason, self.sides, self.flags,
        )

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return [
            cls(f[0], f[1], f[2], f[3], f[4], f[5], f[6])
            for f in EVIDENCE_LAYOUT.iter_unpack(raw)
        ]
