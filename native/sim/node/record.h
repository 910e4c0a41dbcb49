/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The record of a simulated node: its cards, the script of faults, queued events and counted calls.
 *
 * Invariant: plain data of a fixed size, since several processes have it mapped; `lock` guards all
 * of it, and no count in it is trusted.
 */
#ifndef SK_SIM_NODE_RECORD_H
#define SK_SIM_NODE_RECORD_H

#include <pthread.h>

#include "sim/card/card.h"

enum {
	SK_SIM_FAULTS = 64,
	SK_SIM_EVENTS = 256,
	SK_SIM_CALLS = 1024,		/* functions whose calls are counted */
	SK_SIM_EVENTS_OF_ONE = 1 << 20, /* the most events of one fault */
};

enum sk_sim_clock { SK_SIM_REAL, SK_SIM_VIRTUAL };

enum sk_sim_fault_kind {
	SK_SIM_FAULT_NONE,
	SK_SIM_FAULT_XID,     /* value: number; comes as an event */
	SK_SIM_FAULT_ECC,     /* value: bit 0 uncorrected; count */
	SK_SIM_FAULT_LOST,    /* the card is off the bus until `until_ns` */
	SK_SIM_FAULT_HANG,    /* matching calls do not return before `until_ns` */
	SK_SIM_FAULT_SLOW,    /* matching calls take value ns longer */
	SK_SIM_FAULT_ERROR,   /* matching calls return value, a vendor's own code */
	SK_SIM_FAULT_VERSION, /* structures of matching calls have the wrong version */
	SK_SIM_FAULT_RELOAD,  /* driver gone, then back with another version: mismatch until then */
	SK_SIM_FAULT_LINK,    /* value: port; down, or errors by count */
	SK_SIM_FAULT_HEAT,    /* value: rise of the ambient temperature in mC */
	SK_SIM_FAULT_BRAKE,   /* external power brake */
	SK_SIM_FAULT_STUCK,   /* the power sensor keeps its value */
	SK_SIM_FAULT_DROP,    /* value: per mille of readings that fail */
	SK_SIM_FAULT_PERMISSION,
	SK_SIM_FAULT_RECOVERY, /* value: recovery action */
	SK_SIM_FAULT_PAGES,    /* retired pages, rows to remap: count */
	SK_SIM_FAULT_PCIE,     /* `count` PCIe packets are replayed */
	SK_SIM_FAULT_RESET,    /* the card is reset, as by an operator */
	SK_SIM_FAULT_KINDS,
};

struct sk_sim_fault {
	uint32_t kind;
	uint32_t card;	   /* or UINT32_MAX: every card */
	uint64_t from_ns;  /* on the node's clock, counted from its start */
	uint64_t until_ns; /* 0: never ends */
	int64_t value;
	uint64_t count; /* of events, spread evenly from `from_ns` to `until_ns` where
			   there is one; at most SK_SIM_EVENTS_OF_ONE */
	char call[48];	/* function, or a part of its name; empty: any */
	uint32_t done;	/* bit 0: has begun, bit 1: has ended */
	uint32_t reserved;
	uint64_t given; /* events given so far */
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
	uint64_t latency_ns; /* latency of a driver's call; it advances virtual time */
	uint64_t reloads; /* reloads of the driver; a process must initialise it again after each */
	uint32_t open;	  /* any user may change settings, not only root */
	char profile[32];
	uint32_t told;	 /* grows with each event and each change of the script; a futex */
	uint64_t events; /* the number of events so far; `event` keeps the newest */
	struct sk_sim_event event[SK_SIM_EVENTS];
	struct sk_sim_fault fault[SK_SIM_FAULTS];
	uint64_t fault_ns;	       /* next time of the script; UINT64_MAX: never */
	uint32_t faults_on;	       /* number of active faults */
	uint64_t calls, not_supported; /* calls of all driver functions so far */
	struct {
		char name[56];
		uint64_t calls, not_supported;
	} call[SK_SIM_CALLS]; /* hashed by name */
	struct sk_sim_card card[SK_SIM_CARDS];
};

/** Number of cards, bounded whatever the file has. */
static inline uint32_t sk_sim_node_cards(const struct sk_sim_node *node)
{
	return node->cards < SK_SIM_CARDS ? node->cards : SK_SIM_CARDS;
}

#endif
