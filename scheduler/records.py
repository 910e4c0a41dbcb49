# SPDX-License-Identifier: Apache-2.0
"""The core's commands as Python tuples: what a caller asks for and what the log stores.

Mirrors `native/core/wire.h` field by field; sizes are compared with the module's at import, so a
drift stops the program there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from stoker.scheduler.nouns import DeviceShare, JobState
from stoker.scheduler.policies import Kind, Order, Placement
from stoker.scheduler.submit import SUBMIT, SUBMIT_BYTES, Submit, unpack_submit

TERM, NODE_UP, NODE_DOWN, DEVICE_SET = range(1, 5)
PLACE, OUTCOME, CANCEL, FORGET, REFUSED = range(6, 11)
NODE_LABEL, NODE_RESERVE, QUEUE_SET, QUOTA_SET, USAGE, PREEMPT, PREFER = range(11, 18)

STATES: Final[tuple[JobState, ...]] = (
    "pending",
    "starting",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "timeout",
    "lost",
)
"""`STATES[code - 1]` is the state of a code of the core."""

STATE_CODES: Final[dict[str, int]] = {name: code for code, name in enumerate(STATES, 1)}

BATCH_REQUESTS_MAX = 1024
"""Requests of one `propose`."""
BATCH_PLACES_MAX = 256
"""Tasks placed by one `propose`; `Proposal.more` says that there may be others."""
TASKS_MAX = 64
PRIORITY_MIN, PRIORITY_MAX = -128, 127
U64_MAX = (1 << 64) - 1

LABELS_PER_NODE_MAX = 16
NO_LIMIT = U64_MAX
"""A quota's limit where there is none."""

_EVICT, _REMOVE = 1, 2
_CLEAR, _TAINT, _COST = 1, 2, 4
HAS_EXIT_CODE, HAS_SIGNAL, HAS_DEVICE_TIME = 1, 2, 4


_HEADER = Struct("<HHIQ")
_TERM = Struct("<HHIQQ")
_NODE_UP = Struct("<HHIQQQQQQIHH")
_NODE_DOWN = Struct("<HHIQQHHHH")
_DEVICE_SET = Struct("<HHIQQQQQ7HBB")

_PLACE = Struct("<HHIQQQQ4QIHHHHI64s")
_OUTCOME = Struct("<HHIQQQIHHiiQHHHH")
_CANCEL = Struct("<HHIQQHHHH")
_FORGET = Struct("<HHIQQ")
_REFUSED = Struct("<HHIQQIHH")
_NODE_LABEL = Struct("<HHIQQQQ")
_NODE_RESERVE = Struct("<HHIQQQQII")
_QUEUE_SET = Struct("<HHIQIIIHH")
_QUOTA_SET = Struct("<HHIQQQQII")
_USAGE = Struct("<HHIQQQII")
_PREEMPT = Struct("<HHIQQQIHH")

SIZES: Final[dict[int, int]] = {
    TERM: _TERM.size,
    NODE_UP: _NODE_UP.size,
    NODE_DOWN: _NODE_DOWN.size,
    DEVICE_SET: _DEVICE_SET.size,
    SUBMIT: SUBMIT_BYTES,
    PLACE: _PLACE.size,
    OUTCOME: _OUTCOME.size,
    CANCEL: _CANCEL.size,
    FORGET: _FORGET.size,
    REFUSED: _REFUSED.size,
    NODE_LABEL: _NODE_LABEL.size,
    NODE_RESERVE: _NODE_RESERVE.size,
    QUEUE_SET: _QUEUE_SET.size,
    QUOTA_SET: _QUOTA_SET.size,
    USAGE: _USAGE.size,
    PREEMPT: _PREEMPT.size,
    PREFER: _PLACE.size,
}
"""Bytes of a command by kind; `_core.SIZES` must say the same."""

Shares = tuple[DeviceShare, ...]


def unpack_shares(count: int, raw: bytes) -> Shares:
    if not count:
        return ()
    numbers = Struct(f"<{2 * count}H").unpack_from(raw)
    return tuple(map(DeviceShare, numbers[::2], numbers[1::2]))


def _pack_shares(shares: Shares) -> bytes:
    return b"".join(s.index.to_bytes(2, "little") + s.milli.to_bytes(2, "little") for s in shares)


class Term(NamedTuple):
    """A scheduler takes the lead. `term` must be greater than every term before it."""

    term: int
    leader: int

    def pack(self) -> bytes:
        return _TERM.pack(_TERM.size, TERM, 0, self.term, self.leader)


