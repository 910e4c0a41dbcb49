/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A simulated node: cards, their faults and their clock, in one file that every process of the
 * simulation has mapped.
 *
 * There is no server: whoever calls a driver takes the node's lock, moves the cards to the present
 * and reads or writes them. Invariant: the lock is robust, so a process killed inside of it leaves
 * the cards readable, and a call that hangs, or is slow, holds no lock meanwhile.
 */
#ifndef SK_SIM_NODE_H
#define SK_SIM_NODE_H

#include <pthread.h>

#include "sim/card.h"

enum {
	SK_SIM_FAULTS = 64,
	SK_SIM_EVENTS = 256,
	SK_SIM_CALLS = 1024,		/* functions whose calls are counted */
	SK_SIM_EVENTS_OF_ONE = 1 << 20, /* fault */
};

/** Where the node is found: a path in this variable. */
#define SK_SIM_VARIABLE "STOKER_SIM_NODE"

enum sk_sim_clock { SK_SIM_REAL, SK_SIM_VIRTUAL };

enum sk_sim_fault_kind {
	SK_SIM_FAULT_NONE,
	SK_SIM_FAULT_XID,     /* value: number; comes as an event */
	SK_SIM_FAULT_ECC,     /* value: bit 0 uncorrected; count */
	SK_SIM_FAULT_LOST,    /* off the bus until `until_ns` */
	SK_SIM_FAULT_HANG,    /* matching calls do not return before `until_ns` */
	SK_SIM_FAULT_SLOW,    /* matching calls take value ns longer */
	SK_SIM_FAULT_ERROR,   /* matching calls return value, a vendor's own code */
	SK_SIM_FAULT_VERSION, /* structs of matching calls are refused as of the wrong version */
	SK_SIM_FAULT_RELOAD,  /* driver gone, then back with another version: mismatch until then */
	SK_SIM_FAULT_LINK,    /* value: port; down, or errors by count */
	SK_SIM_FAULT_HEAT,    /* value: ambient raised by so many mC */
	SK_SIM_FAULT_BRAKE,   /* external power brake */
	SK_SIM_FAULT_STUCK,   /* the power sensor keeps its value */
	SK_SIM_FAULT_DROP,    /* value: per mille of readings that fail */
	SK_SIM_FAULT_PERMISSION,
	SK_SIM_FAULT_RECOVERY, /* value: recovery action */
	SK_SIM_FAULT_PAGES,    /* retired pages, rows to remap: count */
	SK_SIM_FAULT_PCIE,     /* count packets are sent again over the slot */
	SK_SIM_FAULT_RESET,    /* the card is reset, as somebody would */
	SK_SIM_FAULT_KINDS,
};

struct sk_sim_fault {
	uint32_t kind;
	uint32_t card;	   /* or UINT32_MAX: every card */
	uint64_t from_ns;  /* on the node's clock, counted from its start */
	uint64_t until_ns; /* 0: for good */
	int64_t value;
	uint64_t count; /* of events, spread evenly from `from_ns` to `until_ns` where
			   there is one; at most SK_SIM_EVENTS_OF_ONE */
	char call[48];	/* function, or a part of its name; empty: any */
	uint32_t done;	/* bit 0: has begun, bit 1: has ended */
	uint32_t reserved;
	uint64_t given; /* events so far */
};

/** An entry of a driver's event queue; numbered from 1. */
struct sk_sim_event {
	uint64_t number;
	uint64_t at_ns;
	uint32_t card;
	uint32_t kind;	/* enum sk_sim_fault_kind that caused it */
	uint64_t value; /* Xid */
};

