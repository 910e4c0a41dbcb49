/* SPDX-License-Identifier: Apache-2.0 */
/* The links of a card to the machine and to other cards: PCIe, NVLink, the ways between. */
#include "sim/nvml/link.h"

#include <stdio.h>
#include <string.h>

enum {
	ANCESTOR_INTERNAL = 0,
	ANCESTOR_SINGLE = 10, /* one switch */
	ANCESTOR_NODE = 40,   /* one NUMA node */
	ANCESTOR_SYSTEM = 50,
};
enum { P2P_READ, P2P_WRITE, P2P_NVLINK, P2P_ATOMICS, P2P_PROP, P2P_KINDS };
enum { P2P_OK, P2P_NOT_SUPPORTED = 2 };
enum { REMOTE_SWITCH = 2 };
enum { ERROR_REPLAY, ERROR_RECOVERY, ERROR_CRC_FLIT, ERROR_CRC_DATA, ERROR_ECC, ERRORS };
enum { CAPABILITIES = 6, CAPABILITY_BRIDGE = 4 };
enum { PORTS_OF_SWITCH = 5, SWITCH_BUS = 0xc1 };
enum { FABRIC_COMPLETED = 3 };

/* Mbit/s of one lane (PCI Express base specifications 1 to 6), by generation. */
static const uint32_t lane_mbit[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};

uint32_t sk_nvml_pcie_kib_s(const struct sk_sim_card *card, bool tx)
{
	const struct sk_sim_point *sample = sk_sim_sample(card, 0);
	double bytes = tx ? card->now.pcie_tx_bytes : card->now.pcie_rx_bytes;

	if (!sample || card->now.work <= 0)
		return 0;
	return (uint32_t)(bytes / card->now.work * card->now.throughput / 1024);
}

SK_NVML_VALUE(nvmlDeviceGetMaxPcieLinkGeneration, uint32_t, card->model.pcie_gen)
SK_NVML_VALUE(nvmlDeviceGetGpuMaxPcieLinkGeneration, uint32_t, card->model.pcie_gen)
SK_NVML_VALUE(nvmlDeviceGetCurrPcieLinkGeneration, uint32_t, card->model.pcie_gen)
SK_NVML_VALUE(nvmlDeviceGetMaxPcieLinkWidth, uint32_t, card->model.pcie_width)
SK_NVML_VALUE(nvmlDeviceGetCurrPcieLinkWidth, uint32_t, card->model.pcie_width)
SK_NVML_VALUE(nvmlDeviceGetPcieLinkMaxSpeed, uint32_t, card->model.pcie_gen)
SK_NVML_VALUE(nvmlDeviceGetPcieSpeed, uint32_t, lane_mbit[card->model.pcie_gen % 7])
SK_NVML_VALUE(nvmlDeviceGetPcieReplayCounter, uint32_t, card->now.pcie_replays)

/* Throughput in KiB/s. The real driver measures for 20 ms, the simulated one knows the rate. */
SK_NVML nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, uint32_t counter,
						 uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || counter > 1)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = sk_nvml_pcie_kib_s(call.card, counter == 0);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* Begin a function of one link. */
static nvmlReturn_t ask(struct sk_nvml_call *call, nvmlDevice_t device, const char *function,
			uint32_t link, const void *ret)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, device, function);

	if (failed)
		return failed;
	if (!call->card->model.links)
		return sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED);
	if (!ret || link >= call->card->model.links)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	return NVML_SUCCESS;
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, uint32_t link, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, link, ret);

	if (failed)
		return failed;
	*ret = !(call.card->now.link_down & 1u << link);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

uint32_t sk_nvml_link_version(const struct sk_sim_card *card)
{
	return strcmp(card->model.architecture, "ampere") ? 4 : 3;
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, uint32_t link, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, link, ret);

	if (failed)
		return failed;
	*ret = sk_nvml_link_version(call.card);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, uint32_t link,
						   uint32_t capability, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, link, ret);

	if (failed)
		return failed;
	if (capability >= CAPABILITIES)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = capability != CAPABILITY_BRIDGE;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* On these boards every port leads to one of the NVSwitches. */
