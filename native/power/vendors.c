/* SPDX-License-Identifier: Apache-2.0 */
#include "vendors.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { AMD_SOCKETS = 64, AMD_PROCESSORS = 64, AMD_INIT_GPUS = 1 << 1, SAME_MW = 1000, UW = 1000 };
enum { NVML_NOT_SUPPORTED = 3, NVML_FUNCTION_NOT_FOUND = 13 };

static int refuse(char *why, size_t size, const char *what, int code)
{
	snprintf(why, size, "%s: error %d", what, code);
	return -EIO;
}

static void *open_library(const char *name, char *why, size_t size)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	if (!library)
		snprintf(why, size, "%s", dlerror());
	return library;
}

/** 0 where a limit that was read back is the one that was written: drivers round. */
static int same(uint64_t now_mw, uint64_t mw, char *why, size_t size)
{
	if (llabs((long long)now_mw - (long long)mw) <= SAME_MW)
		return 0;
	snprintf(why, size, "the limit reads %llu mW afterwards", (unsigned long long)now_mw);
	return -EIO;
}

/** A function of a library, or NULL with the reason. */
static void *find(void *library, const char *name, char *why, size_t size)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (library && !found)
		snprintf(why, size, "the library has no %s", name);
	return found;
}

/* --- NVIDIA ----------------------------------------------------------------------------------- */

static void *nvml(char *why, size_t size)
{
	static void *library;
	int (*init)(void);
	int code;

	if (library)
		return library;
	void *opened = open_library("libnvidia-ml.so.1", why, size);

	init = (int (*)(void))find(opened, "nvmlInit_v2", why, size);
	if (!init)
		return NULL;
	code = init();
	if (code) {
		refuse(why, size, "nvmlInit_v2", code);
		return NULL;
	}
	return library = opened;
}

static int nvidia_limit(void *library, void *device, uint64_t mw, char *why, size_t size)
{
	int (*set)(void *, unsigned) = (int (*)(void *, unsigned))find(
		library, "nvmlDeviceSetPowerManagementLimit", why, size);
	int (*get)(void *, unsigned *) = (int (*)(void *, unsigned *))find(
		library, "nvmlDeviceGetPowerManagementLimit", why, size);
	unsigned now = 0;
	int code;

	if (!set || !get)
		return -ENOSYS;
	code = set(device, (unsigned)mw);
	if (code)
		return refuse(why, size, "nvmlDeviceSetPowerManagementLimit", code);
	code = get(device, &now);
	if (code)
		return refuse(why, size, "nvmlDeviceGetPowerManagementLimit", code);
	return same(now, mw, why, size);
}

/* What cannot lock clocks (before Volta, an older driver) has none that could be let go. */
static int nvidia_clocks(void *library, void *device, char *why, size_t size)
{
	int (*reset)(void *) = (int (*)(void *))dlsym(library, "nvmlDeviceResetGpuLockedClocks");
	int code = reset ? reset(device) : NVML_FUNCTION_NOT_FOUND;

	if (code && code != NVML_NOT_SUPPORTED && code != NVML_FUNCTION_NOT_FOUND)
		return refuse(why, size, "nvmlDeviceResetGpuLockedClocks", code);
	return 0;
}

static int nvidia(const struct sk_power_entry *entry, char *why, size_t size)
{
	void *library = nvml(why, size), *device = NULL;
	int (*by_uuid)(const char *, void **) = (int (*)(const char *, void **))find(
		library, "nvmlDeviceGetHandleByUUID", why, size);
	int code;

	if (!by_uuid)
		return -ENOSYS;
	code = by_uuid(entry->id, &device);
	if (code)
		return refuse(why, size, "nvmlDeviceGetHandleByUUID", code);
	if (!strcmp(entry->what, "limit_mw"))
		return nvidia_limit(library, device, entry->value, why, size);
	return nvidia_clocks(library, device, why, size);
}

/* --- AMD -------------------------------------------------------------------------------------- */

