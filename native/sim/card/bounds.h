/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Bounds of a card in a mapped file; a card outside of them is impossible.
 *
 * Invariant: a card that is bound can be moved: nothing is divided by zero, no ring is left and no
 * loop goes on for ever, for any contents of the file.
 */
#ifndef SK_SIM_CARD_BOUNDS_H
#define SK_SIM_CARD_BOUNDS_H

#include "sim/card/card.h"

/** Check a model. -EINVAL if it has no clocks or no cooling, or limits in no order. */
int sk_sim_model_check(const struct sk_sim_model *model);

#define SK_SIM_TIME_MOST_NS (UINT64_MAX / 2)

enum sk_sim_bound {
	SK_SIM_BOUND_SOUND,    /* can be moved */
	SK_SIM_BOUND_NO_MODEL, /* an impossible model: the card is lost now and cannot be moved */
	SK_SIM_BOUND_NO_STATE, /* an impossible state: the card must begin anew */
};

/** Bring a card within bounds before it is moved to `to_ns`. Sensors that are out of step, and a
 * card from long ago, continue from now. */
enum sk_sim_bound sk_sim_card_bound(struct sk_sim_card *card, uint64_t to_ns);

/** End every text within its array. */
void sk_sim_card_end_texts(struct sk_sim_card *card);

#endif