class NodeUp(NamedTuple):
    """A node's agent is there. A new `boot` makes every active job of the node lost."""

    node: int
    """64-bit id, chosen by the caller, not 0."""
    boot: int
    """64-bit hash of the kernel's boot id."""
    incarnation: int
    cpu_milli: int
    memory_bytes: int
    devices: int
    """How many device indexes there are; each is described by a DeviceSet after this."""
    domain: int = 0
    """64-bit hash of a domain of failure or network, e.g. a rack; 0 for none."""

    def pack(self) -> bytes:
        node, boot, incarnation, cpu, memory, devices, domain = self
        return _NODE_UP.pack(
            _NODE_UP.size, NODE_UP, 0, 0, node, boot, incarnation, memory, domain, cpu, devices, 0
        )


class NodeDown(NamedTuple):
    """Place nothing more there; with `evict` its jobs are lost, with `remove` it is dropped."""

    node: int
    evict: bool = False
    remove: bool = False
    reason: int = 0

    def pack(self) -> bytes:
        flags = (_EVICT if self.evict else 0) | (_REMOVE if self.remove else 0)
        return _NODE_DOWN.pack(
            _NODE_DOWN.size, NODE_DOWN, flags, 0, self.node, self.reason, 0, 0, 0
        )


class DeviceSet(NamedTuple):
    """Capacity and availability of one device; indexes are dense from 0."""

    node: int
    device: int
    """Its index in the node's list."""
    capacity_milli: int = 1000
    memory_bytes: int = 0
    available: bool = True
    owner: int = 0
    """Who makes it unavailable, e.g. a foreign pid."""
    reason: int = 0
    model: int = 0
    """64-bit hash of its model's name, 0 for none. A partition's profile is a model."""
    link: int = 0
    """Devices of a node with the same number share a fast link; 0: not known."""
    bus: int = 0
    numa: int = 0
    kind: int = Kind.GPU
    """One of the kinds."""
    vendor: int = 0
    """A number below VENDORS_MAX; 0: not known."""

    def pack(self) -> bytes:
        return _DEVICE_SET.pack(
            _DEVICE_SET.size, DEVICE_SET, 0, 0, self.node, self.memory_bytes, self.owner,
            self.model, self.device, self.capacity_milli, self.available, self.reason, self.link,
            self.bus, self.numa, self.kind, self.vendor,
        )  # fmt: skip


class Place(NamedTuple):
    """A decision for one task; only `propose` makes these."""

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
    """Nodes looked at."""

    def pack(self) -> bytes:
        ids = (*self.observations, 0, 0, 0, 0)[:4]
        return _PLACE.pack(
            _PLACE.size, PLACE, 0, 0, self.job, self.node, self.latency_ns, *ids, self.attempt,
            self.task, self.tasks, self.reason, len(self.shares), self.candidates,
            _pack_shares(self.shares),
        )  # fmt: skip


class Prefer(NamedTuple):
    """A placement from outside for one task of a job whose placement is CUSTOM.

    Tried by `propose` as it is. Those of a gang follow each other, tasks 0 to tasks-1.
    """

    job: int
    attempt: int
    node: int
    shares: Shares = ()
    task: int = 0
    tasks: int = 1
    observations: tuple[int, ...] = ()
    candidates: int = 0

    def pack(self) -> bytes:
        place = Place(
            self.job, self.attempt, self.task, self.tasks, self.node, self.shares, 0, 0,
            self.observations, self.candidates,
        ).pack()  # fmt: skip
        return place[:2] + PREFER.to_bytes(2, "little") + place[4:]


class Outcome(NamedTuple):
    """What a node says became of one task. The same outcome twice is one."""

    job: int
    attempt: int
    node: int
    """The node that says so; another node than the task's is refused."""
    state: int
    """A code of STATE_CODES: running, succeeded, failed, cancelled, timeout or lost."""
    exit_code: int | None = None
    signal: int | None = None
    reason: int = 0
    """Passed through; the caller's own codes start at Reason.OUTER."""
    task: int = 0
    device_ns: int | None = None
    """Measured device time of this task; None: its shares times the wall time."""

    def pack(self) -> bytes:
        job, attempt, node, state, exit_code, signal, reason, task, device_ns = self
        flags = (0 if exit_code is None else HAS_EXIT_CODE) | (0 if signal is None else HAS_SIGNAL)
        flags |= 0 if device_ns is None else HAS_DEVICE_TIME
        return _OUTCOME.pack(
            64, OUTCOME, flags, 0, job, node, attempt, task, state, exit_code or 0, signal or 0,
            device_ns or 0, reason, 0, 0, 0,
        )  # fmt: skip


class Cancel(NamedTuple):
    """Stop a job: at once while pending, else by its nodes."""

    job: int
    reason: int = 0

    def pack(self) -> bytes:
        return _CANCEL.pack(32, CANCEL, 0, 0, self.job, self.reason, 0, 0, 0)


