/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The private state of the Level Zero tracer, shared by its parts; see load.c for the whole.
 *
 * Invariant: `lock` is held by whoever looks at tables, lists, commands or events; it is never held
 * over a call of the application, only over short questions to the driver. A command is free, being
 * made, recorded in a list that is not immediate, or in flight.
 * Memory: static tables of fixed size, touched as they are used. Threads: any.
 */
#ifndef SK_LEVELZERO_H
#define SK_LEVELZERO_H

#include "levelzero/abi.h"
#include "levelzero/map.h"

#include "clocks/clocks.h"
#include "tracer/tracer.h"

enum {
	SK_ZE_COMMANDS = 1 << 15, /* recorded and in flight together; beyond them counted only */
	SK_ZE_LISTS = 4096,
	SK_ZE_CONTEXTS = 16,
	SK_ZE_POOL_EVENTS = 256, /* of one pool of ours */
	SK_ZE_POOLS = 64,	 /* of one context: 16,384 launches in flight */
	SK_ZE_DEVICES = 16,
	/* What the layer and the driver add to a launch with an event is not ours to measure: this
	 * much is assumed when the share of the windows is worked out. */
	SK_ZE_ASSUMED_NS = 1500,
	SK_ZE_ASSUMED_COUNT_NS = 300,
};

enum sk_ze_state { SK_ZE_FREE, SK_ZE_MADE, SK_ZE_RECORDED, SK_ZE_FLIGHT };

struct sk_ze_command {
	sk_ze event; /* NULL: counted only */
	uint64_t bytes;
	uint64_t queued_ns;
	uint32_t next;		/* of the free, of the list; index + 1 */
	uint32_t before, after; /* in flight; index + 1 */
	uint32_t call_ns;
	uint32_t tid;
	uint32_t correlation;
	uint16_t name;
	uint16_t queue;
	uint16_t context;
	uint8_t device;
	uint8_t kind;
	uint8_t state; /* enum sk_ze_state */
	bool own;      /* the event is one of ours */
	bool once;     /* of an immediate list: free when it is done */
	bool used;     /* our event has been given to the device since it was reset */
};

struct sk_ze_list {
	sk_ze handle;
	uint32_t first, last; /* commands; index + 1 */
	uint32_t unseen;      /* appended, and there was no command for them */
	uint16_t context;
	uint8_t device;
	bool immediate;
};

struct sk_ze_context {
	sk_ze handle;
	sk_ze pools[SK_ZE_POOLS];
	sk_ze free[SK_ZE_POOLS * SK_ZE_POOL_EVENTS];
	uint32_t pool_count;
	uint32_t free_count;
};

struct sk_ze_device {
	sk_ze handle;
	uint64_t hz;
	uint64_t mask;	      /* of readings of the device's clock */
	uint64_t kernel_mask; /* of stamps of kernels */
	uint64_t ticks;	      /* newest reading, without wraps */
	uint64_t fitted_ns;
	struct sk_clock_fit fit;
	struct sk_clock_row line;
	unsigned row; /* of the segment */
};

struct sk_ze_tracer {
	struct sk_ze_functions call;
	sk_ze objects;	/* tracer of what is made and destroyed: always on */
	sk_ze launches; /* tracer of what is launched: off while nothing is to be seen */
	bool configured;
	uint64_t generation; /* of the process in which it was */
	bool launching;	     /* `launches` is on; tick thread and start-up */
	_Atomic uint32_t phase;
	_Atomic uint32_t correlation;
	pthread_mutex_t lock;
	struct sk_ze_map lists, events, pools, kernels;
	struct sk_ze_command commands[SK_ZE_COMMANDS];
	struct sk_ze_list list_rows[SK_ZE_LISTS];
	struct sk_ze_context contexts[SK_ZE_CONTEXTS];
	struct sk_ze_device devices[SK_ZE_DEVICES];
	uint32_t commands_used, command_free; /* index + 1 */
	uint32_t flight_first, flight_last, cursor;
	uint32_t list_count;
	uint32_t context_count;
	uint32_t device_count;
};

extern struct sk_ze_tracer sk_ze_it;

/** True in a thread of ours, whose calls are nobody's. */
extern _Thread_local bool sk_ze_inside;

/** A call that is none of the application's, or in a forked child, where handles of the driver are
 * good for nothing: it is not traced. */
static inline bool sk_ze_stays_out(void)
{
	return sk_ze_inside || atomic_load_explicit(&sk_tracer->generation, memory_order_relaxed) !=
				       sk_ze_it.generation;
}

/** A call of ours from inside of a call of the application; the layer does not call back for it
 * either, but this does not depend on that. */
#define SK_ZE_OURS(call)                                                                           \
	({                                                                                         \
		bool was_inside = sk_ze_inside;                                                    \
		sk_ze_inside = true;                                                               \
		int answered = (call);                                                             \
		sk_ze_inside = was_inside;                                                         \
		answered;                                                                          \
	})

/** Values of `events`: whether an event has stamps, and the command in flight that it is for. */
static inline uint64_t sk_ze_event_value(bool stamps, uint32_t command)
{
	return (uint64_t)command << 1 | stamps;
}

/* objects.c: what is made, reset and destroyed. */
bool sk_ze_watch_objects(void *library);
struct sk_ze_list *sk_ze_find_list(sk_ze handle);
/** Row of the kernel's name; may ask the driver. Without `lock`. */
unsigned sk_ze_kernel_row(sk_ze kernel);

/* launches.c: what is appended and executed. */
bool sk_ze_watch_launches(void *library);

/* commands.c: with `lock` held. */
struct sk_ze_command *sk_ze_command_take(void);
void sk_ze_command_give(struct sk_ze_command *command);
/** In flight from now on. */
void sk_ze_command_arm(struct sk_ze_command *command);
/** Is it done? Then its record is written by the calling thread. */
bool sk_ze_command_harvest(struct sk_ze_command *command);
/** It will not be known: counted, and no longer in flight. */
void sk_ze_command_lose(struct sk_ze_command *command);
/** Every list of commands that `list` has, given back. */
void sk_ze_list_clear(struct sk_ze_list *list);
/** What lists that are not immediate have in flight is recorded or lost. */
void sk_ze_settle_lists(void);
/** Without `lock`: a look at all in flight, a few at a time; when the oldest was called, or 0. */
uint64_t sk_ze_harvest_all(void);

/* events.c: with `lock` held. An event of ours for this context, reset; NULL: no more. */
sk_ze sk_ze_event_take(uint16_t context);
void sk_ze_event_give(uint16_t context, sk_ze event);
/** Number of a context, made when new; SK_ZE_CONTEXTS: too many. */
uint16_t sk_ze_context_number(sk_ze handle);
void sk_ze_context_forget(sk_ze handle);

/* device.c: devices and their clocks; with `lock` held but for the first. */
uint8_t sk_ze_device_number(sk_ze handle);
void sk_ze_device_fit(struct sk_ze_device *device, uint64_t now_ns);
/** A kernel's stamp on CLOCK_MONOTONIC. */
uint64_t sk_ze_device_place(const struct sk_ze_device *device, uint64_t stamp);

/* adapter.c */
extern const struct sk_tracer_adapter sk_ze_adapter;

#endif
