/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A driver's answers about a card: values of its sensors, with their delay, mean and error, and its
 * counters.
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

/** The sample that is `age` samples older than the newest visible one; NULL if there is none. */
const struct sk_sim_point *sk_sim_sample(const struct sk_sim_card *card, uint32_t age);

/** Power by the sensor, with its gain and offset. */
uint32_t sk_sim_sample_mw(const struct sk_sim_card *card, const struct sk_sim_point *point);

/** Freeze the reading of power; each call needs a call that ends it. */
void sk_sim_power_freeze(struct sk_sim_card *card);
void sk_sim_power_release(struct sk_sim_card *card);

#endif
