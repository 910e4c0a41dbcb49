/* SPDX-License-Identifier: Apache-2.0 */
#include "intel.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "devices/library.h"

struct pci_properties {
	uint32_t stype;
	void *next;
	uint32_t domain, bus, device, function;
	int32_t gen, width;
	int64_t bandwidth;
	uint8_t counters[3];
};

struct sustained_limit {
	uint8_t enabled;
	int32_t power_mw, interval_ms;
};

struct freq_range {
	double min, max;
};

/* zes_power_limit_ext_desc_t */
struct limit_ext {
	uint32_t stype;
	void *next;
	uint32_t level, source, unit;
	uint8_t enabled_locked, enabled, interval_locked;
	int32_t interval_ms;
	uint8_t limit_locked;
	int32_t limit_mw;
};

_Static_assert(sizeof(struct limit_ext) == 48 && offsetof(struct limit_ext, limit_mw) == 40,
	       "as zes_api.h has it");

enum {
	ZE_MOST = 64,
	ZES_PCI_PROPERTIES = 0x2,
	ZES_POWER_LIMIT_EXT = 0x27,
	ZES_LEVEL_SUSTAINED = 1,
	ZES_UNSUPPORTED = 0x78000003,
	LIMITS_MOST = 16,
	OTHER_WAY = 1, /* this driver does not have it */
};

typedef int (*limits_ext)(void *, uint32_t *, struct limit_ext *);

typedef int (*ze_list)(void *, uint32_t *, void **);

static int ze_listed(void *library, const char *name, void *of, void **ret, uint32_t *count)
{
	char why[64];
	ze_list list = (ze_list)sk_device_find(library, name, why, sizeof(why));

	*count = ZE_MOST;
	return list && list(of, count, ret) == 0 ? 0 : -EIO;
}

static void *sysman(char *why, size_t size)
{
	static void *library;
	int (*init)(uint32_t);
	int code;

	if (library)
		return library;
	/* One that was loaded before main(), under whatever name, is the one to use. */
	void *opened = dlsym(RTLD_DEFAULT, "zesInit")
			       ? dlopen(NULL, RTLD_NOW)
			       : sk_device_library("libze_loader.so.1", why, size);

	init = (int (*)(uint32_t))sk_device_find(opened, "zesInit", why, size);
	if (!init)
		return NULL;
	code = init(0);
	if (code) {
		sk_device_refuse(why, size, "zesInit", code);
		return NULL;
	}
	return library = opened;
}

static bool ze_is_at(void *library, void *device, const char *address)
{
	char why[64], text[32];
	struct pci_properties at = {.stype = ZES_PCI_PROPERTIES};
	int (*get)(void *, struct pci_properties *) =
		(int (*)(void *, struct pci_properties *))sk_device_find(
			library, "zesDevicePciGetProperties", why, sizeof(why));

	if (!get || get(device, &at))
		return false;
	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", at.domain, at.bus, at.device,
		 at.function);
	return !strcasecmp(text, address);
}

static void *ze_find(void *library, const char *address, char *why, size_t size)
{
	void *driver[ZE_MOST], *device[ZE_MOST];
	uint32_t drivers = ZE_MOST, devices;
	int (*list)(uint32_t *, void **) =
		(int (*)(uint32_t *, void **))sk_device_find(library, "zesDriverGet", why, size);

	if (!list || list(&drivers, driver))
		return NULL;
	for (uint32_t i = 0; i < drivers && i < ZE_MOST; i++) {
		if (ze_listed(library, "zesDeviceGet", driver[i], device, &devices))
			continue;
		for (uint32_t k = 0; k < devices && k < ZE_MOST; k++)
			if (ze_is_at(library, device[k], address))
				return device[k];
	}
	snprintf(why, size, "no Intel GPU at %s", address);
	return NULL;
}

/* The sustained one of a domain's limits. */
static int read_ext(limits_ext get, void *domain, struct limit_ext *ret, char *why, size_t size)
{
	struct limit_ext limit[LIMITS_MOST] = {0};
	uint32_t count = 0;
	int code = get(domain, &count, NULL);

	for (uint32_t i = 0; i < LIMITS_MOST; i++)
		limit[i].stype = ZES_POWER_LIMIT_EXT;
	count = count < LIMITS_MOST ? count : LIMITS_MOST;
	if (!code && count)
		code = get(domain, &count, limit);
	if (code == ZES_UNSUPPORTED)
		return OTHER_WAY;
	if (code)
		return sk_device_refuse(why, size, "zesPowerGetLimitsExt", code);
	for (uint32_t i = 0; i < count && i < LIMITS_MOST; i++) {
		if (limit[i].level == ZES_LEVEL_SUSTAINED) {
			*ret = limit[i];
			return 0;
		}
	}
	return OTHER_WAY;
}

