/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of simulated Intel cards, made from the node's faults; each kind is reported once.
 */
#include "sim/levelzero/driver.h"

enum { NS_PER_MS = 1000000, MS_MAX = 1000000000 };

/* Events that this process listens to, with its position. */
static struct {
	uint32_t events;
	uint64_t heard;
} listener[SK_SIM_CARDS];

static uint32_t flag_of(const struct sk_sim_event *event)
{
	switch (event->kind) {
	case SK_SIM_FAULT_ECC:
		return event->value & 1 ? SK_ZES_EVENT_RAS_UNCORRECTABLE
					: SK_ZES_EVENT_RAS_CORRECTABLE;
	case SK_SIM_FAULT_XID:
	case SK_SIM_FAULT_RECOVERY:
		return SK_ZES_EVENT_RESET_REQUIRED;
	case SK_SIM_FAULT_LINK:
		return SK_ZES_EVENT_FABRIC_HEALTH;
	case SK_SIM_FAULT_PAGES:
		return SK_ZES_EVENT_MEM_HEALTH;
	default:
		return 0;
	}
}

SK_ZE_API zesDeviceEventRegister(void *device, uint32_t events)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, device, &card);

	if (result)
		return result;
	listener[sk_ze_place(card)].events = events;
	listener[sk_ze_place(card)].heard = sk_ze_node()->events;
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* Take the wanted events of one card since the last call; the node keeps only the newest events. */
static uint32_t collect(uint32_t place)
{
	const struct sk_sim_node *node = sk_ze_node();
	uint64_t oldest = node->events < SK_SIM_EVENTS ? 0 : node->events - SK_SIM_EVENTS;
	uint32_t found = 0;

	if (listener[place].heard < oldest)
		listener[place].heard = oldest;
	while (listener[place].heard < node->events) {
		const struct sk_sim_event *event =
			&node->event[++listener[place].heard % SK_SIM_EVENTS];

		if (event->card < SK_SIM_CARDS && &node->card[event->card] == sk_ze_card(place))
			found |= flag_of(event);
	}
	if (sk_ze_card(place)->now.state == SK_SIM_LOST)
		found |= SK_ZES_EVENT_DETACH;
	return found & listener[place].events;
}

static uint32_t collect_all(uint32_t count, void **devices, uint32_t *ret)
{
	uint32_t place, found = 0;

	for (uint32_t i = 0; i < count; i++) {
		ret[i] = sk_ze_device_place(devices[i], &place) ? collect(place) : 0;
		found += ret[i] != 0;
	}
	return found;
}

static uint32_t listen(const char *function, uint64_t timeout_ms, uint32_t count, void **devices,
		       uint32_t *number, uint32_t *ret)
{
	uint32_t result = sk_ze_begin_all(function, devices && number && ret ? ret : NULL);
	uint64_t wait_ms = timeout_ms < MS_MAX ? timeout_ms : MS_MAX;
	uint64_t until = sk_sim_clock_ns(CLOCK_MONOTONIC) + wait_ms * NS_PER_MS;

	if (result)
		return result;
	while (!(*number = collect_all(count, devices, ret)) &&
	       sk_sim_clock_ns(CLOCK_MONOTONIC) < until)
		sk_sim_node_wait(sk_ze_node(), until);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDriverEventListen(void *driver, uint32_t timeout_ms, uint32_t count, void **devices,
			       uint32_t *number, uint32_t *ret)
{
	return listen(__func__, timeout_ms, count, devices, number, ret);
}

SK_ZE_API zesDriverEventListenEx(void *driver, uint64_t timeout_ms, uint32_t count, void **devices,
				 uint32_t *number, uint32_t *ret)
{
	return listen(__func__, timeout_ms, count, devices, number, ret);
}
