/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power and frequency domains of a simulated Intel card. Sysman tells power as an energy counter in
 * uJ and limits in mW, frequencies in MHz, times in us and ms.
 */
#include "sim/levelzero/driver.h"

#include "sim/card/request.h"
#include "sim/card/sensor.h"

enum {
	LEVEL_SUSTAINED = 1,
	SOURCE_ANY = 0,
	UNIT_POWER = 2,
	DOMAIN_CARD = 1,
	DOMAIN_PACKAGE = 2,
	FREQUENCY_GPU = 0,
	TILES = 2,
	FIRST_DRAWS = 5, /* eighths of the card's energy, since real tiles differ too */
};

uint32_t sk_ze_power_tiles(const struct sk_sim_card *card)
{
	return card->model.flags & SK_SIM_HAS_TILE_POWER ? TILES : 0;
}

/* Return a domain's part of the card's limit; tiles have equal parts. */
static uint32_t part_of(const struct sk_sim_card *card, uint32_t mw)
{
	return sk_ze_power_tiles(card) ? mw / TILES : mw;
}

static uint64_t energy_mj(const struct sk_sim_card *card, uint32_t index)
{
	uint64_t all = sk_sim_energy_mj(card), first = all * FIRST_DRAWS / 8;

	if (!sk_ze_power_tiles(card))
		return all;
	return index ? all - first : first;
}

static int32_t interval_ms(const struct sk_sim_card *card)
{
	return (int32_t)(card->model.physics.limiter_s * 1000);
}

static void fill_limit(const struct sk_sim_card *card, uint32_t mw,
		       struct sk_zes_power_limit_ext_desc *ret)
{
	ret->level = LEVEL_SUSTAINED;
	ret->source = SOURCE_ANY;
	ret->limitUnit = UNIT_POWER;
	ret->enabledStateLocked = 1;
	ret->enabled = 1;
	ret->intervalValueLocked = 1;
	ret->interval = interval_ms(card);
	ret->limitValueLocked = 0;
	ret->limit = (int32_t)part_of(card, mw);
}

SK_ZE_API zesDeviceEnumPowerDomains(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_POWER, count, ret);
}

SK_ZE_API zesDeviceGetCardPowerDomain(void *device, void **ret)
{
	uint32_t one = 1, place, result;
	struct sk_sim_card *card;

	if (!ret)
		return SK_ZE_NULL_POINTER;
	if (!sk_ze_device_place(device, &place) || !sk_ze_power_tiles(sk_ze_card(place)))
		return sk_ze_enumerate(__func__, device, SK_ZE_POWER, &one, ret);
	result = sk_ze_begin(__func__, device, ret, &card);
	return result ? result : sk_ze_end(SK_ZE_UNSUPPORTED_FEATURE);
}

SK_ZE_API zesPowerGetProperties(void *power, struct sk_zes_power_properties *ret)
{
	struct sk_zes_power_ext_properties *more;
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, power, SK_ZE_POWER, ret, &index, &card);

	if (result)
		return result;
	ret->onSubdevice = sk_ze_power_tiles(card) != 0;
	ret->subdeviceId = index;
	ret->canControl = 1;
	ret->isEnergyThresholdSupported = 0;
	ret->defaultLimit = (int32_t)part_of(card, card->model.limit_default_mw);
	ret->minLimit = (int32_t)part_of(card, card->model.limit_min_mw);
	ret->maxLimit = (int32_t)part_of(card, card->model.limit_max_mw);
	more = sk_ze_extension(ret->pNext, SK_ZES_POWER_EXT_PROPERTIES);
	if (more)
		more->domain = sk_ze_power_tiles(card) ? DOMAIN_PACKAGE : DOMAIN_CARD;
	if (more && more->defaultLimit)
		fill_limit(card, card->model.limit_default_mw, more->defaultLimit);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesPowerGetEnergyCounter(void *power, struct sk_zes_power_energy_counter *ret)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, power, SK_ZE_POWER, ret, &index, &card);

	if (result)
		return result;
	if (!(card->model.flags & SK_SIM_HAS_ENERGY))
		return sk_ze_end(SK_ZE_UNSUPPORTED_FEATURE);
	*ret = (struct sk_zes_power_energy_counter){
		.energy = energy_mj(card, index) * 1000,
		/* "When energy was captured" (zes_api.h), which is not now. */
		.timestamp = (card->sensed.energy_ns - card->model.sensor.energy_period_ns) / 1000,
	};
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesPowerGetLimits(void *power, struct sk_zes_power_sustained_limit *sustained,
			    struct sk_zes_power_burst_limit *burst,
			    struct sk_zes_power_peak_limit *peak)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, power, SK_ZE_POWER, power, &index, &card);

	if (result)
		return result;
	if (sustained)
		*sustained = (struct sk_zes_power_sustained_limit){
			.enabled = 1,
			.power = (int32_t)part_of(card, card->now.limit_mw),
			.interval = interval_ms(card),
		};
	if (burst)
		*burst = (struct sk_zes_power_burst_limit){.enabled = 0};
	if (peak)
		*peak = (struct sk_zes_power_peak_limit){-1, -1};
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* The tiles of a card share one limit, so setting one sets all. */
static uint32_t set_limit(struct sk_sim_card *card, int32_t mw)
{
	uint32_t tiles = sk_ze_power_tiles(card) ? sk_ze_power_tiles(card) : 1;

	if (!sk_ze_may_set())
		return SK_ZE_NO_PERMISSION;
	if (mw < 0 || sk_sim_card_limit(card, (uint32_t)mw * tiles))
		return SK_ZE_INVALID_ARGUMENT;
	return SK_ZE_SUCCESS;
}

