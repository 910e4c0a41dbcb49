/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The trace segment: a file of fixed layout that one process of a job shares with the agent.
 *
 * A tracer inside the job writes it (probes/tracer and what is built on it), trace/fold/reader.c
 * inside the agent reads it. The agent trusts nothing in it: every index and length is checked
 * before use. Two words go the other way: the control block, which is the agent's request to the
 * tracer for as long as its lease lasts, and `hold`, the throttle word of launches.
 *
 * Memory: the file lies in a tmpfs folder of the job; the writer maps it, the reader never does.
 * Threads: a slot is written by the thread that owns it (or by the layer's idle thread while it
 * holds the slot's harvest flag); only `tail` is written by the reader. Times: CLOCK_MONOTONIC ns
 * unless a name says otherwise.
 */
#ifndef SK_RECORDS_SEGMENT_H
#define SK_RECORDS_SEGMENT_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define SK_SHARED(type) type /* the binding reads copies; same size and alignment */
#else
#include <stdatomic.h>
#define SK_SHARED(type) _Atomic type
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared counters are lock-free");
#endif

enum {
	SK_SEGMENT_VERSION = 3,
	SK_SEGMENT_SLOTS = 64,	     /* threads that launch at the same time */
	SK_SEGMENT_ROWS = 65,	     /* the slots, and one shared row for threads beyond them */
	SK_SEGMENT_NAMES = 256,	     /* kernel names; 0 is "(other)" */
	SK_SEGMENT_NAME_BYTES = 192, /* longer names are cut and end in a hash of the whole */
	SK_SEGMENT_DEVICES = 16,
	SK_SEGMENT_LANES = 8,		 /* waiting lists of one thread, by queue */
	SK_SEGMENT_RING_LARGE = 1 << 17, /* records: 100,003 launches fit without a reader */
	SK_SEGMENT_RING_SMALL = 1 << 14,
	SK_SEGMENT_RINGS_LARGE = 8, /* slots that have a large ring under `full` */
	SK_SEGMENT_RING_MAX = 1 << 20,
	SK_SEGMENT_WINDOWS = 256,
	SK_LEASE_COUNTED_S =
		10, /* launches are counted for so long after a lease, and not seen later */
	SK_NO_DEVICE = 0xff,
};

#define SK_SEGMENT_MAGIC UINT64_C(0x31676573656b6f74) /* "tokeseg1" */

enum sk_mode {
	SK_MODE_OFF = 0,
	SK_MODE_GOVERNED = 1, /* every launch counted, as many timed as the budget allows */
	SK_MODE_FULL = 2,     /* every launch timed */
	SK_MODE_DORMANT =
		3, /* loaded, and neither counts nor times; also the mode after an expired lease */
};

/** The tracer that writes a segment. */
enum sk_tracer_kind {
	SK_TRACER_OPENCL = 1,
	SK_TRACER_CUPTI = 2,
	SK_TRACER_ROCPROFILER = 3,
	SK_TRACER_LEVEL_ZERO = 4,
	SK_TRACER_SIMULATED = 0x80, /* a flag beside the kind: its devices are not real */
};

enum sk_record_kind {
	SK_KIND_READ,
	SK_KIND_WRITE,
	SK_KIND_COPY,
	SK_KIND_FILL,
	SK_KIND_MAP,
	SK_KIND_UNMAP,
	SK_KIND_MIGRATE,
	SK_KIND_SVM_COPY,
	SK_KIND_SVM_FILL,
	SK_KIND_SVM_MAP,
	SK_KIND_SVM_UNMAP,
	SK_KIND_SVM_MIGRATE,
	SK_COPY_KINDS = 16,
	SK_KIND_KERNEL = SK_COPY_KINDS,
	SK_KIND_GRAPH,	      /* a whole graph, where its kernels have no records of their own */
	SK_KIND_DEVICE_END,   /* kinds below it keep a device busy; those from here on do not */
	SK_KIND_BARRIER = 32, /* a marker or barrier in a queue, from its call to its completion */
	SK_KIND_SYNC,	      /* a thread of the host waited for a device */
	SK_KIND_USER_EVENT,   /* a user event, from its making to its completion */
	SK_KIND_OVERHEAD,     /* time that the vendor's own profiler took, by its own account */
	SK_KIND_HELD,	      /* a thread waited in a launch because launches are throttled */
	SK_KINDS,
};

/** One timed kernel, copy or host event. Published by the ring's head, never changed afterwards. */
struct sk_record {
	uint64_t queued_ns;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t bytes; /* of a copy; of a kernel of a graph launch: the graph's id */
	uint32_t
		submit_after; /* ns from queued_ns to the submission, saturating; 0: not recorded */
	uint32_t correlation; /* joins what one call caused: the vendor's id, or a count of calls */
	uint32_t call_before; /* ns from the call's entry to queued_ns, saturating */
	uint32_t call_ns;     /* length of the enqueue call, saturating */
	uint32_t tid;
	uint16_t name; /* of a kernel: row of the name table */
	uint8_t kind;
	uint8_t device;
	uint16_t queue;
	uint8_t shift; /* stands for 1 << shift launches */
	uint8_t flags;
	uint32_t sequence; /* low half of its ring index: a stale cell is told by it */
};
static_assert(sizeof(struct sk_record) == 64, "a record is one cache line");
static_assert(offsetof(struct sk_record, sequence) == 60, "records have no padding");

/** Counters of one owner at a time; plain numbers, published by relaxed stores. */
struct sk_slot_counters {
	SK_SHARED(uint64_t) launches;	  /* kernels that the driver took */
	SK_SHARED(uint64_t) copies;	  /* copies that the driver took */
	SK_SHARED(uint64_t) timed;	  /* of both: a record will follow */
	SK_SHARED(uint64_t) ring_full;	  /* ready, but the ring had no room: made = head + this */
	SK_SHARED(uint64_t) pending_full; /* timed, but the waiting list had no room */
	SK_SHARED(uint64_t) failed;	  /* timed, and the command ended in an error */
	SK_SHARED(uint64_t) unstamped;	  /* timed, but the driver gave no sensible stamps */
	SK_SHARED(uint64_t) lost_ns;	  /* device time of ring_full */
	SK_SHARED(uint64_t) tracer_ns;	  /* time spent in the tracer, by its own clock */
	SK_SHARED(uint64_t) thread_ns;	  /* life of the threads that have left this slot */
	SK_SHARED(uint64_t) opened_ns;	  /* when the present owner came; 0 while free */
	SK_SHARED(uint64_t) seen_ns;	  /* the owner's latest timed call */
	SK_SHARED(uint64_t) host_lost;	  /* kinds from SK_KIND_BARRIER on that have no record */
	SK_SHARED(uint64_t) untimed;	  /* launches and copies under `full` that got no time */
};

struct sk_slot {
	alignas(64) SK_SHARED(uint64_t) head; /* records published so far; release by the writer */
	alignas(64) SK_SHARED(uint64_t) tail; /* records consumed so far; written by the reader */
	alignas(64) SK_SHARED(uint32_t) tid;  /* owner; 0 while free */
	uint32_t ring_records;		      /* a power of two */
	uint64_t ring_offset;
	alignas(64) struct sk_slot_counters counters;
	/* Call time of the oldest launch of a lane without a record yet; 0: none. No record with an
	 * earlier call time will appear, which lets the reader settle a time. */
	alignas(64) SK_SHARED(uint64_t) oldest_ns[SK_SEGMENT_LANES];
	alignas(64) SK_SHARED(uint8_t) oldest_device[SK_SEGMENT_LANES];
	alignas(8) SK_SHARED(uint64_t) calling_ns; /* entry of a timed call that has not returned */
	uint8_t reserved[112];
};
static_assert(sizeof(struct sk_slot) == 512, "slots keep their stride");

/** The agent's request to the tracer, written by the agent alone and valid until the lease ends. */
struct sk_segment_control {
	SK_SHARED(uint64_t) wanted; /* enum sk_mode, budget in ppm << 8, serial << 32; 0: never */
	/* After this time a tracer times nothing, counts for SK_LEASE_COUNTED_S more if that is
	 * cheap, and is dormant then; 0: as it was started. */
	SK_SHARED(uint64_t) lease_ns;
};

/** The tracer's answer to the request. */
struct sk_segment_answer {
	SK_SHARED(uint64_t) applied; /* the `wanted` that is in force */
	SK_SHARED(uint32_t)
	mode; /* enum sk_mode in force; differs from `applied` after the lease */
	SK_SHARED(uint32_t) phase;    /* enum sk_phase, under `governed` */
	SK_SHARED(uint64_t) since_ns; /* of the mode */
	SK_SHARED(uint64_t) switches; /* of modes and phases, all queues moved */
	SK_SHARED(uint64_t)
	switches_late; /* postponed because a call was in a queue; tried again */
	SK_SHARED(uint64_t)
	pinned; /* queues that cannot be moved, so they keep profiling as they were */
};

/** Levels of what a window saw; the worse of two where they overlap. */
enum sk_phase {
	SK_PHASE_TIMED = 1,   /* every launch counted, and timed or sampled as its `shift` says */
	SK_PHASE_COUNTED = 2, /* every launch counted, none timed; no `chosen_ns`: a lease ended */
	SK_PHASE_BLIND = 3,   /* nothing seen; an estimate covers it where `chosen_ns` is not 0 */
};

/** A stretch of time under `governed` or around a change of mode, with the level of what the tracer
 * saw. A launch belongs to the window in which its call began. Windows follow each other without a
 * gap. */
struct sk_window {
	uint64_t from_ns;
	uint64_t to_ns;	    /* exclusive */
	uint32_t phase;	    /* enum sk_phase */
	uint32_t sequence;  /* low half of its index */
	uint64_t chosen_ns; /* of the governed period it is a part of, in every phase; 0: none */
	uint64_t launches;  /* including copies, counted in it */
};
static_assert(sizeof(struct sk_window) == 40, "windows have no padding");

/** A device, and the line that puts its stamps on CLOCK_MONOTONIC. `ready` is stored last. */
struct sk_segment_device {
	SK_SHARED(uint32_t) ready;
	uint32_t type; /* cl_device_type, low half */
	char id[64];
	char name[128];
	char clock[24];
	SK_SHARED(int64_t) offset_ns; /* CLOCK_MONOTONIC minus the device's clock */
	SK_SHARED(int64_t) drift_ppb;
	SK_SHARED(uint64_t) error_ns; /* the widest alignment error so far */
	SK_SHARED(uint64_t) refreshed_ns;
	uint8_t reserved[256];
};
static_assert(sizeof(struct sk_segment_device) == 512, "devices keep their stride");

struct sk_segment_name {
	SK_SHARED(uint32_t) length; /* stored last; 0: no name yet */
	char text[SK_SEGMENT_NAME_BYTES - 4];
};
static_assert(sizeof(struct sk_segment_name) == SK_SEGMENT_NAME_BYTES, "names keep their stride");

struct sk_segment_copies {
	SK_SHARED(uint64_t) count;
	SK_SHARED(uint64_t) bytes;
};

struct sk_segment_header {
	SK_SHARED(uint64_t) magic; /* stored last: until then the reader waits */
	uint32_t version;
	uint32_t pid;
	uint64_t segment_bytes;
	uint64_t created_ns;
	uint32_t mode;
	uint32_t slots; /* usable: 1 .. SK_SEGMENT_SLOTS */
	SK_SHARED(uint32_t) names;
	SK_SHARED(uint32_t) devices;
	char comm[16];
	SK_SHARED(uint64_t) threads_refused; /* launches counted in the shared row, never timed */
	SK_SHARED(uint64_t) names_refused;   /* launches counted as "(other)" for lack of a row */
	SK_SHARED(uint64_t) devices_refused; /* queues on devices beyond the table, never timed */
	SK_SHARED(uint64_t) queues_refused;  /* queues beyond the table, never timed */
	SK_SHARED(uint64_t)
	command_buffers; /* queries of cl_khr_command_buffer, which is not traced */
	SK_SHARED(uint64_t) clock_mismatches; /* stamps outside of their call after calibration */
	SK_SHARED(uint32_t) slots_used;	      /* slots beyond it have never had an owner */
	uint32_t tracer;		      /* enum sk_tracer_kind */
	struct sk_segment_control control;
	struct sk_segment_answer answer;
	SK_SHARED(uint64_t) windows;	    /* windows closed so far; release by the writer */
	SK_SHARED(uint64_t) window_from_ns; /* start of the window that is open; 0: none */
	SK_SHARED(uint64_t) profiler_ns;    /* overhead as the vendor's profiler reports it */
	SK_SHARED(uint64_t) vendor_dropped; /* records the vendor's profiler lost */
	SK_SHARED(uint32_t) stepped_aside;  /* another profiler holds the slot; `holder` names it */
	char holder[60];
	SK_SHARED(uint32_t) timed_call_ns;   /* cost that timing adds to a launch; 0: not known */
	SK_SHARED(uint32_t) counted_call_ns; /* cost that counting adds */
	SK_SHARED(uint64_t)
	hold; /* throttle word of launches, written by the agent; records/throttle.h */
	SK_SHARED(uint64_t) held;    /* launches and copies that have waited for it */
	SK_SHARED(uint64_t) held_ns; /* total wait, over all threads */
	uint32_t holds;		     /* this tracer obeys `hold` */
	SK_SHARED(uint32_t)
	window_drawn; /* 1: the open window is part of a governed period; 0:
			 not, or not told */
	SK_SHARED(uint64_t)
	unjoined; /* records whose call was not seen, so they belong to no thread */
	uint8_t reserved[4096 - 328];
};
static_assert(sizeof(struct sk_segment_header) == 4096, "the header is one page");

struct sk_segment {
	struct sk_segment_header header;
	struct sk_slot slots[SK_SEGMENT_SLOTS];
	struct sk_segment_device devices[SK_SEGMENT_DEVICES];
	struct sk_segment_name names[SK_SEGMENT_NAMES];
	alignas(4096) struct sk_window window[SK_SEGMENT_WINDOWS];
	alignas(4096) struct sk_segment_copies copies[SK_SEGMENT_ROWS][SK_COPY_KINDS];
	alignas(4096) SK_SHARED(uint64_t) counts[SK_SEGMENT_ROWS][SK_SEGMENT_NAMES];
	uint8_t padding[4096 - (SK_SEGMENT_ROWS * SK_SEGMENT_NAMES * 8) % 4096];
};
static_assert(offsetof(struct sk_segment, slots) == 4096, "slots follow the header page");
static_assert(offsetof(struct sk_segment, devices) == 4096 + 32768, "devices follow the slots");
static_assert(offsetof(struct sk_segment, names) == 45056, "names follow the devices");
static_assert(offsetof(struct sk_segment, window) == 94208, "windows follow the names");
static_assert(offsetof(struct sk_segment, copies) == 106496, "copies follow the windows");
static_assert(sizeof(struct sk_segment) % 4096 == 0, "rings start on a page");

static_assert(offsetof(struct sk_segment_header, hold) == 288, "words keep their place");
static_assert(offsetof(struct sk_segment_header, reserved) == 328, "the header has no padding");

/** Return the records of slot `slot`'s ring; the writer lays out the file by this rule too. */
static inline uint32_t sk_segment_ring_records(uint32_t mode, uint32_t slot)
{
	return mode == SK_MODE_FULL && slot < SK_SEGMENT_RINGS_LARGE ? SK_SEGMENT_RING_LARGE
								     : SK_SEGMENT_RING_SMALL;
}

#endif
