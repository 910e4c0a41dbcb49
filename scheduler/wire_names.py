# SPDX-License-Identifier: Apache-2.0
# fmt: off
"""The numbers and names of the core's records.

Written by `make generate` from native/core/wire.h; change that file instead. Numbers are stored in
the log, so they are only ever added.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final, Literal

DIGEST: Final = "9548e46d862bc02f"
"""The layout that this is for; the compiled core has the same."""
MILLI: Final = 1_000
"""Milli-shares of one whole device or one CPU."""
TASK_DEVICES_MAX: Final = 16
"""Devices of one task."""
NODE_DEVICES_MAX: Final = 64
"""Devices of one node."""
TASKS_MAX: Final = 64
"""Tasks of one job."""
OBSERVATIONS_MAX: Final = 4
"""Observations that one decision names."""
PRIORITY_MIN: Final = -100
"""Lowest priority of a job."""
PRIORITY_MAX: Final = 100
"""Highest priority of a job."""
BATCH_REQUESTS_MAX: Final = 1_024
"""Requests of one `propose`."""
BATCH_PLACES_MAX: Final = 256
"""Tasks placed by one `propose`; it says if there are more."""
EXPLAIN_MAX: Final = 32
"""Lines of one explanation."""
MODELS_MAX: Final = 64
"""Device models known to one state."""
JOB_MODELS_MAX: Final = 8
"""Device models that a job may name."""
JOB_LABELS_MAX: Final = 4
"""Labels of each sort that a job may name."""
JOB_CONDITIONS_MAX: Final = 12
"""Conditions on its devices that a job may name."""
PREFERENCES_MAX: Final = 4
"""Preferences among them."""
TRAITS_MAX: Final = 63
"""Different traits of devices known to one state."""
NODE_LABELS_MAX: Final = 16
"""Labels and taints of one node together."""
QUEUE_QUOTAS_MAX: Final = 8
"""Quotas of one queue."""
QUEUE_DEPTH_MAX: Final = 8
"""Queues on the way from the root to a queue."""
RETRIES_MAX: Final = 10
"""Attempts after the first."""
LAUNCHES_MAX: Final = 3
"""Launches in a row that nodes fail before the job does."""
AFTERS_MAX: Final = 64
"""Jobs that wait for the end of one job."""
JOB_AFTERS_MAX: Final = 8
"""Jobs that one job may follow."""
BACKOFF_MAX_S: Final = 300
"""Longest pause before a retry, in seconds."""
PROMOTE_MAX: Final = 256
"""Held jobs released by time in one propose or apply."""
SPEEDS_MAX: Final = 4_096
"""Measured speeds known to one state."""
SPEED_SAMPLES_MAX: Final = 8
"""Newest jobs of which a speed is the median."""
NO_LIMIT: Final = 0xffffffffffffffff
"""A quota's limit where there is none."""
OPTIONS: Final = 511
DEVICE_KINDS: Final = 3
VENDORS_MAX: Final = 16
"""Numbers of vendors that are told apart; 0 is one not known."""
NODE_EVICT: Final = 1
"""The loss of the node is committed: its active jobs are lost."""
NODE_REMOVE: Final = 2
"""Drop the entry of a node that is down and holds nothing."""
LABEL_CLEAR: Final = 1
"""The node loses the label."""
LABEL_TAINT: Final = 2
"""Only jobs that tolerate it are placed there."""
LABEL_COST: Final = 4
"""`value` is the node's cost, for SK_PLACEMENT_COST_OPTIMIZED."""
QUEUE_REMOVE: Final = 1
"""The queue goes; it must be empty."""
SUBMIT_LEAST: Final = 296
"""Bytes of a request without conditions that follows no job."""
HAS_EXIT_CODE: Final = 1
HAS_SIGNAL: Final = 2
HAS_DEVICE_NS: Final = 4
PREEMPT_MOVE: Final = 1
"""A node of it takes no jobs: it may go if it may run again."""
ARRAY_AT_ONCE: Final = 256
"""Jobs of an array that one command makes."""
ARRAY_JOBS_MAX: Final = 100_000
"""Jobs of one array."""
RANGE_UNMET: Final = 1
"""It ended otherwise than the job wants, which never starts."""
SAMPLE_POWER: Final = 1
SAMPLE_TEMPERATURE: Final = 2
SAMPLE_LIMIT: Final = 4
SAMPLE_BUSY: Final = 8
SAMPLE_CAP: Final = 16
SAMPLE_CLOCK: Final = 32
SAMPLE_MEMORY: Final = 64
SAMPLE_SLOWED: Final = 128
"""Heat, or a fault, holds its clock down."""
SAMPLE_WARNED: Final = 256
"""Its health has a warning."""
SAMPLE_STALE: Final = 512
"""The last figures were too old; they are taken away."""
SAMPLE_ALL: Final = 1_023
CLASSES_MAX: Final = 128
EVIDENCE_MAX: Final = 2_048
"""Newest decisions whose evidence is kept."""
EVIDENCE_NODE: Final = 4_294_967_295
"""No device was rated, but the node."""
EVIDENCE_NODES_MAX: Final = 128
"""Nodes among which the next best score is sought."""
EVIDENCE_UNSOUGHT: Final = 1
"""It was not: there are more nodes."""
CHOICES_MAX: Final = 64
"""Jobs whose latest choice is kept."""
CANDIDATES_MAX: Final = 256
SETTLE_EACH: Final = 256
"""Budget after each apply, some 10 us at most."""

