/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's events of a simulated AMD card, and its reset. Faults become the events of amdgpu's
 * SMI queue: an Xid becomes a fault of virtual memory, a recovery becomes a reset.
 */
#include "sim/amdsmi/driver.h"

#include <inttypes.h>
#include <stdio.h>

#include "sim/card/request.h"

enum { NS_PER_MS = 1000000 };

/* Listeners in this process, with the position of each. */
static struct {
	bool on;
	uint64_t mask; /* bit n: events of kind n + 1 */
	uint64_t heard;
} listener[SK_SIM_CARDS];

static uint32_t kind_of(const struct sk_sim_event *event)
{
	switch (event->kind) {
	case SK_SIM_FAULT_XID:
		return SK_AMD_EVENT_VMFAULT;
	case SK_SIM_FAULT_RECOVERY:
		return SK_AMD_EVENT_PRE_RESET;
	default:
		return 0;
	}
}

SK_AMD_API amdsmi_init_gpu_event_notification(void *handle)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, handle, &card);

	if (status)
		return status;
	listener[sk_amd_place(card)].on = true;
	listener[sk_amd_place(card)].mask = 0;
	listener[sk_amd_place(card)].heard = sk_amd_node()->events;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_set_gpu_event_notification_mask(void *handle, uint64_t mask)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, handle, &card);

	if (status)
		return status;
	if (!listener[sk_amd_place(card)].on)
		return sk_amd_end(SK_AMD_INIT_ERROR);
	listener[sk_amd_place(card)].mask = mask;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_stop_gpu_event_notification(void *handle)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, handle, &card);

	if (status)
		return status;
	if (!listener[sk_amd_place(card)].on)
		return sk_amd_end(SK_AMD_INVAL);
	listener[sk_amd_place(card)].on = false;
	return sk_amd_end(SK_AMD_SUCCESS);
}

static void tell(uint32_t place, const struct sk_sim_event *event,
		 struct sk_amd_evt_notification_data *ret)
{
	*ret = (struct sk_amd_evt_notification_data){
		.processor_handle = sk_amd_handle(place),
		.event = kind_of(event),
	};
	snprintf(ret->message, sizeof(ret->message), "SIM %" PRIu64 " at %" PRIu64 " ns",
		 event->value, event->at_ns);
}

/* Take the events of one card that this listener has not had, oldest first; the node keeps only the
 * newest events. */
static uint32_t collect(uint32_t place, uint32_t room, struct sk_amd_evt_notification_data *ret)
{
	const struct sk_sim_node *node = sk_amd_node();
	uint64_t oldest = node->events < SK_SIM_EVENTS ? 0 : node->events - SK_SIM_EVENTS;
	uint32_t found = 0;

	if (listener[place].heard < oldest)
		listener[place].heard = oldest;
	while (listener[place].heard < node->events && found < room) {
		const struct sk_sim_event *event =
			&node->event[(listener[place].heard + 1) % SK_SIM_EVENTS];
		uint32_t kind = kind_of(event);

		listener[place].heard++;
		if (kind && event->card < SK_SIM_CARDS &&
		    &node->card[event->card] == sk_amd_card(place) &&
		    listener[place].mask & 1ULL << (kind - 1))
			tell(place, event, &ret[found++]);
	}
	return found;
}

static uint32_t collect_all(uint32_t room, struct sk_amd_evt_notification_data *ret)
{
	uint32_t found = 0;

	for (uint32_t place = 0; place < sk_amd_count(); place++)
		if (listener[place].on)
			found += collect(place, room - found, ret + found);
	return found;
}

/* Wait for the first event; NO_DATA if none comes in that time. */
SK_AMD_API amdsmi_get_gpu_event_notification(int32_t timeout_ms, uint32_t *count,
					     struct sk_amd_evt_notification_data *ret)
{
	uint32_t found, status = sk_amd_begin_all(__func__, count && ret ? count : NULL);
	uint32_t wait_ms = timeout_ms < 0 ? INT32_MAX : (uint32_t)timeout_ms;
	uint64_t until = sk_sim_clock_ns(CLOCK_MONOTONIC) + (uint64_t)wait_ms * NS_PER_MS;

	if (status)
		return status;
	while (!(found = collect_all(*count, ret)) && sk_sim_clock_ns(CLOCK_MONOTONIC) < until)
		sk_sim_node_wait(sk_amd_node(), until);
	*count = found;
	return sk_amd_end(found ? SK_AMD_SUCCESS : SK_AMD_NO_DATA);
}

SK_AMD_API amdsmi_reset_gpu(void *handle)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	sk_sim_card_reset(card);
	return sk_amd_end(SK_AMD_SUCCESS);
}