class Forget(NamedTuple):
    """Drop an ended job before retention does."""

    job: int

    def pack(self) -> bytes:
        return _FORGET.pack(24, FORGET, 0, 0, self.job)


class Refused(NamedTuple):
    """Requests turned away before they reached the core; counted, nothing else."""

    client: int
    requests: int
    reason: int

    def pack(self) -> bytes:
        return _REFUSED.pack(32, REFUSED, 0, 0, self.client, self.requests, self.reason, 0)


class NodeLabel(NamedTuple):
    """A node gets a label or taint, another value for it, or loses it."""

    node: int
    label: int
    """64-bit hash of "key=value"."""
    value: int = 0
    taint: bool = False
    """Only jobs that tolerate it are placed there."""
    cost: bool = False
    """`value` is the node's cost, for Placement.COST."""
    clear: bool = False

    def pack(self) -> bytes:
        flags = (_CLEAR if self.clear else 0) | (_TAINT if self.taint else 0)
        flags |= _COST if self.cost else 0
        return _NODE_LABEL.pack(
            _NODE_LABEL.size, NODE_LABEL, flags, 0, self.node, self.label, self.value
        )


class NodeReserve(NamedTuple):
    """From `from_ns` to `until_ns` the node is for `queue` and those below it; until 0 ends it."""

    node: int
    queue: int = 0
    from_ns: int = 0
    until_ns: int = 0

    def pack(self) -> bytes:
        return _NODE_RESERVE.pack(
            _NODE_RESERVE.size, NODE_RESERVE, 0, 0, self.node, self.from_ns, self.until_ns,
            self.queue, 0,
        )  # fmt: skip


class QueueSet(NamedTuple):
    """Create or change a queue, or remove it. Parent 0 is the root, queue 0 the default queue."""

    queue: int
    parent: int = 0
    weight: int = 1
    order: int = Order.FIFO
    placement: int = Placement.QUEUE
    remove: bool = False

    def pack(self) -> bytes:
        queue, parent, weight, order, placement, remove = self
        return _QUEUE_SET.pack(
            _QUEUE_SET.size, QUEUE_SET, 1 if remove else 0, 0, queue, parent, weight, order,
            placement,
        )  # fmt: skip


class QuotaSet(NamedTuple):
    """What a queue and those below it may hold; 0 and NO_LIMIT drop the quota."""

    queue: int
    model: int = 0
    """Hash of a device model; 0: all devices."""
    guaranteed_milli: int = 0
    limit_milli: int = NO_LIMIT

    def pack(self) -> bytes:
        queue, model, guaranteed, limit = self
        return _QUOTA_SET.pack(_QUOTA_SET.size, QUOTA_SET, 0, 0, model, guaranteed, limit, queue, 0)


class Usage(NamedTuple):
    """Measured device time of a running job's attempt so far, all its tasks together."""

    job: int
    attempt: int
    device_ns: int

    def pack(self) -> bytes:
        return _USAGE.pack(_USAGE.size, USAGE, 0, 0, self.job, self.device_ns, self.attempt, 0)


class Preempt(NamedTuple):
    """Stop a running job to make room; it waits again when its tasks have ended."""

    job: int
    attempt: int
    beneficiary: int = 0
    reason: int = 0

    def pack(self) -> bytes:
        job, attempt, beneficiary, reason = self
        return _PREEMPT.pack(_PREEMPT.size, PREEMPT, 0, 0, job, beneficiary, attempt, reason, 0)


Request = (
    Term | NodeUp | NodeDown | DeviceSet | Submit | Outcome | Cancel | Forget | Refused
    | NodeLabel | NodeReserve | QueueSet | QuotaSet | Usage | Preempt | Prefer
)  # fmt: skip
Command = Request | Place


def unpack_command(kind: int, raw: bytes) -> Command:
    """One stored record as its tuple; `raw` is exactly that record."""
    return _UNPACK[kind](raw)


def unpack_commands(commands: bytes) -> Iterator[Command]:
    """The tuples of a batch in order; raises ValueError where it is not one."""
    at = 0
    while at < len(commands):
        if len(commands) - at < _HEADER.size:
            raise ValueError(f"a record header is cut at byte {at}")
        size, kind, _, _ = _HEADER.unpack_from(commands, at)
        if SIZES.get(kind) != size or at + size > len(commands):
            raise ValueError(f"no record of kind {kind} and size {size} at byte {at}")
        yield unpack_command(kind, commands[at : at + size])
        at += size


def unpack_places(commands: bytes) -> Iterator[Place]:
    """The decisions in a batch that `propose` made, without what stands between them."""
    at = 0
    while at < len(commands):
        size = commands[at] | commands[at + 1] << 8
        if commands[at + 2] == PLACE:
            yield _unpack_place(commands[at : at + size])
        at += size