static nvmlReturn_t remote_pci(const char *function, nvmlDevice_t device, uint32_t link,
			       nvmlPciInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, function, link, ret);

	if (failed)
		return failed;
	memset(ret, 0, sizeof(*ret));
	ret->bus = SWITCH_BUS + link / PORTS_OF_SWITCH;
	ret->pciDeviceId = 0x22A310DE;
	snprintf(ret->busId, sizeof(ret->busId), "%08X:%02X:00.0", 0, ret->bus);
	snprintf(ret->busIdLegacy, sizeof(ret->busIdLegacy), "%04X:%02X:00.0", 0, ret->bus & 0xff);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, uint32_t link,
						      nvmlPciInfo_t *ret)
{
	return remote_pci(__func__, device, link, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, uint32_t link,
							 nvmlPciInfo_t *ret)
{
	return remote_pci(__func__, device, link, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, uint32_t link,
							 uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, link, ret);

	if (failed)
		return failed;
	*ret = REMOTE_SWITCH;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* An error of a link is a damaged flit that was sent again. */
SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, uint32_t link,
						     uint32_t counter, uint64_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, link, ret);
	bool counted = counter == ERROR_REPLAY || counter == ERROR_CRC_FLIT;

	if (failed)
		return failed;
	if (counter >= ERRORS)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = counted ? call.card->now.link_errors[link] : 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, uint32_t link)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, __func__);

	if (failed)
		return failed;
	if (link >= call.card->model.links)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	call.card->now.link_errors[link] = 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetNvLinkUtilizationCounter(nvmlDevice_t device, uint32_t link,
							   uint32_t counter, uint64_t *ret_rx,
							   uint64_t *ret_tx)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, link, ret_rx);

	if (failed)
		return failed;
	if (!ret_tx || counter > 1)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_rx = (uint64_t)call.card->now.link_rx_bytes[link];
	*ret_tx = (uint64_t)call.card->now.link_tx_bytes[link];
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static bool linked(const struct sk_sim_card *one, const struct sk_sim_card *other)
{
	uint32_t all = (1u << one->model.links) - 1;

	return one->model.link_group && one->model.link_group == other->model.link_group &&
	       (one->now.link_down & all) != all && (other->now.link_down & all) != all;
}

static uint32_t ancestor(const struct sk_sim_card *one, const struct sk_sim_card *other)
{
	if (one == other)
		return ANCESTOR_INTERNAL;
	if (one->model.switch_group && one->model.switch_group == other->model.switch_group)
		return ANCESTOR_SINGLE;
	return one->model.numa == other->model.numa ? ANCESTOR_NODE : ANCESTOR_SYSTEM;
}

/* Begin a function of two cards; it counts as a call of the first one. */
static nvmlReturn_t ask_two(struct sk_nvml_call *call, nvmlDevice_t one, nvmlDevice_t other,
			    const char *function, const void *ret)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, one, function);

	if (failed)
		return failed;
	if (!ret || !sk_nvml_is_handle(other) || other->card >= sk_sim_node_cards(call->node))
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	if (call->node->card[other->card].now.state == SK_SIM_LOST)
		return sk_nvml_end(call, NVML_ERROR_GPU_IS_LOST);
	return NVML_SUCCESS;
}

SK_NVML nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
							 uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_two(&call, one, other, __func__, ret);

	if (failed)
		return failed;
	*ret = ancestor(call.card, &call.node->card[other->card]);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, uint32_t kind,
					    uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_two(&call, one, other, __func__, ret);
	const struct sk_sim_card *peer;

	if (failed)
		return failed;
	if (kind >= P2P_KINDS)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	peer = &call.node->card[other->card];
	if (kind == P2P_READ || kind == P2P_WRITE)
		*ret = P2P_OK;
	else
		*ret = linked(call.card, peer) ? P2P_OK : P2P_NOT_SUPPORTED;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_two(&call, one, other, __func__, ret);

	if (failed)
		return failed;
	*ret = one->card == other->card;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* List the cards whose common ancestor is at this level. */
SK_NVML nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, uint32_t level,
						      uint32_t *count, nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	uint32_t room, there = 0;

	if (failed)
		return failed;
	if (!count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	room = ret ? *count : 0;
	for (uint32_t i = 0; i < sk_nvml_count(call.node); i++) {
		uint32_t at = sk_nvml_card(call.node, i);

		if (at == call.index || ancestor(call.card, &call.node->card[at]) != level)
			continue;
		if (there < room)
			ret[there] = sk_nvml_handle(at, 0);
		there++;
	}
	*count = there;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* A board with links is in its fabric already, whose id is 0 as it has one node. */
static bool in_fabric(const struct sk_sim_card *card)
{
	return card->model.link_group && !strcmp(card->model.architecture, "hopper");
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	memset(ret, 0, sizeof(*ret));
	ret->state = in_fabric(call.card) ? FABRIC_COMPLETED : 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	uint32_t version;

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	version = ret->version;
	if (version != NVML_VERSION(nvmlGpuFabricInfo_v2_t, 2) &&
	    version != NVML_VERSION(nvmlGpuFabricInfo_v3_t, 3))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	memset(ret, 0, version & 0xffffff);
	ret->version = version;
	ret->state = in_fabric(call.card) ? FABRIC_COMPLETED : 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}
