/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The sampling of a card's sensors while it moves: when next, and the samples they keep.
 *
 * Invariant: a sample stands at a whole multiple of its period on the node's clock, whenever the
 * card was moved.
 */
#ifndef SK_SIM_CARD_SENSE_H
#define SK_SIM_CARD_SENSE_H

#include "sim/card/card.h"

/** The next moment at which a sensor looks: after the card's present. */
uint64_t sk_sim_sense_next(const struct sk_sim_card *card);

/** Look, with every sensor whose moment this is. */
void sk_sim_sense(struct sk_sim_card *card);

/** So much of the past can still be in an answer. */
uint64_t sk_sim_sense_memory_ns(const struct sk_sim_sensor *sensor);

/** The card was not followed until now: its sensors begin anew here. */
void sk_sim_sense_restart(struct sk_sim_card *card);

/** One sample of a card that has been as it is for long. */
void sk_sim_sense_rest(struct sk_sim_card *card);

#endif
