# SPDX-License-Identifier: Apache-2.0
# fmt: off
# ruff: noqa: I001
"""The core's answers as Python tuples.

Written by `make generate` from native/core/wire.h and wire_view.h; change them instead.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple, Self

from stoker.scheduler.wire_commands import Submit
from stoker.scheduler.wire_fields import Shares, unpack_conditions, unpack_shares
from stoker.scheduler.wire_names import STATES, JobState, Kind


_REJECTED_RECORD = Struct("<IHHQQQ")
class RejectedRecord(NamedTuple):
    """One request that propose did not turn into a command. The state is as if it had not been
    made."""

    request: int
    """Its position among the requests."""
    kind: int
    """The kind of the command."""
    reason: int
    job: int
    """The job it is about; for DUPLICATE the one that the key made, perhaps in this very batch:
    answer only when the batch is committed."""
    asked: int
    """A figure of the reason."""
    have: int
    """A figure of the reason."""

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_REJECTED_RECORD.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _REJECTED_RECORD.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[0], f[1], f[2], f[3], f[4], f[5]))


_EXPLAIN_RECORD = Struct("<HHIQQQQ")
class ExplainRecord(NamedTuple):
    """One line of an explanation, the most telling first; figures that the reason does not use are
    0."""

    reason: int
    number: int
    """Number of nodes, devices or jobs it is true of."""
    node: int
    job: int
    asked: int
    have: int
    detail: int = 0
    """More on the reason: for PLACED_ON why there, for ENDED the state's code, for a node that is
    kept out the refusal, for QUEUE_AT_LIMIT how deep the queue is, for a placement its policy."""

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_EXPLAIN_RECORD.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _EXPLAIN_RECORD.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[0], f[2], f[3], f[4], f[5], f[6], f[1]))


_JOB_INFO = Struct("<QQQQQQQ4QQQQQQIIIIiiIHHHHHHHHHHQQQQQQ8Q4Q4Q4QIIIIIhBBHHBBBB192s8Q")
class JobInfo(NamedTuple):
    """Everything that the core knows of a job. Times are those of the entries that caused them, or
    0."""

    job: int
    client: int
    spec_hash: int
    memory_bytes: int
    submit_ns: int
    place_ns: int
    end_ns: int
    latency_ns: int
    observations: tuple[int, ...]
    node: int
    """The node of task 0 in the last attempt; 0: never placed."""
    uid: int
    tenant: int
    gpu_milli: int
    """Milli-shares of devices of each task."""
    cpu_milli: int
    attempt: int
    exit_code: int | None
    signal: int | None
    priority: int
    tasks: int
    tasks_live: int
    """Tasks that are placed and have not ended."""
    state: JobState
    reason: int
    place_reason: int
    candidates: int
    attained_ns: int
    """Device time of the attempts that ended."""
    charged_ns: int
    """Device time of this attempt, as reported while it runs."""
    spent_ns: int
    """Device time of this attempt, by its tasks that ended."""
    not_before_ns: int
    """It waits, but not before this time; 0: no pause."""
    retried: int
    """Attempts that ended and were followed by another."""
    preemptions: int
    """Those that did not fail: preempted, or not begun."""
    hold: int
    """The reason why it is not in its queue though pending: `enum sk_hold`."""
    ready: int
    """Tasks of a gang that were ready in this attempt."""
    preferred: int
    """Bit n: where it was placed last, preference n + 1 is met."""
    unmet: int
    """The job of request.after, from 1, that ended otherwise than wanted; 0."""
    request: Submit
    """All that was asked for; the key is not kept."""

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_JOB_INFO.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _JOB_INFO.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[0], f[1], f[2], f[33], f[3], f[4], f[5], f[6], tuple(filter(None, f[7:11])), f[11],
            f[16], f[17], f[59], f[60], f[18], f[20] if f[19] & 1 else None,
            f[21] if f[19] & 2 else None, f[64], f[65], f[23], STATES[f[24] - 1], f[25], f[26],
            f[22], f[12], f[13], f[14], f[15], f[27], f[28], f[29], f[30], f[31], f[32],
            Submit(f[1], b"", f[2], f[16], f[17], f[64], f[59], f[60], f[33], f[65], f[34], f[35],
            f[36], f[37], f[38], tuple(filter(None, f[39:47])), tuple(filter(None, f[47:51])),
            tuple(filter(None, f[51:55])), tuple(filter(None, f[55:59])), tuple(filter(None,
            f[74:82])), f[71], f[72], f[61], f[62], f[63], f[67], f[68], f[69], f[70], f[66],
            unpack_conditions(f[73])),
        ))


_NODE_INFO = Struct("<QQQQQQQQQIIIHHHHI")
class NodeInfo(NamedTuple):
    """A node and its ledger. What is used may exceed the total after a node came back smaller."""

    node: int
    boot: int
    incarnation: int
    memory_bytes: int
    memory_used: int
    cpu_used: int
    cpu_milli: int
    tasks: int
    up: bool
    reason: int
    """The reason why it is down; 0 while up."""
    devices: int
    devices_free: int
    """Devices that are available and entirely free."""
    domain: int
    reserve_from_ns: int
    reserve_until_ns: int
    """0: it is not reserved."""
    reserve_queue: int
    labels: int

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_NODE_INFO.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _NODE_INFO.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[0], f[1], f[2], f[3], f[4], f[5], f[10], f[11], bool(f[12]), f[13], f[14], f[15],
            f[6], f[7], f[8], f[9], f[16],
        ))


_LABEL = Struct("<QQII")
class Label(NamedTuple):
    """A label or taint of a node."""

    label: int
    """Hash of "key=value"."""
    value: int
    taint: bool
    """Only jobs that tolerate it are placed there."""
    cost: bool
    """`value` is the node's cost, for SK_PLACEMENT_COST_OPTIMIZED."""

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_LABEL.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _LABEL.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[0], f[1], bool(f[2] & 2), bool(f[2] & 4)))


