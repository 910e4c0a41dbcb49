/* SPDX-License-Identifier: Apache-2.0 */
/* Opens Level Zero Sysman, finds a card, and writes and restores its power limits and clocks. */
#include "devices/intel/zes.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "devices/library.h"

enum { OTHER_WAY = 1 }; /* this driver does not have these functions */

struct sk_zes sk_zes;

int sk_intel_open(char *why, size_t size)
{
	static void *ready;
	void *library;
	int code;

	if (ready)
		return 0;
	/* A loader that was preloaded, under any name, takes precedence. */
	library = dlsym(RTLD_DEFAULT, "zesInit")
			  ? dlopen(NULL, RTLD_NOW)
			  : sk_device_library("libze_loader.so.1", why, size);
	if (!sk_device_find(library, "zesInit", why, size))
		return -ENODEV;
#define X(name, parameters) *(void **)&sk_zes.name = dlsym(library, #name);
	SK_ZES_READ_TABLE(X)
	SK_ZES_OTHER_TABLE(X)
#undef X
	code = sk_zes.zesInit(0);
	if (code)
		return sk_device_refuse(why, size, "zesInit", code);
	ready = library;
	return 0;
}

static bool is_at(void *device, const char *address)
{
	struct zes_pci_properties at = {.stype = ZES_PCI_PROPERTIES};
	char text[32];

	if (!sk_zes.zesDevicePciGetProperties || sk_zes.zesDevicePciGetProperties(device, &at))
		return false;
	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", at.domain, at.bus, at.device,
		 at.function);
	return !strcasecmp(text, address);
}

int sk_intel_find(const char *address, void **ret, char *why, size_t size)
{
	void *driver[ZES_HANDLES_MAX], *device[ZES_HANDLES_MAX];
	uint32_t drivers = ZES_HANDLES_MAX;

	snprintf(why, size, "no Intel GPU at %s", address);
	if (!sk_zes.zesDriverGet || !sk_zes.zesDeviceGet || sk_zes.zesDriverGet(&drivers, driver))
		return -ENODEV;
	for (uint32_t i = 0; i < drivers && i < ZES_HANDLES_MAX; i++) {
		uint32_t devices = ZES_HANDLES_MAX;

		if (sk_zes.zesDeviceGet(driver[i], &devices, device))
			continue;
		for (uint32_t k = 0; k < devices && k < ZES_HANDLES_MAX; k++) {
			if (!is_at(device[k], address))
				continue;
			*ret = device[k];
			return 0;
		}
	}
	return -ENODEV;
}

/* Read the sustained limit of a domain. */
static int read_ext(void *domain, struct zes_limit *ret, char *why, size_t size)
{
	struct zes_limit limit[ZES_LIMITS_MAX] = {0};
	uint32_t count = 0;
	int code = sk_zes.zesPowerGetLimitsExt(domain, &count, NULL);

	for (uint32_t i = 0; i < ZES_LIMITS_MAX; i++)
		limit[i].stype = ZES_POWER_LIMIT_EXT;
	count = count < ZES_LIMITS_MAX ? count : ZES_LIMITS_MAX;
	if (!code && count)
		code = sk_zes.zesPowerGetLimitsExt(domain, &count, limit);
	if (code == ZES_UNSUPPORTED)
		return OTHER_WAY;
	if (code)
		return sk_device_refuse(why, size, "zesPowerGetLimitsExt", code);
	for (uint32_t i = 0; i < count && i < ZES_LIMITS_MAX; i++) {
		if (limit[i].level == ZES_LEVEL_SUSTAINED) {
			*ret = limit[i];
			return 0;
		}
	}
	return OTHER_WAY;
}

static int write_ext(void *domain, uint64_t mw, char *why, size_t size)
{
	struct zes_limit limit;
	uint32_t one = 1;
	int code;

	if (!sk_zes.zesPowerGetLimitsExt || !sk_zes.zesPowerSetLimitsExt)
		return OTHER_WAY;
	code = read_ext(domain, &limit, why, size);
	if (code)
		return code;
	limit.limit_mw = (int32_t)mw;
	code = sk_zes.zesPowerSetLimitsExt(domain, &one, &limit);
	if (code == ZES_UNSUPPORTED)
		return OTHER_WAY;
	if (code)
		return sk_device_refuse(why, size, "zesPowerSetLimitsExt", code);
	code = read_ext(domain, &limit, why, size);
	return code < 0 ? code : sk_device_same((uint64_t)limit.limit_mw, mw, why, size);
}