struct sk_sim_node {
	uint64_t magic, version, bytes;
	pthread_mutex_t lock; /* robust, shared */
	uint32_t clock;	      /* enum sk_sim_clock */
	uint32_t cards;
	uint64_t seed;
	uint64_t start_ns;   /* CLOCK_MONOTONIC, or 0 for virtual time */
	uint64_t now_ns;     /* since the start */
	uint64_t epoch_ns;   /* CLOCK_REALTIME at the start; in virtual time always the same */
	uint64_t chance;     /* state of the generator for dropped readings and the like */
	uint64_t latency_ns; /* of every call of a driver; virtual time passes by it */
	uint64_t reloads;    /* of the driver: who began before one must begin again */
	uint32_t open;	     /* whoever calls may change settings, as root may */
	char profile[32];
	uint64_t events; /* ever */
	struct sk_sim_event event[SK_SIM_EVENTS];
	struct sk_sim_fault fault[SK_SIM_FAULTS];
	uint64_t fault_ns;	       /* when the script next wants something; UINT64_MAX: never */
	uint32_t faults_on;	       /* so many of it last now */
	uint64_t calls, not_supported; /* ever, of all driver functions */
	struct {
		char name[56];
		uint64_t calls, not_supported;
	} call[SK_SIM_CALLS]; /* hashed by name */
	struct sk_sim_card card[SK_SIM_CARDS];
};

/** So many cards there are, whatever is written in the file. */
static inline uint32_t sk_sim_node_cards(const struct sk_sim_node *node)
{
	return node->cards < SK_SIM_CARDS ? node->cards : SK_SIM_CARDS;
}

/** Make a node of these models at `path`; -EEXIST if there is one. Others than
 * its owner may read it alone. */
int sk_sim_node_create(const char *path, const char *profile, const struct sk_sim_model *models,
		       uint32_t count, enum sk_sim_clock clock, uint64_t seed);

/** Map the node at `path`, or where the environment says; -ENOENT, -EPROTO.
 * Once in a process. Who may read it alone has a copy, as it was just now, that
 * goes on by itself: what is done to that one nobody else sees. */
int sk_sim_node_open(const char *path, struct sk_sim_node **ret);
void sk_sim_node_close(struct sk_sim_node *node);

/** In the caller's memory, unshared, in virtual time: for simulations in one process. -EINVAL. */
int sk_sim_node_init(struct sk_sim_node *node, const struct sk_sim_model *models, uint32_t count,
		     uint64_t seed);

/** Lock, and move every card to the present, faults of the script included. Returns the time. */
uint64_t sk_sim_node_enter(struct sk_sim_node *node);

/** Lock the node and move only this card to the present; UINT32_MAX: none. */
uint64_t sk_sim_node_enter_card(struct sk_sim_node *node, uint32_t card);
void sk_sim_node_leave(struct sk_sim_node *node);

/** Move without taking the lock, which the caller has or does not need: a node of one process. */
void sk_sim_node_move(struct sk_sim_node *node, uint64_t to_ns);

/** Virtual time only: let so much pass. */
void sk_sim_node_advance(struct sk_sim_node *node, uint64_t ns);

/** Add to the script; returns its slot. -EINVAL for no such kind or card, -ENOSPC past the limit.
 */
int sk_sim_node_inject(struct sk_sim_node *node, const struct sk_sim_fault *fault);

/** End every fault of the script now. */
void sk_sim_node_heal(struct sk_sim_node *node);

enum sk_sim_answer {
	SK_SIM_ANSWER_OK,
	SK_SIM_ANSWER_LOST,
	SK_SIM_ANSWER_REFUSED,	/* permission */
	SK_SIM_ANSWER_RELOADED, /* driver and library mismatch */
	SK_SIM_ANSWER_VERSION,
	SK_SIM_ANSWER_ERROR, /* `error` has the vendor's own code; 0: unknown */
	SK_SIM_ANSWER_UNINITIALIZED,
};

/** Every driver function begins here, without the lock: it is counted, takes its time, may hang,
 * and may fail. `card` is UINT32_MAX where the function is of no card. */
enum sk_sim_answer sk_sim_node_call(struct sk_sim_node *node, const char *function, uint32_t card,
				    int64_t *error);

/** Count a call; the lock is held afterwards if it may go on, and that card is at the present. */
enum sk_sim_answer sk_sim_node_call_enter(struct sk_sim_node *node, const char *function,
					  uint32_t card, int64_t *error);

/** A function that is exported and does nothing: counted. */
void sk_sim_node_not_supported(struct sk_sim_node *node, const char *function);

/** Decide a call inside the lock, for a function that sk_sim_node_call has counted. */
void sk_sim_node_note_not_supported(struct sk_sim_node *node, const char *function);

/** The generator that orders of chance come from: uniform in [0, 1). */
double sk_sim_node_chance(struct sk_sim_node *node);

#endif
