# SPDX-License-Identifier: Apache-2.0
"""The one table that turns each reason code of the core into a sentence.

`make generate` writes the codes to `scheduler/reason_codes.py`. Invariant: every code below OUTER
has a sentence.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stoker.scheduler.figures import Figure
from stoker.scheduler.reason_codes import Reason
from stoker.scheduler.wire_names import PRIORITY_MAX, PRIORITY_MIN

__all__ = ["BENIGN", "RETRY", "Reason", "reason_of", "sentence"]

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
        Reason.STALE_USAGE,
    }
)
"""Rejections of a repeated report (node up, device, outcome), which is acknowledged, not retried.
"""

SENTENCES_KEPT: Final = 4096
"""The sentences that are kept, since each replica says the same few of each job."""

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
    Reason.BAD_PRIORITY: f"a priority is between {PRIORITY_MIN} and {PRIORITY_MAX}",
    Reason.BAD_GPU_MILLI: "{asked} milli is neither a part of one device nor whole devices",
    Reason.BAD_TASKS: "{asked} tasks were asked for; a job has 1 to {have}",
    Reason.TOO_MANY_DEVICES: "asks for {asked} devices, a task may have {have}",
    Reason.NO_NODE_HAS_DEVICES: "asks for {asked} {devices}, the largest node has {have}",
    Reason.NO_NODE_HAS_CPU: "asks for {asked:cpus}, the largest node has {have:cpus}",
    Reason.NO_NODE_HAS_MEMORY: (
        "asks for {asked:bytes} of memory, the largest node has {have:bytes}"
    ),
    Reason.NO_NODE_FITS: "no node has devices, CPU and memory together for this request",
    Reason.GANG_TOO_LARGE: "asks for {asked} tasks at once, the nodes can hold {have}",
    Reason.GANG_NODE_SHORT: (
        "asks for {asked} tasks on each of its nodes, the largest node has room for {have}"
    ),
    Reason.LEVEL_SPLIT: "the node is not in one domain with the other tasks of the gang",
    Reason.LEVEL_SHORT: ("asks for {asked} tasks within one {job}, the largest can hold {have}"),
    Reason.ALREADY_RELEASED: "all {asked} tasks of job {job} were ready, or it waits for none",
    Reason.NOT_PENDING: "job {job} is not waiting",
    Reason.WRONG_ATTEMPT: "attempt {asked} does not follow attempt {have}",
    Reason.STALE_ATTEMPT: "attempt {asked} is not attempt {have}, which is the current one",
    Reason.ALREADY_ENDED: "job {job} has ended",
    Reason.ALREADY_STOPPING: "job {job} is being stopped",
    Reason.DUPLICATE_OUTCOME: "this outcome is known already",
    Reason.NOT_OWNER: "this node does not run that task",
    Reason.DEVICE_UNAVAILABLE: "device {asked} of the node is not available",
    Reason.DEVICE_FULL: "{have:devices} is free, {asked:devices} was to be given",
    Reason.CPU_FULL: "the node has {have:cpus} free, {asked:cpus} were to be given",
    Reason.MEMORY_FULL: "the node has {have:bytes} free, {asked:bytes} were to be given",
    Reason.NODE_FULL: "the node holds {have} tasks, which is the limit",
    Reason.BAD_SHARES: "the shares are not what the job asked for",
    Reason.NOT_ENDED: "job {job} has not ended",
    Reason.BAD_CAPACITY: "a device has 0 to 1000 milli, not {asked}",
    Reason.NO_DEVICE_HAS_SHARE: "asks for {asked:devices}, the largest is {have:devices}",
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
    Reason.PACKED_SHARE: "the most used device that had room for {asked:devices}",
    Reason.OPENED_DEVICE: (
        "no partly used device had room for {asked:devices}, so it is on one that was free"
    ),
    Reason.FREE_DEVICES: "the fewest free devices that suffice; nodes looked at: {count}",
    Reason.LEAST_BUSY: "the fewest tasks; nodes looked at: {count}",
    Reason.NO_NODES: "no node has joined",
    Reason.NODES_DOWN: "nodes that take no jobs: {count} of {have}",
    Reason.BEHIND: "{count} ahead of it in the queue, the first is job {job}",
    Reason.DEVICES_UNAVAILABLE: "devices out of service that it could use: {count}",
    Reason.NEEDS_DEVICES: "needs {asked} free {devices}, node {node} has {have} free",
    Reason.NEEDS_SHARE: (
        "needs {asked:share} of one {device}, the freest on node {node} has {have:share} free"
    ),
    Reason.NEEDS_CPU: "needs {asked:cpus}, node {node} has {have:cpus} free",
    Reason.NEEDS_MEMORY: "needs {asked:bytes} of memory, node {node} has {have:bytes} free",
    Reason.NODE_JOBS_FULL: "node {node} holds {have} tasks, which is its limit",
    Reason.HOLDS: "job {job} holds {have:devices} on node {node}",
    Reason.READY: "it is next and fits on node {node}",
    Reason.PLACED_ON: "placed on node {node}; nodes looked at: {count}",
    Reason.WAITED: "waited {have:span} before it was placed",
    Reason.OBSERVED: "observation {have} was read for it",
    Reason.GANG_SHORT: "needs {asked} places at once, there are {have}",
    Reason.ENDED: "it has ended",
    Reason.DECIDED_IN: "decided in {have:span}",
    Reason.MODELS_FULL: "the scheduler knows its limit of {have} device models",
    Reason.NODE_LABELS_FULL: "the node has its limit of {have} labels",
    Reason.UNKNOWN_LABEL: "the node has no such label",
    Reason.BAD_RESERVATION: "a reservation from {asked} to {have} is no span of time",
    Reason.NODE_RESERVED: "the node is reserved for another queue",
    Reason.UNKNOWN_QUEUE: "there is no queue {asked}",
    Reason.QUEUES_FULL: "the scheduler holds its limit of {have} queues",
    Reason.QUEUE_NOT_LEAF: "queue {asked} has queues below it, jobs go to those",
    Reason.QUEUE_IN_USE: "the queue has {have} jobs and {asked} queues below it",
    Reason.QUEUE_TOO_DEEP: "queues nest {have} deep at most, this would be {asked}",
    Reason.QUEUE_CYCLE: "a queue cannot be its own parent",
    Reason.BAD_WEIGHT: "a queue's weight is at least 1",
    Reason.BAD_ORDER: "there is no order {asked}, they are 1 to {have}",
    Reason.BAD_PLACEMENT: "there is no placement {asked}, they are 0 to {have}",
    Reason.QUOTAS_FULL: "the queue has its limit of {have} quotas",
    Reason.BAD_QUOTA: "a guarantee of {asked:devices} is above the limit of {have:devices}",
    Reason.OVER_LIMIT: (
        "with it queue {job} would hold {asked:devices}, its limit is {have:devices}"
    ),
    Reason.BAD_OPTIONS: "options {asked} are unknown or contradict each other",
    Reason.BAD_RETRIES: "{asked} is more than the limit of {have} for retries or for the pause",
    Reason.BAD_AFTER: "job {job}, which it is to follow, is unknown or ended otherwise than wanted",
    Reason.NOT_RUNNING: "job {job} is not running",
    Reason.NOT_PREEMPTIBLE: "job {job} may not be preempted",
    Reason.RUNS_TOO_SHORT: "job {job} has not run for its {have} s yet",
    Reason.STALE_USAGE: "{asked:span} of device time is not more than the {have:span} known",
    Reason.WRONG_MODEL: "the device is of another model",
    Reason.LABEL_MISSING: "the node lacks a label that is required",
    Reason.LABEL_AVOIDED: "the node has a label that is to be avoided",
    Reason.NOT_TOLERATED: "the node has a taint that is not tolerated",
    Reason.REPELLED: "a task of the group that is to be avoided runs there",
    Reason.NOT_ATTRACTED: "no task of its group runs there",
    Reason.DEVICE_MEMORY_FULL: (
        "the device has {have:bytes} of memory free, {asked:bytes} are needed"
    ),
    Reason.LINK_BROKEN: "needs {asked} devices that share a link, {have} do",
    Reason.NUMA_SPLIT: "needs {asked} devices in one NUMA node, the most in one are {have}",
    Reason.HELD: "job {job} is held",
    Reason.NOT_CUSTOM: "the placement of job {job} is not left to outside",
    Reason.GANG_SPREAD: "a task of the same job runs there",
    Reason.GANG_PACKED: "a task of the same job runs elsewhere",
    Reason.NO_NODE_HAS_LABELS: "none of {have} nodes has the labels it asks for",
    Reason.NO_NODE_HAS_MODEL: "no node that it accepts has a device of the model it asks for",
    Reason.NO_NODE_HAS_DEVICE_MEMORY: (
        "asks for {asked:bytes} of a device's memory, the largest has {have:bytes}"
    ),
    Reason.OVER_ANY_LIMIT: (
        "asks for {asked:devices}, its queue may never hold more than {have:devices}"
    ),
    Reason.AFTERS_FULL: "{have} jobs wait for job {job} already, which is the limit",
    Reason.BAD_DEVICE_KIND: "{asked} is no kind of device, or {have} no vendor",
    Reason.WRONG_KIND: "the device is of another kind",
    Reason.VENDORS_MIXED: "the devices of one job would be of several vendors",
    Reason.NO_NODE_HAS_KIND: "no node that it accepts has a {kind}",
    Reason.TRAITS_FULL: "the scheduler knows its limit of {have} different traits of devices",
    Reason.BAD_CONDITION: "condition {asked} says nothing that a device can meet",
    Reason.CONDITION_NOT_MET: "the device does not meet a condition of the job",
    Reason.NO_DEVICE_MEETS: "no device meets a condition that it asks for",
    Reason.NO_DEVICE_MEETS_ALL: (
        "each of its {asked} conditions is met by some device, but no device meets all of them"
    ),
    Reason.PREEMPTED: "preempted, waits again",
    Reason.MOVED: "moved off a drained node",
    Reason.RETRIED: "failed, will be tried again",
    Reason.NOT_BEGUN: "was not begun, will be tried again",
    Reason.NOT_LAUNCHED: "was not launched, will be tried again",
    Reason.AFTER_FAILED: "a job that it was to follow ended otherwise than wanted",
    Reason.RECLAIMED: "preempted because another queue was short of its guarantee",
    Reason.NOT_READY: "not all of its tasks were ready in time, so none of them was started",
    Reason.LEAST_FRAGMENTED: "the least added fragmentation; nodes looked at: {count}",
    Reason.SPREAD_OUT: "the least used node; nodes looked at: {count}",
    Reason.LEAST_LOAD: "the least observed load; nodes looked at: {count}",
    Reason.BY_CHANCE: "chosen by chance; nodes looked at: {count}",
    Reason.CHEAPEST: "the cheapest node; nodes looked at: {count}",
    Reason.LEAST_POWER: "the least added power; nodes looked at: {count}",
    Reason.COOLEST: "the most thermal headroom; nodes looked at: {count}",
    Reason.POWER_UNKNOWN: (
        "no power figures of this device's model are known here: placed by the policy best instead;"
        " nodes looked at: {count}"
    ),
    Reason.HEAT_UNKNOWN: (
        "no temperature of the devices taken is known here: placed by the policy best instead;"
        " nodes looked at: {count}"
    ),
    Reason.LOAD_UNKNOWN: (
        "no load of this node is known, so the fewest tasks; nodes looked at: {count}"
    ),
    Reason.DEVICE_LOAD_UNKNOWN: (
        "no load of the devices taken is known here: the least observed load of nodes instead;"
        " nodes looked at: {count}"
    ),
    Reason.COST_UNKNOWN: (
        "no node that fits has a cost label: the most free devices instead;"
        " nodes looked at: {count}"
    ),
    Reason.FASTEST: "the device model with the best measured speed; nodes looked at: {count}",
    Reason.SPEED_UNKNOWN: (
        "no speed of this device's model is measured for such jobs: placed by the policy best"
        " instead;"
        " nodes looked at: {count}"
    ),
    Reason.MOST_FREE: "the most free devices; nodes looked at: {count}",
    Reason.CONTIGUOUS: "devices with numbers that follow each other; nodes looked at: {count}",
    Reason.NOT_CONTIGUOUS: (
        "no devices with numbers that follow each other were free: the closest ones instead;"
        " nodes looked at: {count}"
    ),
    Reason.CHOICE_RAISED: (
        "its scoring function raised an error: placed by the policy best instead;"
        " nodes looked at: {count}"
    ),
    Reason.CHOICE_LATE: (
        "its scoring function took too long: placed by the policy best instead;"
        " nodes looked at: {count}"
    ),
    Reason.CHOICE_INVALID: (
        "its scoring function gave no valid scores: placed by the policy best instead;"
        " nodes looked at: {count}"
    ),
    Reason.CHOICE_ABSENT: (
        "its scoring function cannot be loaded: placed by the policy best instead;"
        " nodes looked at: {count}"
    ),
    Reason.AS_PREFERRED: "placed as the scoring function said; nodes looked at: {count}",
    Reason.BACKFILLED: "it delays nobody who stands before it; nodes looked at: {count}",
    Reason.WAITS_UNTIL: "waits until {have} ns before its next attempt",
    Reason.WAITS_FOR_JOB: "waits for the end of job {job}",
    Reason.QUEUE_AT_LIMIT: (
        "with it queue {job} would hold {asked:devices}, its limit is {have:devices}"
    ),
    Reason.QUEUE_TURN: "it fits, but queue {job} goes first",
    Reason.USER_TURN: (
        "the user of job {job} is next: it holds {have:percent} of the cluster in this queue,"
        " this one {asked:percent}"
    ),
    Reason.NEEDS_MODEL: "nodes without an accepted device model: {count}",
    Reason.NEEDS_CONDITION: "devices that do not meet one of its conditions: {count} of {have}",
    Reason.NEEDS_CONDITIONS: "nodes without a device that meets its conditions: {count}",
    Reason.PREFERENCES_MET: "{have} of its {asked} preferences are met",
    Reason.NEEDS_LABELS: "nodes kept out by labels: {count}",
    Reason.NEEDS_TOLERATION: "nodes with a taint it does not tolerate: {count}",
    Reason.NEEDS_RESERVATION: "nodes kept for another queue: {count}",
    Reason.NEEDS_DEVICE_MEMORY: (
        "needs {asked:bytes} of a device's memory, node {node} has {have:bytes}"
    ),
    Reason.NEEDS_GROUP: "nodes kept out by the company of its group: {count}",
    Reason.NEEDS_LINK: "nodes whose free devices share no link: {count}",
    Reason.NEEDS_NUMA: (
        "nodes without {asked} free devices in one NUMA node: {count}, the most in one are {have}"
    ),
    Reason.NEEDS_LEVEL: "nodes without a {job}: {count}",
    Reason.EXPECTED_START: "expected to start at {have} ns",
    Reason.NEEDS_CHOICE: "its placement is left to a scoring function",
    Reason.ROOM_BEING_MADE: "preempted jobs that still stop where it could run: {count}",
    Reason.WAS_PREEMPTED: "attempts that were preempted, moved or not begun so far: {count}",
    Reason.NEEDS_ONE_VENDOR: (
        "needs {asked} free {devices} of one vendor, node {node} has {have} of one"
    ),
    Reason.HELD_BY_ORDER: "it fits now, but the order of its queue holds it behind job {job}",
    Reason.NEVER_AS_IT_IS: "no node that is known could ever run it",
}


_DEVICES: Final = ("device", "devices")
_KINDS: Final = {1: ("GPU", "GPUs"), 2: ("CPU device", "CPU devices")}
"""The words for a set of kinds; for several kinds, "device"."""

_NEAREST: Final = frozenset(
    {
        Reason.NEEDS_DEVICES,
        Reason.NEEDS_SHARE,
        Reason.NEEDS_CPU,
        Reason.NEEDS_MEMORY,
        Reason.NEEDS_DEVICE_MEMORY,
    }
)
"""Reasons reported for the node that lacks least; `count` is the number of nodes that lack it."""


def reason_of(code: int) -> Reason | int:
    """Return the named reason, or the plain number for a code of the outer layers."""
    try:
        return Reason(code)
    except ValueError:
        return code


def _figure(value: int | str) -> int | str:
    """Format a figure; a name of a queue or a label replaces its id."""
    return Figure(value) if isinstance(value, int) else value


_OF_ONE_VENDOR: Final[dict[int, str]] = {
    Reason.NO_NODE_HAS_DEVICES: " of one vendor",
    Reason.GANG_TOO_LARGE: " with devices of one vendor",
}
"""The words behind a reason whose figure is of one vendor, while all have as many as `job` says."""


@lru_cache(SENTENCES_KEPT)
def sentence(
    code: int,
    *,
    asked: int | str = 0,
    have: int = 0,
    job: int | str = 0,
    node: str = "",
    count: int = 0,
    kinds: int = 0,
) -> str:
    """Return the reason with its figures, without a full stop; an unknown code by number."""
    text = _SENTENCES.get(code)
    if text is None:
        return f"reason {code}"
    one, many = _KINDS.get(kinds, _DEVICES)
    words = {"device": one, "devices": one if asked == 1 else many}
    if isinstance(asked, int):
        words["kind"] = _KINDS.get(asked, _DEVICES)[0]
    figures = {"asked": _figure(asked), "have": _figure(have), "job": job, "count": count}
    text = text.format(**figures, **words, node=node)
    if job:
        text += _OF_ONE_VENDOR.get(code, "")
    if count <= 1:
        text = text.removesuffix(f"; nodes looked at: {count}")
    return f"{text}, the nearest of {count} nodes" if code in _NEAREST and count > 1 else text
