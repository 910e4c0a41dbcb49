/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What a driver would answer about a card: its sensors' values, with their delay, averaging and
 * error, and its counters.
 *
 * Relied on by all simulated driver libraries and by stoker.native._sim, so that a value read
 * through any of them is the same. The card has been moved to the present before.
 */
#ifndef SK_SIM_SENSOR_H
#define SK_SIM_SENSOR_H

#include "sim/card.h"

uint32_t sk_sim_power_mw(const struct sk_sim_card *card);	  /* averaged, delayed */
uint32_t sk_sim_power_instant_mw(const struct sk_sim_card *card); /* newest sample */
uint64_t sk_sim_energy_mj(const struct sk_sim_card *card);
int32_t sk_sim_temperature_mc(const struct sk_sim_card *card);
int32_t sk_sim_memory_temperature_mc(const struct sk_sim_card *card);
uint32_t sk_sim_clock_mhz(const struct sk_sim_card *card);
uint32_t sk_sim_memory_clock_mhz(const struct sk_sim_card *card);
uint32_t sk_sim_busy_percent(const struct sk_sim_card *card); /* over the driver's own window */
uint32_t sk_sim_memory_busy_percent(const struct sk_sim_card *card);
uint32_t sk_sim_fan_percent(const struct sk_sim_card *card);

#endif