static void *amdsmi(char *why, size_t size)
{
	static void *library;
	char path[512];
	const char *root = getenv("ROCM_PATH");
	int (*init)(uint64_t);
	void *opened;
	int code;

	if (library)
		return library;
	snprintf(path, sizeof(path), "%s/lib/libamd_smi.so", root ? root : "/opt/rocm");
	opened = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!opened)
		opened = open_library("libamd_smi.so", why, size);
	init = (int (*)(uint64_t))find(opened, "amdsmi_init", why, size);
	if (!init)
		return NULL;
	code = init(AMD_INIT_GPUS);
	if (code) {
		refuse(why, size, "amdsmi_init", code);
		return NULL;
	}
	return library = opened;
}

/* amdsmi_bdf_t: function 3 bits, device 5, bus 8, domain 48, lowest first. */
static void print_bdf(uint64_t bdf, char *ret, size_t size)
{
	snprintf(ret, size, "%04llx:%02x:%02x.%x", (unsigned long long)(bdf >> 16),
		 (unsigned)(bdf >> 8 & 0xff), (unsigned)(bdf >> 3 & 0x1f), (unsigned)(bdf & 7));
}

static void *amd_find(void *library, const char *address, char *why, size_t size)
{
	int (*sockets)(uint32_t *, void **) =
		(int (*)(uint32_t *, void **))find(library, "amdsmi_get_socket_handles", why, size);
	int (*processors)(void *, uint32_t *, void **) = (int (*)(void *, uint32_t *, void **))find(
		library, "amdsmi_get_processor_handles", why, size);
	int (*place)(void *, uint64_t *) =
		(int (*)(void *, uint64_t *))find(library, "amdsmi_get_gpu_device_bdf", why, size);
	void *socket[AMD_SOCKETS], *processor[AMD_PROCESSORS];
	uint32_t count = AMD_SOCKETS;

	if (!sockets || !processors || !place || sockets(&count, socket))
		return NULL;
	for (uint32_t i = 0; i < count && i < AMD_SOCKETS; i++) {
		uint32_t most = AMD_PROCESSORS;

		if (processors(socket[i], &most, processor))
			continue;
		for (uint32_t k = 0; k < most && k < AMD_PROCESSORS; k++) {
			uint64_t bdf;
			char text[32];

			if (place(processor[k], &bdf))
				continue;
			print_bdf(bdf, text, sizeof(text));
			if (!strcasecmp(text, address))
				return processor[k];
		}
	}
	snprintf(why, size, "no AMD GPU at %s", address);
	return NULL;
}

struct power_cap_info {
	uint64_t cap, of_default, dpm, min, max, reserved[3];
};

static int amd(const struct sk_power_entry *entry, char *why, size_t size)
{
	void *library = amdsmi(why, size);
	void *device = library ? amd_find(library, entry->id, why, size) : NULL;
	int (*set)(void *, uint32_t, uint64_t) = (int (*)(void *, uint32_t, uint64_t))find(
		library, "amdsmi_set_power_cap", why, size);
	int (*get)(void *, uint32_t, struct power_cap_info *) =
		(int (*)(void *, uint32_t, struct power_cap_info *))find(
			library, "amdsmi_get_power_cap_info", why, size);
	struct power_cap_info now = {0};
	int code;

	if (!device || !set || !get)
		return -ENODEV;
	code = set(device, 0, entry->value);
	if (code)
		return refuse(why, size, "amdsmi_set_power_cap", code);
	code = get(device, 0, &now);
	if (code)
		return refuse(why, size, "amdsmi_get_power_cap_info", code);
	return same(now.cap / UW, entry->value / UW, why, size);
}

/* --- Intel ------------------------------------------------------------------------------------ */

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

enum { ZE_MOST = 64, ZES_PCI_PROPERTIES = 0x2 };

typedef int (*ze_list)(void *, uint32_t *, void **);

static int ze_listed(void *library, const char *name, void *of, void **ret, uint32_t *count)
{
	char why[64];
	ze_list list = (ze_list)find(library, name, why, sizeof(why));

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
			       : open_library("libze_loader.so.1", why, size);

	init = (int (*)(uint32_t))find(opened, "zesInit", why, size);
	if (!init)
		return NULL;
	code = init(0);
	if (code) {
		refuse(why, size, "zesInit", code);
		return NULL;
	}
	return library = opened;
}

