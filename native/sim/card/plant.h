/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Physics of a card: clock, power, temperature and work over time.
 *
 * Pure: the same card, time and load give the same result everywhere, in steps of at most
 * SK_SIM_STEP_NS.
 */
#ifndef SK_SIM_CARD_PLANT_H
#define SK_SIM_CARD_PLANT_H

#include "sim/card/card.h"

/** Set up a card of this model at rest at `at_ns`, with default limits. */
void sk_sim_card_init(struct sk_sim_card *card, const struct sk_sim_model *model, uint64_t at_ns);

/** Move a card to `to_ns`. Stretches with a constant clock are solved in closed form, so that long
 * moves are cheap. A move in two parts gives the same result except for rounding. */
void sk_sim_card_move(struct sk_sim_card *card, uint64_t to_ns);

/** True power in watts at this clock, load and die temperature; for oracles and tests. */
double sk_sim_power_at(const struct sk_sim_model *model, const struct sk_sim_load *load,
		       double clock_mhz, double die_c);

/** Work per second there; 1 is full load at the highest clock. */
double sk_sim_work_at(const struct sk_sim_model *model, const struct sk_sim_load *load,
		      double clock_mhz);

#endif
