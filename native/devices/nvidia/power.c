/* SPDX-License-Identifier: Apache-2.0 */
/* Opens NVML, finds a card in it, and writes and restores its power limit and clocks. */
#include "devices/nvidia/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "devices/library.h"

struct sk_nvml sk_nvml;
const char *(*sk_nvml_words)(int code);

static void load(void *library)
{
#define X(name, parameters) *(void **)&sk_nvml.name = dlsym(library, #name);
	SK_NVML_READ_TABLE(X)
	SK_NVML_OTHER_TABLE(X)
#undef X
	*(void **)&sk_nvml_words = dlsym(library, "nvmlErrorString");
}

static int refuse(char *why, size_t size, const char *what, int code)
{
	const char *words = sk_nvml_words ? sk_nvml_words(code) : NULL;

	snprintf(why, size, "%s: error %d%s%s", what, code, words ? ", " : "", words ? words : "");
	return -EIO;
}

int sk_nvidia_open(char *why, size_t size)
{
	static void *ready;
	void *library = ready ? NULL : sk_device_library("libnvidia-ml.so.1", why, size);
	int code;

	if (ready)
		return 0;
	if (!sk_device_find(library, "nvmlInit_v2", why, size))
		return -ENODEV;
	load(library);
	code = sk_nvml.nvmlInit_v2();
	if (code)
		return refuse(why, size, "nvmlInit_v2", code);
	ready = library;
	return 0;
}

int sk_nvidia_find(const char *uuid, void **ret, char *why, size_t size)
{
	int code;

	if (!sk_nvml.nvmlDeviceGetHandleByUUID)
		return sk_device_missing(why, size, "nvmlDeviceGetHandleByUUID");
	code = sk_nvml.nvmlDeviceGetHandleByUUID(uuid, ret);
	return code ? refuse(why, size, "nvmlDeviceGetHandleByUUID", code) : 0;
}

static int write_limit(void *handle, uint64_t mw, char *why, size_t size)
{
	uint32_t now = 0;
	int code;

	if (!sk_nvml.nvmlDeviceSetPowerManagementLimit)
		return sk_device_missing(why, size, "nvmlDeviceSetPowerManagementLimit");
	if (!sk_nvml.nvmlDeviceGetPowerManagementLimit)
		return sk_device_missing(why, size, "nvmlDeviceGetPowerManagementLimit");
	code = sk_nvml.nvmlDeviceSetPowerManagementLimit(handle, (uint32_t)mw);
	if (code)
		return refuse(why, size, "nvmlDeviceSetPowerManagementLimit", code);
	code = sk_nvml.nvmlDeviceGetPowerManagementLimit(handle, &now);
	if (code)
		return refuse(why, size, "nvmlDeviceGetPowerManagementLimit", code);
	return sk_device_same(now, mw, why, size);
}

/* A card that cannot lock clocks (before Volta, or with an older driver) has none to unlock. */
static int reset_clocks(void *handle, char *why, size_t size)
{
	int code = sk_nvml.nvmlDeviceResetGpuLockedClocks
			   ? sk_nvml.nvmlDeviceResetGpuLockedClocks(handle)
			   : NVML_FUNCTION_NOT_FOUND;

	if (code && code != NVML_NOT_SUPPORTED && code != NVML_FUNCTION_NOT_FOUND)
		return refuse(why, size, "nvmlDeviceResetGpuLockedClocks", code);
	return 0;
}

static int write_clocks(void *handle, uint64_t range, char *why, size_t size)
{
	int code;

	if (!range)
		return reset_clocks(handle, why, size);
	if (!sk_nvml.nvmlDeviceSetGpuLockedClocks)
		return sk_device_missing(why, size, "nvmlDeviceSetGpuLockedClocks");
	code = sk_nvml.nvmlDeviceSetGpuLockedClocks(handle, (uint32_t)(range >> 32),
						    (uint32_t)range);
	return code ? refuse(why, size, "nvmlDeviceSetGpuLockedClocks", code) : 0;
}

int sk_nvidia_write(void *handle, const char *what, uint64_t value, char *why, size_t size)
{
	if (!strcmp(what, "limit_mw"))
		return write_limit(handle, value, why, size);
	return write_clocks(handle, value, why, size);
}