static bool ze_is_at(void *library, void *device, const char *address)
{
	char why[64], text[32];
	struct pci_properties at = {.stype = ZES_PCI_PROPERTIES};
	int (*get)(void *, struct pci_properties *) =
		(int (*)(void *, struct pci_properties *))find(library, "zesDevicePciGetProperties",
							       why, sizeof(why));

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
		(int (*)(uint32_t *, void **))find(library, "zesDriverGet", why, size);

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

static int intel_limit(void *library, void *device, uint64_t mw, char *why, size_t size)
{
	struct sustained_limit limit = {.enabled = 1, .power_mw = (int32_t)mw, .interval_ms = -1};
	void *domain[ZE_MOST];
	uint32_t count;
	int (*set)(void *, const struct sustained_limit *, const void *, const void *) =
		(int (*)(void *, const struct sustained_limit *, const void *, const void *))find(
			library, "zesPowerSetLimits", why, size);
	int (*get)(void *, struct sustained_limit *, void *, void *) =
		(int (*)(void *, struct sustained_limit *, void *, void *))find(
			library, "zesPowerGetLimits", why, size);
	int code;

	if (!set || !get ||
	    ze_listed(library, "zesDeviceEnumPowerDomains", device, domain, &count) || !count)
		return -ENODEV;
	code = set(domain[0], &limit, NULL, NULL);
	if (code)
		return refuse(why, size, "zesPowerSetLimits", code);
	code = get(domain[0], &limit, NULL, NULL);
	if (code)
		return refuse(why, size, "zesPowerGetLimits", code);
	return same((uint64_t)limit.power_mw, mw, why, size);
}

/* The upper end, with the card's own lower one; then the lower end, if that was another. The first
 * domain is the GPU's own: memory's refuses a range, or comes after. */
static int intel_clock(void *library, void *device, bool highest, uint64_t mhz, char *why,
		       size_t size)
{
	struct freq_range range = {0};
	void *domain[ZE_MOST];
	uint32_t count;
	int (*get)(void *, struct freq_range *) = (int (*)(void *, struct freq_range *))find(
		library, "zesFrequencyGetRange", why, size);
	int (*set)(void *, const struct freq_range *) =
		(int (*)(void *, const struct freq_range *))find(library, "zesFrequencySetRange",
								 why, size);
	int code;

	if (!get || !set ||
	    ze_listed(library, "zesDeviceEnumFrequencyDomains", device, domain, &count) || !count)
		return -ENODEV;
	code = get(domain[0], &range);
	if (code)
		return refuse(why, size, "zesFrequencyGetRange", code);
	range.min = highest ? -1 : (double)mhz;
	range.max = highest ? (double)mhz : range.max;
	code = set(domain[0], &range);
	return code ? refuse(why, size, "zesFrequencySetRange", code) : 0;
}

static int intel(const struct sk_power_entry *entry, char *why, size_t size)
{
	void *library = sysman(why, size);
	void *device = library ? ze_find(library, entry->id, why, size) : NULL;

	if (!device)
		return -ENODEV;
	if (!strcmp(entry->what, "limit_mw"))
		return intel_limit(library, device, entry->value, why, size);
	return intel_clock(library, device, !strcmp(entry->what, "clock_max_mhz"), entry->value,
			   why, size);
}

/* --- files ------------------------------------------------------------------------------------ */

static int file(const struct sk_power_entry *entry, char *why, size_t size)
{
	char text[32];
	bool v2 = !strcmp(entry->what, "cpu_max"); /* the period stays as it is */
	int length = v2 ? snprintf(text, sizeof(text), "max\n")
			: snprintf(text, sizeof(text), "%llu\n", (unsigned long long)entry->value);
	int fd = open(entry->id, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t wrote = fd < 0 ? -1 : write(fd, text, (size_t)length);
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (wrote == length)
		return 0;
	/* The group of held processes is gone, and so is what held them. */
	if (fd < 0 && error == ENOENT && (v2 || !strcmp(entry->what, "quota")))
		return 0;
	snprintf(why, size, "%s", strerror(error));
	return -EIO;
}

int sk_power_write(const struct sk_power_entry *entry, char *why, size_t size)
{
	if (!strcmp(entry->kind, "nvidia"))
		return nvidia(entry, why, size);
	if (!strcmp(entry->kind, "amd"))
		return amd(entry, why, size);
	if (!strcmp(entry->kind, "intel"))
		return intel(entry, why, size);
	if (!strcmp(entry->kind, "file"))
		return file(entry, why, size);
	snprintf(why, size, "no vendor of that name");
	return -ENOSYS;
}
