# SPDX-License-Identifier: Apache-2.0
"""The plain nouns of the oracle, and the few facts that it shares with the core's records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.scheduler import records as rec
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.reasons import Reason as R

M64 = (1 << 64) - 1
STATE = rec.STATE_CODES
FINAL = {STATE[s] for s in ("succeeded", "failed", "cancelled", "timeout", "lost")}
PENDING, STARTING, RUNNING, STOPPING = (
    STATE[s] for s in ("pending", "starting", "running", "stopping")
)
CANCELLED, LOST, SUCCEEDED = STATE["cancelled"], STATE["lost"], STATE["succeeded"]


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


@dataclass
class Task:
    job: int
    number: int
    node: int
    shares: tuple[DeviceShare, ...]
    state: int = STARTING


@dataclass
class Node:
    id: int
    slot: int
    boot: int
    boot_before: int = 0
    incarnation: int = 0
    cpu: int = 0
    memory: int = 0
    up: bool = False
    reason: int = 0
    devices: list[Device] = field(default_factory=list)
    observation: int = 0
    load: int = 0


@dataclass
class Job:
    id: int
    ask: rec.Submit
    state: int = PENDING
    reason: int = R.SUBMITTED
    attempt: int = 0
    verdict: int = 0
    exit_code: int | None = None
    signal: int | None = None
    node: int = 0


class No(Exception):
    """A command that changes nothing."""

    def __init__(self, reason: int, asked: int = 0, have: int = 0, job: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.asked, self.have, self.job = reason, asked, have, job


KINDS = {
    rec.Term: rec.TERM,
    rec.NodeUp: rec.NODE_UP,
    rec.NodeDown: rec.NODE_DOWN,
    rec.DeviceSet: rec.DEVICE_SET,
    rec.Submit: rec.SUBMIT,
    rec.Place: rec.PLACE,
    rec.Outcome: rec.OUTCOME,
    rec.Cancel: rec.CANCEL,
    rec.Forget: rec.FORGET,
    rec.Refused: rec.REFUSED,
}


def gangs(commands: Iterable[rec.Command]) -> Iterable[rec.Command | list[rec.Place]]:
    """The commands with each gang's places together."""
    group: list[rec.Place] = []
    for command in commands:
        if not isinstance(command, rec.Place):
            yield command
            continue
        group.append(command)
        if len(group) == command.tasks:
            yield group
            group = []
