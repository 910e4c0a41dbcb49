/* SPDX-License-Identifier: Apache-2.0 */
#include "api.h"

#include <dlfcn.h>
#include <stdlib.h>

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
				    "libcupti.so"};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void *open_any(int flags)
{
	void *library = NULL;

	for (unsigned i = 0; i < NAMES && !library; i++)
		library = dlopen(names[i], flags);
	return library;
}

/* The library is never closed, since CUPTI may have threads and callbacks as long as the process
 * lives. */
static void *open_library(void)
{
	const char *path = getenv("STOKER_CUPTI");
	void *library = open_any(RTLD_LAZY | RTLD_NOLOAD);

	if (!library && path && path[0] == '/')
		library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	return library ? library : open_any(RTLD_LAZY | RTLD_LOCAL);
}

/* Return false when a function is missing that every version from 11.6 on has. */
static bool find_all(void *library, struct sk_cupti_api *api)
{
	const struct {
		const char *name;
		void **to;
		bool optional;
	} rows[] = {
		{"cuptiGetVersion", (void **)&api->get_version, false},
		{"cuptiGetResultString", (void **)&api->get_result_string, false},
		{"cuptiSubscribe", (void **)&api->subscribe, false},
		{"cuptiUnsubscribe", (void **)&api->unsubscribe, false},
		{"cuptiEnableCallback", (void **)&api->enable_callback, false},
		{"cuptiActivityEnable", (void **)&api->activity_enable, false},
		{"cuptiActivityDisable", (void **)&api->activity_disable, false},
		{"cuptiActivityRegisterCallbacks", (void **)&api->register_callbacks, false},
		{"cuptiActivityRegisterTimestampCallback", (void **)&api->register_clock, false},
		{"cuptiActivitySetAttribute", (void **)&api->set_attribute, false},
		{"cuptiActivityGetNextRecord", (void **)&api->next_record, false},
		{"cuptiActivityFlushAll", (void **)&api->flush_all, false},
		{"cuptiActivityGetNumDroppedRecords", (void **)&api->dropped_records, false},
		{"cuptiSubscribe_v2", (void **)&api->subscribe_v2, true},
		{"cuptiActivityEnableLatencyTimestamps", (void **)&api->latency_stamps, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		*rows[i].to = dlsym(library, rows[i].name);
		if (!*rows[i].to && !rows[i].optional)
			return false;
	}
	return true;
}

const char *sk_cupti_api_load(struct sk_cupti_api *ret)
{
	void *library = open_library();

	if (!library)
		return "(libcupti.so.13 or .12 was not found)";
	if (!find_all(library, ret))
		return "(libcupti is older than CUDA 11.6)";
	/* A library without a version call has the functions that count. */
	if (!ret->get_version(&ret->version) && ret->version < SK_CUPTI_VERSION_MIN)
		return "(libcupti is older than CUDA 11.6)";
	return NULL;
}

void sk_cupti_cuda_load(struct sk_cupti_cuda *ret)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	const struct {
		const char *name;
		void **to;
	} rows[] = {
		{"cuDriverGetVersion", (void **)&ret->driver_version},
		{"cuCtxGetDevice", (void **)&ret->device_of_context},
		{"cuDeviceGetName", (void **)&ret->device_name},
		{"cuDeviceGetUuid", (void **)&ret->device_uuid},
		{"cuDeviceGetUuid_v2", (void **)&ret->device_uuid_v2},
		{"cuStreamIsCapturing", (void **)&ret->is_capturing},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		*rows[i].to = driver ? dlsym(driver, rows[i].name) : NULL;
	ret->simulated = driver && dlsym(driver, "stoker_sim_driver");
}
