# SPDX-License-Identifier: Apache-2.0
"""A leader's hints to its core outside the log, and the candidates of a task.

Samples of devices and typical requests feed the placements and are no part of the state. Their
records are generated from `native/core/core.h` (`make generate`); this file owns the units.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Final, NamedTuple, TypeAlias

from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.wire_fields import unpack_shares
from stoker.scheduler.wire_hints import (
    SAMPLE_LAYOUT,
    CandidateRecord,
    ClassRecord,
    EvidenceRecord,
    EvidenceSideRecord,
    SampleRecord,
)
from stoker.scheduler.wire_names import (
    CANDIDATES_MAX,
    CLASSES_MAX,
    EVIDENCE_MAX,
    EVIDENCE_NODE,
    EVIDENCE_NODES_MAX,
    EVIDENCE_UNSOUGHT,
    JOB_MODELS_MAX,
    SAMPLE_BUSY,
    SAMPLE_CAP,
    SAMPLE_CLOCK,
    SAMPLE_LIMIT,
    SAMPLE_MEMORY,
    SAMPLE_POWER,
    SAMPLE_SLOWED,
    SAMPLE_STALE,
    SAMPLE_TEMPERATURE,
    SAMPLE_WARNED,
    Measure,
    Placement,
)

__all__ = [
    "CANDIDATES_MAX",
    "CLASSES_MAX",
    "EVIDENCE_MAX",
    "EVIDENCE_NODES_MAX",
    "Candidate",
    "Evidence",
    "EvidenceSide",
    "ModelPower",
    "RequestClass",
    "Sample",
    "SpeedRead",
    "pack_sample",
    "unpack_candidates",
    "unpack_evidence",
]

_NO_COST: Final = 2**64 - 1
_U32_MAX, _I32 = 2**32 - 1, (-(2**31), 2**31 - 1)


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
    cap_w: float | None = None
    """The power limit in force."""
    clock: float | None = None
    """The highest clock that is allowed now, as part of the highest there is."""
    memory: float | None = None
    """The part of the device's memory in use, from 0 to 1."""
    slowed: bool = False
    """True while heat or a fault holds its clock down."""
    warned: bool = False
    """True while its health has a warning."""
    stale: bool = False
    """True if the last figures were too old and were taken away."""

    def pack(self) -> bytes:
        flags = sum(bit for bit, name in _FLAGS if getattr(self, name))
        return pack_sample(self.id, self[1:8], flags)

    @classmethod
    def of_record(cls, record: SampleRecord | EvidenceSideRecord) -> Sample:
        """Return the sample that the core had."""

        def figure(bit: int, value: int, scale: int) -> float | None:
            return value / scale if record.known & bit else None

        return cls(
            id=record.id,
            power_w=figure(SAMPLE_POWER, record.power_mw, 1000),
            temperature_c=figure(SAMPLE_TEMPERATURE, record.temperature_mc, 1000),
            limit_c=figure(SAMPLE_LIMIT, record.limit_mc, 1000),
            busy=figure(SAMPLE_BUSY, record.busy_ppm, 1_000_000),
            cap_w=figure(SAMPLE_CAP, record.cap_mw, 1000),
            clock=figure(SAMPLE_CLOCK, record.clock_ppm, 1_000_000),
            memory=figure(SAMPLE_MEMORY, record.memory_ppm, 1_000_000),
            **{name: bool(record.known & bit) for bit, name in _FLAGS},
        )


_FLAGS: Final = ((SAMPLE_SLOWED, "slowed"), (SAMPLE_WARNED, "warned"), (SAMPLE_STALE, "stale"))
_MILLI, _PPM = 1000, 1_000_000
Figures: TypeAlias = tuple[
    float | None, float | None, float | None, float | None, float | None, float | None, float | None
]
"""The figures of a Sample in their order."""