/* Write by the functions of Sysman before 1.3, which some drivers have alone. */
static int write_old(void *domain, uint64_t mw, char *why, size_t size)
{
	struct zes_sustained limit = {.enabled = 1, .power_mw = (int32_t)mw, .interval_ms = -1};
	int code;

	if (!sk_zes.zesPowerSetLimits)
		return sk_device_missing(why, size, "zesPowerSetLimits");
	if (!sk_zes.zesPowerGetLimits)
		return sk_device_missing(why, size, "zesPowerGetLimits");
	code = sk_zes.zesPowerSetLimits(domain, &limit, NULL, NULL);
	if (code)
		return sk_device_refuse(why, size, "zesPowerSetLimits", code);
	code = sk_zes.zesPowerGetLimits(domain, &limit, NULL, NULL);
	if (code)
		return sk_device_refuse(why, size, "zesPowerGetLimits", code);
	return sk_device_same((uint64_t)limit.power_mw, mw, why, size);
}

typedef int (*list_function)(void *, uint32_t *, void **);

/* Find the domain of a setting; NULL with the reason. */
static void *domain_of(void *device, list_function list, const char *what, char *why, size_t size)
{
	const char *slash = strchr(what, '/');
	void *domain[ZES_HANDLES_MAX];
	uint32_t count = ZES_HANDLES_MAX, number = 0;
	char rest;

	if (slash && sscanf(slash, "/%u%c", &number, &rest) != 1)
		number = ZES_HANDLES_MAX;
	if (!list || list(device, &count, domain))
		count = 0;
	if (number < count && number < ZES_HANDLES_MAX)
		return domain[number];
	snprintf(why, size, "%s: no such domain among %u", what, count);
	return NULL;
}

static int write_limit(void *device, const char *what, uint64_t mw, char *why, size_t size)
{
	void *domain = NULL;
	int error;

	if (strchr(what, '/') || !sk_zes.zesDeviceGetCardPowerDomain ||
	    sk_zes.zesDeviceGetCardPowerDomain(device, &domain) || !domain)
		domain = domain_of(device, sk_zes.zesDeviceEnumPowerDomains, what, why, size);
	if (!domain)
		return -ENODEV;
	error = write_ext(domain, mw, why, size);
	return error == OTHER_WAY ? write_old(domain, mw, why, size) : error;
}

/* Write one end of the range of clocks. The upper end comes first and resets the lower one to the
 * card's own; a record has the lower end only if that was another. */
static int write_clock(void *device, const char *what, uint64_t mhz, char *why, size_t size)
{
	bool highest = !strncmp(what, "clock_max_mhz", strlen("clock_max_mhz"));
	double value = mhz == UINT64_MAX ? -1 : (double)mhz;
	struct zes_range range = {0};
	void *domain;
	int code;

	if (!sk_zes.zesFrequencyGetRange)
		return sk_device_missing(why, size, "zesFrequencyGetRange");
	if (!sk_zes.zesFrequencySetRange)
		return sk_device_missing(why, size, "zesFrequencySetRange");
	domain = domain_of(device, sk_zes.zesDeviceEnumFrequencyDomains, what, why, size);
	if (!domain)
		return -ENODEV;
	code = sk_zes.zesFrequencyGetRange(domain, &range);
	if (code)
		return sk_device_refuse(why, size, "zesFrequencyGetRange", code);
	range.min = highest ? -1 : value;
	range.max = highest ? value : range.max;
	code = sk_zes.zesFrequencySetRange(domain, &range);
	return code ? sk_device_refuse(why, size, "zesFrequencySetRange", code) : 0;
}

int sk_intel_write(void *handle, const char *what, uint64_t value, char *why, size_t size)
{
	if (!strncmp(what, "limit_mw", strlen("limit_mw")))
		return write_limit(handle, what, value, why, size);
	return write_clock(handle, what, value, why, size);
}
