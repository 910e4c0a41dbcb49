/* SPDX-License-Identifier: Apache-2.0
 *
 * Why: one number space for everything the core says about a refusal, a state, a placement or a
 * wait. Relied on by every file here and by scheduler/reasons.py, which turns codes into sentences.
 * Numbers are stored in logs and snapshots, so they are only ever added, never renumbered.
 */
#ifndef STOKER_CORE_REASON_H
#define STOKER_CORE_REASON_H

enum sk_reason {
	SK_REASON_NONE = 0,

	/* A request or command that changes nothing. */
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
	SK_NO_NODE_HAS_DEVICES = 21,
	SK_NO_NODE_HAS_CPU = 22,
	SK_NO_NODE_HAS_MEMORY = 23,
	SK_NO_NODE_FITS = 24,
	SK_GANG_TOO_LARGE = 25,
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
	SK_REFUSAL_END,

	/* Why a job is in its state. */
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

	/* Why a task was placed where it is. */
	SK_PACKED_SHARE = 200,
	SK_OPENED_DEVICE = 201,
	SK_FREE_DEVICES = 202,
	SK_LEAST_BUSY = 203,

	/* Why a job waits, and what mattered for one that does not. */
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

	/* From here on codes belong to the outer layers and pass through unread. */
	SK_REASON_OUTER = 1000,
};

#endif
