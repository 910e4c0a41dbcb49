/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of Level Zero's core that finds drivers and devices. Nothing runs on a simulated card,
 * so contexts and command lists are not supported.
 */
#include "sim/levelzero/driver.h"

#include <stdio.h>
#include <string.h>

enum { THREADS_PER_EU = 8, SIMD_WIDTH = 16, EUS_PER_SUBSLICE = 8, TIMESTAMP_BITS = 64 };

static uint32_t list(uint32_t have, void *(*of)(uint32_t), uint32_t *count, void **ret)
{
	if (!*count || *count > have)
		*count = have;
	for (uint32_t i = 0; ret && i < *count; i++)
		ret[i] = of(i);
	return SK_ZE_SUCCESS;
}

static void *the_driver(uint32_t place)
{
	return sk_ze_driver();
}

SK_ZE_API zeInit(uint32_t flags)
{
	return sk_ze_init(__func__, false);
}

SK_ZE_API zesInit(uint32_t flags)
{
	return sk_ze_init(__func__, true);
}

static uint32_t drivers(const char *function, uint32_t *count, void **ret)
{
	uint32_t result = sk_ze_begin_all(function, count);

	return result ? result : sk_ze_end(list(1, the_driver, count, ret));
}

SK_ZE_API zeDriverGet(uint32_t *count, void **ret)
{
	return drivers(__func__, count, ret);
}

SK_ZE_API zesDriverGet(uint32_t *count, void **ret)
{
	return drivers(__func__, count, ret);
}

static uint32_t devices(const char *function, void *driver, uint32_t *count, void **ret)
{
	uint32_t result;

	if (!driver)
		return SK_ZE_NULL_HANDLE;
	if (driver != sk_ze_driver())
		return SK_ZE_INVALID_ARGUMENT;
	result = sk_ze_begin_all(function, count);
	return result ? result : sk_ze_end(list(sk_ze_count(), sk_ze_device, count, ret));
}

SK_ZE_API zeDeviceGet(void *driver, uint32_t *count, void **ret)
{
	return devices(__func__, driver, count, ret);
}

SK_ZE_API zesDeviceGet(void *driver, uint32_t *count, void **ret)
{
	return devices(__func__, driver, count, ret);
}

SK_ZE_API zeDriverGetApiVersion(void *driver, uint32_t *ret)
{
	uint32_t result = sk_ze_begin_all(__func__, ret);

	if (result)
		return result;
	*ret = SK_ZE_API_VERSION;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zeDriverGetProperties(void *driver, struct sk_ze_driver_properties *ret)
{
	uint32_t result = sk_ze_begin_all(__func__, ret);

	if (result)
		return result;
	memset(&ret->uuid, 0, sizeof(ret->uuid));
	memcpy(ret->uuid.id, "stoker SIM", sizeof("stoker SIM"));
	ret->driverVersion = 1;
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* There are no extensions. */
SK_ZE_API zeDriverGetExtensionProperties(void *driver, uint32_t *count, void *ret)
{
	uint32_t result = sk_ze_begin_all(__func__, count);

	if (result)
		return result;
	*count = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zeDeviceGetSubDevices(void *device, uint32_t *count, void **ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, count, &card);

	if (result)
		return result;
	*count = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

void sk_ze_core_properties(const struct sk_sim_card *card, struct sk_ze_device_properties *ret)
{
	ret->type = SK_ZE_TYPE_GPU;
	ret->vendorId = SK_ZE_VENDOR_INTEL;
	ret->deviceId = card->model.pci_device >> 16; /* the device above its vendor */
	ret->flags = 0;
	ret->subdeviceId = 0;
	ret->coreClockRate = card->model.clock_max_mhz;
	ret->maxMemAllocSize = card->model.memory_bytes;
	ret->maxHardwareContexts = UINT16_MAX;
	ret->maxCommandQueuePriority = 0;
	ret->numThreadsPerEU = THREADS_PER_EU;
	ret->physicalEUSimdWidth = SIMD_WIDTH;
	ret->numEUsPerSubslice = EUS_PER_SUBSLICE;
	ret->numSubslicesPerSlice = card->model.units;
	ret->numSlices = 1;
	ret->timerResolution = 1;
	ret->timestampValidBits = TIMESTAMP_BITS;
	ret->kernelTimestampValidBits = TIMESTAMP_BITS;
	sk_ze_uuid(card, ret->uuid.id);
	snprintf(ret->name, sizeof(ret->name), "%s", card->model.name);
}

SK_ZE_API zeDeviceGetProperties(void *device, struct sk_ze_device_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	sk_ze_core_properties(card, ret);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zeDeviceGetMemoryProperties(void *device, uint32_t *count,
				      struct sk_ze_device_memory_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, count, &card);

	if (result)
		return result;
	*count = 1;
	if (ret) {
		ret->flags = 0;
		ret->maxClockRate = card->model.memory_mhz;
		ret->maxBusWidth = 0;
		ret->totalSize = card->model.memory_bytes;
		snprintf(ret->name, sizeof(ret->name), "HBM");
	}
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zeDeviceGetStatus(void *device)
{
	struct sk_sim_card *card;
	uint32_t result = sk_ze_begin(__func__, device, device, &card);

	return result ? result : sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zeDeviceCanAccessPeer(void *device, void *peer, uint8_t *ret)
{
	struct sk_sim_card *card;
	uint32_t place, result = sk_ze_begin(__func__, device, ret, &card);

	if (result)
		return result;
	if (!sk_ze_device_place(peer, &place))
		return sk_ze_end(SK_ZE_INVALID_ARGUMENT);
	*ret = card->model.link_group && card->model.links &&
	       card->model.link_group == sk_ze_card(place)->model.link_group;
	return sk_ze_end(SK_ZE_SUCCESS);
}
