# SPDX-License-Identifier: Apache-2.0
# fmt: off
# ruff: noqa: I001
"""The core's commands as Python tuples: what a caller asks for and what the log stores.

Written by `make generate` from native/core/wire.h; change that file instead. `pack` gives the bytes
of a record, `unpack` takes exactly one.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, Self

from stoker.scheduler.wire_array import RangeEnd, SubmitArray
from stoker.scheduler.wire_fields import (
    Conditions, Shares, pack_conditions, pack_shares, padded, shortened, unpack_conditions,
    unpack_shares,
)
from stoker.scheduler.wire_names import (
    CANCEL, DEVICE_SET, DEVICE_TRAITS, FORGET, GIVE_UP, NODE_DOWN, NODE_LABEL, NODE_RESERVE,
    NODE_UP, NO_LIMIT, OUTCOME, PLACE, PREEMPT, PREFER, QUEUE_SET, QUOTA_SET, RANGE_END, REFUSED,
    SUBMIT, SUBMIT_ARRAY, TERM, USAGE, Kind, Order, Placement,
)


_TERM = Struct("<HHIQQ")
class Term(NamedTuple):
    """A scheduler takes the lead, with a header.term that is greater than every term before."""

    term: int
    leader: int

    def pack(self) -> bytes:
        return _TERM.pack(24, TERM, 0, self.term, self.leader)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _TERM.unpack(raw)
        return tuple.__new__(cls, (f[3], f[4]))


_NODE_UP = Struct("<HHIQQQQQQIHH")
class NodeUp(NamedTuple):
    """A node's agent is there. A new `boot` means that the jobs of the previous boot are lost."""

    node: int
    """An id chosen by the caller, not 0."""
    boot: int
    """Hash of the kernel's boot id."""
    incarnation: int
    """Start of the agent."""
    cpu_milli: int
    memory_bytes: int
    devices: int
    """Device indexes; those from here on are gone."""
    domain: int = 0
    """Hash of a domain of failure or network, e.g. a rack; 0: none."""

    def pack(self) -> bytes:
        return _NODE_UP.pack(
            64, NODE_UP, 0, 0, self.node, self.boot, self.incarnation, self.memory_bytes,
            self.domain, self.cpu_milli, self.devices, 0,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _NODE_UP.unpack(raw)
        return tuple.__new__(cls, (f[4], f[5], f[6], f[9], f[7], f[10], f[8]))


_NODE_DOWN = Struct("<HHIQQH3H")
class NodeDown(NamedTuple):
    """Nothing new is placed on the node; without a flag what runs there goes on."""

    node: int
    evict: bool = False
    """The loss of the node is committed: its active jobs are lost."""
    remove: bool = False
    """Drop the entry of a node that is down and holds nothing."""
    reason: int = 0

    def pack(self) -> bytes:
        flags = 1 if self.evict else 0
        flags |= 2 if self.remove else 0
        return _NODE_DOWN.pack(32, NODE_DOWN, flags, 0, self.node, self.reason, 0, 0, 0)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _NODE_DOWN.unpack(raw)
        return tuple.__new__(cls, (f[4], bool(f[2] & 1), bool(f[2] & 2), f[5]))


_DEVICE_SET = Struct("<HHIQQQQQHHHHHHHBB")
class DeviceSet(NamedTuple):
    """Capacity and availability of one device; indexes are dense from 0. With the reason
    SK_DEVICE_GONE it is no device any more once no task holds it."""

    node: int
    device: int
    """Its place in the node's list."""
    capacity_milli: int = 1000
    memory_bytes: int = 0
    available: bool = True
    owner: int = 0
    """The holder that makes it unavailable, e.g. a foreign pid."""
    reason: int = 0
    """The cause of its absence, e.g. a fault code."""
    model: int = 0
    """Hash of its model's name; 0: none. A partition profile is a model."""
    link: int = 0
    """Devices of a node with the same number share a fast link; 0: not known."""
    bus: int = 0
    """Devices of a node with the same number share a PCIe switch."""
    numa: int = 0
    kind: int = Kind.GPU
    """One of the kinds."""
    vendor: int = 0
    """A number below SK_VENDORS_MAX; 0: not known."""

    def pack(self) -> bytes:
        return _DEVICE_SET.pack(
            64, DEVICE_SET, 0, 0, self.node, self.memory_bytes, self.owner, self.model,
            self.device, self.capacity_milli, self.available, self.reason, self.link, self.bus,
            self.numa, self.kind, self.vendor,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _DEVICE_SET.unpack(raw)
        return tuple.__new__(cls, (
            f[4], f[8], f[9], f[5], bool(f[10]), f[6], f[11], f[7], f[12], f[13], f[14], f[15],
            f[16],
        ))


_DEVICE_TRAITS = Struct("<HHIQQQQQIHHH3H")
class DeviceTraits(NamedTuple):
    """The traits of a device, for jobs to ask for. 0: not known, no condition on it is met."""

    node: int
    device: int
    compute: int = 0
    """Compute capability: major << 16 | minor."""
    arch: int = 0
    """Hash of the name of its architecture."""
    profile: int = 0
    """Hash of the name of its partition profile."""
    driver: int = 0
    """Version of its driver: major << 40 | minor << 20 | patch."""
    link_gbps: int = 0
    near_cpus: int = 0
    """CPUs of its NUMA node that jobs may have."""

    def pack(self) -> bytes:
        return _DEVICE_TRAITS.pack(
            64, DEVICE_TRAITS, 0, 0, self.node, self.arch, self.profile, self.driver, self.compute,
            self.device, self.link_gbps, self.near_cpus, 0, 0, 0,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _DEVICE_TRAITS.unpack(raw)
        return tuple.__new__(cls, (f[4], f[9], f[8], f[5], f[6], f[7], f[10], f[11]))


_NODE_LABEL = Struct("<HHIQQQQ")
class NodeLabel(NamedTuple):
    """A node gets a label or taint, another value for it, or loses it."""

    node: int
    label: int
    """Hash of "key=value"."""
    value: int = 0
    """Hash of the key, so that it can be a level of the topology; of COST the cost."""
    taint: bool = False
    """Only jobs that tolerate it are placed there."""
    cost: bool = False
    """`value` is the node's cost, for SK_PLACEMENT_COST_OPTIMIZED."""
    clear: bool = False
    """The node loses the label."""

    def pack(self) -> bytes:
        flags = 2 if self.taint else 0
        flags |= 4 if self.cost else 0
        flags |= 1 if self.clear else 0
        return _NODE_LABEL.pack(40, NODE_LABEL, flags, 0, self.node, self.label, self.value)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _NODE_LABEL.unpack(raw)
        return tuple.__new__(cls, (
            f[4], f[5], f[6], bool(f[2] & 2), bool(f[2] & 4), bool(f[2] & 1),
        ))


_NODE_RESERVE = Struct("<HHIQQQQII")
class NodeReserve(NamedTuple):
    """From `from_ns` to `until_ns` the node is for one queue and those below it; others must be
    gone by then. An `until_ns` of 0 clears it. Times are those of the entries."""

    node: int
    queue: int = 0
    from_ns: int = 0
    until_ns: int = 0

    def pack(self) -> bytes:
        return _NODE_RESERVE.pack(
            48, NODE_RESERVE, 0, 0, self.node, self.from_ns, self.until_ns, self.queue, 0,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _NODE_RESERVE.unpack(raw)
        return tuple.__new__(cls, (f[4], f[7], f[5], f[6]))


_QUEUE_SET = Struct("<HHIQIIIHH")
class QueueSet(NamedTuple):
    """A queue is created, changed or removed. Queue 0 is there from the start, has no children and
    takes jobs that name none; `parent` 0 is the root. Only queues without children take jobs."""

    queue: int
    parent: int = 0
    weight: int = 1
    """Its part against its siblings', 1 or more."""
    order: int = Order.FIFO
    placement: int = Placement.QUEUE
    remove: bool = False
    """The queue goes; it must be empty."""

    def pack(self) -> bytes:
        flags = 1 if self.remove else 0
        return _QUEUE_SET.pack(
            32, QUEUE_SET, flags, 0, self.queue, self.parent, self.weight, self.order,
            self.placement,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _QUEUE_SET.unpack(raw)
        return tuple.__new__(cls, (f[4], f[5], f[6], f[7], f[8], bool(f[2] & 1)))


_QUOTA_SET = Struct("<HHIQQQQII")
class QuotaSet(NamedTuple):
    """Milli-shares of devices for a queue and all below it. The guaranteed part is taken before
    what is borrowed; the limit is never passed. A guarantee of 0 and SK_NO_LIMIT drop the quota."""

    queue: int
    model: int = 0
    """Hash of a device model; 0: devices of all models."""
    guaranteed_milli: int = 0
    limit_milli: int = NO_LIMIT

    def pack(self) -> bytes:
        return _QUOTA_SET.pack(
            48, QUOTA_SET, 0, 0, self.model, self.guaranteed_milli, self.limit_milli, self.queue,
            0,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _QUOTA_SET.unpack(raw)
        return tuple.__new__(cls, (f[7], f[4], f[5], f[6]))


_SUBMIT = Struct("<HHIQQ16sQIIQQQQQQ8Q4Q4Q4QIIIIIhBBHHBBBB192s8Q")
class Submit(NamedTuple):
    """A user submits a job. The record may end before conditions and jobs that say nothing."""

    client: int
    """Id of who submits; keys are per client."""
    key: bytes = b""
    """Idempotency key, up to 16 bytes; empty: none."""
    spec_hash: int = 0
    """A known key with another hash is refused."""
    uid: int = 0
    tenant: int = 0
    priority: int = 0
    gpu_milli: int = 0
    """Milli-shares of devices of each task."""
    cpu_milli: int = 0
    memory_bytes: int = 0
    tasks: int = 1
    device_memory_bytes: int = 0
    """Memory of each device."""
    estimate_ns: int = 0
    """Expected run time; 0: not known."""
    group: int = 0
    """The group of ATTRACT and REPEL; 0: none."""
    array: int = 0
    """Shared by the jobs of one array; 0: none."""
    series: int = 0
    """Shared by jobs whose speeds compare; 0: none."""
    models: tuple[int, ...] = ()
    """Hashes of models; any will do, none: all will."""
    require: tuple[int, ...] = ()
    """Hashes of labels that the node must have."""
    avoid: tuple[int, ...] = ()
    """Hashes of labels that the node must not have."""
    tolerate: tuple[int, ...] = ()
    """Hashes of taints that do not matter."""
    after: tuple[int, ...] = ()
    """The jobs and ranges that must have ended before."""
    after_any: int = 0
    """Bit n: job n of `after` may have ended in any way."""
    after_fail: int = 0
    """Bit n: job n of `after` must have ended otherwise than well."""
    queue: int = 0
    min_run_s: int = 0
    """Not preempted before it ran for this time."""
    backoff_s: int = 0
    """Base of the pause before a retry; 0 means 1."""
    placement: int = Placement.QUEUE
    options: int = 0
    retries: int = 0
    """Attempts after the first, for failed and lost ones."""
    kinds: int = Kind.GPU
    """Kinds of devices that will do, as bits."""
    per_node: int = 0
    """Exactly so many tasks on each node of a gang; 0: as it fits."""
    conditions: Conditions = ()
    """Conditions on its devices."""

    def pack(self) -> bytes:
        return shortened(_SUBMIT.pack(
            552, SUBMIT, 0, 0, self.client, self.key, self.spec_hash, self.uid, self.tenant,
            self.memory_bytes, self.device_memory_bytes, self.estimate_ns, self.group, self.array,
            self.series, *padded(self.models, 8), *padded(self.require, 4), *padded(self.avoid, 4),
            *padded(self.tolerate, 4), self.gpu_milli, self.cpu_milli, self.queue, self.min_run_s,
            self.backoff_s, self.priority, self.tasks, self.per_node, self.placement, self.options,
            self.retries, self.kinds, self.after_any, self.after_fail,
            pack_conditions(self.conditions), *padded(self.after, 8),
        ))

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _SUBMIT.unpack(raw.ljust(552, b"\0"))
        return tuple.__new__(cls, (
            f[4], f[5] if any(f[5]) else b"", f[6], f[7], f[8], f[40], f[35], f[36], f[9], f[41],
            f[10], f[11], f[12], f[13], f[14], tuple(filter(None, f[15:23])),
            tuple(filter(None, f[23:27])), tuple(filter(None, f[27:31])),
            tuple(filter(None, f[31:35])), tuple(filter(None, f[50:58])), f[47], f[48], f[37],
            f[38], f[39], f[43], f[44], f[45], f[46], f[42], unpack_conditions(f[49]),
        ))


_PLACE = Struct("<HHIQQQQ4QIHHHHI64s")
class Place(NamedTuple):
    """A decision for one task; only `propose` makes these. The records of a gang follow each other,
    tasks 0 to tasks-1, and take effect together or not at all."""

    job: int
    attempt: int
    task: int
    tasks: int
    node: int
    shares: Shares
    reason: int
    latency_ns: int
    observations: tuple[int, ...]
    candidates: int
    """Nodes looked at for this task."""

    def pack(self) -> bytes:
        return _PLACE.pack(
            152, PLACE, 0, 0, self.job, self.node, self.latency_ns, *padded(self.observations, 4),
            self.attempt, self.task, self.tasks, self.reason, len(self.shares), self.candidates,
            pack_shares(self.shares),
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _PLACE.unpack(raw)
        return tuple.__new__(cls, (
            f[4], f[11], f[12], f[13], f[5], unpack_shares(f[15], f[17]), f[14], f[6],
            tuple(filter(None, f[7:11])), f[16],
        ))


_PREFER = Struct("<HHIQQQQ4QIHHHHI64s")
class Prefer(NamedTuple):
    """A placement from outside for one task of a job whose placement is CUSTOM, tried by propose as
    it is. It never enters the log; the SK_PLACE made of it does. Those of a gang follow each other,
    tasks 0 to tasks-1. It has the layout of a SK_PLACE."""

    job: int
    attempt: int
    node: int
    shares: Shares = ()
    task: int = 0
    tasks: int = 1
    observations: tuple[int, ...] = ()
    candidates: int = 0
    """Nodes looked at for this task."""

    def pack(self) -> bytes:
        return _PREFER.pack(
            152, PREFER, 0, 0, self.job, self.node, 0, *padded(self.observations, 4), self.attempt,
            self.task, self.tasks, 0, len(self.shares), self.candidates, pack_shares(self.shares),
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _PREFER.unpack(raw)
        return tuple.__new__(cls, (
            f[4], f[11], f[5], unpack_shares(f[15], f[17]), f[12], f[13],
            tuple(filter(None, f[7:11])), f[16],
        ))


_TASK_OUTCOME = Struct("<HHIQQQIHHiiQQQH3H")
class TaskOutcome(NamedTuple):
    """The end or the start of one task, as its node says it. A repeated outcome changes nothing. A
    task of a gang is first ready: everything that its first process needs is there, and it waits
    until all tasks of the gang are. The state "starting" says so."""

    job: int
    attempt: int
    node: int
    """The node that says so; another node than the task's is refused."""
    state: int
    """Code of a state: running, one that is final, pending: not begun, or starting: ready."""
    exit_code: int | None = None
    signal: int | None = None
    reason: int = 0
    """Passed through; the caller's own codes start at Reason.OUTER. With the state pending
    NOT_LAUNCHED alone counts."""
    task: int = 0
    device_ns: int | None = None
    """Measured device time of this task; else its shares x wall time."""
    run_ns: int = 0
    """The time that its program ran; 0: not known."""
    launch_ns: int = 0
    """Mean device time of a launch of it; 0: not measured."""

    def pack(self) -> bytes:
        flags = 1 if self.exit_code is not None else 0
        flags |= 2 if self.signal is not None else 0
        flags |= 4 if self.device_ns is not None else 0
        return _TASK_OUTCOME.pack(
            80, OUTCOME, flags, 0, self.job, self.node, self.attempt, self.task, self.state,
            self.exit_code or 0, self.signal or 0, self.device_ns or 0, self.run_ns,
            self.launch_ns, self.reason, 0, 0, 0,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _TASK_OUTCOME.unpack(raw)
        return tuple.__new__(cls, (
            f[4], f[6], f[5], f[8], f[9] if f[2] & 1 else None, f[10] if f[2] & 2 else None, f[14],
            f[7], f[11] if f[2] & 4 else None, f[12], f[13],
        ))


_DEVICE_USAGE = Struct("<HHIQQQII")
class DeviceUsage(NamedTuple):
    """Measured device time of a running job so far, all tasks of this attempt together."""

    job: int
    attempt: int
    device_ns: int

    def pack(self) -> bytes:
        return _DEVICE_USAGE.pack(40, USAGE, 0, 0, self.job, self.device_ns, self.attempt, 0)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _DEVICE_USAGE.unpack(raw)
        return tuple.__new__(cls, (f[4], f[6], f[5]))


_PREEMPT = Struct("<HHIQQQIHH")
class Preempt(NamedTuple):
    """Stop a running job to make room, or to move it; once its tasks have ended it waits again."""

    job: int
    attempt: int
    beneficiary: int = 0
    """The job that room is made for."""
    reason: int = 0
    move: bool = False
    """A node of it takes no jobs: it may go if it may run again."""

    def pack(self) -> bytes:
        flags = 1 if self.move else 0
        return _PREEMPT.pack(
            40, PREEMPT, flags, 0, self.job, self.beneficiary, self.attempt, self.reason, 0,
        )

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _PREEMPT.unpack(raw)
        return tuple.__new__(cls, (f[4], f[6], f[5], f[7], bool(f[2] & 1)))


_CANCEL = Struct("<HHIQQH3H")
class Cancel(NamedTuple):
    """Stop a job: at once while pending, else by its nodes."""

    job: int
    reason: int = 0

    def pack(self) -> bytes:
        return _CANCEL.pack(32, CANCEL, 0, 0, self.job, self.reason, 0, 0, 0)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _CANCEL.unpack(raw)
        return tuple.__new__(cls, (f[4], f[5]))


_GIVE_UP = Struct("<HHIQQIHH")
class GiveUp(NamedTuple):
    """End the attempt of a gang whose tasks are not all ready in time. It fails, and nothing of it
    has run. Once all of them are ready it is too late for that."""

    job: int
    attempt: int
    reason: int = 0

    def pack(self) -> bytes:
        return _GIVE_UP.pack(32, GIVE_UP, 0, 0, self.job, self.attempt, self.reason, 0)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _GIVE_UP.unpack(raw)
        return tuple.__new__(cls, (f[4], f[5], f[6]))


_FORGET = Struct("<HHIQQ")
class Forget(NamedTuple):
    """Drop an ended job before retention does."""

    job: int

    def pack(self) -> bytes:
        return _FORGET.pack(24, FORGET, 0, 0, self.job)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _FORGET.unpack(raw)
        return tuple.__new__(cls, (f[4],))


_REFUSED_REQUESTS = Struct("<HHIQQIHH")
class RefusedRequests(NamedTuple):
    """Requests turned away before they reached the core, so that replicas count the same."""

    client: int
    requests: int
    reason: int

    def pack(self) -> bytes:
        return _REFUSED_REQUESTS.pack(32, REFUSED, 0, 0, self.client, self.requests, self.reason, 0)

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        f = _REFUSED_REQUESTS.unpack(raw)
        return tuple.__new__(cls, (f[4], f[5], f[6]))


SIZES: Final[dict[int, int]] = {
    TERM: 24, NODE_UP: 64, NODE_DOWN: 32, DEVICE_SET: 64, DEVICE_TRAITS: 64, NODE_LABEL: 40,
    NODE_RESERVE: 48, QUEUE_SET: 32, QUOTA_SET: 48, SUBMIT: 552, PLACE: 152, PREFER: 152,
    OUTCOME: 80, USAGE: 40, PREEMPT: 40, CANCEL: 32, GIVE_UP: 32, FORGET: 24, REFUSED: 32,
    SUBMIT_ARRAY: 568, RANGE_END: 32,
}
"""Bytes of a command by kind."""

Request = (
    Term | NodeUp | NodeDown | DeviceSet | DeviceTraits | NodeLabel | NodeReserve | QueueSet
    | QuotaSet | Submit | Prefer | TaskOutcome | DeviceUsage | Preempt | Cancel | GiveUp | Forget
    | RefusedRequests | SubmitArray | RangeEnd
)
"""Commands that `propose` takes."""

Command = (
    Term | NodeUp | NodeDown | DeviceSet | DeviceTraits | NodeLabel | NodeReserve | QueueSet
    | QuotaSet | Submit | Prefer | TaskOutcome | DeviceUsage | Preempt | Cancel | GiveUp | Forget
    | RefusedRequests | SubmitArray | RangeEnd | Place
)
"""Commands that the log may hold."""

UNPACK: Final[dict[int, Callable[[bytes], Command]]] = {
    TERM: Term.unpack, NODE_UP: NodeUp.unpack, NODE_DOWN: NodeDown.unpack,
    DEVICE_SET: DeviceSet.unpack, DEVICE_TRAITS: DeviceTraits.unpack, NODE_LABEL: NodeLabel.unpack,
    NODE_RESERVE: NodeReserve.unpack, QUEUE_SET: QueueSet.unpack, QUOTA_SET: QuotaSet.unpack,
    SUBMIT: Submit.unpack, PLACE: Place.unpack, PREFER: Prefer.unpack, OUTCOME: TaskOutcome.unpack,
    USAGE: DeviceUsage.unpack, PREEMPT: Preempt.unpack, CANCEL: Cancel.unpack,
    GIVE_UP: GiveUp.unpack, FORGET: Forget.unpack, REFUSED: RefusedRequests.unpack,
    SUBMIT_ARRAY: SubmitArray.unpack, RANGE_END: RangeEnd.unpack,
}
"""Readers of the bytes of one command, by kind."""