# Kinds of commands.
TERM: Final = 1
NODE_UP: Final = 2
NODE_DOWN: Final = 3
DEVICE_SET: Final = 4
SUBMIT: Final = 5
PLACE: Final = 6
OUTCOME: Final = 7
CANCEL: Final = 8
FORGET: Final = 9
REFUSED: Final = 10
NODE_LABEL: Final = 11
NODE_RESERVE: Final = 12
QUEUE_SET: Final = 13
QUOTA_SET: Final = 14
USAGE: Final = 15
PREEMPT: Final = 16
PREFER: Final = 17
GIVE_UP: Final = 18
DEVICE_TRAITS: Final = 19
SUBMIT_ARRAY: Final = 20
RANGE_END: Final = 21


class Placement(IntEnum):
    """The way in which a node and its devices are chosen. QUEUE leaves it to the job's queue, and
    there to BEST."""

    QUEUE = 0
    BEST = 1  # least fragmentation, finely quantised, then best fit
    FGD = 2  # fragmentation gradient descent as published
    BINPACK = 3  # most used device or node that still fits
    SPREAD = 4  # least used node
    LEAST_BUSY = 5  # least observed load
    RANDOM = 6
    COST_OPTIMIZED = 7  # cheapest node by its label, then as LEAST_LOADED
    POWER = 8  # least added power, then as BEST
    THERMAL = 9  # most thermal headroom, then as BEST
    CUSTOM = 10  # only where an SK_PREFER says
    LEAST_LOADED = 11  # most free devices
    CONTIGUOUS = 12  # devices whose numbers follow each other, on one link
    SCORED = 13  # the node with the best score of a function outside
    FASTEST = 14  # best measured speed, then as BEST


class Order(IntEnum):
    """The rule that says who is next within a queue."""

    FIFO = 1  # priority, then id; the first that does not fit blocks
    ANY = 2  # priority, then id; nobody blocks
    BACKFILL = 3  # EASY: the first gets a reservation nobody may delay
    CONSERVATIVE = 4  # every waiting job gets such a reservation
    SHORTEST = 5  # least estimated time left first
    LEAST_ATTAINED = 6  # least device time so far first
    FAIR = 7  # priority, then the user who holds least; as BACKFILL


