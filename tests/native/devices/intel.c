/* SPDX-License-Identifier: Apache-2.0 */
/* The Intel reader on a Sysman of its own: power domains and error counters by tile.
 * Arguments: tiles, a domain that fails (0: none), then for each domain "tile" or "card". Prints
 * what two rounds and a slow one found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/card.h"
#include "devices/intel/zes.h"

enum { DOMAINS = 8, SETS = 4 };

static uint32_t tiles, domains, fails, round_number;
static bool on_tile[DOMAINS];
static uint32_t tile_of[DOMAINS];

/* uJ and us in the first round and the second one. */
static const struct zes_counter energy[2][DOMAINS] = {
	{{1000000, 100000}, {9000000, 150000}, {1, 1}},
	{{21000000, 200000}, {24000000, 300000}, {1, 2}},
};

static const struct {
	uint32_t type;
	uint64_t category[7];
} sets[SETS] = {
	{0, {0, 0, 0, 1, 2, 4, 0}},
	{1, {9, 70, 80, 10, 20, 40, 90}},
	{0, {0, 0, 0, 8, 0, 0, 0}},
	{1, {9, 70, 80, 100, 0, 0, 90}},
};

static int properties(void *device, struct zes_device *ret)
{
	ret->tiles = tiles;
	return 0;
}

static int list(uint32_t have, uint32_t *count, void **ret)
{
	for (uint32_t i = 0; i < have && i < *count; i++)
		ret[i] = (void *)(uintptr_t)(i + 1);
	*count = have;
	return 0;
}

static int list_power(void *device, uint32_t *count, void **ret)
{
	return list(domains, count, ret);
}

static int list_sets(void *device, uint32_t *count, void **ret)
{
	return list(SETS, count, ret);
}

static int power(void *domain, struct zes_power *ret)
{
	uint32_t number = (uint32_t)(uintptr_t)domain - 1;

	ret->on_tile = on_tile[number];
	ret->tile = tile_of[number];
	return 0;
}

static int counter(void *domain, struct zes_counter *ret)
{
	uint32_t number = (uint32_t)(uintptr_t)domain;

	if (number == fails)
		return ZES_UNSUPPORTED;
	*ret = energy[round_number][number - 1];
	return 0;
}

static int ras_kind(void *set, struct zes_kind *ret)
{
	ret->type = sets[(uintptr_t)set - 1].type;
	return 0;
}

static int ras(void *set, uint8_t clear, struct zes_ras *ret)
{
	if (clear)
		abort();
	memcpy(ret->category, sets[(uintptr_t)set - 1].category, sizeof(ret->category));
	return 0;
}

static void say(const char *name, const struct sk_device_field *field)
{
	if (field->code)
		printf("%s %s %d\n", name, sk_device_intel.call[field->call], field->code);
	else
		printf("%s %g %u\n", name, field->value, field->window_us);
}

int main(int argc, char **argv)
{
	static struct sk_device_record record;
	struct sk_device_card card = {.vendor = &sk_device_intel};

	tiles = (uint32_t)atoi(argv[1]);
	fails = (uint32_t)atoi(argv[2]);
	for (int i = 3; i < argc; i++, domains++) {
		on_tile[domains] = strcmp(argv[i], "card") != 0;
		tile_of[domains] = (uint32_t)atoi(argv[i]);
	}
	sk_zes.zesDeviceGetProperties = properties;
	sk_zes.zesDeviceEnumPowerDomains = list_power;
	sk_zes.zesPowerGetProperties = power;
	sk_zes.zesPowerGetEnergyCounter = counter;
	sk_zes.zesDeviceEnumRasErrorSets = list_sets;
	sk_zes.zesRasGetProperties = ras_kind;
	sk_zes.zesRasGetState = ras;
	sk_device_intel.begin(&card);
	sk_device_intel.fast(&card, &record);
	say("first", &record.field[SK_DEVICE_POWER]);
	round_number = 1;
	sk_device_intel.fast(&card, &record);
	say("power", &record.field[SK_DEVICE_POWER]);
	say("energy", &record.field[SK_DEVICE_ENERGY]);
	sk_device_intel.slow(&card, &record);
	say("corrected", &record.field[SK_DEVICE_ECC_CORRECTED]);
	say("uncorrected", &record.field[SK_DEVICE_ECC_UNCORRECTED]);
	say("memory", &record.field[SK_DEVICE_MEMORY_USED]);
	sk_device_intel.end(&card);
	return 0;
}
