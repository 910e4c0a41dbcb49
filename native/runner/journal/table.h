/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The journal of the runner: one mapped file of fixed slots, one for each attempt that is not yet
 * acknowledged.
 *
 * A slot goes through TAKEN -> LAUNCHING -> STARTED -> ENDED -> FREE. Each step writes its part,
 * then its CRC, then publishes the state, so a process killed at any instruction leaves either the
 * old step or the new one. Stores reach the page cache at once and survive every process. They need
 * not survive the machine: a changed boot id in the header says that it went down and none of its
 * jobs runs.
 *
 * Slots are used instead of appended records because nothing grows or is compacted, a full disk
 * cannot prevent an exit status from being recorded (blocks are written at creation), and no step
 * is a system call.
 *
 * Threads: the spawner publishes TAKEN and FREE; the slot's shim publishes the rest, or the spawner
 * once that shim is known to be dead. `state` is release/acquire.
 */
#ifndef SK_RUNNER_JOURNAL_TABLE_H
#define SK_RUNNER_JOURNAL_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/wire/wire.h"

enum {
	SK_TABLE_VERSION = 3,
	SK_SLOTS_MAX =
		4096, /* attempts at once on a node, ended and unacknowledged ones included */
	SK_FORGOTTEN = 16384, /* acknowledged attempts that are still recognised */
	SK_BOOT_ID = 40,
};

enum sk_runner_slot_state {
	SK_SLOT_FREE = 0,
	SK_SLOT_TAKEN = 1,     /* recorded; no instruction of the job can have run. One that
				  gathers waits here until it is released */
	SK_SLOT_LAUNCHING = 2, /* the process is about to exist, or does */
	SK_SLOT_STARTED = 3,
	SK_SLOT_ENDED = 4,
};

/** The launch, as the agent requested it. */
struct sk_runner_taken {
	struct sk_runner_key key;
	uint32_t uid;
	uint32_t flags; /* enum sk_runner_launch_flag */
	uint64_t t_ns;
	uint32_t folder_bytes;
	char folder[SK_PATH_MAX + 1];
	uint32_t crc;
};

/** The start. */
struct sk_runner_started {
	uint64_t cgroup_id;
	uint64_t t_ns;
	uint32_t pid;
	uint32_t crc;
};

/** The end. */
struct sk_runner_ended {
	uint64_t t_ns;
	uint64_t cpu_ns;
	uint64_t memory_peak;
	uint64_t out_bytes;
	uint64_t err_bytes;
	uint64_t dropped_bytes;
	int32_t code;
	int32_t signal;
	uint16_t cause;
	uint16_t bits;
	uint32_t text_bytes;
	char text[SK_TEXT_MAX + 1];
	uint32_t spare;
	uint32_t crc;
};

/** Requests of the spawner to a running shim, and one answer; SIGUSR1 wakes the shim after a
 * change.
 */
struct sk_runner_control {
	_Atomic uint64_t ready_ns; /* by the shim: when it began to wait for its release; 0: not */
	_Atomic uint32_t stops;	   /* grows by one per stop request */
	_Atomic uint32_t stdin_eof;
	_Atomic uint64_t stdin_bytes;
	_Atomic uint64_t grace_ns;
	_Atomic uint32_t overdue;  /* its start was ended from outside */
	_Atomic uint32_t released; /* it may run: all that it waited for are ready */
	uint32_t announced; /* enum sk_runner_event_bit: events that the agent acknowledged */
	char reason[SK_REASON_MAX + 1];
	uint64_t cgroup_id;	 /* by the shim, before ready_ns: of the tree in which it waits */
	_Atomic uint32_t signal; /* of the newest stop request, as in sk_runner_stop */
	uint32_t spare;
};

struct sk_runner_slot {
	_Atomic uint32_t state;
	_Atomic uint32_t shim; /* its process id, trusted only while the slot's lock is held */
	struct sk_runner_taken taken;
	struct sk_runner_started started;
	struct sk_runner_ended ended;
	struct sk_runner_control control;
	char spare[1024 - 8 - sizeof(struct sk_runner_taken) - sizeof(struct sk_runner_started) -
		   sizeof(struct sk_runner_ended) - sizeof(struct sk_runner_control)];
};
_Static_assert(sizeof(struct sk_runner_slot) == 1024, "slot");

struct sk_runner_table {
	char magic[8];
	uint32_t version;
	uint32_t slot_bytes;
	uint32_t slots;
	uint32_t forgotten_slots;
	char boot_id[SK_BOOT_ID];
	uint32_t spare;
	uint32_t crc;
	_Atomic uint64_t forgotten_count;
	char pad[512 - 80];
	/** Hints: bit i is set after slot i ended. A reader that reads them all reads `state` as
	 * well. */
	_Atomic uint64_t ended[SK_SLOTS_MAX / 64];
	char pad2[4096 - 1024];
	struct sk_runner_key forgotten[SK_FORGOTTEN];
	struct sk_runner_slot slot[SK_SLOTS_MAX];
};
_Static_assert(offsetof(struct sk_runner_table, forgotten) == 4096, "table");
_Static_assert(offsetof(struct sk_runner_table, slot) % 4096 == 0, "table");

/** Map `path`, and make it if it is missing. `ret_why` has room for SK_TEXT_MAX + 1.
 *
 * @return 0; -EBADMSG if the stored data contradict themselves (then *ret_why names the
 * contradiction and nothing was changed); another negative errno of a system call. */
int sk_runner_table_open(const char *path, struct sk_runner_table **ret, char *ret_why);

/** Return whether the stored slots are of this boot of the machine. */
bool sk_runner_table_same_boot(const struct sk_runner_table *table, const char *boot_id);

/** Record this boot of the machine in the header. */
void sk_runner_table_stamp(struct sk_runner_table *table, const char *boot_id);

/** Return 0, or -EBADMSG and a sentence if a published part of slot `index` contradicts its CRC. */
int sk_runner_slot_check(const struct sk_runner_table *table, uint32_t index, char *ret_why);

enum sk_runner_slot_state sk_runner_slot_state(const struct sk_runner_slot *slot);

/** Return whether the attempt is ready and no instruction of it has run. */
bool sk_runner_slot_waits(const struct sk_runner_slot *slot);

/** FREE -> TAKEN; also clears the record of the last attempt. */
void sk_runner_slot_take(struct sk_runner_slot *slot, const struct sk_runner_launch_view *launch,
			 uint64_t t_ns);

/** TAKEN -> LAUNCHING: from here on a dead shim means `lost`, not `never started`. */
void sk_runner_slot_launch(struct sk_runner_slot *slot);

/** LAUNCHING -> STARTED. */
void sk_runner_slot_start(struct sk_runner_slot *slot, uint32_t pid, uint64_t cgroup_id,
			  uint64_t t_ns);

/** Any -> ENDED; `ended->crc` is filled in. */
void sk_runner_slot_end(struct sk_runner_table *table, uint32_t index,
			const struct sk_runner_ended *ended);

/** ENDED -> FREE; the attempt is remembered unless it never started. */
void sk_runner_slot_forget(struct sk_runner_table *table, uint32_t index);

/** Write the slot as an event for the agent; its text is `slot->ended.text`. */
void sk_runner_slot_event(const struct sk_runner_slot *slot, struct sk_runner_event *ret);

/** Return the CRC-32C of `size` bytes. */
uint32_t sk_runner_crc32c(const void *bytes, size_t size);

#endif
