/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The PCIe and NVLink functions that other parts of the simulated NVML use.
 *
 * Invariant: a field and the function of the same meaning agree.
 */
#ifndef SK_SIM_NVML_LINK_H
#define SK_SIM_NVML_LINK_H

#include "sim/nvml/library.h"

/** The present traffic of the slot. */
uint32_t sk_nvml_pcie_kib_s(const struct sk_sim_card *card, bool tx);

/** NVLink's generation. */
uint32_t sk_nvml_link_version(const struct sk_sim_card *card);

#endif
