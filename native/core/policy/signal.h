/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals: what the samples of a device mean to a placement, as one figure where the lowest is
 * best. Invariant: a figure depends on the newest sample, the tables of watts and the device alone.
 */
#ifndef SK_CORE_POLICY_SIGNAL_H
#define SK_CORE_POLICY_SIGNAL_H

#include "core/policy/hints.h"

#define SK_DEGREES_MAX 1000
#define SK_LOAD_STEPS 10u /* a fully loaded device */
#define SK_LOAD_UNKNOWN_STEP (SK_LOAD_STEPS + 1u)
#define SK_FIGURE_NEVER UINT32_MAX /* the device is not to be taken */
#define SK_SPEED_STEPS 20u	   /* steps of the fastest model: one is 5 % of its time */
#define SK_SPEED_UNKNOWN_STEP (1u << 30)

/* True for the placements that compare what is measured, free or asked by label. */
bool sk_signal_reads(enum sk_placement how);

/* The latest sample of a device, or NULL. */
const struct sk_sample *sk_signal_of(const struct sk_core *core, uint32_t node, uint32_t index);
/* Milliwatts that one more task on this device adds, by the table of its model and its limit. */
uint32_t sk_signal_adds_mw(const struct sk_core *core, uint32_t node, uint32_t index);
/* Whole degrees below the limit; 0 if unknown or slowed by heat, -1 at the limit or above. */
int32_t sk_signal_headroom(const struct sk_core *core, uint32_t node, uint32_t index);
/* The load in tenths, rounded down, or SK_LOAD_UNKNOWN_STEP. */
uint32_t sk_signal_load(const struct sk_core *core, uint32_t node, uint32_t index);
/* The measure by which most models of a series were measured; of equals the launch. 0: none. */
uint32_t sk_signal_measure(const struct sk_core *core, uint64_t series);
/* The time of a unit of work on this device, in steps of the fastest model's, or
 * SK_SPEED_UNKNOWN_STEP. */
uint32_t sk_signal_slowness(const struct sk_core *core, uint64_t series, uint32_t node,
			    uint32_t index);
/* The slowness of devices of each model, by the number of the model. */
void sk_signal_speeds(const struct sk_core *core, uint64_t series, uint32_t ret[SK_MODELS_MAX + 1]);

/* The figure of a device that a placement compares for a job; 0 for one that compares nothing of
 * devices. */
uint32_t sk_signal_figure(const struct sk_core *core, const struct sk_job *job,
			  enum sk_placement how, uint32_t node, uint32_t index);
/* True if the figure comes from what was read, not from what is assumed of unknown devices. */
bool sk_signal_known(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		     uint32_t node, uint32_t index);
/* The devices whose health has a warning, as a mask. */
uint64_t sk_signal_warned(const struct sk_core *core, uint32_t node);

#endif
