/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Xe Link ports of a simulated Intel card. Every port leads to another card of its link group, in
 * turn; ports of a pair are joined in order, so each end names the other.
 */
#include "sim/levelzero/driver.h"

#include <stdio.h>

enum { LANES = 4 };

static uint32_t peers_of(const struct sk_sim_card *card, uint32_t ret[SK_SIM_CARDS])
{
	uint32_t count = 0;

	for (uint32_t place = 0; place < sk_ze_count(); place++)
		if (sk_ze_card(place) != card && card->model.link_group &&
		    sk_ze_card(place)->model.link_group == card->model.link_group)
			ret[count++] = place;
	return count;
}

static struct sk_zes_fabric_port_id id_of(const struct sk_sim_card *card, uint32_t port)
{
	return (struct sk_zes_fabric_port_id){
		.fabricId = sk_ze_place(card) + 1,
		.attachId = 0,
		.portNumber = (uint8_t)(port + 1),
	};
}

/* Find the port at the other end; all zero if there is none. */
static struct sk_zes_fabric_port_id remote_of(const struct sk_sim_card *card, uint32_t port)
{
	uint32_t peers[SK_SIM_CARDS], back[SK_SIM_CARDS], count = peers_of(card, peers);
	struct sk_zes_fabric_port_id nobody = {0, 0, 0};
	const struct sk_sim_card *other;
	uint32_t number;

	if (!count)
		return nobody;
	other = sk_ze_card(peers[port % count]);
	count = peers_of(other, back);
	for (uint32_t i = 0; i < count; i++) {
		number = port / count * count + i;
		if (sk_ze_card(back[i]) == card && number < other->model.links)
			return id_of(other, number);
	}
	return nobody;
}

static struct sk_zes_fabric_port_speed speed_of(const struct sk_sim_card *card)
{
	return (struct sk_zes_fabric_port_speed){
		.bitRate = (int64_t)card->model.link_gb_s * 8 * 1000000000 / LANES,
		.width = LANES,
	};
}

SK_ZE_API zesDeviceEnumFabricPorts(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_PORT, count, ret);
}

SK_ZE_API zesFabricPortGetProperties(void *port, struct sk_zes_fabric_port_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, port, SK_ZE_PORT, ret, &index, &card);

	if (result)
		return result;
	snprintf(ret->model, sizeof(ret->model), "XeLink");
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	ret->portId = id_of(card, index);
	ret->maxRxSpeed = ret->maxTxSpeed = speed_of(card);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFabricPortGetLinkType(void *port, struct sk_zes_fabric_link_type *ret)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, port, SK_ZE_PORT, ret, &index, &card);

	if (result)
		return result;
	snprintf(ret->desc, sizeof(ret->desc), "XeLink");
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFabricPortGetConfig(void *port, struct sk_zes_fabric_port_config *ret)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, port, SK_ZE_PORT, ret, &index, &card);

	if (result)
		return result;
	ret->enabled = 1;
	ret->beaconing = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFabricPortGetState(void *port, struct sk_zes_fabric_port_state *ret)
{
	enum { HEALTHY = 1, DEGRADED = 2, FAILED = 3, LINK_ERRORS = 1, HAS_FAILED = 1 };
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, port, SK_ZE_PORT, ret, &index, &card);
	bool down, errors;

	if (result)
		return result;
	down = card->now.link_down & 1U << index;
	errors = card->now.link_errors[index] != 0;
	ret->status = down ? FAILED : errors ? DEGRADED : HEALTHY;
	ret->qualityIssues = errors ? LINK_ERRORS : 0;
	ret->failureReasons = down ? HAS_FAILED : 0;
	ret->remotePortId = remote_of(card, index);
	ret->rxSpeed = ret->txSpeed = speed_of(card);
	if (down)
		ret->rxSpeed.bitRate = ret->txSpeed.bitRate = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFabricPortGetThroughput(void *port, struct sk_zes_fabric_port_throughput *ret)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, port, SK_ZE_PORT, ret, &index, &card);

	if (result)
		return result;
	ret->timestamp = sk_ze_now_us();
	ret->rxCounter = (uint64_t)card->now.link_rx_bytes[index];
	ret->txCounter = (uint64_t)card->now.link_tx_bytes[index];
	return sk_ze_end(SK_ZE_SUCCESS);
}
