# SPDX-License-Identifier: Apache-2.0
"""The plain nouns of the oracle, and the few facts that it shares with the core's records."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field

from stoker.scheduler import records as rec
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.reasons import Reason as R
from stoker.scheduler.wire_names import Property
from tests.scheduler.oracle_conditions import NO_TRAITS, TRAITS

M64 = (1 << 64) - 1
SECOND = 1_000_000_000
STATE = rec.STATE_CODES
FINAL = {STATE[s] for s in ("succeeded", "failed", "cancelled", "timeout", "lost")}
PENDING, STARTING, RUNNING, STOPPING = (
    STATE[s] for s in ("pending", "starting", "running", "stopping")
)
CANCELLED, LOST, SUCCEEDED = STATE["cancelled"], STATE["lost"], STATE["succeeded"]
FAILED, TIMEOUT = STATE["failed"], STATE["timeout"]
FREE, HOLD_TIME, HOLD_AFTER, DOOMED = range(4)
ROOT = -1
"""The oracle's id of the root queue, which has none for others."""


def mix(value: int) -> int:
    """The finalizer of splitmix64."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & M64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & M64
    return value ^ (value >> 31)


@dataclass
class Device:
    capacity: int = 0
    memory: int = 0
    available: bool = False
    owner: int = 0
    reason: int = 0
    model: int = 0
    link: int = 0
    bus: int = 0
    numa: int = 0
    kind: int = 1
    vendor: int = 0
    traits: tuple[int, ...] = NO_TRAITS
    """Compute capability, architecture, profile, driver, GB/s of its link, CPUs beside it."""

    @property
    def values(self) -> dict[Property, int]:
        pairs = zip(TRAITS, self.traits, strict=False)
        partition = 2 if self.traits[2] else 1
        own = {Property.VENDOR: self.vendor, Property.MODEL: self.model}
        return {**own, Property.MEMORY: self.memory, **dict(pairs), Property.PARTITION: partition}

    @property
    def family(self) -> tuple[int, int]:
        return self.kind, self.vendor


@dataclass
class Task:
    job: int
    number: int
    node: int
    shares: tuple[DeviceShare, ...]
    state: int = STARTING
    ready: bool = False

    @property
    def milli(self) -> int:
        return sum(share.milli for share in self.shares)


@dataclass
class Node:
    id: int
    slot: int
    boot: int
    boot_before: int = 0
    incarnation: int = 0
    cpu: int = 0
    memory: int = 0
    domain: int = 0
    up: bool = False
    reason: int = 0
    devices: list[Device] = field(default_factory=list)
    labels: dict[int, tuple[int, bool, bool]] = field(default_factory=dict)
    """label -> (value, is it a taint, is it the cost)."""
    reserved: tuple[int, int, int] = (0, 0, 0)
    """from, until, queue."""
    observation: int = 0
    load: int = 0

    def label_of(self, key: int) -> int:
        """The label by which it belongs to a domain of the level; 0: it has none."""
        plain = (label for label, rest in self.labels.items() if rest == (key, False, False))
        return min(plain, default=0)

    def domain_of(self, keys: list[int]) -> tuple[int, ...] | None:
        """Its domain for several levels, or None."""
        labels = tuple(map(self.label_of, keys))
        return labels if all(labels) else None

    def clone(self) -> Node:
        other = copy(self)
        other.devices = [copy(device) for device in self.devices]
        other.labels = dict(self.labels)
        return other


@dataclass
class Job:
    id: int
    request: rec.Submit
    submit_ns: int = 0
    state: int = PENDING
    reason: int = R.SUBMITTED
    attempt: int = 0
    verdict: int = 0
    last: bool = False
    """Cancelled while it held tasks: it does not come back."""
    exit_code: int | None = None
    signal: int | None = None
    node: int = 0
    hold: int = FREE
    unmet: int = 0
    """The job that it follows, from 1, which ended otherwise than wanted."""
    met: frozenset[int] = frozenset()
    """The ranges that it follows which have ended as it wants them."""
    not_before: int = 0
    place_ns: int = 0
    place_reason: int = 0
    end_ns: int = 0
    spent: int = 0
    charged: int = 0
    attained: int = 0
    retried: int = 0
    preemptions: int = 0
    unlaunched: int = 0
    """Launches in a row that failed."""
    ready: frozenset[int] = frozenset()
    """Tasks of a gang that were ready in this attempt."""

    @property
    def failures(self) -> int:
        return self.retried - self.preemptions

    def wants(self, option: int) -> bool:
        return bool(self.request.options & option)


@dataclass
class Queue:
    id: int
    slot: int
    parent: int | None
    weight: int = 1
    order: int = 1
    placement: int = 0
    quotas: dict[int, tuple[int, int]] = field(default_factory=dict)
    """model -> (guaranteed, limit)."""
    usage: int = 0
    usage_at: int = 0

    def clone(self) -> Queue:
        other = copy(self)
        other.quotas = dict(self.quotas)
        return other


class No(Exception):
    """A command that changes nothing. `job` None: the one that the command is about."""

    def __init__(self, reason: int, asked: int = 0, have: int = 0, job: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.asked, self.have, self.job = reason, asked, have, job


KINDS = {
    rec.Term: rec.TERM,
    rec.NodeUp: rec.NODE_UP,
    rec.NodeDown: rec.NODE_DOWN,
    rec.DeviceSet: rec.DEVICE_SET,
    rec.DeviceTraits: rec.DEVICE_TRAITS,
    rec.Submit: rec.SUBMIT,
    rec.Place: rec.PLACE,
    rec.TaskOutcome: rec.OUTCOME,
    rec.Cancel: rec.CANCEL,
    rec.Forget: rec.FORGET,
    rec.RefusedRequests: rec.REFUSED,
    rec.NodeLabel: rec.NODE_LABEL,
    rec.NodeReserve: rec.NODE_RESERVE,
    rec.QueueSet: rec.QUEUE_SET,
    rec.QuotaSet: rec.QUOTA_SET,
    rec.DeviceUsage: rec.USAGE,
    rec.Preempt: rec.PREEMPT,
    rec.Prefer: rec.PREFER,
    rec.GiveUp: rec.GIVE_UP,
    rec.SubmitArray: rec.SUBMIT_ARRAY,
    rec.RangeEnd: rec.RANGE_END,
}


def each_of(array: rec.SubmitArray) -> rec.Submit:
    """The request of each job that a command of an array makes."""
    return rec.Submit(*array[: len(rec.Submit._fields)])


def is_range(after: int) -> bool:
    """True for a range of jobs among those that a job follows."""
    return after >= 1 << 63


Unit = rec.Command | list[rec.Place] | list[rec.Prefer]


def gangs(commands: Iterable[rec.Command]) -> Iterable[Unit]:
    """The commands with the places, or the preferences, of each gang together."""
    group: list[rec.Command] = []
    for command in commands:
        if not isinstance(command, rec.Place | rec.Prefer):
            yield command
            continue
        group.append(command)
        if len(group) == command.tasks:
            yield group
            group = []
