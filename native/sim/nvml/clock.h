/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The clock functions that other parts of the simulated NVML use.
 *
 * Invariant: a field and the function of the same meaning agree.
 */
#ifndef SK_SIM_NVML_CLOCK_H
#define SK_SIM_NVML_CLOCK_H

#include "sim/nvml/library.h"

/** Time for which a policy of nvmlPerfPolicyType_t has lowered the clock, since the start. */
uint64_t sk_nvml_held_ns(const struct sk_sim_card *card, uint32_t policy);

#endif
