/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * State of an AMD card that is read, and its calls.
 *
 * Memory: the state is the card's, allocated by `begin`. Threads: the card's own thread.
 */
#ifndef SK_DEVICES_AMD_CARD_H
#define SK_DEVICES_AMD_CARD_H

#include "devices/amd/amdsmi.h"
#include "devices/card.h"

enum {
	MHZ = 1000000,
	PROCESSES = SK_DEVICE_PROCESSES_MAX,
	RESIDENCIES = 3,
};

enum {
#define X(name, parameters) CALL_##name,
	SK_AMD_READ_TABLE(X)
#undef X
		READ_CALLS
};

/* Call a function of the card; a function that the library lacks is not supported. */
#define ASK(card, function, ...)                                                                   \
	(sk_amd.function ? (sk_device_enter(card, CALL_##function),                                \
			    sk_device_leave(card, sk_amd.function((card)->handle, __VA_ARGS__)))   \
			 : AMD_NOT_SUPPORTED)

#define SAID(function, code, value) sk_device_said(CALL_##function, code, (double)(value))

/** One card. */
struct sk_amd_state {
	struct amd_metrics metrics;
	int metrics_code;
	double count_j; /* one count of the energy accumulator */
	uint32_t units;
	uint64_t total;
	int total_code;
	double residency[RESIDENCIES]; /* of the round before; NAN: none */
	struct amd_links links;
	struct amd_process process[PROCESSES];
};

/** Implements `slow` of struct sk_device_vendor. */
void sk_amd_slow(struct sk_device_card *card, struct sk_device_record *record);

#endif
