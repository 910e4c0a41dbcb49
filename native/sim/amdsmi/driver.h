/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Start and end of every function of the simulated libamd_smi.so.
 *
 * Invariant: between a begin that returned success and its end the node is locked, so a card is
 * read at one moment and statics of a file need no lock of their own.
 */
#ifndef SK_SIM_AMDSMI_DRIVER_H
#define SK_SIM_AMDSMI_DRIVER_H

#include "sim/amdsmi/abi.h"
#include "sim/node/node.h"

#define SK_AMD_API __attribute__((visibility("default"))) uint32_t

/** Values that mean "this card does not have it" in the library's records. */
enum { SK_AMD_NONE_16 = UINT16_MAX };

/** Begin a call of one card. `ret` is NULL, or `out` is NULL, if the caller made a mistake. */
uint32_t sk_amd_begin(const char *function, void *handle, const void *out,
		      struct sk_sim_card **ret);
/** Begin a call that changes the card, which root alone may do unless the node is open. */
uint32_t sk_amd_begin_set(const char *function, void *handle, struct sk_sim_card **ret);
/** Begin a call of no card. */
uint32_t sk_amd_begin_all(const char *function, const void *out);
/** End a call; returns `status`. */
uint32_t sk_amd_end(uint32_t status);

/** True after init; the fields below are then valid. */
bool sk_amd_begun(void);
struct sk_sim_node *sk_amd_node(void);
/** Place among the AMD cards, and the number of AMD cards. */
uint32_t sk_amd_place(const struct sk_sim_card *card);
uint32_t sk_amd_count(void);
struct sk_sim_card *sk_amd_card(uint32_t place);
void *sk_amd_handle(uint32_t place);
/** The card of a handle, or NULL. */
struct sk_sim_card *sk_amd_from(const void *handle);
uint64_t sk_amd_now_ns(void);
void sk_amd_copy(char *to, uint64_t bytes, const char *from);
union sk_amd_bdf sk_amd_bdf(const struct sk_sim_card *card);

/** Place of the card at the other end of an XGMI port, or UINT32_MAX. */
uint32_t sk_amd_peer(const struct sk_sim_card *card, uint32_t port);
/** Number of XCDs, with 38 compute units each; an MI300X has eight. */
uint32_t sk_amd_xcds(const struct sk_sim_card *card);
/** PCIe bytes a second since this process asked last, both ways or one. */
struct sk_amd_traffic {
	double sent, received;
};
struct sk_amd_traffic sk_amd_pcie_traffic(const struct sk_sim_card *card);

/** Partition mode of a card: enum values of the library, kept in its `partitioned`. */
uint32_t sk_amd_compute_partition(const struct sk_sim_card *card);
uint32_t sk_amd_partitions(const struct sk_sim_card *card);

#endif
