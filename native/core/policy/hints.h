/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints: the inputs of choices beyond the state. They are observations, configuration, typical
 * requests, and ratings of nodes kept from one decision to the next. Invariant: they are no part of
 * the state, its digest or its snapshots; a replica without any of them applies the same commands
 * and makes sound choices.
 */
#ifndef SK_CORE_POLICY_HINTS_H
#define SK_CORE_POLICY_HINTS_H

#include "core/policy/frag.h"
#include "core/state/state.h"

#define SK_SHAPES_MAX 512u     /* shapes of requests with ratings kept */
#define SK_BUCKETS 1024u       /* buckets of the hash of shapes, a power of two */
#define SK_BLOCK 64u	       /* node slots are looked at in blocks of this */
#define SK_COUNTED_MAX 512u    /* different requests counted to find the typical ones */
#define SK_CLASSES_EVERY 1024u /* submits between two looks at these counts */

#define SK_SETTLED_LATELY 4096u /* uses of shapes after which one is no longer kept current */

#define SK_SCORE_NONE UINT32_MAX

/* The parts of a request on which a rating of nodes depends; compared byte by byte. */
struct sk_shape_key {
	uint64_t memory_bytes;
	uint64_t device_memory_bytes;
	uint64_t models;
	uint64_t traits;
	uint64_t memory_least;
	uint32_t families;
	uint32_t together;
	uint64_t require[SK_JOB_LABELS_MAX];
	uint64_t avoid[SK_JOB_LABELS_MAX];
	uint64_t tolerate[SK_JOB_LABELS_MAX];
	uint32_t gpu_milli;
	uint32_t cpu_milli;
	uint32_t how;	  /* enum sk_placement */
	uint32_t options; /* SK_MIX_VENDORS */
};

struct sk_shape {
	struct sk_shape_key key;
	uint64_t seen;	     /* changes that its ratings take into account */
	uint64_t generation; /* if not the present one, nothing is rated; 0: not in use */
	uint32_t hash;
	uint16_t next; /* next shape of the bucket, from 1 */
};

/* Free amounts of each node as one array each, so that one pass finds the nodes that may fit. All
 * are below 2^31, and 0 for a node that is not up. */
struct sk_summary {
	uint32_t *cpu;	  /* milli, plus 1 */
	uint32_t *memory; /* MiB, rounded down */
	uint32_t *part;	  /* most free milli of a device */
	uint32_t *whole;  /* entirely free whole devices */
	uint8_t *plain;	  /* 1: up, without labels, and may have another task */
};

struct sk_sampled {
	struct sk_sample sample;
	uint64_t node; /* id of its node; another id: the sample is of another device */
	uint32_t index;
	uint32_t zero;
};

struct sk_kept_evidence {
	struct sk_evidence head;
	struct sk_evidence_side sides[2]; /* the chosen one and the next best */
};

/* A choice holds what a scoring function outside said of the nodes for one attempt of a job. */
struct sk_choice {
	uint64_t job; /* 0: none */
	uint32_t attempt;
	uint16_t reason; /* 0, or why the built-in policy is used instead */
	uint16_t count;
	struct sk_choice_row rows[SK_CANDIDATES_MAX];
};

struct sk_power {
	uint64_t model;
	uint32_t idle_mw;
	uint32_t full_mw;
};

/* A request and its frequency. Requests that differ in memory alone are one; its memory is their
 * mean. */
struct sk_counted {
	uint64_t models;
	uint64_t memory_mib; /* sum over all of them */
	uint32_t cpu_milli;
	uint32_t gpu_milli;
	uint32_t times;
	uint32_t zero;
};

struct sk_hints {
	struct sk_changes changes; /* nodes that `summary` and `prepared` must follow */
	uint64_t generation;	   /* raised when all ratings are void */
	uint64_t clock;		   /* uses of shapes */
	uint32_t end;		   /* node slots below this are rated, a multiple of SK_BLOCK */
	uint32_t stride;	   /* node slots in each array */
	uint64_t *changed_at;	   /* last change of each node slot */
	uint32_t *todo;		   /* slots to rate in one pass, `stride` and some */
	uint32_t settling;	   /* the shape that is brought up to date next */
	struct sk_domains domains;
	struct sk_summary summary;
	struct sk_shape *shapes; /* SK_SHAPES_MAX */
	uint64_t *used_at;	 /* of each shape */
	uint16_t *buckets;	 /* SK_BUCKETS */
	uint32_t *scores;	 /* `stride` for each shape; of FASTEST the words of model_rate.h */
	uint32_t *figures;	 /* `stride`: what the words are by the speeds of one series */

	struct sk_frag_node *prepared; /* one for each node slot */
	uint8_t *prepared_as;	       /* 0: not; else 1 + policy */
	uint8_t *mixed;		       /* prepared node has devices of several models */
	struct sk_frag_table *tables;  /* by policy */
	uint32_t models_n;	       /* number of models with which the tables and `watts` were
					  made */
	uint32_t given;		       /* classes that were given; 0: they are counted */
	struct sk_class *classes;      /* SK_CLASSES_MAX given ones */
	struct sk_counted *counted;    /* SK_COUNTED_MAX */
	uint32_t counted_n;
	uint32_t submits;	    /* since the last look at the counts */
	struct sk_counted *typical; /* SK_CLASSES_MAX classes found by counting */
	uint32_t typical_n;

	struct sk_sampled *samples;	   /* SK_CHUNK_DEVICES for each chunk */
	struct sk_kept_evidence *evidence; /* SK_EVIDENCE_MAX */
	uint64_t evidence_n;		   /* kept so far, overwritten ones among them */
	struct sk_choice *choices;	   /* SK_CHOICES_MAX */
	uint64_t choices_n;		   /* told so far, overwritten ones among them */
	uint64_t *tried;		   /* by job slot: the round in which it was last tried */
	uint64_t rounds;		   /* begun and ended; odd while one goes on */
	struct sk_power power[SK_MODELS_MAX];
	uint32_t power_n;
	struct sk_power watts[SK_MODELS_MAX + 1]; /* by a device's model; model 0: not known */
	uint32_t worst_mw;	/* most that a known device adds; used for unknown ones */
	struct sk_power socket; /* processors: idle and full of one socket */
	uint32_t socket_milli;
};

/* Void all ratings, because something besides the nodes has changed on which they depend. */
void sk_hints_reset(struct sk_hints *hints);

#endif
