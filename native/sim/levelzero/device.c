/* SPDX-License-Identifier: Apache-2.0 */
/* Sysman of a simulated Intel card as a whole: identity, PCI, state, ECC, processes. */
#include "sim/levelzero/driver.h"

#include <stdio.h>
#include <string.h>

#include "sim/card/request.h"

static void text(char to[64], const char *from)
{
	snprintf(to, 64, "%.63s", from);
}

static void extend(const struct sk_sim_card *card, void *chain)
{
	struct sk_zes_device_ext_properties *more =
		sk_ze_extension(chain, SK_ZES_DEVICE_EXT_PROPERTIES);

	if (!more)
		return;
	sk_ze_uuid(card, more->uuid.id);
	more->type = SK_ZE_TYPE_GPU;
	more->flags = 0;
}

SK_ZE_API zesDeviceGetProperties(void *device, struct sk_zes_device_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	sk_ze_core_properties(card, &ret->core);
	ret->numSubdevices = sk_ze_power_tiles(card);
	text(ret->serialNumber, card->model.serial);
	text(ret->boardNumber, "SIM");
	text(ret->brandName, "SIM");
	text(ret->modelName, card->model.name);
	text(ret->vendorName, "Intel(R) Corporation");
	text(ret->driverVersion, card->model.driver);
	extend(card, ret->pNext);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceGetState(void *device, struct sk_zes_device_state *ret)
{
	enum { WEDGED = 1, REPAIR_UNSUPPORTED = 0 };
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	ret->reset = card->now.recovery || card->now.state == SK_SIM_NEEDS_RESET ? WEDGED : 0;
	ret->repaired = REPAIR_UNSUPPORTED;
	return sk_ze_end(SK_ZE_SUCCESS);
}

static bool in_use(const struct sk_sim_card *card)
{
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid)
			return true;
	return false;
}

SK_ZE_API zesDeviceReset(void *device, uint8_t force)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, device, &card);

	if (result)
		return result;
	if (!sk_ze_may_set())
		return sk_ze_end(SK_ZE_NO_PERMISSION);
	if (in_use(card) && !force)
		return sk_ze_end(SK_ZE_IN_USE);
	sk_sim_card_reset(card);
	return sk_ze_end(SK_ZE_SUCCESS);
}

static void fill_process(const struct sk_sim_process *process, struct sk_zes_process_state *ret)
{
	enum { ENGINE_COMPUTE = 2, ENGINE_RENDER = 32 };

	ret->processId = (uint32_t)process->pid;
	ret->memSize = process->memory_bytes;
	ret->sharedSize = 0;
	ret->engines = process->kind == 1 ? ENGINE_COMPUTE : ENGINE_RENDER;
}

SK_ZE_API zesDeviceProcessesGetState(void *device, uint32_t *count,
				     struct sk_zes_process_state *ret)
{
	struct sk_sim_card *card;
	uint32_t have = 0, result = sk_ze_begin(__func__, device, count, &card);

	if (result)
		return result;
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		if (!card->process[i].pid)
			continue;
		if (ret && have < *count)
			fill_process(&card->process[i], &ret[have]);
		have++;
	}
	if (!*count || *count > have || !ret)
		*count = have;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDriverGetDeviceByUuidExp(void *driver, struct sk_zes_uuid uuid, void **ret,
				      uint8_t *on_subdevice, uint32_t *subdevice)
{
	uint32_t result = sk_ze_begin_all(__func__, ret);
	uint8_t own[16];

	if (result)
		return result;
	for (uint32_t place = 0; place < sk_ze_count(); place++) {
		sk_ze_uuid(sk_ze_card(place), own);
		if (memcmp(own, uuid.id, sizeof(own)) != 0)
			continue;
		*ret = sk_ze_device(place);
		if (on_subdevice)
			*on_subdevice = 0;
		if (subdevice)
			*subdevice = 0;
		return sk_ze_end(SK_ZE_SUCCESS);
	}
	return sk_ze_end(SK_ZE_INVALID_ARGUMENT);
}

/* A simulated card is one device; its tiles have power domains alone. */
SK_ZE_API zesDeviceGetSubDevicePropertiesExp(void *device, uint32_t *count,
					     struct sk_zes_subdevice_exp_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, count, &card);

	if (result)
		return result;
	*count = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* Bytes a second of a PCIe link in one direction, by generation and width. */
static struct sk_zes_pci_speed speed_of(const struct sk_sim_card *card)
{
	const double gigabytes[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
	uint32_t gen = card->model.pcie_gen;

	return (struct sk_zes_pci_speed){
		.gen = (int32_t)gen,
		.width = (int32_t)card->model.pcie_width,
		.maxBandwidth =
			gen <= 6 ? (int64_t)(gigabytes[gen] * 1e9 * card->model.pcie_width) : -1,
	};
}

SK_ZE_API zesDevicePciGetProperties(void *device, struct sk_zes_pci_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);
	unsigned at[4] = {0};

	if (result)
		return result;
	sscanf(card->model.bus_id, "%x:%x:%x.%x", &at[0], &at[1], &at[2], &at[3]);
	ret->address = (struct sk_zes_pci_address){at[0], at[1], at[2], at[3]};
	ret->maxSpeed = speed_of(card);
	ret->haveBandwidthCounters = 1;
	ret->havePacketCounters = 0;
	ret->haveReplayCounters = 1;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDevicePciGetState(void *device, struct sk_zes_pci_state *ret)
{
	enum { GOOD = 1, QUALITY_ISSUES = 2, REPLAYS = 1 };
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	ret->status = card->now.pcie_replays ? QUALITY_ISSUES : GOOD;
	ret->qualityIssues = card->now.pcie_replays ? REPLAYS : 0;
	ret->stabilityIssues = 0;
	ret->speed = speed_of(card);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDevicePciGetStats(void *device, struct sk_zes_pci_stats *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	*ret = (struct sk_zes_pci_stats){
		.timestamp = sk_ze_now_us(),
		.replayCounter = card->now.pcie_replays,
		.rxCounter = (uint64_t)card->now.pcie_rx_bytes,
		.txCounter = (uint64_t)card->now.pcie_tx_bytes,
		.speed = speed_of(card),
	};
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceEccAvailable(void *device, uint8_t *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	*ret = (card->model.flags & SK_SIM_HAS_ECC) != 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* ECC is on and cannot be turned off, as on data centre cards. */
SK_ZE_API zesDeviceEccConfigurable(void *device, uint8_t *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	*ret = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceGetEccState(void *device, struct sk_zes_device_ecc_properties *ret)
{
	enum { UNAVAILABLE = 0, ENABLED = 1 };
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	ret->currentState = card->model.flags & SK_SIM_HAS_ECC ? ENABLED : UNAVAILABLE;
	ret->pendingState = ret->currentState;
	ret->pendingAction = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}