def _unpack_term(raw: bytes) -> Term:
    return Term(*_TERM.unpack(raw)[3:])


def _unpack_node_up(raw: bytes) -> NodeUp:
    node, boot, incarnation, memory, domain, cpu, devices, _ = _NODE_UP.unpack(raw)[4:]
    return NodeUp(node, boot, incarnation, cpu, memory, devices, domain)


def _unpack_node_down(raw: bytes) -> NodeDown:
    _, _, flags, _, node, reason, *_ = _NODE_DOWN.unpack(raw)
    return NodeDown(node, bool(flags & _EVICT), bool(flags & _REMOVE), reason)


def _unpack_device_set(raw: bytes) -> DeviceSet:
    f = _DEVICE_SET.unpack(raw)[4:]
    node, memory, owner, model, index, capacity, available, *rest = f
    reason, link, bus, numa, kind, vendor = rest
    return DeviceSet(
        node, index, capacity, memory, bool(available), owner, reason, model, link, bus, numa,
        kind, vendor,
    )  # fmt: skip


def _unpack_place(raw: bytes) -> Place:
    f = _PLACE.unpack(raw)
    observations = tuple(filter(None, f[7:11]))
    shares = unpack_shares(f[15], f[17])
    return Place(f[4], f[11], f[12], f[13], f[5], shares, f[14], f[6], observations, f[16])


def _unpack_outcome(raw: bytes) -> Outcome:
    f = _OUTCOME.unpack(raw)
    _, _, flags, _, job, node, attempt, task, state, code, signal, device_ns, reason, *_ = f
    return Outcome(
        job,
        attempt,
        node,
        state,
        code if flags & HAS_EXIT_CODE else None,
        signal if flags & HAS_SIGNAL else None,
        reason,
        task,
        device_ns if flags & HAS_DEVICE_TIME else None,
    )


def _unpack_cancel(raw: bytes) -> Cancel:
    return Cancel(*_CANCEL.unpack(raw)[4:6])


def _unpack_forget(raw: bytes) -> Forget:
    return Forget(_FORGET.unpack(raw)[4])


def _unpack_refused(raw: bytes) -> Refused:
    return Refused(*_REFUSED.unpack(raw)[4:7])


def _unpack_prefer(raw: bytes) -> Prefer:
    p = _unpack_place(raw)
    return Prefer(p.job, p.attempt, p.node, p.shares, p.task, p.tasks, p.observations, p.candidates)


def _unpack_node_label(raw: bytes) -> NodeLabel:
    _, _, flags, _, node, label, value = _NODE_LABEL.unpack(raw)
    taint, cost, clear = bool(flags & _TAINT), bool(flags & _COST), bool(flags & _CLEAR)
    return NodeLabel(node, label, value, taint, cost, clear)


def _unpack_node_reserve(raw: bytes) -> NodeReserve:
    node, from_ns, until_ns, queue, _ = _NODE_RESERVE.unpack(raw)[4:]
    return NodeReserve(node, queue, from_ns, until_ns)


def _unpack_queue_set(raw: bytes) -> QueueSet:
    _, _, flags, _, queue, parent, weight, order, placement = _QUEUE_SET.unpack(raw)
    return QueueSet(queue, parent, weight, order, placement, bool(flags))


def _unpack_quota_set(raw: bytes) -> QuotaSet:
    model, guaranteed, limit, queue, _ = _QUOTA_SET.unpack(raw)[4:]
    return QuotaSet(queue, model, guaranteed, limit)


def _unpack_usage(raw: bytes) -> Usage:
    job, device_ns, attempt, _ = _USAGE.unpack(raw)[4:]
    return Usage(job, attempt, device_ns)


def _unpack_preempt(raw: bytes) -> Preempt:
    job, beneficiary, attempt, reason, _ = _PREEMPT.unpack(raw)[4:]
    return Preempt(job, attempt, beneficiary, reason)


_UNPACK: Final[dict[int, Callable[[bytes], Command]]] = {
    TERM: _unpack_term,
    NODE_UP: _unpack_node_up,
    NODE_DOWN: _unpack_node_down,
    DEVICE_SET: _unpack_device_set,
    SUBMIT: unpack_submit,
    PLACE: _unpack_place,
    OUTCOME: _unpack_outcome,
    CANCEL: _unpack_cancel,
    FORGET: _unpack_forget,
    REFUSED: _unpack_refused,
    NODE_LABEL: _unpack_node_label,
    NODE_RESERVE: _unpack_node_reserve,
    QUEUE_SET: _unpack_queue_set,
    QUOTA_SET: _unpack_quota_set,
    USAGE: _unpack_usage,
    PREEMPT: _unpack_preempt,
    PREFER: _unpack_prefer,
}
