/* SPDX-License-Identifier: Apache-2.0 */
/* Opens AMD SMI, finds a card in it, and writes and restores its power cap. */
#include "devices/amd/amdsmi.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "devices/library.h"

enum { SOCKETS = 64, PROCESSORS = 64, UW = 1000 };

struct sk_amd sk_amd;

/* Open the library where the amdsmi binding opens it, so that both have the same one. */
static void *library_of(char *why, size_t size)
{
	const char *root = getenv("ROCM_HOME") ? getenv("ROCM_HOME") : getenv("ROCM_PATH");
	char path[512];
	void *found = NULL;

	snprintf(path, sizeof(path), "%s/lib/libamd_smi.so", root ? root : "");
	if (root)
		found = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!found)
		found = dlopen("libamd_smi.so", RTLD_NOW | RTLD_GLOBAL);
	return found ? found : sk_device_library("/opt/rocm/lib/libamd_smi.so", why, size);
}

int sk_amd_open(char *why, size_t size)
{
	static void *ready;
	void *library;
	int code;

	if (ready)
		return 0;
	library = library_of(why, size);
	if (!sk_device_find(library, "amdsmi_init", why, size))
		return -ENODEV;
#define X(name, parameters) *(void **)&sk_amd.name = dlsym(library, #name);
	SK_AMD_READ_TABLE(X)
	SK_AMD_OTHER_TABLE(X)
#undef X
	code = sk_amd.amdsmi_init(AMD_INIT_GPUS);
	if (code)
		return sk_device_refuse(why, size, "amdsmi_init", code);
	ready = library;
	return 0;
}

/* amdsmi_bdf_t: function 3 bits, device 5, bus 8, domain 48, lowest first. */
static void print_bdf(uint64_t bdf, char *ret, size_t size)
{
	snprintf(ret, size, "%04llx:%02x:%02x.%x", (unsigned long long)(bdf >> 16),
		 (unsigned)(bdf >> 8 & 0xff), (unsigned)(bdf >> 3 & 0x1f), (unsigned)(bdf & 7));
}

int sk_amd_find(const char *address, void **ret, char *why, size_t size)
{
	void *socket[SOCKETS], *processor[PROCESSORS];
	uint32_t count = SOCKETS;

	snprintf(why, size, "no AMD GPU at %s", address);
	if (!sk_amd.amdsmi_get_socket_handles || !sk_amd.amdsmi_get_processor_handles ||
	    !sk_amd.amdsmi_get_gpu_device_bdf || sk_amd.amdsmi_get_socket_handles(&count, socket))
		return -ENODEV;
	for (uint32_t i = 0; i < count && i < SOCKETS; i++) {
		uint32_t most = PROCESSORS;

		if (sk_amd.amdsmi_get_processor_handles(socket[i], &most, processor))
			continue;
		for (uint32_t k = 0; k < most && k < PROCESSORS; k++) {
			uint64_t bdf;
			char text[32];

			if (sk_amd.amdsmi_get_gpu_device_bdf(processor[k], &bdf))
				continue;
			print_bdf(bdf, text, sizeof(text));
			if (strcasecmp(text, address))
				continue;
			*ret = processor[k];
			return 0;
		}
	}
	return -ENODEV;
}

int sk_amd_write(void *handle, const char *what, uint64_t value, char *why, size_t size)
{
	struct amd_cap now = {0};
	int code;

	if (!sk_amd.amdsmi_set_power_cap)
		return sk_device_missing(why, size, "amdsmi_set_power_cap");
	if (!sk_amd.amdsmi_get_power_cap_info)
		return sk_device_missing(why, size, "amdsmi_get_power_cap_info");
	code = sk_amd.amdsmi_set_power_cap(handle, 0, value);
	if (code)
		return sk_device_refuse(why, size, "amdsmi_set_power_cap", code);
	code = sk_amd.amdsmi_get_power_cap_info(handle, 0, &now);
	if (code)
		return sk_device_refuse(why, size, "amdsmi_get_power_cap_info", code);
	return sk_device_same(now.now / UW, value / UW, why, size);
}
