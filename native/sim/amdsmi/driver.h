/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The begin and the end of every function of the simulated libamd_smi.so.
 *
 * Invariant: between a begin that returned success and its end the node is locked, so a card is
 * read at one moment and statics of a file need no lock of their own.
 */
#ifndef SK_SIM_AMDSMI_DRIVER_H
#define SK_SIM_AMDSMI_DRIVER_H

#include "sim/amdsmi/abi.h"
#include "sim/node/node.h"

#define SK_AMD_API __attribute__((visibility("default"))) uint32_t

/** The values that stand for "this card does not have it" in the library's records. */
enum { SK_AMD_NONE_16 = UINT16_MAX };

/** Begin a call about one card. `ret` NULL, or `out` NULL: the caller's mistake. */
uint32_t sk_amd_begin(const char *function, void *handle, const void *out,
		      struct sk_sim_card **ret);
/** Begin a call that changes the card: the real library's files are root's,
 * unless the node lets everybody. */
uint32_t sk_amd_begin_set(const char *function, void *handle, struct sk_sim_card **ret);
/** Begin a call about no card. */
uint32_t sk_amd_begin_all(const char *function, const void *out);
/** End any of them; returns `status`. */
uint32_t sk_amd_end(uint32_t status);

/** True while the library is in use; the fields below are then valid. */
bool sk_amd_begun(void);
struct sk_sim_node *sk_amd_node(void);
/** Place among the AMD cards, and how many there are. */
uint32_t sk_amd_place(const struct sk_sim_card *card);
uint32_t sk_amd_count(void);
struct sk_sim_card *sk_amd_card(uint32_t place);
void *sk_amd_handle(uint32_t place);
/** The card of a handle, or NULL. */
struct sk_sim_card *sk_amd_from(const void *handle);
uint64_t sk_amd_now_ns(void);
void sk_amd_copy(char *to, uint64_t bytes, const char *from);
union sk_amd_bdf sk_amd_bdf(const struct sk_sim_card *card);

/** XGMI: the place of whoever is at the other end of a port, or UINT32_MAX. */
uint32_t sk_amd_peer(const struct sk_sim_card *card, uint32_t port);
/** XCDs of 38 compute units, as an MI300X has eight. */
uint32_t sk_amd_xcds(const struct sk_sim_card *card);
/** Bytes a second over PCIe since the last time this process asked, both ways or one. */
struct sk_amd_traffic {
	double sent, received;
};
struct sk_amd_traffic sk_amd_pcie_traffic(const struct sk_sim_card *card);

/** Partition mode of a card: enum values of the library, kept in its `partitioned`. */
uint32_t sk_amd_compute_partition(const struct sk_sim_card *card);
uint32_t sk_amd_partitions(const struct sk_sim_card *card);

#endif
