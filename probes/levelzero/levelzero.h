/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The private state of the Level Zero tracer, shared by its parts; load.c describes the whole.
 *
 * Invariant: a thread that looks at tables, lists, commands or events has `lock`. The lock is never
 * held over a call of the application, only over short queries to the driver. A command is free,
 * being made, recorded in a list that is not immediate, or in flight.
 *
 * Memory: static tables of fixed size, touched as they are used. Threads: any.
 */
#ifndef SK_LEVELZERO_LEVELZERO_H
#define SK_LEVELZERO_LEVELZERO_H

#include "levelzero/abi.h"
#include "levelzero/map.h"

#include "clocks/clocks.h"
#include "tracer/tracer.h"

enum {
	SK_LEVELZERO_COMMANDS = 1 << 15, /* commands recorded and in flight together; beyond them
				     launches are only counted */
	SK_LEVELZERO_LISTS = 4096,
	SK_LEVELZERO_CONTEXTS = 16,
	SK_LEVELZERO_POOL_EVENTS = 256, /* events of one pool */
	SK_LEVELZERO_POOLS = 64,	/* pools of one context: 16,384 launches in flight */
	SK_LEVELZERO_DEVICES = 16,
	/* The cost that the layer and the driver add to a launch with an event cannot be measured
	 * from inside, so windows are planned with these assumptions. */
	SK_LEVELZERO_ASSUMED_NS = 1500,
	SK_LEVELZERO_ASSUMED_COUNT_NS = 300,
};

enum sk_levelzero_state {
	SK_LEVELZERO_FREE,
	SK_LEVELZERO_MADE,
	SK_LEVELZERO_RECORDED,
	SK_LEVELZERO_FLIGHT
};

struct sk_levelzero_command {
	sk_levelzero_handle event; /* NULL: the launch is only counted */
	uint64_t bytes;
	uint64_t queued_ns;
	uint32_t next;		/* next free one, or next in the list; index + 1 */
	uint32_t before, after; /* neighbours in flight; index + 1 */
	uint32_t call_ns;
	uint32_t tid;
	uint32_t correlation;
	uint16_t name;
	uint16_t queue;
	uint16_t context;
	uint8_t device;
	uint8_t kind;
	uint8_t state; /* enum sk_levelzero_state */
	bool own;      /* the event is the tracer's own */
	bool once;     /* the list is immediate: the command is free when it is done */
	bool used;     /* the tracer's event has been given to the device since it was reset */
};

struct sk_levelzero_list {
	sk_levelzero_handle handle;
	uint32_t first, last; /* first and last command; index + 1 */
	uint32_t unseen;      /* launches appended without a command, because none was free */
	uint16_t context;
	uint8_t device;
	bool immediate;
};

struct sk_levelzero_context {
	sk_levelzero_handle handle;
	sk_levelzero_handle pools[SK_LEVELZERO_POOLS];
	sk_levelzero_handle free[SK_LEVELZERO_POOLS * SK_LEVELZERO_POOL_EVENTS];
	uint32_t pool_count;
	uint32_t free_count;
};

struct sk_levelzero_device {
	sk_levelzero_handle handle;
	uint64_t hz;
	uint64_t mask;	      /* bits of the device's counter */
	uint64_t kernel_mask; /* bits of a kernel's stamps */
	uint64_t ticks;	      /* newest reading, wraps included */
	uint64_t fitted_ns;
	struct sk_clock_fit fit;
	struct sk_clock_row line;
	unsigned row; /* row of the segment */
};

struct sk_levelzero_tracer {
	struct sk_levelzero_functions call;
	sk_levelzero_handle objects;  /* tracer of objects: always on */
	sk_levelzero_handle launches; /* tracer of launches: off while nothing is to be seen */
	bool configured;
	uint64_t generation; /* generation of the process in which it was configured */
	bool launching;	     /* `launches` is on; tick thread and start-up */
	_Atomic uint32_t phase;
	_Atomic uint32_t correlation;
	pthread_mutex_t lock;
	struct sk_levelzero_map lists, events, pools, kernels;
	struct sk_levelzero_command commands[SK_LEVELZERO_COMMANDS];
	struct sk_levelzero_list list_rows[SK_LEVELZERO_LISTS];
	struct sk_levelzero_context contexts[SK_LEVELZERO_CONTEXTS];
	struct sk_levelzero_device devices[SK_LEVELZERO_DEVICES];
	uint32_t commands_used, command_free; /* index + 1 */
	uint32_t flight_first, flight_last, cursor;
	uint32_t list_count;
	uint32_t context_count;
	uint32_t device_count;
};

