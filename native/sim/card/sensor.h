/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A driver's answers about a card: its sensors' values, with their delay, averaging and error,
 * and its counters.
 *
 * The card has been moved to the present before.
 */
#ifndef SK_SIM_CARD_SENSOR_H
#define SK_SIM_CARD_SENSOR_H

#include "sim/card/card.h"

uint32_t sk_sim_power_mw(const struct sk_sim_card *card);	  /* averaged, delayed */
uint32_t sk_sim_power_instant_mw(const struct sk_sim_card *card); /* newest sample */
uint64_t sk_sim_energy_mj(const struct sk_sim_card *card);
int32_t sk_sim_temperature_mc(const struct sk_sim_card *card);
int32_t sk_sim_memory_temperature_mc(const struct sk_sim_card *card);
uint32_t sk_sim_clock_mhz(const struct sk_sim_card *card);
uint32_t sk_sim_memory_clock_mhz(const struct sk_sim_card *card);
uint32_t sk_sim_busy_percent(const struct sk_sim_card *card); /* over the newest sample's period */
uint32_t sk_sim_memory_busy_percent(const struct sk_sim_card *card);
uint32_t sk_sim_fan_percent(const struct sk_sim_card *card);

/** Sample `age` of those that can be seen now, newest first; NULL where there is none. */
const struct sk_sim_point *sk_sim_sample(const struct sk_sim_card *card, uint32_t age);

/** Its power as the sensor gives it, gain and offset included. */
uint32_t sk_sim_sample_mw(const struct sk_sim_card *card, const struct sk_sim_point *point);

/** From now on power reads as it does now, until it is let go as often. */
void sk_sim_power_hold(struct sk_sim_card *card);
void sk_sim_power_let_go(struct sk_sim_card *card);

#endif
