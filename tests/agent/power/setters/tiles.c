/* SPDX-License-Identifier: Apache-2.0 */
/* A Level Zero loader with one card of two tiles whose limits and clocks are each tile's own, as
 * the tests of cards of tiles want it. Its state is the file that TILES names. A card-level power
 * domain is there if that says so; memory's frequency domain comes first. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/levelzero/abi.h"

struct state {
	int32_t card_mw; /* 0: no card-level domain */
	int32_t limit_mw[2];
	int32_t reserved;
	double low_mhz[2], high_mhz[2];
};

static struct state *state(void)
{
	static struct state *now;

	if (!now) {
		now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED,
			   open(getenv("TILES"), O_RDWR), 0);
		if (now == MAP_FAILED)
			abort();
	}
	return now;
}

static uint32_t list(uintptr_t first, uint32_t have, uint32_t *count, void **ret)
{
	if (!*count || *count > have)
		*count = have;
	for (uint32_t i = 0; ret && i < *count; i++)
		ret[i] = (void *)(first + i);
	return 0;
}

enum { DRIVER = 0x100, DEVICE = 0x200, POWER = 0x300, CARD = 0x400, CLOCK = 0x500 };

uint32_t zesInit(uint32_t flags)
{
	return flags;
}

uint32_t zesDriverGet(uint32_t *count, void **ret)
{
	return list(DRIVER, 1, count, ret);
}

uint32_t zesDeviceGet(void *driver, uint32_t *count, void **ret)
{
	return list(DEVICE, 1, count, ret);
}

uint32_t zesDevicePciGetProperties(void *device, struct sk_zes_pci_properties *ret)
{
	ret->address = (struct sk_zes_pci_address){0, 0x4d, 0, 0};
	return 0;
}

uint32_t zesDeviceEnumPowerDomains(void *device, uint32_t *count, void **ret)
{
	return list(POWER, 2, count, ret);
}

uint32_t zesDeviceGetCardPowerDomain(void *device, void **ret)
{
	*ret = (void *)CARD;
	return state()->card_mw ? 0 : SK_ZE_UNSUPPORTED_FEATURE;
}

uint32_t zesPowerGetProperties(void *power, struct sk_zes_power_properties *ret)
{
	int32_t tiles = (uintptr_t)power == CARD ? 2 : 1;

	ret->onSubdevice = tiles == 1;
	ret->subdeviceId = (uintptr_t)power & 1;
	ret->minLimit = 100000 * tiles;
	ret->defaultLimit = ret->maxLimit = 300000 * tiles;
	return 0;
}

static int32_t *limit_of(void *power)
{
	return (uintptr_t)power == CARD ? &state()->card_mw
					: &state()->limit_mw[(uintptr_t)power & 1];
}

/* A peak limit comes first: the sustained one is found by its level. */
uint32_t zesPowerGetLimitsExt(void *power, uint32_t *count, struct sk_zes_power_limit_ext_desc *ret)
{
	if (!*count || *count > 2)
		*count = 2;
	for (uint32_t i = 0; ret && i < *count; i++) {
		ret[i].level = i ? 1 : 3;
		ret[i].limit = i ? *limit_of(power) : 900000;
	}
	return 0;
}

uint32_t zesPowerSetLimitsExt(void *power, uint32_t *count,
			      struct sk_zes_power_limit_ext_desc *asked)
{
	for (uint32_t i = 0; i < *count; i++) {
		if (asked[i].level != 1)
			return SK_ZE_INVALID_ARGUMENT;
		*limit_of(power) = asked[i].limit;
	}
	return 0;
}

uint32_t zesDeviceEnumFrequencyDomains(void *device, uint32_t *count, void **ret)
{
	return list(CLOCK, 3, count, ret);
}

uint32_t zesFrequencyGetProperties(void *domain, struct sk_zes_freq_properties *ret)
{
	uintptr_t number = (uintptr_t)domain - CLOCK;

	ret->type = number ? 0 : 1;
	ret->canControl = number > 0;
	ret->min = 900;
	ret->max = 1600;
	return 0;
}

uint32_t zesFrequencyGetRange(void *domain, struct sk_zes_freq_range *ret)
{
	uintptr_t number = (uintptr_t)domain - CLOCK;

	if (!number)
		return SK_ZE_UNSUPPORTED_FEATURE;
	ret->min = state()->low_mhz[number - 1];
	ret->max = state()->high_mhz[number - 1];
	return 0;
}

uint32_t zesFrequencySetRange(void *domain, const struct sk_zes_freq_range *asked)
{
	uintptr_t number = (uintptr_t)domain - CLOCK;

	if (!number)
		return SK_ZE_UNSUPPORTED_FEATURE;
	state()->low_mhz[number - 1] = asked->min < 0 ? 900 : asked->min;
	state()->high_mhz[number - 1] = asked->max < 0 ? 1600 : asked->max;
	return 0;
}

uint32_t zesFrequencyGetAvailableClocks(void *domain, uint32_t *count, double *ret)
{
	*count = 0;
	return 0;
}