_DEVICE_STATE = Struct("<QQQQQQQHHHHHHHBBIHH")
class DeviceState(NamedTuple):
    """The ledger of one device: its capacity is used + free while available, else used +
    unavailable."""

    memory_bytes: int
    owner: int
    capacity_milli: int
    used_milli: int
    available: bool
    reason: int
    memory_used: int
    model: int
    link: int
    bus: int
    numa: int
    kind: int = Kind.GPU
    vendor: int = 0
    compute: int = 0
    arch: int = 0
    profile: int = 0
    driver: int = 0
    link_gbps: int = 0
    near_cpus: int = 0

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_DEVICE_STATE.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _DEVICE_STATE.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[0], f[2], f[7], f[8], bool(f[9]), f[10], f[1], f[3], f[11], f[12], f[13], f[14],
            f[15], f[16], f[4], f[5], f[6], f[17], f[18],
        ))


_QUOTA_INFO = Struct("<QQQQ")
class QuotaInfo(NamedTuple):
    """The quota of a queue and those below it for one device model (0: all), and its use."""

    model: int
    guaranteed_milli: int
    limit_milli: int
    used_milli: int

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_QUOTA_INFO.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _QUOTA_INFO.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[0], f[1], f[2], f[3]))


_QUEUE_INFO = Struct("<QQQQQQIIIHHII256s")
class QueueInfo(NamedTuple):
    """A queue; what it uses and how many are pending counts those below it."""

    queue: int
    parent: int
    weight: int
    order: int
    placement: int
    depth: int
    used_milli: int
    cpu_used: int
    memory_used: int
    usage_ns: int
    """Device time, decayed up to now."""
    pending: int
    live: int
    """Pending and placed jobs of the queue itself."""
    quotas: tuple[QuotaInfo, ...]

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_QUEUE_INFO.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _QUEUE_INFO.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[6], f[7], f[8], f[9], f[10], f[12], f[0], f[1], f[2], f[3], f[4], f[5],
            tuple(QuotaInfo.unpack_all(f[13])[: f[11]]),
        ))


_TASK_INFO = Struct("<QQIHHHHHH64s")
class TaskInfo(NamedTuple):
    """One placed task that has not ended."""

    job: int
    node: int
    attempt: int
    task: int
    state: JobState
    job_state: JobState
    shares: Shares
    ready: bool
    """A task of a gang that waits for the others, or has waited."""
    released: bool
    """All tasks of the gang were ready, so each of them may run."""

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_TASK_INFO.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _TASK_INFO.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (
            f[0], f[1], f[2], f[3], STATES[f[4] - 1], STATES[f[5] - 1], unpack_shares(f[6], f[9]),
            bool(f[7]), bool(f[8]),
        ))


_SPEED = Struct("<QQQQQIHH")
class Speed(NamedTuple):
    """The speed of one device model for one series of jobs: the time of a unit of work."""

    series: int
    model: int
    measure: int
    jobs: int
    """Jobs that were measured in all."""
    median_ns: int
    """The newest SK_SPEED_SAMPLES_MAX jobs count, here and in the next two."""
    least_ns: int
    most_ns: int

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Make it from exactly one record."""
        return cls.of_values(_SPEED.unpack(raw))

    @classmethod
    def unpack_all(cls, raw: bytes) -> list[Self]:
        """Make one of each of the records that follow each other."""
        return list(map(cls.of_values, _SPEED.iter_unpack(raw)))

    @classmethod
    def of_values(cls, f: tuple[Any, ...]) -> Self:
        """Make it from values in the order of the record."""
        return tuple.__new__(cls, (f[0], f[1], f[6], f[5], f[2], f[3], f[4]))
