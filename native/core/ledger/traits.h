/* SPDX-License-Identifier: Apache-2.0
 *
 * The models and traits of devices, and which of them a request accepts. Equal traits have one
 * position, so that the traits that a job accepts are a mask and a device is checked by one bit.
 * Invariant: a live job's wish always accepts exactly the traits that its conditions allow.
 */
#ifndef SK_CORE_LEDGER_TRAITS_H
#define SK_CORE_LEDGER_TRAITS_H

#include "core/state/state.h"

#define SK_LINK_ANY 1u /* the value of a condition LINK that names no bandwidth */

/* The position of a model in the list of the state, from 1; 0 if it is unknown. */
uint32_t sk_model_find(const struct sk_core *core, uint64_t model);
/* Does what sk_model_find does, but adds a new model; 0 if the list is full. `model` is not 0. */
uint32_t sk_model_add(struct sk_core *core, uint64_t model);
/* The mask of known models among those that a request names; 0 for any. */
uint64_t sk_model_mask(const struct sk_core *core, const struct sk_request *request);
/* The devices that a request accepts in this state. */
struct sk_wish sk_wish_of(const struct sk_core *core, const struct sk_request *request);

/* The position of these traits; 0 if they are unknown to the state, or say nothing. */
uint32_t sk_traits_find(const struct sk_core *core, const struct sk_traits *traits);
/* True if there is a position for new traits, perhaps that of traits which no device has. */
bool sk_traits_room(const struct sk_core *core);
/* Add traits for which there is room, and let live jobs accept them; never on trial. */
uint32_t sk_traits_add(struct sk_core *core, const struct sk_traits *traits);

/* Accept less: only what the conditions of this rank allow too. False if they name models of which
 * none is known. */
bool sk_wish_narrow(const struct sk_core *core, const struct sk_request *request, uint32_t rank,
		    struct sk_wish *wish);
/* The position from 1 of the first condition that says nothing sensible; 0 if all do. */
uint32_t sk_conditions_bad(const struct sk_request *request);
/* The devices of a node, as a mask, among which those of a job must be by their names; all if it
 * names none. */
uint64_t sk_wish_named(const struct sk_core *core, const struct sk_request *request,
		       const struct sk_wish *wish, uint32_t node);
/* The highest rank among the conditions: the number of preferences. */
uint32_t sk_wish_ranks(const struct sk_request *request);
/* True if the device meets this one condition, which is not DEVICE. */
bool sk_condition_met(const struct sk_core *core, const struct sk_condition *condition,
		      const struct sk_device *device);
/* The figure or name that the condition compares; 0: it is not known. */
uint64_t sk_condition_have(const struct sk_core *core, const struct sk_condition *condition,
			   const struct sk_device *device);

#endif
