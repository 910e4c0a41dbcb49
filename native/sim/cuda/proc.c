/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-up of the simulated CUDA driver's functions by name and version, as the runtime and the
 * Python bindings do, and texts of its errors.
 */
#include <string.h>

#include "sim/cuda/library.h"
#include "sim/cuda/names.h"

typedef void (*function)(void);

enum status { FOUND = 0, UNKNOWN = 1, TOO_OLD = 2 };

#define DECLARE(name, version, symbol) extern int symbol();
#define ROW(name, version, symbol) {#name, version, (function)symbol},

SK_CUDA_NAMES(DECLARE)

static const struct {
	const char *name;
	int version;
	function at;
} FUNCTIONS[] = {SK_CUDA_NAMES(ROW)};

/* Find the newest function of a version. A copy of this library that plays an older driver lacks
 * some, whose addresses are NULL. Flags for per-thread default streams change nothing. */
static enum status find(const char *name, int version, void **ret)
{
	enum status status = UNKNOWN;

	*ret = NULL;
	for (uint32_t i = 0; i < sizeof(FUNCTIONS) / sizeof(*FUNCTIONS); i++) {
		if (!FUNCTIONS[i].at || strcmp(FUNCTIONS[i].name, name) != 0)
			continue;
		if (FUNCTIONS[i].version <= version) {
			*ret = (void *)FUNCTIONS[i].at;
			status = FOUND;
		} else if (status == UNKNOWN) {
			status = TOO_OLD;
		}
	}
	return status;
}

SK_CUDA cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *status)
{
	enum status found;

	if (!name || !ret)
		return SK_CUDA_INVALID_VALUE;
	found = find(name, version, ret);
	if (status)
		*status = (int)found;
	return found == FOUND || status ? SK_CUDA_SUCCESS : SK_CUDA_NOT_FOUND;
}

SK_CUDA cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(name, ret, version, flags, NULL);
}

static const struct {
	int code;
	const char *name, *text;
} ERRORS[] = {
	{SK_CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{SK_CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{SK_CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{SK_CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{SK_CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{SK_CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{SK_CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{SK_CUDA_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
	{SK_CUDA_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
	{SK_CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{SK_CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{SK_CUDA_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{SK_CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{SK_CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{SK_CUDA_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	 "system has unsupported display driver / cuda driver combination"},
	{SK_CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int explain(int code, bool text, const char **ret)
{
	*ret = NULL;
	for (uint32_t i = 0; i < sizeof(ERRORS) / sizeof(*ERRORS); i++)
		if (ERRORS[i].code == code)
			*ret = text ? ERRORS[i].text : ERRORS[i].name;
	return *ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE;
}

SK_CUDA cuGetErrorName(int code, const char **ret)
{
	return ret ? explain(code, false, ret) : SK_CUDA_INVALID_VALUE;
}

SK_CUDA cuGetErrorString(int code, const char **ret)
{
	return ret ? explain(code, true, ret) : SK_CUDA_INVALID_VALUE;
}
