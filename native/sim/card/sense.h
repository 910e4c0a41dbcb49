/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Samples of a card's sensors while it moves, and when the next one is due.
 *
 * Invariant: a sample stands at a whole multiple of its period on the node's clock, whenever the
 * card was moved.
 */
#ifndef SK_SIM_CARD_SENSE_H
#define SK_SIM_CARD_SENSE_H

#include "sim/card/card.h"

/** Time of the next sample of any sensor, after the card's present. */
uint64_t sk_sim_sense_next(const struct sk_sim_card *card);

/** Take the samples that are due at the card's present. */
void sk_sim_sense(struct sk_sim_card *card);

/** Duration of the past that answers can still depend on. */
uint64_t sk_sim_sense_memory_ns(const struct sk_sim_sensor *sensor);

/** Begin all sensors anew at the card's present, after a gap. */
void sk_sim_sense_restart(struct sk_sim_card *card);

/** Take one sample of a card whose state was constant for long. */
void sk_sim_sense_rest(struct sk_sim_card *card);

#endif