SK_ZE_API zesPowerSetLimits(void *power, const struct sk_zes_power_sustained_limit *sustained,
			    const struct sk_zes_power_burst_limit *burst,
			    const struct sk_zes_power_peak_limit *peak)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, power, SK_ZE_POWER, power, &index, &card);

	if (result)
		return result;
	if (burst || peak)
		return sk_ze_end(SK_ZE_UNSUPPORTED_FEATURE);
	return sk_ze_end(sustained ? set_limit(card, sustained->power) : SK_ZE_SUCCESS);
}

SK_ZE_API zesPowerGetLimitsExt(void *power, uint32_t *count,
			       struct sk_zes_power_limit_ext_desc *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, power, SK_ZE_POWER, count, &index, &card);

	if (result)
		return result;
	*count = 1;
	if (ret)
		fill_limit(card, card->now.limit_mw, ret);
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesPowerSetLimitsExt(void *power, uint32_t *count,
			       struct sk_zes_power_limit_ext_desc *limits)
{
	struct sk_sim_card *card;
	uint32_t index, result = sk_ze_begin_part(__func__, power, SK_ZE_POWER,
						  count && limits ? count : NULL, &index, &card);

	if (result)
		return result;
	for (uint32_t i = 0; i < *count && !result; i++)
		result = limits[i].level == LEVEL_SUSTAINED ? set_limit(card, limits[i].limit)
							    : SK_ZE_UNSUPPORTED_FEATURE;
	return sk_ze_end(result);
}

SK_ZE_API zesDeviceEnumFrequencyDomains(void *device, uint32_t *count, void **ret)
{
	return sk_ze_enumerate(__func__, device, SK_ZE_FREQUENCY, count, ret);
}

/* Return the lowest and the highest clock of a domain; memory has one clock. */
static struct sk_zes_freq_range whole_range(const struct sk_sim_card *card, uint32_t domain)
{
	const struct sk_sim_model *model = &card->model;

	if (domain != FREQUENCY_GPU)
		return (struct sk_zes_freq_range){model->memory_mhz, model->memory_mhz};
	return (struct sk_zes_freq_range){model->clock_min_mhz, model->clock_max_mhz};
}

static bool can_lock(const struct sk_sim_card *card, uint32_t domain)
{
	return domain == FREQUENCY_GPU && card->model.flags & SK_SIM_HAS_LOCKED_CLOCKS;
}

SK_ZE_API zesFrequencyGetProperties(void *domain, struct sk_zes_freq_properties *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, domain, SK_ZE_FREQUENCY, ret, &index, &card);

	if (result)
		return result;
	ret->type = index;
	ret->onSubdevice = 0;
	ret->subdeviceId = 0;
	ret->canControl = can_lock(card, index);
	ret->isThrottleEventSupported = 0;
	ret->min = whole_range(card, index).min;
	ret->max = whole_range(card, index).max;
	return sk_ze_end(SK_ZE_SUCCESS);
}

static uint32_t reasons(const struct sk_sim_card *card)
{
	const uint32_t flag[SK_SIM_WHYS] = {
		[SK_SIM_WHY_POWER] = SK_ZES_THROTTLE_POWER_CAP,
		[SK_SIM_WHY_THERMAL] = SK_ZES_THROTTLE_THERMAL,
		[SK_SIM_WHY_HARD_THERMAL] = SK_ZES_THROTTLE_THERMAL,
		[SK_SIM_WHY_BRAKE] = SK_ZES_THROTTLE_PSU,
		[SK_SIM_WHY_LOCKED] = SK_ZES_THROTTLE_RANGE,
	};
	uint32_t flags = 0;

	for (uint32_t why = 0; why < SK_SIM_WHYS; why++)
		if (card->now.why & 1U << why)
			flags |= flag[why];
	return flags;
}

