/* SPDX-License-Identifier: Apache-2.0 */
/* Power, energy, temperature and fan of a card. */
#include <errno.h>

#include "sim/nvml/library.h"

enum {
	THRESHOLD_SHUTDOWN,
	THRESHOLD_SLOWDOWN,
	THRESHOLD_MEM_MAX,
	THRESHOLD_GPU_MAX,
	SENSOR_GPU = 0,
	SCOPE_GPU = 0,
	CONTROLLER_GPU_INTERNAL = 1,
	TARGET_GPU = 1,
};

static uint32_t celsius(int32_t mc)
{
	return (uint32_t)((mc + 500) / 1000);
}

SK_NVML_VALUE(nvmlDeviceGetPowerUsage, uint32_t, sk_sim_power_mw(card))
SK_NVML_VALUE(nvmlDeviceGetPowerManagementLimit, uint32_t, card->now.limit_mw)
SK_NVML_VALUE(nvmlDeviceGetEnforcedPowerLimit, uint32_t, card->now.limit_mw)
SK_NVML_VALUE(nvmlDeviceGetPowerManagementDefaultLimit, uint32_t, card->model.limit_default_mw)
SK_NVML_VALUE(nvmlDeviceGetPowerManagementMode, uint32_t, 1)
SK_NVML_VALUE_IF(nvmlDeviceGetTotalEnergyConsumption, uint64_t,
		 card->model.flags &SK_SIM_HAS_ENERGY, sk_sim_energy_mj(card))

SK_NVML nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
								  uint32_t *ret_min,
								  uint32_t *ret_max)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret_min || !ret_max)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_min = call.card->model.limit_min_mw;
	*ret_max = call.card->model.limit_max_mw;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t set_limit(const char *function, nvmlDevice_t device, uint32_t mw)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, function);

	if (failed)
		return failed;
	failed = sk_sim_card_limit(call.card, mw) ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
	return sk_nvml_end(&call, failed);
}

SK_NVML nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, uint32_t mw)
{
	return set_limit(__func__, device, mw);
}

SK_NVML nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device,
							  const nvmlPowerValue_v2_t *value)
{
	if (!value || value->powerScope != SCOPE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (value->version != NVML_VERSION(*value, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return set_limit(__func__, device, value->powerValueMw);
}

SK_NVML nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, uint32_t sensor, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || sensor != SENSOR_GPU)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = celsius(sk_sim_temperature_mc(call.card));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || ret->sensorType != SENSOR_GPU)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != NVML_VERSION(*ret, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	ret->temperature = (int)celsius(sk_sim_temperature_mc(call.card));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* Give the degrees that the die may still warm up before the card slows itself down. */
SK_NVML nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device,
						    nvmlMarginTemperature_v1_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != NVML_VERSION(*ret, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	ret->marginTemperature =
		call.card->model.target_c - (int)celsius(sk_sim_temperature_mc(call.card));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t threshold(const struct sk_sim_model *model, uint32_t kind, uint32_t *ret)
{
	switch (kind) {
	case THRESHOLD_SHUTDOWN:
		*ret = (uint32_t)model->shutdown_c;
		return NVML_SUCCESS;
	case THRESHOLD_SLOWDOWN:
		*ret = (uint32_t)model->slowdown_c;
		return NVML_SUCCESS;
	case THRESHOLD_MEM_MAX:
		*ret = (uint32_t)model->memory_max_c;
		return NVML_SUCCESS;
	case THRESHOLD_GPU_MAX:
		*ret = (uint32_t)model->target_c;
		return NVML_SUCCESS;
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

SK_NVML nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, uint32_t kind,
						       uint32_t *ret)
{
	enum { THRESHOLDS = 8 };
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || kind >= THRESHOLDS)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	return sk_nvml_end(&call, threshold(&call.card->model, kind, ret));
}

SK_NVML nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, uint32_t sensor,
						  nvmlGpuThermalSettings_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	ret->count = 1;
	ret->sensor[0].controller = CONTROLLER_GPU_INTERNAL;
	ret->sensor[0].target = TARGET_GPU;
	ret->sensor[0].defaultMinTemp = 0;
	ret->sensor[0].defaultMaxTemp = call.card->model.slowdown_c;
	ret->sensor[0].currentTemp = (int)celsius(sk_sim_temperature_mc(call.card));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static bool has_fan(const struct sk_sim_card *card)
{
	return card->model.fan_max_rpm != 0;
}

SK_NVML_VALUE(nvmlDeviceGetNumFans, uint32_t, has_fan(card))
SK_NVML_VALUE_IF(nvmlDeviceGetFanSpeed, uint32_t, has_fan(card), sk_sim_fan_percent(card))

static nvmlReturn_t fan(const char *function, nvmlDevice_t device, uint32_t number, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, function);

	if (failed)
		return failed;
	if (!has_fan(call.card))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	if (!ret || number)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = sk_sim_fan_percent(call.card);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, uint32_t number, uint32_t *ret)
{
	return fan(__func__, device, number, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, uint32_t number,
						 uint32_t *ret)
{
	return fan(__func__, device, number, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_v1_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!has_fan(call.card))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	if (!ret || ret->fan)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != NVML_VERSION(*ret, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	ret->speed = call.card->model.fan_max_rpm * sk_sim_fan_percent(call.card) / 100;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t device, uint32_t *ret_min,
						 uint32_t *ret_max)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!has_fan(call.card))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	if (!ret_min || !ret_max)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_min = 30;
	*ret_max = 100;
	return sk_nvml_end(&call, NVML_SUCCESS);
}
