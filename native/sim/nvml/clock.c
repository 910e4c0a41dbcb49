/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of a card, the reasons for them, and the time for which each reason lowered them. */
#include "sim/nvml/clock.h"

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEM, CLOCK_VIDEO, CLOCKS };
enum { CLOCK_ID_CURRENT, CLOCK_ID_TARGET, CLOCK_ID_DEFAULT, CLOCK_ID_CUSTOMER_MAX };

#define REASON_IDLE 0x1ull
#define REASON_SW_POWER_CAP 0x4ull
#define REASON_HW_SLOWDOWN 0x8ull
#define REASON_SW_THERMAL 0x20ull
#define REASON_HW_THERMAL 0x40ull
#define REASON_HW_BRAKE 0x80ull
#define REASONS_ALL 0x1ffull

static uint64_t reasons(const struct sk_sim_card *card)
{
	static const uint64_t of[SK_SIM_WHYS] = {
		[SK_SIM_WHY_IDLE] = REASON_IDLE,
		[SK_SIM_WHY_POWER] = REASON_SW_POWER_CAP,
		[SK_SIM_WHY_THERMAL] = REASON_SW_THERMAL,
		[SK_SIM_WHY_HARD_THERMAL] = REASON_HW_SLOWDOWN | REASON_HW_THERMAL,
		[SK_SIM_WHY_BRAKE] = REASON_HW_SLOWDOWN | REASON_HW_BRAKE,
	};
	uint64_t bits = 0;

	for (uint32_t why = 0; why < SK_SIM_WHYS; why++)
		if (card->now.why & 1u << why)
			bits |= of[why];
	return bits;
}

SK_NVML_VALUE(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, reasons(card))
SK_NVML_VALUE(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, reasons(card))
SK_NVML_VALUE(nvmlDeviceGetSupportedClocksEventReasons, uint64_t, REASONS_ALL)
SK_NVML_VALUE(nvmlDeviceGetSupportedClocksThrottleReasons, uint64_t, REASONS_ALL)
SK_NVML_VALUE(nvmlDeviceGetPerformanceState, uint32_t, 0)
SK_NVML_VALUE(nvmlDeviceGetPowerState, uint32_t, 0)
SK_NVML_VALUE(nvmlDeviceGetAdaptiveClockInfoStatus, uint32_t, 0)

static nvmlReturn_t clock_of(const char *function, nvmlDevice_t device, uint32_t type, bool highest,
			     uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, function);
	const struct sk_sim_card *card = call.card;

	if (failed)
		return failed;
	if (!ret || type >= CLOCKS)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (type == CLOCK_MEM)
		*ret = sk_sim_memory_clock_mhz(card);
	else
		*ret = highest ? card->model.clock_max_mhz : sk_sim_clock_mhz(card);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, uint32_t type, uint32_t *ret)
{
	return clock_of(__func__, device, type, false, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, uint32_t type, uint32_t *ret)
{
	return clock_of(__func__, device, type, true, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, uint32_t type,
							uint32_t *ret)
{
	return clock_of(__func__, device, type, true, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, uint32_t type,
						    uint32_t *ret)
{
	return clock_of(__func__, device, type, true, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, uint32_t type,
							   uint32_t *ret)
{
	return clock_of(__func__, device, type, true, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, uint32_t type, uint32_t id,
					uint32_t *ret)
{
	if (id > CLOCK_ID_CUSTOMER_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	return clock_of(__func__, device, type, id != CLOCK_ID_CURRENT, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, uint32_t type,
						      uint32_t pstate, uint32_t *ret_min,
						      uint32_t *ret_max)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	const struct sk_sim_card *card = call.card;

	if (failed)
		return failed;
	if (!ret_min || !ret_max || type >= CLOCKS || pstate)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_min = type == CLOCK_MEM ? card->model.memory_mhz : card->model.clock_min_mhz;
	*ret_max = type == CLOCK_MEM ? card->model.memory_mhz : card->model.clock_max_mhz;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, uint32_t *ret,
							     uint32_t bytes)
{
	enum { UNKNOWN = 32 };
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || bytes < sizeof(*ret))
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	for (uint32_t i = 0; i < bytes / sizeof(*ret); i++)
		ret[i] = i ? UNKNOWN : 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, uint32_t *count,
							uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	uint32_t room;

	if (failed)
		return failed;
	if (!count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	room = *count;
	*count = 1;
	if (!ret || !room)
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	*ret = call.card->model.memory_mhz;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static uint32_t clocks_of(const struct sk_sim_model *model)
{
	uint32_t span = model->clock_max_mhz - model->clock_min_mhz;

	return (span + model->clock_step_mhz - 1) / model->clock_step_mhz + 1;
}

/* Highest first, as the real library lists them. */
SK_NVML nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, uint32_t memory_mhz,
							  uint32_t *count, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	uint32_t room, there;

	if (failed)
		return failed;
	if (!count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (memory_mhz != call.card->model.memory_mhz)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	room = *count;
	there = clocks_of(&call.card->model);
	*count = there;
	if (!ret || room < there)
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	for (uint32_t i = 0; i < there; i++)
		ret[i] = call.card->model.clock_max_mhz - i * call.card->model.clock_step_mhz;
	ret[there - 1] = call.card->model.clock_min_mhz;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t lock_clocks(const char *function, nvmlDevice_t device, uint32_t min_mhz,
				uint32_t max_mhz)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, function);

	if (failed)
		return failed;
	if (!(call.card->model.flags & SK_SIM_HAS_LOCKED_CLOCKS))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	failed = sk_sim_card_lock(call.card, min_mhz, max_mhz) ? NVML_ERROR_INVALID_ARGUMENT
							       : NVML_SUCCESS;
	return sk_nvml_end(&call, failed);
}

SK_NVML nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, uint32_t min_mhz,
						  uint32_t max_mhz)
{
	if (!max_mhz)
		return NVML_ERROR_INVALID_ARGUMENT;
	return lock_clocks(__func__, device, min_mhz, max_mhz);
}

SK_NVML nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
	return lock_clocks(__func__, device, 0, 0);
}

/* Policies of nvmlPerfPolicyType_t: power, thermal, ... The others never lower the clock of a
 * simulated card. */
uint64_t sk_nvml_held_ns(const struct sk_sim_card *card, uint32_t policy)
{
	const uint64_t *ns = card->now.why_ns;

	if (policy == 0)
		return ns[SK_SIM_WHY_POWER];
	if (policy == 1)
		return ns[SK_SIM_WHY_THERMAL] + ns[SK_SIM_WHY_HARD_THERMAL];
	return 0;
}

SK_NVML nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, uint32_t policy,
						  nvmlViolationTime_t *ret)
{
	enum { POLICIES = 12 };
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || policy >= POLICIES)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	ret->referenceTime = sk_nvml_us(call.node, call.node->now_ns);
	ret->violationTime = sk_nvml_held_ns(call.card, policy);
	return sk_nvml_end(&call, NVML_SUCCESS);
}