static int write_ext(void *library, void *domain, uint64_t mw, char *why, size_t size)
{
	limits_ext get = (limits_ext)dlsym(library, "zesPowerGetLimitsExt");
	limits_ext set = (limits_ext)dlsym(library, "zesPowerSetLimitsExt");
	struct limit_ext limit;
	uint32_t one = 1;
	int code;

	if (!get || !set)
		return OTHER_WAY;
	code = read_ext(get, domain, &limit, why, size);
	if (code)
		return code;
	limit.limit_mw = (int32_t)mw;
	code = set(domain, &one, &limit);
	if (code == ZES_UNSUPPORTED)
		return OTHER_WAY;
	if (code)
		return sk_device_refuse(why, size, "zesPowerSetLimitsExt", code);
	code = read_ext(get, domain, &limit, why, size);
	return code < 0 ? code : sk_device_same((uint64_t)limit.limit_mw, mw, why, size);
}

/* Before Sysman 1.3, and drivers that have only these. */
static int write_old(void *library, void *domain, uint64_t mw, char *why, size_t size)
{
	struct sustained_limit limit = {.enabled = 1, .power_mw = (int32_t)mw, .interval_ms = -1};
	int (*set)(void *, const struct sustained_limit *, const void *, const void *) =
		(int (*)(void *, const struct sustained_limit *, const void *,
			 const void *))sk_device_find(library, "zesPowerSetLimits", why, size);
	int (*get)(void *, struct sustained_limit *, void *, void *) =
		(int (*)(void *, struct sustained_limit *, void *, void *))sk_device_find(
			library, "zesPowerGetLimits", why, size);
	int code;

	if (!set || !get)
		return -ENOSYS;
	code = set(domain, &limit, NULL, NULL);
	if (code)
		return sk_device_refuse(why, size, "zesPowerSetLimits", code);
	code = get(domain, &limit, NULL, NULL);
	if (code)
		return sk_device_refuse(why, size, "zesPowerGetLimits", code);
	return sk_device_same((uint64_t)limit.power_mw, mw, why, size);
}

/* The domain that a setting is of; NULL with the reason. */
static void *domain_of(void *library, void *device, const char *list, const char *what, char *why,
		       size_t size)
{
	const char *slash = strchr(what, '/');
	void *domain[ZE_MOST];
	uint32_t count = 0, number = 0;
	char rest;

	if (slash && sscanf(slash, "/%u%c", &number, &rest) != 1)
		number = ZE_MOST;
	if (ze_listed(library, list, device, domain, &count))
		count = 0;
	if (number < count && number < ZE_MOST)
		return domain[number];
	snprintf(why, size, "%s: no such domain among %u", list, count);
	return NULL;
}

static int intel_limit(void *library, void *device, const struct sk_power_entry *entry, char *why,
		       size_t size)
{
	int (*of_card)(void *, void **) =
		(int (*)(void *, void **))dlsym(library, "zesDeviceGetCardPowerDomain");
	void *domain = NULL;
	int error;

	if (strchr(entry->what, '/') || !of_card || of_card(device, &domain) || !domain)
		domain = domain_of(library, device, "zesDeviceEnumPowerDomains", entry->what, why,
				   size);
	if (!domain)
		return -ENODEV;
	error = write_ext(library, domain, entry->value, why, size);
	return error == OTHER_WAY ? write_old(library, domain, entry->value, why, size) : error;
}

/* The upper end, with the card's own lower one; then the lower end, if that was another. */
static int intel_clock(void *library, void *device, const struct sk_power_entry *entry, char *why,
		       size_t size)
{
	bool highest = !strncmp(entry->what, "clock_max_mhz", strlen("clock_max_mhz"));
	struct freq_range range = {0};
	int (*get)(void *, struct freq_range *) =
		(int (*)(void *, struct freq_range *))sk_device_find(
			library, "zesFrequencyGetRange", why, size);
	int (*set)(void *, const struct freq_range *) =
		(int (*)(void *, const struct freq_range *))sk_device_find(
			library, "zesFrequencySetRange", why, size);
	void *domain;
	int code;

	if (!get || !set)
		return -ENOSYS;
	domain =
		domain_of(library, device, "zesDeviceEnumFrequencyDomains", entry->what, why, size);
	if (!domain)
		return -ENODEV;
	code = get(domain, &range);
	if (code)
		return sk_device_refuse(why, size, "zesFrequencyGetRange", code);
	range.min = highest ? -1 : (double)entry->value;
	range.max = highest ? (double)entry->value : range.max;
	code = set(domain, &range);
	return code ? sk_device_refuse(why, size, "zesFrequencySetRange", code) : 0;
}

int sk_power_intel(const struct sk_power_entry *entry, char *why, size_t size)
{
	void *library = sysman(why, size);
	void *device = library ? ze_find(library, entry->id, why, size) : NULL;

	if (!device)
		return -ENODEV;
	if (!strncmp(entry->what, "limit_mw", strlen("limit_mw")))
		return intel_limit(library, device, entry, why, size);
	return intel_clock(library, device, entry, why, size);
}