SK_ZE_API zesFrequencyGetState(void *domain, struct sk_zes_freq_state *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, domain, SK_ZE_FREQUENCY, ret, &index, &card);

	if (result)
		return result;
	ret->currentVoltage = -1;
	ret->efficient = whole_range(card, index).min;
	ret->request = ret->tdp = whole_range(card, index).max;
	ret->throttleReasons = 0;
	ret->actual = sk_sim_memory_clock_mhz(card);
	if (index == FREQUENCY_GPU) {
		ret->actual = sk_sim_clock_mhz(card);
		ret->tdp = card->now.limit_mhz;
		ret->throttleReasons = reasons(card);
		if (card->now.locked_max_mhz)
			ret->request = card->now.locked_max_mhz;
	}
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFrequencyGetAvailableClocks(void *domain, uint32_t *count, double *ret)
{
	struct sk_sim_card *card;
	uint32_t have, index,
		result = sk_ze_begin_part(__func__, domain, SK_ZE_FREQUENCY, count, &index, &card);
	struct sk_zes_freq_range range;
	double step;

	if (result)
		return result;
	range = whole_range(card, index);
	step = card->model.clock_step_mhz;
	have = (uint32_t)((range.max - range.min) / step) + 1;
	if (!*count || *count > have)
		*count = have;
	for (uint32_t i = 0; ret && i < *count; i++)
		ret[i] = range.max - (have - 1 - i) * step;
	return sk_ze_end(SK_ZE_SUCCESS);
}

SK_ZE_API zesFrequencyGetRange(void *domain, struct sk_zes_freq_range *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, domain, SK_ZE_FREQUENCY, ret, &index, &card);

	if (result)
		return result;
	*ret = whole_range(card, index);
	if (index == FREQUENCY_GPU && card->now.locked_max_mhz)
		*ret = (struct sk_zes_freq_range){card->now.locked_min_mhz,
						  card->now.locked_max_mhz};
	return sk_ze_end(SK_ZE_SUCCESS);
}

/* A negative bound is the card's own one; two of them unlock the clock. */
static uint32_t set_range(struct sk_sim_card *card, const struct sk_zes_freq_range *asked)
{
	struct sk_zes_freq_range own = whole_range(card, FREQUENCY_GPU);
	double low = asked->min < 0 ? own.min : asked->min;
	double high = asked->max < 0 ? own.max : asked->max;

	if (!(low >= own.min && low <= high && high <= own.max))
		return SK_ZE_INVALID_ARGUMENT;
	if (low == own.min && high == own.max)
		sk_sim_card_lock(card, 0, 0);
	else if (sk_sim_card_lock(card, (uint32_t)low, (uint32_t)high))
		return SK_ZE_INVALID_ARGUMENT;
	return SK_ZE_SUCCESS;
}

SK_ZE_API zesFrequencySetRange(void *domain, const struct sk_zes_freq_range *asked)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, domain, SK_ZE_FREQUENCY, asked, &index, &card);

	if (result)
		return result;
	if (!can_lock(card, index))
		return sk_ze_end(SK_ZE_UNSUPPORTED_FEATURE);
	if (!sk_ze_may_set())
		return sk_ze_end(SK_ZE_NO_PERMISSION);
	return sk_ze_end(set_range(card, asked));
}

SK_ZE_API zesFrequencyGetThrottleTime(void *domain, struct sk_zes_freq_throttle_time *ret)
{
	struct sk_sim_card *card;
	uint32_t index,
		result = sk_ze_begin_part(__func__, domain, SK_ZE_FREQUENCY, ret, &index, &card);
	const uint64_t *ns;

	if (result)
		return result;
	if (index != FREQUENCY_GPU)
		return sk_ze_end(SK_ZE_UNSUPPORTED_FEATURE);
	ns = card->now.why_ns;
	ret->throttleTime = (ns[SK_SIM_WHY_POWER] + ns[SK_SIM_WHY_THERMAL] +
			     ns[SK_SIM_WHY_HARD_THERMAL] + ns[SK_SIM_WHY_BRAKE]) /
			    1000;
	ret->timestamp = sk_ze_now_us();
	return sk_ze_end(SK_ZE_SUCCESS);
}
