/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A thread that makes the same calls into a vendor's driver at a fixed pace and keeps what they
 * say: the newest answers of all as one snapshot, and chosen numbers of them in rings.
 *
 * Relied on by agent/devices/, which writes the plan from the vendor's own binding: functions by
 * their addresses in the library that the binding has loaded, and where each puts its answer.
 * Python then reads what is wanted when it is wanted; a wake-up of it for each card ten times a
 * second costs several times what the calls do. Invariant: nothing is held while a driver is
 * called, so that a call that never returns takes this thread alone, and readers see which call it
 * is.
 */
#ifndef SK_DEVICES_READER_H
#define SK_DEVICES_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SK_READER_STEPS = 128,
	SK_READER_ARGUMENTS = 6, /* what both supported ABIs pass in registers */
	SK_READER_TAPS = 16,
	SK_READER_MEMORY = 1 << 17,
	SK_READER_POINTS = 600,	     /* a minute at 10 Hz */
	SK_READER_SAMPLES_MAX = 256, /* of one answer */
	SK_READER_GUARDS = 128,
};

/** One call. An argument is a number, or a place in the reader's memory. `offset` and `bytes` are
 * what it fills: as the plan has it before each call, and kept until its next one. */
struct sk_reader_step {
	uint64_t function; /* its address */
	uint64_t argument[SK_READER_ARGUMENTS];
	uint32_t inside; /* bits: this argument is an offset into the memory */
	uint32_t past;	 /* bits: it is so many us ago, in CLOCK_REALTIME us */
	uint32_t arguments;
	uint32_t every, turn; /* made in rounds that leave `turn` when divided by it */
	uint32_t offset, bytes;
};

enum sk_reader_kind {
	SK_READER_U16,
	SK_READER_U32,
	SK_READER_U64,
	SK_READER_I32,
	SK_READER_F64,
	SK_READER_NVML,	   /* an nvmlFieldValue_t: its own code and type say what it is */
	SK_READER_SAMPLES, /* nvmlSample_t of a driver's own buffer at `offset`, their number at
			      `lag`; kept with their own times, each once. One of a plan */
	SK_READER_RATE, /* of another tap, per second, over `lag` rounds; `offset` is 0, or one more
			   than the tap that has the seconds by which the driver counts */
};

/** A number whose history is kept. All ones are no value, where `gaps` says so. */
struct sk_reader_tap {
	uint32_t kind; /* enum sk_reader_kind */
	uint32_t step; /* or, of a rate, the tap */
	uint32_t offset;
	uint32_t lag;
	double scale;
	bool gaps;
};

struct sk_reader_plan {
	uint32_t steps, taps, slow; /* every so many rounds all of a plan was asked for */
	struct sk_reader_step step[SK_READER_STEPS];
	struct sk_reader_tap tap[SK_READER_TAPS];
	uint32_t bytes;
	uint8_t memory[SK_READER_MEMORY]; /* as it is before each round */
	uint64_t period_ns, phase_ns;
};

struct sk_reader_snapshot {
	uint64_t rounds; /* 0: there was none yet */
	int64_t t_ns;	 /* CLOCK_REALTIME, after its last call */
	int32_t code[SK_READER_STEPS];
	uint8_t memory[SK_READER_MEMORY];
};

struct sk_reader_moment {
	uint64_t rounds;
	int64_t t_ns; /* CLOCK_REALTIME, after its last call */
};

struct sk_reader_state {
	int32_t doing;	   /* step that the thread is inside of; -1: none */
	uint64_t since_ns; /* CLOCK_MONOTONIC, of `doing` */
	uint64_t rounds, late, missed, calls;
	uint64_t codes; /* rounds in which a call's code was another than before */
};

/** What somebody is to be told of at once: a tap at a level or above it, each round, or bits of an
 * answer that are others than in the round before. */
struct sk_reader_guard {
	uint32_t tap;	 /* of a level; of bits SK_READER_TAPS */
	uint32_t step;	 /* of bits: whose answer */
	uint32_t offset; /* of eight bytes of the memory */
	uint64_t mask;
	double level;
};

struct sk_reader;

/** Start the thread; -EINVAL for a plan that leaves its bounds. */
int sk_reader_start(const struct sk_reader_plan *plan, struct sk_reader **ret);

/** End the thread and free everything; one that hangs in a call is left behind with its memory. */
void sk_reader_stop(struct sk_reader *reader);

/** Copy the last whole round: a code for each step, and as much memory as the plan has. Returns
 * when and which it was; rounds of 0: there was none yet. */
struct sk_reader_moment sk_reader_copy(struct sk_reader *reader, int32_t *codes, uint8_t *memory);

/** Newest value of each tap; NAN for none. `ret` has room for all of them. Returns the rounds. */
uint64_t sk_reader_latest(struct sk_reader *reader, double *ret);
struct sk_reader_state sk_reader_state(const struct sk_reader *reader);

/** From now on write to this eventfd, which does not block, after each round in which a call
 * answered otherwise than before (by its code) or a guard applies, and after each `rest`th of those
 * in which all was asked for; -1: no more, and the descriptor
 * may be closed. -EINVAL for guards that leave the plan. */
int sk_reader_watch(struct sk_reader *reader, int eventfd, uint32_t rest, uint32_t guards,
		    const struct sk_reader_guard *guard);
/** How often it was written to. */
uint64_t sk_reader_rings(const struct sk_reader *reader);

/** Newest `most` points of a tap after `since_ns`, the oldest first; rounds without a value are
 * left out. Returns how many. */
uint32_t sk_reader_points(struct sk_reader *reader, uint32_t tap, int64_t since_ns, uint32_t most,
			  int64_t *t_ns, double *values);

#endif
