/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Start and end of every function of the simulated NVML: handles, the node's lock, faults.
 *
 * Invariant: between a begin that returned NVML_SUCCESS and its end the node's lock is held and the
 * card is at the present; otherwise it is not held.
 */
#ifndef SK_SIM_NVML_LIBRARY_H
#define SK_SIM_NVML_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/node/node.h"
#include "sim/nvml/abi.h"
#include "sim/card/request.h"
#include "sim/card/sensor.h"

/** Target of a handle: a card, or a MIG instance of it. */
struct sk_nvml_device {
	uint32_t card;
	uint32_t instance; /* slot of the card's partitions, from 1; 0: the whole card */
};

struct sk_nvml_call {
	const char *function;
	struct sk_sim_node *node;
	struct sk_sim_card *card;
	uint32_t index;	 /* of the card in the node */
	uint32_t nvidia; /* of the card among NVIDIA's, as NVML counts */
	uint32_t instance;
};

/** Begin a function of no card. */
nvmlReturn_t sk_nvml_begin(struct sk_nvml_call *call, const char *function);

/** Begin a function that takes any handle. */
nvmlReturn_t sk_nvml_begin_any(struct sk_nvml_call *call, nvmlDevice_t device,
			       const char *function);

/** Begin a function of a GPU instance, which is no device if it lacks its compute instance. */
nvmlReturn_t sk_nvml_begin_gpu_instance(struct sk_nvml_call *call, nvmlDevice_t device,
					const char *function);

/** Begin a function of whole cards; a MIG instance is NOT_SUPPORTED. */
nvmlReturn_t sk_nvml_begin_card(struct sk_nvml_call *call, nvmlDevice_t device,
				const char *function);

/** Begin a function that sets something; NO_PERMISSION unless root calls or the node is open. */
nvmlReturn_t sk_nvml_begin_setting(struct sk_nvml_call *call, nvmlDevice_t device,
				   const char *function);

/** After a begin, refuse other handles than whole cards; ends the call then. */
nvmlReturn_t sk_nvml_privileged(struct sk_nvml_call *call);

/** Unlock the node; returns `code`, which is counted when it is NOT_SUPPORTED. */
nvmlReturn_t sk_nvml_end(struct sk_nvml_call *call, nvmlReturn_t code);

/** The handle of a card, by its index in the node, or of an instance. */
nvmlDevice_t sk_nvml_handle(uint32_t card, uint32_t instance);
bool sk_nvml_is_handle(nvmlDevice_t device);

/** Return the number of NVIDIA's cards, and the index in the node of card `nvidia` among them;
 * UINT32_MAX past the last. */
uint32_t sk_nvml_count(const struct sk_sim_node *node);
uint32_t sk_nvml_card(const struct sk_sim_node *node, uint32_t nvidia);

/** Return the index in sk_sim_sizes of a GPU instance profile, by its id; UINT32_MAX for none. */
uint32_t sk_nvml_size(uint32_t id);

/** Convert a time of the node to microseconds of the machine's clock, NVML's stamps of samples. */
uint64_t sk_nvml_us(const struct sk_sim_node *node, uint64_t at_ns);

/** Copy a text into a caller's array; INSUFFICIENT_SIZE if it does not fit. */
nvmlReturn_t sk_nvml_text(char *to, uint32_t size, const char *text);

/** Parse domain, bus and device of the model's address, such as "00000000:3b:00.0". */
void sk_nvml_bus(const struct sk_sim_model *model, uint32_t *domain, uint32_t *bus,
		 uint32_t *device);

/** An exported function that does nothing. */
nvmlReturn_t sk_nvml_absent(const char *function);

/** Define a function that gives a value of a whole card; `value` may use `call` and `card`. */
#define SK_NVML_VALUE(name, type, value) SK_NVML_VALUE_IF(name, type, ((void)card, true), value)

/** Define a function that gives a value of a whole card if `has` holds, else NOT_SUPPORTED. */
#define SK_NVML_VALUE_IF(name, type, has, value)                                                   \
	SK_NVML nvmlReturn_t name(nvmlDevice_t device, type *ret)                                  \
	{                                                                                          \
		struct sk_nvml_call call;                                                          \
		nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);                 \
		const struct sk_sim_card *card = call.card;                                        \
                                                                                                   \
		if (failed)                                                                        \
			return failed;                                                             \
		if (!ret)                                                                          \
			return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);                    \
		if (!(has))                                                                        \
			return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);                       \
		*ret = (type)(value);                                                              \
		return sk_nvml_end(&call, NVML_SUCCESS);                                           \
	}

/** Define a function that gives a text of a whole card. */
#define SK_NVML_TEXT(name, text)                                                                   \
	SK_NVML nvmlReturn_t name(nvmlDevice_t device, char *ret, uint32_t size)                   \
	{                                                                                          \
		struct sk_nvml_call call;                                                          \
		nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);                 \
                                                                                                   \
		if (failed)                                                                        \
			return failed;                                                             \
		return sk_nvml_end(&call, sk_nvml_text(ret, size, text));                          \
	}

#endif
