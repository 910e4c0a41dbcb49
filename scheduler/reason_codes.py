# SPDX-License-Identifier: Apache-2.0
# fmt: off
"""The core's reason codes.

Written by `make generate` from native/core/reason.h; change that file instead. Codes are stored in
the log, so they are only ever added; those from OUTER on are the caller's own.
"""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """The reason for a refusal, a state, a placement or a wait."""

    NONE = 0

    # Reasons why a request or command changes nothing.
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
    NO_NODE_HAS_DEVICES = 21  # have: of one vendor, if job is not 0, which is all
    NO_NODE_HAS_CPU = 22
    NO_NODE_HAS_MEMORY = 23
    NO_NODE_FITS = 24
    GANG_TOO_LARGE = 25  # have: of one vendor, if job is not 0, which is all
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
    MODELS_FULL = 42
    NODE_LABELS_FULL = 43
    UNKNOWN_LABEL = 44
    BAD_RESERVATION = 45
    NODE_RESERVED = 46
    UNKNOWN_QUEUE = 47
    QUEUES_FULL = 48
    QUEUE_NOT_LEAF = 49
    QUEUE_IN_USE = 50
    QUEUE_TOO_DEEP = 51
    QUEUE_CYCLE = 52
    BAD_WEIGHT = 53
    BAD_ORDER = 54
    BAD_PLACEMENT = 55
    QUOTAS_FULL = 56
    BAD_QUOTA = 57
    OVER_LIMIT = 58
    BAD_OPTIONS = 59
    BAD_RETRIES = 60
    BAD_AFTER = 61
    NOT_RUNNING = 62
    NOT_PREEMPTIBLE = 63
    RUNS_TOO_SHORT = 64
    STALE_USAGE = 65
    WRONG_MODEL = 66
    LABEL_MISSING = 67
    LABEL_AVOIDED = 68
    NOT_TOLERATED = 69
    REPELLED = 70
    NOT_ATTRACTED = 71
    DEVICE_MEMORY_FULL = 72
    LINK_BROKEN = 73
    HELD = 74
    NOT_CUSTOM = 75
    GANG_SPREAD = 76
    GANG_PACKED = 77
    NO_NODE_HAS_LABELS = 78
    NO_NODE_HAS_MODEL = 79
    NO_NODE_HAS_DEVICE_MEMORY = 80
    OVER_ANY_LIMIT = 81  # requests more than its queue may ever give
    AFTERS_FULL = 82
    BAD_DEVICE_KIND = 83
    WRONG_KIND = 84
    VENDORS_MIXED = 85
    NO_NODE_HAS_KIND = 86
    ALREADY_RELEASED = 87
    GANG_NODE_SHORT = 88  # no room for all tasks that go on one node together
    TRAITS_FULL = 89
    BAD_CONDITION = 90  # asked: its position among the conditions, from 1
    CONDITION_NOT_MET = 91  # the device does not meet a condition of the job
    NO_DEVICE_MEETS = 92  # job: the condition, asked: its value, have: the nearest
    NO_DEVICE_MEETS_ALL = 93  # asked: conditions, have: devices of the kind
    NUMA_SPLIT = 94  # no NUMA node has so many devices that serve
    LEVEL_SPLIT = 95  # the node lacks the label that the gang's nodes share
    LEVEL_SHORT = 96  # asked: tasks, have: those of one domain, job: the level

    # Reasons for the state of a job.
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
    PREEMPTED = 110
    RETRIED = 111
    AFTER_FAILED = 112  # a job that it follows ended otherwise than wanted
    RECLAIMED = 113  # preempted because another queue was short of its guarantee
    NOT_BEGUN = 114  # its node could not begin it and gave it back
    NOT_READY = 115  # the tasks of a gang were not all ready in time
    NOT_LAUNCHED = 116  # its node could not launch it, whatever the job is
    MOVED = 117  # stopped to run again on other nodes than one that was drained

    # Reasons for the place of a task.
    PACKED_SHARE = 200
    OPENED_DEVICE = 201
    FREE_DEVICES = 202
    LEAST_BUSY = 203
    LEAST_FRAGMENTED = 204
    SPREAD_OUT = 205
    LEAST_LOAD = 206
    BY_CHANCE = 207
    CHEAPEST = 208
    LEAST_POWER = 209
    COOLEST = 210
    AS_PREFERRED = 211
    BACKFILLED = 212
    POWER_UNKNOWN = 213
    HEAT_UNKNOWN = 214
    LOAD_UNKNOWN = 215
    COST_UNKNOWN = 216
    DEVICE_LOAD_UNKNOWN = 217
    MOST_FREE = 218
    CONTIGUOUS = 219
    NOT_CONTIGUOUS = 220  # no devices with such numbers were free together
    CHOICE_RAISED = 221
    CHOICE_LATE = 222
    CHOICE_INVALID = 223
    CHOICE_ABSENT = 224
    FASTEST = 225
    SPEED_UNKNOWN = 226

    # Reasons why a job waits, and inputs that mattered for one that does not.
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
    WAITS_UNTIL = 317  # have: not_before_ns
    WAITS_FOR_JOB = 318  # job: one that it is after
    QUEUE_AT_LIMIT = 319  # detail: queue's depth, job: queue id; asked, have milli
    QUEUE_TURN = 320  # another queue has the better claim; job: its id
    NEEDS_MODEL = 321  # count: nodes without the model
    NEEDS_LABELS = 322
    NEEDS_TOLERATION = 323
    NEEDS_RESERVATION = 324  # count: nodes kept for another queue
    NEEDS_DEVICE_MEMORY = 325
    NEEDS_GROUP = 326
    NEEDS_LINK = 327
    EXPECTED_START = 328  # have: entry time in ns; from running jobs' estimates
    NEEDS_CHOICE = 329  # its placement comes from outside
    ROOM_BEING_MADE = 330  # count: jobs preempted for it that are still stopping
    WAS_PREEMPTED = 331  # count: times
    NEEDS_ONE_VENDOR = 332  # free devices suffice, but not those of one vendor
    NEVER_AS_IT_IS = 333  # detail: what submit would say, with its figures
    HELD_BY_ORDER = 334  # it fits; detail: order, asked: queue, job: the one that holds it up
    NEEDS_CONDITION = 335  # count of have devices do not meet it; job, asked as above
    NEEDS_CONDITIONS = 336  # count: nodes without a device that meets the conditions
    PREFERENCES_MET = 337  # have of asked preferences are met where it was placed
    NEEDS_NUMA = 338  # count: nodes without enough free devices in one NUMA node
    NEEDS_LEVEL = 339  # count: nodes without a label of the level; job: the level
    USER_TURN = 340  # have, asked: thousandths; job: the first; detail: 1 if equal

    # Codes from here on belong to the outer layers and pass through unread.
    OUTER = 1000
