/* SPDX-License-Identifier: Apache-2.0
 *
 * One number space for every reason that the core gives: refusals, states, placements and waits.
 * `make generate` writes them to scheduler/reason_codes.py; scheduler/reasons.py turns them into
 * sentences. Invariant: numbers are stored in logs and snapshots, so they are only ever added,
 * never renumbered.
 */
#ifndef SK_CORE_REASON_H
#define SK_CORE_REASON_H

enum sk_reason {
	SK_REASON_NONE = 0,

	/* Reasons why a request or command changes nothing. */
	SK_STALE_TERM = 1,
	SK_UNKNOWN_NODE = 2,
	SK_UNKNOWN_JOB = 3,
	SK_NODES_FULL = 4,
	SK_DEVICES_FULL = 5,
	SK_JOBS_FULL = 6,
	SK_TASKS_FULL = 7,
	SK_BATCH_FULL = 8,
	SK_NODE_NOT_UP = 9,
	SK_STALE_INCARNATION = 10,
	SK_UNCHANGED = 11,
	SK_NODE_BUSY = 12,
	SK_BAD_DEVICE_INDEX = 13,
	SK_CAPACITY_IN_USE = 14,
	SK_DUPLICATE = 15,
	SK_KEY_REUSED = 16,
	SK_BAD_PRIORITY = 17,
	SK_BAD_GPU_MILLI = 18,
	SK_BAD_TASKS = 19,
	SK_TOO_MANY_DEVICES = 20,
	SK_NO_NODE_HAS_DEVICES = 21, /* have: of one vendor, if job is not 0, which is all */
	SK_NO_NODE_HAS_CPU = 22,
	SK_NO_NODE_HAS_MEMORY = 23,
	SK_NO_NODE_FITS = 24,
	SK_GANG_TOO_LARGE = 25, /* have: of one vendor, if job is not 0, which is all */
	SK_NOT_PENDING = 26,
	SK_WRONG_ATTEMPT = 27,
	SK_STALE_ATTEMPT = 28,
	SK_ALREADY_ENDED = 29,
	SK_ALREADY_STOPPING = 30,
	SK_DUPLICATE_OUTCOME = 31,
	SK_NOT_OWNER = 32,
	SK_DEVICE_UNAVAILABLE = 33,
	SK_DEVICE_FULL = 34,
	SK_CPU_FULL = 35,
	SK_MEMORY_FULL = 36,
	SK_NODE_FULL = 37,
	SK_BAD_SHARES = 38,
	SK_NOT_ENDED = 39,
	SK_BAD_CAPACITY = 40,
	SK_NO_DEVICE_HAS_SHARE = 41,
	SK_MODELS_FULL = 42,
	SK_NODE_LABELS_FULL = 43,
	SK_UNKNOWN_LABEL = 44,
	SK_BAD_RESERVATION = 45,
	SK_NODE_RESERVED = 46,
	SK_UNKNOWN_QUEUE = 47,
	SK_QUEUES_FULL = 48,
	SK_QUEUE_NOT_LEAF = 49,
	SK_QUEUE_IN_USE = 50,
	SK_QUEUE_TOO_DEEP = 51,
	SK_QUEUE_CYCLE = 52,
	SK_BAD_WEIGHT = 53,
	SK_BAD_ORDER = 54,
	SK_BAD_PLACEMENT = 55,
	SK_QUOTAS_FULL = 56,
	SK_BAD_QUOTA = 57,
	SK_OVER_LIMIT = 58,
	SK_BAD_OPTIONS = 59,
	SK_BAD_RETRIES = 60,
	SK_BAD_AFTER = 61,
	SK_NOT_RUNNING = 62,
	SK_NOT_PREEMPTIBLE = 63,
	SK_RUNS_TOO_SHORT = 64,
	SK_STALE_USAGE = 65,
	SK_WRONG_MODEL = 66,
	SK_LABEL_MISSING = 67,
	SK_LABEL_AVOIDED = 68,
	SK_NOT_TOLERATED = 69,
	SK_REPELLED = 70,
	SK_NOT_ATTRACTED = 71,
	SK_DEVICE_MEMORY_FULL = 72,
	SK_LINK_BROKEN = 73,
	SK_HELD = 74,
	SK_NOT_CUSTOM = 75,
	SK_GANG_SPREAD = 76,
	SK_GANG_PACKED = 77,
	SK_NO_NODE_HAS_LABELS = 78,
	SK_NO_NODE_HAS_MODEL = 79,
	SK_NO_NODE_HAS_DEVICE_MEMORY = 80,
	SK_OVER_ANY_LIMIT = 81, /* requests more than its queue may ever give */
	SK_AFTERS_FULL = 82,
	SK_BAD_DEVICE_KIND = 83,
	SK_WRONG_KIND = 84,
	SK_VENDORS_MIXED = 85,
	SK_NO_NODE_HAS_KIND = 86,
	SK_ALREADY_RELEASED = 87,
	SK_GANG_NODE_SHORT = 88, /* no room for all tasks that go on one node together */
	SK_TRAITS_FULL = 89,
	SK_BAD_CONDITION = 90,	     /* asked: its position among the conditions, from 1 */
	SK_CONDITION_NOT_MET = 91,   /* the device does not meet a condition of the job */
	SK_NO_DEVICE_MEETS = 92,     /* job: the condition, asked: its value, have: the nearest */
	SK_NO_DEVICE_MEETS_ALL = 93, /* asked: conditions, have: devices of the kind */
	SK_NUMA_SPLIT = 94,	     /* no NUMA node has so many devices that serve */
	SK_LEVEL_SPLIT = 95,	     /* the node lacks the label that the gang's nodes share */
	SK_LEVEL_SHORT = 96,	     /* asked: tasks, have: those of one domain, job: the level */
	SK_REFUSAL_END,

