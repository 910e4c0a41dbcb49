/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Requests to a card: settings, a reset, and processes that come and go. Time does not pass.
 *
 * Memory: the caller's. Threads: the caller locks.
 */
#ifndef SK_SIM_CARD_REQUEST_H
#define SK_SIM_CARD_REQUEST_H

#include "sim/card/card.h"

/** Set the power limit in mW; -ERANGE outside of the model's range. */
int sk_sim_card_limit(struct sk_sim_card *card, uint32_t mw);

/** Lock the clock between two bounds in MHz; 0 and 0 unlock it. -ERANGE as above. */
int sk_sim_card_lock(struct sk_sim_card *card, uint32_t min_mhz, uint32_t max_mhz);

/** Reset the card: volatile counters, faults of its state and processes are gone. */
void sk_sim_card_reset(struct sk_sim_card *card);

/** Add a process; its memory counts until it ends. -ENOSPC. */
int sk_sim_card_join(struct sk_sim_card *card, const struct sk_sim_process *process);
void sk_sim_card_part(struct sk_sim_card *card, int32_t pid);

#endif
