/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The bounds of a card in a mapped file: anything else is an impossible card.
 *
 * Invariant: a card that is bound can be moved: nothing is divided by zero, no ring is left and no
 * loop goes on for ever, whatever was written into the file.
 */
#ifndef SK_SIM_BOUNDS_H
#define SK_SIM_BOUNDS_H

#include "sim/card.h"

/** -EINVAL for a model that is no card: no clocks, no cooling, limits in no
 * order. */
int sk_sim_model_check(const struct sk_sim_model *model);

/** Return whether it can be moved to `to_ns`. A model that is no card is lost and
 * cannot; a state that no card has begins anew; one from long ago goes on from
 * now. */
bool sk_sim_card_bound(struct sk_sim_card *card, uint64_t to_ns);

/** Every text ends within its array. */
void sk_sim_card_end_texts(struct sk_sim_card *card);

#endif
