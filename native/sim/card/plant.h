/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The physics of a card: how its clock, power, temperature and work move in time.
 *
 * Pure: the same card, time and load give the same result everywhere, in steps of at most
 * SK_SIM_STEP_NS.
 */
#ifndef SK_SIM_CARD_PLANT_H
#define SK_SIM_CARD_PLANT_H

#include "sim/card/card.h"

/** A card at rest at `at_ns`, limits at their defaults, as its model says. */
void sk_sim_card_init(struct sk_sim_card *card, const struct sk_sim_model *model, uint64_t at_ns);

/** Move it to `to_ns`. Stretches in which the clock stays are solved in closed form, so a long one
 * costs little. Where a move is cut in two makes no difference beyond rounding. */
void sk_sim_card_move(struct sk_sim_card *card, uint64_t to_ns);

/** True power in watts at this clock, load and die temperature; for oracles and tests. */
double sk_sim_power_at(const struct sk_sim_model *model, const struct sk_sim_load *load,
		       double clock_mhz, double die_c);

/** Work per second there; 1 is full load at the highest clock. */
double sk_sim_work_at(const struct sk_sim_model *model, const struct sk_sim_load *load,
		      double clock_mhz);

/** Its power limit in mW; -ERANGE outside of what its model allows. */
int sk_sim_card_limit(struct sk_sim_card *card, uint32_t mw);

/** Keep its clock between these; 0 and 0 let it go. -ERANGE as above. */
int sk_sim_card_lock(struct sk_sim_card *card, uint32_t min_mhz, uint32_t max_mhz);

/** As after a reset of the card: volatile counters, faults of state, processes are gone. */
void sk_sim_card_reset(struct sk_sim_card *card);

/** A process appears on it; -ENOSPC. Memory is in memory_used until it ends. */
int sk_sim_card_join(struct sk_sim_card *card, const struct sk_sim_process *process);
void sk_sim_card_part(struct sk_sim_card *card, int32_t pid);

#endif
