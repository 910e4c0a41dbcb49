/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The bounds of a card in a mapped file: anything else is an impossible card.
 *
 * Invariant: a card that is bound can be moved: nothing is divided by zero, no ring is left and no
 * loop goes on for ever, whatever was written into the file.
 */
#ifndef SK_SIM_CARD_BOUNDS_H
#define SK_SIM_CARD_BOUNDS_H

#include "sim/card/card.h"

/** -EINVAL for a model that is no card: no clocks, no cooling, limits in no
 * order. */
int sk_sim_model_check(const struct sk_sim_model *model);

#define SK_SIM_TIME_MOST_NS (UINT64_MAX / 2)

enum sk_sim_bound {
	SK_SIM_BOUND_SOUND,    /* can be moved */
	SK_SIM_BOUND_NO_MODEL, /* an impossible model: the card is lost now and cannot be moved */
	SK_SIM_BOUND_NO_STATE, /* an impossible state: the card must begin anew */
};

/** Bring what can be mended of a card within bounds before it is moved to `to_ns`. Sensors that are
 * out of step, or a card from long ago, go on from now. */
enum sk_sim_bound sk_sim_card_bound(struct sk_sim_card *card, uint64_t to_ns);

/** Every text ends within its array. */
void sk_sim_card_end_texts(struct sk_sim_card *card);

#endif