	/* Reasons for the state of a job. */
	SK_SUBMITTED = 100,
	SK_PLACED = 101,
	SK_NODE_REBOOTED = 102,
	SK_NODE_EVICTED = 103,
	SK_CANCEL_REQUESTED = 104,
	SK_RETENTION = 105,
	SK_FORGET_REQUESTED = 106,
	SK_PEER_ENDED = 107,
	SK_REPORTED = 108,
	SK_DEVICE_GONE = 109,
	SK_PREEMPTED = 110,
	SK_RETRIED = 111,
	SK_AFTER_FAILED = 112, /* a job that it follows ended otherwise than wanted */
	SK_RECLAIMED = 113,    /* preempted because another queue was short of its guarantee */
	SK_NOT_BEGUN = 114,    /* its node could not begin it and gave it back */
	SK_NOT_READY = 115,    /* the tasks of a gang were not all ready in time */
	SK_NOT_LAUNCHED = 116, /* its node could not launch it, whatever the job is */
	SK_MOVED = 117,	       /* stopped to run again on other nodes than one that was drained */

	/* Reasons for the place of a task. */
	SK_PACKED_SHARE = 200,
	SK_OPENED_DEVICE = 201,
	SK_FREE_DEVICES = 202,
	SK_LEAST_BUSY = 203,
	SK_LEAST_FRAGMENTED = 204,
	SK_SPREAD_OUT = 205,
	SK_LEAST_LOAD = 206,
	SK_BY_CHANCE = 207,
	SK_CHEAPEST = 208,
	SK_LEAST_POWER = 209,
	SK_COOLEST = 210,
	SK_AS_PREFERRED = 211,
	SK_BACKFILLED = 212,
	SK_POWER_UNKNOWN = 213,
	SK_HEAT_UNKNOWN = 214,
	SK_LOAD_UNKNOWN = 215,
	SK_COST_UNKNOWN = 216,
	SK_DEVICE_LOAD_UNKNOWN = 217,
	SK_MOST_FREE = 218,
	SK_CONTIGUOUS = 219,
	SK_NOT_CONTIGUOUS = 220, /* no devices with such numbers were free together */
	SK_CHOICE_RAISED = 221,
	SK_CHOICE_LATE = 222,
	SK_CHOICE_INVALID = 223,
	SK_CHOICE_ABSENT = 224,
	SK_FASTEST = 225,
	SK_SPEED_UNKNOWN = 226,

	/* Reasons why a job waits, and inputs that mattered for one that does not. */
	SK_NO_NODES = 300,
	SK_NODES_DOWN = 301,
	SK_BEHIND = 302,
	SK_DEVICES_UNAVAILABLE = 303,
	SK_NEEDS_DEVICES = 304,
	SK_NEEDS_SHARE = 305,
	SK_NEEDS_CPU = 306,
	SK_NEEDS_MEMORY = 307,
	SK_NODE_JOBS_FULL = 308,
	SK_HOLDS = 309,
	SK_READY = 310,
	SK_PLACED_ON = 311,
	SK_WAITED = 312,
	SK_OBSERVED = 313,
	SK_GANG_SHORT = 314,
	SK_ENDED = 315,
	SK_DECIDED_IN = 316,
	SK_WAITS_UNTIL = 317,	 /* have: not_before_ns */
	SK_WAITS_FOR_JOB = 318,	 /* job: one that it is after */
	SK_QUEUE_AT_LIMIT = 319, /* detail: queue's depth, job: queue id; asked, have milli */
	SK_QUEUE_TURN = 320,	 /* another queue has the better claim; job: its id */
	SK_NEEDS_MODEL = 321,	 /* count: nodes without the model */
	SK_NEEDS_LABELS = 322,
	SK_NEEDS_TOLERATION = 323,
	SK_NEEDS_RESERVATION = 324, /* count: nodes kept for another queue */
	SK_NEEDS_DEVICE_MEMORY = 325,
	SK_NEEDS_GROUP = 326,
	SK_NEEDS_LINK = 327,
	SK_EXPECTED_START = 328,   /* have: entry time in ns; from running jobs' estimates */
	SK_NEEDS_CHOICE = 329,	   /* its placement comes from outside */
	SK_ROOM_BEING_MADE = 330,  /* count: jobs preempted for it that are still stopping */
	SK_WAS_PREEMPTED = 331,	   /* count: times */
	SK_NEEDS_ONE_VENDOR = 332, /* free devices suffice, but not those of one vendor */
	SK_NEVER_AS_IT_IS = 333,   /* detail: what submit would say, with its figures */
	SK_HELD_BY_ORDER = 334,	   /* it fits; detail: order, asked: queue, job: the one that
				      holds it up */
	SK_NEEDS_CONDITION = 335,  /* count of have devices do not meet it; job, asked as above */
	SK_NEEDS_CONDITIONS = 336, /* count: nodes without a device that meets the conditions */
	SK_PREFERENCES_MET = 337,  /* have of asked preferences are met where it was placed */
	SK_NEEDS_NUMA = 338,	   /* count: nodes without enough free devices in one NUMA node */
	SK_NEEDS_LEVEL = 339,	   /* count: nodes without a label of the level; job: the level */
	SK_USER_TURN = 340, /* have, asked: thousandths; job: the first; detail: 1 if equal */

	/* Codes from here on belong to the outer layers and pass through unread. */
	SK_REASON_OUTER = 1000,
};

#endif