extern struct sk_levelzero_tracer sk_levelzero;

/** True in a thread while its calls are the tracer's and not the application's. */
extern _Thread_local bool sk_levelzero_inside;

/** Return whether a call is not traced: it is the tracer's own, or the process is a forked child,
 * where handles of the driver are invalid. */
static inline bool sk_levelzero_stays_out(void)
{
	return sk_levelzero_inside ||
	       atomic_load_explicit(&sk_tracer->generation, memory_order_relaxed) !=
		       sk_levelzero.generation;
}

/** Make a call of the tracer inside of a call of the application. The layer does not call back for
 * it either, but this does not depend on that. */
#define SK_LEVELZERO_OURS(call)                                                                    \
	({                                                                                         \
		bool was_inside = sk_levelzero_inside;                                             \
		sk_levelzero_inside = true;                                                        \
		int answered = (call);                                                             \
		sk_levelzero_inside = was_inside;                                                  \
		answered;                                                                          \
	})

/** Return a value of the map `events`: whether an event has stamps, and the command in flight that
 * it is for. */
static inline uint64_t sk_levelzero_event_value(bool stamps, uint32_t command)
{
	return (uint64_t)command << 1 | stamps;
}

/* objects.c: objects that are made, reset and destroyed */
bool sk_levelzero_watch_objects(void *library);
struct sk_levelzero_list *sk_levelzero_find_list(sk_levelzero_handle handle);
/** Return the row of the kernel's name; may query the driver. Without `lock`. */
unsigned sk_levelzero_kernel_row(sk_levelzero_handle kernel);

/* launches.c: launches that are appended and executed */
bool sk_levelzero_watch_launches(void *library);

/* commands.c, with `lock` held */
struct sk_levelzero_command *sk_levelzero_command_take(void);
void sk_levelzero_command_give(struct sk_levelzero_command *command);
/** Put a command in flight. */
void sk_levelzero_command_arm(struct sk_levelzero_command *command);
/** Return whether a command is done. If it is, the calling thread has written its record. */
bool sk_levelzero_command_harvest(struct sk_levelzero_command *command);
/** Take a command out of flight whose time will not be known; it is counted. */
void sk_levelzero_command_lose(struct sk_levelzero_command *command);
/** Give back all commands of `list`. */
void sk_levelzero_list_clear(struct sk_levelzero_list *list);
/** Record or lose the commands that lists which are not immediate have in flight. */
void sk_levelzero_settle_lists(void);
/** Look at all commands in flight, a few at a time. Returns when the oldest one was called, or 0.
 * Without `lock`. */
uint64_t sk_levelzero_harvest_all(void);

/* events.c, with `lock` held. Take a reset event of the tracer for this context; NULL: no more. */
sk_levelzero_handle sk_levelzero_event_take(uint16_t context);
void sk_levelzero_event_give(uint16_t context, sk_levelzero_handle event);
/** Return the number of a context, made when it is new; SK_LEVELZERO_CONTEXTS: too many. */
uint16_t sk_levelzero_context_number(sk_levelzero_handle handle);
void sk_levelzero_context_forget(sk_levelzero_handle handle);

/* device.c: devices and their clocks, with `lock` held except for the first call */
uint8_t sk_levelzero_device_number(sk_levelzero_handle handle);
void sk_levelzero_device_fit(struct sk_levelzero_device *device, uint64_t now_ns);
/** Return a kernel's stamp on CLOCK_MONOTONIC. */
uint64_t sk_levelzero_device_place(const struct sk_levelzero_device *device, uint64_t stamp);

/* adapter.c */
extern const struct sk_tracer_adapter sk_levelzero_adapter;

#endif
