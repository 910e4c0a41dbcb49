# SPDX-License-Identifier: Apache-2.0
"""The core's reason codes and the one table that turns each into a sentence a person reads.

Relied on by mesh (error replies, decisions) and tui (explain). Mirrors `native/core/reason.h`;
codes are stored in the log, so they are only ever added. Codes from OUTER on are the caller's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Reason(IntEnum):
    """Why something was refused, is as it is, was placed there, or waits."""

    NONE = 0
    STALE_TERM = 1
    UNKNOWN_NODE = 2
    UNKNOWN_JOB = 3
    NODES_FULL = 4
    DEVICES_FULL = 5
    JOBS_FULL = 6
    TASKS_FULL = 7
    BATCH_FULL = 8
    NODE_NOT_UP = 9
    STALE_INCARNATION = 10
    UNCHANGED = 11
    NODE_BUSY = 12
    BAD_DEVICE_INDEX = 13
    CAPACITY_IN_USE = 14
    DUPLICATE = 15
    KEY_REUSED = 16
    BAD_PRIORITY = 17
    BAD_GPU_MILLI = 18
    BAD_TASKS = 19
    TOO_MANY_DEVICES = 20
    NO_NODE_HAS_DEVICES = 21
    NO_NODE_HAS_CPU = 22
    NO_NODE_HAS_MEMORY = 23
    NO_NODE_FITS = 24
    GANG_TOO_LARGE = 25
    NOT_PENDING = 26
    WRONG_ATTEMPT = 27
    STALE_ATTEMPT = 28
    ALREADY_ENDED = 29
    ALREADY_STOPPING = 30
    DUPLICATE_OUTCOME = 31
    NOT_OWNER = 32
    DEVICE_UNAVAILABLE = 33
    DEVICE_FULL = 34
    CPU_FULL = 35
    MEMORY_FULL = 36
    NODE_FULL = 37
    BAD_SHARES = 38
    NOT_ENDED = 39
    BAD_CAPACITY = 40
    NO_DEVICE_HAS_SHARE = 41

    SUBMITTED = 100
    PLACED = 101
    NODE_REBOOTED = 102
    NODE_EVICTED = 103
    CANCEL_REQUESTED = 104
    RETENTION = 105
    FORGET_REQUESTED = 106
    PEER_ENDED = 107
    REPORTED = 108
    DEVICE_GONE = 109

    PACKED_SHARE = 200
    OPENED_DEVICE = 201
    FREE_DEVICES = 202
    LEAST_BUSY = 203

    NO_NODES = 300
    NODES_DOWN = 301
    BEHIND = 302
    DEVICES_UNAVAILABLE = 303
    NEEDS_DEVICES = 304
    NEEDS_SHARE = 305
    NEEDS_CPU = 306
    NEEDS_MEMORY = 307
    NODE_JOBS_FULL = 308
    HOLDS = 309
    READY = 310
    PLACED_ON = 311
    WAITED = 312
    OBSERVED = 313
    GANG_SHORT = 314
    ENDED = 315
    DECIDED_IN = 316

    OUTER = 1000


BENIGN: Final = frozenset(
    {
        Reason.UNKNOWN_JOB,
        Reason.STALE_INCARNATION,
        Reason.UNCHANGED,
        Reason.DUPLICATE,
        Reason.STALE_ATTEMPT,
        Reason.ALREADY_ENDED,
        Reason.ALREADY_STOPPING,
        Reason.DUPLICATE_OUTCOME,
    }
)
"""Rejections of a repeated report (node up, device, outcome): to be acknowledged, not retried."""

RETRY: Final = frozenset({Reason.BATCH_FULL})
"""Rejections that say only that this batch is full: put the request into the next one."""

_SENTENCES: Final[dict[int, str]] = {
    Reason.NONE: "no reason was given",
    Reason.STALE_TERM: "term {asked} is not newer than term {have}",
    Reason.UNKNOWN_NODE: "there is no such node",
    Reason.UNKNOWN_JOB: "there is no job {job}",
    Reason.NODES_FULL: "the scheduler holds its limit of {have} nodes",
    Reason.DEVICES_FULL: "the scheduler holds its limit of {have} devices",
    Reason.JOBS_FULL: "{have} jobs are waiting or running, which is the limit",
    Reason.TASKS_FULL: "{have} tasks are placed, which is the limit",
    Reason.BATCH_FULL: "this batch is full, the request belongs in the next one",
    Reason.NODE_NOT_UP: "node {node} is not up",
    Reason.STALE_INCARNATION: "a newer start of this node's agent is known",
    Reason.UNCHANGED: "this is known already",
    Reason.NODE_BUSY: "the node is up or still holds {have} tasks",
    Reason.BAD_DEVICE_INDEX: "device index {asked} is outside the node's {have} devices",
    Reason.CAPACITY_IN_USE: "a capacity of {asked} milli is below the {have} milli in use",
    Reason.DUPLICATE: "this key was used for job {job} already",
    Reason.KEY_REUSED: "this key was used for job {job}, which asked for something else",
    Reason.BAD_PRIORITY: "a priority is between -128 and 127",
    Reason.BAD_GPU_MILLI: "{asked} milli is neither a part of one device nor whole devices",
    Reason.BAD_TASKS: "{asked} tasks were asked for; a job has 1 to {have}",
    Reason.TOO_MANY_DEVICES: "asks for {asked} devices, a task may have {have}",
    Reason.NO_NODE_HAS_DEVICES: "asks for {asked} {devices}, the largest node has {have}",
    Reason.NO_NODE_HAS_CPU: "asks for {asked} milli-CPU, the largest node has {have}",
    Reason.NO_NODE_HAS_MEMORY: "asks for {asked} bytes of memory, the largest node has {have}",
    Reason.NO_NODE_FITS: "no node has devices, CPU and memory together for this request",
    Reason.GANG_TOO_LARGE: "asks for {asked} tasks at once, all nodes together hold {have}",
    Reason.NOT_PENDING: "job {job} is not waiting",
    Reason.WRONG_ATTEMPT: "attempt {asked} does not follow attempt {have}",
    Reason.STALE_ATTEMPT: "attempt {asked} is not attempt {have}, which is the current one",
    Reason.ALREADY_ENDED: "job {job} has ended",
    Reason.ALREADY_STOPPING: "job {job} is being stopped",
    Reason.DUPLICATE_OUTCOME: "this outcome is known already",
    Reason.NOT_OWNER: "this node does not run that task",
    Reason.DEVICE_UNAVAILABLE: "device {asked} of the node is not available",
    Reason.DEVICE_FULL: "the device has {have} milli free, {asked} were to be given",
    Reason.CPU_FULL: "the node has {have} milli-CPU free, {asked} were to be given",
    Reason.MEMORY_FULL: "the node has {have} bytes free, {asked} were to be given",
    Reason.NODE_FULL: "the node holds {have} tasks, which is the limit",
    Reason.BAD_SHARES: "the shares are not what the job asked for",
    Reason.NOT_ENDED: "job {job} has not ended",
    Reason.BAD_CAPACITY: "a device has 0 to 1000 milli, not {asked}",
    Reason.NO_DEVICE_HAS_SHARE: "asks for {asked} milli of one device, the largest has {have}",
    Reason.SUBMITTED: "accepted",
    Reason.PLACED: "placed",
    Reason.NODE_REBOOTED: "node rebooted",
    Reason.NODE_EVICTED: "node evicted",
    Reason.CANCEL_REQUESTED: "cancelled on request",
    Reason.RETENTION: "retention has passed",
    Reason.FORGET_REQUESTED: "forgotten on request",
    Reason.PEER_ENDED: "another task of this job ended",
    Reason.REPORTED: "reported by the node",
    Reason.DEVICE_GONE: "the node no longer reports this device",
    Reason.PACKED_SHARE: "the most used device that still had {asked} milli free",
    Reason.OPENED_DEVICE: "no partly used device had {asked} milli free, so a free one was opened",
    Reason.FREE_DEVICES: "the fewest free devices that suffice; nodes looked at: {count}",
    Reason.LEAST_BUSY: "the fewest tasks; nodes looked at: {count}",
    Reason.NO_NODES: "no node has joined",
    Reason.NODES_DOWN: "nodes that are down: {count} of {have}",
    Reason.BEHIND: "{count} ahead in the queue, the first is j{job}",
    Reason.DEVICES_UNAVAILABLE: "unavailable devices: {count}, the first on node {node}",
    Reason.NEEDS_DEVICES: "needs {asked} free {devices}, node {node} has {have} free",
    Reason.NEEDS_SHARE: "needs {asked} milli of one device, the freest on node {node} has {have}",
    Reason.NEEDS_CPU: "needs {asked} milli-CPU, node {node} has {have} free",
    Reason.NEEDS_MEMORY: "needs {asked} bytes of memory, node {node} has {have} free",
    Reason.NODE_JOBS_FULL: "node {node} holds {have} tasks, which is its limit",
    Reason.HOLDS: "j{job} holds {have} milli on node {node}",
    Reason.READY: "it is next and fits on node {node}",
    Reason.PLACED_ON: "placed on node {node}; nodes looked at: {count}",
    Reason.WAITED: "waited {have} ns before it was placed",
    Reason.OBSERVED: "observation {have} was at hand",
    Reason.GANG_SHORT: "needs {asked} places at once, there are {have}",
    Reason.ENDED: "it has ended",
    Reason.DECIDED_IN: "decided in {have} ns",
}


def reason_of(code: int) -> Reason | int:
    """The named reason, or the plain number for a code of the outer layers."""
    try:
        return Reason(code)
    except ValueError:
        return code


def sentence(
    code: int,
    *,
    asked: int = 0,
    have: int = 0,
    job: int = 0,
    node: str = "",
    count: int = 0,
) -> str:
    """The reason with its figures, without a full stop; a foreign code is given by number."""
    text = _SENTENCES.get(code)
    if text is None:
        return f"reason {code}"
    devices = "device" if asked == 1 else "devices"
    return text.format(asked=asked, have=have, job=job, node=node, count=count, devices=devices)
