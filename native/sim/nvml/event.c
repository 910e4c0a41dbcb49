/* SPDX-License-Identifier: Apache-2.0 */
/* Event sets: events of the registered cards since their registration. */
#include <stdlib.h>

#include "sim/nvml/library.h"

#define SBE 0x1ull
#define DBE 0x2ull
#define XID 0x8ull
#define DRAM_RETIREMENT 0x400ull
#define DRAM_RETIREMENT_FAILURE 0x800ull
#define RECOVERY_ACTION 0x8000ull
#define SUPPORTED (SBE | DBE | XID | DRAM_RETIREMENT | DRAM_RETIREMENT_FAILURE | RECOVERY_ACTION)

/** The events that a caller waits for, and how far it has read the node's queue. */
struct sk_nvml_set {
	uint64_t types[SK_SIM_CARDS];
	uint64_t seen;
};

SK_NVML_VALUE(nvmlDeviceGetSupportedEventTypes, uint64_t, SUPPORTED)

SK_NVML nvmlReturn_t nvmlEventSetCreate(struct sk_nvml_set **ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = calloc(1, sizeof(**ret));
	if (*ret)
		(*ret)->seen = call.node->events;
	return sk_nvml_end(&call, *ret ? NVML_SUCCESS : NVML_ERROR_MEMORY);
}

SK_NVML nvmlReturn_t nvmlEventSetFree(struct sk_nvml_set *set)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	free(set);
	return sk_nvml_end(&call, set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

SK_NVML nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, uint64_t types,
					      struct sk_nvml_set *set)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!set)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (types & ~SUPPORTED)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	set->types[call.index] |= types;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static uint64_t type_of(const struct sk_sim_event *event)
{
	switch (event->kind) {
	case SK_SIM_FAULT_XID:
		return XID;
	case SK_SIM_FAULT_ECC:
		return event->value & 1 ? DBE : SBE;
	case SK_SIM_FAULT_PAGES:
		return event->value & 1 ? DRAM_RETIREMENT_FAILURE : DRAM_RETIREMENT;
	case SK_SIM_FAULT_RECOVERY:
		return RECOVERY_ACTION;
	default:
		return 0;
	}
}

/* The next event of the set; what the node's queue has lost meanwhile is skipped. */
static bool take(const struct sk_sim_node *node, struct sk_nvml_set *set, nvmlEventData_t *ret)
{
	if (node->events > SK_SIM_EVENTS && set->seen < node->events - SK_SIM_EVENTS)
		set->seen = node->events - SK_SIM_EVENTS;
	while (set->seen < node->events) {
		const struct sk_sim_event *event = &node->event[++set->seen % SK_SIM_EVENTS];
		uint64_t type = type_of(event);

		if (event->card >= SK_SIM_CARDS || !(set->types[event->card] & type))
			continue;
		*ret = (nvmlEventData_t){
			.device = sk_nvml_handle(event->card, 0),
			.eventType = type,
			.eventData = type == XID || type == RECOVERY_ACTION ? event->value : 0,
			.gpuInstanceId = NVML_NO_INSTANCE,
			.computeInstanceId = NVML_NO_INSTANCE,
		};
		return true;
	}
	return false;
}

static bool any_lost(const struct sk_sim_node *node, const struct sk_nvml_set *set)
{
	for (uint32_t i = 0; i < sk_sim_node_cards(node); i++)
		if (set->types[i] && node->card[i].now.state == SK_SIM_LOST)
			return true;
	return false;
}

/* Wait by the machine's clock even in virtual time, which another process may advance. */
static nvmlReturn_t wait_for(const char *function, struct sk_nvml_set *set, nvmlEventData_t *ret,
			     uint32_t timeout_ms)
{
	uint64_t until = sk_sim_clock_ns(CLOCK_MONOTONIC) + timeout_ms * 1000000ull;
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, function);

	if (failed)
		return failed;
	if (!set || !ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	while (!take(call.node, set, ret)) {
		if (any_lost(call.node, set))
			return sk_nvml_end(&call, NVML_ERROR_GPU_IS_LOST);
		if (sk_sim_clock_ns(CLOCK_MONOTONIC) >= until)
			return sk_nvml_end(&call, NVML_ERROR_TIMEOUT);
		sk_sim_node_wait(call.node, until);
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlEventSetWait(struct sk_nvml_set *set, nvmlEventData_t *ret,
				      uint32_t timeout_ms)
{
	return wait_for(__func__, set, ret, timeout_ms);
}

SK_NVML nvmlReturn_t nvmlEventSetWait_v2(struct sk_nvml_set *set, nvmlEventData_t *ret,
					 uint32_t timeout_ms)
{
	return wait_for(__func__, set, ret, timeout_ms);
}