class Property(IntEnum):
    """The property of a device that a condition speaks of."""

    VENDOR = 1  # its number
    MODEL = 2  # hash of its name
    MEMORY = 3  # bytes that the device has
    COMPUTE = 4  # as DEVICE_TRAITS has it, and so are the fields below
    ARCH = 5
    PROFILE = 6
    DRIVER = 7
    LINK = 8  # linked devices of each node, with so many GB/s; 1: any
    PARTITION = 9  # 1: a whole card, 2: a partition
    DEVICE = 10  # the device at `place` 1 of the node with this id; 0: any
    NUMA = 11  # devices of a task in one NUMA node, so many CPUs beside
    LEVEL = 12  # all tasks on nodes with one label of the key with this hash


class Relation(IntEnum):
    """The way in which a property and the value of a condition are compared. Conditions IS on one
    field are alternatives, all others must hold together."""

    IS = 1
    LEAST = 2
    MOST = 3


class Measure(IntEnum):
    """The unit of work by which the speed of a device model is measured."""

    LAUNCH = 1  # the launch of a kernel: the device time of one
    RUN = 2  # a whole job: the time that it ran


class Option(IntFlag):
    """Options of a job, as bits."""

    PREEMPTIBLE = 1  # It may be stopped to make room; then it waits again.
    SPREAD_TASKS = 2  # No two tasks of the gang run on one node.
    PACK_TASKS = 4  # All tasks of the gang run on one node.
    ATTRACT = 8  # It runs only where a task of its group runs, if any does.
    REPEL = 16  # It never runs where a task of its group runs.
    SAME_LINK = 32  # The devices of a task share a link group.
    PREEMPTOR = 64  # It may have others preempted to start.
    MIX_VENDORS = 128  # Its devices may be of several vendors and kinds.
    LOST_ONLY = 256  # Another attempt follows one that was lost, not one that failed.


class Kind(IntFlag):
    """Kinds of devices, as bits, so that the kinds a job accepts are a set."""

    GPU = 1
    CPU = 2


JobState = Literal[
    "pending",  # accepted and committed, not placed
    "starting",  # placed; the node has been told
    "running",  # the node reported its first process
    "stopping",  # a cancel or a limit is being carried out
    "succeeded",  # exit code 0
    "failed",  # another exit code, a signal, or it could not be started
    "cancelled",  # stopped on request
    "timeout",  # stopped at its time limit
    "lost",  # the node cannot say how it ended; the reason says why
]
"""The state of a job; from SK_SUCCEEDED on a state is final."""


Wanted = Literal[
    "",
    "best",  # least fragmentation, finely quantised, then best fit
    "fgd",  # fragmentation gradient descent as published
    "binpack",  # most used device or node that still fits
    "spread",  # least used node
    "least-busy",  # least observed load
    "random",
    "cost-optimized",  # cheapest node by its label, then as LEAST_LOADED
    "power",  # least added power, then as BEST
    "thermal",  # most thermal headroom, then as BEST
    "custom",  # only where an SK_PREFER says
    "least-loaded",  # most free devices
    "contiguous",  # devices whose numbers follow each other, on one link
    "scored",  # the node with the best score of a function outside
    "fastest",  # best measured speed, then as BEST
]
"""The way in which a node and its devices are chosen. QUEUE leaves it to the job's queue, and there
to BEST."""


QueueOrder = Literal[
    "fifo",  # priority, then id; the first that does not fit blocks
    "any",  # priority, then id; nobody blocks
    "backfill",  # EASY: the first gets a reservation nobody may delay
    "conservative",  # every waiting job gets such a reservation
    "shortest",  # least estimated time left first
    "least-attained",  # least device time so far first
    "fair",  # priority, then the user who holds least; as BACKFILL
]
"""The rule that says who is next within a queue."""
STATES: Final[tuple[JobState, ...]] = (
    "pending", "starting", "running", "stopping", "succeeded", "failed", "cancelled", "timeout",
    "lost",
)
"""`STATES[code - 1]` is the state of a code of the core."""
