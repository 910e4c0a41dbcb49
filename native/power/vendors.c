/* SPDX-License-Identifier: Apache-2.0 */
#include "vendors.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "devices/library.h"
#include "devices/vendor.h"

enum { AMD_SOCKETS = 64, AMD_PROCESSORS = 64, AMD_INIT_GPUS = 1 << 1, UW = 1000 };

/* Through the vendor's table, which the agent sets cards by as well. */
static int by_table(const struct sk_device_vendor *vendor, const struct sk_power_entry *entry,
		    char *why, size_t size)
{
	void *handle = NULL;
	int error = vendor->open(why, size);

	if (!error)
		error = vendor->find(entry->id, &handle, why, size);
	return error ? error : vendor->write(handle, entry->what, entry->value, why, size);
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
		opened = sk_device_library("libamd_smi.so", why, size);
	init = (int (*)(uint64_t))sk_device_find(opened, "amdsmi_init", why, size);
	if (!init)
		return NULL;
	code = init(AMD_INIT_GPUS);
	if (code) {
		sk_device_refuse(why, size, "amdsmi_init", code);
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
	int (*sockets)(uint32_t *, void **) = (int (*)(uint32_t *, void **))sk_device_find(
		library, "amdsmi_get_socket_handles", why, size);
	int (*processors)(void *, uint32_t *, void **) =
		(int (*)(void *, uint32_t *, void **))sk_device_find(
			library, "amdsmi_get_processor_handles", why, size);
	int (*place)(void *, uint64_t *) = (int (*)(void *, uint64_t *))sk_device_find(
		library, "amdsmi_get_gpu_device_bdf", why, size);
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
	int (*set)(void *, uint32_t, uint64_t) =
		(int (*)(void *, uint32_t, uint64_t))sk_device_find(library, "amdsmi_set_power_cap",
								    why, size);
	int (*get)(void *, uint32_t, struct power_cap_info *) =
		(int (*)(void *, uint32_t, struct power_cap_info *))sk_device_find(
			library, "amdsmi_get_power_cap_info", why, size);
	struct power_cap_info now = {0};
	int code;

	if (!device || !set || !get)
		return -ENODEV;
	code = set(device, 0, entry->value);
	if (code)
		return sk_device_refuse(why, size, "amdsmi_set_power_cap", code);
	code = get(device, 0, &now);
	if (code)
		return sk_device_refuse(why, size, "amdsmi_get_power_cap_info", code);
	return sk_device_same(now.cap / UW, entry->value / UW, why, size);
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

/* The number of a PCI device's hwmon folder is another one after a reload of its driver. */
static int hwmon(const struct sk_power_entry *entry, char *why, size_t size)
{
	struct sk_power_entry cap = {.value = entry->value};
	char pattern[sizeof(entry->id) + 32];
	unsigned long long now = 0;
	glob_t found;
	FILE *back;
	bool fits;

	snprintf(pattern, sizeof(pattern), "%s/hwmon/hwmon*/power1_cap", entry->id);
	if (glob(pattern, 0, NULL, &found)) {
		snprintf(why, size, "it has no power1_cap");
		return -ENODEV;
	}
	fits = strlen(found.gl_pathv[0]) < sizeof(cap.id);
	strncpy(cap.id, found.gl_pathv[0], sizeof(cap.id) - 1);
	globfree(&found);
	if (!fits || file(&cap, why, size))
		return -EIO;
	back = fopen(cap.id, "re");
	fits = back && fscanf(back, "%llu", &now) == 1;
	if (back)
		fclose(back);
	if (fits)
		return sk_device_same(now / UW, entry->value / UW, why, size);
	snprintf(why, size, "power1_cap cannot be read back");
	return -EIO;
}

int sk_power_write(const struct sk_power_entry *entry, char *why, size_t size)
{
	if (!strcmp(entry->kind, "nvidia"))
		return by_table(&sk_device_nvidia, entry, why, size);
	if (!strcmp(entry->kind, "amd"))
		return amd(entry, why, size);
	if (!strcmp(entry->kind, "intel"))
		return by_table(&sk_device_intel, entry, why, size);
	if (!strcmp(entry->kind, "hwmon"))
		return hwmon(entry, why, size);
	if (!strcmp(entry->kind, "file"))
		return file(entry, why, size);
	snprintf(why, size, "no vendor of that name");
	return -ENOSYS;
}
