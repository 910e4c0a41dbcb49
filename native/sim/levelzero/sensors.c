/* SPDX-License-Identifier: Apache-2.0 */
/* Temperature, engines, memory, errors and fans of a simulated Intel card. */
#include "sim/levelzero/driver.h"

#include "sim/card/sensor.h"

enum { US_PER_S = 1000000, MC_PER_C = 1000 };

SK_ZE_API zesDeviceEnumTemperatureSensors(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_TEMPERATURE, count, ret);
}

enum { TEMPERATURE_ALL = 0, TEMPERATURE_GPU = 1, TEMPERATURE_MEMORY = 2 };

SK_ZE_API zesTemperatureGetProperties(void *sensor, struct sk_zes_temp_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, sensor, SK_ZE_TEMPERATURE, ret, &index, &card);

	if (result)
		return result;
	ret->type = index;
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	ret->maxTemperature =
		index == TEMPERATURE_MEMORY ? card->model.memory_max_c : card->model.slowdown_c;
	ret->isCriticalTempSupported = 0;
	ret->isThreshold1Supported = 0;
	ret->isThreshold2Supported = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* No events of temperature, so nothing is set. */
SK_ZE_API zesTemperatureGetConfig(void *sensor, struct sk_zes_temp_config *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, sensor, SK_ZE_TEMPERATURE, ret, &index, &card);

	if (result)
		return result;
	ret->enableCritical = 0;
	ret->threshold1 = ret->threshold2 = (struct sk_zes_temp_threshold){0, 0, 0};
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesTemperatureGetState(void *sensor, double *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, sensor, SK_ZE_TEMPERATURE, ret, &index, &card);
	int32_t die, memory;

	if (result)
		return result;
	die = sk_sim_temperature_mc(card);
	memory = sk_sim_memory_temperature_mc(card);
	if (index == TEMPERATURE_MEMORY || (index == TEMPERATURE_ALL && memory > die))
		die = memory;
	*ret = (double)(die / MC_PER_C);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceEnumEngineGroups(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_ENGINE, count, ret);
}

/* The group's number is that of the specification: 0 all engines, 1 all compute engines. */
SK_ZE_API zesEngineGetProperties(void *engine, struct sk_zes_engine_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, engine, SK_ZE_ENGINE, ret, &index, &card);

	if (result)
		return result;
	ret->type = index;
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesEngineGetActivity(void *engine, struct sk_zes_engine_stats *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, engine, SK_ZE_ENGINE, ret, &index, &card);

	if (result)
		return result;
	ret->activeTime = (uint64_t)(card->now.busy_s * US_PER_S);
	ret->timestamp = sk_ze_now_us();
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceEnumMemoryModules(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_MEMORY, count, ret);
}

SK_ZE_API zesMemoryGetProperties(void *memory, struct sk_zes_mem_properties *ret)
{
	enum { HBM = 0, ON_DEVICE = 1 };
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, memory, SK_ZE_MEMORY, ret, &index, &card);

	if (result)
		return result;
	ret->type = HBM;
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	ret->location = ON_DEVICE;
	ret->physicalSize = card->model.memory_bytes;
	ret->busWidth = -1;
	ret->numChannels = -1;
	return sk_ze_end(SK_ZE_SUCCESS);
}

static uint32_t health_of(const struct sk_sim_card *card)
{
	enum { OK = 1, DEGRADED = 2, REPLACE = 4 };

	if (card->now.remap_failed)
		return REPLACE;
	return card->now.remap_pending || card->now.retired_pending ? DEGRADED : OK;
}

SK_ZE_API zesMemoryGetState(void *memory, struct sk_zes_mem_state *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, memory, SK_ZE_MEMORY, ret, &index, &card);

	if (result)
		return result;
	ret->health = health_of(card);
	ret->size = card->model.memory_bytes;
	ret->free = ret->size - card->now.memory_used;
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* Traffic is counted half as read and half as written. */
SK_ZE_API zesMemoryGetBandwidth(void *memory, struct sk_zes_mem_bandwidth *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, memory, SK_ZE_MEMORY, ret, &index, &card);

	if (result)
		return result;
	ret->maxBandwidth = card->model.bandwidth_gb_s * 1000000000ULL;
	ret->readCounter = (uint64_t)(card->now.memory_busy_s * (double)ret->maxBandwidth / 2);
	ret->writeCounter = ret->readCounter;
	ret->timestamp = sk_ze_now_us();
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceEnumRasErrorSets(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_RAS, count, ret);
}

SK_ZE_API zesRasGetProperties(void *set, struct sk_zes_ras_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, set, SK_ZE_RAS, ret, &index, &card);

	if (result)
		return result;
	ret->type = index;
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesRasGetState(void *set, uint8_t clear, struct sk_zes_ras_state *ret)
{
	enum { RESETS = 0, NON_COMPUTE = 4, CATEGORIES = 7, UNCORRECTABLE = 1 };
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, set, SK_ZE_RAS, ret, &index, &card);
	uint64_t *errors;

	if (result)
		return result;
	if (clear && !sk_ze_may_set())
		return sk_ze_end(SK_ZE_NO_PERMISSION);
	errors = index == UNCORRECTABLE ? &card->now.ecc_uncorrected : &card->now.ecc_corrected;
	for (uint32_t i = 0; i < CATEGORIES; i++)
		ret->category[i] = 0;
	ret->category[NON_COMPUTE] = *errors;
	if (index == UNCORRECTABLE)
		ret->category[RESETS] = card->now.resets;
	if (clear)
		*errors = 0;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesDeviceEnumFans(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_FAN, count, ret);
}

SK_ZE_API zesFanGetProperties(void *fan, struct sk_zes_fan_properties *ret)
{
	enum { MODE_DEFAULT = 1, UNITS_BOTH = 3 };
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, fan, SK_ZE_FAN, ret, &index, &card);

	if (result)
		return result;
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	ret->canControl = 0;
	ret->supportedModes = MODE_DEFAULT;
	ret->supportedUnits = UNITS_BOTH;
	ret->maxRPM = (int32_t)card->model.fan_max_rpm;
	ret->maxPoints = -1;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFanGetState(void *fan, uint32_t units, int32_t *ret)
{
	enum { RPM = 0, PERCENT = 1 };
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, fan, SK_ZE_FAN, ret, &index, &card);

	if (result)
		return result;
	if (units != RPM && units != PERCENT)
		return sk_ze_end(SK_ZE_UNSUPPORTED_ENUMERATION);
	*ret = (int32_t)sk_sim_fan_percent(card);
	if (units == RPM)
		*ret = *ret * (int32_t)card->model.fan_max_rpm / 100;
	return sk_ze_end(SK_ZE_SUCCESS);
}
