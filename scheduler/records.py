# SPDX-License-Identifier: Apache-2.0
"""The core's commands as Python tuples: what a caller asks for and what the log stores.

Relied on by mesh (requests, log) and by `scheduler.core`. Mirrors `native/core/wire.h` field by
field; sizes are compared with the module's at import, so a drift stops the program there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from stoker.scheduler.nouns import DeviceShare, JobState

TERM, NODE_UP, NODE_DOWN, DEVICE_SET, SUBMIT, PLACE, OUTCOME, CANCEL, FORGET, REFUSED = range(1, 11)

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

_EVICT, _REMOVE = 1, 2
HAS_EXIT_CODE, HAS_SIGNAL = 1, 2

_HEADER = Struct("<HHIQ")
_TERM = Struct("<HHIQQ")
_NODE_UP = Struct("<HHIQQQQQIHH")
_NODE_DOWN = Struct("<HHIQQHHHH")
_DEVICE_SET = Struct("<HHIQQQQHHHH")
_SUBMIT = Struct("<HHIQQ16sQQIIIIhHI")
_PLACE = Struct("<HHIQQQQ4QIHHHHI64s")
_OUTCOME = Struct("<HHIQQQIHHiiHHHH")
_CANCEL = Struct("<HHIQQHHHH")
_FORGET = Struct("<HHIQQ")
_REFUSED = Struct("<HHIQQIHH")

SIZES: Final[dict[int, int]] = {
    TERM: _TERM.size,
    NODE_UP: _NODE_UP.size,
    NODE_DOWN: _NODE_DOWN.size,
    DEVICE_SET: _DEVICE_SET.size,
    SUBMIT: _SUBMIT.size,
    PLACE: _PLACE.size,
    OUTCOME: _OUTCOME.size,
    CANCEL: _CANCEL.size,
    FORGET: _FORGET.size,
    REFUSED: _REFUSED.size,
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

    def pack(self) -> bytes:
        node, boot, incarnation, cpu, memory, devices = self
        return _NODE_UP.pack(
            _NODE_UP.size, NODE_UP, 0, 0, node, boot, incarnation, memory, cpu, devices, 0
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

    def pack(self) -> bytes:
        node, index, capacity, memory, available, owner, reason = self
        return _DEVICE_SET.pack(
            _DEVICE_SET.size, DEVICE_SET, 0, 0, node, memory, owner, index, capacity, available,
            reason,
        )  # fmt: skip


class Submit(NamedTuple):
    """A job asks in. CPU and memory are reserved where not 0; devices are per task."""

    client: int
    """64-bit id of who submits; keys are per client."""
    key: bytes = b""
    """Idempotency key, up to 16 bytes; empty for none."""
    spec_hash: int = 0
    """The same key with another hash is refused."""
    uid: int = 0
    tenant: int = 0
    priority: int = 0
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    tasks: int = 1

    def pack(self) -> bytes:
        client, key, spec, uid, tenant, priority, gpu, cpu, memory, tasks = self
        return _SUBMIT.pack(
            80, SUBMIT, 0, 0, client, key, spec, memory, uid, tenant, gpu, cpu, priority, tasks, 0
        )


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

    def pack(self) -> bytes:
        job, attempt, node, state, exit_code, signal, reason, task = self
        flags = (0 if exit_code is None else HAS_EXIT_CODE) | (0 if signal is None else HAS_SIGNAL)
        return _OUTCOME.pack(
            56, OUTCOME, flags, 0, job, node, attempt, task, state, exit_code or 0, signal or 0,
            reason, 0, 0, 0,
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


Request = Term | NodeUp | NodeDown | DeviceSet | Submit | Outcome | Cancel | Forget | Refused
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


def _unpack_term(raw: bytes) -> Term:
    return Term(*_TERM.unpack(raw)[3:])


def _unpack_node_up(raw: bytes) -> NodeUp:
    node, boot, incarnation, memory, cpu, devices, _ = _NODE_UP.unpack(raw)[4:]
    return NodeUp(node, boot, incarnation, cpu, memory, devices)


def _unpack_node_down(raw: bytes) -> NodeDown:
    _, _, flags, _, node, reason, *_ = _NODE_DOWN.unpack(raw)
    return NodeDown(node, bool(flags & _EVICT), bool(flags & _REMOVE), reason)


def _unpack_device_set(raw: bytes) -> DeviceSet:
    node, memory, owner, index, capacity, available, reason = _DEVICE_SET.unpack(raw)[4:]
    return DeviceSet(node, index, capacity, memory, bool(available), owner, reason)


def _unpack_submit(raw: bytes) -> Submit:
    client, key, spec, memory, uid, tenant, gpu, cpu, priority, tasks, _ = _SUBMIT.unpack(raw)[4:]
    key = b"" if not any(key) else key
    return Submit(client, key, spec, uid, tenant, priority, gpu, cpu, memory, tasks)


def _unpack_place(raw: bytes) -> Place:
    f = _PLACE.unpack(raw)
    observations = tuple(filter(None, f[7:11]))
    shares = unpack_shares(f[15], f[17])
    return Place(f[4], f[11], f[12], f[13], f[5], shares, f[14], f[6], observations, f[16])


def _unpack_outcome(raw: bytes) -> Outcome:
    _, _, flags, _, job, node, attempt, task, state, code, signal, reason, *_ = _OUTCOME.unpack(raw)
    return Outcome(
        job,
        attempt,
        node,
        state,
        code if flags & HAS_EXIT_CODE else None,
        signal if flags & HAS_SIGNAL else None,
        reason,
        task,
    )


def _unpack_cancel(raw: bytes) -> Cancel:
    return Cancel(*_CANCEL.unpack(raw)[4:6])


def _unpack_forget(raw: bytes) -> Forget:
    return Forget(_FORGET.unpack(raw)[4])


def _unpack_refused(raw: bytes) -> Refused:
    return Refused(*_REFUSED.unpack(raw)[4:7])


_UNPACK: Final[dict[int, Callable[[bytes], Command]]] = {
    TERM: _unpack_term,
    NODE_UP: _unpack_node_up,
    NODE_DOWN: _unpack_node_down,
    DEVICE_SET: _unpack_device_set,
    SUBMIT: _unpack_submit,
    PLACE: _unpack_place,
    OUTCOME: _unpack_outcome,
    CANCEL: _unpack_cancel,
    FORGET: _unpack_forget,
    REFUSED: _unpack_refused,
}