def pack_sample(id: int, figures: Figures, known: int) -> bytes:
    """Return the bytes of a sample with these figures, which are finite, and the bits of its flags.

    The leader packs one for each device each second, so this makes nothing but the bytes.
    """
    power_w, temperature_c, limit_c, busy, cap_w, clock, memory = figures
    power = heat = limit = load = cap = speed = taken = 0
    if power_w is not None:
        known |= SAMPLE_POWER
        power = round(power_w * _MILLI)
    if temperature_c is not None:
        known |= SAMPLE_TEMPERATURE
        heat = round(temperature_c * _MILLI)
    if limit_c is not None:
        known |= SAMPLE_LIMIT
        limit = round(limit_c * _MILLI)
    if busy is not None:
        known |= SAMPLE_BUSY
        load = round(busy * _PPM)
    if cap_w is not None:
        known |= SAMPLE_CAP
        cap = round(cap_w * _MILLI)
    if clock is not None:
        known |= SAMPLE_CLOCK
        speed = round(clock * _PPM)
    if memory is not None:
        known |= SAMPLE_MEMORY
        taken = round(memory * _PPM)
    if load <= _PPM and speed <= _PPM and taken <= _PPM:
        with contextlib.suppress(struct.error):
            return SAMPLE_LAYOUT.pack(id, power, cap, heat, limit, load, speed, taken, known)
    watts = _within(power, 0, _U32_MAX), _within(cap, 0, _U32_MAX)
    degrees = _within(heat, *_I32), _within(limit, *_I32)
    parts = (_within(part, 0, _PPM) for part in (load, speed, taken))
    return SAMPLE_LAYOUT.pack(id, *watts, *degrees, *parts, known)


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


class SpeedRead(NamedTuple):
    """The speed of a device model for jobs of one series, as a placement read it."""

    measure: Measure
    median_ns: int
    """The time of a unit of work, of the newest jobs; the next two are their extremes."""
    least_ns: int
    most_ns: int
    jobs: int
    """The jobs that were measured in all."""


class EvidenceSide(NamedTuple):
    """The part of an evidence about one node: the device that decided, with its sample then."""

    node: int
    observation: int
    """The id of the node's observation; 0: there was none."""
    device: int | None
    """The index of the device; None where nodes were compared."""
    load_milli: int
    figure: int
    """The figure that was compared, lower is better: milliwatts added, 1000 less the degrees of
    headroom, tenths of load, twentieths of the fastest model's time; of nodes their load, use or
    cost."""
    sample: Sample
    score: int = 0
    """The rating of the node, lower is better; of Placement.SCORED the rank that it was told."""
    speed: SpeedRead | None = None
    """The measured speed of the device's model, which Placement.FASTEST compares."""


class Evidence(NamedTuple):
    """The evidence of a placement by signals: what it read of the chosen and of the next best."""

    placement: Placement
    reason: int
    chosen: EvidenceSide
    other: EvidenceSide | None
    """None where there was no other."""
    unsought: bool = False
    """True if no other was sought, as there are more than EVIDENCE_NODES_MAX nodes."""


_HEAD_BYTES: Final = 24
"""The bytes of a `struct sk_evidence`; those of its sides follow."""


def unpack_evidence(raw: bytes) -> Evidence:
    """Return the evidence of one decision."""
    (head,) = EvidenceRecord.unpack_all(raw[:_HEAD_BYTES])
    sides = list(map(_side, EvidenceSideRecord.unpack_all(raw[_HEAD_BYTES:])))[: head.sides]
    other = sides[1] if len(sides) > 1 else None
    unsought = bool(head.flags & EVIDENCE_UNSOUGHT)
    return Evidence(Placement(head.placement), head.reason, sides[0], other, unsought)


def _side(record: EvidenceSideRecord) -> EvidenceSide:
    return EvidenceSide(
        node=record.node,
        observation=record.observation,
        device=None if record.index_ == EVIDENCE_NODE else record.index_,
        load_milli=record.load_milli,
        figure=record.figure,
        sample=Sample.of_record(record),
        score=record.score,
        speed=_speed(record) if record.measure else None,
    )


def _speed(record: EvidenceSideRecord) -> SpeedRead:
    return SpeedRead(
        Measure(record.measure),
        record.speed_ns,
        record.speed_least,
        record.speed_most,
        record.speed_jobs,
    )


COST_ZERO: Final = 1 << 30
"""The rating of a node on which a placement costs nothing."""
COST_PER_MILLI: Final = 256
"""The cost of Placement.BEST for a thousandth of a device that usual requests lose."""
_U64, _SIGN = struct.Struct("<Q"), 1 << 63
_F64: Final = struct.Struct("<d")


def rank_of(score: float) -> int:
    """Return the rank of a score: a number of 64 bits in the order of the scores."""
    (bits,) = _U64.unpack(_F64.pack(score + 0.0))
    return int(bits ^ ((1 << 64) - 1) if bits & _SIGN else bits | _SIGN)


def score_of(rank: int) -> float:
    """Return the score of a rank."""
    bits = rank ^ _SIGN if rank & _SIGN else rank ^ ((1 << 64) - 1)
    return float(_F64.unpack(_U64.pack(bits))[0])


class ModelPower(NamedTuple):
    """The power of an unused and of a fully used device of a model."""

    idle_w: float
    full_w: float


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
